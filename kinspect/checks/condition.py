"""What exchanges are asked for by name: a filter, or a key of their lines with the value that it is to have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from kinspect.checks.askedvalue import COMPARISONS, NUMBER, OBJECT, TEXT, TRUTH, AskedValue
from kinspect.checks.bounds import Bounds
from kinspect.errors import KinspectError
from kinspect.filteredvalues import LARGEST
from kinspect.filters.filter import filter_from
from kinspect.filters.filterdefinitions import FILTERS
from kinspect.filters.values import Verdict, errors_about, unknown_api
from kinspect.jsontext import json_text
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view import fieldnames
from kinspect.kafka.view.forms import BODY
from kinspect.kafka.view.view import DEEPER, LINE_KEYS, SHAPES, View, milliseconds
from kinspect.kafka.wire.pair import KINDS, ORPHAN, OUTCOMES, REASONS, UNANSWERED
from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol import schema
from kinspect.wording import listed

SEPARATOR: Final = "__"
"""Stands for the dot of a path, and before the name of a comparison: Python's keywords have no dots."""
DOUBTS: Final = frozenset({"malformed", "unsure_layout", "uncertain_pairing"})
"""Problems of messages whose fields may be those of another layout, or of another request."""
LOSSES: Final = frozenset({"gap", "truncated_capture", "cap"})
"""Problems of what was captured, which say nothing of what was sent."""
UNANSWERED_FOR: Final = frozenset({"closed", "reset", "idle"})
"""Reasons for no response that lie with the connection, not with what was captured."""
WORDS: Final = {"outcome": OUTCOMES, "outcome_reason": REASONS, "kind": KINDS}
"""Keys that have one of some words."""
KINDS_OF_TYPES: Final = {
    **dict.fromkeys(("string", "uuid", "bytes"), TEXT),
    "bool": TRUTH,
    **dict.fromkeys((fieldnames.RECORDS, fieldnames.DERIVED_TYPE), ""),
}
"""What values of fields are called, by the types that are no numbers and no structs; empty: anything."""
OPTIONAL: Final = "outcome_reason"
"""A key that is null where there is nothing to say."""
API, ERRORS_ONLY, WAIT = "api", "errors_only", "wait"
"""Filters that are not like the others."""
SHOWN: Final = 3
"""Most values of one exchange that are told."""
NAMING: Final = ("topics", "partitions", "topic_records")
"""Keys of lines that have a topic's id in the place of a name that is not known."""
_UNKNOWN, _ABSENT, _NULL = object(), object(), object()
_CUT: Final = "truncated_lists"
_IDS: Final = "topic_ids"


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

    def mistake(self) -> str:
        """Why no exchange can have it, by those that were asked; empty if one can."""
        return ""


class FilterCondition(Condition):
    """A filter of `kinspect.filters` with its values. Raises KinspectError."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._filter = filter_from({name: value})
        if not self._filter.active:
            raise KinspectError(f"{name}: has no value")
        several = isinstance(value, Iterable) and not isinstance(value, str)
        values = " or ".join(map(str, value)) if several else value
        self.text = name if FILTERS[name].metavar is None else f"{name} = {values}"

    def begin(self, start: int | None) -> None:
        self._filter.start = start

    def verdict(self, exchange: Exchange, each: bool) -> Verdict:
        verdict = self._filter.verdict(exchange)
        if verdict and self.name == ERRORS_ONLY and _lost_alone(exchange):
            return None
        return None if verdict is False and self.name == WAIT and _lost_other(exchange) else verdict

    def apis(self) -> list[schema.Api] | None:
        """The APIs that it chooses by name; None if it is another filter."""
        patterns = self._filter.asked[0].test.patterns
        if self.name != API or patterns is None:
            return None
        return [api for api in schema.apis() if patterns.verdict((api.name.lower(), str(api.key)))]

    def seen(self, exchange: Exchange) -> str:
        if self.name == ERRORS_ONLY:
            return _wrong(exchange)
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
        path, ending = _parsed(name)
        self._path = path.split(".")
        self._label = path.removeprefix(f"{REQUEST}.{BODY}.")
        self._in_body = self._path[1:2] == [BODY]
        self._side = self._path[0]
        more = [f"{path}_size", f"{self._side}.complete"] if self._in_body else [_CUT, _IDS]
        with errors_about(name):
            self._view = View(fields=[path, *more])
            self._asked = AskedValue(value, ending, WORDS.get(path, ()))
            below = () if self._in_body else SHAPES.get(path) or DEEPER.get(self._path[-1], ())
            if below and self._asked.asked:
                raise KinspectError(
                    f"is an object: ask for one of {', '.join(f'{path}.{each}' for each in below)}"
                )
        self.text = f"{self._label} {self._asked.text}"

    def check_field(self, apis: Sequence[schema.Api] | None) -> None:
        """Raises KinspectError for a field of bodies that no version of these APIs has, and for values of another kind
        than the field's; None: of all APIs."""
        if not self._in_body or not self._path[2:] or apis == []:
            return
        types = fieldnames.types_at(schema.apis() if apis is None else apis, self._side, self._path[2:])
        of = "no API" if apis is None else f"no version of {listed([api.name for api in apis])}"
        if not types:
            raise KinspectError(
                f"{self.name}: {of} has a field {self._label!r} in its {self._side};"
                f" fields of responses begin with {RESPONSE}.{BODY}"
            )
        kinds = {_kind_of_type(each) for each in types}
        if not kinds & {"", OBJECT, *self._asked.kinds} and "" not in self._asked.kinds:
            raise KinspectError(
                f"{self.name}: is {' or '.join(sorted(kinds))}, and never {self._asked.asked}"
            )

    def mistake(self) -> str:
        return self._asked.mistake(self._label)

    def verdict(self, exchange: Exchange, each: bool) -> Verdict:
        found = self._found(exchange)
        # Of what is absent nothing is equal, or less.
        verdicts = [
            None if one is _UNKNOWN else one is not _ABSENT and self._asked.test(one) for one in found
        ]
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
        for value in found:
            if value not in (_UNKNOWN, _ABSENT, _NULL):
                self._asked.note(value)
        if not self._in_body:
            if _OF_WHOLE.get(self._path[-1], _nothing)(exchange):
                return [_UNKNOWN]
            if self._path == [OPTIONAL]:
                return found
            cut = isinstance(line[self._side], list) and line[_CUT]
            ids = line[_IDS] if self._side in NAMING else ()
            known = [
                _UNKNOWN if value in (None, _NULL) or _names_id(value, ids) else value for value in found
            ]
            return known + [_UNKNOWN] * cut
        problems = exchange.problems
        if any(each.code in DOUBTS and each.side in (None, self._side) for each in problems):
            return [_UNKNOWN]
        if line[self._side] is None:
            return [_UNKNOWN]
        if line[self._side]["complete"]:
            return [_ABSENT if value is _NULL else value for value in found]
        # More entries of a list may have been cut off, and so may the field itself.
        known = [_UNKNOWN if value in (_ABSENT, _NULL) else value for value in found]
        return known + [_UNKNOWN] * _has_list(line, self._path)


class VersionCondition(Condition):
    """The versions that requests of some APIs may have, by the APIs' names in any case. Raises KinspectError."""

    def __init__(self, versions: Mapping[str, Bounds]) -> None:
        self.name = "versions"
        self._versions: dict[int, Bounds] = {}
        for name, bounds in versions.items():
            if (key := _known_api(name)) in self._versions:
                raise KinspectError(f"{name} is named twice")
            self._versions[key] = bounds
        self.text = ", ".join(f"{name} {bounds.versions}" for name, bounds in versions.items())

    def verdict(self, exchange: Exchange, each: bool) -> Verdict:
        if exchange.api_key not in self._versions:
            return True
        version = exchange.api_version
        return None if version is None else self._versions[exchange.api_key].has(version)

    def seen(self, exchange: Exchange) -> str:
        return f"{exchange.api} v{exchange.api_version}"


def _lost_other(exchange: Exchange) -> bool:
    """True if the request or the response of an exchange may have been there, and was not captured."""
    return exchange.outcome in (UNANSWERED, ORPHAN) and exchange.outcome_reason not in UNANSWERED_FOR


def _lost_some(exchange: Exchange) -> bool:
    """True if some of an exchange was not captured."""
    return _lost_other(exchange) or any(each.code in LOSSES for each in exchange.problems)


def _lost_alone(exchange: Exchange) -> bool:
    """True if nothing is wrong with an exchange but that it was not captured whole."""
    if _lost_other(exchange):
        return True
    if exchange.outcome in (UNANSWERED, ORPHAN):
        return False
    return not exchange.summary.error_counts and all(each.code in LOSSES for each in exchange.problems)


def _others_lost(exchange: Exchange) -> bool:
    """True if it is not known which requests of its connection waited as it was sent."""
    return not exchange.queue_known or _lost_other(exchange)


def _nothing(_: Exchange) -> bool:
    return False


_OF_WHOLE: Final[dict[str, Callable[[Exchange], bool]]] = {
    "outcome": _lost_other,
    "outcome_reason": _lost_other,
    "in_flight": _others_lost,
    "role": _lost_some,
    **dict.fromkeys("truncated_lists problem_count problems code complete inferred".split(), _lost_some),
}
"""Keys of lines that say how much was captured, with the exchanges of which they say nothing else."""


def _wrong(exchange: Exchange) -> str:
    """What is wrong with an exchange: its errors, else its outcome, else its problems."""
    if names := _first(
        dict.fromkeys(schema.error_name(code, exchange.api_key) for code in exchange.summary.error_counts)
    ):
        return ", ".join(names)
    if exchange.outcome in (UNANSWERED, ORPHAN):
        return f"{exchange.outcome} ({exchange.outcome_reason})"
    return ", ".join(_first(dict.fromkeys(each.code for each in exchange.problems))) or "no error"


def condition_of(name: str, value: Any) -> Condition:
    """The condition that a name stands for. Raises KinspectError."""
    return FilterCondition(name, value) if name in FILTERS else KeyCondition(name, value)


def _kind_of_type(name: str) -> str:
    """What values of a field of a type are called."""
    return KINDS_OF_TYPES.get(name, OBJECT if name[:1].isupper() else NUMBER)


def _parsed(name: str) -> tuple[str, str]:
    """The path that a name stands for, and the name of the comparison, empty for equality. Raises KinspectError."""
    stem, _, ending = name.rpartition(SEPARATOR)
    if not stem or ending not in COMPARISONS:
        stem, ending = name, ""
    elif stem in FILTERS:
        raise KinspectError(
            f"{name}: {stem} is a filter, which has no comparisons: a pattern with ! leaves out"
        )
    path = stem.replace(SEPARATOR, ".")
    return (path if path.partition(".")[0] in LINE_KEYS else f"{REQUEST}.{BODY}.{path}"), ending


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
    """The values at a path through objects and lists: `_UNKNOWN` for one that is hidden, `_NULL` for one within null,
    `_ABSENT` where there is no such key."""
    if isinstance(value, list):
        for each in value:
            yield from _leaves(each, names)
    elif not names:
        yield value
    elif value is None:
        yield _NULL
    elif not isinstance(value, dict) or names[0] not in value:
        yield _ABSENT
    elif value[names[0]] is None and value.get(f"{names[0]}_size") is not None:
        yield _UNKNOWN
    else:
        yield from _leaves(value[names[0]], names[1:])


def _has_list(value: Any, names: list[str]) -> bool:
    """True if a path leads through a list, or to one."""
    for name in names:
        if not isinstance(value, dict):
            break
        value = value.get(name)
    return isinstance(value, list)


def _names_id(value: Any, ids: Sequence[str]) -> bool:
    """True for a topic's id, or a partition of it."""
    return isinstance(value, str) and (value in ids or value.rpartition("-")[0] in ids)
