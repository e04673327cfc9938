"""The filters as they are written in one line: `--api Fetch --errors-only` or `api=Fetch errors-only`."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kinspect.errors import KinspectError
from kinspect.filters.filter import Filter
from kinspect.filters.filterdefinitions import FILTERS, FilterDefinition
from kinspect.filters.recordfilters import RECORD_FILTERS, RecordFilter, RecordFilterDefinition

NAMES = {name.replace("_", "-"): name for name in FILTERS}
"""Filters by their names as they are written."""
RECORD_NAMES = {name.replace("_", "-"): name for name, row in RECORD_FILTERS.items() if name not in FILTERS}
"""Those of records alone: the page of records has them."""
ALL_NAMES = {**NAMES, **RECORD_NAMES}
DEFINITIONS: Mapping[str, FilterDefinition | RecordFilterDefinition] = {**RECORD_FILTERS, **FILTERS}

FilterValues = dict[str, Any]


def parse_filter(text: str) -> FilterValues:
    """The arguments of `Filter` in a line. Raises KinspectError."""
    values = _values(text, NAMES)
    Filter(**values)
    return values


def parse_records(text: str) -> FilterValues:
    """The arguments of `RecordFilter` in a line that are no exchange's. Raises KinspectError."""
    values = _values(text, RECORD_NAMES)
    RecordFilter(values, lambda: None)
    return values


def without_records(text: str) -> str:
    """The filter `text` without what is of records alone."""
    return _line((name, value) for name, value in _pairs(text) if name in NAMES)


def _values(text: str, names: Mapping[str, str]) -> FilterValues:
    values: FilterValues = {}
    for written, value in _pairs(text):
        if written not in names:
            continue
        name = names[written]
        if DEFINITIONS[name].many:
            values.setdefault(name, []).append(value)
        else:
            values[name] = True if value is None else value
    return values


def narrowed(text: str, more: Mapping[str, str | None]) -> str:
    """The filter `text` with other values of some filters (None for one without a value), in place of those that it
    has. Raises KinspectError for an error in it."""
    kept = [(name, value) for name, value in _pairs(text) if name not in more]
    return _line((*kept, *more.items()))


def filter_line(values: Mapping[str, Any]) -> str:
    """The line for values of options."""
    pairs: list[tuple[str, str | None]] = []
    for written, name in NAMES.items():
        value = values[name]
        if value:
            each = value if isinstance(value, tuple) else (value,)
            pairs += [(written, None if one is True else one) for one in each]
    return _line(pairs)


def takes_value(written: str) -> bool:
    """True for the name of a filter that has values."""
    return written in ALL_NAMES and DEFINITIONS[ALL_NAMES[written]].metavar is not None


def _line(pairs: Iterable[tuple[str, str | None]]) -> str:
    return " ".join(name if value is None else _quoted(f"{name}={value}") for name, value in pairs)


def _quoted(word: str) -> str:
    return shlex.quote(word) if any(character in "\"'\\ \t" for character in word) else word


def _pairs(text: str) -> Iterator[tuple[str, str | None]]:
    """The filters in a text with their values; None for one that takes none."""
    try:
        words = iter(shlex.split(text))
    except ValueError:
        raise KinspectError("a quote is not closed") from None
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if name not in ALL_NAMES:
            raise KinspectError(f"there is no filter {name!r}; there are {', '.join(ALL_NAMES)}")
        if not takes_value(name):
            if equals:
                raise KinspectError(f"{name} takes no value")
            yield name, None
            continue
        if not equals:
            following = next(words, None)
            if following is None:
                raise KinspectError(f"{name} needs a value")
            value = following
        yield name, value
