"""Options on the file that lines are written to."""

import json
import stat

import pytest


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-o", "new", "--output-mode", "rw"], "'rw' is not a mode"),
        (["-o", "new", "--output-mode", "0440"], "the owner must be able to read and write"),
        (["-o", "new", "--output-mode", "4755"], "'4755' is not a mode"),
        (["-o", "made.pcap", "--append"], "is one of the inputs"),
        (["-o", "new.jsonl.gz"], "new.jsonl.gz: is not written compressed: give a name without .gz"),
        (["-o", "new.zst", "--format", "table"], "new.zst: is not written compressed"),
    ],
)
def test_what_is_refused_before_anything_is_written(kinspect, capture, tmp_path, monkeypatch, options, text):
    monkeypatch.chdir(tmp_path)
    done = kinspect("read", "made.pcap", *options)
    assert done.status == 2
    assert text in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["made.pcap"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["read"], "old: exists; give --force to overwrite it, or --append to go on at its end\n"),
        (["read", "--format", "table"], "old: exists; give --force to overwrite it\n"),
        (["topics", "--format", "jsonl"], "old: exists; give --force to overwrite it\n"),
    ],
)
def test_a_file_that_exists_is_kept(kinspect, capture, tmp_path, monkeypatch, command, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").write_text("old")
    done = kinspect(*command, "made.pcap", "-o", "old")
    assert done.status == 2
    assert done.err.endswith(told)
    assert (tmp_path / "old").read_text() == "old"


@pytest.mark.parametrize("command", ["read", "topics", "records", "report"])
def test_a_run_that_reads_nothing_leaves_no_file(kinspect, tmp_path, command):
    """It would stand in the way of the next one."""
    done = kinspect(command, tmp_path / "none.pcap", "-o", tmp_path / "out.html")
    assert done.status == 1
    assert [*tmp_path.iterdir()] == []


def test_runs_append_to_a_file(kinspect, capture, tmp_path):
    out = tmp_path / "out.jsonl"
    once = kinspect("read", capture, "-q").out
    for _ in range(2):
        assert kinspect("read", capture, "-q", "-o", out, "--append", "--output-mode", "0640").status == 0
    assert out.read_text() == once * 2
    assert stat.S_IMODE(out.stat().st_mode) == 0o640


def test_what_a_killed_run_cut_is_told(kinspect, capture, tmp_path):
    out = tmp_path / "out.jsonl"
    out.write_text('{"type":"exch')
    done = kinspect("read", capture, "-q", "-o", out, "--append")
    assert done.status == 0
    assert (
        done.err
        == f"kinspect: {out}: its last line has no end, as of a run that was killed: one is put there\n"
    )
    cut, *lines = out.read_text().splitlines()
    assert cut == '{"type":"exch'
    assert {json.loads(line)["type"] for line in lines} == {"exchange"}
