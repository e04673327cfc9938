"""Addresses of brokers in responses: all are replaced, and no other byte is changed, however the bytes come."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pcap import framed

import kinspect
from kinspect.model import RESPONSE
from kinspect.protocol import Message, decode_response, encode_request, encode_response, schema
from kinspect.wiretest.advertised import LONGEST, AdvertisedAddresses, replace_addresses

CAPTURES = Path(__file__).parents[2] / "captures"
NODE = {"node_id": 1, "broker_id": 1, "leader_id": 1, "host": "kafka-1", "port": 9092, "rack": None}
MISSING = {**NODE, "host": "", "port": -1}
BODIES = {
    "Metadata": {"brokers": [NODE, {**NODE, "node_id": 2, "host": "kafka-2"}]},
    "FindCoordinator": {**NODE, "coordinators": [{"key": "g", **NODE}, {"key": "h", **MISSING}]},
    "DescribeCluster": {"brokers": [NODE]},
    "Fetch": {"node_endpoints": [NODE]},
    "Produce": {"node_endpoints": [NODE]},
    "ShareFetch": {"node_endpoints": [NODE]},
    "DescribeQuorum": {
        "nodes": [{"node_id": 1, "listeners": [{"name": "L", "host": "kafka-1", "port": 9092}]}]
    },
}


def elsewhere(place):
    host, port = place
    return f"{host}.example", port + 1


def responses():
    for name, body in BODIES.items():
        api = schema.api(name)
        for version in sorted(api.response.versions):
            layout = schema.layout(api.key, version, RESPONSE)
            if layout is not None:
                known = {field.name for field in layout.fields}
                yield api, version, {key: value for key, value in body.items() if key in known}


CASES = [case for case in responses() if case[2]]


@pytest.mark.parametrize(("api", "version", "body"), CASES, ids=lambda each: getattr(each, "name", ""))
def test_each_broker_that_is_named_is_replaced(api, version, body):
    frame = encode_response(Message(api.key, version, 7, body, direction=RESPONSE))
    found = str(decode_response(replace_addresses(frame, api.key, version, elsewhere), api.key, version).body)
    was = str(decode_response(frame, api.key, version).body)
    assert (
        was.replace("kafka-1", "kafka-1.example")
        .replace("kafka-2", "kafka-2.example")
        .replace("9092", "9093")
        == found
    )
    assert found != was


def streams(path):
    """The bytes of both directions of each connection whose messages are all there."""
    found = {}
    for exchange in kinspect.read(path):
        sides = found.setdefault(exchange.connection.connection_id, ([], []))
        for side, message in zip(sides, (exchange.request, exchange.response), strict=True):
            if message is not None:
                side.append(framed(message.raw))
    return [(b"".join(asked), b"".join(answered)) for asked, answered in found.values()]


@pytest.mark.parametrize(
    "name", ["4.4.0/txn_java.pcap.gz", "3.9.2/kip848.pcap.gz", "0.10.0.1/sarama-sasl-v0.pcap"]
)
@pytest.mark.parametrize("most", [1, 7, 1000])
def test_with_the_same_addresses_no_byte_is_changed(name, most):
    for asked, answered in streams(CAPTURES / name):
        named = []
        relay = AdvertisedAddresses(lambda place, named=named: named.append(place) or place)
        for at in range(0, len(asked), most):
            relay.request(asked[at : at + most])
        handed = b"".join(relay.response(answered[at : at + most]) for at in range(0, len(answered), most))
        assert handed + relay.response(b"") == answered


@given(st.binary(max_size=200), st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_any_bytes_are_handed_on(asked, answered, cuts):
    def pieces(data):
        return [data[begin:end] for begin, end in pairwise([0, *sorted(cuts), len(data)])]

    relay = AdvertisedAddresses(elsewhere)
    for piece in pieces(asked):
        relay.request(piece)
    assert b"".join(map(relay.response, pieces(answered))) + relay.response(b"") == answered


def test_a_message_is_handed_on_without_waiting_for_the_next():
    """A token of SASL may be empty, and a client waits for it."""
    relay = AdvertisedAddresses(elsewhere)
    relay.request(framed(b"\0me\0secret"))
    assert relay.response(framed(b"")) == framed(b"")
    asked = Message(3, 1, 5, {"topics": []}, "me")
    relay.request(framed(encode_request(asked)))
    answer = framed(encode_response(Message(3, 1, 5, {"brokers": [NODE]}, direction=RESPONSE)))
    assert relay.response(answer[:-1]) == b""
    assert b"kafka-1.example" in relay.response(answer[-1:])


def test_what_is_no_address_stays():
    nodes = [{**NODE, "port": port} for port in (0, -1, 1 << 16)] + [MISSING]
    frame = encode_response(Message(3, 9, 7, {"brokers": nodes}, direction=RESPONSE))
    assert replace_addresses(frame, 3, 9, elsewhere) == frame


def test_what_is_not_kafka_passes():
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    relay = AdvertisedAddresses(elsewhere)
    relay.request(hello)
    assert relay.response(hello[:3]) + relay.response(hello[3:]) == hello
    assert int.from_bytes(hello[:4]) > LONGEST
