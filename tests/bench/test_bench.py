"""The captures and commands of `make bench` exist, and it reports wrong results."""

import io
import re
import shutil
import subprocess
from collections import Counter
from itertools import product

import generate
import pytest
import report
import run
import stages
import witness
from plan import FASTER, FILE, RATES, SLOWER, Capture, Row, Run, plan, tshark_fields
from profiles import PROFILES, RELEASES
from support.shares import one_in

import captures
import kinspect
from kinspect.capture import open_timeline
from kinspect.form import COMPILED

SMALL = {"bulk": (300_000, 2), "chatty": (30_000, 2), "mixed": (300_000, 16), "tls": (900_000, 4)}
CAPTURES = [Capture(profile, size, connections=count) for profile, (size, count) in SMALL.items()]


@pytest.mark.parametrize("capture", one_in(4, CAPTURES), ids=lambda capture: capture.profile)
def test_captures_hold_what_is_told(capture):
    told = captures.told_of(capture)
    messages = Counter()
    for exchange in kinspect.read(captures.path_of(capture)):
        assert exchange.outcome == "answered"
        assert exchange.problems == []
        messages.update(f"{exchange.api_key} {side}" for side in ("request", "response"))
    assert dict(messages) == told.messages
    found = [witness.read_lines(capture, name) for name in ("full", "default")]
    assert found == [witness.Read(told.messages, told.correlation_ids, told.partitions, told.records)] * 2
    assert witness.read_two_fields(capture) == witness.Read(told.messages, told.correlation_ids)


@pytest.mark.parametrize("profile", SMALL)
def test_the_same_arguments_make_the_same_bytes(profile):
    first, second, longer = io.BytesIO(), io.BytesIO(), io.BytesIO()
    size, connections = SMALL[profile]
    told = generate.generate(profile, first, size, connections=connections)
    assert generate.generate(profile, second, size, connections=connections) == told
    assert (first.getvalue() == second.getvalue()) is not PROFILES[profile].tls
    four = generate.generate(profile, longer, size, times=4, connections=connections)
    assert four.messages == {name: 4 * count for name, count in told.messages.items()}
    assert four.records == 4 * told.records


def needs(*programs):
    missing = [program for program in programs if shutil.which(program) is None]
    assert not missing, f"not installed: {', '.join(missing)}"


@pytest.mark.tools
@pytest.mark.parametrize("capture", one_in(4, CAPTURES), ids=lambda capture: capture.profile)
def test_all_programs_read_the_same(capture):
    needs("tshark", "tcpdump")
    assert witness.disagreements(capture) == []
    assert witness.miscounted(capture) == []


@pytest.mark.tools
def test_tshark_decodes_half_of_the_clients():
    needs("tshark")
    read = tshark_fields("tcp.stream", "kafka.request_key", "kafka.response_key")
    path = str(captures.path_of(CAPTURES[2]))
    command = [word.replace(FILE, path) for word in (*read, "-Y", "kafka")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    messages = [line.split("\t") for line in done.stdout.splitlines()]
    # It does not tell the API of a response if it did not understand the request.
    assert {int(stream) % len(RELEASES) for stream, *keys in messages if not any(keys)} == {2, 3}


@pytest.mark.tools
def test_what_differs_is_told(monkeypatch):
    needs("tshark", "tcpdump")
    capture = CAPTURES[1]
    told = captures.told_of(capture)
    wrong = told._replace(messages={"0 request": 1}, correlation_ids=1, partitions=1, records=1, packets=1)
    monkeypatch.setattr(captures, "told_of", lambda _: wrong)
    pairs = [re.search(r": (.+) tells (\w+) ", line).groups() for line in witness.disagreements(capture)]
    heads, bodies = ("messages", "correlation_ids"), ("partitions", "records")
    whole = ("tshark", "records with payload", "default")
    assert Counter(pairs) == Counter([*product(whole, heads + bodies), *product(("two fields",), heads)])
    assert [line.split(": ")[1].split(" does ")[0] for line in witness.miscounted(capture)] == [
        "--format none",
        "--format none",
        "tcpdump",
    ]


def test_a_command_that_fails_is_no_result(tmp_path, monkeypatch):
    monkeypatch.setitem(run.COMMANDS, "version", (run.plan.KINSPECT, "read", "absent.pcap"))
    with pytest.raises(SystemExit, match="ended with 1"):
        run.measure(Run("version"))


def test_a_run_is_measured():
    taken = run.measure(Run("version"))
    assert taken.status == 0
    assert taken.cpu > 0
    assert 0 < taken.wall < 60
    assert 10_000 < taken.peak_kib < 100_000


def test_the_peak_is_not_that_of_the_parent():
    ballast = bytearray(200 << 20)
    ballast[:: 1 << 12] = b"x" * len(ballast[:: 1 << 12])
    assert run.measure(Run("version")).peak_kib < 100 << 10


def taken(wall, peak=10.0):
    return report.Taken(rounds=1, wall=wall, cpu=wall, peak_mib=peak)


@pytest.mark.parametrize(
    ("kind", "work", "against", "targets", "ratio", "verdicts"),
    [
        (FASTER, taken(2), taken(20), (10, 10.1), 10, ["met", "missed"]),
        (SLOWER, taken(20), taken(10), (2, 1.9), 2, ["met", "missed"]),
        (SLOWER, taken(20, peak=60), taken(10), (None, 2), 2, ["–", "met"]),
        (SLOWER, taken(20, peak=61), taken(10), (None, 2), 2, ["missed: 60 MiB"] * 2),
    ],
)
def test_a_row_is_met_or_missed(kind, work, against, targets, ratio, verdicts):
    outcome = report.Outcome.of(Row("work", Run("default"), Run("tshark ek"), kind, targets), work, against)
    assert outcome.ratio == pytest.approx(ratio)
    assert [outcome.verdict(form) for form in report.FORMS] == verdicts


def test_the_page_keeps_both_forms_and_what_is_around(tmp_path, monkeypatch):
    page = tmp_path / "performance.md"
    page.write_text(f"before\n{report.BEGIN}old\n{report.END}after\n")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "NUMBERS", tmp_path / "results.jsonl")
    row = Row("work", Run("default"), Run("tshark ek"), FASTER, (10, 20))
    for form in report.FORMS:
        outcome = report.Outcome.of(row, taken(1), taken(15))
        for _ in range(2):
            report.keep(report.Result(form, {"Python": "3"}, [], [outcome]))
    text = page.read_text()
    assert text.startswith(f"before\n{report.BEGIN}")
    assert text.endswith(f"{report.END}after\n")
    assert "old" not in text
    cells = ("15× (≥ 10×, met): 1.00 s, 10 MiB", "15× (≥ 20×, missed): 1.00 s, 10 MiB")
    assert f"| work | – | tshark ek | {cells[0]} | {cells[1]} |" in text.splitlines()


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("profile", ["bulk", "chatty"])
def test_a_capture_that_begins_in_the_middle_has_its_rate_and_is_read_whole(profile, rate):
    size, connections = SMALL[profile]
    capture = Capture(profile, size, connections=connections, begun=rate)
    told = captures.told_of(capture)
    exchanges = [*kinspect.read(captures.path_of(capture))]
    assert {exchange.outcome for exchange in exchanges} == {"answered"}
    assert 2 * len(exchanges) == sum(told.messages.values())
    times = [time for block in open_timeline([captures.path_of(capture)]) for time in block.times]
    sent = captures.path_of(capture).stat().st_size - told.packets * generate.RECORD_SIZE
    assert (times[-1] - times[0]) * rate / 8000 == pytest.approx(sent, rel=0.05)


def test_each_row_of_the_plan_has_its_captures():
    whole, quick = plan(False), plan(True)
    assert {group.name.split()[0] for group in whole.groups} == {
        group.name.split()[0] for group in quick.groups
    }
    for planned in (whole, quick):
        compared = {
            run.capture
            for group in planned.groups
            for row in group.rows
            for run in (row.run, row.against)
            if row.against.command.startswith("tshark")
        }
        assert compared <= set(planned.witnesses)


@pytest.mark.parametrize("capture", one_in(4, CAPTURES), ids=lambda capture: capture.profile)
def test_each_stage_is_measured(capture):
    inputs = stages.Inputs(captures.path_of(capture))
    told = captures.told_of(capture)
    assert (inputs.packets, len(inputs.messages), inputs.records) == (
        told.packets,
        sum(told.messages.values()),
        told.records,
    )
    costs = list(stages.costs(inputs, 1))
    assert all(cost.seconds > 0 and cost.number > 0 for cost in costs)
    assert {cost.stage.split(":")[0] for cost in costs} == {
        "capture", "link", "tcp", "kafka", "protocol", "view", "output", *(["records"] if told.records else []),
    }  # fmt: skip


def test_the_whole_command_is_profiled():
    text = stages.profile(captures.path_of(CAPTURES[2]), ["--records", "--payload", "text"])
    # Compiled code is not seen by the profiler.
    assert ("kinspect/kafka/view/view.py" in text) is not COMPILED
    assert "function calls" in text
