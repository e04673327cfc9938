"""Captures in which connections end and go on, or share addresses and ports: nothing vanishes, nothing is crossed."""

from collections import Counter
from pathlib import Path

import pytest
from support.books import balanced

from kinspect.capture.timeline import open_timeline
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.pipeline import Inspector
from kinspect.run import Run

TRUST = Path(__file__).parent / "trust"


def inspected(*names):
    """The exchanges as JSON lines' objects, and the summary."""
    timeline = open_timeline([str(TRUST / name) for name in names])
    inspector = Inspector(files=timeline.files)
    found = [*Run(timeline, inspector).all_lines()]
    return [line.to_dict() for line in found if isinstance(line, Exchange)], balanced(inspector.summary())


def files(line):
    return {line["request"]["frames"]["file"], line["response"]["frames"]["file"]}


def test_two_hosts_captures_of_the_same_addresses_are_not_crossed():
    lines, summary = inspected("f2_host1.pcap", "f2_host2.pcap")
    assert [line["outcome"] for line in lines] == ["answered"] * 4
    for line in lines:
        (file,) = files(line)
        assert line["error_names"] == ([] if "host1" in str(file) else ["UNKNOWN_MEMBER_ID"])
    assert summary["connections"]["kafka"] == 2


@pytest.mark.parametrize(
    ("name", "errors"),
    [
        ("f3a.pcap", {"": 1, "UNKNOWN_MEMBER_ID": 20}),
        ("f3b.pcap", {"": 1, "UNKNOWN_MEMBER_ID": 20}),
        ("f3c.pcap", {"ILLEGAL_GENERATION": 3, "UNKNOWN_MEMBER_ID": 3}),
        ("f3d.pcap", {"": 1, "UNKNOWN_MEMBER_ID": 4}),
    ],
)
def test_no_exchange_vanishes(name, errors):
    lines, summary = inspected(name)
    assert {line["outcome"] for line in lines} == {"answered"}
    assert Counter("".join(line["error_names"]) for line in lines) == errors
    assert len({(line["connection_id"], "".join(line["error_names"])) for line in lines}) == 2
    assert not any(line["problems"] for line in lines)
    assert summary["ignored_bytes"] == 0


def test_other_bytes_in_the_same_place_are_a_conflict():
    lines, summary = inspected("f6.pcap")
    (line,) = lines
    assert [problem["code"] for problem in line["problems"]] == ["conflict"]
    assert summary["conflicting_bytes"] == line["problems"][0]["bytes"] > 0
    assert summary["duplicate_packets"] == 0
