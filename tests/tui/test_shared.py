"""Rows made by several processes are those that one makes."""

import functools

import pytest
from support.shares import one_in
from support.tui import CAPTURES, indexed

from kinspect import jobs
from kinspect.jobs import worker, workerlink
from kinspect.tui.index import captures, indexer

MANY = [
    "4.4.0/errors_java.pcap.gz",
    "4.4.0/groups_classic.pcap.gz",
    "4.4.0/kip848.pcap.gz",
    "4.4.0/nano.pcap",
    "variants/ng.pcapng.gz",
    "tls/tls12_chacha_dsb.pcapng.gz",
]


@pytest.fixture
def chunks(monkeypatch):
    """Chunks so small that a small capture has many, each of several blocks."""
    monkeypatch.setattr(worker, "CHUNK_BYTES", 4096)
    monkeypatch.setattr(jobs, "CHUNK_BYTES", 4096)
    monkeypatch.setattr(captures, "open_timeline", functools.partial(captures.open_timeline, block_size=1024))


def told(store):
    return (
        store.rows,
        store.count,
        store.start,
        store.seen,
        store.summary,
        store.errors,
        store.unread,
        store.refused,
    )


def lines(store):
    return [store.line(number) for number in range(store.count)]


@pytest.mark.big
@pytest.mark.parametrize("count", [2, 5])
def test_all_captures_together(chunks, count):
    paths = [path for path in sorted(CAPTURES.rglob("*.pcap*")) if path.stat().st_size < 200_000][::7]
    paths.append(CAPTURES / "none.pcap")
    one, several = indexed(*paths), indexed(*paths, jobs=count)
    assert one.count > 200
    assert one.unread > 0
    assert told(several) == told(one)
    assert lines(several) == lines(one)


def test_rows_beyond_what_is_held(chunks, monkeypatch):
    monkeypatch.setattr(workerlink, "RING_BYTES", 150)
    path = CAPTURES / MANY[0]
    one, several = indexed(path), indexed(path, jobs=3)
    assert told(several) == told(one)


def test_names_that_a_controller_tells_in_requests(chunks):
    path = CAPTURES / "2.8.2" / "controller-2brokers.pcap.gz"
    one, several = indexed(path).whole().asked, indexed(path, jobs=3).whole().asked
    assert sorted(several) == sorted(one) != []


@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("name", one_in(6, MANY))
def test_what_is_shown_of_each(chunks, plain, name, is_plain):
    path = plain(CAPTURES / name) if is_plain else CAPTURES / name
    one, several = indexed(path), indexed(path, jobs=3)
    assert told(several) == told(one)
    assert lines(several) == lines(one)
    for number in range(0, one.count, 5):
        assert several.exchange(number).to_dict() == one.exchange(number).to_dict()


def test_texts_without_room(chunks, monkeypatch):
    path = CAPTURES / MANY[0]
    whole = indexed(path, jobs=3)
    monkeypatch.setattr(indexer.TextNumbers.__init__, "__defaults__", (64 * 1024 * 1024, 20))
    one, several = indexed(path), indexed(path, jobs=3)
    cut = [bool(several[number].flags & indexer.row.CUT) for number in range(several.count)]
    assert told(several)[1:3] == told(one)[1:3] == told(whole)[1:3]
    assert 0 < sum(cut) < len(cut)
    assert cut == [bool(one[number].flags & indexer.row.CUT) for number in range(one.count)]


def test_a_spool_without_room(chunks):
    path = CAPTURES / MANY[0]
    one, several = indexed(path, limit=4000), indexed(path, limit=4000, jobs=3)
    assert one.refused
    assert told(several) == told(one)
