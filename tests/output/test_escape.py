import unicodedata

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect.jsontext import escape_json
from kinspect.output.escape import escape


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders", "orders"),
        ("héllo 日本語 ✓", "héllo 日本語 ✓"),
        ("", ""),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\r\nb\tc\0", "a\\x0d\\x0ab\\x09c\\x00"),
        ("\x7f\x9b2J", "\\x7f\\x9b2J"),
        ("user\u202egnp.exe", "user\\u202egnp.exe"),
        ("a\u2066b\u2069\u200f", "a\\u2066b\\u2069\\u200f"),
        ("a\u200bb\u2028c\ufeff", "a\\u200bb\\u2028c\\ufeff"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
        ("[red]not markup[/red]", "[red]not markup[/red]"),
    ],
)
def test_escape(text, shown):
    assert escape(text) == shown


@given(st.text(alphabet=st.characters()))
def test_nothing_that_controls_a_terminal_gets_through(text):
    assert not {unicodedata.category(c) for c in escape(text)} & {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_json_is_the_same_json(text):
    line = orjson.dumps({"text": text}, option=orjson.OPT_APPEND_NEWLINE)
    shown = escape_json(line)
    assert orjson.loads(shown) == {"text": text}
    assert shown.endswith(b"}\n")
    assert escape(shown[:-1].decode()) == shown[:-1].decode()


def test_json_keeps_what_is_printed_as_itself():
    line = orjson.dumps("h\xe9llo \u65e5\u672c\u8a9e") + b"\n"
    assert escape_json(line) == line
    assert escape_json('"\x9b2J\U000e0041"\n'.encode()) == b'"\\u009b2J\\udb40\\udc41"\n'


CONTROLS = [0x7F, *range(0x80, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]


@pytest.mark.parametrize("around", ["", "a", "\xe9", "\u65e5"])
def test_json_escapes_each_control(around):
    for code in CONTROLS:
        text = around + chr(code) + around
        shown = escape_json(orjson.dumps([text], option=orjson.OPT_INDENT_2))
        assert chr(code) not in shown.decode(), code
        assert f"\\u{code:04x}".encode() in shown, code
        assert orjson.loads(shown) == [text]
