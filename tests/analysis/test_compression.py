"""Compression: bytes on the wire and expanded ones equal what the records of the lines would take, encoded anew."""

import gzip
from base64 import b64decode
from collections import Counter, defaultdict
from functools import partial
from struct import pack

import pytest
from analysis.runs import Talk, rows_of
from analysis.test_topics import fetched, names_of, produced
from support.captures import captures, each_folder


@pytest.fixture
def rows(answer_rows):
    return partial(answer_rows, "compression")


def varint(number):
    """Bytes of a zigzag varint."""
    return max(((number << 1 ^ number >> 63).bit_length() + 6) // 7, 1)


def sized(size):
    """Bytes of a key or value of v2, by its size."""
    return varint(-1 if size is None else size) + (size or 0)


def record_size(batch, record):
    """Bytes of a record, by the lines' keys; a message of magic 0 or 1 stands for itself."""
    if batch["magic"] < 2:
        return (26, 34)[batch["magic"]] + (record["key_size"] or 0) + (record["value_size"] or 0)
    headers = record["headers"]
    size = 1 + varint(len(headers)) + sized(record["key_size"]) + sized(record["value_size"])
    size += varint((record["timestamp_ms"] or 0) - (batch["base_timestamp_ms"] or 0))
    size += varint(record["offset"] - batch["base_offset"])
    for header in headers:
        value = header["value"]
        size += sized(len(header["key"].encode())) + sized(None if value is None else len(b64decode(value)))
    return size + varint(size)


def expanded(batch):
    """Bytes of a batch without compression; None where the lines do not tell."""
    if batch["magic"] == 2 and batch["timestamp_type"] != "CreateTime":
        return None
    if len(batch["records"]) != batch["count"]:
        return None
    return (61 if batch["magic"] == 2 else 0) + sum(record_size(batch, record) for record in batch["records"])


def sums(lines):
    names, found, unsure = names_of(lines), defaultdict(Counter), set()
    for line in lines:
        if line["api"] not in ("Produce", "Fetch") or line["request"] is None:
            continue
        body = line["request"]["body"] or {}
        replica = (body.get("replica_state") or body).get("replica_id", -1) >= 0
        direction = "produce" if line["api"] == "Produce" else "replicate" if replica else "consume"
        for topic, sets in (produced if direction == "produce" else fetched)(line):
            key = names.get(topic, topic), direction, line["client"]["id"], line["client"]["ip"]
            for batch in [batch for one in sets for batch in one["batches"]]:
                size = expanded(batch)
                unsure |= {key} if size is None else set()
                found[key] += Counter(batches=1, bytes=batch["size"], expanded_bytes=size or 0)
                found[key]["codec " + batch["compression"]] += 1
    return {key: dict(count) for key, count in found.items() if key not in unsure}, unsure


@each_folder
def test_bytes_are_those_of_the_records_of_the_lines(lines, rows, folder):
    for capture in captures(folder):
        expected, unsure = sums(lines("--records", "--payload", "base64", "--show-secrets", capture))
        found = {}
        for row in rows(capture):
            key = row["topic"], row["direction"], row["client_id"], row["client_ip"]
            if row["batches"] and row["unexpanded"] == 0 and key not in unsure:
                assert row["saved_bytes"] == row["expanded_bytes"] - row["bytes"]
                assert row["ratio"] == round(row["expanded_bytes"] / row["bytes"], 3)
                found[key] = {name: row[name] for name in ("batches", "bytes", "expanded_bytes")}
                found[key] |= {f"codec {name}": count for name, count in row["codecs"].items()}
        share = {key for key in found if key not in expected}
        assert {key: one for key, one in found.items() if key not in share} == expected, capture


def gzipped(content, codec=1):
    """A batch v2 whose records are these bytes, compressed."""
    tail = pack(">hiqqqhii", codec, 0, 0, 0, -1, -1, -1, 1) + content
    return pack(">qiib", 0, 9 + len(tail), 0, 2) + bytes(4) + tail


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        ([gzipped(gzip.compress(bytes(1000)))], (1, 1061, 0)),
        # 48 MB are the limit of an exchange, whose second half is beyond it.
        ([gzipped(gzip.compress(bytes(25 << 20)))] * 2, (2, None, 1)),
        ([gzipped(b"x"), gzipped(gzip.compress(b"x"))], (2, None, 1)),
        ([gzipped(b"x", codec=6)], (1, None, 1)),
        ([gzipped(b"")], (1, 61, 0)),  # compaction emptied it
        # Bytes that are no batch stand before one that is read at its place.
        ([pack(">qi", 0, 30) + bytes(4) + b"\x09" + bytes(25), gzipped(gzip.compress(b"x"))], (1, None, 1)),
        ([gzipped(gzip.compress(b"x")), gzipped(b"")[:40]], (1, 62, 0)),  # cut by the broker
    ],
)
def test_what_cannot_be_expanded_is_not_known(tmp_path, batches, expected):
    talk = Talk()
    part = {"index": 0, "records": b"".join(batches)}
    topics = [{"name": "t", "partition_data": [part]}]
    talk.asks(0, 8, {"transactional_id": None, "acks": 0, "timeout_ms": 1, "topic_data": topics})
    (row,) = rows_of("compression", talk.read(tmp_path))
    assert (row["batches"], row["expanded_bytes"], row["unexpanded"]) == expected
    assert (row["ratio"] is None) == (row["saved_bytes"] is None) == (expected[1] is None)


def test_who_only_waits_has_no_batches_and_whose_answer_was_cut_has_nulls(tmp_path):
    topics = [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 9}]}]
    asked = {"replica_id": -1, "max_wait_ms": 1, "min_bytes": 1, "topics": topics}
    part = {"partition_index": 0, "error_code": 0, "high_watermark": 0, "records": b""}
    talk = Talk()
    talk.answers(talk.asks(1, 0, asked), {"responses": [{"topic": "t", "partitions": [part]}]})
    found = talk.read(tmp_path)
    (row,) = rows_of("compression", found)
    assert (row["batches"], row["unexpanded"], row["ratio"]) == (0, 0, None)
    found[0].response = None
    (row,) = rows_of("compression", found)
    assert [row[key] for key in ("topic", "codecs", "batches", "bytes", "expanded_bytes", "ratio")] == [
        *("t", None, None, None, None, None)
    ]
