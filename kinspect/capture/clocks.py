"""How far the clocks of captures differ: from packets that two of them hold, and from acknowledgments.

A packet that both hold was on its way between them. One way it seems late by the clocks' difference and the time it
took, the other way by the difference less that time: the middle is the difference, if both ways take as long (RFC 5905
§8). Where each capture holds one direction, no acknowledgment comes before what it acknowledges: that limits the
difference from both sides, and the middle is taken. Only the first packets of each capture are looked at.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from statistics import median
from typing import Final, NamedTuple

from kinspect.link import Dissector
from kinspect.model import ACK, FIN, SYN, Block, Caps, Counts
from kinspect.tcp.keys import ends, pair, reverse_key
from kinspect.tcp.sequence import NEAR, distance

LOOKED_AT: Final = 20_000
"""Packets of a capture that are looked at."""
LOOKED_AT_IN_ALL: Final = 400_000
SURE: Final = 3
"""Packets in two captures that make them captures of one wire; a packet with a SYN is enough."""


class ClockOffset(NamedTuple):
    """The clock of the capture `file` is `offset_ns` ahead of that of the capture `to`; both are indexes. `applied`:
    that was taken from the times of its packets."""

    file: int
    to: int
    offset_ns: int
    applied: bool


class _Sent(NamedTuple):
    """What distinguishes a packet from all others with the same ends, in every place where it is captured."""

    ends: bytes
    seq: int
    ack: int
    sending: int
    size: int


class _Way(NamedTuple):
    """What one direction of a connection sent: ends of its data and acknowledgments, relative to the first one, each
    with the time of the first packet that had it, rising."""

    data: list[tuple[int, int]]
    acks: list[tuple[int, int]]
    first_seq: int
    first_ack: int


class _Head:
    """The first packets of a capture."""

    def __init__(self, blocks: Iterable[Block], most: int) -> None:
        self.packets: dict[_Sent, int] = {}
        self.opened: set[_Sent] = set()
        self.ways: dict[bytes, _Way] = {}
        dissector = Dissector(Caps(), Counts())
        for block in blocks:
            for key, time, seq, ack, flags, _, start, end, missing, _, mark in dissector.segments(block):
                if time is None or not flags & (ACK | SYN):
                    continue
                here, size, sending = ends(key), end - start + missing, mark >> 32
                sent = _Sent(here, seq, ack, 0 if flags & SYN else sending, size)
                if flags & SYN or sending >> 16:
                    self.packets.setdefault(sent, time)
                if flags & SYN:
                    self.opened.add(sent)
                if flags & ACK:
                    self._note(here, seq + size + bool(flags & (SYN | FIN)), ack, time)
            most -= len(block)
            if most <= 0:
                break

    def _note(self, here: bytes, reach: int, ack: int, time: int) -> None:
        way = self.ways.get(here)
        if way is None:
            way = self.ways[here] = _Way([], [], reach, ack)
        for known, number, first in ((way.data, reach, way.first_seq), (way.acks, ack, way.first_ack)):
            ahead = distance(number, first)
            if not known or ahead > known[-1][0]:
                known.append((ahead, time))


def clock_offsets(captures: Sequence[Iterable[Block]]) -> list[tuple[int, int] | None]:
    """For each capture another one and how far its clock is ahead of that one's, in nanoseconds; None for those that
    share nothing with an earlier one."""
    most = min(LOOKED_AT, LOOKED_AT_IN_ALL // max(1, len(captures)))
    heads = [_Head(blocks, most) for blocks in captures]
    offsets: list[tuple[int, int] | None] = [None] * len(heads)
    for one, other in combinations(range(len(heads)), 2):
        if offsets[other] is None:
            found = _offset(heads[one], heads[other])
            if found is not None:
                to, before = offsets[one] or (one, 0)
                offsets[other] = to, before + found
    return offsets


def _offset(one: _Head, other: _Head) -> int | None:
    """How far the clock of `other` is ahead of that of `one`; None if they share nothing."""
    both = one.packets.keys() & other.packets.keys()
    if len(both) >= SURE or both & one.opened:
        return _of_copies((sent.ends, other.packets[sent] - one.packets[sent]) for sent in both)
    found = [*_of_acknowledgments(one, other)]
    return round(median(found)) if found else None


def _of_copies(seen: Iterable[tuple[bytes, int]]) -> int:
    """The difference, from how much later each direction's packets were seen."""
    later: defaultdict[bytes, defaultdict[bytes, list[int]]] = defaultdict(lambda: defaultdict(list))
    for here, by in seen:
        later[pair(here)][here].append(by)
    found = []
    for ways in later.values():
        if len(ways) == 2:
            first, second = sorted(ways.values(), key=median)
            found.append(
                (max(first) + min(second)) / 2 if max(first) <= min(second) else _middle(first, second)
            )
    return round(median(found or [by for ways in later.values() for way in ways.values() for by in way]))


def _middle(first: list[int], second: list[int]) -> float:
    return (median(first) + median(second)) / 2


def _of_acknowledgments(one: _Head, other: _Head) -> Iterator[float]:
    """The difference by each connection of which each capture holds one direction."""
    for here, way in one.ways.items():
        there = reverse_key(here)
        back = other.ways.get(there)
        if back is None or there in one.ways or here in other.ways:
            continue
        most = _least(way.data, way.first_seq, back.acks, back.first_ack)
        least = _least(back.data, back.first_seq, way.acks, way.first_ack)
        if most is not None and least is not None:
            yield (most - least) / 2


def _least(
    data: list[tuple[int, int]], first: int, acks: list[tuple[int, int]], first_ack: int
) -> int | None:
    """The least time from data to its acknowledgment, by the two clocks; None if none fits."""
    shift = distance(first, first_ack)
    if abs(shift) > NEAR:
        return None
    waits = []
    for reach, time in data:
        at = bisect_left(acks, (reach + shift,))
        if at < len(acks):
            waits.append(acks[at][1] - time)
    return min(waits, default=None)
