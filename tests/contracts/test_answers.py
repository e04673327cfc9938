"""Every answer keeps the same contract: its parts make the whole, its tables fit, and nothing in them is a command."""

import csv
import io
import json
import random
import re
import shlex
import time
from datetime import datetime, timedelta
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from support.answered import objects_of
from support.hostile import dangerous, hostile
from support.shares import one_in

import kinspect
from kinspect import pipeline
from kinspect.analysis.answer import ResultContext
from kinspect.answers import answers, definition_of, layout, open_answer
from kinspect.answers.answerobject import CSV, write
from kinspect.capture import open_timeline
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine
from kinspect.output import Style
from kinspect.run import Run

CAPTURES = Path(__file__).parents[2] / "captures"
SOME = ["0.10.2.2", *(pytest.param(name, marks=pytest.mark.big) for name in ("2.8.2", "4.4.0", "variants"))]
SHOWS = {"auth": "2.8.2/sasl-plain.pcap", "connect": "connect/refused_java.pcap.gz"}
"""Captures with rows of an answer that `4.4.0/txn_java.pcap.gz` has none of."""


def shows(name):
    return CAPTURES / SHOWS.get(name, "4.4.0/txn_java.pcap.gz")


each_answer = pytest.mark.parametrize("name", answers())


def lines_of(paths):
    """The exchanges and connections of a run, and what it told."""
    timeline = open_timeline([str(path) for path in paths])
    inspector = pipeline.Inspector(emit=frozenset({"exchange", "connection"}), files=timeline.files)
    lines = [*Run(timeline, inspector).all_lines()]
    return lines, ResultContext(inspector.names, end=inspector.end[0])


def add(answer, line):
    if isinstance(line, Exchange):
        answer.add(line)
    elif isinstance(line, ConnectionLine):
        answer.add_connection(line.to_dict())


@pytest.fixture(scope="module", params=SOME)
def run(request):
    return lines_of(sorted((CAPTURES / request.param).glob("*.pcap*")))


@pytest.fixture(scope="module")
def whole_rows(run):
    """The rows of an answer to all lines, counted in their order."""
    lines, told = run

    @cache
    def rows(name):
        whole = open_answer(name)
        for line in lines:
            add(whole, line)
        found = whole.result(told)
        assert whole.result(told) == found
        assert whole.left_out == 0
        return found

    return rows


def connection_of(line):
    return line.connection.connection_id if isinstance(line, Exchange) else line.connection_id


@each_answer
@pytest.mark.parametrize("seed", range(2))
def test_parts_with_whole_connections_merge_to_the_whole_in_any_order(run, whole_rows, name, seed):
    lines, told = run
    rng = random.Random(seed)
    parts = [open_answer(name) for _ in range(3)]
    owner = {}
    for line in lines:
        add(parts[owner.setdefault(connection_of(line), rng.randrange(3))], line)
    rng.shuffle(parts)
    first, *others = parts
    for other in others:
        first.merge(type(other).from_bytes(other.to_bytes()))
    assert first.result(told) == whole_rows(name)


@each_answer
def test_rows_may_be_asked_for_while_it_counts(run, whole_rows, name):
    lines, told = run
    asked = open_answer(name)
    for number, line in enumerate(lines):
        add(asked, line)
        if number % 100 == 0:
            asked.result(told)
    assert asked.result(told) == whole_rows(name)


@each_answer
@pytest.mark.parametrize("seed", range(2))
def test_connections_count_one_after_the_other_in_any_order(run, whole_rows, name, seed):
    """As where each is decoded to its end before the next one begins."""
    lines, told = run
    other, of_connection = open_answer(name), {}
    for line in lines:
        of_connection.setdefault(connection_of(line), []).append(line)
    shuffled = [*of_connection.values()]
    random.Random(seed).shuffle(shuffled)
    for line in chain.from_iterable(shuffled):
        add(other, line)
    assert other.result(told) == whole_rows(name)


@pytest.mark.parametrize(
    "name", ["variants/seqwrap.pcap.gz", "variants/cutfile.pcap", "not-kafka/http.pcap.gz"]
)
def test_answers_that_are_counted_together_are_those_of_the_commands(kinspect, name):
    """Elsewhere those are compared with the lines of `kinspect read`, as each capture is then read once."""
    for answer, found in objects_of(CAPTURES / name).items():
        told = json.loads(kinspect(answer, "--format", "json", CAPTURES / name).out)
        assert told["rows"] == json.loads(json.dumps(found["rows"])), answer


@each_answer
def test_rows_have_the_same_keys_and_plain_values(whole_rows, name):
    rows = whole_rows(name)
    assert {tuple(row) for row in rows} <= {tuple(key.name for key in definition_of(name).keys)}
    assert json.loads(json.dumps(rows)) == rows


@each_answer
@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_table_fits(kinspect, monkeypatch, name, width):
    monkeypatch.setenv("COLUMNS", str(width))
    done = kinspect(name, "--format", "table", "--color", "never", shows(name))
    assert done.status == 0
    lines = [line for line in done.out.splitlines() if not line.startswith("next: ")]
    assert lines
    assert max(map(len, lines)) <= max(width, 80)


TIME = re.compile(r"\b\d\d:\d\d:\d\d\.\d{3}\b")


@pytest.fixture
def kolkata():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("kolkata")
@pytest.mark.parametrize(
    "name", one_in(5, ["groups", "latency --slow 100", "errors", "brokers", "transactions"])
)
def test_times_of_tables_are_local_times_or_utc(kinspect, name):
    captures = [CAPTURES / "4.4.0" / file for file in ("txn_java.pcap.gz", "cluster_kraft.pcap.gz")]
    shown = [
        TIME.findall(kinspect(*name.split(), "--wide", "--format", "table", *utc, *captures).out)
        for utc in ([], ["--utc"])
    ]
    local, utc = [{datetime.strptime(text, "%H:%M:%S.%f") for text in texts} for texts in shown]
    day = timedelta(days=1)
    assert local
    assert {(moment - timedelta(hours=5, minutes=30) - min(utc)) % day for moment in local} == {
        (moment - min(utc)) % day for moment in utc
    }


@each_answer
@pytest.mark.parametrize("file", one_in(3, ["txn_java.pcap.gz", "notauthorized.pcap.gz", "share.pcap.gz"]))
def test_what_to_type_next_finds_something(kinspect, name, file):
    lines = kinspect(name, "--format", "table", CAPTURES / "4.4.0" / file).out.splitlines()
    if lines[-1].startswith("next: "):
        done = kinspect(*shlex.split(lines[-1])[2:])
        assert done.status == 0
        assert done.out
    else:
        assert len(lines) <= 2


@each_answer
@pytest.mark.parametrize("form", ["table", "json", "jsonl", "csv"])
def test_names_are_no_commands_to_a_terminal(kinspect, tmp_path, name, form):
    path = tmp_path / "hostile.pcap"
    path.write_bytes(hostile())
    done = kinspect(name, "--format", form, "--color", "never", path)
    assert done.status == 0
    assert not dangerous(done.out)


@each_answer
def test_all_formats_have_the_same_rows(kinspect, name):
    capture = shows(name)
    found = json.loads(kinspect(name, "--format", "json", capture).out)
    assert found["answer"] == name
    rows = [json.loads(line) for line in kinspect(name, "--format", "jsonl", capture).out.splitlines()]
    assert rows == found["rows"] != []
    assert len([*csv.DictReader(io.StringIO(kinspect(name, "--format", "csv", capture).out))]) == len(rows)


@each_answer
def test_columns_of_csv_are_those_of_all_rows(kinspect, name):
    """An object's keys have columns where it is null, too."""
    definition, capture = definition_of(name), shows(name)
    row = json.loads(kinspect(name, "--format", "jsonl", capture).out.splitlines()[0])
    objects = [key for key in definition.keys if key.kind in definition.structs]
    header = kinspect(name, "--format", "csv", capture).out.splitlines()[0].split(",")
    for key in objects:
        below = [part.split()[0] for part in definition.structs[key.kind].split(",")]
        assert key.name not in row or {f"{key.name}.{each}" for each in below} <= {*header}


@each_answer
def test_an_answer_without_rows_has_columns_of_csv(name):
    text = io.StringIO()
    write({"answer": name, "rows": []}, CSV, text, Style())
    (header,) = text.getvalue().splitlines()
    keys = {key.name for key in definition_of(name).keys}
    assert {title.partition(".")[0] for title in header.split(",")} == keys


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        *[(f"{first}1+cmd|' /C calc'!A0", f"'{first}1+cmd|' /C calc'!A0") for first in "=+-@＝＠"],
        *(("\t=1", "'\\x09=1"), ("\r=1", "'\\x0d=1"), ("a=1", "a=1"), ("", ""), ("'=1", "'=1")),
        *((["=1", "b", "@c"], "'=1;b;'@c"), ({"=1": 2, "k": "-x"}, "'=1=2;k='-x"), ([-1, None, 2], "-1;;2")),
        *(("a;=1;b", "a;'=1;b"), (["a;@b"], "a;'@b"), ({"": 3, "k": "a;-x"}, "'=3;k=a;'-x")),
        *((-1, "-1"), (-1.5, "-1.5"), (None, ""), ([{"a": "=1"}], '[{"a":"=1"}]')),
    ],
)
def test_cells_are_no_formulas_to_a_spreadsheet(value, cell):
    text = io.StringIO()
    write({"answer": "topics", "rows": [{"cell": value}]}, CSV, text, Style())
    assert [*csv.DictReader(io.StringIO(text.getvalue(), newline=""))] == [{"cell": cell}]


@pytest.mark.parametrize("options", ["latency --slow 0", "latency --by client", "groups --members"])
def test_rows_that_an_option_asks_for_have_columns_of_csv(kinspect, options):
    asked = (*options.split(), shows(options.split()[0]), "--format")
    rows = [json.loads(line) for line in kinspect(*asked, "jsonl").out.splitlines()]
    found = [*csv.DictReader(io.StringIO(kinspect(*asked, "csv").out))]
    assert [row["client_id"] for row in found] == [row["client_id"] or "" for row in rows] != []


@each_answer
def test_filters_leave_out(kinspect, name):
    capture = shows(name)
    all_rows = json.loads(kinspect(name, "--format", "json", capture).out)["rows"]
    assert (
        json.loads(kinspect(name, "--format", "json", "--client-id", "nobody", capture).out)["rows"]
        != all_rows
    )


@each_answer
def test_a_file_that_is_no_capture_gives_no_answer(kinspect, tmp_path, name):
    path = tmp_path / "none.pcap"
    path.write_bytes(b"nothing of the kind")
    done = kinspect(name, path)
    assert done.status == 1
    assert done.out == ""
    assert len(done.err.splitlines()) == 1


@each_answer
def test_a_damaged_part_is_refused(name):
    from kinspect.errors import StateError

    data = open_answer(name).to_bytes()
    with pytest.raises(StateError):
        type(open_answer(name)).from_bytes(data[:-1] + b"x")


WANTED = {
    "summary": "FINDING COUNT WHICH SHOWN BY",
    "errors": "ERROR COUNT EXPECTED API CLIENT ID",
    "latency": "API COUNT P50 P95 P99 MAX WAITS FRAME",
}


@pytest.mark.parametrize("name", WANTED)
@pytest.mark.parametrize("capture", ["cluster_kraft", "groups_classic", "errors_java"])
def test_what_one_looks_for_first_is_in_narrow_tables(name, capture):
    found = kinspect.answer(name, CAPTURES / "4.4.0" / f"{capture}.pcap.gz")
    titles, *lines = layout.parts(found, 80, Style(utc=True))
    assert {*WANTED[name].split()} <= {*titles.plain.split()}
    assert all(part.cell_len <= 80 for line in lines for part in line.split())


def test_slow_exchanges_have_their_frames_in_narrow_tables():
    found = kinspect.answer("latency", CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz", slow="100ms")
    titles, *_ = layout.parts(found, 80, Style(utc=True))
    assert titles.plain.split() == ["API", "CLIENT", "ID", "BROKER", "WAIT", "LATENCY", "SERVICE", "FRAME"]


def test_files_are_left_out_rather_than_that_a_text_is_cut():
    found = kinspect.answer("latency", CAPTURES / "4.4.0" / "groups_classic.pcap.gz")
    for width in range(80, 300):
        titles, *rows = (line.plain for line in layout.parts(found, width, Style(utc=True)))
        assert "FILE" not in titles or not any("…" in row for row in rows[: len(found["rows"])])
    assert "FILE" in titles
