"""How far the clocks of captures differ: from packets that two of them hold, and from acknowledgments.

A packet that both hold was on its way between them. One way it seems late by the clocks' difference and the time it
took, the other way by the difference less that time: the middle is the difference, if both ways take as long (RFC 5905
§8). Where each capture holds one direction, no acknowledgment comes before what it acknowledges: that limits the
difference from both sides. The middle is taken, or no difference if that is possible. Only the first packets of each
capture are looked at.

Nothing is said of captures that follow one another, as rotated ones do: few packets stand on both sides of a border.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from kinspect.link import Dissector
from kinspect.model import ACK, FIN, SYN, Block, Caps, Counts
from kinspect.tcp.flowkeys import ends, pair, reverse_key
from kinspect.tcp.sequence import NEAR, distance

LOOKED_AT: Final = 20_000
"""Packets of a capture that are looked at."""
LOOKED_AT_IN_ALL: Final = 400_000
SURE: Final = 3
"""Packets, or acknowledgments in each direction, that two captures must share."""
SLACK_NS: Final = 1_000_000
"""Time by which captures have packets out of order."""
MOST_OF_TEN: Final = 6
"""So many of ten packets of the connections that two captures share must be in both, in the time that they share."""

Key = bytes
Sent = tuple[Key, int, int, int, int]
"""What distinguishes a packet from all others, in every place where it is captured: ends, sequence number,
acknowledgment, what tells its sendings apart, and size."""
Pair = tuple[int, int]
Bounds = tuple[int, int]


class ClockOffset(NamedTuple):
    """The clock of the capture `file` is `offset_ns` ahead of that of the capture `to`; both are indexes. `applied`:
    that was taken from the times of its packets."""

    file: int
    to: int
    offset_ns: int
    applied: bool


class _Way(NamedTuple):
    """What one direction of a connection sent in a capture: ends of its data and acknowledgments, relative to the first
    one, each with the time of the first packet that had it, rising."""

    data: list[tuple[int, int]]
    acks: list[tuple[int, int]]
    first_seq: int
    first_ack: int


class _Heads:
    """The first packets of the captures: for each capture the times of its packets, and each direction of a connection
    by the captures that hold it."""

    def __init__(self, captures: Sequence[Iterable[Block]]) -> None:
        # A tuple for each packet and nothing more: all that is read of several captures waits for this.
        self.packets: list[dict[Sent, int]] = [{} for _ in captures]
        self.ways: defaultdict[Key, dict[int, _Way]] = defaultdict(dict)
        most = min(LOOKED_AT, LOOKED_AT_IN_ALL // max(1, len(captures)))
        for file, blocks in enumerate(captures):
            self._read(file, blocks, most)

    def _read(self, file: int, blocks: Iterable[Block], most: int) -> None:
        dissector, packets = Dissector(Caps(), Counts()), self.packets[file]
        for block in blocks:
            for key, time, seq, ack, flags, _, start, end, missing, _, mark in dissector.segments(block):
                if time is None or not flags & (ACK | SYN):
                    continue
                here, size, sending = ends(key), end - start + missing, mark >> 32
                if flags & SYN or sending >> 16:
                    packets.setdefault((here, seq, ack, sending, size), time)
                if flags & ACK:
                    way = self.ways[here].get(file)
                    if way is None:
                        way = self.ways[here][file] = _Way([], [], seq, ack)
                    _note(way.data, distance(seq + size + bool(flags & (SYN | FIN)), way.first_seq), time)
                    _note(way.acks, distance(ack, way.first_ack), time)
            most -= len(block)
            if most <= 0:
                break


def _note(known: list[tuple[int, int]], number: int, time: int) -> None:
    if not known or number > known[-1][0]:
        known.append((number, time))


def clock_offsets(captures: Sequence[Iterable[Block]]) -> list[tuple[int, int] | None]:
    """For each capture another one and how far its clock is ahead of that one's, in nanoseconds; None for those that
    share nothing with an earlier one, or too little to know."""
    heads = _Heads(captures)
    found = {**_of_acknowledgments(heads), **_of_copies(heads)}
    beside: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for (one, other), offset in found.items():
        beside[one].append((other, offset))
        beside[other].append((one, -offset))
    offsets: list[tuple[int, int] | None] = [None] * len(captures)
    reached: set[int] = set()
    for first in sorted(beside):
        if first in reached:
            continue
        reached.add(first)
        waiting = [(first, 0)]
        for known, ahead in waiting:
            for other, offset in beside[known]:
                if other not in reached:
                    reached.add(other)
                    offsets[other] = first, ahead + offset
                    waiting.append((other, ahead + offset))
    return offsets


def _of_copies(heads: _Heads) -> dict[Pair, int]:
    """The differences between captures that hold the same packets."""
    first: dict[Sent, int] = {}
    later: defaultdict[Pair, defaultdict[Key, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
    for other, packets in enumerate(heads.packets):
        for sent, time in packets.items():
            one = first.setdefault(sent, other)
            if one != other:
                later[one, other][sent[0]].append((heads.packets[one][sent], time))
    found = {}
    for (one, other), ways in later.items():
        if _is_one_wire(ways, heads.packets[one], heads.packets[other]):
            offset = _middle(ways)
            if offset is not None:
                found[one, other] = offset
    return found


def _is_one_wire(
    ways: dict[Key, list[tuple[int, int]]], one: dict[Sent, int], other: dict[Sent, int]
) -> bool:
    """True if most packets of the connections that both captures hold are in both, in the time that they share."""
    both = [times for seen in ways.values() for times in seen]
    if len(both) < SURE:
        return False
    for side, packets in enumerate((one, other)):
        times = [each[side] for each in both]
        first, last = min(times), max(times)
        there = sum(sent[0] in ways and first <= time <= last for sent, time in packets.items())
        if 10 * len(both) < MOST_OF_TEN * there:
            return False
    return True


def _middle(ways: dict[Key, list[tuple[int, int]]]) -> int | None:
    """The difference, from how much later each direction's packets were seen; None if there is one direction alone,
    since the time that they took is unknown."""
    by_pair: defaultdict[Key, list[list[int]]] = defaultdict(list)
    for here, seen in ways.items():
        by_pair[pair(here)].append([time - first for first, time in seen])
    found = []
    for directions in by_pair.values():
        if len(directions) == 2:
            less, more = sorted(directions, key=_median)
            nearest = max(less), min(more)
            found.append(
                sum(nearest) // 2 if nearest[0] <= nearest[1] else (_median(less) + _median(more)) // 2
            )
    return _median(found) if found else None


def _of_acknowledgments(heads: _Heads) -> dict[Pair, int]:
    """The differences between captures of which one holds one direction of all connections that they share, the other
    the other one."""
    found: defaultdict[Pair, list[Bounds]] = defaultdict(list)
    mixed: set[Pair] = set()
    for here, files in heads.ways.items():
        backs = heads.ways.get(reverse_key(here), {})
        for one, way in files.items():
            for other, back in backs.items():
                if one == other:
                    continue
                ordered = min(one, other), max(one, other)
                if one in backs or other in files:
                    mixed.add(ordered)
                elif one < other and (bounds := _bounds(way, back)) is not None:
                    found[ordered].append(bounds)
    return {files: _within(bounds) for files, bounds in found.items() if files not in mixed}


def _within(bounds: list[Bounds]) -> int:
    """The difference within the bounds of all connections: none, if they allow it."""
    least, most = (max(low for low, _ in bounds), min(high for _, high in bounds))
    if least > most:
        return _median([(low + high) // 2 for low, high in bounds])
    return 0 if least - SLACK_NS <= 0 <= most + SLACK_NS else (least + most) // 2


def _bounds(way: _Way, back: _Way) -> Bounds | None:
    """The least and the greatest difference that the acknowledgments of a connection's two directions allow; None if
    there are too few."""
    most = _least(way.data, way.first_seq, back.acks, back.first_ack)
    least = _least(back.data, back.first_seq, way.acks, way.first_ack)
    return None if most is None or least is None or most + least < 0 else (-least, most)


def _least(
    data: list[tuple[int, int]], first: int, acks: list[tuple[int, int]], first_ack: int
) -> int | None:
    """The least time from data to its acknowledgment, by the two clocks; None if too few fit."""
    shift = distance(first, first_ack)
    if abs(shift) > NEAR:
        return None
    waits = []
    for reach, time in data:
        at = bisect_left(acks, (reach + shift,))
        if at < len(acks):
            waits.append(acks[at][1] - time)
    return min(waits) if len(waits) >= SURE else None


def _median(values: Sequence[int]) -> int:
    return sorted(values)[len(values) // 2]
