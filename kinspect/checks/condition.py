"""What exchanges are asked for by name: a filter, or a key of their lines with the value that it is to have."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from kinspect.checks.bounds import Bounds
from kinspect.errors import KinspectError
from kinspect.filteredvalues import LARGEST
from kinspect.filters.filter import filter_from
from kinspect.filters.filterdefinitions import FILTERS
from kinspect.filters.values import Verdict, errors_about, glob, unknown_api
from kinspect.jsontext import json_text
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.forms import BODY
from kinspect.kafka.view.view import LINE_KEYS, View, milliseconds
from kinspect.kafka.wire.pair import ORPHAN, UNANSWERED
from kinspect.model import REQUEST
from kinspect.protocol import schema

SEPARATOR: Final = "__"
"""Stands for the dot of a path, and before the name of a comparison: Python's keywords have no dots."""
COMPARISONS: Final[dict[str, tuple[str, Callable[[Any, Any], bool]]]] = {
    "gt": (">", operator.gt),
    "ge": (">=", operator.ge),
    "lt": ("<", operator.lt),
    "le": ("<=", operator.le),
    "ne": ("!=", operator.ne),
}
"""Endings of names, each with its sign."""
DOUBTS: Final = frozenset({"malformed", "unsure_layout", "uncertain_pairing"})
"""Problems of messages whose fields may be those of another layout, or of another request."""
LOSSES: Final = frozenset({"gap", "truncated_capture", "cap"})
"""Problems of what was captured, which say nothing of what was sent."""
UNANSWERED_FOR: Final = frozenset({"closed", "reset", "idle"})
"""Reasons for no response that lie with the connection, not with what was captured."""
ERRORS_ONLY: Final = "errors_only"
SHOWN: Final = 3
"""Most values of one exchange that are told."""
_UNKNOWN, _ABSENT = object(), object()
_CUT: Final = "truncated_lists"


class Condition(ABC):
    """A property of exchanges. `name`: how it was asked for; `text`: it in words, as `acks = -1`."""

    name: str
    text: str

    def begin(self, start: int | None) -> None:  # noqa: B027 - filters alone have times
        """Take note of the time of the capture's first packet."""

    @abstractmethod
    def verdict(self, exchange: Exchange, each: bool) -> Verdict:
        """True if the exchange has the property; None if that is not known. `each`: all of several values are to have
        it, else one of them."""

    @abstractmethod
    def seen(self, exchange: Exchange) -> str:
        """What the exchange has in its place; empty if nothing can be said."""


class FilterCondition(Condition):
    """A filter of `kinspect.filters` with its values. Raises KinspectError."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._filter = filter_from({name: value})
        if not self._filter.active:
            raise KinspectError(f"{name}: has no value")
        self.text = name if FILTERS[name].metavar is None else f"{name} = {_alternatives(value, str)}"

    def begin(self, start: int | None) -> None:
        self._filter.start = start

    def verdict(self, exchange: Exchange, each: bool) -> Verdict:
        verdict = self._filter.verdict(exchange)
        return None if verdict and self.name == ERRORS_ONLY and _lost_alone(exchange) else verdict

    def seen(self, exchange: Exchange) -> str:
        for kind, values in FILTERS[self.name].left_out.items():
            found = values(exchange)
            if isinstance(found, int):
                return f"{found}B" if kind.startswith(LARGEST) else f"{milliseconds(found):g}ms"
            if texts := _first(found or ()):
                return ", ".join(texts)
        return f"no {next(iter(FILTERS[self.name].left_out), 'error')}"


class KeyCondition(Condition):
    """A key of lines, or a field of bodies, by its path as `--fields` has it; a name that is no key of lines is that of
    a field of the request's body. Raises KinspectError."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        path, self._sign, test = _parsed(name)
        self._path = path.split(".")
        self._label = path.removeprefix(f"{REQUEST}.{BODY}.")
        self._in_body = self._path[1:2] == [BODY]
        self._test = _test(value, test)
        self._side = self._path[0]
        more = [f"{path}_size", f"{self._side}.complete"] if self._in_body else [_CUT]
        with errors_about(name):
            self._view = View(fields=[path, *more])
        self.text = f"{self._label} {self._sign} {_alternatives(value, json_text)}"

    def verdict(self, exchange: Exchange, each: bool) -> Verdict:
        found = self._found(exchange)
        # Of what is absent nothing is equal, or less.
        verdicts = [None if one is _UNKNOWN else one is not _ABSENT and self._test(one) for one in found]
        if (not each) in verdicts:
            return not each
        return None if None in verdicts else each

    def seen(self, exchange: Exchange) -> str:
        found = list(dict.fromkeys(map(self._told, self._found(exchange))))
        if found == [None]:
            return f"no {self._label} in {exchange.api} v{exchange.api_version}"
        texts = _first(text for text in found if text is not None)
        return f"{self._label} = {', '.join(texts)}" if texts else ""

    def _told(self, value: Any) -> str | None:
        return None if value is _ABSENT else "?" if value is _UNKNOWN else json_text(value)

    def _found(self, exchange: Exchange) -> list[Any]:
        """The values at the path. What may be another one, or be missing, is `_UNKNOWN`."""
        line = self._view.exchange(exchange)
        found = [*_leaves(line, self._path)]
        if not self._in_body:
            cut = isinstance(line[self._side], list) and line[_CUT]
            return [_UNKNOWN if value is None else value for value in found] + [_UNKNOWN] * cut
        problems = exchange.problems
        if any(each.code in DOUBTS and each.side in (None, self._side) for each in problems):
            return [_UNKNOWN]
        if line[self._side] is None or line[self._side]["complete"]:
            return found
        # More entries of a list may have been cut off, and so may the field itself.
        return [_UNKNOWN if value is _ABSENT else value for value in found] + [_UNKNOWN] * (len(found) != 1)


class VersionCondition(Condition):
    """The versions that requests of some APIs may have, by the APIs' names in any case. Raises KinspectError."""

    def __init__(self, versions: Mapping[str, Bounds]) -> None:
        self.name = "versions"
        self._versions = {_known_api(name): (name, bounds) for name, bounds in versions.items()}
        self.text = ", ".join(f"{name} {bounds.versions}" for name, bounds in versions.items())

    def verdict(self, exchange: Exchange, each: bool) -> Verdict:
        if exchange.api_key not in self._versions:
            return True
        version = exchange.api_version
        return None if version is None else self._versions[exchange.api_key][1].has(version)

    def seen(self, exchange: Exchange) -> str:
        return f"{exchange.api} v{exchange.api_version}"


def _lost_alone(exchange: Exchange) -> bool:
    """True if nothing is wrong with an exchange but that it was not captured whole."""
    if exchange.outcome in (UNANSWERED, ORPHAN):
        return exchange.outcome_reason not in UNANSWERED_FOR
    return not exchange.summary.error_counts and all(each.code in LOSSES for each in exchange.problems)


def condition_of(name: str, value: Any) -> Condition:
    """The condition that a name stands for. Raises KinspectError."""
    return FilterCondition(name, value) if name in FILTERS else KeyCondition(name, value)


def _parsed(name: str) -> tuple[str, str, Callable[[Any, Any], bool] | None]:
    """The path that a name stands for, and the comparison: its sign, and its function, None for equality."""
    stem, _, ending = name.rpartition(SEPARATOR)
    if stem and ending in COMPARISONS:
        sign, test = COMPARISONS[ending]
    else:
        stem, (sign, test) = name, ("=", None)
    path = stem.replace(SEPARATOR, ".")
    return (path if path.partition(".")[0] in LINE_KEYS else f"{REQUEST}.{BODY}.{path}"), sign, test


def _test(value: Any, compare: Callable[[Any, Any], bool] | None) -> Callable[[Any], bool]:
    """The test of a value that an exchange has."""
    if compare is operator.ne:
        is_equal = _test(value, None)
        return lambda found: not is_equal(found)
    if compare is not None:
        if not _is_number(value):
            raise KinspectError(f"{value!r} is no number to compare with")
        return lambda found: _is_number(found) and compare(found, value)
    if isinstance(value, str):
        matches = glob(value)
        return lambda found: isinstance(found, str) and matches(found)
    if value is None or isinstance(value, bool):
        return lambda found: found is value
    if _is_number(value):
        return lambda found: _is_number(found) and bool(found == value)
    if isinstance(value, range) or not isinstance(value, Iterable) or isinstance(value, bytes | Mapping):
        if isinstance(value, range):
            return lambda found: _is_number(found) and found in value
        raise KinspectError(f"{value!r} is neither a text, a number, true, false nor a list of these")
    tests = [_test(each, None) for each in value]
    return lambda found: any(test(found) for test in tests)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _alternatives(value: Any, text: Callable[[Any], str]) -> str:
    """A value, or several of which one is enough."""
    if isinstance(value, range):
        return f"{value.start} to {value.stop - 1}"
    several = isinstance(value, Iterable) and not isinstance(value, str)
    return " or ".join(map(text, value)) if several else text(value)


def _first(texts: Iterable[str]) -> list[str]:
    """The first texts; `…` stands for more."""
    found = [*islice(texts, SHOWN + 1)]
    return [*found[:SHOWN], "…"] if len(found) > SHOWN else found


def _known_api(name: str) -> int:
    api = schema.api(name)
    if api is None:
        raise unknown_api(name, schema.api_names().values())
    return api.key


def _leaves(value: Any, names: list[str]) -> Iterator[Any]:
    """The values at a path through objects and lists: `_UNKNOWN` for one that is hidden or within null, `_ABSENT` where
    there is no such key."""
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each, names)
    elif not names:
        yield value
    elif value is None:
        yield _UNKNOWN
    elif not isinstance(value, dict) or names[0] not in value:
        yield _ABSENT
    elif value[names[0]] is None and value.get(f"{names[0]}_size") is not None:
        yield _UNKNOWN
    else:
        yield from _leaves(value[names[0]], names[1:])
