"""Packets that a program has at hand: names of captures, an open file, packets of scapy, blocks."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sized
from itertools import chain, islice
from os import PathLike, fspath
from typing import Any, Protocol, TypeAlias

from kinspect.capture.reader import BLOCK_SIZE
from kinspect.capture.scapypackets import LINK_TYPES, Converter, PacketRow, ScapyPacket, is_packet
from kinspect.capture.source import unreadable
from kinspect.capture.timeline import Packets, SourceStatus, open_timeline
from kinspect.errors import CaptureError, KinspectError, TruncatedCaptureError
from kinspect.model import SKEW_NS, Block

NAME = "packets"
"""Name in frame references of packets that come from no file."""
KINDS = "give a path, paths, a file opened for reading bytes, packets of scapy, or blocks"


class Readable(Protocol):
    """A file opened for reading bytes."""

    def read(self, size: int, /) -> bytes | None: ...


Path: TypeAlias = str | PathLike[str]
PythonInput: TypeAlias = Path | Readable | Iterable[Path] | Iterable[ScapyPacket | Block]


def open_input(given: PythonInput, skew_ns: int = SKEW_NS) -> Packets:
    """Packets of what was given; of an iterable the first item decides whether it gives paths. `skew_ns`: as of
    `open_timeline`.

    Raises KinspectError for an object of another kind. An item of another kind is in the `status` of the result.
    """
    if isinstance(given, str | PathLike):
        return open_timeline([_path(given)])
    if callable(getattr(given, "read", None)):
        return _open_file(given)
    if isinstance(given, bytes | bytearray | memoryview) or not isinstance(given, Iterable):
        raise KinspectError(f"cannot read {_kind(given)}: {KINDS}")
    items: Iterator[Any] = iter(given)
    first = [*islice(items, 1)]
    items = chain(first, items)
    if first and not isinstance(first[0], str | PathLike):
        return PythonPackets(items, isinstance(given, Sized))
    return open_timeline([_path(path) for path in items], skew_ns=skew_ns)


def _kind(value: object) -> str:
    return f"an object of type {type(value).__name__}"


def _path(value: Any) -> str:
    path = fspath(value) if isinstance(value, str | PathLike) else None
    if not isinstance(path, str):
        raise KinspectError(f"{_kind(value)} among paths is none")
    if "\0" in path:
        raise CaptureError(f"{path!r}: no file has such a name")
    return path


def _open_file(file: Any) -> Packets:
    if isinstance(file, io.TextIOBase):
        raise CaptureError(f"{_kind(file)} gives text: open the capture for reading bytes")
    source = FileObjectSource(file)
    timeline = open_timeline([source.name], open_input=lambda _: source)
    timeline.bytes_total = 0 if source.is_whole else None
    return timeline


class FileObjectSource:
    """A `Source` of an open file, which is its owner's to close. `is_whole`: it does not grow while it is read."""

    def __init__(self, file: Any) -> None:
        name = getattr(file, "name", None)
        self.name = name if isinstance(name, str) and "\0" not in name else type(file).__name__
        self.position = 0
        self.is_whole = self._asked(getattr(file, "seekable", bool))
        # A single read of what a pipe holds, as of standard input.
        self._read = getattr(file, "read1", file.read)

    def read(self, size: int) -> bytes:
        data = self._asked(lambda: self._read(size)) or b""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise CaptureError(f"{self.name}: gives {_kind(data)} in place of bytes")
        self.position += len(data)
        return bytes(data)

    def _asked(self, method: Any) -> Any:
        try:
            return method()
        except OSError as error:
            raise unreadable(self.name, error) from error
        except EOFError as error:
            raise TruncatedCaptureError(f"{self.name}: {error}") from error
        except Exception as error:
            raise CaptureError(f"{self.name}: cannot be read: {error!r}") from error

    def release(self) -> None: ...

    def close(self) -> None: ...


class PythonPackets:
    """Packets of scapy and blocks as they are handed over, numbered in their order.

    Unless they are `whole` before they are read, each packet is a block of its own: what comes next may take its time.
    """

    def __init__(self, items: Iterator[Any], whole: bool) -> None:
        self.files = [NAME]
        self.secrets: list[bytes] = []
        self.status = SourceStatus([], bytes_total=0 if whole else None)
        self._items = items
        self._block_size = BLOCK_SIZE if whole else 0
        self._converter = Converter()

    def __iter__(self) -> Iterator[Block]:
        frame = 1
        for block in self._blocks():
            yield Block(
                block.data, frame, block.times, block.starts, block.ends, block.wire_lengths, block.link_types
            )
            frame += len(block)

    def close(self) -> None:
        """Leave the items alone: they are their owner's."""

    def _blocks(self) -> Iterator[Block]:
        rows: list[PacketRow] = []
        size = 0
        for number, item in enumerate(self._items, 1):
            try:
                found = self._understood(item)
            except CaptureError as error:
                self.status.errors.append(type(error)(f"item {number}: {error}"))
                break
            if isinstance(found, PacketRow):
                rows.append(found)
                size += len(found.data)
            if rows and (isinstance(found, Block) or size >= self._block_size):
                yield _block(rows)
                rows, size = [], 0
            if isinstance(found, Block):
                yield found
        if rows:
            yield _block(rows)

    def _understood(self, item: object) -> PacketRow | Block:
        if isinstance(item, Block):
            if not _is_sound(item):
                raise CaptureError("its columns are of different lengths, or hold what no packet has")
            return item
        if is_packet(item):
            return self._converter.row(item)
        raise CaptureError(f"{_kind(item)} is neither a packet of scapy nor a block: {KINDS}")


def _block(rows: list[PacketRow]) -> Block:
    ends, end = [], 0
    for row in rows:
        end += len(row.data)
        ends.append(end)
    data, times, wire_lengths, link_types = zip(*rows, strict=True)
    return Block(b"".join(data), 1, [*times], [0, *ends[:-1]], ends, [*wire_lengths], [*link_types])


def _is_sound(block: Block) -> bool:
    """True if a block that somebody else made is one."""
    numbers = (block.starts, block.ends, block.wire_lengths, block.link_types)
    columns = (block.times, *numbers)
    return (
        isinstance(block.data, bytes)
        and all(isinstance(column, list) for column in columns)
        and {len(column) for column in columns} == {len(block)}
        and all(isinstance(value, int) for column in numbers for value in column)
        and all(time is None or isinstance(time, int) for time in block.times)
        and all(0 <= start <= end for start, end in zip(block.starts, block.ends, strict=True))
        and max(block.ends, default=0) <= len(block.data)
        and min(block.wire_lengths, default=0) >= 0
        and all(link_type in LINK_TYPES for link_type in block.link_types)
    )
