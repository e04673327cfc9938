"""JSON text that is harmless on a terminal, and values as JSON has them."""

from __future__ import annotations

import re
from math import isfinite, isnan
from typing import Any, Final

import orjson

_BEYOND_ASCII = re.compile(r"[^\n -~]+")
DELETE: Final = 0x7F
"""The one control character of ASCII that JSON allows as itself."""


def float_value(value: float) -> float | str:
    """A float, with NaN and infinities as text: JSON has none."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def json_text(value: Any) -> str:
    """The value as JSON in one line."""
    return escape_json(orjson.dumps(value)).decode()


def escape_json(text: bytes) -> bytes:
    """Equivalent JSON with `\\u009b` for each character that is not printable (`kinspect.output.escape.escape`); line
    feeds between its tokens stay."""
    if text.isascii() and DELETE not in text:
        return text
    decoded = text.decode()
    if decoded.replace("\n", "").isprintable():
        return text
    return _BEYOND_ASCII.sub(lambda found: _in_json(found[0]), decoded).encode()


def _in_json(run: str) -> str:
    return "".join(c if c.isprintable() else _surrogates(c) for c in run)


def _surrogates(character: str) -> str:
    """JSON escape of a character; beyond U+FFFF it is two."""
    pair = character.encode("utf-16-be").hex()
    return "".join(f"\\u{pair[at : at + 4]}" for at in range(0, len(pair), 4))
