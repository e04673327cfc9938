"""Packets and connections: kinspect against tshark, over every capture that both can read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from peer import (
    CONNECTIONS,
    COPIES,
    PACKETS,
    Address,
    Frame,
    Reading,
    address,
    each,
    our_packets,
    their_packet,
)

from kinspect import link
from kinspect.capture import open_timeline
from kinspect.kafka.exchange.lines import ConnectionLine
from kinspect.model import FRAME_MASK, Block, Caps, Counts, Progress
from kinspect.pipeline import Inspector
from kinspect.tcp import Connection, Reassembler
from kinspect.tcp.connection import NullHandler

pytestmark = pytest.mark.tools

HOUSEKEEPING = 0x01 | 0x04 | 0x10
"""FIN, RST and ACK: what may come behind the end of a connection."""


class Traffic(NamedTuple):
    """Traffic of one side of a connection: packets, and bytes of its stream that the capture holds."""

    packets: int
    payload: int


class Span(NamedTuple):
    """A connection from its first frame to its last."""

    first: int
    last: int
    sides: dict[Address, Traffic]


def _blocks(reading: Reading) -> Iterator[Block]:
    yield from open_timeline([str(reading.row.path)])


@each(PACKETS)
def test_packets(reading: Reading) -> None:
    ours = our_packets(reading.row.path)
    assert ours == {frame.number: their_packet(frame) for frame in reading.frames}


def _covered(pieces: list[tuple[int, int]]) -> int:
    """Number of bytes of a stream in pieces `(begin, size)` of it; none is counted twice."""
    pieces = sorted(pieces)
    total, reached = 0, pieces[0][0]
    for begin, size in pieces:
        total += max(0, begin + size - max(begin, reached))
        reached = max(reached, begin + size)
    return total


def _streams(reading: Reading) -> list[list[Frame]]:
    streams: dict[str, list[Frame]] = {}
    for frame in reading.frames:
        streams.setdefault(frame.text("tcp.stream"), []).append(frame)
    return list(streams.values())


def _span(frames: list[Frame]) -> Span:
    sent: dict[Address, list[tuple[int, int]]] = {}
    for frame in frames:
        sent.setdefault(frame.source, []).append((frame.integer("tcp.seq"), frame.integer("tcp.len")))
    sides = {side: Traffic(len(pieces), _covered(pieces)) for side, pieces in sent.items()}
    return Span(frames[0].number, frames[-1].number, sides)


def _connections(reading: Reading) -> list[Connection]:
    connections: list[Connection] = []

    def handler(connection: Connection) -> NullHandler:
        connections.append(connection)
        return NullHandler()

    counts = Counts()
    reassembler = Reassembler(handler, Caps(), counts, Progress())
    for block in _blocks(reading):
        reassembler.feed(link.segments(block, counts))
    reassembler.flush()
    return connections


def _our_span(connection: Connection) -> Span:
    sides = {
        address(*end): Traffic(packets, payload)
        for end, packets, payload in zip(
            connection.addresses, connection.packets, connection.bytes, strict=True
        )
        if packets
    }
    return Span(connection.start_frame & FRAME_MASK, connection.last.frame & FRAME_MASK, sides)


def _uncounted(span: Span) -> Span:
    """A connection without its number of packets."""
    return span._replace(sides={side: traffic._replace(packets=0) for side, traffic in span.sides.items()})


@each(CONNECTIONS)
def test_connections(reading: Reading) -> None:
    """First and last frame, and packets and payload of each side.

    To kinspect a connection ends with the second FIN or with a reset; tshark counts the acknowledgment of the last
    FIN, and whatever is sent again, as well. What comes behind the end must be nothing but that.
    """
    ours = {span.first: span for span in map(_our_span, _connections(reading))}
    theirs, behind = {}, []
    for stream in _streams(reading):
        first = stream[0].number
        last = ours[first].last if first in ours else stream[-1].number
        theirs[first] = _span([frame for frame in stream if frame.number <= last])
        behind += [frame for frame in stream if frame.number > last]
    # A bare packet with the old connection's numbers, behind a SYN on its ports, is the old one's here and not there.
    empty = {first for first, span in ours.items() if not any(side.payload for side in span.sides.values())}
    for spans in (ours, theirs):
        spans.update({first: _uncounted(spans[first]) for first in empty & spans.keys()})
    if reading.row.file in COPIES:
        ours, theirs = (
            {first: _uncounted(span) for first, span in spans.items()} for spans in (ours, theirs)
        )
    assert ours == theirs
    assert [f.number for f in behind if f.integer("tcp.len") or f.integer("tcp.flags") & ~HOUSEKEEPING] == []


@each(CONNECTIONS)
def test_connection_lines(reading: Reading) -> None:
    """Connection lines as tshark has them: Community IDs, first frames and payload."""
    inspector = Inspector(emit=frozenset({"connection"}))
    lines = [line for block in _blocks(reading) for line in inspector.feed(block)] + [*inspector.finish()]
    ours = sorted(
        (
            line.community_id,
            line.start_time,
            *sorted(zip((line.client, line.broker), line.bytes, strict=True)),
        )
        for line in lines
        if isinstance(line, ConnectionLine)
    )
    theirs = []
    for stream in _streams(reading):
        sides = _span(stream).sides
        ends = sorted(
            (side, sides.get(side, Traffic(0, 0)).payload)
            for side in (stream[0].source, stream[0].destination)
        )
        theirs.append((stream[0].text("communityid"), stream[0].time, *ends))
    assert ours == sorted(theirs)
