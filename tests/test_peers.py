"""Sixteen numbered points that a widely used protocol analyser reads wrongly, and kinspect must read rightly."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.checks import disguises
from support.decoded import WHOLE, exchanges
from support.lines import Line, body, record_sets
from support.manifest import load
from support.pcap import Conversation, Packet, framed, pcap
from support.recordsets import (
    LZ4,
    LZ4_HEADER,
    SNAPPY,
    ZSTD,
    batch,
    batch_of,
    lz4_blocks,
    message,
    records,
    xerial_chunks,
)

import kinspect
from kinspect.cli import main
from kinspect.protocol import Message, decode_request, encode_request, encode_response

CAPTURES = Path(__file__).parents[1] / "captures"
ROWS = {row.file: row for row in load(CAPTURES)}

PRODUCE, FETCH, METADATA, JOIN_GROUP, SYNC_GROUP, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = (
    0, 1, 3, 11, 14, 17, 18, 36,
)  # fmt: skip
Read = Callable[..., list[Line]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads what some packets, or a whole conversation, give."""

    def read(what: Conversation | list[Packet]) -> list[Line]:
        path = tmp_path / "built.pcap"
        path.write_bytes(pcap(what.packets if isinstance(what, Conversation) else what))
        return [exchange.to_dict(WHOLE) for exchange in kinspect.read(path)]

    return read


def request(api_key: int, version: int, correlation_id: int = 1, **fields: Any) -> bytes:
    return framed(encode_request(Message(api_key, version, correlation_id, fields, client_id="c")))


def response(api_key: int, version: int, correlation_id: int = 1, **fields: Any) -> bytes:
    return framed(encode_response(Message(api_key, version, correlation_id, fields)))


def metadata_request(correlation_id: int, *topics: str) -> bytes:
    return request(METADATA, 1, correlation_id, topics=[{"name": topic} for topic in topics])


def metadata_response(correlation_id: int, *topics: str) -> bytes:
    return response(
        METADATA, 1, correlation_id, topics=[{"name": topic, "partitions": []} for topic in topics]
    )


def produce_request(record_set: bytes, version: int = 3, acks: int = 1, correlation_id: int = 1) -> bytes:
    topics = [{"name": "t", "partition_data": [{"index": 0, "records": record_set}]}]
    return request(PRODUCE, version, correlation_id, acks=acks, topic_data=topics)


def produced(read: Read, record_set: bytes, version: int = 3) -> tuple[list[dict[str, Any]], Line]:
    """The batches of a Produce request with this record set, and the line of its exchange."""
    talk = Conversation()
    talk.open()
    talk.client_sends(produce_request(record_set, version))
    talk.broker_sends(response(PRODUCE, version))
    talk.close()
    (line,) = read(talk)
    (found,) = record_sets(body(line, "request"))
    assert line["outcome"] == "answered"
    return found.batches, line


def values(batches: list[dict[str, Any]]) -> list[str]:
    return [record["value"] for one in batches for record in one["records"]]


# 1. BYTES of old versions have an int32 length.


def test_01_sasl_authenticate_v0_and_v1_have_int32_lengths() -> None:
    token = b"n,," + b"x" * 70_000
    for version in (0, 1):
        head = struct.pack(">hhih", SASL_AUTHENTICATE, version, 5, 1) + b"c"
        read_back = decode_request(head + struct.pack(">i", len(token)) + token)
        assert read_back.body["auth_bytes"] == token
        assert read_back.problems == ()


@pytest.mark.parametrize(
    ("api", "newest", "array", "blob"),
    [("JoinGroup", 5, "protocols", "metadata"), ("SyncGroup", 3, "assignments", "assignment")],
)
def test_01_join_group_and_sync_group_have_int32_lengths(
    api: str, newest: int, array: str, blob: str
) -> None:
    row = ROWS["2.8.2/sweep-C-groups.pcap.gz"]
    told = {(line["name"], line["corr"]): line["req"] for line in row.truth or []}
    versions = set()
    for line in exchanges(row.path):
        wanted = told.get((line["api"], line["correlation_id"]), {})
        if line["api"] == api and wanted.get(array):
            assert [entry[blob] for entry in body(line, "request")[array]] == [
                entry[blob] for entry in wanted[array]
            ]
            assert line["problems"] == []
            versions.add(line["api_version"])
    assert versions >= set(range(newest + 1))


# 2. The attributes byte of message formats v0 and v1 is read once.


@pytest.mark.parametrize("magic", [0, 1])
def test_02_messages_v0_and_v1_have_one_attributes_byte(read: Read, magic: int) -> None:
    entries = [message(i, b"key", b"value-%d" % i, magic, timestamp=1_500_000_000_000) for i in range(3)]
    batches, line = produced(read, b"".join(entries), version=2)
    assert values(batches) == ["value-0", "value-1", "value-2"]
    assert {record["key"] for one in batches for record in one["records"]} == {"key"}
    assert line["problems"] == []


# 3. zstd batches over 128 KiB. 4. lz4 over 100 blocks, xerial snappy over 100 chunks.


LONG = [b"%06d " % i * 40 for i in range(2000)]
"""More than half a megabyte in two thousand records."""


def test_03_zstd_over_128_kib(read: Read) -> None:
    batches, line = produced(read, batch_of(LONG, ZSTD), version=7)
    assert [value.encode() for value in values(batches)] == LONG
    assert line["problems"] == []


@pytest.mark.parametrize(
    ("codec", "compressed"),
    [(LZ4, lz4_blocks(records(LONG), 4000)), (SNAPPY, xerial_chunks(records(LONG), 4000))],
)
def test_04_lz4_over_100_blocks_and_snappy_over_100_chunks(read: Read, codec: int, compressed: bytes) -> None:
    assert len(records(LONG)) > 100 * 4000
    batches, line = produced(read, batch(compressed, len(LONG), codec))
    assert [value.encode() for value in values(batches)] == LONG
    assert line["problems"] == []


# 5. An unsupported version is no other version, and its response is not lost.


def test_05_unsupported_version_shows_its_header_and_no_guess(read: Read) -> None:
    talk = Conversation()
    talk.open()
    talk.client_sends(framed(struct.pack(">hhih", METADATA, 99, 41, 1) + b"c" + b"\0" * 12))
    talk.broker_sends(framed(struct.pack(">i", 41) + b"\0" * 20))
    talk.client_sends(metadata_request(42, "orders"))
    talk.broker_sends(metadata_response(42, "orders"))
    talk.close()
    unknown, known = read(talk)
    assert (unknown["api"], unknown["api_version"], unknown["correlation_id"]) == ("Metadata", 99, 41)
    assert unknown["client"]["id"] == "c"
    assert unknown["outcome"] == "answered"
    assert body(unknown, "request") is body(unknown, "response") is None
    assert "unknown_version" in {problem["code"] for problem in unknown["problems"]}
    assert known["topics"] == ["orders"]
    assert known["problems"] == []


def test_05_api_versions_of_an_unsupported_version_is_answered_in_version_0() -> None:
    (line,) = [x for x in exchanges(CAPTURES / "4.4.0" / "raw.pcap.gz") if x["correlation_id"] == 991]
    assert (line["api_version"], body(line, "request")) == (99, None)
    assert body(line, "response")["error_code"] == 35
    assert line["error_names"] == ["UNSUPPORTED_VERSION"]


# 6. A correlation id used again on a connection.


def test_06_a_repeated_correlation_id_belongs_to_the_oldest_request_in_flight(read: Read) -> None:
    talk = Conversation()
    talk.open()
    for topic in ("first", "second"):
        talk.client_sends(metadata_request(7, topic))
        talk.broker_sends(metadata_response(7, topic))
    talk.client_sends(metadata_request(7, "third") + metadata_request(7, "fourth"))
    talk.broker_sends(metadata_response(7, "third") + metadata_response(7, "fourth"))
    talk.close()
    lines = read(talk)
    assert [line["topics"] for line in lines] == [["first"], ["second"], ["third"], ["fourth"]]
    assert all(line["outcome"] == "answered" and not line["problems"] for line in lines)


# 7. Where acks lies depends on the version.


@pytest.mark.parametrize("version", range(13))
def test_07_acks_is_found_in_every_version_of_produce(read: Read, version: int) -> None:
    talk = Conversation()
    talk.open()
    talk.client_sends(produce_request(b"", version, acks=0, correlation_id=1))
    talk.client_sends(produce_request(b"", version, acks=1, correlation_id=2))
    talk.broker_sends(response(PRODUCE, version, 2))
    talk.close()
    assert [(line["correlation_id"], line["outcome"]) for line in read(talk)] == [
        (1, "no_response"),
        (2, "answered"),
    ]


# 8. Timestamps of batches are milliseconds.


def test_08_batch_timestamps_are_milliseconds(read: Read) -> None:
    batches, _ = produced(read, batch_of([b"a", b"b"]))
    assert batches[0]["base_timestamp_ms"] == 1_700_000_000_123
    assert batches[0]["max_timestamp_ms"] == 1_700_000_000_124
    assert [record["timestamp_ms"] for record in batches[0]["records"]] == [
        1_700_000_000_123,
        1_700_000_000_124,
    ]


# 9. The CRC of a batch is checked.


def test_09_a_wrong_crc_is_reported(read: Read) -> None:
    good = batch_of([b"value"])
    batches, line = produced(read, good)
    assert (batches[0]["crc_ok"], line["problems"]) == (True, [])
    batches, line = produced(read, good[:-2] + b"X" + good[-1:])
    assert batches[0]["crc_ok"] is False
    assert [problem["code"] for problem in line["problems"]] == ["crc_mismatch"]


def test_09_a_wrong_crc_of_a_message_v0_is_reported() -> None:
    lines = exchanges(CAPTURES / "0.8.2.2" / "errors.pcap")
    (line,) = [line for line in lines if line["problems"]]
    assert [problem["code"] for problem in line["problems"]] == ["crc_mismatch"]
    assert line["error_codes"] == [2]


# 10. A batch without records, as compaction leaves them.


def test_10_an_empty_batch_is_no_error(read: Read) -> None:
    partition = {"partition_index": 0, "high_watermark": 9, "records": batch(b"", 0) + batch_of([b"v"])}
    talk = Conversation()
    talk.open()
    talk.client_sends(request(FETCH, 11, topics=[{"topic": "t", "partitions": [{"partition": 0}]}]))
    talk.broker_sends(response(FETCH, 11, responses=[{"topic": "t", "partitions": [partition]}]))
    talk.close()
    (line,) = read(talk)
    (found,) = record_sets(body(line, "response"))
    assert [(one["count"], one["crc_ok"]) for one in found.batches] == [(0, True), (1, True)]
    assert line["problems"] == []


# 11. The port does not tell the direction.


@pytest.mark.parametrize("with_handshake", [True, False])
def test_11_a_client_may_have_the_brokers_port(read: Read, with_handshake: bool) -> None:
    talk = Conversation(client=("10.0.0.1", 9092), broker=("10.0.0.9", 41000))
    if with_handshake:
        talk.open()
    talk.client_sends(metadata_request(1, "orders"))
    talk.broker_sends(metadata_response(1, "orders"))
    talk.client_sends(metadata_request(2, "orders"))
    talk.broker_sends(metadata_response(2, "orders"))
    lines = read(talk)
    assert [(line["client"]["port"], line["broker"]["port"]) for line in lines] == [(9092, 41000)] * 2
    assert all(line["api"] == "Metadata" and line["outcome"] == "answered" for line in lines)


def test_11_brokers_among_themselves() -> None:
    lines = exchanges(CAPTURES / "0.8.2.2" / "controller-2brokers.pcap.gz")
    assert {line["broker"]["port"] for line in lines} == {23002, 23003}


# 12. A capture that starts inside a frame.


def test_12_later_messages_are_found_when_a_capture_starts_inside_a_frame(read: Read) -> None:
    talk = Conversation()
    talk.open()
    talk.client_sends(produce_request(batch_of([b"x" * 20_000]), correlation_id=1))
    talk.broker_sends(response(PRODUCE, 3, 1))
    for correlation_id in range(2, 8):
        talk.client_sends(metadata_request(correlation_id, f"topic-{correlation_id}"))
        talk.broker_sends(metadata_response(correlation_id, f"topic-{correlation_id}"))
    inside_the_first_request = talk.packets[8:]
    answered = [line for line in read(inside_the_first_request) if line["outcome"] == "answered"]
    assert {f"topic-{i}" for i in range(3, 8)} <= {topic for line in answered for topic in line["topics"]}
    assert {line["api"] for line in answered} == {"Metadata"}


# 13. A segment out of order.


def test_13_a_segment_out_of_order_is_put_in_its_place(read: Read) -> None:
    wanted = [b"%d" % i * 3000 for i in range(5)]
    talk = Conversation()
    talk.open()
    talk.client_sends(produce_request(batch_of(wanted)))
    talk.broker_sends(response(PRODUCE, 3))
    talk.close()
    segments = [i for i, packet in enumerate(talk.packets) if len(packet.data) > 500]
    for one, other in ((segments[1], segments[4]), (segments[6], segments[7])):
        first, second = talk.packets[one], talk.packets[other]
        talk.packets[one], talk.packets[other] = (
            Packet(first.time_us, second.data),
            Packet(second.time_us, first.data),
        )
    (line,) = read(talk)
    (found,) = record_sets(body(line, "request"))
    assert [value.encode() for value in values(found.batches)] == wanted
    assert line["problems"] == []


# 14. ApiVersions v0 with four bytes too many, as an old librdkafka sends it.


def test_14_four_trailing_bytes_are_decoded_around_and_reported() -> None:
    lines = exchanges(CAPTURES / "0.10.0.1" / "librdkafka1-auto.pcap")
    lines = [line for line in lines if line["api"] == "ApiVersions"]
    assert len(lines) == 3
    for line in lines:
        assert [(p["code"], p["bytes"], p["side"]) for p in line["problems"]] == [
            ("trailing_bytes", 4, "request")
        ]
        assert "4 trailing bytes" in line["problems"][0]["message"]
        assert line["outcome"] == "answered"
        assert len(body(line, "response")["api_keys"]) > 10


# 15. The password of SASL PLAIN.


@pytest.mark.parametrize("form", ["jsonl", "table", "detail"])
@pytest.mark.parametrize(
    "file",
    [
        "4.4.0/sasl_plain.pcap.gz",
        "0.10.0.1/sasl-plain-handshake-v0-kafkapython.pcap",
        "2.8.2/sasl-plain.pcap",
    ],
)
def test_15_the_password_is_not_printed(
    file: str, form: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # a password broken over two lines would not be found
    row = ROWS[file]
    assert main(["read", str(row.path), "--format", form, "--records", "--payload", "text"]) == 0
    output = "".join(capfd.readouterr())
    assert len(output) > 1000
    for secret in row.facts["secrets"]:
        assert not [text for text in disguises(secret) if text in output]


# 16. Input is hostile.


def test_16_damaged_lz4_is_a_result_or_a_problem(read: Read) -> None:
    rng = random.Random(16)
    frame = lz4_blocks(records(LONG[:50]), 1000)
    hostile = [
        b"",
        LZ4_HEADER,
        LZ4_HEADER[:5],
        LZ4_HEADER + b"\xff" * 40,
        LZ4_HEADER + struct.pack("<I", 0x7FFFFFFF) + b"\0" * 20,
        LZ4_HEADER + struct.pack("<I", 0x80000010) + b"\0" * 3,
        bytes.fromhex("04224d18685040ffffffffffffff7f00") + frame[7:],
        frame[:-4],
        frame * 2,
    ]
    for _ in range(150):
        damaged = bytearray(frame)
        for _ in range(rng.randint(1, 6)):
            damaged[rng.randrange(min(len(damaged), rng.choice([16, 200, len(damaged)])))] = rng.randrange(
                256
            )
        hostile.append(bytes(damaged[: rng.choice([len(damaged), rng.randrange(len(damaged))])]))
    talk = Conversation()
    talk.open()
    for i, payload in enumerate(hostile):
        talk.client_sends(produce_request(batch(payload, 50, LZ4), correlation_id=i))
        talk.broker_sends(response(PRODUCE, 3, i))
    talk.close()
    lines = read(talk)
    assert len(lines) == len(hostile)
    codes = {problem["code"] for line in lines for problem in line["problems"]}
    assert "decompression" in codes
    for line in lines:
        (found,) = record_sets(body(line, "request"))
        assert line["problems"] or len(values(found.batches)) == 50
