"""What is written to: whoever may put something into its folder gains nothing by it."""

import gzip
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from support.shares import one_in
from support.waiting import wait_until

from kinspect import ownfile
from kinspect.capture.rotation import Rotation
from kinspect.capture.save import SaveFiles, SaveOptions
from kinspect.capture.writer import section
from kinspect.cli.outfile import NamedFile, OpenMode
from kinspect.cli.rotated import RotatedFile
from kinspect.errors import CaptureError, KinspectError
from kinspect.ownfile import PRIVATE, make, open_target, remake
from kinspect.tables.lock import FileLock

CAPTURE = Path(__file__).parents[1] / "captures/4.4.0/nano.pcap"
TAKEN = b"another's\n"
LINE = bytes(99) + b"\n"


def link(path, taken):
    path.symlink_to(taken)


def dangling_link(path, taken):
    path.symlink_to(path.with_name("nowhere"))


def hard_link(path, taken):
    path.hardlink_to(taken)


def pipe(path, taken):
    os.mkfifo(path)


PLANTED = {
    link: "is a symbolic link",
    dangling_link: "is a symbolic link",
    hard_link: "has another name too",
    pipe: "is a pipe",
}


@pytest.fixture(params=PLANTED, ids=lambda plant: plant.__name__)
def planted(request, tmp_path):
    """Plants something at a path and gives what an error says of it. What it leads to is as it was at the end."""
    taken = tmp_path / "taken"
    taken.write_bytes(TAKEN)
    taken.chmod(0o644)

    def plant(path):
        request.param(path, taken)
        plant.path, plant.before = path, os.lstat(path)
        return PLANTED[request.param]

    yield plant
    assert taken.read_bytes() == TAKEN
    assert stat.S_IMODE(taken.stat().st_mode) == 0o644
    assert os.path.samestat(plant.before, os.lstat(plant.path))
    assert not plant.path.with_name("nowhere").exists()


def run(*arguments, **options):
    """The command in a process of its own, which ends, whatever lies where."""
    command = [sys.executable, "-m", "kinspect", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


@pytest.mark.parametrize("options", one_in(3, [(), ("--force",), ("--append",)]), ids="".join)
def test_output(planted, tmp_path, options):
    out = tmp_path / "out.jsonl"
    told = planted(out)
    if told == "is a pipe" and "--force" in options:
        pytest.skip("is named as such")
    done = run("read", CAPTURE, "-o", out, *options)
    assert (done.returncode, done.stdout) == (2, "")
    if not options and told == "has another name too":
        told = "exists; give --force"
    assert f"{out}: {told}" in done.stderr.splitlines()[-1]


def test_a_new_file_for_sighup(planted, tmp_path):
    path, old = tmp_path / "out", tmp_path / "out.1"
    with NamedFile(str(path), OpenMode()) as file:
        file.begin()
        path.rename(old)
        told = planted(path)
        with pytest.raises(OSError, match=told):
            file.anew()
        file.write(LINE)
    assert old.read_bytes() == LINE


@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("planted_form", ["", ".gz"])
def test_numbered_files_of_earlier_runs(planted, tmp_path, compression, planted_form, capfd):
    """They are neither compressed nor deleted, and do not count."""
    folder = tmp_path / "out"
    folder.mkdir()
    told = planted(folder / f"out_00003_20261121151919.jsonl{planted_form}")
    with RotatedFile(str(folder / "out.jsonl"), OpenMode(), Rotation(size=100, keep=2), compression) as file:
        file.begin()
        for _ in range(3):
            file.write(LINE)
        last = ("00005", "00006")
        wait_until(lambda: {path.name[4:9] for path in folder.iterdir()} == {"00003", *last})
    assert f"out_00003_20261121151919.jsonl: {told}" in capfd.readouterr().err


def test_a_file_that_waits_to_be_compressed(planted, tmp_path, capfd):
    with RotatedFile(str(tmp_path / "out.jsonl"), OpenMode(), Rotation(size=100), "gzip") as file:
        file.begin()
        file.write(LINE)
        (first,) = tmp_path.glob("out_*")
        first.unlink()
        planted(first)
        file.write(LINE)
        wait_until(lambda: "it stays as it is" in capfd.readouterr().err)
        file.write(LINE)
        wait_until(lambda: [*tmp_path.glob("out_00002_*.gz")])
    assert gzip.decompress(next(tmp_path.glob("out_00002_*.gz")).read_bytes()) == LINE


def test_where_the_compressed_form_is_made(planted, tmp_path, capfd):
    with RotatedFile(str(tmp_path / "out.jsonl"), OpenMode(), Rotation(size=100), "gzip") as file:
        file.begin()
        file.write(LINE)
        (first,) = tmp_path.glob("out_*")
        planted(first.with_name(first.name + ".gz.tmp"))
        file.write(LINE)
        wait_until(lambda: f"{first}: File exists: it stays as it is" in capfd.readouterr().err)
    assert first.read_bytes() == LINE


@pytest.mark.parametrize("force", [False, True])
def test_saved_packets(planted, tmp_path, force):
    path = tmp_path / "saved.pcapng"
    told = planted(path)
    if told == "is a pipe" and force:
        pytest.skip("is named as such")
    if not force and told == "has another name too":
        told = "exists; give --force"
    with pytest.raises(CaptureError, match=told):
        SaveFiles(SaveOptions(str(path), force=force), b"", 0)


@pytest.mark.parametrize(
    "where", one_in(3, ["tables", "tables/exchanges", "tables/exchanges/date=2026-11-21"])
)
def test_tables(tmp_path, where):
    taken = tmp_path / "taken"
    taken.mkdir()
    planted = tmp_path / where
    planted.parent.mkdir(parents=True, exist_ok=True)
    planted.symlink_to(taken)
    done = run("read", CAPTURE, "--format", "parquet", "--force", "-o", tmp_path / "tables")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"-o: {tmp_path}/tables: " in done.stderr
    assert planted.is_symlink()
    assert not [*taken.iterdir()]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_the_lock_of_tables(tmp_path, plant):
    taken, lock = tmp_path / "taken", tmp_path / "tables/_staging/_LOCK"
    taken.write_bytes(TAKEN)
    lock.parent.mkdir(parents=True)
    plant(lock, taken)
    done = run("read", CAPTURE, "--format", "parquet", "-o", tmp_path / "tables")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"Error: {lock}: cannot be locked ({PLANTED[plant]}" in done.stderr
    assert "): delete it, or choose another folder\n" in done.stderr
    assert taken.read_bytes() == TAKEN


def test_tables_where_a_link_comes_later(tmp_path):
    from kinspect.tables.openfolder import TableFolder

    taken, out = tmp_path / "taken", tmp_path / "tables"
    taken.mkdir()
    folder = TableFolder(str(out), replace=False)
    (own,) = (path for path in (out / "_staging").iterdir() if path.is_dir())
    (own / "exchanges/date=2026-11-21").mkdir(parents=True)
    (own / "exchanges/date=2026-11-21/part.parquet").write_bytes(b"x")
    (out / "exchanges").symlink_to(taken)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        folder.put()
    assert not [*taken.iterdir()]


def test_what_another_user_owns(tmp_path, monkeypatch):
    path = tmp_path / "out"
    path.write_bytes(TAKEN)
    monkeypatch.setattr(ownfile.os, "geteuid", lambda: os.getuid() + 1)
    for how in ({"force": True}, {"goes_on": True}):
        with pytest.raises(PermissionError, match="belongs to another user"):
            open_target(str(path), **how)
    with pytest.raises(PermissionError, match="belongs to another user"):
        remake(str(path))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PermissionError, match="belongs to another user"):
        open_target(str(tmp_path / "pipe"), force=True)
    assert path.read_bytes() == TAKEN


def test_what_was_put_there_since_it_was_looked_at(tmp_path, monkeypatch):
    """A pipe without a reader holds nobody up, and nothing is written into a file that was swapped."""
    path, real = tmp_path / "out", os.open
    path.write_bytes(TAKEN)

    def swapped(plant):
        def opened(name, flags, *more, **named):
            if not flags & os.O_CREAT:
                path.unlink()
                plant()
            return real(name, flags, *more, **named)

        monkeypatch.setattr(ownfile.os, "open", opened)

    swapped(lambda: os.mkfifo(path))
    with pytest.raises(OSError, match="is a pipe"):
        open_target(str(path), force=True)
    monkeypatch.undo()
    path.unlink()
    path.write_bytes(TAKEN)
    swapped(lambda: path.symlink_to(CAPTURE))
    with pytest.raises(OSError, match="symbolic links"):
        open_target(str(path), force=True)


def test_who_has_the_old_file_open_reads_nothing_of_the_new_one(tmp_path):
    for name, command in {
        "lines": lambda path: run("read", CAPTURE, "-o", path, "--force"),
        "packets": lambda path: SaveFiles(SaveOptions(str(path), force=True), section(), 0).close([]),
    }.items():
        path = tmp_path / name
        path.write_bytes(TAKEN)
        path.chmod(0o666)
        with path.open("rb") as spy:
            command(path)
            assert spy.read() == TAKEN
        assert path.stat().st_size > len(TAKEN)
        assert stat.S_IMODE(path.stat().st_mode) == PRIVATE


@pytest.mark.parametrize("umask", [0, 0o077, 0o777])
def test_files_are_private_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        os.close(make(str(tmp_path / "out")))
        os.close(make(str(tmp_path / "group"), 0o640))
    finally:
        os.umask(before)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("out", "group")]
    assert modes == [0o600, 0o640]


def test_a_pipe_that_is_named_as_such_waits_for_its_reader(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    opened = []
    waiting = threading.Thread(target=lambda: opened.append(open_target(str(path), force=True)))
    waiting.start()
    with path.open("rb") as reader:
        waiting.join()
        (target,) = opened
        assert not target.own
        os.write(target.descriptor, LINE)
        os.close(target.descriptor)
        assert reader.read() == LINE


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_stream_that_is_named_is_written_to_as_it_is(tmp_path, name):
    path = tmp_path / "out"
    path.write_bytes(TAKEN)
    with path.open("ab") as out:
        command = [sys.executable, "-m", "kinspect", "read", str(CAPTURE), "-q", "-o", name]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    first, *lines = path.read_bytes().splitlines(keepends=True)
    assert first == TAKEN
    assert len(lines) == 4
    assert run("read", CAPTURE, "-q", "-o", name).stdout.encode() == b"".join(lines)


@pytest.mark.parametrize("number", [999, 2**31, 10**20])
def test_a_stream_that_is_not_there_is_one_line(number):
    done = run("read", CAPTURE, "-q", "-o", f"/dev/fd/{number}")
    assert done.returncode == 2
    assert done.stderr.endswith(f"\nError: -o: /dev/fd/{number}: Bad file descriptor\n")


def test_a_lock_that_another_user_left_is_one_line(monkeypatch, tmp_path):
    path = tmp_path / "_LOCK"
    FileLock(path, "held").release()
    FileLock(path, "held").release()
    monkeypatch.setattr(ownfile.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(KinspectError, match=r"_LOCK: cannot be locked \(belongs to another user\)"):
        FileLock(path, "held")


def test_a_lock_in_what_is_no_folder_is_one_line(tmp_path):
    path = tmp_path / "_staging"
    path.write_bytes(TAKEN)
    with pytest.raises(KinspectError, match="cannot be locked"):
        FileLock(path / "_LOCK", "held")


def test_devices_are_named_as_such_and_only_where_they_are(tmp_path):
    assert not open_target("/dev/null").own
    for name in ("/dev", str(tmp_path)):
        with pytest.raises(OSError, match="is a folder"):
            open_target(name, force=True)
