"""Packets that a capture does not hold, or not whole: nothing wrong, little missing, and what is missing is told."""

from __future__ import annotations

from pathlib import Path

import mutate
import pytest
from support.clean import clean_captures
from support.decoded import keylog_beside
from support.field import (
    broker_side_complaints,
    client_side_complaints,
    cut_complaints,
    late_start_complaints,
    loss_complaints,
)
from support.packets import packets
from support.reading import bytes_alone, clean, compare, read
from support.shares import one_in

CAPTURES = Path(__file__).parents[2] / "captures"
ALL = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap*"))
CLEAN = clean_captures(
    "0.10.0.1/sarama-snappy.pcap",
    "0.10.2.2/ipv6.pcap",
    "2.8.2/sasl-plain.pcap",
    "3.9.2/kip848.pcap.gz",
    "4.4.0/codecs_librdkafka.pcap.gz",
    "4.4.0/franz.pcap.gz",
    "4.4.0/mtu1500.pcap.gz",
    "4.4.0/txn_librdkafka.pcap.gz",
)

on_clean = pytest.mark.parametrize("path", CLEAN)


@on_clean
@pytest.mark.parametrize("seed", one_in(3, range(3)))
@pytest.mark.parametrize("rate", [0.01, 0.05])
def test_packets_lost(path: Path, rate: float, seed: int) -> None:
    whole = clean(path)
    part = read(mutate.drop(whole.packets, rate, f"{path.name} {seed}"))
    assert len(part.packets) < len(whole.packets) or rate * len(whole.packets) < 5
    assert loss_complaints(whole, part) == []


@on_clean
@pytest.mark.parametrize("start", [0.1, 0.37, 0.5])
def test_begins_late(path: Path, start: float) -> None:
    whole = clean(path)
    assert late_start_complaints(whole, read(mutate.starting_at(whole.packets, start))) == []


@on_clean
@pytest.mark.parametrize("end", [0.4, 0.75])
def test_ends_early(path: Path, end: float) -> None:
    whole = clean(path)
    part = read(mutate.ending_at(whole.packets, end))
    assert loss_complaints(whole, part) == []
    assert bytes_alone(part.lines[: len(part.lines) // 2]) <= bytes_alone(whole.lines)


@on_clean
@pytest.mark.parametrize("length", one_in(5, [96, 80, 128, 300, 1000]))
def test_snap_length(path: Path, length: int) -> None:
    whole = clean(path)
    assert cut_complaints(whole, read(mutate.snapped(whole.packets, length))) == []


@pytest.mark.parametrize("name", one_in(18, ALL))
def test_what_a_snap_length_cut_off_is_not_known(name: str) -> None:
    path = CAPTURES / name
    beside = keylog_beside(path)
    keylog = beside.read_bytes() if beside.exists() else b""
    whole = read(packets(path), keylog)
    for length in (80, 96, 160):
        assert compare(whole, read(mutate.snapped(whole.packets, length), keylog)).wrong == []


@on_clean
def test_clients_side_alone(path: Path) -> None:
    whole = clean(path)
    assert client_side_complaints(whole, read(mutate.one_side(whole, "request"))) == []


@on_clean
def test_brokers_side_alone(path: Path) -> None:
    whole = clean(path)
    assert broker_side_complaints(whole, read(mutate.one_side(whole, "response"))) == []
