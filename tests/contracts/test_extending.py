"""What is added in one place is found everywhere."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CAPTURE = Path(__file__).parents[2] / "captures" / "4.4.0" / "errors_java.pcap.gz"

FILTER = """
from kinspect.filters.filterdefinitions import FILTERS, Matching
from kinspect.filters.values import word_predicate

ENDS = "answered", "unanswered", "no_response", "orphan"
FILTERS["made_up"] = Matching(
    help="Made up, by outcome.",
    turn=3,
    check=word_predicate("outcome", ENDS),
    known=lambda facts: ((facts.outcome,), True),
    words=lambda: ENDS,
    offered=lambda facts: (facts.outcome,),
    left_out={"outcomes": lambda facts: (facts.outcome,)},
)
"""
CUTS = """
from kinspect.analysis.answer import ResultContext
from kinspect.analysis.client import Client
from kinspect.filters.filterdefinitions import FILTERS
from kinspect.kafka.wire.learnednames import LearnedNames

for like in "since", "until", "port", "client_host", "topic":
    FILTERS["made_up"] = FILTERS[like]
    context = ResultContext(LearnedNames(), options=frozenset({"--made-up"}))
    print(like, context.chosen, context.begun, Client().is_whole(context))
"""
SCAN = """
import sys
from kinspect.filters.filterdefinitions import FILTERS
FILTERS["made_up"] = FILTERS["port"]
from kinspect.spark.datasource import CaptureReader, parse_options

for name in "port", "made_up":
    reader = CaptureReader(parse_options({"path": sys.argv[1], "table": "segments", name: "37824"}))
    print(sum(rows.num_rows for part in reader.partitions() for rows in reader.read(part)))
"""
COMMAND = """
import sys
from kinspect.cli import main
sys.exit(main(sys.argv[1:]))
"""
EXPLORER = """
import json, sys
from kinspect import read
from kinspect.tui.index.captures import index
from kinspect.tui.index.listfilter import ListFilter
from kinspect.tui.index.complete import completions
from kinspect.tui.index.filterline import parse_filter
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store

store = Store(Inputs([sys.argv[1]]), Spool())
index(store.inputs, store.spool, store.add)
line = "made-up=!answered"
print(json.dumps({
    "names": completions("made", store),
    "values": completions("made-up=", store),
    "rows": ListFilter(store, parse_filter(line)).passes(0, store.count),
    "read": [exchange.order - 1 for exchange in read(sys.argv[1], filter={"made_up": "!answered"})],
}))
"""


@pytest.fixture
def extended():
    """Runs a script in a process that adds something before."""

    def run(added, script, *arguments, **environment):
        command = [sys.executable, "-c", added + script, *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment or None, timeout=300
        )

    return run


@pytest.mark.parametrize("command", ["read", "live", "explore", "topics", "pipeline run", "pipeline stream"])
def test_a_filter_is_an_option(extended, command):
    result = extended(FILTER, COMMAND, *command.split(), "--help")
    assert "--made-up PATTERN" in result.stdout.partition("Filters:")[2]
    assert "Made up, by outcome." in result.stdout


def test_a_filter_chooses_lines_and_tells_what_it_left_out(extended):
    read = "read", CAPTURE, "--fields", "outcome", "--made-up"
    lines = extended(FILTER, COMMAND, *read, "no_response", "-q").stdout
    assert {*lines.splitlines()} == {'{"outcome":"no_response"}'}
    assert extended(FILTER, COMMAND, *read, "no_response", "-q", "--jobs", 2).stdout == lines
    assert "outcomes there are: answered" in extended(FILTER, COMMAND, *read, "orphan").stderr
    answer = extended(FILTER, COMMAND, "topics", CAPTURE, "--made-up", "orphan", "--format", "json")
    assert json.loads(answer.stdout)["capture"]["filters"] == ["--made-up"]


def test_a_filter_says_what_it_cuts_away(extended):
    assert extended("", CUTS).stdout.splitlines() == [
        "since False True False",
        "until False False True",
        "port True False False",
        "client_host True False True",
        "topic True True False",
    ]
    alike = 'from kinspect.filters.filterdefinitions import FILTERS; FILTERS["made_up"] = FILTERS["since"]'
    said = extended(alike, COMMAND, "read", CAPTURE, "--made-up", "+1h").stderr
    assert "no exchange passes --made-up; the capture is from 2026-11-21T07:15:39" in said


@pytest.mark.parametrize("command", [("read", CAPTURE), ("live", "-i", "lo")])
def test_a_wrong_value_of_a_filter_is_refused(extended, command):
    result = extended(FILTER, COMMAND, *command, "--made-up", "nothing")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--made-up: there is no outcome 'nothing'" in result.stderr


def test_a_filter_is_completed(extended):
    words = {"_KINSPECT_COMPLETE": "bash_complete", "COMP_CWORD": "3"}
    result = extended(FILTER, COMMAND, **words, COMP_WORDS="kinspect live --made-up unans")
    assert result.stdout == "plain,unanswered\n"


def test_a_filter_is_one_of_the_explorer_and_of_python(extended):
    found = json.loads(extended(FILTER, EXPLORER, CAPTURE).stdout)
    assert found["names"] == ["made-up="]
    assert found["values"][:2] == ["made-up=answered", "made-up=no_response"]
    assert found["rows"] == found["read"]
    assert found["rows"]


@pytest.mark.tools
def test_a_filter_is_one_of_a_scan_on_spark(extended):
    some, made_up = map(int, extended("", SCAN, CAPTURE).stdout.split())
    assert some == made_up > 20


def test_a_range_of_times_is_one_whatever_its_filters_are_called(extended):
    made_up = """
from kinspect.filters.filterdefinitions import FILTERS
for name in "since", "until":
    FILTERS[f"made_up_{name}"] = FILTERS[name]
"""
    times = ["--since", "+1s", "--made-up-since", "+2s", "--until", "+4s", "--made-up-until", "+3s"]
    answer = extended(made_up, COMMAND, "topics", CAPTURE, *times, "--format", "json")
    alone = extended("", COMMAND, "topics", CAPTURE, "--since", "+2s", "--until", "+3s", "--format", "json")
    assert json.loads(answer.stdout)["rows"] == json.loads(alone.stdout)["rows"]
    said = extended(made_up, COMMAND, "read", CAPTURE, *times, "--made-up-since", "+5s").stderr
    assert "--made-up-since is not before --until: nothing is from then on and before that" in said
