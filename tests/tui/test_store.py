"""Rows and bytes that were read again are what `kinspect.read` gives."""

import os
import stat

import orjson
import pytest
from support.shares import one_in
from support.tui import CAPTURES, NANO, indexed, keylog

import kinspect
from kinspect.errors import CaptureError, KinspectError
from kinspect.kafka.view.view import View
from kinspect.output import table
from kinspect.output.actions import action_of
from kinspect.tui.index import reread, row
from kinspect.tui.index.export import json_line
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store
from kinspect.tui.index.texts import UNKEPT, TextNumbers, Texts

ALL = sorted(CAPTURES.glob("*/*.pcap*"))
TABLE = View(fields=table.FIELDS)


def read(*paths, **options):
    """The exchanges of captures, to where they can be read."""
    found = []
    try:
        for exchange in kinspect.read(*paths, **options):
            found.append(exchange)
    except CaptureError:
        pass
    return found


def text(exchange):
    return orjson.dumps(exchange.to_dict())


@pytest.fixture
def no_second_reading(monkeypatch):
    """Bytes must be found where they lie."""

    def again(*_):
        raise AssertionError("read the captures once more")

    monkeypatch.setattr(reread, "again", again)


@pytest.mark.parametrize("path", one_in(12, ALL), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_exchange_is_what_read_gives(path, plain, no_second_reading):
    path = plain(path)
    secrets = keylog(path) or keylog(CAPTURES / "tls" / path.name)
    expected = read(path, keylog=secrets)
    store = indexed(path, keylog=secrets)
    assert store.count == len(expected)
    for number, exchange in enumerate(expected):
        assert text(store.exchange(number)) == text(exchange), number


def test_a_line_has_no_name_that_a_controller_tells_in_a_request():
    path = CAPTURES / "2.8.2" / "controller-2brokers.pcap.gz"
    store = indexed(path)
    unnamed = [exchange for exchange in read(path) if exchange.summary.unresolved_topic_ids]
    asked = {topic_id for topic_id, _ in store.whole().asked}
    assert asked & {*unnamed[0].summary.unresolved_topic_ids}
    for exchange in unnamed:
        assert text(store.exchange(exchange.order - 1)) == text(exchange)


@pytest.mark.parametrize("path", ALL[::7], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_every_row_is_what_the_table_shows(path):
    secrets = keylog(path)
    store = indexed(path, keylog=secrets)
    for number, exchange in enumerate(read(path, keylog=secrets)):
        line, shown = TABLE.exchange(exchange), store.line(number)
        about = table.about_cell(line, action_of(exchange))
        assert table.about_cell(shown, shown["action"]) == about
        assert (table.api_text(shown), table.latency(shown["latency_ms"])) == (
            table.api_text(line),
            table.latency(line["latency_ms"]),
        )
        assert (table.ends_text(shown), shown["client"]["id"]) == (
            table.ends_text(line),
            line["client"]["id"],
        )
        assert shown["timestamp"] == exchange.timestamp


def test_several_captures_are_one_timeline(plain, no_second_reading):
    paths = [plain(CAPTURES / "4.4.0" / name) for name in ("sarama.pcap.gz", "nano.pcap", "franz.pcap.gz")]
    store = indexed(*paths)
    assert [text(store.exchange(number)) for number in range(store.count)] == [*map(text, read(*paths))]


def test_messages_that_lie_in_two_files_go_into_the_spool(tmp_path, no_second_reading):
    data = (CAPTURES / "0.10.2.2" / "sweep-B-produce-fetch-offsets.pcap").read_bytes()
    header, offset, cut = data[:24], 24, []
    while offset < len(data):
        offset += 16 + int.from_bytes(data[offset + 8 : offset + 12], "little")
        cut.append(offset)
    # Cut behind each packet in turn until a message is in both files.
    for middle in cut[: len(cut) // 2]:
        paths = [tmp_path / "one.pcap", tmp_path / "two.pcap"]
        paths[0].write_bytes(data[:middle])
        paths[1].write_bytes(header + data[middle:])
        store = indexed(*paths)
        if store.spool.size:
            break
    assert store.spool.size
    assert [text(store.exchange(number)) for number in range(store.count)] == [*map(text, read(*paths))]


@pytest.mark.parametrize("name", ["nano.pcap.gz", "ng.pcapng.gz"])
def test_what_the_spool_has_no_room_for_is_read_once_more(name):
    path = CAPTURES / "variants" / name
    expected = read(path)
    store = indexed(path, limit=4096)
    assert 0 < store.refused < store.count
    assert store.spool.size <= 4096
    for number in (0, len(expected) // 2, len(expected) - 1):
        assert text(store.exchange(number)) == text(expected[number])


def test_what_came_through_a_pipe_is_in_the_spool_or_said_to_be_lost(tmp_path):
    pipe = tmp_path / "pipe"
    pipe.write_bytes(NANO.read_bytes())
    expected = read(pipe)
    pipe.unlink()
    for limit in (1 << 20, 200):
        os.mkfifo(pipe)
        writer = os.fork()
        if not writer:
            pipe.write_bytes(NANO.read_bytes())
            os._exit(0)
        store = indexed(pipe, limit=limit)
        os.waitpid(writer, 0)
        pipe.unlink()
        pipe.symlink_to("/dev/null")
        if limit == 200:
            assert store.refused
            with pytest.raises(KinspectError, match="--spool-size"):
                store.exchange(store.count - 1)
        else:
            assert [text(store.exchange(number)) for number in range(store.count)] == [*map(text, expected)]
        pipe.unlink()


def test_a_capture_that_was_replaced_is_noticed(tmp_path):
    path = tmp_path / "some.pcap"
    path.write_bytes(NANO.read_bytes())
    store = indexed(path)
    path.write_bytes((CAPTURES / "4.4.0" / "any_sll.pcap").read_bytes())
    with pytest.raises(KinspectError, match="did they change"):
        store.exchange(3)


def test_reading_again_can_be_stopped():
    store = indexed(CAPTURES / "4.4.0" / "nano.pcap")
    with pytest.raises(reread.StoppedError):
        store.exchange(0, lambda: True)


def test_a_row_takes_as_much_as_the_page_says():
    page = (CAPTURES.parent / "docs" / "explore.md").read_text("utf-8")
    assert f"{row.SIZE} bytes" in page


def test_the_spool_is_private_and_has_no_name():
    spool = Spool()
    status = os.fstat(spool._file.fileno())
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert status.st_nlink == 0
    place = spool.add((b"request", None))
    assert spool.get(place) == (b"request", None)
    assert spool.get(spool.add((None, b""))) == (None, b"")
    spool.close()


def test_a_full_disk_is_a_full_spool(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    spool = Spool()
    monkeypatch.setattr(os, "pwrite", full)
    assert spool.add((b"request", None)) == row.NOWHERE
    assert spool.refused == 1


def test_equal_texts_have_equal_numbers():
    numbering, texts = TextNumbers(), Texts()
    values = [["a", 1], ["b"], ["a", 1], [], ["\u202e", None]]
    numbers = [numbering.number(value) for value in values]
    texts.add(numbering.take())
    assert [texts[number] for number in numbers] == values
    assert len(texts) == len(set(numbers)) == 4
    assert texts[UNKEPT] is None


def test_texts_that_there_is_no_room_for():
    for numbering in (TextNumbers(kept=2), TextNumbers(kept_bytes=12)):
        assert [numbering.number([text]) for text in ("aa", "bb", "cc", "aa")] == [1, 2, UNKEPT, 1]


def test_rows_say_that_names_were_not_kept(monkeypatch):
    monkeypatch.setattr("kinspect.tui.index.texts.KEPT", 8)
    monkeypatch.setattr(TextNumbers.__init__, "__defaults__", (1 << 20, 8))
    store = indexed(CAPTURES / "4.4.0" / "kafkajs.pcap.gz")
    assert any(store[number].flags & row.CUT for number in range(store.count))
    assert all(store.line(number) for number in range(store.count))
    expected = read(CAPTURES / "4.4.0" / "kafkajs.pcap.gz")
    assert text(store.exchange(store.count - 1)) == text(expected[-1])


def test_a_name_that_is_no_text(tmp_path):
    path = os.fsdecode(bytes(tmp_path) + b"/\xff.pcap")
    with open(path, "wb") as file:
        file.write(NANO.read_bytes())
    store = indexed(path)
    assert store.exchange(0).to_dict()["request"]["frames"]["file"].endswith("/\ufffd.pcap")
    assert json_line(store.exchange(0).to_dict())


def test_an_empty_store():
    store = Store(indexed(NANO).inputs, Spool())
    assert (store.count, store.done) == (0, False)
