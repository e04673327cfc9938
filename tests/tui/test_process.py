"""The process that reads: what it sends is what reading in this process gives, and it ends when nobody listens."""

import os
import signal
import time

import pytest
from support.tui import CAPTURES, ERRORS, indexed

from kinspect.tui.index import process
from kinspect.tui.index.indexer import Batch, Inputs
from kinspect.tui.index.process import IndexProcess
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store


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
        while isinstance(batch := rows.receive(), Batch):
            store.add(batch)
        assert batch is None
        rows.stop()
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

    monkeypatch.setattr(process, "index", broken)
    _, rows = started(ERRORS)
    assert "of all things" in rows.receive()
    assert rows.receive() is None
    rows.stop()


def test_it_is_gone_after_stop_and_leaves_no_zombie(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    _, rows = started(pipe)
    number = rows._pid
    rows.stop()
    rows.stop()
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
    number = rows._pid
    rows.receive()
    rows._reader.close()
    limit = time.monotonic() + 20
    while os.waitpid(number, os.WNOHANG) == (0, 0):
        assert time.monotonic() < limit
        time.sleep(0.05)
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
