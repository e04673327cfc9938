"""The same bytes in other packets, another order, other frames: the same exchanges."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from pathlib import Path

import mutate
import pytest
from support import wrap
from support.clean import clean_captures
from support.packets import Packet, Streams, nanosecond_pcap, tcp
from support.reading import PLACES, Reading, bytes_alone, clean, directions, ends, read, texts

import kinspect
from kinspect.kafka.view.view import View

CLEAN = clean_captures(
    "0.10.0.1/kafkapython-av09.pcap",
    "0.8.2.2/pykafka-group-offsets.pcap",
    "0.10.2.2/ipv6.pcap",
    "2.8.2/sasl-plain.pcap",
    "4.4.0/mtu1500.pcap.gz",
    "4.4.0/txn_librdkafka.pcap.gz",
)
MS = 1_000_000

on_clean = pytest.mark.parametrize("path", CLEAN)


# What a line knows of the packets before its last one: another order leaves more or less before it.
SAID_BEFORE = frozenset({"role", "topic_name_resolved", "topics", "partitions", "broker"})


def same_bytes(part: Reading, whole: Reading, left_out: frozenset[str] = frozenset()) -> None:
    assert bytes_alone(part.lines, left_out) == bytes_alone(whole.lines, left_out)
    assert part.summary["gap_bytes"] == whole.summary["gap_bytes"]
    assert part.summary["connections"] == whole.summary["connections"]


def same_lines(part: Reading, whole: Reading) -> None:
    # A copy behind more packets than are compared counts as sent again by the client.
    left_out = PLACES | {"wait"}
    assert texts(part.lines, left_out) == texts(whole.lines, left_out)
    assert part.summary["connections"] == whole.summary["connections"]


@on_clean
@pytest.mark.parametrize("window", [2, 6])
def test_reordered(path: Path, window: int) -> None:
    whole = clean(path)
    changed = mutate.reorder(whole.packets, window, path.name)
    assert [packet.data for packet in changed] != [packet.data for packet in whole.packets]
    same_bytes(read(changed), whole, SAID_BEFORE)


@on_clean
def test_seen_twice(path: Path) -> None:
    whole = clean(path)
    changed = mutate.copied(whole.packets, 0.5, path.name)
    part = read(changed)
    same_lines(part, whole)
    # A bare acknowledgment that comes again behind a later one changes nothing, and may not be noticed.
    copies = [packet for packet in changed if not packet.origin]
    carrying = sum(1 for packet in copies if (parts := tcp(packet.data)) is not None and parts.carried)
    found = part.summary["duplicate_packets"] - whole.summary["duplicate_packets"]
    assert 0 < carrying <= found <= len(copies)


@on_clean
def test_retransmitted_with_other_borders(path: Path) -> None:
    whole = clean(path)
    changed = mutate.retransmitted(whole.packets, 0.4, path.name)
    part = read(changed)
    same_bytes(part, whole)
    # What comes when both sides have ended is not looked at.
    again = _carried(changed) - _carried(whole.packets)
    found = part.summary["retransmitted_bytes"] - whole.summary["retransmitted_bytes"]
    assert again / 2 < found <= again
    assert part.summary["conflicting_bytes"] == whole.summary["conflicting_bytes"]


def _carried(packets: list[Packet] | tuple[Packet, ...]) -> int:
    return sum(len(parts.carried) for packet in packets if (parts := tcp(packet.data)) is not None)


@on_clean
def test_retransmitted_with_other_bytes(path: Path) -> None:
    whole = clean(path)
    changed, others = mutate.contradicted(whole.packets, 0.3, path.name)
    part = read(changed)
    same_bytes(part, whole)
    assert part.summary["conflicting_bytes"] - whole.summary["conflicting_bytes"] == others > 0
    problems = [problem for line in part.lines for problem in line["problems"]]
    assert 0 < sum(problem["bytes"] for problem in problems if problem["code"] == "conflict") <= others


@on_clean
@pytest.mark.parametrize("largest", [7, 700])
def test_cut_into_other_segments(path: Path, largest: int) -> None:
    whole = clean(path)
    changed = mutate.recut(whole.packets, path.name, largest)
    assert Counter(map(_bytes_of, [changed])) == Counter(map(_bytes_of, [whole.packets]))
    same_bytes(read(changed), whole)


def _bytes_of(packets: list[Packet] | tuple[Packet, ...]) -> int:
    streams = Streams(packets)
    return sum(end - start for key in streams.pieces for start, end in streams.spans(key))


@on_clean
@pytest.mark.parametrize("name", wrap.WRAPS)
def test_inside_other_frames(path: Path, name: str) -> None:
    whole = clean(path)
    # What the loopback sends does not always fit into a tunnel's 16-bit lengths.
    fitting = [packet for packet in whole.packets if len(packet.data) + wrap.ROOM <= 0xFFFF]
    reference = whole if len(fitting) == len(whole.packets) else read(fitting)
    part = read(mutate.wrapped(fitting, wrap.WRAPS[name]))
    assert texts(part.lines) == texts(reference.lines)
    assert part.summary["packets_without_tcp"] == {}


@on_clean
@pytest.mark.parametrize("size", [64, 512])
def test_in_fragments(path: Path, size: int) -> None:
    whole = clean(path)
    changed = wrap.fragmented(whole.packets, size, path.name)
    part = read(changed)
    same_lines(part, whole)
    assert part.summary["fragments"] == len(changed) - len(whole.packets)
    assert part.summary["fragments"] > 0 or size > 64
    assert part.summary["packets_without_tcp"] == {}


def _is_of_a_client(whole: Reading) -> set[bytes]:
    return {directions(ends(exchange))[0] for exchange in whole.exchanges}


@on_clean
@pytest.mark.parametrize("skew", [-90 * MS, -5 * MS, 1 * MS, 20 * MS, 90 * MS])
def test_clocks_of_two_capture_points(path: Path, skew: int) -> None:
    whole = clean(path)
    clients = _is_of_a_client(whole)
    part = read(mutate.skewed(whole.packets, lambda data: mutate.direction(data) in clients, skew))
    same_bytes(part, whole, SAID_BEFORE)


@pytest.mark.parametrize("path", clean_captures("4.4.0/txn_librdkafka.pcap.gz"))
def test_a_file_a_direction_and_another_for_the_end_in_any_order(path: Path, tmp_path: Path) -> None:
    whole = clean(path)
    clients = _is_of_a_client(whole)
    half = len(whole.packets) // 2
    parts = [
        [packet for packet in whole.packets[:half] if mutate.direction(packet.data) in clients],
        [packet for packet in whole.packets[:half] if mutate.direction(packet.data) not in clients],
        whole.packets[half:],
    ]
    files = [tmp_path / f"{number}.pcap" for number in range(len(parts))]
    for file, packets in zip(files, parts, strict=True):
        file.write_bytes(nanosecond_pcap(packets))
    for order in permutations(files):
        view = View(records=True, payload="text")
        lines = [exchange.to_dict(view) for exchange in kinspect.read(*order)]
        assert texts(lines, PLACES) == texts(whole.lines, PLACES)
