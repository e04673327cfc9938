"""`read --sort`: the first lines of all lines, sorted by this test."""

import json
import re
from pathlib import Path

import pytest
from cli.test_jobs import outcome, small
from support.shares import one_in

CAPTURES = Path("captures")
NAMES = (
    "4.4.0/groups_classic.pcap.gz",
    "4.4.0/lossin.pcap.gz",
    "4.4.0/snap96.pcap",
    "0.10.2.2/midstream.pcap",
    "variants/twice.pcap.gz",
)


def size(line):
    return sum(line[side]["size"] for side in ("request", "response") if line[side])


VALUES = {
    "latency": lambda line: -line["latency_ms"],
    "service": lambda line: -line["service_ms"],
    "size": lambda line: -size(line),
    "time": lambda line: line["timestamp"],
}
UNKNOWN = {"latency": "latency_ms", "service": "service_ms", "size": "request", "time": "timestamp"}


def order(lines, sort):
    """The numbers of the lines in that order; those without a value come last, equal ones as they are."""
    known = [n for n, line in enumerate(lines) if sort == "size" or line[UNKNOWN[sort]] is not None]
    rest = [n for n in range(len(lines)) if n not in set(known)]
    return sorted(known, key=lambda n: VALUES[sort](lines[n])) + rest


def pieces(text, format_name):
    """What is printed of each exchange, and the heading."""
    if format_name == "detail":
        return re.findall(r"^#.*\n(?:[^#].*\n)*", text, re.MULTILINE), ""
    lines = text.splitlines(keepends=True)
    head = format_name == "table"
    return lines[head:], "".join(lines[:head])


@pytest.mark.big
@pytest.mark.parametrize(
    ("format_name", "sorts"), [("jsonl", [*VALUES]), ("table", ["latency"]), ("detail", ["time"])]
)
@pytest.mark.parametrize("name", one_in(5, NAMES))
def test_the_first_lines_of_all_lines_sorted(kinspect, name, format_name, sorts):
    shown = ["read", CAPTURES / name, "--format", format_name, "--wide", "--utc"]
    lines = [json.loads(line) for line in kinspect("read", CAPTURES / name).out.splitlines()]
    whole, heading = pieces(kinspect(*shown).out, format_name)
    assert len(whole) == len(lines)
    for sort in sorts:
        for limit in (9, len(lines) + 5):
            found = kinspect(*shown, "--sort", sort, "--limit", limit).out
            assert found == heading + "".join(whole[n] for n in order(lines, sort)[:limit]), (sort, limit)


@pytest.mark.big
@pytest.mark.parametrize(
    ("sort", "options"),
    [
        *[(sort, ["--format", "jsonl", "--emit", "exchange,summary"]) for sort in VALUES],
        ("latency", ["--format", "table"]),
    ],
)
def test_several_processes_print_what_one_prints(tmp_path, sort, options):
    asked = ["read", *sorted(CAPTURES.glob("4.4.0/*classic*")), "captures/4.4.0/txn_java.pcap.gz", *options]
    asked += ["--sort", sort, "--limit", "30", "--api", "!Metadata"]
    alone = outcome(small(*asked), tmp_path / "1")
    assert len(alone.written.splitlines()) >= 31
    assert outcome(small(*asked, "--jobs", "3"), tmp_path / "3") == alone


def test_days_stand_above_the_rows_of_a_table(kinspect, capture):
    result = kinspect("read", "--format", "table", "--utc", "--sort", "latency", "--limit", "2", capture)
    header, day, *rows = result.out.splitlines()
    assert (header.split()[0], day, len(rows)) == ("STARTED", "2023-11-14 UTC", 2)


def test_the_summary_counts_all_exchanges(kinspect, capture):
    result = kinspect("read", "--sort", "time", "--limit", "1", "--client-id", "app-1", capture)
    assert len(result.out.splitlines()) == 1
    assert "5 exchanges, 1 unanswered; 4 passed the filters" in result.err


def test_the_summary_line_comes_last(kinspect, capture):
    result = kinspect("read", "--sort", "size", "--limit", "2", "--emit", "exchange,summary", "-q", capture)
    assert [json.loads(line)["type"] for line in result.out.splitlines()] == [
        "exchange",
        "exchange",
        "summary",
    ]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (["--sort", "api", "--limit", "1"], "'api' is not one of 'latency', 'service', 'size', 'time'"),
        (["--sort", "time", "--limit", "1", "--emit", "gap,exchange"], "--emit asks for gap"),
    ],
)
def test_what_it_does_not_go_with_is_said(kinspect, capture, options, wrong):
    result = kinspect("read", *options, capture)
    assert (result.status, result.out) == (2, "")
    assert wrong in result.err


def test_nothing_is_printed_where_nothing_could_be_read(kinspect, tmp_path):
    result = kinspect("read", "--sort", "time", "--limit", "1", "--format", "table", tmp_path / "none.pcap")
    assert (result.status, result.out) == (1, "")


def test_what_a_limit_on_their_bytes_leaves_out_is_counted(kinspect, capture, monkeypatch):
    monkeypatch.setattr("kinspect.output.ordered.BYTES_KEPT", 1)
    result = kinspect("read", "--sort", "size", "--limit", "5", "--emit", "exchange,summary", capture)
    first, summary = map(json.loads, result.out.splitlines())
    assert size(first) == max(size(json.loads(line)) for line in kinspect("read", capture).out.splitlines())
    assert summary["caps_hit"] == [{"name": "sorted_bytes", "count": 4}]
