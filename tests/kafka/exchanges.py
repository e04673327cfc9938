"""Exchanges made by hand: messages encoded with the project's own encoders, on a connection that is a stub."""

from __future__ import annotations

from struct import pack
from typing import Any

from crc32c import crc32c

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.endpoints import Endpoints
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import ANSWERED, KAFKA, UNANSWERED
from kinspect.model import FRAME_BITS, REQUEST, RESPONSE, Caps, Counts
from kinspect.protocol import encode_body, request_header, response_header, schema

START = 1_795_243_381_123_456_000
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAZA"
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAyA"


def connection(names: dict[str, str] | None = None) -> Endpoints:
    """Ends of the connection of all exchanges here."""
    return Endpoints(
        client_ip="10.0.0.1",
        client_port=41234,
        broker_ip="10.0.0.9",
        broker_port=9092,
        connection_id=f"10.0.0.1:41234-10.0.0.9:9092@{START}",
        community_id="1:abc",
        names=LearnedNames(names),
        files=("a.pcap", "b.pcap"),
        caps=Caps(),
        counts=Counts(),
    )


def message(direction: str, api_key: int, version: int, raw: bytes, body_start: int) -> WireMessage:
    """A complete message of two packets in the second file."""
    late = 2_000_000 if direction == RESPONSE else 0
    first = (1 << FRAME_BITS) + (15 if late else 12)
    found = WireMessage(
        direction, raw, len(raw), body_start, START + late, START + late + 10_000, first, first + 1, 2, True
    )
    found.api_key, found.api_version = api_key, version
    return found


def encoded(direction: str, api_key: int, version: int, body: dict[str, Any]) -> WireMessage:
    """A message without its header: the body begins at once."""
    layout = schema.layout(api_key, version, direction)
    assert layout is not None
    return message(direction, api_key, version, encode_body(layout, body), 0)


def exchange(
    api_key: int,
    version: int,
    request: dict[str, Any] | None = None,
    response: dict[str, Any] | None = None,
    names: dict[str, str] | None = None,
) -> Exchange:
    """An exchange of these bodies; without a response it is unanswered."""
    found = bare(api_key, version, names)
    if request is not None:
        found.request = encoded(REQUEST, api_key, version, request)
    if response is not None:
        found.response = encoded(RESPONSE, api_key, version, response)
        found.outcome = ANSWERED
    return found


def bare(api_key: int, version: int, names: dict[str, str] | None = None) -> Exchange:
    """An exchange without messages."""
    found = Exchange(connection(names), KAFKA)
    found.api_key, found.api_version = api_key, version
    found.correlation_id, found.client_id = 7, "p-1"
    found.outcome, found.outcome_reason = UNANSWERED, "capture_end"
    found.order, found.completed_at = 1, START + 2_010_000
    return found


def framed(frame: bytes, direction: str, api_key: int, version: int) -> Exchange:
    """An exchange of one message as it lay on the wire, header and body."""
    found = bare(api_key, version)
    if direction == REQUEST:
        header = request_header(frame, 0, len(frame))
        assert header is not None
        found.request = message(direction, api_key, version, frame, header.body_start)
    else:
        own = response_header(frame, 0, len(frame), api_key, version)
        assert own is not None
        found.response = message(direction, api_key, version, frame, own.body_start)
    return found


def batch(*records: tuple[bytes | None, bytes | None], control: bool = False, header: bytes = b"x") -> bytes:
    """A batch v2, not compressed, of (key, value) records; each has one header, `h`."""
    rows = b""
    for index, (key, value) in enumerate(records):
        row = b"\0" + _varint(index) + _varint(index) + _sized(key) + _sized(value)
        row += _varint(1) + _sized(b"h") + _sized(header)
        rows += _varint(len(row)) + row
    last = len(records) - 1
    tail = pack(">hiqqqhii", 0x20 if control else 0, last, 1000, 1000 + last, -1, -1, -1, len(records)) + rows
    return pack(">qiib", 5, 9 + len(tail), 0, 2) + pack(">I", crc32c(tail)) + tail


def metadata_value(record_type: int, name: str, fields: dict[str, Any]) -> bytes:
    """A record's value in `__cluster_metadata`: frame version 1, type, version 0, message."""
    return bytes((1, record_type, 0)) + encode_body(schema.record_layouts(name, 0)[0], fields)


def fetched(records: bytes, topic: str | None = "orders", names: dict[str, str] | None = None) -> Exchange:
    """A Fetch answer with one record set; without a `topic` it has `TOPIC_ID`."""
    version = 17 if topic is None else 12
    named = {"topic_id": TOPIC_ID} if topic is None else {"topic": topic}
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 1, "records": records}
    return exchange(1, version, None, {"responses": [{**named, "partitions": [partition]}]}, names)


def _varint(value: int) -> bytes:
    value = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _sized(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value
