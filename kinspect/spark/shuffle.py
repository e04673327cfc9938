"""Rows of the shuffle: the packets of an island in a split, as chunks; fragments; a report of each split."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, repeat
from struct import Struct
from typing import NamedTuple, cast

import pyarrow as pa

from kinspect.model import Segment
from kinspect.tcp.timestamps import OPTION_BYTES

CHUNK, INSERT, FRAGMENT, REPORT = 0, 1, 2, 3
"""Kinds of rows: packets of an island; segments put together from fragments; a fragment; the report of a split."""

NO_TIME = -(1 << 63)
"""Stands for None among times."""
EARLIEST = NO_TIME + 1
"""Merge time of packets before the first one that has a time."""

ROWS = pa.schema(
    [
        ("kind", pa.int32()),
        ("island", pa.binary()),
        ("time", pa.int64()),
        ("file", pa.int32()),
        ("split", pa.int32()),
        ("number", pa.int32()),
        ("chunks", pa.int32()),
        ("heads", pa.binary()),
        ("payload", pa.binary()),
    ]
)
"""`time`: merge time of the chunk's first packet (see `capture.merging`), as far as the packets of its split show it.

Each island has one row with `chunks`, their number, for each split. Its time is `NO_TIME`, so it comes before all
others."""
SORTED_BY = ("island", "time", "file", "split", "number")

CHUNK_BYTES = 512 * 1024
SMALL_BYTES = 4 * 1024
"""Size below which the packets of an island in a split are one row."""
KEPT_BYTES = 64 * 1024 * 1024
"""Most bytes that a task holds of such islands."""
_PACKET_BYTES = 200
"""Memory of a waiting segment beside its payload."""
_BATCH_BYTES = 4 * 1024 * 1024

_COUNTS = Struct("<IHB")
_LENGTH = Struct("<H")
_COLUMNS = "qIIHIIIQH"
_TURN = "q"
_NO_OPTION = bytes(OPTION_BYTES)


class Chunk(NamedTuple):
    """A row of `ROWS`."""

    kind: int
    island: bytes
    time: int
    file: int
    split: int
    number: int
    chunks: int | None
    heads: bytes
    payload: bytes


def batches(rows: Iterable[Chunk]) -> Iterator[pa.RecordBatch]:
    """Rows as batches of a few MiB."""
    some: list[Chunk] = []
    size = 0
    for row in rows:
        some.append(row)
        size += len(row.payload) + len(row.heads) + _PACKET_BYTES
        if size >= _BATCH_BYTES:
            yield _batch(some)
            some, size = [], 0
    if some:
        yield _batch(some)


def _batch(rows: list[Chunk]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, kind.type) for column, kind in zip(columns, ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ROWS)


def rows_of(batch: pa.RecordBatch) -> Iterator[Chunk]:
    """The rows of a batch."""
    columns = [batch.column(name).to_pylist() for name in ROWS.names]
    return map(Chunk._make, zip(*columns, strict=True))


def pack(segments: Sequence[Segment], first_frame: int, turns: Sequence[int] = ()) -> tuple[bytes, bytes]:
    """Segments as bytes: their heads and their payload, behind what may be a timestamp (`tcp.timestamps`). Frames count
    from `first_frame`; `turns`: merge times of the packets, if they differ from their times."""
    keys, times, seqs, acks, flags, datas, starts, ends, missing, frames, marks = zip(*segments, strict=True)
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    payload = [
        data[start - OPTION_BYTES : end] if start >= OPTION_BYTES else _NO_OPTION + data[start:end]
        for data, start, end in zip(datas, starts, ends, strict=True)
    ]
    columns = (
        times if None not in times else [NO_TIME if time is None else time for time in times],
        seqs,
        acks,
        flags,
        map(len, payload),
        missing,
        [frame - first_frame for frame in frames],
        marks,
        map(numbers.__getitem__, keys),
    )
    table = b"".join(_LENGTH.pack(len(key)) + key for key in numbers)
    packed = [array(code, column).tobytes() for code, column in zip(_COLUMNS, columns, strict=True)]
    packed.append(array(_TURN, turns).tobytes())
    counts = _COUNTS.pack(len(segments), len(numbers), bool(turns))
    return b"".join((counts, table, *packed)), b"".join(payload)


def unpack(heads: bytes, payload: bytes, first_frame: int) -> tuple[list[Segment], list[int]]:
    """Segments that `pack` packed, which share one buffer, and their merge times."""
    count, key_count, has_turns = _COUNTS.unpack_from(heads)
    at = _COUNTS.size
    keys = []
    for _ in range(key_count):
        (size,) = _LENGTH.unpack_from(heads, at)
        keys.append(heads[at + 2 : at + 2 + size])
        at += 2 + size
    columns: list[list[int]] = []
    for code in _COLUMNS + _TURN * has_turns:
        column = array(code)
        size = count * column.itemsize
        column.frombytes(heads[at : at + size])
        columns.append(column.tolist())
        at += size
    times, seqs, acks, flags, sizes, missing, frames, marks, numbers, *turns = columns
    ends = list(accumulate(sizes))
    known = times if NO_TIME not in times else [None if time == NO_TIME else time for time in times]
    rows = zip(
        [keys[number] for number in numbers],
        known,
        seqs,
        acks,
        flags,
        repeat(payload),
        [OPTION_BYTES, *[end + OPTION_BYTES for end in ends[:-1]]],
        ends,
        missing,
        [first_frame + frame for frame in frames],
        marks,
        strict=False,
    )
    return cast(list[Segment], list(rows)), turns[0] if turns else times


class IslandGrouping:
    """Packets of a split by island: takes segments, gives rows.

    `turns`: merge times by frame, where they differ from the packets' times; the caller adds to it.
    """

    def __init__(self, file: int, split: int, turns: dict[int, int]) -> None:
        self._place = file, split
        self._turns = turns
        self._waiting: dict[bytes, list[Segment]] = {}
        self._sizes: dict[bytes, int] = {}
        # Number of chunks given, by island.
        self._gone: dict[bytes, int] = {}

    def add(self, island: bytes, segments: list[Segment]) -> Iterator[Chunk]:
        """Takes segments of an island; gives their chunk if it is full."""
        waiting = self._waiting.setdefault(island, [])
        waiting += segments
        size = self._sizes.get(island, 0) + len(segments) * _PACKET_BYTES
        size += sum([segment[7] - segment[6] for segment in segments])
        if size < CHUNK_BYTES:
            self._sizes[island] = size
        else:
            yield self._chunk(island)

    def flush(self) -> Iterator[Chunk]:
        """Gives what waits. Islands that may become one row are kept, up to `KEPT_BYTES` in all."""
        least = SMALL_BYTES if sum(self._sizes.values()) < KEPT_BYTES else 0
        for island in [island for island, size in self._sizes.items() if size >= least]:
            yield self._chunk(island)

    def finish(self) -> Iterator[Chunk]:
        """Gives the rest, and the rows with the numbers of chunks."""
        for island in list(self._waiting):
            if island in self._gone or self._sizes[island] >= SMALL_BYTES:
                yield self._chunk(island)
            else:
                _, heads, payload = self._packed(island)
                yield Chunk(CHUNK, island, NO_TIME, *self._place, 0, 1, heads, payload)
        for island, count in self._gone.items():
            yield Chunk(CHUNK, island, NO_TIME, *self._place, -1, count, b"", b"")

    def _chunk(self, island: bytes) -> Chunk:
        number = self._gone.get(island, 0)
        self._gone[island] = number + 1
        time, heads, payload = self._packed(island)
        return Chunk(CHUNK, island, time, *self._place, number, None, heads, payload)

    def _packed(self, island: bytes) -> tuple[int, bytes, bytes]:
        segments = self._waiting.pop(island)
        self._sizes.pop(island, None)
        first, turns = segments[0], self._turns
        if turns and any(segment[9] in turns for segment in segments):
            own = [turns.get(segment[9], segment[1]) for segment in segments]
            return cast(int, own[0]), *pack(segments, 0, cast(list[int], own))
        return cast(int, first[1]), *pack(segments, 0)
