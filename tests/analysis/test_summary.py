"""Summary: findings are those of the other answers."""

import pytest
from support.captures import CAPTURES

from kinspect.analysis.expected import EXPECTED
from kinspect.answers.summaryanswer import SEVERITIES, _contents, _failures

from .runs import Talk, rows_of

SOME = [
    "4.4.0/errors_java.pcap.gz",
    "4.4.0/txn_java.pcap.gz",
    "4.4.0/groups_classic.pcap.gz",
    "4.4.0/sasl_plain.pcap.gz",
    # Some that may pass yet.
    pytest.param("4.4.0/cluster_kraft.pcap.gz", marks=pytest.mark.big),
]


@pytest.fixture(params=SOME)
def capture(request):
    return CAPTURES / request.param


@pytest.fixture
def rows(answer_rows):
    return answer_rows


def found(rows, capture):
    return {row["finding"]: row for row in rows("summary", capture)}


def test_findings_stand_by_severity_and_none_is_empty(rows, capture):
    findings = rows("summary", capture)
    assert [row["severity"] for row in findings] == sorted(
        [row["severity"] for row in findings], key=SEVERITIES.index
    )
    assert all(row["count"] and row["text"] for row in findings)
    assert len({row["finding"] for row in findings}) == len(findings)


def test_errors_are_the_unexpected_ones(rows, capture):
    counts = {True: 0, False: 0}
    for row in rows("errors", capture):
        # A login that was refused is a finding of its own.
        if row["expected"] is False and not row["api"].startswith("Sasl"):
            counts[row["error"] == "UNANSWERED"] += row["count"]
    findings = found(rows, capture)
    for name, unanswered in (("errors", False), ("unanswered", True)):
        assert findings.get(name, {"count": 0})["count"] == counts[unanswered]


def test_contents_are_counted_once(rows, capture):
    findings = found(rows, capture)
    for name, key in (("clients", "client_id"), ("groups", "group"), ("topics", "topic")):
        names = {row[key] for row in rows(name, capture)}
        assert findings.get(name, {"count": 0})["count"] == len(names)


def test_transactions_that_did_not_commit(rows):
    capture = CAPTURES / "4.4.0/txn_java.pcap.gz"
    outcomes = [each["outcome"] for row in rows("transactions", capture) for each in row["transactions"]]
    findings = found(rows, capture)
    for outcome in ("aborted", "fenced"):
        assert findings[f"transactions_{outcome}"]["count"] == outcomes.count(outcome) > 0


def test_each_command_is_one(kinspect, rows, capture):
    for command in {row["command"] for row in rows("summary", capture)}:
        name, *options = command.split()
        assert kinspect(name, *options, "--format", "json", capture).status == 0


def test_a_capture_alone_is_summed_up(kinspect, capture):
    assert kinspect(capture, "--format", "json").out == kinspect("summary", capture, "--format", "json").out


PORT_AT = slice(34, 36)


@pytest.mark.parametrize(("side", "port"), [("client", 40000), ("broker", 9092)])
def test_a_capture_of_one_side_is_told(rows, tmp_path, side, port):
    whole, half = Talk(), Talk(client=("10.0.0.2", 40000))
    broker = {"node_id": 1, "host": "10.0.0.9", "port": 9092, "rack": None}
    for talk in (whole, half):
        for _ in range(5):
            answer = {"brokers": [broker], "controller_id": 1, "topics": []}
            talk.answers(talk.asks(3, 1, {"topics": None}), answer)
    packets = half.conversation.packets
    packets[:] = [packet for packet in packets if int.from_bytes(packet.data[PORT_AT]) != port]
    assert "one_sided" not in found(rows, saved(whole, tmp_path))
    finding = found(rows, saved(whole, tmp_path, half))["one_sided"]
    assert finding["count"] == 1
    assert finding["text"] == f"1 without the {side}'s packets, of 2 connections"


def saved(talk, folder, *others):
    talk.read(folder, *others)
    return folder / "talk.pcap"


def test_a_refused_login_is_one_finding(rows):
    capture = CAPTURES / "4.4.0" / "sasl_plain.pcap.gz"
    findings = found(rows, capture)
    refused = sum(row["failed"] + row["probably_failed"] for row in rows("auth", capture))
    assert findings["logins_refused"]["count"] == refused > 0
    assert "Sasl" not in findings.get("errors", {"text": ""})["text"]


def test_an_empty_client_id_is_seen(rows):
    clients = found(rows, CAPTURES / "0.8.2.2" / "highlevel-consumer-kafka-offsets.pcap.gz")["clients"]
    assert clients["text"] == 'hl-a2, ""'


def test_what_has_no_name_is_not_called_none(rows):
    for path in ("0.10.0.1/sasl-plain-bad.pcap", "4.4.0/raw.pcap.gz", "3.9.2/raw.pcap.gz"):
        assert not [row for row in rows("summary", CAPTURES / path) if "None" in row["text"]]


def asked(node_id, port, cluster_id="c"):
    return {
        "requests": 1,
        "node_id": node_id,
        "address": f"10.0.0.1:{port}",
        "cluster_id": cluster_id,
        "releases": [],
    }


@pytest.mark.parametrize(
    ("brokers", "count", "text"),
    [
        ([asked(1, 1), asked(1, 2), asked(2, 3)], 2, "10.0.0.1:1, 10.0.0.1:3"),
        ([asked(1, 1, "a"), asked(1, 2, "b")], 2, "10.0.0.1:1, 10.0.0.1:2"),
        ([asked(1, 1, None), asked(1, 2, None)], 1, "10.0.0.1:1"),
        ([asked(None, 1)], 1, "10.0.0.1:1"),
        ([asked(1, 1), asked(None, 2)], None, "10.0.0.1:1, 10.0.0.1:2"),
        ([asked(1, 1), asked(1, 2, None)], None, "10.0.0.1:1, 10.0.0.1:2"),
        ([asked(1, 1) | {"releases": ["2.8.0", "2.8.1", "2.8.2"]}], 1, "10.0.0.1:1: 2.8.0..2.8.2"),
    ],
)
def test_brokers_are_counted_by_nodes_that_are_known(brokers, count, text):
    found = next(_contents({"connect": [], "brokers": brokers, "clients": [], "groups": [], "topics": []}))
    assert (found.count, found.text) == (count, text)


def test_as_many_are_named_as_are_counted():
    topics = [{"topic": name, "is_named": name in "ab"} for name in ("x", "a", "y", "b", "z")]
    *_, found = _contents({"connect": [], "brokers": [], "clients": [], "groups": [], "topics": topics})
    assert (found.count, found.text) == (3, "a, b, x")


def unanswered(*reasons):
    return {
        "api": "Produce",
        "error": "UNANSWERED",
        "expected": False,
        "count": 3,
        "client_id": "c",
        "client_ip": "10.0.0.1",
        "expected_reasons": {EXPECTED[name]: 1 for name in reasons},
        "meaning": "No answer was seen.",
        "advice": "Look at the broker.",
    }


def test_answers_that_the_capture_lacks_are_not_counted():
    found = {each.finding: each.count for each in _failures({"auth": [], "errors": [unanswered("gap")]})}
    assert found["unanswered"] == 2


def test_a_login_whose_refusal_a_filter_left_out_is_no_request_without_an_answer(rows):
    path = CAPTURES / "4.1.2" / "sasl_kafkapython.pcap.gz"
    whole, part = rows(path), rows(path, "--since", "2026-11-21T16:47:22.157Z")
    for findings in (whole, part):
        assert "unanswered" not in {row["finding"] for row in findings}


def test_of_one_side_the_other_is_asked_for(tmp_path):
    talk = Talk()
    talk.asks(3, 4, {"topics": None, "allow_auto_topic_creation": False})
    packets = talk.conversation.packets
    packets[:] = [packet for packet in packets if int.from_bytes(packet.data[PORT_AT]) != 9092]
    (row,) = rows_of("errors", talk.read(tmp_path))
    assert row["advice"].endswith("capture both directions.")
