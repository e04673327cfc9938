"""Filters that list the exchanges of an answer's row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kinspect.answers import answers, definition_of
from kinspect.answers.definition import Key
from kinspect.tui.index.complete import written
from kinspect.tui.index.filterline import NAMES

IDS_MOST = 10
"""Most ids of a topic in a filter; a topic has another one each time that it is made anew."""
TOPIC = "topic"

Row = dict[str, Any]


def row_filter(answer: str, row: Row, ids: Callable[[str], Sequence[str]]) -> dict[str, str | None]:
    """The filters for a row, with values as they are typed; empty if there are none for it. `ids`: gives the ids by
    which exchanges name a topic (`Store.nameless`)."""
    keys = definition_of(answer).keys
    words = dict(each for key in keys for each in _filters(key, row))
    if any(key.opens == TOPIC for key in keys):
        if not row[TOPIC]:
            return {}  # No filter takes an empty name.
        words[TOPIC] = ",".join([written(row[TOPIC]), *ids(row[TOPIC])[:IDS_MOST]])
    return {name: words[name] for name in NAMES if name in words}


def page_of(answer: str, row: Row) -> str | None:
    """The answer that shows more of a row: of a finding."""
    name = definition_of(answer).leads_to(row)
    return name if name in answers() else None


def _filters(key: Key, row: Row) -> Iterator[tuple[str, str | None]]:
    if not isinstance(key.opens, str):
        yield from key.opens(row)
    elif key.opens and row[key.name] is not None:
        yield key.opens, written(row[key.name])
