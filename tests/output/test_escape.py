import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
