"""Packages that add rows to kinspect's tables: those of docs/extending.md, as pip installs them, and faulty ones."""

import json
import os
import subprocess
import sys
import tomllib

import pytest
from console_blocks import ROOT, examples, fences, matches, run
from support.captures import CAPTURES
from support.formats import pcapng
from support.packets import nanosecond_pcap, packets

from kinspect.answers import OTHER_COMMANDS, PAGES_LEFT
from kinspect.formats import FIRST_WORDS, FORMATS, NAMES

PAGE = ROOT / "docs" / "extending.md"
NANO = CAPTURES / "4.4.0" / "nano.pcap"
COMMAND = "import sys; from kinspect.cli import main; sys.exit(main(sys.argv[1:]))"
SHARED = """
from kinspect import jobs
from kinspect.jobs import worker
worker.CHUNK_BYTES = jobs.CHUNK_BYTES = 4096
"""
"""Several processes read even a small capture."""


def started(script, *arguments, **environment):
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The folder that the packages of the page are installed in."""
    folder = tmp_path_factory.mktemp("packages")
    sources = []
    for (_, project), (_, module) in zip(fences(PAGE, "toml"), fences(PAGE, "python"), strict=True):
        told = tomllib.loads(project)
        source = folder / told["project"]["name"]
        source.mkdir()
        (source / "pyproject.toml").write_text(project)
        (source / f"{told['tool']['setuptools']['py-modules'][0]}.py").write_text(module)
        sources.append(source)
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", folder / "installed", *sources]
    subprocess.run(command, check=True)
    return folder / "installed"


@pytest.fixture
def installed(packages, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(packages))


@pytest.mark.big
@pytest.mark.parametrize("example", [*examples(PAGE)], ids=lambda example: example.command)
@pytest.mark.usefixtures("installed")
def test_a_command_of_the_page_prints_what_is_shown(example):
    assert matches(example.shown, real := run(example.command)), "\n".join(real)


@pytest.mark.parametrize("command", ["read", "live"])
@pytest.mark.usefixtures("installed")
def test_a_format_is_shown_and_completed(command):
    shown = " ".join(started(COMMAND, command, "--help").stdout.split())
    assert "|logfmt" in shown.replace(" ", "")
    assert "logfmt: key=value pairs, an exchange a line" in shown
    asked = {"COMP_WORDS": f"kinspect {command} --format lo", "COMP_CWORD": "3"}
    assert started(COMMAND, _KINSPECT_COMPLETE="bash_complete", **asked).stdout == "plain,logfmt\n"


@pytest.mark.big
@pytest.mark.usefixtures("installed")
def test_a_format_is_written_by_several_processes_and_has_the_options_of_its_row():
    read = ("read", CAPTURES / "4.4.0" / "controller_single.pcap", "-q", "--format=logfmt")
    alone = started(COMMAND, *read)
    shared = started(SHARED + COMMAND, *read, "--jobs", 2)
    assert (shared.stdout, shared.stderr) == (alone.stdout, "")
    assert alone.stdout.count("\n") > 20
    assert (
        "--max-line is for --format jsonl or ecs, not logfmt"
        in started(COMMAND, *read, "--max-line", 9999).stderr
    )


def tapped(path, link_types=(147,)):
    """The path of a capture with link types that kinspect does not have, packet by packet; frames stand behind eight
    bytes."""
    inside = [
        packet._replace(data=bytes(8) + packet.data, link_type=link_types[number % len(link_types)])
        for number, packet in enumerate(packets(NANO))
    ]
    path.write_bytes(nanosecond_pcap(inside) if len(link_types) == 1 else pcapng(inside))
    return path


def lines_of(result):
    assert result.returncode == 0, result.stderr
    return [(line["api"], line["latency_ms"]) for line in map(json.loads, result.stdout.splitlines())]


IN_PYTHON = """
import sys, kinspect
from kinspect.tui.index.captures import index
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.spool import Spool
rows = []
index(Inputs([sys.argv[1]]), Spool(), lambda batch: rows.append(batch.rows))
print(*[sum(1 for _ in kinspect.read(sys.argv[1])), sum(map(len, rows))])
"""


@pytest.mark.usefixtures("installed")
def test_a_link_type_is_read_by_all_that_read(tmp_path):
    path, fields = tapped(tmp_path / "tap.pcapng"), ("--format", "jsonl", "--fields", "api,latency_ms")
    usual = lines_of(started(COMMAND, "read", NANO, *fields))
    assert lines_of(started(COMMAND, "read", path, *fields)) == usual
    assert lines_of(started(SHARED + COMMAND, "read", path, *fields, "--jobs", 2)) == usual
    assert started(IN_PYTHON, path).stdout == started(IN_PYTHON, NANO).stdout


ANSWERED = """
import json, sys, kinspect
from kinspect.tables.answertables import table_of
from kinspect.tui.live.livepage import OPENED

rows = kinspect.answer("sizes", sys.argv[1])["rows"]
print(json.dumps([rows, OPENED["S"], len(table_of("sizes").rows(rows, "run", None, None))]))
"""


@pytest.mark.big
@pytest.mark.usefixtures("installed")
def test_an_answer_is_a_command_in_python_a_page_and_a_table():
    rows = json.loads(started(COMMAND, "sizes", NANO, "-q", "--format", "json").stdout)["rows"]
    shared = started(SHARED + COMMAND, "sizes", NANO, "-q", "--format", "json", "--jobs", 2)
    assert json.loads(shared.stdout)["rows"] == rows
    assert json.loads(started(ANSWERED, NANO).stdout) == [rows, "sizes", len(rows)]
    assert (
        "  sizes         Which APIs send most: requests and their bytes.\n"
        in started(COMMAND, "--help").stdout
    )
    assert started(COMMAND, "sizes", NANO, "--sizes-least", "x").returncode == 2
    asked = {"_KINSPECT_COMPLETE": "bash_complete", "COMP_WORDS": "kinspect siz", "COMP_CWORD": "1"}
    assert started(COMMAND, **asked).stdout == "plain,sizes\n"


# ---------------------------------------------------------------------- what is left out

MODULE = """
import sys
from dataclasses import replace
from types import SimpleNamespace
from kinspect.analysis.answer import Answer
from kinspect.answers.definition import Definition
from kinspect.formats import LINES, FormatOption, OutputFormat, RefusedOptions
from kinspect.link.cursor import LINK_TYPE, STOP

print("this is no data")
good = OutputFormat("kinspect.output.jsonl", LINES, "fit")
plain = SimpleNamespace(module="kinspect.output.jsonl", writes=LINES)
writes = good._replace(writes="anything")
helps = good._replace(help="\\x1b[31m")
has = good._replace(has=frozenset({"anything"}))
of_lists = good._replace(has=["fields"])
needs = good._replace(extra="anything")
own = good._replace(own=(FormatOption("limit", (), ""),))
refused = good._replace(refused=(RefusedOptions(5, ""),))
elsewhere = good._replace(module="nowhere_at_all")
silent = good._replace(module="kinspect.wording")

class Nothing(Answer):
    def add(self, exchange): pass
    def result(self, context): return []

answer = Definition(Nothing, "what", "A", "what", (), "none", lambda file, rows: "")
said = replace(answer, help="two\\nlines")
counted = replace(answer, answer=SimpleNamespace)
paged = replace(answer, page="q")
optional = replace(answer, page="B", options={"least": None})

def out(cursor): cursor.at = -1; return LINK_TYPE + 1
def behind(cursor): cursor.end += 100; return LINK_TYPE + 1
def round(cursor): return LINK_TYPE + 148
def ended(cursor): return STOP
def nothing(cursor): pass
def fails(cursor): return {}["no such key"]
"""
FAULTY_FORMATS = {
    "jsonl": ("good", "kinspect has one of its own"),
    "view": ("good", "kinspect has one of its own"),
    "max": ("good", "a format cannot have this name"),
    "a|b": ("good", "a format cannot have this name"),
    "\x1b[2J": ("good", "a format cannot have this name"),
    "missing": ("missing", "AttributeError("),
    "plain": ("plain", "a SimpleNamespace is not a kinspect.formats.OutputFormat"),
    "writes": ("writes", "writes cannot be 'anything'"),
    "helps": ("helps", r"help cannot be '\x1b[31m'"),
    "has": ("has", "has cannot be frozenset({'anything'})"),
    "of-lists": ("of_lists", "TypeError("),
    "needs": ("needs", "extra cannot be 'anything'"),
    "own": ("own", "own cannot be (FormatOption(name='limit'"),
    "refused": ("refused", "refused cannot be (RefusedOptions(options=5"),
    "elsewhere": ("elsewhere", "ModuleNotFoundError(\"No module named 'nowhere_at_all'\")"),
    "silent": ("silent", "its module 'kinspect.wording' has no function open_sink"),
}
FAULTY_ANSWERS = {
    "topics": ("answer", "kinspect has one of its own"),
    "read": ("answer", "kinspect has one of its own"),
    "a-b": ("answer", "an answer cannot have this name"),
    "plain": ("plain", "a SimpleNamespace is not a kinspect.answers.definition.Definition"),
    "said": ("said", r"help cannot be 'two\nlines'"),
    "counted": ("counted", "answer cannot be <class 'types.SimpleNamespace'>"),
    "paged": ("paged", "page cannot be 'q'"),
    "second": ("answer", "page cannot be 'A'"),
    "optional": ("optional", "options cannot be {'least': None}"),
}
FAULTY_LINK_TYPES = {
    "1": ("ended", "kinspect has one of its own"),
    "65536": ("ended", "numbers of link types end at 65535"),
    "0147": ("ended", "the name is not the number of a link type"),
    "tap": ("ended", "the name is not the number of a link type"),
    "-1": ("ended", "the name is not the number of a link type"),
    "147": ("plain", "a SimpleNamespace is not a function"),
}
WRONG = {
    "148": ("round", "nesting"),
    "150": ("out", "malformed"),
    "151": ("behind", "malformed"),
    "152": ("ended", "malformed"),
    "153": ("nothing", "link type 153: TypeError"),
    "154": ("fails", "link type 154: KeyError"),
}
"""Link types whose functions do wrong, and as what their packets are counted."""


def package(folder, name, module, **groups):
    """Put a package into a folder, as pip would; `groups`: objects of the module by the names of entry points."""
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    points = "".join(
        f"[kinspect.{group}]\n" + "".join(f"{point} = {name}:{target}\n" for point, target in rows.items())
        for group, rows in groups.items()
    )
    (information / "entry_points.txt").write_text(points)
    (folder / f"{name}.py").write_text(module)


def objects(rows):
    return {name: target for name, (target, _) in rows.items()}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """A folder with packages that no run may fail by."""
    folder = tmp_path_factory.mktemp("faulty")
    formats, link_types = objects(FAULTY_FORMATS), objects({**FAULTY_LINK_TYPES, **WRONG})
    formats = {**formats, "fit": "good", "twin": "good"}
    answers = {**objects(FAULTY_ANSWERS), "first": "answer"}
    package(folder, "many", MODULE, formats=formats, link_types=link_types, answers=answers)
    package(folder, "other", MODULE, formats={"twin": "good"})
    package(folder, "exits", "raise SystemExit(3)", formats={"exits": "row"})
    package(folder, "red", "raise ValueError('\x1b[31mred')", formats={"red": "row"})
    return str(folder)


def test_a_faulty_format_costs_one_line(faulty):
    usual = started(COMMAND, "read", "--help")
    found = started(COMMAND, "read", "--help", PYTHONPATH=faulty)
    assert (found.returncode, usual.returncode) == (0, 0)
    words = " ".join(found.stdout.split()).replace("|fit", "").replace("; fit: fit.", ".")
    assert words == " ".join(usual.stdout.split())
    told = [line for line in found.stderr.splitlines() if line != "this is no data"]
    wrong = {
        **{name: ("'many'", what) for name, (_, what) in FAULTY_FORMATS.items()},
        "twin": ("'many' and 'other'", "which of them is meant is not known"),
        "exits": ("'exits'", "SystemExit('3')"),
        "red": ("'red'", r"ValueError('\x1b[31mred')"),
    }
    for (name, (packages, what)), line in zip(sorted(wrong.items()), told, strict=True):
        assert line.startswith(
            f"kinspect: kinspect.formats: {name!r} of package {packages} is left out: {what}"
        )


def test_a_faulty_answer_costs_one_line(faulty):
    usual = started(COMMAND, "--help").stdout
    found = started(COMMAND, "--help", PYTHONPATH=faulty)
    assert found.stdout.replace("  first         what\n", "") == usual
    told = [line for line in found.stderr.splitlines() if line != "this is no data"]
    for (name, (_, what)), line in zip(sorted(FAULTY_ANSWERS.items()), told, strict=True):
        assert line == f"kinspect: kinspect.answers: {name!r} of package 'many' is left out: {what}"


def test_a_faulty_format_that_is_asked_for_is_not_there(faulty):
    found = started(COMMAND, "read", NANO, "--format", "writes", PYTHONPATH=faulty)
    assert (found.returncode, found.stdout) == (2, "")
    assert "'writes' is not one of" in found.stderr


def test_completion_says_no_more_than_words(faulty):
    asked = {
        "_KINSPECT_COMPLETE": "bash_complete",
        "COMP_WORDS": "kinspect read --format f",
        "COMP_CWORD": "3",
    }
    found = started(COMMAND, **asked, PYTHONPATH=faulty)
    assert (found.stdout, found.stderr) == ("plain,fit\n", "this is no data\n")


@pytest.mark.big
def test_a_faulty_link_type_costs_one_line_whatever_the_number_of_processes(faulty, tmp_path):
    path = tapped(tmp_path / "tap.pcapng", (147, *map(int, WRONG)))
    read = ("read", path, "--format", "jsonl", "--emit", "summary", "-q")
    alone = started(COMMAND, *read, PYTHONPATH=faulty)
    shared = started(SHARED + COMMAND, *read, "--jobs", 2, PYTHONPATH=faulty)
    told = [line for line in alone.stderr.splitlines() if line != "this is no data"]
    for (name, (_, what)), line in zip(sorted(FAULTY_LINK_TYPES.items()), told, strict=True):
        assert line == f"kinspect: kinspect.link_types: {name!r} of package 'many' is left out: {what}"
    assert [line for line in shared.stderr.splitlines() if line.startswith("kinspect: ")] == told
    assert (alone.returncode, shared.returncode) == (0, 0)
    assert shared.stdout == alone.stdout
    reasons = {each["name"] for each in json.loads(alone.stdout)["packets_without_tcp"]}
    assert reasons == {"link type 147", *(reason for _, reason in WRONG.values())}


def test_the_explorer_has_the_lines_among_its_errors(faulty, tmp_path):
    script = """
import sys
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.indexprocess import IndexProcess
from kinspect.tui.index.spool import Spool
rows, told = IndexProcess(Inputs([sys.argv[1]]), Spool()), []
while (batch := rows.receive()) is not None:
    told += batch.errors
rows.end()
print(*told, sep="\\n")
"""
    found = started(script, tapped(tmp_path / "tap.pcapng"), PYTHONPATH=faulty)
    assert len(found.stdout.splitlines()) == len(FAULTY_LINK_TYPES)
    assert found.stdout.startswith("[0, \"kinspect.link_types: '-1' of package 'many' is left out: ")
    assert found.stderr == "this is no data\n"


def test_broken_metadata_of_any_package_costs_one_line(tmp_path):
    package(tmp_path, "broken", "")
    (tmp_path / "broken-1.0.dist-info" / "entry_points.txt").write_text("[kinspect.formats]\nno name\n")
    found = started(COMMAND, "read", "--help", PYTHONPATH=str(tmp_path))
    assert (found.returncode, found.stdout) == (0, started(COMMAND, "read", "--help").stdout)
    assert found.stderr.startswith("kinspect: kinspect.formats: no other package is looked at: ")
    assert found.stderr.count("\n") == 1


def test_first_words_of_options_are_those_there_are():
    from kinspect.cli.livecommand import live
    from kinspect.cli.readcommand import read

    names = [name for command in (read, live) for option in command.params for name in option.opts]
    assert {name[2:].partition("-")[0] for name in names if "-" in name[2:]} == FIRST_WORDS


def test_names_and_keys_that_answers_cannot_have_are_those_of_others():
    from kinspect.cli import SECTIONS
    from kinspect.tui import keybindings

    assert {name for section in SECTIONS.values() for name in section} == OTHER_COMMANDS
    keys = [*keybindings.ON_LIVE, *(key for keys in keybindings.SECTIONS.values() for key in keys)]
    assert not {word for key in keys for word in key.key.split()} & PAGES_LEFT


def test_names_of_formats_are_those_there_are():
    from kinspect.answers import answerobject
    from kinspect.cli.liveview import VIEW
    from kinspect.cli.options import AUTO

    assert {*FORMATS, AUTO, VIEW, *answerobject.FORMATS} == NAMES
