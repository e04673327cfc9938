"""The clock of a capture is set forward in its middle, as by NTP: the connections go on, unless they were silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import mutate
import pytest
from support.clean import CAPTURES, clean_captures
from support.islands import Shared, cut, shown
from support.packets import Packet, blocks, tcp
from support.reading import Reading, bytes_alone, clean, directions, read
from support.reading import ends as ends_of
from support.shares import one_in

from kinspect.output.runsummary import step_text
from kinspect.spark.shuffle import pack, unpack
from kinspect.tcp.flowkeys import pair
from kinspect.tcp.runclock import ISLANDS, LOOK_EACH, PATIENCE

HOUR = 3600 * 10**9
HOUR_MS = 3_600_000
SOON_MS = 20
SEVERAL = CAPTURES / "4.4.0" / "groups_classic.pcap.gz"
BUSY = CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz"
CLEAN = clean_captures(
    "0.8.2.2/highlevel-consumer-kafka-offsets.pcap.gz",
    "0.10.0.1/groups-admin.pcap.gz",
    "0.10.2.2/ipv6.pcap",
    "0.11.0.3/transactions.pcap.gz",
    "2.0.1/controller-2brokers.pcap.gz",
    "2.8.1/kraft-2nodes.pcap.gz",
    "2.8.2/sasl-plain.pcap",
    "3.6.2/groups_classic.pcap.gz",
    "3.9.2/cluster_zk.pcap.gz",
    "4.1.2/codecs_java.pcap.gz",
    "4.3.1/telemetry.pcap.gz",
    "4.4.0/groups_classic.pcap.gz",
)


def end_reasons(reading: Reading) -> list[str]:
    return sorted(line.end_reason for line in reading.connections)


def in_flight(reading: Reading, part: float) -> int:
    """The exchanges whose request came in that part of the packets, and whose response came behind it."""
    at = int(len(reading.packets) * part)
    return sum(
        each.request.last_frame <= at < each.response.first_frame
        for each in reading.exchanges
        if each.latency_ns is not None
    )


@pytest.mark.parametrize("path", CLEAN)
@pytest.mark.parametrize("part", one_in(3, [0.5, 0.3, 0.7]))
def test_connections_go_on(path: Path, part: float) -> None:
    whole = clean(path)
    changed = read(mutate.stepped(whole.packets, part, HOUR))
    assert bytes_alone(changed.lines) == bytes_alone(whole.lines)
    assert changed.summary["connections"] == whole.summary["connections"]
    latencies = Counter(each.latency_ns for each in whole.exchanges)
    found = Counter(each.latency_ns for each in changed.exchanges)
    assert found - latencies == ({None: in_flight(whole, part)} if in_flight(whole, part) else {})
    steps = changed.summary["clock_steps"]
    assert abs(steps["ms"] - steps["connections"] * HOUR_MS) <= steps["connections"] * SOON_MS
    assert steps["connections"] or not in_flight(whole, part)


def _is_theirs(packet: Packet) -> bool:
    parts = tcp(packet.data)
    return parts is not None and crc32(b"".join(sorted(parts.ends))) % 2 == 1


def _theirs_set_back(packets: Sequence[Packet], part: float) -> list[Packet]:
    both = zip(packets, mutate.stepped(packets, part, -HOUR), strict=True)
    return [set_back if _is_theirs(packet) else packet for packet, set_back in both]


def _answered(reading: Reading) -> Counter[tuple[str | None, int | None]]:
    return Counter(
        (each.api, each.correlation_id) for each in reading.exchanges if each.outcome == "answered"
    )


@pytest.mark.parametrize("path", CLEAN)
def test_hosts_whose_clock_is_set_back_go_on(path: Path) -> None:
    """Others, whose clocks go on, end nothing of theirs."""
    whole = clean(path)
    changed = read(_theirs_set_back(whole.packets, 0.5))
    assert _answered(changed) == _answered(whole)


def test_hosts_whose_clock_is_set_back_are_not_idle_at_the_end() -> None:
    packets = clean(SEVERAL).packets
    under_way = packets[: len(packets) * 4 // 5]
    changed = read(_theirs_set_back(under_way, 0.3))
    assert end_reasons(changed) == end_reasons(read(under_way))


def test_what_is_silent_ends_idle() -> None:
    whole, part = clean(SEVERAL), 0.5
    later = mutate.stepped(whole.packets, part, HOUR)
    silent = read(mutate.stamped(later, part, HOUR_MS))
    unknown = read(mutate.stamped(later, part, None))
    assert in_flight(whole, part) > 2
    assert bytes_alone(silent.lines) == bytes_alone(unknown.lines) != bytes_alone(whole.lines)
    assert end_reasons(silent) == end_reasons(unknown)
    assert end_reasons(silent).count("idle") >= in_flight(whole, part)
    for reading in (silent, unknown):
        idle = [each for each in reading.exchanges if each.outcome_reason == "idle"]
        assert len(idle) == in_flight(whole, part)
        assert reading.summary["clock_steps"] == {"connections": 0, "ms": 0}
        assert reading.summary["late_lines"] == 0


@pytest.mark.parametrize("path", one_in(2, [SEVERAL, BUSY]))
@pytest.mark.parametrize("part", [0.2, 0.5])
def test_parts_and_islands_alone_give_the_same(path: Path, part: float) -> None:
    """`--jobs` deals islands to processes, which see all packets; on Spark each is decoded alone."""
    changed = [*blocks(mutate.stepped(clean(path).packets, part, HOUR))]
    shared = Shared(changed)
    whole, inspector = shared.part(changed)
    steps = Counter()
    dealt, alone = [], []
    for number in range(2):
        lines, one = shared.part(changed, lambda of_pair, number=number: crc32(of_pair) % 2 == number)
        dealt += lines
        steps.update(one.summary()["clock_steps"])
    islands: dict[bytes, list] = {}
    for segment in (each for block in changed for each in shared.begin().segments(block)):
        islands.setdefault(pair(segment[0]), []).append(segment)
    for segments in islands.values():
        inspector_alone = shared.begin()
        alone += shown(inspector_alone.feed_segments(unpack(*pack(segments, 0), 0)[0]))
        alone += shown(inspector_alone.finish(shared.end))
        steps.subtract(inspector_alone.summary()["clock_steps"])
    assert sorted(dealt) == sorted(alone) == whole
    assert inspector.summary()["clock_steps"]["connections"] > 2
    assert not any(steps.values())


def test_carried_over_the_step() -> None:
    packets = clean(SEVERAL).packets
    changed = [*blocks(mutate.stepped(packets, 0.5, HOUR))]
    shared = Shared(changed)
    whole, _ = shared.part(changed)
    before, after = cut(changed, int(len(packets) * 0.5))
    one, other = shared.begin(), shared.begin()
    lines = [line for block in before for line in shown(one.feed(block))] + shown(one.idle())
    for _, data in one.suspend():
        other.resume(data)
    lines += [line for block in after for line in shown(other.feed(block))]
    assert sorted(lines + shown(other.finish(shared.end))) == whole


@pytest.mark.parametrize("later_ms", [0, 300_000])
def test_a_connection_that_speaks_long_after_the_others(later_ms: int) -> None:
    """The run's clock does not end it: others show that only the capture's clock was set."""
    whole, part = clean(BUSY), 0.5
    at = int(len(whole.packets) * part)
    spoken = Counter(mutate.direction(packet.data) for packet in whole.packets[:at])
    waits = max(
        (
            directions(ends_of(each))
            for each in whole.exchanges
            if each.latency_ns is not None and each.request.last_frame <= at < each.response.first_frame
        ),
        key=lambda each: spoken[each[1]],
    )
    before, behind = whole.packets[:at], mutate.stepped(whole.packets, 0, HOUR)[at:]
    own = [packet for packet in behind if mutate.direction(packet.data) in waits]
    others = [packet for packet in behind if mutate.direction(packet.data) not in waits]
    later = mutate.stamped(mutate.stepped(own, 0, later_ms * 10**6), 0, later_ms)
    assert len(others) > (ISLANDS + PATIENCE) * LOOK_EACH
    changed = read([*before, *others, *later])
    assert changed.summary["outcomes"] == whole.summary["outcomes"]


def test_it_is_told_to_people() -> None:
    steps = {"connections": 2, "ms": 2 * HOUR_MS + 4}
    assert step_text(steps) == "clock set forward by 3,600.002 s, as 2 connections that went on show"


def test_one_wrong_time_is_no_step_for_the_others() -> None:
    whole = clean(SEVERAL)
    at = len(whole.packets) // 2
    wrong: list[Packet] = [*whole.packets]
    wrong[at] = wrong[at]._replace(time=(wrong[at].time or 0) + HOUR)
    changed = read(wrong)
    assert bytes_alone(changed.lines) == bytes_alone(whole.lines)
    assert changed.summary["clock_steps"]["connections"] <= 1
