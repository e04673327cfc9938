"""The filters that were given, as one."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import permutations
from typing import Any, NamedTuple, Protocol, Unpack

from kinspect import filteredvalues
from kinspect.errors import KinspectError
from kinspect.facts import Facts
from kinspect.filters.filterdefinitions import (
    BODIES,
    END,
    FILTERS,
    START,
    WAITS,
    End,
    FilterDefinition,
    Filters,
    FilterTest,
    option_of,
)
from kinspect.filters.values import DAY, Instant, Verdict, errors_about
from kinspect.kafka.exchange.lines import ConnectionLine, Gap

EMPTY_RANGE = "nothing is from then on and before that"
_CONNECTION_ID = r"(\[[^]]+\]|[\d.]+):(\d+)-(\[[^]]+\]|[\d.]+):(\d+)@"


class ValueForm(Protocol):
    """What a filter's value is: `metavar` is None for one that is on or off, `many`: there may be several."""

    metavar: str | None

    @property
    def many(self) -> bool: ...


class ActiveFilter(NamedTuple):
    """A filter that was given."""

    option: str
    row: FilterDefinition
    test: FilterTest


class Filter:
    """Selects the exchanges that pass every filter given.

    `needs_body`: bodies must be decoded to decide; `needs_wait`: `Exchange.wait` is asked for. `unknown` counts, by
    option, the exchanges left out because a property that the option asks for is not known of them; `seen` counts,
    until one passes, the values of the exchanges that an option left out; `start` is the time of the capture's first
    packet, which relative times need; `asked`: the filters, in the order in which they are tested.
    """

    def __init__(self, named: Callable[[str], str] = option_of, **chosen: Unpack[Filters]) -> None:
        """`named`: how messages name a filter. Raises KinspectError for a wrong value."""
        self.start: int | None = None
        self.unknown: dict[str, int] = {}
        self.seen: filteredvalues.SeenValues = {}
        self.let: list[str] = []
        """The options that the exchange that passed last passes as `exempt` let its API alone."""
        self._any_passed = False
        self._exempt_apis: Mapping[str, Collection[int | None]] = {}
        values: Mapping[str, Any] = chosen
        given = {name: value for name, value in values.items() if _is_given(FILTERS[name], value)}
        tests = {name: self._test(name, given[name], named) for name in FILTERS if name in given}
        self._moments = [
            (FILTERS[name].cuts, name, test.moment) for name, test in tests.items() if test.moment
        ]
        _check_order(self._moments, named)
        self.asked = [
            ActiveFilter(option_of(name), FILTERS[name], tests[name])
            for name in sorted(tests, key=lambda name: FILTERS[name].turn)
        ]
        self.needs_body = any(asked.row.needs in (BODIES, WAITS) for asked in self.asked)
        self.needs_wait = any(asked.row.needs == WAITS for asked in self.asked)
        self._end_tests = [asked.test.ends for asked in self.asked if asked.test.ends is not None]
        self._patterns = {asked.option: asked.test.patterns for asked in self.asked}

    def drop(self, name: str) -> None:
        """Do not ask a filter, which looks at neither ends, times nor bodies, whether it was given or not."""
        self.asked = [asked for asked in self.asked if asked.row is not FILTERS[name]]

    def _test(self, name: str, given: Any, named: Callable[[str], str]) -> FilterTest:
        with errors_about(named(name)):
            return FILTERS[name].test(given, lambda: self.start)

    @property
    def active(self) -> bool:
        """True if any option was given."""
        return bool(self.asked)

    @property
    def begin(self) -> int | None:
        """The moment from which it takes exchanges, in nanoseconds since the epoch; None without one."""
        return max(self._known(START), default=None)

    @property
    def end(self) -> int | None:
        """The moment before which it takes exchanges, in nanoseconds since the epoch; None without one."""
        return min(self._known(END), default=None)

    def _known(self, cuts: str) -> list[int]:
        moments = [moment.at(self.start) for own, _, moment in self._moments if own == cuts]
        return [moment for moment in moments if moment is not None]

    @property
    def translations(self) -> dict[str, int] | None:
        """The number of exchanges left out as they were seen before, by the addresses that were translated; None if
        these are not to be left out."""
        return next((each.test.translations for each in self.asked if each.row.of_passing), None)

    @property
    def options(self) -> list[str]:
        """Options that were given, in the order in which they are tested."""
        return [asked.option for asked in self.asked]

    @property
    def wanted(self) -> dict[str, list[str]]:
        """The patterns that exchanges are to match, of each of `options`."""
        tests = {asked.option: asked.test for asked in self.asked}
        return {name: test.patterns.wanted if test.patterns else [] for name, test in tests.items()}

    def exempt(self, exempt_apis: Mapping[str, Collection[int | None]]) -> None:
        """Let exchanges of some APIs, by their keys, pass an option."""
        self._exempt_apis = exempt_apis

    def exempt_all(self) -> None:
        """Let all exchanges pass: `let` says whether they would have."""
        self.exempt(dict.fromkeys(self.options, range(1 << 15)))

    def chooses(self, option: str, names: Sequence[str]) -> bool:
        """True if an option that takes patterns would let these names pass, or was not given."""
        patterns = self._patterns.get(option)
        return patterns is None or bool(patterns.verdict(names))

    def matches(self, facts: Facts) -> bool:
        """True if an exchange passes; counts it in `unknown` if that could not be determined."""
        self.let = []
        for asked in self.asked:
            if self.let and asked.row.of_passing:
                break
            verdict = asked.test.verdict(facts)
            if verdict:
                continue
            if not self._any_passed:
                self._see(asked, facts)
            option = asked.option
            exempt_apis = self._exempt_apis.get(option)
            if exempt_apis is not None and facts.api_key in exempt_apis:
                self.let.append(option)
                continue
            if verdict is None:
                self.unknown[option] = self.unknown.get(option, 0) + 1
            return False
        self._any_passed = self._any_passed or not self.let
        return True

    def verdict(self, facts: Facts) -> Verdict:
        """True if an exchange passes, None if that is not known; nothing is counted."""
        passes: Verdict = True
        for asked in self.asked:
            verdict = asked.test.verdict(facts)
            if verdict is False:
                return False
            passes = passes and verdict
        return passes

    def passes(self, facts: Facts) -> bool:
        """True if an exchange passes whose connection was not seen, as what an Envelope holds; nothing is counted."""
        return not self._end_tests and all(
            asked.test.verdict(facts) or facts.api_key in self._exempt_apis.get(asked.option, ())
            for asked in self.asked
        )

    def _see(self, asked: ActiveFilter, facts: Facts) -> None:
        kinds = self.seen.setdefault(asked.option, {})
        for kind, values in asked.row.left_out.items():
            filteredvalues.note(kinds, kind, values(facts))

    def matches_line(self, line: ConnectionLine | Gap) -> bool:
        """True if a line of another type passes: only the options on addresses and ports apply to it."""
        if not self._end_tests:
            return True
        if isinstance(line, ConnectionLine):
            client, broker = line.client, line.broker
        else:
            client, broker = connection_ends(line.connection_id)
        return self.matches_ends((*client, line.names.client_name), (*broker, line.names.broker_name))

    def matches_ends(self, client: End, broker: End) -> bool:
        """True if a connection between these two ends passes the options on addresses and ports."""
        return all(test(client, broker) for test in self._end_tests)


def _is_given(row: FilterDefinition, value: Any) -> bool:
    return value is not None and value is not False and (bool(value) or not row.many)


def _check_order(moments: Iterable[tuple[str, str, Instant]], named: Callable[[str], str]) -> None:
    for (cuts, first, since), (others, last, until) in permutations(moments, 2):
        # An absolute time and one relative to the capture's start can be compared only when the start is known.
        if (cuts, others, since.base) == (START, END, until.base) and since.ns >= until.ns:
            why = "times without a date are of the capture's first day" if since.base == DAY else EMPTY_RANGE
            raise KinspectError(f"{named(first)} is not before {named(last)}: {why}")


def filter_from(options: Mapping[str, Any]) -> Filter:
    """The filter with these values of `FILTERS`, by their names, as `values_from` has them. Raises KinspectError."""
    return Filter(named, **values_from(options, FILTERS))


def values_from(options: Mapping[str, Any], filters: Mapping[str, ValueForm]) -> dict[str, Any]:
    """Values of filters. A single value stands for a list of one, a number for its text; an option that is None is not
    given. Raises KinspectError."""
    if unknown := sorted(map(str, options.keys() - filters.keys())):
        raise KinspectError(f"there is no filter {', '.join(unknown)}; there are {', '.join(filters)}")
    return {name: _given(name, value, filters[name]) for name, value in options.items() if value is not None}


def named(name: str) -> str:
    """A filter as messages for programs name it."""
    return f"filter {name}"


def _given(name: str, value: Any, row: ValueForm) -> Any:
    if row.metavar is None:
        if not isinstance(value, bool):
            raise KinspectError(f"{named(name)}: {value!r} is neither True nor False")
        return value
    if row.many and isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_text(name, each) for each in value]
    text = _text(name, value)
    return [text] if row.many else text


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | datetime):
        raise KinspectError(f"{named(name)}: {value!r} is not a text")
    return str(value)


def connection_ends(connection_id: str) -> tuple[tuple[str, int], tuple[str, int]]:
    """Client and broker named by a connection id. Raises ValueError for text that is no connection id."""
    match = re.match(_CONNECTION_ID, connection_id, re.ASCII)
    if match is None:
        raise ValueError(connection_id)
    client_ip, client_port, broker_ip, broker_port = match.groups()
    return (client_ip.strip("[]"), int(client_port)), (broker_ip.strip("[]"), int(broker_port))
