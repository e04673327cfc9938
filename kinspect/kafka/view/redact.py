"""What is shown of a value, in every output: secrets only with `--show-secrets`, payload as `--payload` says, and in a
form that JSON has."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from kinspect.protocol.fieldpaths import along

if TYPE_CHECKING:
    from kinspect.protocol.interpreter import Span

UTF_8: Final = "utf-8"
BASE64: Final = "base64"
HEX: Final = "hex"

_Secret = bytes | str | None
ShownBytes = tuple[str | None, str | None]
"""A key or value and its encoding; null and null for a value that is absent or not shown."""

NOT_SHOWN: Final[ShownBytes] = (None, None)

STRUCTURE: Final = frozenset({"struct", "tags", "tag"})
"""Types of spans that hold others and have no value."""
HIDDEN: Final = "(secret: not shown)"


class Redactions(Protocol):
    """Counter of the secrets and record sets left out so far."""

    redactions: int


def hide(shown: dict[str, Any], name: str, value: _Secret | list[_Secret], context: Redactions) -> None:
    """Put null for a secret, with its size in bytes beside it. A null hides nothing."""
    shown[name] = None
    if value is not None:
        texts = value if isinstance(value, list) else [value]
        given = [text.encode(errors="replace") if isinstance(text, str) else text for text in texts]
        shown[name + "_size"] = sum([len(text) for text in given if text is not None])
        context.redactions += 1


def tags(entries: list[dict[str, Any]], hidden: bool, context: Redactions) -> list[dict[str, Any]]:
    """Unknown tagged fields; `hidden`: one could be a secret."""
    found = []
    for entry in entries:
        shown: dict[str, Any] = {"tag": entry["tag"]}
        if hidden:
            hide(shown, "bytes", entry["bytes"], context)
        else:
            shown["bytes"] = base64_text(entry["bytes"])
        found.append(shown)
    return found


def shown_value(span: Span, body: dict[str, Any] | None) -> Any:
    """The value to show for a span of the reference interpreter: the one at its path, as `topics[0].name`, in the body
    that a view shows; HIDDEN where that leaves it out."""
    if span.value is None or span.type in STRUCTURE or span.type.startswith("[]"):
        return span.value
    *_, found = along(body, span.path)
    if isinstance(found, list):
        # Unknown tagged fields: the span is that of one entry's bytes.
        return HIDDEN if any(entry["bytes"] is None for entry in found) else span.value
    return HIDDEN if found is None else found


def without_texts(value: Any) -> Any:
    """A value without texts and bytes: of a message that may be another, any could be a secret."""
    if isinstance(value, dict):
        return {name: without_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_texts(item) for item in value]
    return None if isinstance(value, (str, bytes)) else value


# ---------------------------------------------------------------------- single values


def base64_text(value: bytes | None) -> str | None:
    return None if value is None else b2a_base64(value, newline=False).decode("ascii")


def integer_text(value: int | None) -> str | None:
    return None if value is None else str(value)


# ---------------------------------------------------------------------- payload


def no_payload(value: bytes | None) -> ShownBytes:
    return NOT_SHOWN


def payload_text(value: bytes | None) -> ShownBytes:
    if value is None:
        return NOT_SHOWN
    try:
        return value.decode(), UTF_8
    except UnicodeDecodeError:
        return base64_text(value), BASE64


def payload_bytes(text: str | None, encoding: str | None) -> bytes | None:
    """The bytes of what `payload_text` shows."""
    if text is None:
        return None
    return a2b_base64(text) if encoding == BASE64 else text.encode()


def _base64(value: bytes | None) -> ShownBytes:
    return NOT_SHOWN if value is None else (base64_text(value), BASE64)


def _hex(value: bytes | None) -> ShownBytes:
    return NOT_SHOWN if value is None else (value.hex(), HEX)


PAYLOADS: Final[dict[str, Callable[[bytes | None], ShownBytes]]] = {
    "none": no_payload,
    "text": payload_text,
    "base64": _base64,
    "hex": _hex,
}
"""Forms of keys, values and header values (`--payload`)."""
