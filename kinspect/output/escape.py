"""What a capture says goes to a terminal as text, never as control sequences."""

from __future__ import annotations

import re

_BEYOND_ASCII = re.compile(r"[^\n -~]")


def escape(text: str) -> str:
    """`text` with everything that is not printed as itself shown as `\\x1b`, `\\u202e` or `\\U000e0001`.

    `str.isprintable` draws the line where it is wanted: control characters (C0, C1), format characters (bidi
    overrides, zero widths), surrogates, line and paragraph separators and every space but the plain one.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(ord(c)) for c in text)


def printable(path: str) -> str:
    """A file's name, or a text with one in it, with U+FFFD for bytes that are no text."""
    return path.encode(errors="surrogateescape").decode(errors="replace")


def escape_json(line: bytes) -> bytes:
    """A line of JSON that means the same, with what `escape` escapes as `\\u009b`; `line` ends with its line feed."""
    if line.isascii() and b"\x7f" not in line:
        return line
    return _BEYOND_ASCII.sub(lambda found: _in_json(found[0]), line.decode()).encode()


def _in_json(character: str) -> str:
    if character.isprintable():
        return character
    # JSON has characters beyond U+FFFF as two surrogates.
    pair = character.encode("utf-16-be").hex()
    return "".join(f"\\u{pair[at : at + 4]}" for at in range(0, len(pair), 4))


def _escaped(code: int) -> str:
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
