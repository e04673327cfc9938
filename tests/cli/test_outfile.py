"""The file that lines are written to."""

import os
import resource
import stat
import threading
import time

import pytest
from support.waiting import wait_until

from kinspect.cli import outfile
from kinspect.cli.outfile import Descriptor, NamedFile, OpenMode, Output
from kinspect.errors import KinspectError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def opened(path, *open_mode, **more):
    file = NamedFile(str(path), OpenMode(*open_mode, **more))
    file.begin()
    return file


def test_every_write_goes_behind_what_is_there(tmp_path):
    path = tmp_path / "out"
    with opened(path) as file:
        file.write(b"one\n")
        # As `copytruncate` does.
        os.truncate(path, 0)
        file.write(b"two\n")
    assert path.read_bytes() == b"two\n"


def test_a_pipe_takes_all_however_small_it_is():
    read, write = os.pipe()
    os.set_blocking(write, False)
    data = os.urandom(1 << 20)
    taken = []

    def take():
        wait_until(lambda: output.blocked_ns)
        time.sleep(0.2)
        while piece := os.read(read, 65536):
            taken.append(piece)

    thread = threading.Thread(target=take)
    with Descriptor(write) as output:
        thread.start()
        assert output.write(data) == len(data)
        assert output.blocked_ns > 150_000_000
    thread.join()
    os.close(read)
    assert b"".join(taken) == data


def test_a_write_that_waits_for_a_reader_tells_so_now_and_then():
    read, write = os.pipe()
    data, told, taken = os.urandom(1 << 20), [], []

    def tell():
        told.append(time.monotonic())

    def take():
        wait_until(lambda: told and told[-1] - told[0] > 0.3)
        while piece := os.read(read, 65536):
            taken.append(piece)

    thread = threading.Thread(target=take)
    thread.start()
    with Descriptor(write) as output:
        output.tell_waiting(20_000_000, tell)
        assert output.write(data) == len(data)
    thread.join()
    os.close(read)
    assert b"".join(taken) == data
    assert len(told) > 10


def test_a_write_to_nobody_is_told_as_such_though_it_may_wait():
    read, write = os.pipe()
    with Descriptor(write) as output:
        output.tell_waiting(20_000_000, lambda: None)
        output.write(b"one\n")
        os.close(read)
        with pytest.raises(BrokenPipeError):
            output.write(b"two\n")


def test_a_write_into_a_file_tells_of_no_wait_and_is_one(tmp_path, monkeypatch):
    """Nobody knows why a disk takes no bytes. Lines go there whole."""
    told, written, real = [], [], os.write

    def write(descriptor, data):
        written.append(len(data))
        return real(descriptor, data)

    with opened(tmp_path / "out") as output:
        output.tell_waiting(1, lambda: told.append(1))
        monkeypatch.setattr(outfile.os, "write", write)
        output.write(bytes(100_000))
    assert (told, written) == ([], [100_000])


def test_the_time_in_writes_never_falls(monkeypatch):
    """Another thread asks just when a write ends: what it is told is not more than it is told afterwards."""
    told, tell = os.pipe()
    file = Descriptor(tell)
    writing = threading.Thread(target=file.write, args=(bytes(1_000_000),))
    writing.start()
    wait_until(lambda: file.blocked_ns)
    clock = time.monotonic_ns

    def ends_the_write():
        monkeypatch.setattr(outfile.time, "monotonic_ns", clock)
        left = 1_000_000
        while left:
            left -= len(os.read(told, left))
        writing.join()
        time.sleep(0.02)
        return clock()

    monkeypatch.setattr(outfile.time, "monotonic_ns", ends_the_write)
    meanwhile = file.blocked_ns
    assert not writing.is_alive()
    assert 0 < meanwhile <= file.blocked_ns
    file.close()
    os.close(told)


def test_a_slow_reader_is_timed_while_the_write_waits_and_after():
    told, tell = os.pipe()
    output = Output(Descriptor(tell))
    assert output.file.blocked_ns == 0

    def write():
        output.write("x" * 1_000_000)
        output.flush()

    writing = threading.Thread(target=write)
    writing.start()
    wait_until(lambda: output.file.blocked_ns)
    time.sleep(0.1)
    meanwhile = output.file.blocked_ns
    assert meanwhile > 50_000_000
    left = 1_000_000
    while left:
        left -= len(os.read(told, left))
    writing.join()
    after = output.file.blocked_ns
    assert after >= meanwhile
    time.sleep(0.01)
    assert output.file.blocked_ns == after
    output.close()
    os.close(told)


def test_a_file_is_closed_with_its_stream_and_standard_output_is_not(tmp_path):
    for closes in (True, False):
        descriptor = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
        with Output(Descriptor(descriptor, closes)) as output:
            output.write("é\n")
        try:
            os.fstat(descriptor)
            is_open = True
        except OSError:
            is_open = False
        assert is_open is not closes
        if is_open:
            os.close(descriptor)
    assert (tmp_path / "out").read_bytes() == "é\n".encode()


@pytest.fixture
def limited():
    """Limits the size of files, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("room", "left"),
    [(100, b"first\n"), (6, b"first\n"), (8, b"first\n"), (13, b"first\nsecond\n"), (15, b"first\nsecond\n")],
)
def test_a_full_disk_holds_whole_lines(tmp_path, limited, room, left):
    path = tmp_path / "out"
    with opened(path) as file:
        file.write(b"first\n")
        limited(room)
        with pytest.raises(OSError, match="File too large"):
            file.write((b"second\n" if room < 100 else b"") + bytes(1000) + b"\n")
    assert path.read_bytes() == left


def test_a_file_is_private_or_as_asked(tmp_path):
    for number, (asked, expected) in enumerate([(None, 0o600), (0o640, 0o640), (0o666, 0o666)]):
        path = tmp_path / str(number)
        opened(path, mode=asked).close()
        assert mode(path) == expected


def test_what_is_gone_on_with_keeps_its_mode_unless_asked(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"old\n")
    path.chmod(0o644)
    with opened(path, append=True) as file:
        file.write(b"new\n")
    assert (path.read_bytes(), mode(path)) == (b"old\nnew\n", 0o644)
    opened(path, append=True, mode=0o640).close()
    assert mode(path) == 0o640


def test_a_cut_line_is_ended_before_it_is_gone_on(tmp_path, capsys):
    path = tmp_path / "out"
    path.write_bytes(b'{"a":1}\n{"a":')
    with opened(path, append=True) as file:
        file.write(b"{}\n")
    assert path.read_bytes() == b'{"a":1}\n{"a":\n{}\n'
    assert "its last line has no end" in capsys.readouterr().err


def test_a_file_that_was_renamed_is_made_anew(tmp_path):
    path, old = tmp_path / "out", tmp_path / "out.1"
    with opened(path, mode=0o640) as file:
        number = file.fileno()
        file.write(b"one\n")
        path.rename(old)
        file.anew()
        file.write(b"two\n")
        assert file.fileno() == number
        assert not os.get_inheritable(number)
    assert (old.read_bytes(), path.read_bytes(), mode(path)) == (b"one\n", b"two\n", 0o640)


def test_a_file_made_for_the_next_lines_is_taken_as_it_is(tmp_path):
    path = tmp_path / "out"
    with opened(path) as file:
        path.rename(tmp_path / "out.1")
        path.write_bytes(b"made for you\n")
        path.chmod(0o644)
        file.anew()
        file.write(b"two\n")
    assert (path.read_bytes(), mode(path)) == (b"made for you\ntwo\n", 0o644)


def test_each_file_begins_with_the_header(tmp_path):
    path, old = tmp_path / "out", tmp_path / "out.1"
    for _ in range(2):
        with NamedFile(str(path), OpenMode(append=True)) as file:
            file.put_header(b"h\n")
            file.begin()
            file.write(b"a\n")
            path.rename(old)
            file.anew()
            old.replace(path)
    assert path.read_bytes() == b"h\na\na\n"
    with (
        NamedFile(str(path), OpenMode(append=True)) as file,
        pytest.raises(KinspectError, match="it has others"),
    ):
        file.put_header(b"k\n")


def test_a_stream_begins_with_the_header_whatever_it_is():
    read, write = os.pipe()
    for each in (Descriptor(write, closes=False), NamedFile(f"/dev/fd/{write}", OpenMode())):
        each.put_header(b"h\n")
        each.begin()
        each.close()
    assert os.read(read, 100) == b"h\nh\n"
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("stands_there", ["a folder", "a pipe that nobody reads", "a link to nothing"])
def test_what_cannot_be_opened_leaves_the_old_file_open(tmp_path, stands_there):
    path, old = tmp_path / "out", tmp_path / "out.1"
    with opened(path) as file:
        path.rename(old)
        if stands_there == "a folder":
            path.mkdir()
        elif stands_there == "a link to nothing":
            path.symlink_to(tmp_path / "no" / "where")
        else:
            os.mkfifo(path)
        with pytest.raises(OSError):  # noqa: PT011  # which one depends on what stands there
            file.anew()
        file.write(b"two\n")
    assert old.read_bytes() == b"two\n"
