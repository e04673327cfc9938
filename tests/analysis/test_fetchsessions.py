"""Fetch sessions: a request stands for partitions that it does not name, in every answer and for every filter."""

import json

import pytest
from analysis.runs import Talk, rows_of
from support.captures import CAPTURES
from support.packets import cut_at, nanosecond_pcap, packets

from kinspect.protocol.apikeys import FETCH, SHARE_ACKNOWLEDGE, SHARE_FETCH

APIS = "Produce,Fetch,ShareFetch"
ID = "xtzWWN4bTjitpL3kfd9s5g"
SESSION = 77
JAVA = CAPTURES / "4.4.0" / "groups_classic.pcap.gz"


def asked(epoch, named=(), forgotten=(), session=SESSION):
    """A Fetch of v12: epoch, and topics with their partitions."""
    parts = {"current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1, "log_start_offset": -1}
    return {
        "replica_id": -1,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": session if epoch > 0 else 0,
        "session_epoch": epoch,
        "rack_id": "",
        "topics": [
            {
                "topic": topic,
                "partitions": [
                    {"partition": number, "partition_max_bytes": 1 << 20, **parts} for number in numbers
                ],
            }
            for topic, numbers in named
        ],
        "forgotten_topics_data": [{"topic": topic, "partitions": [*numbers]} for topic, numbers in forgotten],
    }


def answered(session=SESSION, error=0):
    return {"throttle_time_ms": 0, "error_code": error, "session_id": session, "responses": []}


class Consumer(Talk):
    """A consumer of one fetch session."""

    def fetches(self, *given, answer=True, **more):
        number = self.asks(FETCH, 12, asked(*given, **more))
        if answer:
            self.answers(number, answered())


@pytest.fixture
def used(tmp_path):
    """Requests and partitions by topic in the answer to what was said."""
    return lambda talk: {
        row["topic"]: (row["requests"], row["partitions"]) for row in rows_of("topics", talk.read(tmp_path))
    }


def test_a_session_stands_for_what_it_was_told(used):
    talk = Consumer()
    talk.fetches(0, [("a", (0, 1)), ("b", (0,))])
    talk.fetches(1)
    talk.fetches(2, [("c", (5,))], [("b", (0,)), ("a", (1,))])
    talk.fetches(3)
    # What lets go of a topic names it.
    assert used(talk) == {"a": (4, 2), "b": (3, 1), "c": (2, 1)}


def test_a_full_fetch_ends_its_session(used):
    talk = Consumer()
    talk.fetches(0, [("a", (0,))])
    talk.fetches(-1, [("b", (0,))])
    talk.fetches(1)
    assert used(talk) == {"a": (2, 1), "b": (1, 1)}


def test_a_session_begun_before_is_counted_without_a_topic(used):
    talk = Consumer()
    talk.fetches(8)
    talk.fetches(9, [("a", (3,))])
    talk.fetches(10)
    assert used(talk) == {None: (3, None), "a": (2, 1)}


def test_a_request_that_was_lost_may_have_let_go_of_anything(used):
    talk = Consumer()
    talk.fetches(0, [("a", (0,))])
    talk.fetches(1)
    talk.fetches(3)
    talk.fetches(4, [("b", (0,))])
    assert used(talk) == {"a": (2, 1), None: (2, None), "b": (1, 1)}


def test_without_answers_the_next_request_names_the_session(used):
    talk = Consumer()
    talk.fetches(0, [("a", (0,))], answer=False)
    talk.fetches(1, answer=False)
    assert used(talk) == {"a": (2, 1)}


def test_errors_of_a_request_that_names_nothing_are_of_its_session(tmp_path):
    talk = Consumer()
    talk.fetches(0, [("a", (0,)), ("b", (0,))])
    failed = talk.asks(FETCH, 12, asked(1))
    talk.answers(failed, answered(error=71))
    talk.fetches(2, forgotten=[("b", (0,))])
    talk.fetches(3, answer=False)
    found = {row["code"]: row["topics"] for row in rows_of("errors", talk.read(tmp_path))}
    assert found == {71: ["a", "b"], None: ["a"]}


def test_share_sessions(used):
    def share(epoch, topics=(), key=SHARE_FETCH):
        body = {"group_id": "g", "member_id": "m", "share_session_epoch": epoch, "topics": [*topics]}
        if key == SHARE_FETCH:
            limits = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500}
            body |= {**limits, "batch_size": 500, "forgotten_topics_data": []}
        return body

    topic = {"topic_id": ID, "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}
    talk = Talk()
    for epoch, topics in ((0, [topic]), (1, [])):
        talk.asks(SHARE_FETCH, 1, share(epoch, topics))
    # An acknowledgment has its epoch too, and is no fetch.
    talk.asks(SHARE_ACKNOWLEDGE, 1, share(2, [topic], SHARE_ACKNOWLEDGE))
    talk.asks(SHARE_FETCH, 1, share(3))
    assert used(talk) == {ID: (3, 1)}


def test_a_cut_fetch_is_counted_without_a_topic(kinspect, tmp_path):
    whole = packets(JAVA)
    part = tmp_path / "part.pcap"
    part.write_bytes(nanosecond_pcap([cut_at(packet, 96) for packet in whole]))
    found = json.loads(kinspect("topics", part).out)["rows"]
    unknown = [row for row in found if row["topic"] is None]
    assert {row["client_id"] for row in unknown} == {
        row["client_id"] for row in json.loads(kinspect("topics", JAVA).out)["rows"]
    }
    assert all(row["incomplete"] for row in unknown)


@pytest.mark.parametrize("name", ["groups_classic", "share", "kip848"])
def test_all_commands_count_the_same_requests(kinspect, answer_rows, lines, name):
    capture = CAPTURES / "4.4.0" / f"{name}.pcap.gz"
    rows = answer_rows("topics", capture)
    by_topic = {
        row["topic"]: row["count"] for row in answer_rows("latency", "--by", "topic", "--api", APIS, capture)
    }
    for topic in {row["topic"] for row in rows}:
        expected = sum(row["requests"] for row in rows if row["topic"] == topic)
        chosen = "--topic", topic, "--api", APIS, capture
        assert len(lines(*chosen)) == expected
        assert sum(row["count"] for row in answer_rows("latency", *chosen)) == expected
        assert by_topic[topic] == expected


def test_since_leaves_no_consumer_out(answer_rows):
    whole = {row["client_id"] for row in answer_rows("topics", JAVA)}
    rows = answer_rows("topics", "--since", "+10s", JAVA)
    assert {row["topic"] for row in rows} == {"pc-grp"}
    assert {"pc-jv-1"} < {row["client_id"] for row in rows} <= whole


def test_a_group_has_its_consumers(answer_rows):
    rows = answer_rows("topics", JAVA)
    chosen = answer_rows("topics", "--group", "pc-grp-java", JAVA)
    assert chosen == [row for row in rows if "pc-grp-java" in row["groups"]] != []


def test_a_capture_begun_in_the_middle_says_what_was_under_way(kinspect, tmp_path):
    whole = packets(JAVA)
    part = tmp_path / "part.pcap"
    part.write_bytes(nanosecond_pcap(whole[len(whole) * 3 // 10 :]))
    found = json.loads(kinspect("topics", part).out)
    capture = found["capture"]
    assert capture["fetch_sessions_under_way"] > 0
    assert not capture["complete"]
    unknown = [row for row in found["rows"] if row["topic"] is None]
    assert unknown
    assert all(row["direction"] == "consume" and row["requests"] for row in unknown)
    text = f"{capture['fetch_sessions_under_way']} fetch session"
    assert any(text in line for line in capture["incomplete"])
