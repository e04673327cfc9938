"""Texts of cells in the tables of answers, and their styles."""

from __future__ import annotations

from collections.abc import Callable
from shlex import quote
from typing import Any

from kinspect import wording
from kinspect.output.columns import Row

UNKNOWN = "?"
TIME_OF_DAY, MINUTE = (11, 23), (0, 16)
"""Parts of a time as text: to the millisecond, and the date with hour and minute."""
HEAD, NOTE, DIM, ERROR = "bold", "yellow", "dim", "bold red"


def plain(value: str | None) -> str:
    """A text as it is; nothing where there is none."""
    return value or ""


def known(value: Any) -> str:
    """A value as text, `?` if it is not known, `""` if it is empty; numbers with commas."""
    return UNKNOWN if value is None else f"{value:,}" if isinstance(value, int) else str(value) or '""'


def lasting(milliseconds: float | None) -> str:
    """A duration: `1,234 ms`, `12.3 s`; `?` if it is not known."""
    if milliseconds is None:
        return UNKNOWN
    return f"{milliseconds:,.0f} ms" if milliseconds < 10_000 else f"{milliseconds / 1000:,.1f} s"


def longest(spans: list[float | None]) -> str:
    """The longest duration: with `+?` where one that is not known may be longer, `?` where none above 0 is known."""
    most = max((span for span in spans if span is not None), default=None)
    if None in spans:
        return f"{lasting(most)}+?" if most else UNKNOWN
    return lasting(most)


def where(key: str, text: Callable[[Any], str] = known) -> Callable[[Row], str]:
    """Cells of a key, without any text where rows do not have it: options of an answer choose their keys."""
    return lambda row: text(row[key]) if key in row else ""


def counted(count: int | None, thing: str) -> str:
    """A number of things as text; `?` for one that is not known."""
    return f"{UNKNOWN} {thing}s" if count is None else wording.counted(count, thing)


def listed(values: list[str] | dict[str, int] | None, most: int = 3) -> str:
    """The first values, and how many more there are; those of a dict with their counts."""
    if values is None:
        return UNKNOWN
    texts = [f"{name} {count:,}" for name, count in values.items()] if isinstance(values, dict) else values
    return wording.listed(texts, most)


def releases_text(names: list[str] | None) -> str:
    """The releases that a broker may be of, from the oldest to the newest: `2.8.0..2.8.2`."""
    return "..".join(dict.fromkeys((names[0], names[-1]))) if names else UNKNOWN


def software(row: Row) -> str:
    """The software of a client; a guess has a question mark."""
    named = " ".join(filter(None, (row["software_name"], row["software_version"])))
    guess = row.get("software_inferred")
    return named or (f"{guess}?" if guess else "")


def reading(file: str, client_id: str | None, api: str | None) -> str:
    """The command that shows what a client sent."""
    client = "" if client_id is None else f" --client-id {quote(client_id)}"
    return f"kinspect read {file}{client}" + (f" --api {quote(api)}" if api else "")
