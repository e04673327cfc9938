"""Small cases that mutations of clean captures found: each was once read wrong."""

import random

import mutate
import pytest
from support.clean import CAPTURES
from support.packets import Packet, packets, tcp
from support.pcap import Conversation, framed
from support.reading import bytes_alone, clean, directions, ends, read

from kinspect.model import RST
from kinspect.protocol import Message, encode_request, encode_response

MS = 1_000_000


def of_port(taken, port):
    return [packet for packet in taken if port.to_bytes(2) in (packet.data[34:36], packet.data[36:38])]


def metadata(number):
    return framed(encode_request(Message(3, 1, number, {"topics": [{"name": "t"}]}, "client")))


def answer(number):
    return framed(encode_response(Message(3, 1, number, {"brokers": [], "controller_id": -1, "topics": []})))


def test_a_lone_response_is_no_request():
    late = of_port(packets(CAPTURES / "0.10.0.1" / "controller-2brokers.pcap.gz")[119:], 36756)
    assert late
    assert [line for line in read(late).lines if line["request"]] == []


def test_a_reused_correlation_id_is_no_gap_where_no_response_is_seen():
    whole = clean(CAPTURES / "0.8.2.2" / "errors.pcap")
    part = read(mutate.one_side(whole, "request"))
    reasons = {line["outcome_reason"] for line in part.lines if line["outcome"] == "unanswered"}
    assert reasons == {"one_sided"}


@pytest.mark.parametrize("skew_ms", [5, 20, 90])
def test_requests_behind_their_long_responses(skew_ms):
    """The clocks differ, and the first SYN was lost, so that the handshake does not show it."""
    whole = clean(CAPTURES / "4.4.0" / "lossout.pcap.gz")
    clients = {directions(ends(line))[0] for line in whole.exchanges}
    part = read(mutate.skewed(whole.packets, lambda data: mutate.direction(data) in clients, skew_ms * MS))
    role = frozenset({"role"})
    assert bytes_alone(part.lines, role) == bytes_alone(whole.lines, role)
    assert part.summary["gaps"] == 0


def overtaken(taken, window, seed, resets_wait):
    """As `mutate.reorder`; resets that wait come last in their window."""
    rng = random.Random(f"reorder {seed}")
    places = {}
    for index, packet in enumerate(taken):
        waits = resets_wait and (tcp(packet.data).flags & RST)
        places[index] = index + window * (1 if waits else rng.random())
    order = sorted(places, key=places.__getitem__)
    return [taken[index]._replace(time=place.time) for index, place in zip(order, taken, strict=True)]


@pytest.mark.parametrize(
    "name",
    ["2.8.2/console-zstd.pcap", "2.8.2/message-format-downconv.pcap.gz", "3.9.2/cluster_zk.pcap.gz"],
)
def test_a_late_syn_splits_no_connection(name):
    whole = clean(CAPTURES / name)
    part = read(overtaken(whole.packets, 6, name.split("/")[1], True))
    assert part.summary["gap_bytes"] == whole.summary["gap_bytes"]
    assert part.summary["connections"] == whole.summary["connections"]


def test_a_late_syn_swallows_no_request():
    taken = of_port(clean(CAPTURES / "0.10.2.2" / "sweep-E-admin.pcap.gz").packets, 56598)
    by_number = {packet.origin: packet for packet in taken}
    order = [by_number[number] for number in (205, 208, 206, 204, 207, 209, 210, 211)]
    part = read([packet._replace(time=place.time) for packet, place in zip(order, taken, strict=True)])
    assert len(part.lines) == len(read(taken).lines) == 1


def test_a_reset_before_data_it_overtook():
    name = "logappendtime.pcap.gz"
    whole = clean(CAPTURES / "0.10.0.1" / name)
    part = read(overtaken(whole.packets, 6, name, False))
    assert sorted(str(line["outcome_reason"]) for line in part.lines) == sorted(
        str(line["outcome_reason"]) for line in whole.lines
    )


def test_a_snap_length_over_two_messages_is_no_loss():
    talk = Conversation()
    talk.open()
    talk.client_sends(metadata(1) + metadata(2))
    talk.broker_sends(answer(1) + answer(2))
    taken = [Packet(time_us * 1000, data, number) for number, (time_us, data) in enumerate(talk.packets, 1)]
    part = read(mutate.snapped(taken, 54 + 25))
    codes = {problem["code"] for line in part.lines for problem in line["problems"]}
    assert codes == {"truncated_capture"}


def test_a_cut_request_behind_a_cut_handshake_is_no_token():
    whole = clean(CAPTURES / "3.9.2" / "sasl_scramsha256.pcap.gz")
    part = read(mutate.snapped(whole.packets, 96))
    tokens = [sum(line["kind"] == "sasl_token" for line in reading.lines) for reading in (whole, part)]
    assert tokens[1] <= tokens[0]
