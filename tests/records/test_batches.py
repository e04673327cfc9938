"""Batches v2, and what holds for record sets of every format."""

from __future__ import annotations

import json
import random
import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinspect import records
from kinspect.model import PROBLEM_CODES

DATA = Path(__file__).with_name("data")
BATCH_KEYS = [
    *("base_offset", "last_offset", "magic", "compression", "count", "size", "crc_ok", "timestamp_type"),
    *("base_timestamp_ms", "max_timestamp_ms", "delete_horizon_ms", "producer_id", "producer_epoch"),
    *("base_sequence", "partition_leader_epoch", "is_transactional", "is_control"),
]


def lines(name: str) -> list[dict]:
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def without_records(record_set: records.RecordSet) -> list[dict]:
    return [{key: value for key, value in batch.items() if key != "records"} for batch in record_set]


def read(data: bytes, **options: object) -> records.RecordSet:
    """Read both ways, and check what always holds."""
    whole = records.batches(data, **options)
    summary = records.summarise(data, aligned=options.get("aligned", True))
    assert without_records(whole) == list(summary)
    assert whole.partial_bytes == summary.partial_bytes
    for found in (whole, summary):
        skipped = sum(problem.bytes or 0 for problem in found.problems)
        assert sum(batch["size"] for batch in found) + found.partial_bytes + skipped == len(data)
        assert all(problem.code in PROBLEM_CODES for problem in found.problems)
    for batch in whole:
        assert list(batch) == [*BATCH_KEYS, "records"]
    return whole


def codes(record_set: records.RecordSet) -> list[tuple[str, int | None]]:
    return [(problem.code, problem.offset) for problem in record_set.problems]


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


@pytest.mark.parametrize("vector", lines("vectors.jsonl"), ids=lambda v: f"v{v['magic']}-{v['codec']}")
def test_vectors(vector):
    """Batches as Kafka's own code wrote and read them; −1 is its timestamp of a message without one."""
    found = read(bytes.fromhex(vector["record_set"]))
    assert not found.problems
    assert found.partial_bytes == 0
    assert {(batch["magic"], batch["compression"]) for batch in found} == {(vector["magic"], vector["codec"])}
    assert all(batch["crc_ok"] for batch in found)
    assert [
        {
            "offset": record["offset"],
            "timestamp": -1 if record["timestamp_ms"] is None else record["timestamp_ms"],
            "key": text(record["key"]),
            "value": text(record["value"]),
            "headers": len(record["headers"]),
        }
        for batch in found
        for record in batch["records"]
    ] == vector["records"]


@pytest.mark.parametrize("real", lines("captures.jsonl"), ids=lambda real: real["capture"])
def test_record_sets_of_real_clients_and_brokers(real):
    found = read(bytes.fromhex(real["record_set"]))
    assert not found.problems
    assert found.partial_bytes == real["partial_bytes"]
    assert [
        [batch[key] for key in ("magic", "compression", "base_offset", "last_offset", "count")]
        for batch in found
    ] == real["batches"]
    for batch in found:
        assert batch["crc_ok"]
        assert len(batch["records"]) == batch["count"]
        offsets = [record["offset"] for record in batch["records"]]
        assert offsets == sorted(offsets)  # all 0 from producers before 0.10
        assert not offsets or batch["base_offset"] <= offsets[0]
        assert not offsets or offsets[-1] <= batch["last_offset"]


def test_all_fields(make):
    headers = ((b"trace", b"\x01\x02"), (b"", None), ("größe".encode(), b""))
    content = [make.record(0, None, None), make.record(3, b"", b"value", headers, timestamp_delta=-70_000)]
    data = make.batch(
        content,
        base_offset=1000,
        last_delta=5,
        attributes=0x10,
        producer_id=77,
        producer_epoch=2,
        base_sequence=9,
        leader_epoch=4,
    )
    assert list(read(data)) == [
        {
            "base_offset": 1000,
            "last_offset": 1005,
            "magic": 2,
            "compression": "none",
            "count": 2,
            "size": len(data),
            "crc_ok": True,
            "timestamp_type": "CreateTime",
            "base_timestamp_ms": 1_700_000_000_000,
            "max_timestamp_ms": 1_700_000_000_500,
            "delete_horizon_ms": None,
            "producer_id": 77,
            "producer_epoch": 2,
            "base_sequence": 9,
            "partition_leader_epoch": 4,
            "is_transactional": True,
            "is_control": False,
            "records": [
                {
                    "offset": 1000,
                    "timestamp_ms": 1_700_000_000_000,
                    "key": None,
                    "key_size": None,
                    "value": None,
                    "value_size": None,
                    "headers": [],
                },
                {
                    "offset": 1003,
                    "timestamp_ms": 1_699_999_930_000,
                    "key": b"",
                    "key_size": 0,
                    "value": b"value",
                    "value_size": 5,
                    "headers": [
                        {"key": "trace", "value": b"\x01\x02"},
                        {"key": "", "value": None},
                        {"key": "größe", "value": b""},
                    ],
                },
            ],
        }
    ]


@pytest.mark.parametrize("codec", range(5))
def test_varints_of_every_length(make, codec):
    sizes = (0, 63, 64, 8191, 8192, 1_048_576, 200_000)
    deltas = (0, 63, 64, -8192, 8192, -1_048_577, 2**40)
    offsets = (0, 63, 64, 8191, 8192, 1_048_576, 2**31 - 1)
    content = [
        make.record(offset, bytes(size), bytes(size + 1), ((b"h" * (size % 300), bytes(size)),), delta)
        for size, delta, offset in zip(sizes, deltas, offsets, strict=True)
    ]
    found = read(make.batch(content, codec=codec, base_timestamp=10**12))
    assert not found.problems
    got = [
        (
            record["offset"],
            record["timestamp_ms"],
            record["key_size"],
            record["value_size"],
            len(record["key"]),
        )
        for record in found[0]["records"]
    ]
    assert got == [
        (offset, 10**12 + delta, size, size + 1, size)
        for size, delta, offset in zip(sizes, deltas, offsets, strict=True)
    ]


def test_many_headers(make):
    headers = tuple((b"k%d" % number, b"v" * number) for number in range(200))
    found = read(make.batch([make.record(0, b"k", b"v", headers)]))
    assert found[0]["records"][0]["headers"] == [
        {"key": key.decode(), "value": value} for key, value in headers
    ]


def test_log_append_time(make):
    found = read(make.batch([make.record(0, b"k", b"v"), make.record(1, b"k", b"v")], attributes=0x08))
    assert found[0]["timestamp_type"] == "LogAppendTime"
    assert [record["timestamp_ms"] for record in found[0]["records"]] == [1_700_000_000_500] * 2


def test_delete_horizon(make):
    """KIP-534: the base timestamp holds the horizon, and the records' deltas count from it."""
    horizon = 1_800_000_000_000
    data = make.batch(
        [make.record(0, b"k", None, timestamp_delta=-5)], attributes=0x40, base_timestamp=horizon
    )
    (batch,) = read(data)
    assert batch["delete_horizon_ms"] == batch["base_timestamp_ms"] == horizon
    assert batch["records"][0]["timestamp_ms"] == horizon - 5


def test_no_timestamps(make):
    (batch,) = read(make.batch([make.record(0, b"k", b"v")], base_timestamp=-1, max_timestamp=-1))
    assert batch["base_timestamp_ms"] is batch["max_timestamp_ms"] is None
    assert batch["records"][0]["timestamp_ms"] is None


@pytest.mark.parametrize("codec", range(5))
def test_empty_batch(make, codec):
    """Compaction leaves headers alone."""
    (batch,) = found = read(make.batch([], codec=codec, base_offset=7, last_delta=9))
    assert not found.problems
    assert (batch["count"], batch["records"], batch["size"]) == (0, [], 61)
    assert (batch["base_offset"], batch["last_offset"]) == (7, 16)


def test_empty_record_set():
    assert list(read(b"")) == []


def test_control_batch(make):
    (batch,) = read(make.batch([make.record(0, bytes(4), bytes(6))], attributes=0x30, producer_id=5))
    assert batch["is_control"]
    assert batch["is_transactional"]


def test_crc_mismatch_is_reported_and_the_records_read(make):
    good = make.batch([make.record(0, b"k", b"v")])
    found = read(good + make.batch([make.record(0, b"k", b"secret")], spoil_crc=1) + good)
    assert [batch["crc_ok"] for batch in found] == [True, False, True]
    assert codes(found) == [("crc_mismatch", len(good))]
    assert found[1]["records"][0]["value"] == b"secret"
    assert "secret" not in found.problems[0].message


def test_cut_off_at_every_byte(make):
    whole = make.batch([make.record(0, b"key", b"value")])
    for size in range(1, len(whole)):
        found = read(whole + whole[:size])
        assert len(found) == 1
        assert not found.problems
        assert found.partial_bytes == size


@pytest.mark.parametrize("fill", [b"\x00", b"\xff"])
@pytest.mark.parametrize("size", [3, 12, 13, 17, 40, 61, 200])
def test_filler_of_down_converted_answers(make, fill, size):
    """An offset, a size beyond the end, then nothing that means something."""
    filler = (struct.pack(">qi", 500, 10_000) + fill * 200)[:size]
    found = read(make.batch([make.record(0, b"k", b"v")]) + filler)
    assert len(found) == 1
    assert not found.problems
    assert found.partial_bytes == size


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec(make, codec):
    found = read(make.batch([b"\x00" * 20], attributes=codec))
    assert found[0]["compression"] == f"unknown_{codec}"
    assert found[0]["records"] == []


def test_unknown_codec_is_a_problem_only_where_records_are_read(make):
    data = make.batch([b"\x00" * 20], attributes=5)
    assert codes(records.batches(data)) == [("decompression", 0)]
    assert codes(records.summarise(data)) == []


@pytest.mark.parametrize("codec", range(1, 5))
def test_damaged_payload(make, codec):
    damaged = make.batch(b"\x01\x02\x03" * 30, attributes=codec)
    found = records.batches(damaged + make.batch([make.record(0, b"k", b"v")]))
    assert codes(found) == [("decompression", 0)]
    assert [len(batch["records"]) for batch in found] == [0, 1]


def test_a_raw_snappy_block(make):
    import cramjam

    payload = bytes(cramjam.snappy.compress_raw(make.record(0, b"k", b"v" * 100)))
    found = read(make.batch(payload, attributes=2))
    assert found[0]["records"][0]["value"] == b"v" * 100


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ([b"\x00"], 1),  # a record of no bytes
        ([b"\x01"], 1),  # a negative length
        ([b"\x80" * 6 + b"\x01"], 1),  # a length of too many bytes
        ([b"\x14\x00\x00\x00\x02k\x02v\x00"], 1),  # shorter than it says
        ([b"\x06\x00\x00\x00\x02k\x02v\x00"], 1),  # longer than it says
        ([b"\x0e\x00\x00\x00\x7fkv\x00"], 1),  # a key without end
        ([b"\x10\x00\x00\x00\x02k\x02v\x01"], 1),  # a negative number of headers
        ([b"\x14\x00\x00\x00\x02k\x02v\x02\x01\x01"], 1),  # a header without a key
        ([b"\x16\x00\x00\x00\x02k\x02v\x02\x00\x10a"], 1),  # a header's value without end
        ([], 3),  # no records at all
        ([b""], 2_000_000_000),
    ],
)
def test_malformed_records(make, content, count):
    good = make.record(0, b"good", b"v")
    data = make.batch([good, *content], count=count + 1)
    found = records.batches(data + make.batch([good]))
    assert codes(found) == [("malformed_records", 0)]
    assert [record["key"] for record in found[0]["records"]] == [b"good"]
    assert len(found[1]["records"]) == 1


def test_bytes_behind_the_last_record(make):
    found = records.batches(make.batch([make.record(0, b"k", b"v"), b"\x00\x01"], count=1))
    assert codes(found) == [("malformed_records", 0)]
    assert len(found[0]["records"]) == 1


def test_a_negative_count(make):
    found = read(make.batch([], count=-3))
    assert codes(found) == [("malformed_records", 0)]
    assert found[0]["count"] == -3


def test_header_keys_that_are_not_utf8(make):
    found = read(make.batch([make.record(0, b"k", b"v", ((b"a\xff", b"x"), (b"\xfe", None)))]))
    assert codes(found) == [("invalid_utf8", 0)]
    assert found[0]["records"][0]["headers"] == [
        {"key": "a\ufffd", "value": b"x"},
        {"key": "\ufffd", "value": None},
    ]


def test_other_magic_is_skipped(make):
    strange = make.batch([make.record(0, b"k", b"v")], magic=3)
    good = make.batch([make.record(0, b"k", b"v")])
    found = read(good + strange + good)
    assert len(found) == 2
    assert codes(found) == [("malformed_records", len(good))]
    assert found.problems[0].bytes == len(strange)


@pytest.mark.parametrize("size", [-1, 0, 13])
def test_impossible_size(make, size):
    good = make.batch([make.record(0, b"k", b"v")])
    found = read(good + struct.pack(">qi", 0, size) + bytes(80))
    assert codes(found) == [("malformed_records", len(good))]
    assert found.problems[0].bytes == 92


class TestUnaligned:
    """FetchSnapshot hands out byte ranges of a file."""

    def test_the_first_whole_batch_is_found(self, make):
        first = make.batch([make.record(0, b"k", b"\x02" * 300)])
        second = make.batch([make.record(0, b"k", b"second")], base_offset=1)
        for start in (0, 1, 16, 17, 60, len(first) - 1, len(first)):
            found = read((first + second + second[:30])[start:], aligned=False)
            assert not found.problems
            whole = [first, second] if start == 0 else [second]
            assert [batch["size"] for batch in found] == [len(batch) for batch in whole]
            assert found.partial_bytes == len(first) + len(second) + 30 - start - sum(map(len, whole))

    def test_no_boundary(self, make):
        middle = make.batch([make.record(0, b"k", bytes(range(256)) * 20)])[100:4000]
        found = read(middle, aligned=False)
        assert (list(found), found.problems, found.partial_bytes) == ([], [], len(middle))

    def test_the_search_is_bounded(self):
        started = time.process_time()
        records.summarise(b"\x02" * 3_000_000, aligned=False)
        assert time.process_time() - started < 5


class TestLimits:
    def test_records(self, make):
        data = make.batch([make.record(number, b"k", b"v") for number in range(10)], codec=1)
        found = records.batches(data * 3, max_records=15)
        assert [len(batch["records"]) for batch in found] == [10, 5, 0]
        assert [batch["count"] for batch in found] == [10, 10, 10]
        assert codes(found) == [("cap", len(data)), ("cap", 2 * len(data))]

    def test_headers(self, make):
        content = [make.record(number, b"k", b"v", ((b"h", b"v"),) * 9) for number in range(10)]
        found = records.batches(make.batch(content, codec=1) * 2, max_records=35)
        assert [len(batch["records"]) for batch in found] == [3, 0]
        assert [code for code, _ in codes(found)] == ["cap", "cap"]

    def test_expanded_bytes_of_all_batches_together(self, make):
        content = make.record(0, b"k", bytes(1000))
        data = make.batch([content], codec=4)
        found = records.batches(data * 3, max_bytes=2 * len(content) + 10)
        assert [len(batch["records"]) for batch in found] == [1, 1, 0]
        assert codes(found) == [("cap", 2 * len(data))]
        assert found.expanded_bytes == 2 * len(content) + 10

    def test_batches(self, make):
        data = make.batch([make.record(0, b"k", b"v")])
        assert codes(records.batches(data * 3, max_batches=3)) == []
        for read_set in (records.batches, records.summarise):
            found = read_set(data * 5, max_batches=3)
            assert len(found) == 3
            assert codes(found) == [("cap", 3 * len(data))]
            assert found.caps_hit == {"records"}

    def test_many_bombs_cost_no_more_than_one(self, make):
        bomb = make.batch(make.compress(4, bytes(200_000_000)), attributes=4, count=1)
        started = time.process_time()
        found = records.batches(bomb * 500, max_bytes=1_000_000)
        assert time.process_time() - started < 5
        assert {problem.code for problem in found.problems} == {"cap"}


@given(st.binary(max_size=400))
def test_any_bytes(data):
    read(data)
    read(data, aligned=False)


@given(st.binary(max_size=200), st.integers(0, 3), st.integers(0, 255), st.integers(0, 2**31 - 1))
def test_any_payload(make, payload, magic, attributes, count):
    data = make.batch(payload, attributes=attributes, count=count) + make.message(
        1, b"k", payload, magic, attributes=attributes & 127
    )
    read(data)


@settings(max_examples=50)
@given(st.sampled_from(range(5)), st.randoms(use_true_random=False))
def test_flipped_bytes(make, codec, chance: random.Random):
    content = [make.record(number, b"key", b"value" * number, ((b"h", b"v"),)) for number in range(20)]
    sets = bytearray(make.batch(content, codec=codec) * 2)
    if codec < 4:
        sets += make.wrapper(19, [make.message(number, b"k", b"v") for number in range(20)], codec, 1)
    for _ in range(20):
        damaged = bytearray(sets)
        for _ in range(chance.randrange(1, 4)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        read(bytes(damaged))


@given(st.data())
def test_flipped_bytes_of_real_sets(data):
    real = bytearray.fromhex(data.draw(st.sampled_from(lines("captures.jsonl")))["record_set"])
    for _ in range(data.draw(st.integers(1, 3))):
        real[data.draw(st.integers(0, len(real) - 1))] = data.draw(st.integers(0, 255))
    read(bytes(real))


def test_not_bytes():
    with pytest.raises(TypeError):
        records.batches(None)


def test_the_result_is_a_list() -> None:
    assert isinstance(records.batches(b""), list)
    assert records.batches(b"") == []
    assert json.loads(json.dumps(records.summarise(b""))) == []
