"""Escapes: text of a capture reaches a terminal as text, never as control sequences."""

from __future__ import annotations

import re

_BEYOND_ASCII = re.compile(r"[^\n -~]+")
DELETE = b"\x7f"
"""The one control character of ASCII that JSON allows as itself."""


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


def escape_json(text: bytes) -> bytes:
    """Equivalent JSON with `\\u009b` for each character that `escape` escapes; line feeds between its tokens stay."""
    if text.isascii() and DELETE not in text:
        return text
    decoded = text.decode()
    # A line ends with its line feed.
    if decoded[:-1].isprintable():
        return text
    return _BEYOND_ASCII.sub(lambda found: _in_json(found[0]), decoded).encode()


def _in_json(run: str) -> str:
    return "".join(c if c.isprintable() else _surrogates(c) for c in run)


def _surrogates(character: str) -> str:
    """JSON escape of a character; beyond U+FFFF it is two."""
    pair = character.encode("utf-16-be").hex()
    return "".join(f"\\u{pair[at : at + 4]}" for at in range(0, len(pair), 4))


def _escaped(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
