"""Keys and values that Kafka itself defines: internal topics, control records, the consumer protocol."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect import records
from kinspect.protocol import schema
from kinspect.records import controlrecords, internal
from kinspect.records.embedded import decode_assignment, decode_subscription

DATA = Path(__file__).with_name("data")
TOPICS = sorted(internal.TOPICS)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def compact(value: str) -> bytes:
    return bytes((len(value.encode()) + 1,)) + value.encode()


def real() -> list[dict]:
    return [json.loads(line) for line in (DATA / "internal.jsonl").read_text("utf-8").splitlines()]


def readings(entry: dict) -> list[tuple[dict | None, dict | None]]:
    found = []
    for batch in records.batches(bytes.fromhex(entry["record_set"])):
        for record in batch["records"]:
            key, value = record["key"], record["value"]
            if batch["is_control"]:
                found.append(controlrecords.decode_control_record(key, value))
            else:
                topic = entry["topic"]
                found.append((internal.decode_key(topic, key), internal.decode_value(topic, key, value)))
    return found


def test_every_record_of_real_internal_topics_is_read():
    """Kafka 4.4 and 2.8.1 (KRaft's early access): replicas fetching from leaders and controllers."""
    seen = set()
    for entry in real():
        for key, value in readings(entry):
            assert value is not None
            seen |= {value["type"], key["type"] if key else None}
    assert seen >= {
        *(
            "GroupMetadataKey",
            "OffsetCommitKey",
            "OffsetCommitValue",
            "TransactionLogKey",
            "TransactionLogValue",
        ),
        *(
            "RegisterBrokerRecord",
            "TopicRecord",
            "PartitionRecord",
            "PartitionChangeRecord",
            "FenceBrokerRecord",
        ),
        *("LEADER_CHANGE", "LeaderChangeMessage", "KRAFT_VERSION", "KRAFT_VOTERS", "VotersRecord"),
    }


def test_group_metadata_opens_the_consumer_protocol():
    (value,) = [
        value
        for entry in real()
        for _, value in readings(entry)
        if value and value["type"] == "GroupMetadataValue" and value["data"]["members"]
    ]
    (member,) = value["data"]["members"]
    assert isinstance(member["subscription"], bytes)
    assert member["subscription_decoded"] == {
        "version": 3,
        "topics": ["pc-rep"],
        "user_data": b"",
        "owned_partitions": [],
        "generation_id": -1,
        "rack_id": "r2",
    }
    assert member["assignment_decoded"] == {
        "version": 0,
        "assigned_partitions": [{"topic": "pc-rep", "partitions": [0, 1]}],
        "user_data": b"",
    }


def test_early_metadata_of_2_8():
    (found,) = [
        value
        for entry in real()
        for _, value in readings(entry)
        if value and value["type"] == "FenceBrokerRecord"
    ]
    assert found == {"type": "FenceBrokerRecord", "version": 0, "data": {"id": 1, "epoch": 0}}


class TestCoordinatorTopics:
    KEY = struct.pack(">h", 1) + text("group") + text("topic") + struct.pack(">i", 7)

    def test_key(self):
        assert internal.decode_key("__consumer_offsets", self.KEY) == {
            "type": "OffsetCommitKey",
            "version": 0,
            "data": {"group": "group", "topic": "topic", "partition": 7},
        }

    def test_value(self):
        value = struct.pack(">hqi", 3, 42, 5) + text("note") + struct.pack(">q", 99)
        assert internal.decode_value("__consumer_offsets", self.KEY, value) == {
            "type": "OffsetCommitValue",
            "version": 3,
            "data": {"offset": 42, "leader_epoch": 5, "metadata": "note", "commit_timestamp": 99},
        }

    @pytest.mark.parametrize("key", [None, b"", b"\x00", KEY[:-1], KEY + b"\x00", b"\x7f\xff" + KEY[2:]])
    def test_keys_that_do_not_fit(self, key):
        assert internal.decode_key("__consumer_offsets", key) is None

    @pytest.mark.parametrize("value", [None, b"", b"\x00", b"\x00\x03", b"\x00\x63" + bytes(30)])
    def test_values_that_do_not_fit(self, value):
        assert internal.decode_value("__consumer_offsets", self.KEY, value) is None

    def test_a_value_needs_its_key(self):
        value = struct.pack(">hqi", 3, 42, 5) + text("note") + struct.pack(">q", 99)
        assert internal.decode_value("__consumer_offsets", None, value) is None

    def test_the_share_groups_early_access_key(self):
        key = struct.pack(">h", 9) + text("share")
        assert internal.decode_key("__consumer_offsets", key) == {
            "type": "ShareGroupPartitionMetadataKey",
            "version": 0,
            "data": {"group_id": "share"},
        }
        value = struct.pack(">h", 0) + b"\x01\x00"
        found = internal.decode_value("__consumer_offsets", key, value)
        assert found == {"type": "ShareGroupPartitionMetadataValue", "version": 0, "data": {"topics": []}}

    def test_share_state(self):
        key = struct.pack(">h", 1) + text("g") + bytes(16) + struct.pack(">i", 2)
        assert internal.decode_key("__share_group_state", key)["type"] == "ShareUpdateKey"
        early = struct.pack(">hhiqBB", 0, 1, 2, 3, 1, 0)  # 4.0: a shorter snapshot epoch
        assert internal.decode_value("__share_group_state", key, early)["data"]["start_offset"] == 3

    def test_a_classic_member_of_a_new_group(self):
        """KIP-848's online migration: its JoinGroup metadata lies in a tagged field."""
        subscription = struct.pack(">hi", 0, 1) + text("orders") + struct.pack(">i", -1)
        protocol = compact("range") + bytes((len(subscription) + 1,)) + subscription + b"\x00"
        classic = b"\x01" + struct.pack(">i", 45000) + b"\x02" + protocol + b"\x00"
        value = (
            struct.pack(">h", 0)
            + b"\x00\x00"
            + compact("client")
            + compact("/host")
            + b"\x01\x00"
            + struct.pack(">i", 1)
            + b"\x00"
            + bytes((1, 0, len(classic)))
            + classic
        )
        key = struct.pack(">h", 5) + text("group") + text("member")
        found = internal.decode_value("__consumer_offsets", key, value)
        (supported,) = found["data"]["classic_member_metadata"]["supported_protocols"]
        assert supported["metadata"] == subscription
        assert supported["metadata_decoded"]["topics"] == ["orders"]


class TestMetadataTopics:
    SCRAM = (
        b"\x01\x0b\x00"
        + compact("alice")
        + b"\x01"
        + b"\x03sa"
        + b"\x03st"
        + b"\x03se"
        + struct.pack(">i", 4096)
    )

    def test_names_of_the_fields(self):
        """Redaction finds secrets by them."""
        found = internal.decode_value("__cluster_metadata", None, self.SCRAM + b"\x00")
        assert found == {
            "type": "UserScramCredentialRecord",
            "version": 0,
            "data": {
                "name": "alice",
                "mechanism": 1,
                "salt": b"sa",
                "stored_key": b"st",
                "server_key": b"se",
                "iterations": 4096,
            },
        }

    @pytest.mark.parametrize(
        "value",
        [
            b"",
            b"\x01",
            b"\x01\x0b",
            SCRAM,
            b"\x02" + SCRAM[1:] + b"\x00",
            b"\x01\x7f\x00",
            b"\x80" * 9,
            b"\x01\x0b\x63",
        ],
    )
    def test_values_that_do_not_fit(self, value):
        assert internal.decode_value("__cluster_metadata", None, value) is None

    def test_quotas_of_2_8_and_later_share_a_number(self):
        later = b"\x01\x0e\x00" + b"\x01" + compact("q") + struct.pack(">d", 1.5) + b"\x01\x00"
        assert internal.decode_value("__cluster_metadata", None, later)["type"] == "ClientQuotaRecord"

    def test_metadata_records_have_no_keys(self):
        assert internal.decode_key("__cluster_metadata", b"\x00\x01") is None


def test_other_topics():
    assert internal.decode_key("orders", TestCoordinatorTopics.KEY) is None
    assert internal.decode_value("orders", TestCoordinatorTopics.KEY, b"\x00\x03") is None


class TestControl:
    @pytest.mark.parametrize(("number", "name"), [(0, "ABORT"), (1, "COMMIT")])
    def test_transaction_markers(self, number, name):
        assert controlrecords.decode_control_record(
            struct.pack(">hh", 0, number), struct.pack(">hi", 0, 12)
        ) == (
            {"type": name, "version": 0},
            {"type": "EndTxnMarker", "version": 0, "data": {"coordinator_epoch": 12}},
        )

    def test_leader_change(self):
        voters = b"\x02" + struct.pack(">i", 1) + b"\x00"
        value = struct.pack(">hi", 0, 1) + voters + voters + b"\x00"
        key, found = controlrecords.decode_control_record(b"\x00\x00\x00\x02", value)
        assert key == {"type": "LEADER_CHANGE", "version": 0}
        assert found["data"]["leader_id"] == 1

    def test_the_voters_of_version_1_have_directories(self):
        voters = b"\x02" + struct.pack(">i", 1) + bytes(16) + b"\x00"
        value = struct.pack(">hi", 1, 1) + voters + voters + b"\x00"
        _, found = controlrecords.decode_control_record(b"\x00\x00\x00\x02", value)
        assert found["version"] == 1
        assert "voter_directory_id" in found["data"]["voters"][0]

    def test_type_3_of_2_8_is_a_leader_change(self):
        value = bytes.fromhex("000000010300000002000000000100030000000100000000020000")
        key, found = controlrecords.decode_control_record(b"\x00\x00\x00\x03", value)
        assert key == {"type": "LEADER_CHANGE", "version": 0}
        assert found["data"] == {
            "leader_id": 1,
            "voters": [{"voter_id": 2}, {"voter_id": 1}],
            "granting_voters": [{"voter_id": 1}, {"voter_id": 2}],
        }

    def test_type_3_of_today_is_a_snapshot_header(self):
        key, found = controlrecords.decode_control_record(b"\x00\x00\x00\x03", struct.pack(">hqB", 0, 5, 0))
        assert key["type"] == "SNAPSHOT_HEADER"
        assert found["data"]["last_contained_log_timestamp"] == 5

    def test_what_does_not_parse(self):
        assert controlrecords.decode_control_record(None, b"") == (None, None)
        assert controlrecords.decode_control_record(b"\x00\x00\x00", b"") == (None, None)
        assert controlrecords.decode_control_record(b"\x00\x00\x00\x07", b"x") == (
            {"type": "UNKNOWN_7", "version": 0},
            None,
        )
        assert controlrecords.decode_control_record(b"\x00\x00\x00\x01", None) == (
            {"type": "COMMIT", "version": 0},
            None,
        )
        assert controlrecords.decode_control_record(b"\x00\x00\x00\x01", b"\x00\x00\x00") == (
            {"type": "COMMIT", "version": 0},
            None,
        )
        assert controlrecords.decode_control_record(b"\x00\x00\x00\x03", b"junk")[1] is None


class TestConsumerProtocol:
    V0 = struct.pack(">hi", 0, 2) + text("a") + text("b") + struct.pack(">i", 2) + b"ud"

    def test_version_0(self):
        assert decode_subscription(self.V0) == {"version": 0, "topics": ["a", "b"], "user_data": b"ud"}

    def test_trailing_fields_left_out_have_their_defaults(self):
        """kafka-go and kafkajs write version 1 without owned partitions, pykafka an assignment without user data."""
        assert decode_subscription(b"\x00\x01" + self.V0[2:]) == {
            "version": 1,
            "topics": ["a", "b"],
            "user_data": b"ud",
            "owned_partitions": [],
        }
        found = decode_subscription(b"\x00\x03" + self.V0[2:])
        assert (found["generation_id"], found["rack_id"]) == (-1, None)
        assigned = struct.pack(">hi", 1, 1) + text("a") + struct.pack(">iii", 2, 0, 1)
        assert decode_assignment(assigned) == {
            "version": 1,
            "assigned_partitions": [{"topic": "a", "partitions": [0, 1]}],
            "user_data": None,
        }

    def test_a_later_version_is_read_as_the_highest_known(self):
        known = b"\x00\x03" + self.V0[2:] + struct.pack(">iih", 0, 5, -1)
        expected = decode_subscription(known)
        assert decode_subscription(b"\x00\x09" + known[2:] + b"more") == expected | {"version": 9}

    @pytest.mark.parametrize(
        "data", [None, b"", b"\x00", b"\x00\x00", b"\xff\xff" + V0[2:], V0 + b"\x00", V0[:-1]]
    )
    def test_what_does_not_fit(self, data):
        assert decode_subscription(data) is None

    def test_hostile_counts(self):
        assert decode_subscription(struct.pack(">hi", 0, 2**31 - 1)) is None
        assert decode_assignment(struct.pack(">hi", 0, 1) + text("a") + struct.pack(">i", 2**31 - 1)) is None
        assert decode_subscription(struct.pack(">hih", 0, 1, 2) + b"\xff\xfe" + struct.pack(">i", -1)) is None


@given(st.sampled_from(TOPICS), st.integers(0, 30), st.binary(max_size=60), st.binary(max_size=120))
def test_any_bytes(topic, number, key, value):
    for data in (key, struct.pack(">h", number) + key):
        internal.decode_key(topic, data)
        for content in (value, bytes((1, number, 0)) + value, b"\x00\x00" + value):
            internal.decode_value(topic, data, content)
            controlrecords.decode_control_record(data, content)
            controlrecords.decode_control_record(struct.pack(">hh", 0, number % 8), content)
    decode_subscription(value)
    decode_assignment(b"\x00\x01" + value)


def test_every_record_type_is_covered():
    for topic in ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"):
        assert topic in internal.TOPICS
        for kind in schema.record_types(topic).values():
            assert kind.values
            assert all(schema.record_layouts(name, 0) for name in kind.values)
