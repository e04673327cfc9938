"""Output in one file after the other, compressed behind it."""

import gzip
import os
import stat
import subprocess
import sys
import time

import pytest
from support.waiting import wait_until

from kinspect.capture.rotation import Rotation
from kinspect.cli import archive
from kinspect.cli.outfile import OpenMode
from kinspect.cli.rotated import RotatedFile

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PRIVATE = OpenMode()
LINES = [
    b"%04d" % number
    + bytes(
        95,
    )
    + b"\n"
    for number in range(20)
]


def opened(folder, compression=None, open_mode=PRIVATE, **rotation):
    file = RotatedFile(str(folder / "out.jsonl"), open_mode, Rotation(**rotation), compression)
    file.begin()
    return file


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def number(name):
    return int(name.split("_")[1])


@pytest.mark.parametrize("at_once", [1, 3, 20])
@pytest.mark.parametrize(
    ("size", "expected"), [(100, 20), (299, 10), (300, 7), (1999, 2), (2000, 1), (50, 20)]
)
def test_no_file_gets_larger_than_asked_and_no_line_is_cut(tmp_path, size, expected, at_once):
    with opened(tmp_path, size=size) as file:
        for start in range(0, len(LINES), at_once):
            file.write(b"".join(LINES[start : start + at_once]))
    files = [tmp_path / name for name in names(tmp_path)]
    assert [number(path.name) for path in files] == [*range(1, expected + 1)]
    assert b"".join(path.read_bytes() for path in files) == b"".join(LINES)
    assert all(path.read_bytes().endswith(b"\n") for path in files)
    assert all(path.stat().st_size <= max(size, 100) for path in files)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_the_next_file_comes_with_time_but_not_for_nothing(tmp_path, monkeypatch):
    now = [0]
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    with opened(tmp_path, time_ns=10, open_mode=OpenMode(mode=0o640)) as file:
        for when, line in [(5, b"a\n"), (9, b""), (10, b""), (15, b"b\n"), (19, b"")]:
            now[0] = when
            file.tick()
            file.write(line)
        file.tick()
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"a\n", b"b\n"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}


def test_sighup_begins_the_next_file(tmp_path):
    with opened(tmp_path, size=1000) as file:
        file.anew()
        file.write(b"a\n")
        file.anew()
        file.write(b"b\n")
    assert [(tmp_path / name).read_bytes() for name in names(tmp_path)] == [b"a\n", b"b\n"]


def test_each_file_begins_with_the_header_which_alone_is_no_reason_for_another(tmp_path):
    with RotatedFile(str(tmp_path / "out.csv"), PRIVATE, Rotation(size=6), None) as file:
        file.put_header(b"h\n")
        file.begin()
        file.anew()
        file.write(b"a\nb\nc\nlonger\n")
        file.anew()
        file.anew()
    files = [(tmp_path / name).read_bytes() for name in names(tmp_path)]
    assert files == [b"h\na\nb\n", b"h\nc\n", b"h\nlonger\n", b"h\n"]


def moved_away(folder):
    """The folder under another name, so that no file can be made in it by the old one."""
    return folder.rename(folder.with_name("away"))


def test_by_size_lines_go_on_in_the_old_file_if_the_next_cannot_be_made(tmp_path, capfd):
    folder = tmp_path / "folder"
    folder.mkdir()
    with opened(folder, size=300) as file:
        file.write(b"".join(LINES[:3]))
        away = moved_away(folder)
        for line in LINES[3:9]:
            file.write(line)
        assert capfd.readouterr().err.count("No such file or directory: lines go on into ") == 1
        away.rename(folder)
        file.write(b"".join(LINES[9:13]))
        moved_away(folder)
        file.write(LINES[13])
        file.write(b"".join(LINES[13:]))
        # It is another fault.
        assert capfd.readouterr().err.count("lines go on into ") == 1
        away.rename(folder)
    files = [folder / name for name in names(folder)]
    assert [path.stat().st_size for path in files] == [900, 300, 900]
    assert [number(path.name) for path in files] == [1, 2, 3]


def test_by_time_too_and_it_is_tried_again_at_the_next_turn(tmp_path, monkeypatch, capfd):
    now, folder = [0], tmp_path / "folder"
    monkeypatch.setattr(time, "monotonic_ns", lambda: now[0])
    folder.mkdir()
    with opened(folder, time_ns=10) as file:
        file.write(b"a\n")
        away = moved_away(folder)
        for when in (10, 20):
            now[0] = when
            file.tick()
        file.write(b"b\n")
        away.rename(folder)
        for when, line in ((29, b"c\n"), (30, b"d\n")):
            now[0] = when
            file.tick()
            file.write(line)
    assert [(folder / name).read_bytes() for name in names(folder)] == [b"a\nb\nc\n", b"d\n"]
    assert capfd.readouterr().err.count("lines go on into ") == 1


def test_a_sighup_raises_it_and_changes_nothing(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with opened(folder, size=300) as file:
        file.write(LINES[0])
        away = moved_away(folder)
        with pytest.raises(FileNotFoundError):
            file.anew()
        away.rename(folder)
        file.write(LINES[1])
        file.anew()
        file.write(LINES[2])
    assert [(folder / name).stat().st_size for name in names(folder)] == [200, 100]


UNPACK = {"gzip": gzip.decompress, "zstd": zstd.decompress}


@pytest.mark.parametrize(("compression", "ending"), [("gzip", ".gz"), ("zstd", ".zst")])
def test_what_is_complete_gets_compressed(tmp_path, compression, ending):
    open_mode = OpenMode(mode=0o640)
    with opened(tmp_path, compression, open_mode, size=500) as file:
        file.write(b"".join(LINES))
        wait_until(lambda: sum(name.endswith(".jsonl" + ending) for name in names(tmp_path)) == 3)
        wait_until(lambda: len(names(tmp_path)) == 4)
    packed = [tmp_path / name for name in names(tmp_path)[:3]]
    assert b"".join(UNPACK[compression](path.read_bytes()) for path in packed) == b"".join(LINES[:15])
    assert {stat.S_IMODE(path.stat().st_mode) for path in packed} == {0o640}
    if compression == "gzip":
        # As everybody else reads it.
        done = subprocess.run(["gzip", "-dc", *packed], check=True, capture_output=True)
        assert done.stdout == b"".join(LINES[:15])


def test_the_oldest_are_deleted_in_whatever_form_they_are(tmp_path):
    with opened(tmp_path, "gzip", size=100, keep=3) as file:
        for line in LINES:
            file.write(line)
        wait_until(lambda: [number(name) for name in names(tmp_path)] == [18, 19, 20])
        wait_until(lambda: sum(name.endswith(".gz") for name in names(tmp_path)) == 2)
    # Those of this run count for the next one, which goes on with the numbers.
    with opened(tmp_path, size=100, keep=3) as file:
        file.write(LINES[0])
        wait_until(lambda: [number(name) for name in names(tmp_path)] == [19, 20, 21])


def test_other_files_are_left_alone(tmp_path):
    others = [
        "out.jsonl",
        "out_1.jsonl",
        "out_00001_20261121151919.jsonl.bak",
        "other_00001_20261121151919.jsonl",
    ]
    for name in others:
        (tmp_path / name).write_bytes(b"x")
    with opened(tmp_path, size=100, keep=1) as file:
        file.write(b"".join(LINES))
        wait_until(lambda: len(names(tmp_path)) == len(others) + 1)
    assert set(others) < set(names(tmp_path))


def test_what_a_killed_run_left_is_compressed_by_the_next_one(tmp_path):
    left = tmp_path / "out_00007_20261121151919.jsonl"
    left.write_bytes(b"left\n")
    left.with_name(left.name + ".gz.tmp").write_bytes(b"half of it")
    with opened(tmp_path, "gzip", size=100):
        wait_until(lambda: left.name + ".gz" in names(tmp_path) and left.name not in names(tmp_path))
    assert [number(name) for name in names(tmp_path)] == [7, 8]
    assert gzip.decompress((tmp_path / f"{left.name}.gz").read_bytes()) == b"left\n"


def test_an_end_while_compressing_leaves_the_plain_file(tmp_path, monkeypatch):
    class Slow:
        def compress(self, data):
            time.sleep(0.2)
            return data

        def flush(self):
            return b""

    monkeypatch.setitem(archive.COMPRESSIONS, "gzip", archive.Compression(".gz", Slow))
    with opened(tmp_path, "gzip", size=3 << 20) as file:
        for piece in (bytes(3 << 20), b"next\n"):
            file.write(piece)
        wait_until(lambda: any(name.endswith(".tmp") for name in names(tmp_path)))
    assert [number(name) for name in names(tmp_path)] == [1, 2]
    assert all(name.endswith(".jsonl") for name in names(tmp_path))


def test_what_cannot_be_compressed_is_told_and_stays(tmp_path, capsys, monkeypatch):
    def refuse(descriptor, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(archive, "_write_all", refuse)
    said = []
    monkeypatch.setattr(archive, "complain", said.append)
    with opened(tmp_path, "gzip", size=100) as file:
        file.write(LINES[0])
        file.write(LINES[1])
        wait_until(lambda: said)
    assert len(names(tmp_path)) == 2
    assert "No space left on device: it stays as it is" in said[0]


def test_what_is_discarded_makes_no_more_files(tmp_path):
    with opened(tmp_path, size=100) as file:
        file.write(LINES[0])
        file.discard()
        file.write(b"".join(LINES))
    assert len(names(tmp_path)) == 1


def test_a_folder_that_is_not_there(tmp_path, kinspect):
    done = kinspect("read", "-o", tmp_path / "no" / "out", os.devnull)
    assert done.status == 2
    assert "no/out: No such file or directory" in done.err
