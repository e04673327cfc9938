from io import BytesIO, TextIOWrapper
from itertools import islice, repeat

import pytest
from rich.cells import cell_len

from kinspect.output.console import make_console
from kinspect.output.treewriter import BATCH_CHARACTERS, TreeWriter, folded


def rows(pieces, room):
    return ["".join(text for text, _ in row) for row in folded(pieces, room)]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["short"], ["short"]),
        ([], []),
        (["one two three"], ["one two", "three"]),
        (["exactly ten", " more"], ["exactly", "ten more"]),
        (["key ", "abcdefgh"], ["key ", "abcdefgh"]),
        (["key ", "abcdefghijklm"], ["key abcdef", "ghijklm"]),
        (["0123456789" * 2], ["0123456789", "0123456789"]),
        (["日本語日本語"], ["日本語日本", "語"]),
        (["a日本語日本語"], ["a日本語日", "本語"]),
    ],
)
def test_rows_have_room_for_what_is_in_them(texts, expected):
    found = rows([(text, "") for text in texts], 10)
    assert found == expected
    assert all(cell_len(row) <= 10 for row in found)


def test_styles_stay_with_their_texts():
    assert list(folded([("key ", "cyan"), ("a b", "green")], 5)) == [
        [("key ", "cyan"), ("a", "green")],
        [("b", "green")],
    ]


def test_a_row_is_there_before_the_next_piece_is_made():
    endless = folded(repeat(("word ", "")), 12)
    assert [[text for text, _ in row] for row in islice(endless, 2)] == [
        ["word ", "word "],
        ["word ", "word "],
    ]


class Counting(BytesIO):
    largest = 0

    def write(self, data):
        self.largest = max(self.largest, len(data))
        return super().write(data)


def written(encoding="utf-8", count=1):
    stream = TextIOWrapper(Counting(), encoding=encoding)
    tree = TreeWriter(make_console(stream, "never", 40))
    tree.root((("root", "bold"),))
    for _ in range(count):
        below = tree.line("", False, (("first", ""),))
        tree.line(below, True, iter([("a long text ", ""), ("that goes on " * 3, "")]))
    tree.line("", True, (("last", ""),))
    tree.flush()
    return stream.buffer


def test_a_line_that_goes_on_keeps_the_guides_of_those_around_it():
    assert written().getvalue().decode().splitlines() == [
        "root",
        "├── first",
        "│   └── a long text that goes on that",
        "│       goes on that goes on ",
        "└── last",
    ]


def test_guides_that_the_stream_cannot_write_are_ascii():
    assert written("ascii").getvalue().splitlines()[1:3] == [
        b"+-- first",
        b"|   `-- a long text that goes on that",
    ]


def test_no_more_than_a_batch_is_kept_back():
    stream = written(count=5_000)
    assert len(stream.getvalue()) > 10 * BATCH_CHARACTERS
    assert stream.largest < 4 * BATCH_CHARACTERS
