import math
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from support.captures import CAPTURES, captures, each_folder
from support.pcap import pcap

from kinspect.analysis.answer import BUCKETS_KEPT
from kinspect.analysis.histogram import ERROR
from kinspect.answers.latencyanswer import Latency
from kinspect.errors import KinspectError
from kinspect.kafka.bodysummary import topics_named

from .runs import Talk, exchanges, exchanges_of, rows_of

FETCH, METADATA, JOIN_GROUP, HEARTBEAT, SYNC_GROUP = 1, 3, 11, 12, 14
POLL = {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1000, "topics": []}
BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}
BEATEN = {"throttle_time_ms": 0, "error_code": 0}
JOIN = {
    "group_id": "g",
    "session_timeout_ms": 1,
    "rebalance_timeout_ms": 1,
    "member_id": "m",
    "protocol_type": "consumer",
    "protocols": [],
}
JOINED = {"throttle_time_ms": 0, "error_code": 0, "generation_id": 1, "protocol_name": "range"}
JOINED |= {"leader": "m", "member_id": "m", "members": []}


def fetched(size=0, throttle=0):
    partition = {"partition_index": 0, "high_watermark": 1, "records": bytes(size) if size else None}
    return {"throttle_time_ms": throttle, "responses": [{"topic": "t", "partitions": [partition]}]}


def waits(rows):
    """Counts of the causes that there are, over all rows."""
    found = Counter()
    for row in rows:
        found.update({cause: count for cause, count in row["waits"].items() if count})
    return dict(found)


# ---------------------------------------------------------------------- all captures


def cause(line, throttled):
    """The cause of a line's wait, by its dict alone; `broker` also for what was sent again."""
    if line["service_ms"] is None:
        return None
    api, service = line["api"], line["service_ms"]
    if api in ("Fetch", "ShareFetch") and line["response"]["complete"] and line["record_bytes"] is not None:
        asked = line["request"]["body"] or {}
        most = asked.get("max_wait_ms") or 0
        if most - 1 <= service < 2 * most and line["record_bytes"] < max(asked.get("min_bytes") or 0, 1):
            return "long_poll"
    body = line["response"]["body"] or {}
    if api in ("JoinGroup", "SyncGroup") and body.get("error_code") in (0, 27):
        leads = api == "SyncGroup" and (line["request"]["body"] or {}).get("assignments")
        if not leads:
            return "group_wait"
    if service < line["latency_ms"] / 2:
        return "queued"
    return "throttled" if throttled else "broker"


@each_folder
def test_rows_are_sums_over_the_lines(folder):
    for path in captures(folder):
        found = exchanges_of(path)
        times, causes, throttles = defaultdict(list), defaultdict(Counter), {}
        counts, waited = Counter(), defaultdict(list)
        for exchange in found:
            line = exchange.to_dict()
            counts[line["api"]] += line["request"] is not None
            throttled = False
            if line["response"] is not None:
                now = bool(line["throttle_time_ms"])
                throttled = now or throttles.get(line["connection_id"], False)
                throttles[line["connection_id"]] = now
            why = cause(line, throttled)
            assert line["wait"] == why or (why, line["wait"]) == ("broker", "retransmitted"), (path, line)
            if why is not None:
                causes[line["api"]][why] += 1
                waited[line["api"]].append((line["latency_ms"], why))
                times[line["api"]].append((line["service_ms"], line["latency_ms"], line["request"]["frames"]))
        rows = {row["api"]: row for row in rows_of("latency", found)}
        assert {api: row["count"] for api, row in rows.items()} == +counts, path
        for api, row in rows.items():
            own = dict(row["waits"])
            own["broker"] += own.pop("retransmitted") or 0
            assert {why: count for why, count in own.items() if count} == causes[api], (path, api)
            check_quantiles(row["service_ms"], [service for service, _, _ in times[api]])
            check_quantiles(row["latency_ms"], [latency for _, latency, _ in times[api]])
            slowest = max((service for service, _, _ in times[api]), default=None)
            slow = [latency for latency, why in waited[api] if why not in ("long_poll", "group_wait")]
            assert row["slow"] == sum(latency >= 1000 for latency in slow)
            assert row["slowest"] in [frames for service, _, frames in times[api] if service == slowest] or [
                None
            ]


def check_quantiles(told, values):
    if not values:
        assert set(told.values()) == {None}
        return
    values = sorted(max(value, 0) for value in values)
    assert told["max"] == pytest.approx(values[-1])
    for percent in (50, 95, 99):
        true = values[math.ceil(percent * len(values) / 100) - 1]
        assert abs(told[f"p{percent}"] - true) <= true * ERROR + 1e-9


@each_folder
def test_topics_named_are_those_of_the_summary(folder):
    for path in captures(folder):
        for exchange in exchanges_of(path):
            topics, nameless = topics_named(exchange)
            assert [*topics] == exchange.summary.topics, path
            assert {*nameless} == {*exchange.summary.unresolved_topic_ids}


# ---------------------------------------------------------------------- causes


@pytest.mark.parametrize(
    ("least", "size", "after", "expected"),
    [
        (1, 0, 501, "long_poll"),
        (0, 0, 501, "long_poll"),
        (100, 61, 501, "long_poll"),
        (1, 61, 501, "broker"),
        (1, 61, 300, "broker"),
        (1, 0, 300, "broker"),
        (1, 0, 999, "long_poll"),
        (1, 0, 1200, "broker"),
    ],
)
def test_a_fetch_that_ended_at_its_own_time_with_too_little_is_a_long_poll(
    tmp_path, least, size, after, expected
):
    talk = Talk()
    talk.answers(talk.asks(FETCH, 4, POLL | {"min_bytes": least}), fetched(size), after)
    assert waits(rows_of("latency", talk.read(tmp_path))) == {expected: 1}


@pytest.mark.parametrize(
    ("code", "expected"),
    [(0, "group_wait"), (27, "group_wait"), (79, "broker"), (25, "broker"), (16, "broker")],
)
def test_a_join_waits_for_members_unless_it_is_refused(tmp_path, code, expected):
    talk = Talk()
    talk.answers(talk.asks(JOIN_GROUP, 4, JOIN), JOINED | {"error_code": code}, 3000)
    assert waits(rows_of("latency", talk.read(tmp_path))) == {expected: 1}


@pytest.mark.parametrize(
    ("assignments", "expected"), [([], "group_wait"), ([{"member_id": "m", "assignment": b"a"}], "broker")]
)
def test_a_sync_waits_for_the_leader_and_the_leader_for_the_broker(tmp_path, assignments, expected):
    talk = Talk()
    body = {"group_id": "g", "generation_id": 1, "member_id": "m", "assignments": assignments}
    answer = {"throttle_time_ms": 0, "error_code": 0, "assignment": b""}
    talk.answers(talk.asks(SYNC_GROUP, 2, body), answer, 400)
    assert waits(rows_of("latency", talk.read(tmp_path))) == {expected: 1}


def test_what_waits_behind_others_is_queued(tmp_path):
    talk = Talk()
    first, second, third = (talk.asks(HEARTBEAT, 2, BEAT) for _ in range(3))
    talk.answers(first, BEATEN, 100)
    talk.answers(second, BEATEN, 10)
    talk.answers(third, BEATEN, 300)
    assert waits(rows_of("latency", talk.read(tmp_path))) == {"broker": 2, "queued": 1}


def test_a_long_poll_behind_others_is_a_long_poll(tmp_path):
    talk = Talk()
    first, second = (talk.asks(FETCH, 4, POLL) for _ in range(2))
    talk.answers(first, fetched(61), 2000)
    talk.answers(second, fetched(), 501)
    assert waits(rows_of("latency", talk.read(tmp_path))) == {"broker": 1, "long_poll": 1}


def test_an_answer_with_a_throttle_time_throttles_its_own_request_and_the_next(tmp_path):
    talk = Talk()
    for throttle in (0, 70, 0, 0):
        talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN | {"throttle_time_ms": throttle}, 50)
    other = Talk(client=("10.0.0.2", 40000))
    other.waits(120)
    other.answers(other.asks(HEARTBEAT, 2, BEAT), BEATEN, 5)
    assert waits(rows_of("latency", talk.read(tmp_path, other))) == {"broker": 3, "throttled": 2}


def test_a_request_without_an_answer_does_not_end_a_throttle(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN | {"throttle_time_ms": 70}, 50)
    talk.asks(0, 3, {"acks": 0, "timeout_ms": 1, "topic_data": []})
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN, 50)
    rows = rows_of("latency", talk.read(tmp_path))
    assert waits(rows) == {"throttled": 2}
    assert {row["api"]: row["count"] for row in rows} == {"Heartbeat": 2, "Produce": 1}


def test_a_request_of_which_a_segment_came_twice_is_retransmitted(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN, 50)
    number = talk.asks(HEARTBEAT, 2, BEAT)
    talk.repeats(200)
    talk.answers(number, BEATEN, 1)
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN, 50)
    assert waits(rows_of("latency", talk.read(tmp_path))) == {"broker": 2, "retransmitted": 1}


def test_only_the_requests_within_a_repeated_segment_are_retransmitted(tmp_path):
    talk = Talk()
    first = talk.asks(HEARTBEAT, 2, BEAT)
    second = talk.asks(HEARTBEAT, 2, BEAT)
    talk.repeats(250)
    talk.answers(first, BEATEN)
    talk.answers(second, BEATEN, 400)
    found = talk.read(tmp_path)
    assert [exchange.retransmitted for exchange in found] == [False, True]
    assert waits(rows_of("latency", found)) == {"broker": 1, "retransmitted": 1}


def test_a_copy_of_the_capture_is_no_retransmission(tmp_path):
    talk = Talk()
    number = talk.asks(HEARTBEAT, 2, BEAT)
    talk.repeats(1)
    talk.answers(number, BEATEN, 100)
    assert waits(rows_of("latency", talk.read(tmp_path))) == {"broker": 1}


def test_retransmissions_of_encrypted_connections_are_not_known(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN, 50)
    (exchange,) = talk.read(tmp_path)
    exchange.connection = replace(exchange.connection, tls=True)
    (row,) = rows_of("latency", [exchange])
    assert row["waits"]["retransmitted"] is None
    assert row["waits"]["broker"] == 1


def test_an_answer_that_lacks_its_end_has_no_wait(tmp_path):
    talk = Talk()
    talk.asks(HEARTBEAT, 2, BEAT)
    (row,) = rows_of("latency", talk.read(tmp_path))
    assert (row["count"], waits([row]), row["slowest"]) == (1, {}, None)
    assert set(row["service_ms"].values()) | set(row["latency_ms"].values()) == {None}


def test_what_was_cut_tells_no_cause(tmp_path):
    talk = Talk()
    # Longer than its answer: cut where that one is whole.
    talk.answers(talk.asks(FETCH, 4, POLL | {"min_bytes": 100}, "c" * 150), fetched(61), 501)
    talk.answers(talk.asks(FETCH, 4, POLL), fetched(61), 501)
    talk.answers(talk.asks(FETCH, 4, POLL), fetched(), 501)
    talk.answers(talk.asks(JOIN_GROUP, 4, JOIN), JOINED, 10)
    whole = [exchange.wait for exchange in talk.read(tmp_path)]
    assert whole == ["long_poll", "broker", "long_poll", "group_wait"]
    packets = talk.conversation.packets
    for size in range(54, max(len(packet.data) for packet in packets)):
        path = tmp_path / "cut.pcap"
        path.write_bytes(pcap(packets, snap_length=size))
        found = {each.correlation_id: each.wait for each in exchanges(path) if each.correlation_id}
        for number, cause in found.items():
            assert cause in (None, whole[number - 1]), (size, number)


# ---------------------------------------------------------------------- rows


def two_clients(tmp_path):
    talk = Talk()
    asked = {"topics": [{"name": "one"}, {"name": "two"}]}
    known = {"brokers": [], "controller_id": 1, "topics": []}
    talk.answers(talk.asks(METADATA, 1, asked), known, 10)
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN, 20)
    other = Talk(client=("10.0.0.2", 40000), broker=("10.0.0.8", 9092))
    other.waits(60_000)
    other.answers(other.asks(HEARTBEAT, 2, BEAT, "c-2"), BEATEN, 30)
    return talk.read(tmp_path, other)


@pytest.mark.parametrize(
    ("by", "keys", "expected"),
    [
        ("api", ["api"], {("Metadata",): 1, ("Heartbeat",): 2}),
        ("client", ["client_id", "client_ip"], {("c-1", "10.0.0.1"): 2, ("c-2", "10.0.0.2"): 1}),
        ("broker", ["broker"], {("10.0.0.9:9092",): 2, ("10.0.0.8:9092",): 1}),
        ("topic", ["topic"], {("one",): 1, ("two",): 1, (None,): 2}),
        (
            "minute",
            ["minute"],
            {("2023-11-14T22:13:00.000000000Z",): 2, ("2023-11-14T22:14:00.000000000Z",): 1},
        ),
        (
            "broker, api",
            ["broker", "api"],
            {
                ("10.0.0.9:9092", "Metadata"): 1,
                ("10.0.0.9:9092", "Heartbeat"): 1,
                ("10.0.0.8:9092", "Heartbeat"): 1,
            },
        ),
    ],
)
def test_rows_begin_with_the_keys_of_by(tmp_path, by, keys, expected):
    rows = rows_of("latency", two_clients(tmp_path), by=by)
    assert {tuple(row[key] for key in keys): row["count"] for row in rows} == expected
    assert all([*row][: len(keys) + 1] == [*keys, "count"] for row in rows)


def test_minutes_stand_in_their_order(tmp_path):
    rows = rows_of("latency", two_clients(tmp_path), by="minute,api")
    assert [row["minute"][14:16] for row in rows] == ["13", "13", "14"]


def test_what_waits_for_more_than_the_client_asked_for_comes_first(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(FETCH, 4, POLL), fetched(), 501)
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN, 20)
    assert [row["api"] for row in rows_of("latency", talk.read(tmp_path))] == ["Heartbeat", "Fetch"]


def test_slow_exchanges_but_long_polls_and_waits_for_members(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(FETCH, 4, POLL), fetched(), 501)
    talk.answers(talk.asks(JOIN_GROUP, 4, JOIN), JOINED, 3000)
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN, 150)
    talk.answers(talk.asks(METADATA, 1, {"topics": [{"name": "one"}]}), {"brokers": [], "topics": []}, 700)
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN, 50)
    rows = rows_of("latency", talk.read(tmp_path), slow="100")
    assert [(row["api"], row["wait"], row["topics"], row["groups"]) for row in rows] == [
        ("Metadata", "broker", ["one"], []),
        ("Heartbeat", "broker", [], ["g"]),
    ]
    assert rows[0]["latency_ms"] == pytest.approx(700, abs=1)
    assert rows[0]["frames"]["packets"] == 1


def test_slow_exchanges_are_rows_by_what_is_asked_for(tmp_path):
    talk = Talk()
    for client, after in [("one", 200), ("one", 300), ("two", 250), ("two", 1)]:
        talk.answers(talk.asks(HEARTBEAT, 2, BEAT, client), BEATEN, after)
    rows = rows_of("latency", talk.read(tmp_path), slow="100", by="client")
    assert {(row["client_id"], row["count"]) for row in rows} == {("one", 2), ("two", 1)}
    assert len(rows_of("latency", talk.read(tmp_path), slow="100")) == 3


def test_rows_by_partition_and_transactional_id():
    path = CAPTURES / "4.4.0" / "txn_java.pcap.gz"
    found = exchanges_of(path)
    counts = Counter(name for exchange in found for name in exchange.summary.partitions)
    rows = {row["partition"]: row["count"] for row in rows_of("latency", found, by="partition")}
    assert {name: rows[name] for name in counts if "-" in name and len(name) < 22} == {
        name: count for name, count in counts.items() if len(name) < 22
    }
    ids = Counter(name for exchange in found for name in exchange.summary.transactional_ids)
    rows = {row["transactional_id"]: row["count"] for row in rows_of("latency", found, by="transactional_id")}
    assert {name: rows[name] for name in ids} == ids


@pytest.mark.parametrize("answer", ["latency", "errors"])
@each_folder
def test_a_partition_stands_with_its_topic(folder, answer):
    for path in captures(folder):
        found = exchanges_of(path)
        together = rows_of(answer, found, by="topic,partition")
        for row in together:
            assert row["partition"] is None or row["partition"].rpartition("-")[0] == row["topic"], path
        by_partition = Counter()
        for row in rows_of(answer, found, by="partition"):
            by_partition[row["partition"]] += row["count"]
        counts = Counter()
        for row in together:
            counts[row["partition"]] += row["count"]
        assert {name: counts[name] for name in by_partition if name} == {
            name: count for name, count in by_partition.items() if name
        }, path


@pytest.mark.parametrize("options", [{"by": "node"}, {"by": ""}, {"slow": "often"}])
def test_other_options_are_refused(options):
    with pytest.raises(KinspectError):
        Latency(**options)


def test_buckets_are_limited(tmp_path, monkeypatch):
    assert BUCKETS_KEPT < 10_000_000
    monkeypatch.setattr("kinspect.analysis.answer.BUCKETS_KEPT", 3)
    talk = Talk()
    for after in (1, 10, 100):
        talk.answers(talk.asks(HEARTBEAT, 2, BEAT), BEATEN, after)
    answer = Latency()
    for exchange in talk.read(tmp_path):
        answer.add(exchange)
    assert answer.left_out == 3
