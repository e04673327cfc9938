"""The filters of rows of records, as a table: `RECORD_FILTERS`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kinspect.errors import KinspectError
from kinspect.filteredvalues import ValueCounts, count_values
from kinspect.filters.filterdefinitions import FILTERS, Filters, Text, Texts, option_of
from kinspect.filters.timedpattern import TimedPattern
from kinspect.filters.values import (
    DIRECTIONS,
    PRODUCED,
    Patterns,
    Predicate,
    TopicId,
    Verdict,
    errors_about,
    glob,
    parse_moment,
    topic_predicate,
    word_predicate,
)
from kinspect.kafka.view.view import iso_time
from kinspect.payloads.payloadforms import DECODED, UNNAMED

COMMITTED = ("committed", "none")
"""Outcomes of transactions whose records a consumer gets that reads committed ones."""
SEARCH = "re:"
_RANGE = r"(\d{0,19})\.\.(\d{0,19})|(\d{1,19})"
_BETWEEN = "\0"
_NULL = "\1"
"""Stand between a header's key and its value in the text that patterns match, and behind the key of a null one."""

Row = dict[str, Any]
RowTest = Callable[[Row], Verdict]
Known = Callable[[Row], tuple[Sequence[str], bool]]
Start = Callable[[], int | None]


class _Prepared(NamedTuple):
    """A search, and the texts of a row that are searched."""

    pattern: TimedPattern
    texts: Callable[[Row], Iterable[str]]


@dataclass(eq=False, repr=False, kw_only=True)
class RecordFilterDefinition:
    """A filter of rows. `help`: its line in `--help`; `metavar`: what stands for its value there, None: it has none;
    `check`: the test of a value; `known`: the texts of a row, and whether these are all; `words`: the values that there
    are; `commas`: they stand between values; `payload`: it looks at keys and values; `kind`: what values
    are, where those that there are may be told."""

    help: str
    metavar: str | None = "PATTERN"
    check: Callable[[str], Predicate] = glob
    known: Known = lambda _: ((), True)
    words: Callable[[], Iterable[str]] | None = None
    commas: bool = True
    payload: bool = False
    kind: str = ""
    all_offered: ClassVar[bool] = True

    @property
    def many(self) -> bool:
        """True if it may have several values."""
        return self.metavar is not None and self is not RECORD_TIME


def text_predicate(value: str) -> Predicate:
    """A glob, or behind `re:` a regular expression that a text is searched for."""
    if not value.startswith(SEARCH):
        return glob(value)
    return TimedPattern(value.removeprefix(SEARCH))


class _HeaderTest:
    """The test of a header's key and, if there is one, of its value."""

    def __init__(self, value: str) -> None:
        name, equals, wanted = value.partition("=")
        if not name:
            raise KinspectError(f"{value!r} has no name of a header: give NAME=PATTERN, or NAME")
        self._begin, self._null = f"{name}{_BETWEEN}", f"{name}{_NULL}"
        self.inner = text_predicate(wanted) if equals else None

    def __call__(self, text: str) -> bool:
        if self.inner is None:
            return text.startswith(self._begin) or text == self._null
        return text.startswith(self._begin) and self.inner(self.value(text))

    def value(self, text: str) -> str:
        return text[len(self._begin) :]

    def values(self, texts: Iterable[str]) -> Iterable[str]:
        """The values of these texts that are of its key."""
        return (self.value(text) for text in texts if text.startswith(self._begin))


def range_predicate(value: str) -> Predicate:
    """A number, or a range of numbers with both its ends."""
    match = re.fullmatch(_RANGE, value, re.ASCII)
    if match is None or value == "..":
        raise KinspectError(f"{value!r} is no number and no range: give 5, 5..9, 5.. or ..9")
    least, most = int(match[3] or match[1] or 0), int(match[3] or match[2] or 1 << 64)
    if least > most:
        raise KinspectError(f"{value!r} is empty: the first number is the greater one")
    return lambda text: least <= int(text) <= most


def _text(name: str) -> Known:
    """Key or value, and what it is by its schema, unless it is a secret that is not shown."""

    def known(row: Row) -> tuple[Sequence[str], bool]:
        text, (_, decoded) = row[name], row.get(DECODED, {}).get(name, UNNAMED)
        if text is None:
            return (), row[f"{name}_size"] is None
        return (text,) if decoded.json is None else (text, decoded.json.decode()), True

    return known


def _one(name: str) -> Known:
    return lambda row: ((), False) if row[name] is None else ((str(row[name]),), True)


def _group(row: Row) -> tuple[Sequence[str], bool]:
    """Producers are in no group."""
    return ((), True) if row["direction"] == PRODUCED else _one("group")(row)


def _headers(row: Row) -> tuple[Sequence[str], bool]:
    return [
        f"{each['key']}{_NULL}" if each["value"] is None else f"{each['key']}{_BETWEEN}{each['value']}"
        for each in row["headers"]
    ], True


def _topic(row: Row) -> tuple[Sequence[str], bool]:
    name, topic_id = row["topic"], row["topic_id"]
    return [
        *([] if name is None else [name]),
        *([] if topic_id is None else [TopicId(topic_id)]),
    ], name is not None


RECORD_TIME = RecordFilterDefinition(
    help="Record timestamps from FROM on and before UNTIL, times as those of --since; either may be left out.",
    metavar="FROM..UNTIL",
)
RECORD_FILTERS: dict[str, RecordFilterDefinition] = {
    "key": RecordFilterDefinition(
        help="Keys: a glob, or re: and a regular expression. Commas are part of it; repeatable.",
        check=text_predicate,
        known=_text("key"),
        commas=False,
        payload=True,
    ),
    "value": RecordFilterDefinition(
        help="Values, likewise.", check=text_predicate, known=_text("value"), commas=False, payload=True
    ),
    "header": RecordFilterDefinition(
        help="Headers of this name, with values likewise; NAME alone: of any value, or null.",
        metavar="NAME=PATTERN",
        check=_HeaderTest,
        known=_headers,
        commas=False,
        payload=True,
    ),
    "topic": RecordFilterDefinition(
        help="Topics, by name or whole id.", check=topic_predicate, known=_topic, kind="topics"
    ),
    "partition": RecordFilterDefinition(
        help="Partitions: 0, or 0..3 with both ends.",
        metavar="A..B",
        check=range_predicate,
        known=_one("partition"),
    ),
    "offset": RecordFilterDefinition(
        help="Offsets, likewise.", metavar="A..B", check=range_predicate, known=_one("offset")
    ),
    "record_time": RECORD_TIME,
    "group": RecordFilterDefinition(
        help="Groups that records were fetched for.", known=_group, kind="groups"
    ),
    "direction": RecordFilterDefinition(
        help=f"How records went: {', '.join(DIRECTIONS)}.",
        check=word_predicate("direction", DIRECTIONS),
        known=_one("direction"),
        words=lambda: DIRECTIONS,
    ),
    "committed": RecordFilterDefinition(
        help="Only records that a consumer with isolation level read_committed gets.", metavar=None
    ),
}
"""The filters of rows by name, in the order of the help. Those that have the name of a filter of exchanges stand in its
place: an exchange may have records of several topics."""
SHARED = frozenset(RECORD_FILTERS.keys() & FILTERS.keys())


class RecordFilters(Filters, total=False):
    """Filters of records and of their exchanges by name, with their values: `{"key": "user-*", "partition": 0}`."""

    key: Texts | None
    value: Texts | None
    header: Texts | None
    partition: Texts | None
    offset: Texts | None
    record_time: Text | None
    direction: Texts | None
    committed: bool | None


class LeftOut(NamedTuple):
    """The values of rows that a filter left out. `wanted`: what it was given."""

    kind: str
    wanted: list[str]
    counts: ValueCounts
    known: Known

    def add(self, row: Row) -> None:
        """Add the first value of a row."""
        count_values(self.counts, self.known(row)[0][:1])


class RecordFilter:
    """Chooses rows by the filters that were given. `unknown` counts rows that an option left out as what it asks for is
    not known of them; `seen`: values of those that it left out; `left_out`: the options that left any out;
    `needs_payload`: rows must have keys and values."""

    def __init__(
        self, given: Mapping[str, Any], start: Start, named: Callable[[str], str] = option_of
    ) -> None:
        """`start` gives the time of the capture's first packet; `named`: how messages name a filter. Raises
        KinspectError for a wrong value."""
        self.unknown: dict[str, int] = {}
        self.seen: dict[str, LeftOut] = {}
        self.left_out: set[str] = set()
        self._start = start
        self._prepared: list[_Prepared] = []
        self._tests: list[tuple[str, RowTest]] = []
        self.committed = bool(given.get("committed"))
        self.needs_payload = any(RECORD_FILTERS[name].payload for name in RECORD_FILTERS if given.get(name))
        for name, row in RECORD_FILTERS.items():
            if given.get(name) and name != "committed":
                with errors_about(named(name)):
                    test = (
                        self._time_test(given[name]) if row is RECORD_TIME else self._test(row, given[name])
                    )
                self._tests.append((option_of(name), test))
                if row.kind:
                    self.seen[option_of(name)] = LeftOut(row.kind, [*given[name]], {}, row.known)
        # What looks at texts of any size, or asks another process, comes last.
        texts = {option_of(name) for name, row in RECORD_FILTERS.items() if row.payload}
        self._text_tests = [each for each in self._tests if each[0] in texts]
        self._tests = [each for each in self._tests if each[0] not in texts]

    def choose(self, rows: list[Row], decode: Callable[[list[Row]], object]) -> list[Row]:
        """Those that pass, whatever became of their transactions. `decode` is given rows before their payloads are
        looked at."""
        found = [row for row in rows if self._passes(self._tests, row)] if self._tests else rows
        if found and self.needs_payload:
            decode(found)
            for pattern, texts in self._prepared:
                pattern.prepare([text for row in found for text in texts(row)])
            found = [row for row in found if self._passes(self._text_tests, row)]
        return found

    def passes(self, row: Row) -> bool:
        """Whether a row passes whose transaction's outcome is there, if it is known. A produced record without an
        offset may not have been written."""
        if not self.committed:
            return True
        is_written = row["offset"] is not None or row["direction"] != PRODUCED
        outcome = row["transaction"]
        if outcome is None or (outcome in COMMITTED and not is_written):
            self._count("--committed")
            return False
        return outcome in COMMITTED

    @property
    def options(self) -> list[str]:
        """The options, in the order in which they are asked."""
        return [option for option, _ in (*self._tests, *self._text_tests)]

    @property
    def looks(self) -> bool:
        """True if it looks at rows before their transactions' outcomes are there."""
        return bool(self._tests or self._text_tests)

    @property
    def slow(self) -> int:
        """Texts whose search took too long."""
        return sum(each.pattern.slow for each in self._prepared)

    def close(self) -> None:
        """End what searches."""
        for each in self._prepared:
            each.pattern.close()

    def _passes(self, tests: list[tuple[str, RowTest]], row: Row) -> bool:
        for option, test in tests:
            verdict = test(row)
            if not verdict:
                self.left_out.add(option)
                if option in self.seen:
                    self.seen[option].add(row)
                if verdict is None:
                    self._count(option)
                return False
        return True

    def _count(self, option: str) -> None:
        self.unknown[option] = self.unknown.get(option, 0) + 1

    def _test(self, row: RecordFilterDefinition, values: Iterable[str]) -> RowTest:
        known = row.known

        def check(value: str) -> Predicate:
            predicate = row.check(value)
            header = predicate if isinstance(predicate, _HeaderTest) else None
            search = predicate if header is None else header.inner
            if isinstance(search, TimedPattern):
                texts = (
                    (lambda row: known(row)[0])
                    if header is None
                    else lambda row: header.values(known(row)[0])
                )
                self._prepared.append(_Prepared(search, texts))
            return predicate

        patterns = Patterns(values, check, row.commas)
        return lambda row: patterns.verdict(*known(row))

    def _time_test(self, value: str) -> RowTest:
        first, dots, last = value.partition("..")
        if not dots or not (first or last):
            raise KinspectError(f"{value!r} is no range of times: give FROM..UNTIL, FROM.. or ..UNTIL")
        since, until = (parse_moment(each) if each else None for each in (first, last))

        def test(row: Row) -> Verdict:
            time, start = row["record_timestamp"], self._start()
            # Texts of one form, which compare as their times do.
            begin, end = (None if each is None else iso_time(each.at(start)) for each in (since, until))
            if time is None or (since and begin is None) or (until and end is None):
                return None
            return (begin is None or time >= begin) and (end is None or time < end)

        return test
