"""The first look at all captures: where each packet stands in the run.

Every task looks at one split and hands back numbers, no payload: times, which packets carry TCP, fragments, secrets,
what was wrong. From them the driver makes what no single task can know: the place of each packet in the one timeline
of all captures, the frame number at which each split begins, and the clock of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kinspect import link
from kinspect.capture.reader import BLOCK_SIZE, Findings
from kinspect.errors import CaptureError
from kinspect.link.cursor import Cursor
from kinspect.link.fragments import PART
from kinspect.model import FRAME_BITS, Block, Caps, Counts, Segment
from kinspect.spark.clock import Clock, Numbers, Places
from kinspect.spark.failure import Told, error_of, told_of
from kinspect.spark.splits import Split, description
from kinspect.tcp.keys import ends as ends_of
from kinspect.tcp.keys import reverse_key

Flags: TypeAlias = Any
"""A numpy array of bool, or of uint8 with eight of them in each."""
NS_PER_DAY = 86_400 * 1_000_000_000
NO_TIME = np.iinfo(np.int64).min
_PACKETS_A_PIECE = 1 << 17


class Fragment(NamedTuple):
    """A packet that is a part of another one: what dissecting it takes. `number` counts the split's packets from 0."""

    number: int
    time: int | None
    data: bytes
    wire_length: int
    link_type: int


def canonical_ends(key: bytes) -> bytes:
    """The addresses and ports of a segment, the same for both directions and whatever tunnel or VLAN it was in."""
    here = ends_of(key)
    return min(here, reverse_key(here))


class Group(NamedTuple):
    """The segments between the same ends in a split: the numbers of the first and the last packet, from 0, and how many
    there are."""

    ends: bytes
    first: int
    last: int
    packets: int


class Collector:
    """Takes fragments without putting them together: their other parts may lie in another split."""

    def __init__(self) -> None:
        self.seen = False

    def take(self, cursor: Cursor, key: bytes, offset: int, more: bool, protocol: int) -> int:
        self.seen = True
        return cursor.stop(PART)


@dataclass(slots=True)
class Report:
    """What a task tells of its split."""

    number: int
    packets: int = 0
    descriptions: tuple[bytes, ...] = ()
    secrets: tuple[bytes, ...] = ()
    drops: dict[tuple[int, ...], int] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    fragments: list[Fragment] = field(default_factory=list)
    error: Told | None = None
    """What was wrong."""
    groups: list[Group] = field(default_factory=list)
    times: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    carries_tcp: Flags = field(default_factory=lambda: np.empty(0, np.bool_))


Part: TypeAlias = "Report | tuple[int, int, Numbers, Flags]"
"""A report without its times, or times: the split's number, the first packet, times, and which carry TCP."""


def examine(number: int, split: Split, caps: Caps) -> Iterator[Part]:
    """Reads a split: parts for `Reports.add`."""
    report, findings, collector = Report(number), Findings(), Collector()
    dissector = link.Dissector(caps, report.counts, collector)
    times: list[int] = []
    carries: list[int] = []
    # By key, the first and the last frame, and how many there are.
    first: dict[bytes, int] = {}
    last: dict[bytes, int] = {}
    packets: Counter[bytes] = Counter()
    try:
        for block in split.blocks(1, BLOCK_SIZE, findings):
            collector.seen = False
            rows = dissector.segments(block)
            carries += [row[9] - 1 for row in rows]
            keys = [row[0] for row in rows]
            packets.update(keys)
            last.update(zip(keys, carries[-len(keys) :], strict=False))
            if len(first) < len(last):
                first = {row[0]: row[9] - 1 for row in reversed(rows)} | first
            times += [NO_TIME if time is None else time for time in block.times]
            if collector.seen:
                report.fragments += fragments_of(block, caps)
            if len(times) >= _PACKETS_A_PIECE:
                yield _part(number, report.packets, times, carries)
                report.packets += len(times)
                times, carries = [], []
    except CaptureError as error:
        error.unread = not (report.packets or times)
        report.error = told_of(error)
    yield _part(number, report.packets, times, carries)
    report.packets += len(times)
    report.groups = [*grouped((key, first[key], last[key], packets[key]) for key in packets)]
    report.descriptions = tuple(findings.descriptions)
    report.secrets, report.drops = tuple(findings.secrets), findings.drops
    yield report


def grouped(keys: Iterable[tuple[bytes, int, int, int]]) -> Iterator[Group]:
    """Keys with what `Group` has of them, both directions and all scopes together."""
    groups: dict[bytes, Group] = {}
    for key, first, last, packets in keys:
        ends = canonical_ends(key)
        known = groups.get(ends)
        groups[ends] = (
            Group(ends, first, last, packets)
            if known is None
            else Group(ends, min(known.first, first), max(known.last, last), known.packets + packets)
        )
    yield from groups.values()


def _part(number: int, first: int, times: list[int], carries: list[int]) -> Part:
    flags = np.zeros(len(times), np.bool_)
    flags[np.array(carries, np.int64) - first] = True
    return number, first, np.array(times, np.int64), flags


def fragments_of(block: Block, caps: Caps) -> Iterator[Fragment]:
    """The packets of a block that are fragments."""
    collector = Collector()
    dissector = link.Dissector(caps, Counts(), collector)
    for index in range(len(block)):
        collector.seen = False
        start, end = block.starts[index], block.ends[index]
        packet = one_packet(
            block.data[start:end],
            block.first_frame + index,
            block.times[index],
            block.wire_lengths[index],
            block.link_types[index],
        )
        dissector.segments(packet)
        if collector.seen:
            yield Fragment(
                packet.first_frame - 1,
                packet.times[0],
                packet.data,
                packet.wire_lengths[0],
                packet.link_types[0],
            )


def one_packet(data: bytes, frame: int, time: int | None, wire_length: int, link_type: int) -> Block:
    """A block of one packet."""
    return Block(data, frame, [time], [0], [len(data)], [wire_length], [link_type])


class Reports:
    """The parts of all tasks, put together again."""

    def __init__(self) -> None:
        self._times: dict[int, list[tuple[int, Numbers, Flags]]] = {}
        self._reports: dict[int, Report] = {}

    def add(self, part: Part) -> None:
        if isinstance(part, Report):
            self._reports[part.number] = part
        else:
            number, first, times, carries = part
            self._times.setdefault(number, []).append((first, times, carries))

    def of(self, number: int) -> Report:
        report = self._reports[number]
        parts = sorted(self._times.pop(number, ()), key=lambda part: part[0])
        if parts:
            report.times = np.concatenate([times for _, times, _ in parts])
            report.carries_tcp = np.concatenate([carries for _, _, carries in parts])
        return report


class Proven(NamedTuple):
    """A split whose boundaries hold, and where it stands.

    `first_frame`: the frame reference of its first packet. `runs`: (packet of the split, place, ordinal) where the
    run goes on with this split after another file's packets: `place` counts packets, `ordinal` TCP segments.
    `completed`: the packets of the split with which a packet in fragments was complete.
    """

    split: Split
    first_frame: int
    packets: int
    runs: tuple[tuple[int, int, int], ...]
    completed: frozenset[int]


@dataclass(slots=True)
class Index:
    """What is known of all captures once they were looked at."""

    files: list[str]
    splits: list[Proven]
    groups: list[list[Group]]
    """What is in each of `splits`, and last in `fragments`; first and last are ordinals."""
    clock: Clock
    places: Places
    fragments: list[tuple[int, int, Segment]]
    """Segments put together from fragments, with their place and ordinal."""
    start: int | None
    last: tuple[int | None, int]
    """Time and frame reference of the last packet."""
    timeless: bool
    """Whether some packets have no time."""
    secrets: list[bytes]
    errors: list[CaptureError]
    counts: Counts
    days: frozenset[int]
    """Those of the packets, since the epoch."""


Examine = Callable[[list[tuple[int, Split]]], Iterator[Part]]
"""Looks at splits, given with their numbers, in parallel; the parts come in any order."""


def build(files: list[str], plans: list[list[Split]], examine_all: Examine, caps: Caps) -> Index:
    """The index of the captures `files`, whose splits were planned as `plans`."""
    proven = prove(plans, examine_all)
    reports = [report for _, report in proven]
    index = _ordered(files, proven, caps)
    for report in reports:
        index.secrets += report.secrets
        _add_counts(index.counts, report.counts)
    index.counts.kernel_drops = _drops(reports)
    return index


def prove(plans: list[list[Split]], examine_all: Examine) -> list[tuple[Split, Report]]:
    """Looks at all splits, and again at those whose boundaries did not hold, joined to the one before them."""
    settled: dict[int, list[tuple[Split, Report]]] = {}
    waiting = dict(enumerate(plans))
    while waiting:
        numbered = list(enumerate(split for splits in waiting.values() for split in splits))
        reports = Reports()
        for part in examine_all(numbered):
            reports.add(part)
        number = 0
        again: dict[int, list[Split]] = {}
        for file, splits in waiting.items():
            looked = [(split, reports.of(number + i)) for i, split in enumerate(splits)]
            number += len(splits)
            rest = _hold(looked, settled.setdefault(file, []))
            if rest:
                again[file] = rest
        waiting = again
    return [pair for file in sorted(settled) for pair in settled[file]]


def _hold(looked: list[tuple[Split, Report]], settled: list[tuple[Split, Report]]) -> list[Split]:
    """Adds the splits that hold to `settled`; returns those that have to be looked at again."""
    for position, (split, report) in enumerate(looked):
        following = [other for other, _ in looked[position + 1 :]]
        if report.error is not None and following:
            # It did not end where a packet ends: the next boundary was a wrong guess, or the file is damaged.
            return [split._replace(end=following[0].end), *following[1:]]
        settled.append((split, report))
        prefix = _prefix(split.prefix, report.descriptions)
        if following and prefix is not None and prefix != following[0].prefix:
            return [other._replace(prefix=prefix) for other in following]
    return []


def _prefix(before: bytes, descriptions: tuple[bytes, ...]) -> bytes | None:
    """What pcapng says of the packets behind a split; None for other files."""
    if not descriptions:
        return None
    last_section = max(i for i, block in enumerate(descriptions) if block.startswith(b"\x0a\x0d\x0d\x0a"))
    said = b"".join(descriptions[last_section:])
    return before if description(before) == said else said


def _ordered(files: list[str], proven: list[tuple[Split, Report]], caps: Caps) -> Index:
    counts = Counts()
    sizes = [len(report.times) for _, report in proven]
    starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    times = np.concatenate([report.times for _, report in proven] or [np.empty(0, np.int64)])
    carries = np.concatenate([report.carries_tcp for _, report in proven] or [np.empty(0, np.bool_)])
    file_of_split = np.array([split.file for split, _ in proven], np.int64)
    file_of = np.repeat(file_of_split, sizes)
    timeless = bool((times == NO_TIME).any())
    order = _timeline(times, file_of, timeless)
    place = np.empty(len(times), np.int64)
    place[order] = np.arange(len(times))
    # Frame numbers count from 1 in each file.
    first_of_file = np.searchsorted(file_of, np.arange(len(files)))
    frame = (np.arange(len(times)) - first_of_file[file_of] + 1) if len(times) else np.empty(0, np.int64)
    reference = (file_of << FRAME_BITS) | frame

    fragments = [
        (int(starts[number]) + fragment.number, fragment)
        for number, (_, report) in enumerate(proven)
        for fragment in report.fragments
    ]
    whole = _assemble(fragments, place, reference, caps, counts)
    for position, _ in whole:
        carries[position] = True
    ordinal_at = np.cumsum(carries[order]) - carries[order]
    ordinal = np.empty(len(times), np.int64)
    ordinal[order] = ordinal_at

    carrying = order[carries[order]]
    index = Index(
        files=files,
        splits=[],
        groups=[],
        clock=Clock([], len(carrying)) if timeless else Clock.of(times[carrying], reference[carrying]),
        places=Places.of(order, reference),
        fragments=[(int(place[at]), int(ordinal[at]), segment) for at, segment in whole],
        start=_first_time(times[order]),
        last=_last(times, order, reference),
        timeless=timeless,
        secrets=[],
        errors=[],
        counts=counts,
        days=frozenset(np.unique(times[times != NO_TIME] // NS_PER_DAY).tolist()),
    )
    completed: dict[int, set[int]] = {}
    for position, _ in whole:
        number = int(np.searchsorted(starts, position, side="right")) - 1
        completed.setdefault(number, set()).add(int(position - starts[number]))
    for number, (split, report) in enumerate(proven):
        begin, end = int(starts[number]), int(starts[number + 1])
        in_split = ordinal[begin:end]
        if report.error is not None:
            kind, text, unread = report.error
            where = f" (counted from byte {split.start} of the file)" if split.start else ""
            index.errors.append(error_of((kind, text + where, unread and not split.start)))
        if begin == end:
            continue
        breaks = [0, *(np.flatnonzero(np.diff(place[begin:end]) != 1) + 1).tolist()]
        index.groups.append(
            [
                group._replace(first=int(in_split[group.first]), last=int(in_split[group.last]))
                for group in report.groups
            ]
        )
        runs = tuple((at, int(place[begin + at]), int(ordinal[begin + at])) for at in breaks)
        index.splits.append(
            Proven(
                split,
                int(reference[begin]),
                end - begin,
                runs,
                frozenset(completed.get(number, ())),
            )
        )
    index.groups.append([*grouped((segment[0], at, at, 1) for _, at, segment in index.fragments)])
    return index


def _timeline(times: Numbers, file_of: Numbers, timeless: bool) -> Numbers:
    """The packets in the order in which `capture.Timeline` hands them out.

    It takes the earliest head of all captures, of equal ones that of the capture named first. That is a packet's
    order by the latest time of its capture up to it.
    """
    if not len(times):
        return np.empty(0, np.int64)
    filled = times.copy()
    if timeless:
        time = 0
        for at in range(len(times)):
            if times[at] != NO_TIME:
                time = int(times[at])
            filled[at] = time
    latest = np.empty(len(times), np.int64)
    edges = np.flatnonzero(np.diff(file_of)) + 1
    for begin, end in zip([0, *edges], [*edges, len(times)], strict=True):
        latest[begin:end] = np.maximum.accumulate(filled[begin:end])
    return np.argsort(latest, kind="stable").astype(np.int64)


def _first_time(times: Numbers) -> int | None:
    known = times[times != NO_TIME]
    return int(known[0]) if len(known) else None


def _last(times: Numbers, order: Numbers, reference: Numbers) -> tuple[int | None, int]:
    if not len(order):
        return None, 0
    time = int(times[order[-1]])
    return None if time == NO_TIME else time, int(reference[order[-1]])


def _assemble(
    fragments: list[tuple[int, Fragment]],
    place: Numbers,
    reference: Numbers,
    caps: Caps,
    counts: Counts,
    goes_on: link.Dissector | None = None,
) -> list[tuple[int, Segment]]:
    """Puts fragments together, in the order of the run: the packet that completed each, and the segment.

    `goes_on`: has fragments that came before, and keeps those that are left.
    """
    dissector = goes_on or link.Dissector(caps, counts)
    whole = []
    for position, fragment in sorted(fragments, key=lambda pair: int(place[pair[0]])):
        packet = one_packet(
            fragment.data,
            int(reference[position]),
            fragment.time,
            fragment.wire_length,
            fragment.link_type,
        )
        whole += [(position, segment) for segment in dissector.segments(packet)]
    if goes_on is None:
        dissector.flush()
    # The packets were counted where they were read.
    counts.packets = counts.bytes = 0
    return whole


def _drops(reports: list[Report]) -> int | None:
    drops: dict[tuple[int, ...], int] = {}
    for report in reports:
        for key, count in report.drops.items():
            drops[key] = max(count, drops.get(key, 0))
    return sum(drops.values()) if drops else None


def _add_counts(total: Counts, part: Counts) -> None:
    total.packets += part.packets
    total.bytes += part.bytes
    total.tcp_segments += part.tcp_segments
    for reason, packets in part.undecoded_packets.items():
        total.undecoded(reason, packets)
