"""The bytes of a pcap file, plain or compressed: packets, then an end or a `CaptureError`."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import NamedTuple

import lz4.frame

from kinspect.capture.compressed import is_compressed
from kinspect.capture.fileformats import open_capture
from kinspect.capture.reader import BLOCK_SIZE, Findings
from kinspect.errors import CaptureError

from ..traffic import CAPTURES, content

Packet = tuple[int, int | None, int, int, bytes]


class Reading(NamedTuple):
    packets: list[Packet]
    error: str
    findings: Findings


class Memory:
    """A source that hands out at most `step` bytes at once."""

    def __init__(self, data: bytes, step: int) -> None:
        self.name = "fuzz"
        self.position = 0
        self._data = data
        self._step = step

    def read(self, size: int) -> bytes:
        found = self._data[self.position : self.position + min(size, self._step)]
        self.position += len(found)
        return found

    def release(self) -> None:
        pass

    def close(self) -> None:
        pass


def read(data: bytes, step: int, block_size: int) -> Reading:
    """The packets of a file, and how it ends."""
    findings = Findings()
    packets: list[Packet] = []
    error = ""
    try:
        for block in open_capture(Memory(data, step), 1, block_size, findings):
            size = len(block)
            assert size, "a block without packets"
            assert block.first_frame == len(packets) + 1
            assert {len(block.times), len(block.ends), len(block.wire_lengths), len(block.link_types)} == {
                size
            }
            for index in range(size):
                start, end, wire = block.starts[index], block.ends[index], block.wire_lengths[index]
                assert 0 <= start <= end <= len(block.data)
                assert wire >= end - start
                packets.append(
                    (
                        block.first_frame + index,
                        block.times[index],
                        wire,
                        block.link_types[index],
                        block.data[start:end],
                    )
                )
    except CaptureError as found:
        error = f"{type(found).__name__}: {found}"
        assert "\n" not in error
    return Reading(packets, error, findings)


def fuzz(data: bytes) -> None:
    whole = read(data, len(data) + 1, BLOCK_SIZE)
    parts = read(data, 7, 16)
    if is_compressed(data[:4]) and whole.error and parts.error:
        # Of a damaged stream the last read may be lost, and its size differs.
        count = min(len(whole.packets), len(parts.packets))
        assert whole.packets[:count] == parts.packets[:count]
    else:
        assert parts == whole, "what was read depends on how it came"


def seeds() -> Iterator[bytes]:
    for path in sorted((CAPTURES / "variants").glob("*.pcap*")):
        if path.suffix in (".pcap", ".gz") and ".pcapng" not in path.suffixes:
            data = content(path)[:1500]
            yield data
            if path.name.startswith("nano"):
                yield from compressed(data)


def compressed(data: bytes) -> Iterator[bytes]:
    """The bytes in each compression that files come in."""
    import cramjam

    yield gzip.compress(data)
    yield gzip.compress(data[:700]) + gzip.compress(data[700:])
    yield lz4.frame.compress(data)
    yield bytes(cramjam.zstd.compress(data))
