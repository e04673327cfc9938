"""Packets and segments as Arrow rows, as tasks hand them on and as `format("kinspect")` shows them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from kinspect import link
from kinspect.capture import slice_block
from kinspect.capture.reader import BLOCK_SIZE, Findings
from kinspect.errors import CaptureError, UnreadableError
from kinspect.model import Block, Caps, Counts, Segment
from kinspect.spark.index import Collector, Proven, canonical_ends
from kinspect.spark.storage import shown

_ROWS = 2048
_BYTES = 4 * 1024 * 1024

SEGMENT_ROWS = pa.schema(
    [
        ("ends", pa.binary()),
        ("ordinal", pa.int64()),
        ("frame", pa.int64()),
        ("time", pa.int64()),
        ("key", pa.binary()),
        ("seq", pa.int64()),
        ("ack", pa.int64()),
        ("flags", pa.int32()),
        ("missing", pa.int32()),
        ("mark", pa.int64()),
        ("payload", pa.binary()),
    ]
)
"""What is shuffled: a segment, its place among all segments, and the ends by which connections are told apart."""

NEVER = 1 << 62
_SIGN, _ALL = 1 << 63, 1 << 64


def segment_batches(proven: Proven, caps: Caps) -> Iterator[pa.RecordBatch]:
    """The segments of a split, with their ordinals."""
    rows: list[tuple[Any, ...]] = []
    size = 0
    for ordinal, segment in _numbered(proven, caps):
        rows.append(segment_row(ordinal, segment))
        size += segment[7] - segment[6]
        if len(rows) >= _ROWS or size >= _BYTES:
            yield segment_batch(rows)
            rows, size = [], 0
    if rows:
        yield segment_batch(rows)


def _numbered(proven: Proven, caps: Caps) -> Iterator[tuple[int, Segment]]:
    for segments, ordinals in numbered(proven, caps):
        yield from zip(ordinals, segments, strict=True)


def numbered(proven: Proven, caps: Caps) -> Iterator[tuple[list[Segment], Sequence[int]]]:
    """The segments of a split with their ordinals, some at a time."""
    first, runs = proven.first_frame, list(proven.runs)
    dissector = link.Dissector(caps, Counts(), Collector())
    ordinal = 0
    # Those have ordinals, and were put together elsewhere.
    completed = sorted((first + number for number in proven.completed), reverse=True)
    for block in blocks_of(proven):
        segments = dissector.segments(block)
        begin = 0
        while begin < len(segments):
            frame = segments[begin][9]
            # The frames before which the ordinals go on elsewhere.
            run = first + runs[0][0] if runs else NEVER
            whole = completed[-1] if completed else NEVER
            if run <= min(frame, whole):
                ordinal = runs.pop(0)[2]
            elif whole < frame:
                completed.pop()
                ordinal += 1
            else:
                end = bisect_left(segments, min(run, whole), begin, key=itemgetter(9))
                yield segments[begin:end], range(ordinal, ordinal + end - begin)
                ordinal += end - begin
                begin = end


def blocks_of(proven: Proven) -> Iterator[Block]:
    """The packets of a split: as many as were found there when it was looked at. What is behind them could not be read,
    or is new. Raises UnreadableError if there are fewer."""
    left = proven.packets
    if not left:
        return
    try:
        for block in proven.split.blocks(proven.first_frame, BLOCK_SIZE, Findings()):
            yield block if len(block) <= left else slice_block(block, 0, left)
            left -= len(block)
            if left <= 0:
                return
    except CaptureError as error:
        raise UnreadableError(str(error)) from error
    raise UnreadableError(f"{shown(proven.split.path)}: has fewer packets than when it was looked at")


def segment_row(ordinal: int, segment: Segment) -> tuple[Any, ...]:
    """A row of `SEGMENT_ROWS`."""
    key, time, seq, ack, flags, data, start, end, missing, frame, mark = segment
    signed = mark - _ALL if mark & _SIGN else mark
    return (
        canonical_ends(key),
        ordinal,
        frame,
        time,
        key,
        seq,
        ack,
        flags,
        missing,
        signed,
        data[start:end],
    )


def segment_batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    """The rows as a batch of `SEGMENT_ROWS`."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SEGMENT_ROWS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SEGMENT_ROWS)


def segments_of(batch: pa.RecordBatch) -> tuple[list[Segment], list[int]]:
    """The segments of a batch and their ordinals. Payloads stay in one buffer."""
    payload = batch.column("payload").cast(pa.binary())
    _, offsets_buffer, data_buffer = payload.buffers()
    offsets = pa.Array.from_buffers(
        pa.int32(), len(payload) + 1, [None, offsets_buffer], offset=payload.offset
    ).to_pylist()
    data = b"" if data_buffer is None else data_buffer.to_pybytes()
    columns = {
        name: batch.column(name).to_pylist() for name in SEGMENT_ROWS.names if name not in ("ends", "payload")
    }
    segments = [
        (key, time, seq, ack, flags, data, start, end, missing, frame, mark % _ALL)
        for key, time, seq, ack, flags, start, end, missing, frame, mark in zip(
            columns["key"],
            columns["time"],
            columns["seq"],
            columns["ack"],
            columns["flags"],
            offsets,
            offsets[1:],
            columns["missing"],
            columns["frame"],
            columns["mark"],
            strict=False,
        )
    ]
    return segments, columns["ordinal"]  # type: ignore[return-value]
