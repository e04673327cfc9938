"""Captures of both ends of a wire, by two clocks."""

from __future__ import annotations

from itertools import permutations

import pytest
from support.islands import CAPTURES
from support.packets import Packet, nanosecond_pcap, packets, tcp
from support.shares import one_in

import kinspect

MS = 1_000_000
WAY = 3 * MS  # from host to host
NAMES = ["4.4.0/sarama.pcap.gz", "3.9.2/cluster_zk.pcap.gz", "2.8.1/kraft-2nodes.pcap.gz", "4.4.0/ipv6.pcap"]


def taken(name: str) -> list[Packet]:
    return [packet for packet in packets(CAPTURES / name) if tcp(packet.data) is not None]


def from_broker(packet: Packet, ports: set[bytes]) -> bool:
    data = packet.data
    return data[34:36] in ports if data[12:14] == b"\x08\0" else data[54:56] in ports


def listening(name: str) -> set[bytes]:
    """Ports that answered a SYN."""
    return {
        part.data[part.tcp : part.tcp + 2]
        for packet in taken(name)
        if (part := tcp(packet.data)).flags & 18 == 18
    }


def two_hosts(name: str, ahead: int) -> tuple[list[Packet], list[Packet]]:
    """What both hosts of a wire capture, the broker's with a clock that is `ahead`."""
    ports = listening(name)
    client, broker = [], []
    for packet in taken(name):
        answer = from_broker(packet, ports)
        sent, came = packet.time, packet.time + WAY
        client.append(packet._replace(time=came if answer else sent))
        broker.append(packet._replace(time=(sent if answer else came) + ahead))
    return sorted(client, key=lambda packet: packet.time), sorted(broker, key=lambda packet: packet.time)


def read(tmp_path, *captures, **more):
    paths = []
    for number, capture in enumerate(captures):
        paths.append(tmp_path / f"{number}.pcap")
        paths[-1].write_bytes(nanosecond_pcap(capture))
    reading = kinspect.read(paths, **more)
    return [*reading], reading.summary


def told(exchanges):
    return sorted(
        (each.connection.connection_id.partition("@")[0], each.correlation_id, each.api or "", each.outcome)
        for each in exchanges
    )


def both_hosts(tmp_path, name, ahead, **more):
    """What the client's capture tells alone, what it tells with the broker's, and the summary of both."""
    client, broker = two_hosts(name, ahead)
    alone, _ = read(tmp_path, client)
    both, summary = read(tmp_path, client, broker, **more)
    return told(alone), told(both), summary


@pytest.mark.parametrize("ahead", one_in(5, [7 * MS, -90 * MS, -20 * MS, 0, 99 * MS]))
@pytest.mark.parametrize("name", NAMES)
def test_both_hosts_hold_everything(tmp_path, name, ahead):
    alone, both, summary = both_hosts(tmp_path, name, ahead)
    (offset,) = summary["clock_offsets"]
    assert offset["applied"]
    assert offset["offset_ms"] == pytest.approx(ahead / MS, abs=0.2)
    assert summary["duplicate_packets"] > 0.9 * len(taken(name))  # not all have a number
    assert summary["retransmitted_bytes"] == 0
    assert both == alone


@pytest.mark.parametrize("ahead", one_in(3, [-90 * MS, 7 * MS, 99 * MS]))
@pytest.mark.parametrize("name", NAMES)
def test_each_host_holds_what_it_sent(tmp_path, name, ahead):
    ports = listening(name)
    client, broker = two_hosts(name, ahead)
    alone, _ = read(tmp_path, two_hosts(name, 0)[1])
    sent = [packet for packet in client if not from_broker(packet, ports)]
    answered = [packet for packet in broker if from_broker(packet, ports)]
    found, summary = read(tmp_path, sent, answered)
    (offset,) = summary["clock_offsets"]
    assert offset["applied"]
    assert offset["offset_ms"] == pytest.approx(ahead / MS, abs=2 * WAY / MS)
    assert told(found) == told(alone)
    assert not any(each.latency_ns < 0 for each in found if each.latency_ns is not None)


@pytest.mark.parametrize("ahead", one_in(5, [150 * MS, -30_000 * MS, -312 * MS, 900 * MS, 20_000 * MS]))
@pytest.mark.parametrize("name", NAMES)
def test_clocks_that_differ_by_more_than_is_allowed(tmp_path, name, ahead):
    alone, both, summary = both_hosts(tmp_path, name, ahead)
    (offset,) = summary["clock_offsets"]
    assert not offset["applied"]
    assert offset["offset_ms"] == pytest.approx(ahead / MS, abs=0.2)
    assert both == alone


@pytest.mark.parametrize("ahead", one_in(3, [-3_600_000 * MS, 312 * MS, 86_400_000 * MS]))
@pytest.mark.parametrize("name", NAMES)
def test_any_difference_is_set_right_if_it_is_allowed(tmp_path, name, ahead):
    alone, both, summary = both_hosts(tmp_path, name, ahead, caps=kinspect.Caps(skew_ns=abs(ahead) + MS))
    assert summary["clock_offsets"][0]["applied"]
    assert both == alone


def test_rotated_captures_and_others_share_nothing(tmp_path):
    whole = taken(NAMES[0])
    _, summary = read(tmp_path, whole[:300], whole[300:], taken(NAMES[1]))
    assert summary["clock_offsets"] == []
    assert read(tmp_path, whole)[1]["clock_offsets"] is None


@pytest.mark.parametrize("at", one_in(4, range(0, 487, 31)))
@pytest.mark.parametrize("apart", [95 * MS, 3_600_000 * MS])
def test_captures_that_follow_one_another_have_one_clock(tmp_path, at, apart):
    whole = taken(NAMES[0])
    later = [packet._replace(time=packet.time + apart) for packet in whole[at:]]
    _, summary = read(tmp_path, whole[:at] or whole[:1], later)
    assert summary["clock_offsets"] == []


def test_a_packet_sent_again_in_the_next_capture_is_no_copy(tmp_path):
    whole = taken(NAMES[0])
    again = [
        packet._replace(
            data=part.carrying(part.seq, part.carried, part.flags, 60_000 + number), time=packet.time + 10**9
        )
        for number, packet in enumerate(whole[:20])
        if (part := tcp(packet.data))
    ]
    _, summary = read(tmp_path, whole[:20], [*again, *whole[20:]])
    assert summary["clock_offsets"] == []


def test_nothing_tells_the_time_that_copies_of_one_direction_took(tmp_path):
    ports = listening(NAMES[0])
    client, broker = two_hosts(NAMES[0], 0)
    _, summary = read(tmp_path, client, [packet for packet in broker if not from_broker(packet, ports)])
    assert summary["clock_offsets"] == []


def test_three_hosts_in_any_order(tmp_path):
    """Two clients that share packets with their broker alone."""
    client, broker = two_hosts(NAMES[0], 80 * MS)
    ends = sorted({tcp(packet.data).ends for packet in client if tcp(packet.data).flags & 18 == 2})
    half = {end for pair in ends[: len(ends) // 2] for end in pair if pair[0] == end}

    def of(packets, chosen):
        return [packet for packet in packets if bool({*tcp(packet.data).ends} & half) is chosen]

    hosts = {"one": of(client, True), "two": of(client, False), "broker": broker}
    for order in permutations(hosts):
        _, summary = read(tmp_path, *(hosts[name] for name in order))
        found = {order[int(each["file"][-6])]: each["offset_ms"] for each in summary["clock_offsets"]}
        to = {order[int(each["to"][-6])] for each in summary["clock_offsets"]}
        assert to == {order[0]}
        ahead = {"one": 0, "two": 0, "broker": 80}
        assert found == pytest.approx({name: ahead[name] - ahead[order[0]] for name in order[1:]}, abs=0.3)


@pytest.mark.parametrize(("ahead", "lacks"), [(7 * MS, 0), (312 * MS, 1)])
def test_answers_tell_of_clocks_that_are_not_set_right(tmp_path, ahead, lacks):
    for number, capture in enumerate(two_hosts(NAMES[0], ahead)):
        (tmp_path / f"{number}.pcap").write_bytes(nanosecond_pcap(capture))
    found = kinspect.answer("latency", [tmp_path / "0.pcap", tmp_path / "1.pcap"])
    told = [line for line in found["capture"]["incomplete"] if line.startswith("clock of ")]
    assert len(told) == lacks


def test_an_answer_before_its_request_in_another_capture_is_a_problem(tmp_path):
    ports = listening(NAMES[0])
    client, broker = two_hosts(NAMES[0], -312 * MS)
    sent = [packet for packet in client if not from_broker(packet, ports)]
    answered = [packet for packet in broker if from_broker(packet, ports)]
    found, summary = read(tmp_path, sent, answered)
    assert not summary["clock_offsets"][0]["applied"]
    before = [each for each in found if each.latency_ns is not None and each.latency_ns < 0]
    assert before
    for each in before:
        (problem,) = (problem for problem in each.problems if problem.code == "negative_latency")
        assert problem.message.endswith(": they are of two captures, whose clocks differ")
