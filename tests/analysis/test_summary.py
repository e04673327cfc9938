"""Summary: findings are those of the other answers."""

import pytest
from support.captures import CAPTURES

from kinspect.analysis.answers.summary import SEVERITIES

SOME = [
    "4.4.0/errors_java.pcap.gz",
    "4.4.0/txn_java.pcap.gz",
    "4.4.0/groups_classic.pcap.gz",
    "4.4.0/sasl_plain.pcap.gz",
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
        if not row["expected"]:
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
