"""Single values in their JSON form."""

from __future__ import annotations

from binascii import b2a_base64
from math import isfinite, isnan
from typing import Any


def base64_text(value: bytes | None) -> str | None:
    return None if value is None else b2a_base64(value, newline=False).decode("ascii")


def float_value(value: float) -> float | str:
    """A float, with NaN and infinities as text: JSON has none."""
    if isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def integer_text(value: int | None) -> str | None:
    return None if value is None else str(value)


def redact(shown: dict[str, Any], name: str, value: bytes | str | None) -> bool:
    """Put null for a secret, and its size in bytes beside it; return True. A null hides nothing: return False."""
    shown[name] = None
    if value is None:
        return False
    shown[name + "_size"] = len(value if isinstance(value, bytes) else value.encode(errors="replace"))
    return True
