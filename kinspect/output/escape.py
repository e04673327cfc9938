"""Escapes: text of a capture reaches a terminal as text, never as control sequences."""

from __future__ import annotations


def escape(text: str) -> str:
    """`text` with each character that is not printable shown as `\\x1b`, `\\u202e` or `\\U000e0001`.

    `str.isprintable` is false for all of them: control characters (C0, C1), format characters (bidi overrides, zero
    widths), surrogates, line and paragraph separators, and every space but the plain one.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(ord(c)) for c in text)


def printable(path: str) -> str:
    """A file's name, or a text with one in it, with U+FFFD for bytes that are not UTF-8."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


def _escaped(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
