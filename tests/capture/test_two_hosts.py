"""Captures of two hosts, one direction of all connections each, beside packets whose times are wrong."""

import random
from pathlib import Path

import pytest
from capture_files import SECOND
from support.packets import Packet, nanosecond_pcap, packets, tcp
from support.shares import one_in

import kinspect
from kinspect.kafka.view.view import View

CAPTURES = Path(__file__).parents[2] / "captures"
NAMES = ["4.4.0/platformatic.pcap", "4.4.0/groups_classic.pcap.gz", "4.4.0/ipv6.pcap"]
FAR = (5 * SECOND, 3600 * SECOND, 10**18)
OFF = {"ahead": FAR, "back": [-far for far in FAR], "both": [*FAR, *(-far for far in FAR)]}
DATAGRAM = bytes(12) + bytes.fromhex("08004500001c000000004011000001010101020202020035003500080000")


def exchanges(paths):
    """The exchanges as JSON, but for the numbers of frames."""
    lines = [View(records=True).exchange(exchange) for exchange in kinspect.read(*paths)]
    for line in lines:
        for side in filter(None, (line["request"], line["response"])):
            for name in [name for name in side if "frame" in name]:
                del side[name]
    return lines


def with_wrong_times(content, most, off, rng):
    """Packets of another flow among them, in runs of at most `most`, each with twice as many others behind it."""
    mixed, due = [], 0
    for packet in content:
        if not due:
            run = rng.randint(0, most)
            due = 2 * run + rng.randint(1, 4)
            mixed += [Packet(packet.time + rng.choice(off), DATAGRAM) for _ in range(run)]
        mixed.append(packet)
        due -= 1
    return mixed


@pytest.mark.parametrize("off", OFF)
@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("name", one_in(3, NAMES))
def test_the_exchanges_are_those_without_the_wrong_times(tmp_path, name, most, off):
    rng = random.Random(f"{name} {most} {off}")
    hosts = [[], []]
    for packet in packets(CAPTURES / name):
        ends = tcp(packet.data).ends
        hosts[ends[0] > ends[1]].append(packet)
    right = [tmp_path / "0.pcap", tmp_path / "1.pcap"]
    mixed = [tmp_path / "2.pcap", tmp_path / "3.pcap"]
    for content, alone, among in zip(hosts, right, mixed, strict=True):
        alone.write_bytes(nanosecond_pcap(content))
        among.write_bytes(nanosecond_pcap(with_wrong_times(content, most, OFF[off], rng)))
    expected = exchanges(right)
    assert len(expected) > 10
    assert exchanges(mixed) == expected
