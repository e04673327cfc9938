"""Pieces of the committed captures, for seeds."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from kinspect import link
from kinspect.capture import open_timeline
from kinspect.model import Caps, Counts, Progress
from kinspect.tcp import Connection, Reassembler

TESTS = Path(__file__).parents[1]
CAPTURES = TESTS.parent / "captures"

Piece = tuple[int, bytes]
"""A direction, and the next bytes of its stream."""


def content(path: Path) -> bytes:
    """A capture's bytes, expanded."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data


class Stream:
    """A handler that keeps what comes first on a connection."""

    def __init__(self, connection: Connection, limit: int) -> None:
        self.connection = connection
        self.limit = limit
        self.pieces: list[Piece] = []

    def data(
        self, direction: int, time: int | None, frame: int, buffer: bytes, start: int, end: int, /
    ) -> None:
        self.limit -= end - start
        if self.limit >= 0:
            self.pieces.append((direction, buffer[start:end]))

    def gap(self, direction: int, time: int | None, frame: int, size: int, cause: str, /) -> None:
        self.limit = 0

    def repeated(self, direction: int, start: int, end: int, /) -> None:
        pass

    def fin(self, direction: int, time: int | None, frame: int, /) -> None:
        pass

    def closed(self, time: int | None, frame: int, reason: str, /) -> None:
        pass


def connections(path: Path, limit: int) -> list[Stream]:
    """The connections of a capture, each up to `limit` bytes."""
    found: list[Stream] = []

    def open_connection(connection: Connection) -> Stream:
        found.append(Stream(connection, limit))
        return found[-1]

    reassembler = Reassembler(open_connection, Caps(), Counts(), Progress())
    for block in open_timeline([path]):
        reassembler.feed(link.segments(block, Counts()))
    reassembler.flush()
    return [stream for stream in found if stream.pieces]


@cache
def kafka_captures() -> tuple[Path, ...]:
    """A capture of each kind of client, about."""
    by_name = {
        path.name: path
        for folder in sorted(CAPTURES.iterdir())
        if folder.is_dir() and folder.name[0].isdigit()
        for path in sorted(folder.glob("*.pcap*"))
    }
    return tuple(by_name.values())


def every(path: Path) -> Iterator[tuple[bytes, int, int]]:
    """A capture's packets: bytes, length on the wire, link type."""
    for block in open_timeline([path]):
        for start, end, wire, link_type in zip(
            block.starts, block.ends, block.wire_lengths, block.link_types, strict=True
        ):
            yield block.data[start:end], wire, link_type
