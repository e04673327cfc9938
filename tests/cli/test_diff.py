"""`kinspect diff`."""

import csv
import gzip
import io
import json

import pytest
from support.captures import CAPTURES
from support.hostile import dangerous, hostile

from kinspect.output.cells import cell

OLD, NEW = CAPTURES / "3.6.2/txn_java.pcap.gz", CAPTURES / "4.1.2/txn_java.pcap.gz"
BRIEF = "--answer", "brokers", "--answer", "latency"


def test_formats_have_the_same_rows(kinspect):
    found = json.loads(kinspect("diff", OLD, NEW, *BRIEF).out)
    assert found["diff"] == ["brokers", "latency"]
    assert found["before"]["files"] != found["after"]["files"]
    rows = found["rows"]
    assert {row["change"] for row in rows} == {"changed", "appeared", "went"}
    lines = kinspect("diff", OLD, NEW, *BRIEF, "--format", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == rows
    cells = [*csv.DictReader(io.StringIO(kinspect("diff", OLD, NEW, *BRIEF, "--format", "csv").out))]
    assert [row["row"] for row in cells] == [str(cell(row["row"])) for row in rows]
    table = kinspect("diff", OLD, NEW, *BRIEF, "--format", "table", "--wide").out
    assert table.splitlines()[-1] == f"next: kinspect brokers {NEW}"
    assert len(table.splitlines()) == len(rows) + 3


def test_exit_status(kinspect):
    def status(*arguments):
        return kinspect("diff", *arguments).status

    assert status(OLD, NEW) == 0
    assert status(OLD, NEW, "--fail-on", "changed") == 4
    assert status(OLD, NEW, *BRIEF, "--fail-on", "moved") == 0
    assert status(OLD, NEW, *BRIEF, "--fail-on", "moved", "--fail-on", "any") == 4
    assert status(NEW, NEW, "--fail-on", "any") == 0
    assert status(NEW, "nowhere.pcap") == 1


@pytest.mark.parametrize(
    "arguments", [("--answer", "summary"), ("--answer", "x"), ("--threshold", "1"), ("--threshold", "nan")]
)
def test_what_makes_no_sense_is_refused(kinspect, arguments):
    found = kinspect("diff", OLD, NEW, *arguments)
    assert (found.status, found.out) == (2, "")
    assert arguments[0] in found.err


def test_filters_are_for_both(kinspect):
    found = json.loads(kinspect("diff", OLD, NEW, "--api", "Metadata", "--answer", "latency").out)
    assert found["rows"] == []
    assert found["before"]["filters"] == found["after"]["filters"] == ["--api"]


def test_a_slip_in_a_filter_is_told(kinspect):
    lines = kinspect("diff", NEW, NEW, "--topic", "txn_java-ot", "--format", "table").out.splitlines()
    assert lines[0] == "nothing was compared"
    assert lines[1].startswith("BEFORE: no exchange passes --topic; did you mean txn_java-out, txn_java-in?")


def test_what_a_capture_may_lack_fails_nothing(kinspect, tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(gzip.decompress(NEW.read_bytes())[:20_000])
    found = kinspect("diff", NEW, cut, "--fail-on", "went")
    rows = json.loads(found.out)["rows"]
    assert {row["caveat"] is None for row in rows if row["change"] == "went"} == {False}
    assert found.status == 3


def test_a_folder_is_one_capture(kinspect, tmp_path):
    for path in (OLD, NEW):
        (tmp_path / path.parent.name).with_suffix(".pcap.gz").write_bytes(path.read_bytes())
    found = json.loads(kinspect("diff", tmp_path, NEW, "--answer", "clients").out)
    assert len(found["before"]["files"]) == 2
    assert {row["change"] for row in found["rows"]} == {"went"}
    (tmp_path / "empty").mkdir()
    assert "has no files" in kinspect("diff", tmp_path / "empty", NEW).err


def test_a_file_keeps_what_cannot_be_compared(kinspect, tmp_path):
    out = tmp_path / "out.json"
    out.write_text("old")
    assert kinspect("diff", OLD, NEW, "-o", out).status == 2
    assert kinspect("diff", OLD, tmp_path / "none", "-o", out, "--force").status == 1
    assert out.read_text() == "old"
    assert kinspect("diff", OLD, NEW, "-o", out, "--force").status == 0
    assert json.loads(out.read_text())["rows"]


def test_nothing_on_a_terminal_is_a_command(kinspect, tmp_path):
    path = tmp_path / "hostile.pcap"
    path.write_bytes(hostile())
    for form in ("table", "json", "jsonl", "csv"):
        for sides in ((path, OLD), (OLD, path)):
            found = kinspect("diff", *sides, "--format", form, "--wide", "--color", "never")
            assert found.status == 0
            assert not dangerous(found.out)
