"""The command that an answer says to type next: what it shows is what the answer counted."""

import json
import re
import shlex
import subprocess
import sys

import pytest
from support.captures import CAPTURES

ERRORS = CAPTURES / "4.4.0" / "errors_java.pcap.gz"
GROUPS = CAPTURES / "4.4.0" / "groups_classic.pcap.gz"


@pytest.fixture
def following(kinspect):
    """The words of the command that an answer's table ends with."""

    def following(*arguments):
        last = kinspect(*arguments, "--format", "table").out.splitlines()[-1]
        assert last.startswith("next: kinspect ")
        return shlex.split(last)[2:]

    return following


def test_it_has_the_options_that_were_given(following, tmp_path):
    names = tmp_path / "topic names"
    names.write_text("{}")
    keylog = tmp_path / "keys"
    keylog.write_text("")
    given = ["--client-id", "!x y", "--since", "+0s", "--decode-as", "9092", "--decode-as", "9093"]
    given += ["--clock-skew", "1.5s"]
    found = following(
        "errors", ERRORS, *given, "--keylog", keylog, "--topic-names", names, "--api", "Produce,Fetch"
    )
    own = found.index("--client-id")
    assert found[:own] == ["read", str(ERRORS), "--errors-only", "--api", found[4]]
    assert found[own:] == [
        *["--client-id", "!x y", "--since", "+0s", "--keylog", str(keylog), "--topic-names", str(names)],
        *["--decode-as", "9092", "--decode-as", "9093", "--clock-skew", "1500ms"],
    ]


def test_its_own_filter_takes_the_place_of_the_same_one(following):
    assert following("topics", GROUPS, "--topic", "pc-*") == ["read", str(GROUPS), "--topic", "pc-grp"]


def test_it_shows_the_row_that_leads(kinspect, following):
    """UNANSWERED of several clients is one row, and then the largest."""
    capture = CAPTURES / "0.10.0.1" / "groups-admin.pcap.gz"
    for api, *wide in (("Fetch",), ("Heartbeat", "--wide")):
        assert following("errors", *wide, capture) == ["read", str(capture), "--errors-only", "--api", api]
        first = kinspect("errors", "--format", "table", *wide, capture).out.splitlines()[1]
        assert first.split()[3] == api


def test_it_shows_what_consumers_of_a_group_fetched(following, kinspect):
    found = following("topics", GROUPS, "--group", "pc-grp-java")
    assert "--group" not in found
    assert '"Fetch"' in kinspect(*found, "--format", "jsonl", "-q").out


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_it_never_names_standard_input(name):
    with GROUPS.open("rb") as capture:
        command = [sys.executable, "-m", "kinspect", "topics", name, "--format", "table"]
        found = subprocess.run(command, stdin=capture, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "next: kinspect read CAPTURE... --topic pc-grp"


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("answer", "option", "there"),
    [
        ("topics", "--topic", "topics there are: pc-grp"),
        ("topics", "--group", "groups there are: pc-grp-"),
        ("groups", "--group", "groups there are: pc-grp-"),
        ("latency", "--topic", "topics there are: pc-grp"),
        ("errors", "--group", "groups there are: pc-grp-"),
    ],
)
def test_a_misspelt_name_lists_what_there_is(kinspect, answer, option, there, jobs):
    found = kinspect(answer, option, "pc-gpr", "--jobs", jobs, "--format", "table", GROUPS).out
    assert re.search(f"^no exchange passes {option}; .*{there}", found, re.MULTILINE)


@pytest.mark.parametrize("answer", ["topics", "groups", "delivery"])
def test_what_nothing_passes_counts_nothing(kinspect, answer):
    found = json.loads(kinspect(answer, "--topic", "nosuch", "--format", "json", GROUPS).out)
    assert (found["capture"]["counted"], found["rows"]) == (0, [])
    assert found["capture"]["instead"].startswith("no exchange passes --topic")
    assert (
        "nothing passes the filter" in kinspect(answer, "--topic", "nosuch", "--format", "table", GROUPS).out
    )


def test_a_name_that_is_there_lists_nothing(kinspect):
    for answer, option in (("topics", "--topic"), ("topics", "--group"), ("errors", "--topic")):
        assert "there are" not in kinspect(answer, option, "pc-*", "--format", "table", GROUPS).out
