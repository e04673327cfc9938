"""The process that reads: what it sends is what reading in this process gives, and it ends when nobody listens."""

import os
import signal
import time

import pytest
from support.shares import one_in
from support.trickle import APART, LONGEST, Trickle
from support.tui import CAPTURES, ERRORS, indexed

import kinspect.run
from kinspect.capture import open_timeline
from kinspect.capture.timeline import SourceStatus
from kinspect.errors import CaptureError
from kinspect.kafka.wire.pair import ANSWERED
from kinspect.model import Block
from kinspect.run import Run
from kinspect.tui.index import indexer, indexprocess
from kinspect.tui.index.indexer import Indexer, Inputs, RowBatch
from kinspect.tui.index.indexprocess import IndexProcess
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store

GROUPS = CAPTURES / "4.4.0" / "groups_classic.pcap.gz"


def started(*paths):
    inputs = Inputs([str(path) for path in paths])
    store = Store(inputs, Spool())
    return store, IndexProcess(inputs, store.spool)


@pytest.mark.parametrize(
    "name", ["4.4.0/errors_java.pcap.gz", "variants/ng.pcapng.gz", "4.4.0/kip848.pcap.gz"]
)
def test_it_sends_what_reading_here_gives(name, plain):
    for path in (CAPTURES / name, plain(CAPTURES / name)):
        store, rows = started(path)
        while isinstance(batch := rows.receive(), RowBatch):
            store.add(batch)
        assert batch is None
        rows.end()
        here = indexed(path)
        assert (store.rows, store.seen, store.summary, store.errors) == (
            here.rows,
            here.seen,
            here.summary,
            here.errors,
        )
        for number in range(0, here.count, 7):
            assert store.line(number) == here.line(number)
            assert store.exchange(number).to_dict() == here.exchange(number).to_dict()


def test_what_goes_wrong_is_told(monkeypatch):
    def broken(*_):
        raise RuntimeError("of all things")

    monkeypatch.setattr(indexprocess, "index", broken)
    _, rows = started(ERRORS)
    assert rows.receive() == "internal error: RuntimeError('of all things'); what is listed is not all"
    assert rows.receive() is None
    rows.end()


def test_a_process_that_is_killed_is_told(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    _, rows = started(pipe)
    os.kill(rows.child.pid, signal.SIGKILL)
    how = "was ended by SIGKILL, as when memory runs out"
    assert rows.receive() == f"the process that reads {how}; what is listed is not all"
    assert rows.receive() is None
    rows.end()


def test_it_is_gone_after_stop_and_leaves_no_zombie(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    _, rows = started(pipe)
    number = rows.child.pid
    rows.end()
    rows.end()
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
    assert rows.receive() is None


def test_it_ends_when_nobody_listens(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    capture = (CAPTURES / "4.4.0" / "nano.pcap").read_bytes()
    # Before the process, so that it has none of its pipes open.
    writer = os.fork()
    if not writer:
        try:
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            with pipe.open("wb") as file:
                file.write(capture)
                while True:
                    file.write(capture[24:])
                    time.sleep(0.01)
        finally:
            os._exit(0)
    _, rows = started(pipe)
    number = rows.child.pid
    rows.receive()
    rows.child.channel.close()
    os.waitpid(number, 0)
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)


class Packets:
    """A capture in place of an interface's: the packets of a file, four at a time."""

    files = ("lo",)

    def __init__(self, path, refused=None):
        self._timeline = open_timeline([str(path)])
        self._refused = refused
        self._ended = False
        self.secrets = []
        self.status = SourceStatus([], kernel_drops=3, queue_drops=4, captured_packets=0)

    def start(self):
        if self._refused is not None:
            raise CaptureError(self._refused)

    def stop(self):
        self._ended = True

    def close(self):
        self._timeline.close()

    def __iter__(self):
        for block in self._timeline:
            for at in range(0, len(block), 4):
                some = slice(at, at + 4)
                lists = (block.times, block.starts, block.ends, block.wire_lengths, block.link_types)
                if not self._ended:
                    yield Block(block.data, block.first_frame + at, *(entries[some] for entries in lists))


def live(packets):
    inputs = Inputs(["-"], interface="lo")
    store = Store(inputs, Spool())
    rows = IndexProcess(inputs, store.spool, packets)
    while isinstance(batch := rows.receive(), RowBatch):
        store.add(batch)
    rows.end()
    return store, batch


def test_packets_of_an_interface(monkeypatch):
    # All come at once: none is listed before others that belong before it.
    monkeypatch.setattr(indexer, "BATCH_SECONDS", 3600)
    store, told = live(Packets(ERRORS))
    here = indexed(ERRORS)
    assert (told, store.done, store.errors, store.count) == (None, True, [], here.count)
    assert (store.summary["kernel_drops"], store.summary["queue_drops"]) == (3, 4)
    assert store.summary["exchanges"] == here.summary["exchanges"]
    for number in range(0, here.count, 7):
        exchange = store.exchange(number).to_dict()
        assert exchange["request"]["frames"]["file"] == "lo"
        for key in ("api", "correlation_id", "latency_ms", "topics", "error_names"):
            assert exchange[key] == here.exchange(number).to_dict()[key]
        assert exchange["request"]["body"] == here.exchange(number).to_dict()["request"]["body"]


def test_a_capture_that_cannot_be_saved_is_told():
    store, told = live(Packets(ERRORS, "saved.pcapng: no room"))
    assert (told, store.count) == ("saved.pcapng: no room", 0)


def test_a_capture_ends_with_as_many_exchanges_as_are_kept(monkeypatch):
    monkeypatch.setattr(indexer, "LIVE_EXCHANGES", 20)
    monkeypatch.setattr(indexer, "BATCH_SECONDS", 0)
    store, _ = live(Packets(ERRORS))
    assert 20 <= store.count < 40
    told = f"the capture has ended: {store.count:,} exchanges are as many as are kept"
    assert tuple(store.errors[-1]) == (0, told)


@pytest.mark.parametrize("apart", one_in(5, APART))
def test_an_exchange_of_an_interface_is_sent_within_200_ms(apart, monkeypatch):
    packets = Trickle(str(GROUPS), apart)
    for module in (indexer, kinspect.run):
        monkeypatch.setattr(module, "time", packets)
    inputs = Inputs(["-"], interface="lo")
    store = Store(inputs, Spool())
    times = []

    def send(batch):
        store.add(batch)
        answered = [number for number in range(store.count) if store[number].outcome == ANSWERED]
        times.extend([packets.now] * (len(answered) - len(times)))

    run = Run(packets, inputs.inspector())
    indexer.index_packets(run, Indexer(run, store.spool, frozenset()), send)
    completed = packets.completed()
    assert len(times) == len(completed) > 20
    assert max(map(float.__sub__, times, completed)) <= LONGEST
