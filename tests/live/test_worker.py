"""The capturing process at work, in this one: rings that are made up, a real pipe, real files."""

import errno
import os
import shutil
import threading
import time

import pytest

from kinspect.capture import captureworker, open_timeline
from kinspect.capture.captureworker import CaptureLimits, CaptureWorker
from kinspect.capture.handover import Inbox, Outbox
from kinspect.capture.save import Rotation, SaveFiles, SaveOptions
from kinspect.capture.writer import interface_block, section

from .ringblocks import SECOND, packet, ring_block

PRELUDE = section() + interface_block(1, "x") + interface_block(1, "y")


class Ring:
    """Stands in for the kernel's: hands out what it is given; a function is called instead."""

    link_type = 1

    def __init__(self, *blocks, interface="x"):
        self.interface = interface
        self.blocks = list(blocks)
        self.dropped = 3
        # Always readable, so that nothing waits for longer than it has to.
        self._descriptor, write = os.pipe()
        os.write(write, b"x")
        os.close(write)

    def fileno(self):
        return self._descriptor

    def take(self):
        block = self.blocks.pop(0) if self.blocks else None
        return block() if callable(block) else block

    def drops(self):
        return self.dropped

    def reopen(self):
        return False


NO_LIMITS = CaptureLimits()


class Captured:
    """Messages of a worker that ran to its end."""

    def __init__(self, rings, plan=NO_LIMITS, files=None, queue_bytes=1 << 20, stopped=False, slow=False):
        told, tell = os.pipe()
        control, stop = os.pipe()
        self.worker = CaptureWorker(rings, Outbox(tell, queue_bytes), control, plan, PRELUDE, files)
        for ring in rings:
            ring.worker = self.worker
        if stopped:
            os.write(stop, b"x")
        reading = threading.Thread(target=self._read, args=(inbox := Inbox(told),))
        started = time.monotonic()
        if slow:
            # What is sent is taken only when everything was captured.
            self.worker._finish = lambda finish=self.worker._finish: (reading.start(), finish())
        else:
            reading.start()
        self.worker.run()
        self.took = time.monotonic() - started
        os.close(tell)
        reading.join()
        *_, self.end = self.messages
        for descriptor in (control, stop, *(ring.fileno() for ring in rings)):
            os.close(descriptor)
        inbox.close()

    def _read(self, inbox):
        self.messages = []
        while (message := inbox.message()) is not None:
            self.messages.append(message)

    @property
    def sections(self):
        return [(message.first, message.section) for message in self.messages if message.section]

    def packets(self, tmp_path):
        """Frame and nanoseconds of each packet."""
        found = []
        for first, content in self.sections:
            path = tmp_path / "section.pcapng"
            path.write_bytes(content)
            times = [at % 10**9 for block in open_timeline([path]) for at in block.times]
            found += enumerate(times, first)
        return found


def some(*times):
    return ring_block([packet(ns) for ns in times])


def numbered(times):
    return list(enumerate(times, 1))


@pytest.mark.parametrize(("count", "expected"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])])
def test_count(tmp_path, count, expected):
    captured = Captured([Ring(some(1, 2), some(3, 4))], CaptureLimits(packets=count))
    assert captured.packets(tmp_path) == numbered(expected)
    assert captured.end.counters[:4] == (count, 60 * count, 3, 0)


def test_duration(tmp_path):
    captured = Captured([Ring(some(1))], CaptureLimits(duration_ns=200_000_000))
    assert captured.packets(tmp_path) == [(1, 1)]
    assert captured.took > 0.2


def test_who_stops_gets_what_came_before(tmp_path):
    ring = Ring(some(1), some(2, 3), some(4))
    assert Captured([ring], stopped=True).packets(tmp_path) == numbered([1, 2, 3, 4])


def test_what_comes_after_the_end_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(captureworker.time, "time_ns", lambda: SECOND * 10**9 + 20)

    def stop():
        ring.worker.stop()
        ring.dropped = 99
        return some(10, 20, 21, 22)

    ring = Ring(some(1), stop, some(23))
    captured = Captured([ring])
    assert captured.packets(tmp_path) == numbered([1, 10, 20])
    assert captured.end.counters.kernel_drops == 3


def test_a_clock_set_back_does_not_keep_it_from_ending(tmp_path, monkeypatch):
    """All packets are older than the moment of the end, and there are always more."""
    monkeypatch.setattr(captureworker, "LONGEST_END_NS", 50_000_000)
    ring = Ring(*([some(1)] * 200_000))
    captured = Captured([ring], stopped=True)
    assert captured.end.end == {"errors": []}
    assert len(captured.packets(tmp_path)) < 200_000


def test_packets_of_several_interfaces_come_in_the_order_of_time(tmp_path):
    rings = [Ring(some(1, 4), some(7)), Ring(some(2, 3, 9), None, None, some(12), interface="y")]
    captured = Captured(rings, stopped=True)
    assert captured.packets(tmp_path) == numbered([1, 2, 3, 4, 7, 9, 12])
    assert captured.end.counters.kernel_drops == 6
    assert captured.end.counters.interfaces == ((3, 180, 3, 0, 0, 1), (4, 240, 3, 0, 0, 1))


def test_each_interface_has_its_share_of_what_was_dropped():
    # More than a pipe takes, and then, once it was handed on, what has no room.
    large = [ring_block([packet(1, bytes(60_000))] * 4)] * 6
    rings = [
        Ring(*large, None, lambda: time.sleep(0.1), some(2, 2)),
        Ring(None, None, some(3), interface="y"),
    ]
    counters = Captured(rings, CaptureLimits(packets=27), queue_bytes=1, slow=True).end.counters
    assert counters.queue_drops == 3
    assert [(row.packets, row.queue_drops) for row in counters.interfaces] == [(26, 2), (1, 1)]
    for name in ("packets", "bytes", "kernel_drops", "queue_drops"):
        assert sum(getattr(row, name) for row in counters.interfaces) == getattr(counters, name)


def test_an_interface_that_goes_down_is_told_and_the_others_go_on(tmp_path):
    def down():
        raise OSError(errno.ENETDOWN, "Network is down")

    rings = [Ring(some(1), down, interface="eth7"), Ring(some(2), None, None, None, some(3), interface="y")]
    captured = Captured(rings, CaptureLimits(packets=3))
    assert captured.packets(tmp_path) == numbered([1, 2, 3])
    assert captured.end.end == {"errors": ["eth7: the interface is down"]}


def test_an_interface_that_is_there_again_is_captured_from_again(tmp_path, monkeypatch):
    monkeypatch.setattr(captureworker, "REOPEN_NS", 0)
    monkeypatch.setattr(captureworker, "BEAT_NS", 0)

    def down():
        raise OSError(errno.ENODEV, "No such device")

    flapping = Ring(some(1), down, some(3), down, some(4))
    tries = []

    def reopen():
        tries.append(1)
        return len(tries) > 2

    flapping.reopen = reopen
    captured = Captured([flapping, Ring(some(2), interface="y")], CaptureLimits(packets=4))
    assert captured.packets(tmp_path) == numbered([1, 2, 3, 4])
    assert captured.end.end == {"errors": []}
    assert [(row.losses, row.up) for row in captured.end.counters.interfaces] == [(2, 1), (0, 1)]
    assert 0 in {message.counters.interfaces[0].up for message in captured.messages}


def test_the_last_interface_that_goes_down_ends_it(tmp_path):
    def down():
        raise OSError(errno.ENODEV, "No such device")

    captured = Captured([Ring(some(1), down)])
    assert captured.packets(tmp_path) == [(1, 1)]
    assert captured.end.end == {"errors": ["x: the interface is gone"]}


def test_a_full_queue_drops_what_comes_and_counts_it_but_the_file_has_it(tmp_path):
    path = tmp_path / "all.pcapng"
    # Before the pipe takes anything, the queue is over its limit with the first block.
    rings = [Ring(*(ring_block([packet(ns, bytes(60_000))] * 4) for ns in range(100)))]
    captured = Captured(
        rings, stopped=True, slow=True, queue_bytes=1, files=SaveFiles(SaveOptions(str(path)), PRELUDE, 0)
    )
    decoded = captured.packets(tmp_path)
    drops = captured.end.counters.queue_drops
    assert len(decoded) + drops == 400
    assert 0 < drops < 400
    frames = [frame for frame, _ in decoded]
    assert frames == sorted(frames)
    timeline = open_timeline([path])
    saved = numbered([at % 10**9 for block in timeline for at in block.times])
    assert len(saved) == 400
    assert set(decoded) <= set(saved)
    assert timeline.status.kernel_drops == 3


def test_an_error_of_its_own_is_told(tmp_path):
    def broken():
        raise RuntimeError("broken")

    captured = Captured([Ring(some(1), broken)])
    assert captured.packets(tmp_path) == [(1, 1)]
    assert captured.end.end["errors"] == ["internal error: RuntimeError('broken'); the capture ends"]


def test_a_file_that_cannot_be_written_ends_it_with_what_was_captured(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    files = SaveFiles(SaveOptions(str(folder / "x.pcapng"), Rotation(packets=2)), PRELUDE, 0)

    def gone():
        shutil.rmtree(folder)
        return some(3, 4)

    captured = Captured([Ring(some(1, 2), gone, some(5))], files=files)
    (error,) = captured.end.end["errors"]
    assert error.endswith(": No such file or directory: the capture ends")
    assert captured.packets(tmp_path)[:4] == numbered([1, 2, 3, 4])
    counters = captured.end.counters
    assert counters.packets == len(captured.packets(tmp_path))
    assert counters.saved == 2


def test_secrets_stand_before_the_packets_they_may_be_for(tmp_path):
    path = tmp_path / "x.pcapng"
    lines = [b"CLIENT_RANDOM 0a 0b\nno secret\n", b"", b"CLIENT_RANDOM 0c 0d\n"]
    plan = CaptureLimits(packets=1, secrets=lambda: lines.pop(0) if lines else b"")
    Captured([Ring(some(1))], plan, files=SaveFiles(SaveOptions(str(path)), PRELUDE, 0))
    timeline = open_timeline([path])
    assert sum(map(len, timeline)) == 1
    assert timeline.secrets == [b"CLIENT_RANDOM 0a 0b\n"]
    data = path.read_bytes()
    assert data.index(b"CLIENT_RANDOM") < data.index(bytes(60))


def test_nothing_waits_for_one_who_has_gone():
    told, tell = os.pipe()
    os.close(told)
    outbox = Outbox(tell, 1 << 20)
    control, stop = os.pipe()
    os.close(stop)
    CaptureWorker([Ring(some(1))], outbox, control, CaptureLimits(), PRELUDE, None).run()
    assert not outbox.waiting
