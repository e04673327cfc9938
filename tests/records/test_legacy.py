"""Message sets of formats v0 and v1."""

from __future__ import annotations

import pytest

from kinspect import records


def offsets(batch: dict) -> list[int]:
    return [record["offset"] for record in batch["records"]]


def codes(record_set: records.RecordSet) -> list[tuple[str, int | None]]:
    return [(problem.code, problem.offset) for problem in record_set.problems]


def summary_of(data: bytes) -> list[dict]:
    return list(records.summarise(data))


def plain(batch: dict) -> dict:
    return {key: value for key, value in batch.items() if key != "records"}


def test_a_run_of_messages_is_one_entry(make):
    data = b"".join(make.message(10 + number, b"k", b"v", timestamp=1000 + number % 3) for number in range(7))
    (batch,) = found = records.batches(data)
    assert not found.problems
    assert plain(batch) == {
        "base_offset": 10,
        "last_offset": 16,
        "magic": 1,
        "compression": "none",
        "count": 7,
        "size": len(data),
        "crc_ok": True,
        "timestamp_type": "CreateTime",
        "base_timestamp_ms": 1000,
        "max_timestamp_ms": 1002,
        "delete_horizon_ms": None,
        "producer_id": None,
        "producer_epoch": None,
        "base_sequence": None,
        "partition_leader_epoch": None,
        "is_transactional": False,
        "is_control": False,
    }
    assert batch["records"][1] == {
        "offset": 11,
        "timestamp_ms": 1001,
        "key": b"k",
        "key_size": 1,
        "value": b"v",
        "value_size": 1,
        "headers": [],
    }
    assert summary_of(data) == [plain(batch)]


def test_magic_0_has_no_timestamps(make):
    (batch,) = records.batches(make.message(5, None, None, magic=0))
    assert batch["timestamp_type"] is batch["base_timestamp_ms"] is batch["max_timestamp_ms"] is None
    assert batch["records"][0] == {
        "offset": 5,
        "timestamp_ms": None,
        "key": None,
        "key_size": None,
        "value": None,
        "value_size": None,
        "headers": [],
    }


def test_no_timestamp_in_magic_1(make):
    (batch,) = records.batches(
        make.message(5, None, b"v", timestamp=-1) + make.message(6, None, b"v", timestamp=-1)
    )
    assert batch["base_timestamp_ms"] is batch["max_timestamp_ms"] is None


def test_formats_mixed_in_one_set(make):
    parts = [
        make.message(0, b"a", b"1", magic=0),
        make.message(1, b"b", b"2", magic=1),
        make.message(2, b"c", b"3", magic=1, attributes=8),
        make.batch([make.record(0, b"d", b"4")], base_offset=3),
        make.message(4, b"e", b"5", magic=0) + make.message(5, b"f", b"6", magic=0),
        make.wrapper(7, [make.message(0, b"g", b"7"), make.message(1, b"h", b"8")], 1),
    ]
    found = records.batches(b"".join(parts))
    assert not found.problems
    assert [batch["size"] for batch in found] == [len(part) for part in parts]
    assert [offset for batch in found for offset in offsets(batch)] == list(range(8))
    assert [batch["timestamp_type"] for batch in found] == [
        *(None, "CreateTime", "LogAppendTime", "CreateTime", None, "CreateTime")
    ]


@pytest.mark.parametrize("codec", [1, 2, 3])
class TestWrappers:
    def test_absolute_offsets_in_magic_0(self, make, codec):
        inner = [make.message(20 + number, b"k", b"v", magic=0) for number in range(5)]
        (batch,) = found = records.batches(make.wrapper(24, inner, codec, magic=0))
        assert not found.problems
        assert (batch["base_offset"], batch["last_offset"], batch["count"]) == (20, 24, 5)
        assert offsets(batch) == [20, 21, 22, 23, 24]

    def test_relative_offsets_in_magic_1(self, make, codec):
        inner = [make.message(number, b"k", b"v", timestamp=1000 + number) for number in range(5)]
        data = make.wrapper(104, inner, codec)
        (batch,) = found = records.batches(data)
        assert not found.problems
        assert (batch["base_offset"], batch["last_offset"], batch["count"]) == (100, 104, 5)
        assert offsets(batch) == [100, 101, 102, 103, 104]
        assert [record["timestamp_ms"] for record in batch["records"]] == [1000, 1001, 1002, 1003, 1004]
        assert batch["base_timestamp_ms"] == 1000
        assert summary_of(data) == [plain(batch)]

    def test_compaction_leaves_gaps(self, make, codec):
        inner = [make.message(number, b"k", b"v") for number in (1, 4, 9)]
        (batch,) = records.batches(make.wrapper(209, inner, codec))
        assert (batch["base_offset"], batch["last_offset"], batch["count"]) == (201, 209, 3)
        assert offsets(batch) == [201, 204, 209]

    def test_a_producer_may_leave_the_wrappers_offset_at_0(self, make, codec):
        inner = [make.message(number, b"k", b"v") for number in range(3)]
        (batch,) = found = records.batches(make.wrapper(0, inner, codec))
        assert not found.problems
        assert offsets(batch) == [0, 1, 2]
        assert (batch["base_offset"], batch["last_offset"]) == (0, 2)

    def test_a_wrapper_behind_its_last_message(self, make, codec):
        inner = [make.message(number, b"k", b"v") for number in range(9)]
        found = records.batches(make.wrapper(5, inner, codec))
        assert codes(found) == [("malformed_records", 0)]
        assert offsets(found[0]) == list(range(9))

    def test_append_time(self, make, codec):
        inner = [make.message(number, b"k", b"v", timestamp=5) for number in range(3)]
        data = make.wrapper(2, inner, codec, attributes=8)
        (batch,) = records.batches(data)
        assert batch["timestamp_type"] == "LogAppendTime"
        assert {record["timestamp_ms"] for record in batch["records"]} == {1_700_000_000_000}
        assert batch["base_timestamp_ms"] == batch["max_timestamp_ms"] == 1_700_000_000_000
        assert summary_of(data) == [plain(batch)]

    @pytest.mark.parametrize("magic", [0, 1])
    def test_wrappers_in_a_wrapper(self, make, codec, magic):
        """Relative to the inner wrapper, whose offset is relative to the outer one's."""
        first, second = ((0, 1), (0, 1)) if magic else ((50, 51), (52, 53))
        inner = [
            make.wrapper(last, [make.message(number, b"k", b"v", magic) for number in numbers], codec, magic)
            for numbers, last in ((first, 1 if magic else 51), (second, 3 if magic else 53))
        ]
        data = make.wrapper(53, inner, codec, magic)
        (batch,) = found = records.batches(data)
        assert not found.problems
        assert offsets(batch) == [50, 51, 52, 53]
        assert (batch["base_offset"], batch["last_offset"], batch["count"]) == (50, 53, 4)
        assert summary_of(data) == [plain(batch)]

    def test_nested_without_end(self, make, codec):
        data = make.message(0, b"k", b"v")
        for _ in range(40):
            data = make.wrapper(0, [data], codec)
        for found in (records.batches(data), records.summarise(data)):
            assert codes(found) == [("malformed_records", 0)]
            assert found[0]["count"] is None

    @pytest.mark.parametrize("spoiled", ["outer", "inner"])
    def test_crc_mismatch(self, make, codec, spoiled):
        inner = make.compress(codec, make.message(0, b"k", b"v", spoil_crc=spoiled == "inner"))
        data = make.message(0, None, inner, attributes=codec, spoil_crc=spoiled == "outer")
        found = records.batches(make.message(0, b"k", b"v") + data)
        assert [batch["crc_ok"] for batch in found] == [True, False]
        assert codes(found) == [("crc_mismatch", 35 + 1)]

    def test_damaged_content(self, make, codec):
        good = make.message(0, b"k", b"v")
        data = make.message(9, None, b"\x07damaged", attributes=codec)
        for read in (records.batches, records.summarise):
            found = read(good + data)
            assert codes(found) == [("decompression", len(good))]
            batch = found[1]
            assert (batch["count"], batch["base_offset"], batch["last_offset"]) == (None, None, 9)
            assert (batch["base_timestamp_ms"], batch["max_timestamp_ms"]) == (None, 1_700_000_000_000)

    def test_without_content(self, make, codec):
        for value in (None, make.compress(codec, b"")):
            found = records.batches(make.message(9, None, value, attributes=codec))
            assert codes(found) == [("malformed_records", 0)]
            assert found[0]["records"] == []

    def test_content_that_is_cut_off(self, make, codec):
        inner = make.compress(codec, make.message(0, b"k", b"v") + make.message(1, b"k", b"v")[:-3])
        found = records.batches(make.message(1, None, inner, attributes=codec))
        assert codes(found) == [("malformed_records", 0)]
        assert len(found[0]["records"]) == 1

    def test_limits(self, make, codec):
        inner = [make.message(number, b"k", bytes(1000)) for number in range(10)]
        data = make.wrapper(9, inner, codec)
        found = records.batches(data, max_records=4)
        assert codes(found) == [("cap", 0)]
        assert (found[0]["count"], len(found[0]["records"])) == (10, 4)
        for found in (records.batches(data, max_bytes=5000), records.summarise(data, max_bytes=5000)):
            assert codes(found) == [("cap", 0)]
            assert found[0]["count"] is None


def test_lz4_with_the_wrong_header_checksum_of_magic_0(make):
    """KAFKA-3160."""
    frame = bytearray(make.compress(3, make.message(0, b"k", b"v", magic=0)))
    at = 14 if frame[4] & 8 else 6
    frame[at] ^= 0x11
    assert not records.batches(make.message(0, None, bytes(frame), magic=0, attributes=3)).problems
    assert codes(records.batches(make.message(0, None, bytes(frame), magic=1, attributes=3))) == [
        ("decompression", 0)
    ]


def test_one_bad_crc_in_a_run(make):
    data = (
        make.message(0, b"k", b"v") + make.message(1, b"k", b"v", spoil_crc=1) + make.message(2, b"k", b"v")
    )
    (batch,) = found = records.batches(data)
    assert batch["crc_ok"] is False
    assert codes(found) == [("crc_mismatch", 0)]
    assert offsets(batch) == [0, 1, 2]


def test_key_and_value_must_fill_the_message(make):
    good = make.message(0, b"k", b"v")
    bad = bytearray(make.message(1, b"key", b"value"))
    bad[29] += 1  # the key's length
    found = records.batches(good + bytes(bad) + good)
    assert codes(found) == [("malformed_records", 0), ("crc_mismatch", 0)]
    assert offsets(found[0]) == [0, 0]
    assert found[0]["count"] == 3


def test_cut_off_at_every_byte(make):
    whole = make.message(0, b"key", b"value")
    for size in range(1, len(whole)):
        for read in (records.batches, records.summarise):
            found = read(whole + whole[:size])
            assert not found.problems
            assert (len(found), found.partial_bytes) == (1, size)
