"""`kinspect records -o DIR --split topic`: the same rows, in files that a hostile capture cannot place elsewhere."""

import csv
import json
import stat
from collections import defaultdict
from io import StringIO
from pathlib import Path

import pytest

from kinspect.cli import topicfiles
from kinspect.cli.topicfiles import file_name

TXN = Path(__file__).parents[2] / "captures/4.4.0/txn_java.pcap.gz"
TOPICS = {"pc-txin", "pc-txout", "pc-txout-open"}
HOSTILE = [
    *(
        "a",
        "orders.v1",
        "..",
        ".",
        "",
        "../a",
        "/etc/a",
        "a/b",
        "a\0b",
        "a\nb",
        "-rf",
        "%2e",
        "a=b",
        "id=x",
        "É",
        "~",
    ),
    *("a" * 249, "a" * 250, "a" * 251, "/" * 32_000, "/" * 31_999),
]


@pytest.fixture
def split(kinspect, tmp_path):
    def run(*options):
        folder = tmp_path / "split"
        return folder, kinspect("records", TXN, "-o", folder, "--split", "topic", *options)

    return run


def whole(kinspect, *options):
    return kinspect("records", TXN, "-q", *options).out


def test_files_have_the_rows_of_their_topics(kinspect, split, monkeypatch):
    monkeypatch.setattr(topicfiles, "MOST_WAITING", 3000)
    folder, found = split("--payload", "text")
    assert (found.status, found.out) == (0, "")
    assert "\n3 files written\n" in found.err
    wanted = defaultdict(list)
    for line in whole(kinspect, "--format", "jsonl", "--payload", "text").splitlines():
        wanted[json.loads(line)["topic"]].append(line)
    assert {path.stem: path.read_text("utf-8").splitlines() for path in folder.iterdir()} == wanted
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_each_file_of_csv_has_the_header(kinspect, split):
    folder, _ = split("--format", "csv")
    header, *rows = csv.reader(StringIO(whole(kinspect, "--format", "csv")))
    files = {path.name: [*csv.reader(StringIO(path.read_text("utf-8")))] for path in folder.iterdir()}
    assert files.keys() == {f"{topic}.csv" for topic in TOPICS}
    assert [lines[0] for lines in files.values()] == [header] * 3
    assert sum(len(lines) - 1 for lines in files.values()) == len(rows)


def test_each_topic_can_be_filled(kinspect, split):
    folder, found = split("--format", "kcat", "--payload", "text", "--once")
    one = whole(kinspect, "--format", "kcat", "--payload", "text", "--once", "--topic", "pc-txin")
    assert (folder / "pc-txin.kcat").read_text("utf-8") == one
    assert "left out" not in found.err


def test_names_stay_in_the_folder_and_are_no_other_topics():
    rows = [{"topic": name, "topic_id": None} for name in HOSTILE]
    rows += [{"topic": None, "topic_id": each} for each in (None, "x")]
    names = [f"{file_name(row)}.jsonl" for row in rows]
    assert len({*names}) == len(names)
    for name in names:
        assert Path(name).name == name
        assert len(name.encode()) <= 255
        assert name.isascii()
        assert name.isprintable()
        assert not name.startswith(".")
    assert names[:2] == ["a.jsonl", "orders.v1.jsonl"]


def test_topics_beyond_the_most_files_are_counted(split, monkeypatch):
    monkeypatch.setattr(topicfiles, "MOST_FILES", 1)
    folder, found = split("--limit", "200")
    assert len([*folder.iterdir()]) == 1
    rows = len(next(folder.iterdir()).read_text("utf-8").splitlines())
    assert f"\nleft out by --split, as there are 1 files: {200 - rows}\n" in found.err


def test_what_is_there_is_replaced_only_if_it_is_a_file_and_asked_for(split, tmp_path):
    other, folder = tmp_path / "other", tmp_path / "split"
    other.write_text("kept")
    folder.mkdir()
    (folder / "pc-txin.jsonl").write_text("old\n")
    _, found = split()
    assert (found.status, found.err.splitlines()[-1][-49:]) == (
        2,
        "is not empty; give --force to replace files of topics in it"[-49:],
    )
    assert (folder / "pc-txin.jsonl").read_text() == "old\n"
    assert split("--force")[1].status == 0
    assert "old" not in (folder / "pc-txin.jsonl").read_text()
    (folder / "pc-txin.jsonl").unlink()
    (folder / "pc-txin.jsonl").symlink_to(other)
    _, found = split("--force")
    assert (found.status, found.err) == (
        1,
        f"kinspect: -o: {folder}/pc-txin.jsonl: is a symbolic link: name the file itself\n",
    )
    assert other.read_text() == "kept"


def test_a_link_is_no_folder(split, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "split").symlink_to(tmp_path / "other")
    _, found = split()
    assert found.status == 2
    assert not [*(tmp_path / "other").iterdir()]
