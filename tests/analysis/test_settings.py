"""Settings: what requests tell equals sums over the lines; each finding is found at its threshold, and not below."""

import gzip
from collections import Counter, defaultdict
from functools import partial
from struct import pack

import pytest
from analysis.runs import Talk, rows_of
from analysis.test_topics import produced
from support import recordsets
from support.captures import CAPTURES, captures, each_folder
from support.manifest import load

from kinspect.analysis.answer import ResultContext
from kinspect.answers.settingsanswer import FINDINGS, FLAGS, MEASURED, TOLD, Settings

FIELDS = {
    "Produce": ("acks", "timeout_ms"),
    "Fetch": ("min_bytes", "max_wait_ms", "max_bytes", "isolation_level", "rack_id"),
    "ShareFetch": ("min_bytes", "max_wait_ms", "max_bytes"),
    "JoinGroup": ("session_timeout_ms", "rebalance_timeout_ms", "group_instance_id"),
    "SyncGroup": ("group_instance_id",),
    "Heartbeat": ("group_instance_id",),
    "OffsetCommit": ("group_instance_id",),
    "ConsumerGroupHeartbeat": ("rebalance_timeout_ms", "instance_id", "rack_id"),
    "ShareGroupHeartbeat": ("rack_id",),
    "StreamsGroupHeartbeat": ("rebalance_timeout_ms", "instance_id", "rack_id"),
    "InitProducerId": ("transaction_timeout_ms",),
}
KEYS = {"group_instance_id": "group_instance_ids", "instance_id": "group_instance_ids"}


@pytest.fixture
def rows(answer_rows):
    return partial(answer_rows, "settings")


def sums(lines):
    """What requests tell, by client."""
    found = defaultdict(lambda: defaultdict(Counter))
    for line in lines:
        request = line["request"]
        if (
            request is None
            or request["body"] is None
            or any(p["code"] == "malformed" for p in line["problems"])
        ):
            continue
        client, body, api = found[line["client"]["id"], line["client"]["ip"]], request["body"], line["api"]
        for name in FIELDS.get(api, ()):
            if body.get(name) is not None and (name, body[name]) != ("rebalance_timeout_ms", -1):
                client[KEYS.get(name, name)][str(body[name])] += 1
        if api == "Produce":
            for _, sets in produced(line):
                for one in sets:
                    client["codecs"] += Counter(batch["compression"] for batch in one["batches"])
        elif api in ("Fetch", "ShareFetch"):
            parts = [part for topic in body.get("topics") or () for part in topic["partitions"]]
            client["partition_max_bytes"] += Counter(
                {str(part["partition_max_bytes"]) for part in parts if "partition_max_bytes" in part}
            )
        elif api == "JoinGroup":
            client["assignors"] += Counter({each["name"] for each in body.get("protocols") or ()})
        elif api in ("ConsumerGroupHeartbeat",) and body.get("server_assignor"):
            client["assignors"][body["server_assignor"]] += 1
    return {key: {name: dict(each) for name, each in told.items() if each} for key, told in found.items()}


@each_folder
def test_what_is_told_equals_the_sums_over_the_lines(lines, rows, folder):
    for capture in captures(folder):
        expected = {key: told for key, told in sums(lines(capture)).items() if told}
        found = defaultdict(lambda: defaultdict(Counter))
        for row in rows(capture):
            for name in TOLD:
                if row[name] is not None and name != "auto_offset_reset":
                    found[row["client_id"], row["client_ip"]][name] += Counter(row[name])
        assert {
            key: {name: dict(each) for name, each in told.items()} for key, told in found.items()
        } == expected, capture


def test_it_agrees_with_what_clients_were_configured_with(rows):
    found = {row["client_id"]: row for row in rows(CAPTURES / "4.4.0" / "groups_classic.pcap.gz")}
    static = found["pc-ckinst-1" if "pc-ckinst-1" in found else "pc-ckc-1"]
    assert [*static["session_timeout_ms"], *static["assignors"], *static["group_instance_ids"]] == [
        "6000",
        "cooperative-sticky",
        "pc-ckinst-1",
    ]
    assert 490 < static["heartbeat_ms"]["p50"] < 510  # heartbeat.interval.ms=500


# ---------------------------------------------------------------------- findings

PRODUCE, FETCH, LIST_OFFSETS, METADATA, COMMIT, JOIN, BEAT, VERSIONS, INIT = 0, 1, 2, 3, 8, 11, 12, 18, 22
TEXT = b"a line of a log, with words and numbers 42 " * 30_000


def batch(content=b"x" * 1000, producer_id=-1, codec=0):
    """A batch v2 of one record with these bytes."""
    tail = pack(">hiqqqhii", codec, 0, 0, 0, producer_id, -1, -1, 1) + content
    return pack(">qiib", 0, 9 + len(tail), 0, 2) + bytes(4) + tail


def produces(talk, acks=-1, records=None, **batches):
    part = {"index": 0, "records": batch(**batches) if records is None else records}
    topics = [{"name": "t", "partition_data": [part]}]
    body = {"transactional_id": None, "acks": acks, "timeout_ms": 1, "topic_data": topics}
    asked = talk.asks(PRODUCE, 8, body)
    if acks:
        talk.answers(asked, {"responses": [], "throttle_time_ms": 0})


def introduces(talk, software="librdkafka", api=INIT):
    body = {"client_software_name": software, "client_software_version": "1"}
    keys = [{"api_key": key, "min_version": 0, "max_version": 9} for key in (0, api)]
    talk.answers(talk.asks(VERSIONS, 3, body), {"error_code": 0, "api_keys": keys, "throttle_time_ms": 0})


def fetches(talk, times, after, partitions=1, epoch=-1, records=b"", every=0):
    parts = [{"partition": each, "fetch_offset": 0, "partition_max_bytes": 9} for each in range(partitions)]
    asked = {"replica_id": -1, "max_wait_ms": 9, "min_bytes": 1, "max_bytes": 9, "isolation_level": 0}
    asked |= {"session_id": 0 if epoch < 1 else 7, "session_epoch": epoch, "rack_id": ""}
    asked |= {"topics": [{"topic": "t", "partitions": parts}], "forgotten_topics_data": []}
    part = {"partition_index": 0, "error_code": 0, "high_watermark": 0, "records": records}
    answer = {"responses": [{"topic": "t", "partitions": [part]}], "session_id": max(epoch, 0) * 7}
    for _ in range(times):
        talk.answers(talk.asks(FETCH, 11, asked), answer, after)
        talk.waits(every)


def commits(talk, times, every, group="g"):
    body = {"group_id": group, "generation_id_or_member_epoch": 1, "member_id": "m", "topics": []}
    for _ in range(times):
        talk.answers(talk.asks(COMMIT, 7, body), {"topics": []})
        talk.waits(every)


def joins(talk, session=45_000, heartbeat=None, beats=4):
    own = {"group_id": "g", "member_id": "m"}
    body = {**own, "session_timeout_ms": session, "rebalance_timeout_ms": 1, "protocol_type": "consumer"}
    talk.asks(JOIN, 5, {**body, "protocols": [{"name": "range", "metadata": b""}]})
    for _ in range(beats if heartbeat else 0):
        talk.waits(heartbeat)
        talk.answers(talk.asks(BEAT, 3, {**own, "generation_id": 1}), {"error_code": 0})


def starts(talk, times, records):
    for _ in range(times):
        talk.asks(INIT, 1, {"transactional_id": None, "transaction_timeout_ms": 1})
    for _ in range(records):
        produces(talk, producer_id=1)


def reads_from(talk, rack, times=10):
    """A node of rack `a` leads, one of `b` follows; the client is in `rack`."""
    introduces(talk)
    nodes = [(1, "a", "10.0.0.9"), (2, "b", "10.9.9.9")]
    brokers = [
        {
            "node_id": node,
            "host": host,
            "port": 9092,
            "rack": place,
        }
        for node, place, host in nodes
    ]
    parts = [
        {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 0, "replica_nodes": [1, 2]}
    ]
    topics = [{"error_code": 0, "name": "t", "is_internal": False, "partitions": parts}]
    told = {"brokers": brokers, "controller_id": 1, "topics": topics, "cluster_id": "c"}
    talk.answers(talk.asks(METADATA, 7, {"topics": None, "allow_auto_topic_creation": False}), told)
    asked = {"replica_id": -1, "max_wait_ms": 9, "min_bytes": 1, "max_bytes": 9, "isolation_level": 0}
    asked |= {"session_id": 0, "session_epoch": -1, "rack_id": rack, "forgotten_topics_data": []}
    asked |= {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0}]}]}
    part = {"partition_index": 0, "error_code": 0, "high_watermark": 0, "records": batch()}
    for _ in range(times):
        talk.answers(talk.asks(FETCH, 11, asked), {"responses": [{"topic": "t", "partitions": [part]}]})


def tiny(talk, every, **batches):
    for _ in range(250):
        produces(talk, content=b"x", **batches)
        talk.waits(every)


CASES = {
    "acks_none": (lambda talk: produces(talk, 0), produces),
    "acks_leader_only": (lambda talk: produces(talk, 1), produces),
    "not_idempotent": (
        lambda talk: (introduces(talk), produces(talk)),
        lambda talk: (introduces(talk), produces(talk, producer_id=0)),
        lambda talk: (introduces(talk, "other"), produces(talk)),
        lambda talk: (introduces(talk, api=1), produces(talk)),
        produces,
    ),
    "uncompressed": (
        lambda talk: produces(talk, content=TEXT),
        lambda talk: produces(talk, content=TEXT[:900_000]),
        lambda talk: produces(talk, content=bytes(range(256)) * 5000),
        lambda talk: produces(talk, content=TEXT, codec=4),
    ),
    "tiny_batches": (lambda talk: tiny(talk, 30), lambda talk: tiny(talk, 80)),
    "busy_polling": (
        lambda talk: fetches(talk, 250, 10),
        lambda talk: fetches(talk, 250, 100),
        lambda talk: fetches(talk, 250, 10, records=batch()),
        lambda talk: fetches(talk, 250, 10, every=100),
    ),
    "commits_too_often": (lambda talk: commits(talk, 60, 100), lambda talk: commits(talk, 60, 250)),
    "no_fetch_sessions": (
        lambda talk: fetches(talk, 100, 500, partitions=60),
        lambda talk: fetches(talk, 100, 500, partitions=6),
        lambda talk: fetches(talk, 100, 500, partitions=60, epoch=1),
    ),
    "short_session": (lambda talk: joins(talk, 9_999), lambda talk: joins(talk, 10_000)),
    "heartbeat_too_slow": (
        lambda talk: joins(talk, 10_000, 5_000),
        lambda talk: joins(talk, 10_000, 3_500),
        lambda talk: joins(talk, 10_000, 5_000, beats=3),
    ),
    "many_producers": (
        lambda talk: starts(talk, 20, 25),
        lambda talk: starts(talk, 19, 25),
        lambda talk: starts(talk, 20, 200),
    ),
    "replica_far": (
        lambda talk: reads_from(talk, "b"),
        lambda talk: reads_from(talk, "a"),
        lambda talk: reads_from(talk, "c"),
        lambda talk: reads_from(talk, ""),
    ),
}
"""What shows each finding, and what is like it and must not."""


def test_each_finding_has_a_case():
    assert [*CASES] == [*FINDINGS]


@pytest.mark.parametrize("finding", CASES)
def test_a_finding_is_of_what_shows_it_alone(tmp_path, finding):
    found = []
    for does in CASES[finding]:
        talk = Talk()
        does(talk)
        rows = rows_of("settings", talk.read(tmp_path))
        found.append([each["finding"] for row in rows for each in row["findings"]].count(finding))
    assert found == [1] + [0] * (len(found) - 1)


def test_connections_for_each_record_are_many_producers(tmp_path):
    talks = [Talk(client=("10.0.0.1", 40_000 + number)) for number in range(20)]
    for talk in talks:
        produces(talk)
    (row,) = rows_of("settings", talks[0].read(tmp_path, *talks[1:]))
    assert [each["finding"] for each in row["findings"]] == ["many_producers"]


# ---------------------------------------------------------------------- what is measured


def test_intervals_are_those_of_a_member(tmp_path):
    talk = Talk()
    for _ in range(3):
        commits(talk, 1, 100, "one")
        commits(talk, 1, 100, "two")
    (row,) = rows_of("settings", talk.read(tmp_path))
    assert row["commit_interval_ms"]["p50"] == pytest.approx(200, rel=0.02)


def test_the_first_metadata_requests_alone_are_measured(tmp_path, monkeypatch):
    monkeypatch.setattr("kinspect.answers.settingsanswer.TIMES_KEPT", 3)
    talk = Talk()
    metadata(talk, 100, 200, 300, 400, 500, 600, 700, 800)
    (row,) = rows_of("settings", talk.read(tmp_path))
    assert row["metadata_interval_ms"]["max"] == pytest.approx(200, rel=0.02)


def metadata(talk, *pauses):
    for pause in pauses:
        asked = talk.asks(METADATA, 7, {"topics": None, "allow_auto_topic_creation": False})
        talk.answers(asked, {"brokers": [], "topics": [], "controller_id": 1, "cluster_id": "c"})
        talk.waits(pause)


@pytest.mark.parametrize("holed", [(3,), (0, 3)], ids=str)
def test_lines_behind_a_hole_may_come_before_those_ahead_of_it(tmp_path, holed):
    """A run's lines come in the order of their times, those of its parts in that of each connection."""
    talk = Talk()
    for pause in (100, 200, 1000, 300, 400, 0):
        commits(talk, 1, pause, "one")
    metadata(talk, 100, 100)
    found = talk.read(tmp_path)
    for number in holed:
        found[number].after_gap = True
    first, second = (
        rows_of("settings", [found[number] for number in order])
        for order in (range(8), (3, 4, 0, 1, 2, 5, 6, 7))
    )
    assert first == second
    assert first[0]["commit_interval_ms"]["max"] == pytest.approx(400, rel=0.02)
    assert first[0]["metadata_interval_ms"] is None


def test_clients_whose_metadata_requests_are_too_many_for_all_have_no_intervals(tmp_path, monkeypatch):
    monkeypatch.setattr("kinspect.answers.settingsanswer.ALL_TIMES_KEPT", 3)
    talk = Talk()
    metadata(talk, 100, 100, 100, 100)
    found, answer = talk.read(tmp_path), Settings()
    for exchange in found:
        answer.add(exchange)
    (row,) = answer.result(ResultContext(found[0].connection.names))
    assert (row["metadata_interval_ms"], answer.left_out) == (None, 1)


def test_linger_is_that_of_records_made_since_the_connection_was_in_use(tmp_path):
    talk = Talk()
    talk.waits(1_000)
    metadata(talk, 500)
    for waited in (600, 40, -5):
        made = talk.conversation.time_us // 1000 - waited
        produces(talk, records=recordsets.batch(b"", 1, base_timestamp=made))
    produces(talk, records=recordsets.batch(b"", 1, codec=8, base_timestamp=made))  # log-append time
    (row,) = rows_of("settings", talk.read(tmp_path))
    assert row["linger_ms"]["max"] == pytest.approx(40, abs=2)
    assert row["linger_ms"]["p50"] == pytest.approx(40, rel=0.05)


def test_who_asks_for_offsets_and_reads_nothing_resets_nothing(tmp_path):
    """As kafka-get-offsets does."""
    talk = Talk()
    asked = [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -2}]}]
    talk.answers(talk.asks(LIST_OFFSETS, 1, {"replica_id": -1, "topics": asked}), {"topics": []})
    (row,) = rows_of("settings", talk.read(tmp_path))
    assert row["auto_offset_reset"] is None
    fetches(talk, 1, 100)
    (row,) = rows_of("settings", talk.read(tmp_path))
    assert row["auto_offset_reset"] == {"-2": 1}


def test_small_batches_alone_are_expanded(tmp_path):
    talk = Talk()
    for content in (bytes(3000), bytes(3_000_000)):
        produces(talk, content=gzip.compress(content), codec=1)
    (row,) = rows_of("settings", talk.read(tmp_path))
    assert row["compression_ratio"]["max"] == round((61 + 3000) / (61 + len(gzip.compress(bytes(3000)))), 3)


def test_what_was_not_seen_is_null(tmp_path):
    talk = Talk()
    produces(talk, 0, records=b"")
    (row,) = rows_of("settings", talk.read(tmp_path))
    told = {name for name in TOLD if row[name] is not None}
    assert told == {"acks", "timeout_ms"}
    assert [row[flag] for flag in FLAGS] == [None, False, None]
    assert {name for name in MEASURED if row[name] is not None} == {"batches_a_request"}
    assert row["empty_fetches"] is None
    assert row["role"] == "producer"


# ---------------------------------------------------------------------- real clients

CONFIGURED = [row for row in load(CAPTURES) if "configured" in row.facts]
"""Captures of clients at a real broker, with what they were configured with."""


@pytest.mark.parametrize("row", CONFIGURED, ids=lambda row: row.file)
def test_rows_are_what_real_clients_were_configured_with(rows, row):
    found = {(each["client_id"], each["role"]): each for each in rows(CAPTURES / row.file)}
    for client, told in row.facts["configured"].items():
        shown = found[client, told["role"]]
        for key, value in told["told"].items():
            values = [value] if isinstance(value, str) else value
            assert (shown[key] if isinstance(value, bool) else [*(shown[key] or ())]) == values, (client, key)
        assert [each["finding"] for each in shown["findings"]] == told["findings"], client


def test_real_clients_show_each_finding_and_others_do_not():
    clients = [told for row in CONFIGURED for told in row.facts["configured"].values()]
    assert len(clients) >= 30
    shown = {finding for told in clients for finding in told["findings"]}
    assert shown == {*FINDINGS}
    assert sum(not told["findings"] for told in clients) >= 12
