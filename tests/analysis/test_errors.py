from collections import Counter, defaultdict
from fnmatch import fnmatchcase
from itertools import chain

import pytest
from support.captures import CAPTURES, captures, each_folder
from support.packets import cut_at, nanosecond_pcap, packets

import kinspect
from kinspect.analysis.expected import PASSED
from kinspect.protocol import schema

from .runs import Talk, exchanges, exchanges_of, rows_of

PRODUCE, FETCH, METADATA, FIND_COORDINATOR, JOIN_GROUP, HEARTBEAT = 0, 1, 3, 10, 11, 12
DELETE_GROUPS = 42
BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}
JOIN = {
    "group_id": "g",
    "session_timeout_ms": 1,
    "rebalance_timeout_ms": 1,
    "member_id": "",
    "protocol_type": "consumer",
    "protocols": [],
}
BEGIN_QUORUM_EPOCH = 53
NOT_LEADER, NO_SESSION, UNKNOWN_TOPIC, REBALANCING, NEW_MEMBER = 6, 70, 3, 27, 79
SECOND = 1000


def beaten(code=0):
    return {"throttle_time_ms": 0, "error_code": code}


def produced(*codes):
    partitions = [{"index": index, "error_code": code, "base_offset": 0} for index, code in enumerate(codes)]
    return {"responses": [{"name": "t", "partition_responses": partitions}], "throttle_time_ms": 0}


def described(**topics):
    named = [
        {"error_code": code, "name": name, "is_internal": False, "partitions": []}
        for name, code in topics.items()
    ]
    return {"brokers": [], "controller_id": 1, "topics": named}


def asked(*names):
    return {"topics": [{"name": name} for name in names]}


def told(rows):
    return [(row["api"], row["error"], row["count"], row["expected"]) for row in rows]


# ---------------------------------------------------------------------- all captures


@each_folder
def test_rows_are_sums_over_the_lines(folder):
    for path in captures(folder):
        found = exchanges_of(path)
        counts, times, topics, groups = Counter(), defaultdict(list), defaultdict(set), defaultdict(set)
        for exchange in found:
            line = exchange.to_dict()
            names = dict(zip(line["error_codes"], line["error_names"], strict=True))
            errors = Counter(names[code] for code in codes_in(line))
            if line["outcome"] == "unanswered":
                errors["UNANSWERED"] += 1
            for name, count in errors.items():
                key = line["api"], name, line["client"]["id"], line["client"]["ip"]
                counts[key] += count
                times[key].append(line["timestamp"])
                topics[key].update(line["topics"], filter(None, chain(*exchange.session_topics)))
                groups[key].update(line["groups"])
        rows = {
            (row["api"], row["error"], row["client_id"], row["client_ip"]): row
            for row in rows_of("errors", found)
        }
        assert {key: row["count"] for key, row in rows.items()} == counts, path
        for key, row in rows.items():
            assert (row["first"], row["last"]) == (min(times[key]), max(times[key]))
            assert groups[key].issuperset(row["groups"])
            assert row["meaning"]
            assert row["advice"]
            nameless = [topic for topic in topics[key] if len(topic) == 22]
            assert topics[key].issuperset(row["topics"]) or nameless


def codes_in(line):
    """The error codes of a line's response, each as often as it occurs: of more than are listed, by their number."""
    if line["response"] is None:
        return []
    codes = [error["code"] for error in line["response"]["errors"]]
    if len(codes) < (line["error_count"] or 0):
        assert len(line["error_codes"]) == 1
        return line["error_codes"] * line["error_count"]
    return codes


def rows_in(folder, name):
    (path,) = (path for path in captures(CAPTURES / folder) if path.name.startswith(f"{name}.pcap"))
    return rows_of("errors", exchanges(path))


def test_each_member_of_classic_groups_is_told_its_id_once():
    rows = [row for row in rows_in("4.4.0", "groups_classic") if row["error"] == "MEMBER_ID_REQUIRED"]
    assert {row["client_id"] for row in rows} >= {"pc-jv-1", "pc-jv-2", "pc-ck-1", "pc-ak-1", "pc-kp-1"}
    assert {(row["api"], row["count"], row["expected"]) for row in rows} == {("JoinGroup", 1, True)}


def test_what_the_clients_did_wrong_is_not_expected():
    rows = {(row["client_id"], row["error"]): row for row in rows_in("4.4.0", "errors_java")}
    for client, error, topic in [
        ("pc-err-big", "MESSAGE_TOO_LARGE", "pcerr-small"),
        ("pc-err-oor", "OFFSET_OUT_OF_RANGE", "pcerr-small"),
        ("pc-err", "TOPIC_ALREADY_EXISTS", "pcerr-small"),
    ]:
        row = rows[client, error]
        assert (row["expected"], row["topics"]) == (False, [topic])
    # Its topic may be there within seconds: the capture ends sooner.
    unknown = rows["pc-err-unk", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert (unknown["expected"], unknown["topics"]) == (None, ["pcerr-missing"])
    assert rows["pc-err-fence", "MEMBER_ID_REQUIRED"]["expected"]


ASKED_FOR = ("CONCURRENT_TRANSACTIONS", "FETCH_SESSION_ID_NOT_FOUND", "6")


@pytest.mark.parametrize(
    "name", ["black-hole_java", "black-hole_librdkafka", "forgotten_java", "forgotten_aiokafka"]
)
def test_a_request_that_was_sent_again_until_the_end_is_not_taken_for_expected(kinspect, answer_rows, name):
    path = CAPTURES / "connect" / f"{name}.pcap.gz"
    (row,) = [row for row in answer_rows("errors", path) if row["code"] is None]
    assert (row["api"], row["expected"], row["expected_reasons"]) == ("Produce", None, {})
    assert row["meaning"] == "No answer was seen: it was sent again, and then the capture ends."
    (told,) = [
        line for line in kinspect("errors", path, "--format", "table").out.splitlines() if "next:" in line
    ]
    assert told == f"next: kinspect read {path} --api Produce"


@each_folder
def test_filters_on_errors_leave_no_success_out_that_tells_what_passed(answer_rows, folder):
    """Each error is asked for where it occurs, and in turn where it does not, as all are."""
    for number, path in enumerate(captures(folder)):
        rows = answer_rows("errors", path)
        if number % len(ASKED_FOR) == 0:
            assert answer_rows("errors", "--errors-only", path) == rows
        for place, name in enumerate(ASKED_FOR):
            chosen = [row for row in rows if name in (row["error"], str(row["code"]))]
            if chosen or number % len(ASKED_FOR) == place:
                assert answer_rows("errors", "--error", name, path) == chosen


@pytest.mark.big
def test_a_pattern_of_codes_takes_in_no_request_without_an_answer(answer_rows):
    path = CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz"
    rows = answer_rows("errors", path)
    assert "UNANSWERED" in {row["error"] for row in rows}
    for pattern in ("*", "UN*"):
        chosen = [row for row in rows if row["code"] is not None and fnmatchcase(row["error"], pattern)]
        assert answer_rows("errors", "--error", pattern, path) == chosen
    assert answer_rows("errors", "--error", "!51", path) == [row for row in rows if row["code"] != 51]


# ---------------------------------------------------------------------- expected ones


@pytest.mark.parametrize(("member", "expected"), [("", True), ("m-1", False)])
def test_a_new_member_is_told_its_id(tmp_path, member, expected):
    talk = Talk()
    answer = {
        **beaten(NEW_MEMBER),
        "generation_id": -1,
        "protocol_name": "",
        "leader": "",
        "member_id": "m-1",
        "members": [],
    }
    talk.answers(talk.asks(JOIN_GROUP, 4, JOIN | {"member_id": member}), answer)
    (row,) = rows_of("errors", talk.read(tmp_path))
    assert (row["error"], row["expected"], row["groups"]) == ("MEMBER_ID_REQUIRED", expected, ["g"])
    assert (row["code"], row["retriable"]) == (79, False)


def test_members_are_told_of_a_rebalance_but_a_commit_fails(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), beaten(REBALANCING))
    commit = {"group_id": "g", "generation_id_or_member_epoch": 1, "member_id": "m", "topics": []}
    failed = [{"name": "t", "partitions": [{"partition_index": 0, "error_code": REBALANCING}]}]
    talk.answers(talk.asks(8, 5, commit), {"throttle_time_ms": 0, "topics": failed})
    assert told(rows_of("errors", talk.read(tmp_path))) == [
        ("OffsetCommit", "REBALANCE_IN_PROGRESS", 1, False),
        ("Heartbeat", "REBALANCE_IN_PROGRESS", 1, True),
    ]


def fetch(talk, code):
    body = {
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1,
        "session_id": 7,
        "session_epoch": 3,
    }
    answer = {"throttle_time_ms": 0, "error_code": code, "session_id": 0, "responses": []}
    talk.answers(talk.asks(FETCH, 7, body | {"topics": [], "forgotten_topics_data": []}), answer)


def test_a_fetch_session_is_not_found_on_a_new_connection(tmp_path):
    first = Talk()
    fetch(first, NO_SESSION)
    fetch(first, 0)
    second = Talk(client=("10.0.0.2", 40000))
    fetch(second, 0)
    fetch(second, NO_SESSION)
    rows = {row["client_ip"]: row for row in rows_of("errors", first.read(tmp_path, second))}
    assert rows["10.0.0.1"]["expected"]
    assert not rows["10.0.0.2"]["expected"]
    assert rows["10.0.0.1"]["error"] == rows["10.0.0.2"]["error"] == "FETCH_SESSION_ID_NOT_FOUND"


def test_one_unexpected_of_several_makes_the_row_unexpected(tmp_path):
    talk = Talk()
    for code in (NO_SESSION, 0, NO_SESSION):
        fetch(talk, code)
    (row,) = rows_of("errors", talk.read(tmp_path))
    assert (row["count"], row["expected"], [*row["expected_reasons"].values()]) == (2, False, [1])


WRITE = {"acks": -1, "timeout_ms": 1, "topic_data": []}


@pytest.mark.parametrize(
    ("codes", "every", "expected"),
    [
        ([NOT_LEADER, NOT_LEADER, 0], 1, True),
        ([NOT_LEADER, NOT_LEADER], 1, None),
        ([0, NOT_LEADER], 1, None),
        ([NOT_LEADER, NOT_LEADER, 10], 9, None),
        ([NOT_LEADER, NOT_LEADER, 10, 10, 10], 9, False),
        ([NOT_LEADER] * 32 + [0], 1, False),
        ([NOT_LEADER, 0, 0, 0, NOT_LEADER, 0], 20, True),
        ([19, 0], 1, False),
    ],
    ids=[
        "over soon",
        "not over",
        "at the end",
        "may yet pass",
        "given up",
        "too long",
        "twice",
        "another error",
    ],
)
def test_a_leader_moves_for_seconds(tmp_path, codes, every, expected):
    talk = Talk()
    for code in codes:
        talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(code), every * SECOND)
    row = next(row for row in rows_of("errors", talk.read(tmp_path)) if row["code"] != 10)
    assert row["expected"] is expected
    assert row["retriable"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], False),
        (["--since", "+33s"], None),
        (["--until", "+20s"], None),
        (["--since", "+33s", "--until", "+44s"], None),
        (["--since", "+60s"], True),
    ],
)
def test_a_burst_that_a_filter_cuts_may_be_too_long(tmp_path, answer_rows, options, expected):
    """An error every seven seconds for 42 seconds, each time with a success behind it; another one a minute later."""
    talk = Talk()
    for after in (*[6] * 6, 60, 60):
        for code, ms in ((NOT_LEADER, SECOND), (0, after * SECOND)):
            talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(code), ms)
    talk.read(tmp_path)
    (row,) = answer_rows("errors", *options, tmp_path / "talk.pcap")
    assert row["expected"] is expected


def test_a_burst_that_the_captures_end_cuts_may_be_too_long(tmp_path):
    talk = Talk()
    for _ in range(3):
        for code, ms in ((NOT_LEADER, SECOND), (0, 6 * SECOND)):
            talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(code), ms)
    (row,) = rows_of("errors", talk.read(tmp_path))
    assert row["expected"] is None


def test_bursts_are_judged_one_by_one(tmp_path):
    talk = Talk()
    for code, after in [(NOT_LEADER, 1), (NOT_LEADER, 1), (0, 60), (NOT_LEADER, 1), (10, 31)]:
        talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(code), after * SECOND)
    (row,) = (row for row in rows_of("errors", talk.read(tmp_path)) if row["code"] == NOT_LEADER)
    assert (row["count"], row["expected"], row["expected_reasons"]) == (3, False, {PASSED: 2})


def test_errors_of_two_brokers_are_two_bursts(tmp_path):
    """Each of them lost its partitions for a moment as it was restarted."""
    talks = [Talk(broker=(f"10.0.0.{number}", 9092)) for number in range(2, 7)]
    for number, talk in enumerate(talks):
        talk.waits(9 * SECOND * number)
        talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(NOT_LEADER))
        talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(0), SECOND)
    (row,) = rows_of("errors", talks[0].read(tmp_path, *talks[1:]))
    assert (row["count"], row["expected"]) == (5, True)


ADD_PARTITIONS_TO_TXN, CONCURRENT = 24, 51


@pytest.mark.parametrize("succeeds", [True, False])
def test_transactions_end_again_and_again(tmp_path, succeeds):
    talk = Talk()
    asked = {"v3_and_below_transactional_id": "t-1", "v3_and_below_producer_id": 1}
    asked |= {"v3_and_below_producer_epoch": 0, "v3_and_below_topics": []}
    for number in range(50):
        code = 0 if succeeds and number % 2 else CONCURRENT
        partitions = [{"partition_index": 0, "partition_error_code": code}]
        answer = [{"name": "t", "results_by_partition": partitions}]
        answer = {"throttle_time_ms": 0, "results_by_topic_v3_and_below": answer}
        talk.answers(talk.asks(ADD_PARTITIONS_TO_TXN, 0, asked), answer, SECOND)
    (row,) = rows_of("errors", talk.read(tmp_path))
    assert (row["error"], row["expected"]) == ("CONCURRENT_TRANSACTIONS", succeeds)


LEADER_AND_ISR, STALE_CONTROLLER = 4, 11


@pytest.mark.parametrize(("code", "expected"), [(0, True), (STALE_CONTROLLER, False)])
def test_a_partition_in_its_epoch_already_is_no_second_controller(tmp_path, code, expected):
    talk = Talk()
    state = {"topic_name": "t", "partition_index": 0, "controller_epoch": 1, "leader": 1, "leader_epoch": 3}
    state |= {"isr": [1], "partition_epoch": 1, "replicas": [1]}
    asked = {"controller_id": 1, "controller_epoch": 1, "ungrouped_partition_states": [state]}
    number = talk.asks(LEADER_AND_ISR, 0, asked | {"live_leaders": []}, "1")
    errors = [{"topic_name": "t", "partition_index": 0, "error_code": STALE_CONTROLLER}]
    talk.answers(number, {"error_code": code, "partition_errors": errors})
    (row,) = rows_of("errors", talk.read(tmp_path))
    assert (row["error"], row["expected"]) == ("STALE_CONTROLLER_EPOCH", expected)


def test_error_13_of_brokers_up_to_0_9_is_that_of_the_leader_epoch():
    path = CAPTURES / "0.8.2.2" / "controller-2brokers.pcap.gz"
    (row,) = (row for row in kinspect.answer("errors", path)["rows"] if row["code"] == 13)
    assert (row["api"], row["error"]) == ("LeaderAndIsr", "STALE_LEADER_EPOCH")
    assert (row["retriable"], row["expected"]) == (False, True)
    names = [
        exchange.summary.errors[0]["name"] for exchange in kinspect.read(path) if exchange.summary.errors
    ]
    assert "STALE_LEADER_EPOCH" in names
    assert schema.error_name(13, None) == "NETWORK_EXCEPTION"


@pytest.mark.parametrize(("replica", "expected"), [(2, True), (-1, False)])
def test_brokers_hear_of_topics_one_after_the_other(tmp_path, replica, expected):
    """Where a client is told so, its topic is not there."""
    talk = Talk()
    asked = {"replica_id": replica, "max_wait_ms": 9, "min_bytes": 1, "max_bytes": 9, "topics": []}
    for code in (UNKNOWN_TOPIC, 0):
        part = {"partition_index": 0, "error_code": code, "high_watermark": 0, "last_stable_offset": 0}
        part |= {"aborted_transactions": [], "records": b""}
        found = {"throttle_time_ms": 0, "responses": [{"topic": "t", "partitions": [part]}]}
        talk.answers(talk.asks(FETCH, 4, asked | {"isolation_level": 0}), found, 9 * SECOND)
    (row,) = rows_of("errors", talk.read(tmp_path))
    assert (row["error"], row["expected"]) == ("UNKNOWN_TOPIC_OR_PARTITION", expected)


@pytest.mark.parametrize("path", ["3.9.2/cluster_zk", "4.4.0/cluster_kraft", "2.8.2/controller-2brokers"])
def test_what_brokers_tell_each_other_in_elections_is_expected(path):
    rows = [row for row in kinspect.answer("errors", CAPTURES / f"{path}.pcap.gz")["rows"] if row["code"]]
    assert not [row for row in rows if row["expected"] is False]


@pytest.mark.parametrize(
    ("before", "refused", "expected"), [(False, False, True), (False, True, None), (True, False, None)]
)
def test_a_controller_that_wins_the_election_fetches_no_more(tmp_path, before, refused, expected):
    talk = Talk()

    def begins():
        body = {"cluster_id": None, "topics": []}
        talk.answers(
            talk.asks(BEGIN_QUORUM_EPOCH, 0, body), {"error_code": 41 if refused else 0, "topics": []}
        )

    if before:
        begins()
    fetch(talk, NOT_LEADER)
    if not before:
        begins()
    row = next(row for row in rows_of("errors", talk.read(tmp_path)) if row["api"] == "Fetch")
    assert row["expected"] is expected


@pytest.mark.parametrize(
    ("later", "expected"),
    [({"new": 0}, True), ({"other": 0}, None), ({"new": UNKNOWN_TOPIC}, None)],
)
def test_a_topic_is_unknown_until_it_is_there(tmp_path, later, expected):
    talk = Talk()
    talk.answers(talk.asks(METADATA, 1, asked("new")), described(new=UNKNOWN_TOPIC))
    talk.answers(talk.asks(METADATA, 1, asked(*later)), described(**later), 100)
    (row,) = rows_of("errors", talk.read(tmp_path))
    assert (row["expected"], row["topics"]) == (expected, ["new"])


def test_a_higher_version_of_api_versions_is_declined(tmp_path):
    talk = Talk()
    number = talk.asks(18, 3, {"client_software_name": "c", "client_software_version": "1"})
    talk.asked[number] = 18, 0
    talk.answers(
        number, {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 2}]}
    )
    assert told(rows_of("errors", talk.read(tmp_path))) == [("ApiVersions", "UNSUPPORTED_VERSION", 1, True)]


# ---------------------------------------------------------------------- rows


def test_topics_and_groups_are_those_of_the_error(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(METADATA, 1, asked("one", "two", "three")), described(one=0, two=5, three=29))
    names = {"groups_names": ["a", "b"]}
    results = [{"group_id": "a", "error_code": 0}, {"group_id": "b", "error_code": 68}]
    talk.answers(talk.asks(DELETE_GROUPS, 0, names), {"throttle_time_ms": 0, "results": results})
    rows = {row["code"]: row for row in rows_of("errors", talk.read(tmp_path))}
    assert (rows[5]["topics"], rows[29]["topics"], rows[68]["groups"]) == (["two"], ["three"], ["b"])


def test_an_error_is_counted_as_often_as_it_occurs(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(10, 0, 10))
    (row,) = rows_of("errors", talk.read(tmp_path))
    assert (row["count"], row["topics"], row["error"]) == (2, ["t"], "MESSAGE_TOO_LARGE")
    assert (row["meaning"], row["advice"]) == schema.error_advice()[10][:2]


def test_a_code_that_kafka_does_not_have_is_said_to_be_unknown(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(HEARTBEAT, 2, BEAT), beaten(4242))
    (row,) = rows_of("errors", talk.read(tmp_path))
    assert (row["error"], row["code"], row["retriable"]) == ("UNKNOWN_CODE_4242", 4242, False)
    assert row["meaning"]


def test_requests_without_an_answer_are_rows(tmp_path):
    ended, closed, reset, late, alone = (
        Talk(client=(f"10.0.0.{number}", 40000)) for number in (1, 2, 3, 4, 5)
    )
    ended.asks(HEARTBEAT, 2, BEAT)
    for talk in (closed, reset, late):
        body = {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1, "topics": []}
        talk.asks(FETCH, 4, body)
        talk.asks(METADATA, 1, asked("t"))
    alone.asks(METADATA, 1, asked("t"))
    late.waits(1001)
    for talk in (closed, late):
        talk.conversation.close()
    for talk in (reset, alone):
        talk.conversation.reset()
    rows = rows_of("errors", ended.read(tmp_path, closed, reset, late, alone))
    assert {(row["error"], row["code"], row["retriable"]) for row in rows} == {("UNANSWERED", None, None)}
    assert {(row["client_ip"], row["api"]): row["expected"] for row in rows} == {
        ("10.0.0.1", "Heartbeat"): True,
        ("10.0.0.2", "Fetch"): True,
        ("10.0.0.2", "Metadata"): True,
        ("10.0.0.3", "Fetch"): True,
        ("10.0.0.3", "Metadata"): True,
        ("10.0.0.4", "Fetch"): False,
        ("10.0.0.4", "Metadata"): True,
        ("10.0.0.5", "Metadata"): False,
    }
    by_api = {(row["client_ip"], row["api"]): row for row in rows}
    assert by_api["10.0.0.5", "Metadata"]["meaning"].endswith("the connection was reset.")
    assert by_api["10.0.0.3", "Metadata"]["topics"] == ["t"]
    assert by_api["10.0.0.1", "Heartbeat"]["groups"] == ["g"]


def test_where_lost_requests_may_stand_ahead_nothing_tells_of_an_unanswered_one(tmp_path):
    sure, unsure = Talk(), Talk(client=("10.0.0.2", 40000))
    for talk in (sure, unsure):
        talk.answers(talk.asks(HEARTBEAT, 2, BEAT), beaten())
        before = len(talk.conversation.packets)
        talk.asks(HEARTBEAT, 2, BEAT)
        if talk is unsure:
            del talk.conversation.packets[before:]
            talk.asks(HEARTBEAT, 2, BEAT)
        talk.conversation.reset()
    rows = {row["client_ip"]: row for row in rows_of("errors", sure.read(tmp_path, unsure), lossy=True)}
    assert {ip: (row["error"], row["expected"]) for ip, row in rows.items()} == {
        "10.0.0.1": ("UNANSWERED", False),
        "10.0.0.2": ("UNANSWERED", None),
    }


def test_what_the_answer_to_another_request_says_is_no_error_of_this_one(tmp_path):
    """The capture begins behind a request; the next one, with the same id, comes behind the answer to it."""
    talk = Talk()
    number = talk.asks(HEARTBEAT, 2, BEAT)
    talk.conversation.packets.clear()
    talk.answers(number, beaten(25))
    talk.number = 0
    talk.asks(HEARTBEAT, 2, BEAT)
    (found,) = talk.read(tmp_path)
    assert [problem.code for problem in found.problems] == ["uncertain_pairing"]
    assert not rows_of("errors", [found])


def test_unexpected_rows_come_first_then_frequent_ones(tmp_path):
    talk = Talk()
    for code in (REBALANCING, REBALANCING, REBALANCING, 25, 22, 22):
        talk.answers(talk.asks(HEARTBEAT, 2, BEAT), beaten(code))
    assert [row["code"] for row in rows_of("errors", talk.read(tmp_path))] == [22, 25, 27]


# ---------------------------------------------------------------------- what rows are apart by


def test_a_code_stands_with_the_partition_that_has_it(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(10, 0, 10, 22))
    rows = rows_of("errors", talk.read(tmp_path), by="partition,broker")
    found = {(row["code"], row["partition"], row["broker"], row["count"]) for row in rows}
    assert found == {(code, f"t-{index}", "10.0.0.9:9092", 1) for code, index in [(10, 0), (10, 2), (22, 3)]}
    assert {row["count"] for row in rows_of("errors", talk.read(tmp_path), by="topic")} == {1, 2}


def test_a_success_that_was_lost_or_left_out_may_have_followed(tmp_path):
    talk = Talk()
    talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(NOT_LEADER))
    talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(87))
    for _ in range(10):
        talk.answers(talk.asks(HEARTBEAT, 1, BEAT), beaten(), 4 * SECOND)
    found = [*talk.read(tmp_path)]
    verdicts = {
        lossy: {row["code"]: row["expected"] for row in rows_of("errors", found, lossy=lossy)}
        for lossy in (False, True)
    }
    assert verdicts == {False: {NOT_LEADER: False, 87: False}, True: {NOT_LEADER: None, 87: False}}


def test_whether_an_error_passed_does_not_hang_on_what_rows_are_apart_by(tmp_path):
    talk = Talk()
    for code in [*[NOT_LEADER] * 60, 0]:
        talk.answers(talk.asks(PRODUCE, 3, WRITE), produced(code), SECOND)
    rows = rows_of("errors", talk.read(tmp_path), by="minute,client")
    assert len(rows) >= 2
    assert {row["expected"] for row in rows} == {False}
    assert sum(row["count"] for row in rows) == 60


@each_folder
def test_rows_by_other_keys_count_the_same_errors(folder):
    """But for what stands under no topic, which counts for all that its exchange names."""
    for path in captures(folder):
        found = exchanges_of(path)
        counts = Counter()
        for row in rows_of("errors", found):
            counts[row["api"], row["error"]] += row["count"]
        for by in ("broker", "minute,client", "principal"):
            others = Counter()
            for row in rows_of("errors", found, by=by):
                others[row["api"], row["error"]] += row["count"]
            assert others == counts, (path, by)


def test_who_was_denied():
    path = CAPTURES / "4.4.0" / "notauthorized.pcap.gz"
    rows = {row["client_id"]: row for row in kinspect.answer("errors", path)["rows"]}
    assert (rows["pc-na-p"]["principals"], rows["pc-na-t"]["transactional_ids"]) == (
        ["alice"],
        ["forbidden-tx"],
    )
    by_user = kinspect.answer("errors", path, by="principal")["rows"]
    assert {row["principal"] for row in by_user} == {"alice"}


def test_of_two_meanings_of_an_error_it_is_said_which_rows_have_them(kinspect):
    out = kinspect("errors", CAPTURES / "3.9.2" / "sasl_plain.pcap.gz", "--format", "table", "--wide").out
    told = [line for line in out.splitlines() if line.startswith("UNANSWERED (")]
    assert [line.partition("):")[0] for line in told] == [
        "UNANSWERED (SaslToken of pf-kpbad-plain, SaslToken of pf-akbad-plain",
        "UNANSWERED (Metadata of pf-ckc-plain",
    ]
    assert "\nMEMBER_ID_REQUIRED: " in out


def test_expected_errors_of_many_clients_are_one_line(tmp_path, kinspect):
    talks = [Talk(client=(f"10.0.1.{number}", 40000)) for number in range(9)]
    for talk in talks:
        talk.answers(talk.asks(HEARTBEAT, 2, BEAT), beaten(REBALANCING))
        talk.answers(talk.asks(HEARTBEAT, 2, BEAT), beaten(25))
    talks[0].read(tmp_path, *talks[1:])
    lines = kinspect("errors", tmp_path / "talk.pcap", "--format", "table").out.splitlines()
    assert sum(line.startswith("UNKNOWN_MEMBER_ID ") for line in lines) == 9
    (line,) = (line for line in lines if line.startswith("REBALANCE_IN_PROGRESS "))
    assert line.split()[1] == "9"
    assert "9 clients" in line
    wide = kinspect("errors", "--wide", tmp_path / "talk.pcap", "--format", "table").out.splitlines()
    assert sum(line.startswith("REBALANCE_IN_PROGRESS ") for line in wide) == 9


def test_whether_a_cut_fetch_is_a_followers_is_not_known(answer_rows, tmp_path):
    whole = CAPTURES / "0.8.2.2" / "controller-2brokers.pcap.gz"
    part = tmp_path / "part.pcap"
    part.write_bytes(nanosecond_pcap([cut_at(packet, 96) for packet in packets(whole)]))
    verdicts = [
        {
            row["expected"]
            for row in answer_rows("errors", path)
            if row["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
        }
        for path in (whole, part)
    ]
    assert True in verdicts[0]
    assert False not in verdicts[1]


def test_an_answer_whose_codes_were_cut_off_is_no_success(tmp_path):
    talk = Talk()
    for name in ("t", "t" * 100):
        (topic,) = produced(NOT_LEADER)["responses"]
        talk.answers(
            talk.asks(PRODUCE, 3, WRITE),
            {"responses": [topic | {"name": name}], "throttle_time_ms": 0},
            SECOND,
        )
    talk.answers(talk.asks(HEARTBEAT, 1, BEAT), beaten(), 40 * SECOND)
    talk.read(tmp_path)
    part = tmp_path / "part.pcap"
    part.write_bytes(nanosecond_pcap([cut_at(packet, 120) for packet in packets(tmp_path / "talk.pcap")]))
    for path, count, expected in ((tmp_path / "talk.pcap", 2, False), (part, 1, None)):
        (row,) = rows_of("errors", exchanges(path), lossy=path == part)
        assert (row["error"], row["count"], row["expected"]) == ("NOT_LEADER_OR_FOLLOWER", count, expected)


def test_whether_a_session_is_of_an_earlier_connection_is_not_known_of_one_that_was_forgotten(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("kinspect.analysis.expected.CONNECTIONS_KEPT", 1)
    first, second = Talk(), Talk(client=("10.0.0.2", 40000))
    fetch(first, 0)
    second.waits(SECOND)
    fetch(second, 0)
    first.waits(2 * SECOND)
    fetch(first, NO_SESSION)
    (row,) = rows_of("errors", first.read(tmp_path, second))
    assert row["expected"] is None
