"""Captures that are saved over several files, each complete in itself."""

import errno
import os
import time
from contextlib import suppress
from io import FileIO

import pytest

from kinspect.capture import open_timeline, save
from kinspect.capture.save import Rotation, SaveFiles, SaveOptions
from kinspect.capture.writer import interface_block, packet_block, section
from kinspect.errors import CaptureError

PRELUDE = section() + interface_block(1, "x")
BLOCKS = [packet_block(0, number, bytes(100), 100) for number in range(10)]
SIZE = len(BLOCKS[0])
SECRETS = b"CLIENT_RANDOM 0a 0b\n"


def saving(tmp_path, **rotation):
    return SaveFiles(SaveOptions(str(tmp_path / "x.pcapng"), Rotation(**rotation)), PRELUDE, 0)


def times(path):
    timeline = open_timeline([path])
    found = [at for block in timeline for at in block.times]
    assert timeline.errors == []
    return found


def saved(tmp_path):
    """The times in each file, in the order of names."""
    return [times(path) for path in sorted(tmp_path.iterdir())]


@pytest.mark.parametrize(
    ("rotation", "expected"),
    [
        ({}, [10]),
        ({"packets": 4}, [4, 4, 2]),
        ({"packets": 5}, [5, 5]),
        ({"size": len(PRELUDE) + 3 * SIZE}, [3, 3, 3, 1]),
        ({"size": len(PRELUDE) + 4 * SIZE - 1}, [3, 3, 3, 1]),
        ({"size": 1}, [1] * 10),
        ({"size": len(PRELUDE) + 3 * SIZE, "packets": 2}, [2] * 5),
        ({"packets": 4, "keep": 2}, [4, 2]),
        ({"packets": 1, "keep": 1}, [1]),
    ],
)
@pytest.mark.parametrize("at_once", [1, 3, 10])
def test_rotation(tmp_path, rotation, expected, at_once):
    files = saving(tmp_path, **rotation)
    for start in range(0, 10, at_once):
        files.packets(BLOCKS[start : start + at_once], [0])
    files.close([0])
    found = saved(tmp_path)
    assert [len(one) for one in found] == expected
    assert [at for one in found for at in one] == list(range(10))[-sum(expected) :]


def test_files_that_begin_with_much_have_as_much_of_packets(tmp_path):
    begin = section((1, bytes(10 * SIZE))) + interface_block(1)
    files = SaveFiles(SaveOptions(str(tmp_path / "x.pcapng"), Rotation(SIZE)), begin, 0)
    files.packets(BLOCKS * 3, [])
    files.close([])
    assert [len(one) for one in saved(tmp_path)] == [10, 10, 10]


def test_rotation_by_time_begins_no_file_for_nothing(tmp_path, monkeypatch):
    now = time.monotonic_ns()
    monkeypatch.setattr(save.time, "monotonic_ns", lambda: now)
    files = saving(tmp_path, time_ns=1000)
    for step, count in [(999, 1), (1, 2), (1, 0), (5000, 3), (5000, 0), (5000, 0)]:
        now += step
        files.tick([0])
        if count:
            files.packets(BLOCKS[:count], [0])
    files.close([0])
    assert [len(one) for one in saved(tmp_path)] == [1, 2, 3, 0]


def test_each_file_begins_with_the_secrets_and_ends_with_the_drops(tmp_path):
    files = saving(tmp_path, packets=1)
    for number, block in enumerate(BLOCKS[:3]):
        if number == 1:
            files.secrets(SECRETS)
        files.packets([block], [number])
    files.close([7])
    found = [open_timeline([path]) for path in sorted(tmp_path.iterdir())]
    for timeline in found:
        assert sum(map(len, timeline)) == 1
    assert [timeline.status.kernel_drops for timeline in found] == [1, 2, 7]
    assert [timeline.secrets for timeline in found] == [[SECRETS], [SECRETS], [SECRETS]]
    together = open_timeline(sorted(tmp_path.iterdir()))
    assert sum(map(len, together)) == 3
    assert together.status.kernel_drops == 7


def test_only_so_many_secrets_are_repeated(tmp_path, monkeypatch):
    monkeypatch.setattr(save, "SECRETS_KEPT", 2 * len(SECRETS))
    files = saving(tmp_path, packets=1)
    lines = [SECRETS.replace(b"0a", b"%02x" % number) for number in range(4)]
    for line in lines:
        files.secrets(line)
    files.packets(BLOCKS[:2], [0])
    files.close([0])
    first, second = (open_timeline([path]) for path in sorted(tmp_path.iterdir()))
    assert sum(map(len, first)) == sum(map(len, second)) == 1
    assert first.secrets == lines
    assert second.secrets == lines[2:]


def test_files_are_private_and_do_not_overwrite(tmp_path):
    saving(tmp_path).close([0])
    path = tmp_path / "x.pcapng"
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    with pytest.raises(CaptureError, match="exists; give --force"):
        saving(tmp_path)
    assert path.read_bytes() == before
    path.chmod(0o644)
    SaveFiles(SaveOptions(str(path), force=True), PRELUDE, 0).packets(BLOCKS[:1], [0])
    assert path.stat().st_mode & 0o777 == 0o600
    assert times(path) == [0]


def test_a_device_keeps_its_mode(tmp_path):
    with pytest.raises(CaptureError, match="No space left"):
        SaveFiles(SaveOptions("/dev/full"), PRELUDE, 0)


@pytest.mark.parametrize("end", [lambda files: files.close([0]), SaveFiles.leave])
def test_what_the_system_says_at_the_end_is_an_error_of_the_file(tmp_path, end):
    class Refusing:
        closed = False

        def write(self, data):
            return len(data)

        def close(self):
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    files = saving(tmp_path)
    files._file.close()
    files._file = Refusing()
    with pytest.raises(CaptureError, match=r"x.pcapng: Disk quota exceeded"):
        end(files)


class Disk:
    """A file on a disk with room for so many bytes."""

    closed = False

    def __init__(self, file, room):
        self.file = file
        self.room = room

    def write(self, data):
        taken = self.file.write(data[: self.room])
        self.room -= taken
        if not taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return taken

    def truncate(self, size):
        self.room += self.file.tell() - size
        self.file.truncate(size)

    def seek(self, at):
        self.file.seek(at)

    def close(self):
        self.closed = True
        self.file.close()


@pytest.mark.parametrize(("room", "whole"), [(0, 0), (1, 0), (SIZE - 1, 0), (SIZE, 1), (4 * SIZE + 60, 4)])
def test_a_full_disk_holds_whole_packets_and_their_number_is_known(tmp_path, room, whole):
    files = saving(tmp_path)
    files._file = Disk(files._file, room)
    with pytest.raises(CaptureError, match=r"x\.pcapng: No space left on device"):
        files.packets(BLOCKS, [0])
    assert files.saved == whole
    with suppress(CaptureError):
        files.close([5])
    files.close([5])
    assert times(tmp_path / "x.pcapng") == list(range(whole))


def test_a_file_without_room_for_its_beginning_is_not_left(tmp_path, monkeypatch):
    files = saving(tmp_path, packets=1)
    monkeypatch.setattr(save, "FileIO", lambda *given: Disk(FileIO(*given), len(PRELUDE) - 1))
    with pytest.raises(CaptureError, match="No space left on device"):
        files.packets(BLOCKS[:2], [0])
    assert files.saved == 1
    assert saved(tmp_path) == [[0]]
