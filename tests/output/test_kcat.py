"""`kinspect records --format kcat`: read back by kcat's rules, written anew here from its input.c and kcat.c."""

import random
import re
import shlex
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from kinspect.kafka.view.redact import payload_text
from kinspect.kafka.view.view import View
from kinspect.output import Opening
from kinspect.output.kcat import COMMAND, END_MARK, KEY_MARK, KcatRows
from kinspect.sink import RunInput

PARTS = [
    b"",
    b"k",
    b"\n",
    b"\0\xff",
    KEY_MARK,
    END_MARK,
    KEY_MARK[:5],
    END_MARK[:5],
    END_MARK[5:],
    KEY_MARK[5:],
]
NANO = Path(__file__).parents[2] / "captures/4.4.0/nano.pcap"


def read_by_kcat(data):
    """Keys and values that kcat makes of its input with these marks and -Z."""
    words = shlex.split(COMMAND)
    key_mark, end_mark = (
        words[words.index(option) + 1].encode().decode("unicode_escape").encode() for option in ("-K", "-D")
    )
    while data:
        record, _, data = data.partition(end_mark)
        if record:
            key, found, value = record.partition(key_mark)
            yield (key or None, value or None) if found else (None, record)


def row(key, value, **other):
    shown = {}
    for name, data in {"key": key, "value": value}.items():
        shown[name], shown[f"{name}_encoding"] = payload_text(data)
        shown[f"{name}_size"] = None if data is None else len(data)
    told = {
        "topic": "t",
        "topic_id": None,
        "direction": "consume",
        "offset": 0,
        "headers": [],
        "crc_ok": True,
    }
    return {**told, **shown, **other}


@pytest.fixture
def written():
    """Writes rows; returns the bytes and the messages. `path`: of a folder with a file a topic."""

    def write(rows, path=None):
        stream = TextIOWrapper(BytesIO())
        sink = KcatRows(Opening(stream, View(), path=path))
        for each in rows:
            sink.tell(each)
        sink.flush()
        return stream.buffer.getvalue(), sink.close(RunInput([], [], True, None)).messages

    return write


def test_what_is_written_is_read_and_what_would_be_read_wrongly_is_counted(written):
    made = random.Random(30)
    for _ in range(300):
        pairs = [
            tuple(made.choice([None, b"".join(made.choices(PARTS, k=made.randint(0, 3)))]) for _ in "kv")
            for _ in range(4)
        ]
        data, told = written([row(*pair) for pair in pairs])
        found = [*read_by_kcat(data)]
        assert [pair for pair in pairs if pair in found] == found
        left_out = sum(int(text.rpartition(": ")[2]) for text in told if text.startswith("left out"))
        assert len(found) + left_out == len(pairs)


def test_all_bytes_and_nulls_are_carried(written):
    pairs = [
        (None, None),
        (b"k", None),
        (None, KEY_MARK),
        (bytes(range(256)), b"\n\n"),
        (b"|", b"|;kinspect;|"),
    ]
    data, told = written([row(*pair) for pair in pairs])
    assert [*read_by_kcat(data)] == pairs
    assert not [text for text in told if text.startswith("left out")]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (row(b"", b"v"), "as kcat makes null of an empty key or value"),
        (row(b"k", b""), "as kcat makes null of an empty key or value"),
        (row(END_MARK, b"v"), "as a mark that kcat looks for is in their key or value"),
        (row(b"k", b"v", topic="u"), "as they are of other topics than the first"),
        (row(b"k", b"v", crc_ok=False), "as their batch's CRC is wrong"),
        ({**row(b"k", b"v"), "value": None}, "as their keys or values are secrets"),
    ],
)
def test_what_cannot_be_written_is_left_out(written, other, why):
    data, told = written([row(b"k", b"v"), other, other])
    assert [*read_by_kcat(data)] == [(b"k", b"v")]
    assert told[-1] == f"left out by --format kcat, {why}: 2"


def test_a_file_a_topic_has_all_topics(written):
    assert len([*read_by_kcat(written([row(b"k", b"v"), row(b"k", b"v", topic="u")], "folder")[0])]) == 2


def test_records_that_kcat_does_not_hold_unasked_have_an_option(written):
    assert not any("message.max" in text for text in written([row(None, b"v" * 990_000)])[1])
    _, told = written([row(None, b"v" * 2_000_000)])
    assert int(re.search(r"message\.max\.bytes=(\d+)", "".join(told))[1]) > 2_000_000


def test_what_may_be_more_than_the_topic_held_is_told(written):
    _, told = written(
        [
            row(b"k", b"v") | {"direction": direction, "offset": offset}
            for direction, offset in (("produce", 1), ("produce", None), ("consume", 1))
        ]
    )
    assert told[1:3] == [
        "kcat: 2 produced and 1 fetched: --once writes each record once",
        "kcat: 1 may have been refused: --committed leaves them out",
    ]


def test_a_capture_fills_a_file_and_the_summary_says_how_to_go_on(kinspect, tmp_path):
    file = tmp_path / "filled"
    found = kinspect("records", NANO, "--format", "kcat", "--payload", "text", "-o", file)
    assert (found.status, found.out) == (0, "")
    assert [*read_by_kcat(file.read_bytes())] == [(b"k%d" % n, b"nano-%d" % n) for n in range(20)]
    assert found.err.splitlines()[-2:] == [
        "kcat: 20 records, without timestamps, partitions, transactions and headers (20 had some)",
        f"to fill a topic: {COMMAND} -l FILE",
    ]
