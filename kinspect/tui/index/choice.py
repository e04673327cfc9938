"""Choice of the listed exchanges: the filters of the command line over rows, and a connection that is followed.

A filter's verdict is the same for all rows with the same API, client, connection, names and outcome, so it is found
once for each such combination; only times are tested for each row.
"""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from kinspect.errors import KinspectError
from kinspect.filters import Filter
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.tui.index import row
from kinspect.tui.index.row import NONE, Row
from kinspect.tui.index.store import Store, row_api_name
from kinspect.tui.index.texts import UNKEPT

_PARAMETERS = inspect.signature(Filter).parameters
OPTIONS = {name.replace("_", "-"): name for name in _PARAMETERS}
"""Parameters of `Filter` by the names of filters as they are written."""
FLAGS = frozenset(name for name, parameter in _PARAMETERS.items() if parameter.default is False)
MANY = frozenset(name for name, parameter in _PARAMETERS.items() if parameter.default == ())
_OF_EACH_ROW = ("min_latency", "min_service", "since", "until")
_VERDICTS_KEPT = 1_000_000

FilterValues = dict[str, Any]


def parse_filter(text: str) -> FilterValues:
    """The arguments of `Filter` in `--api Fetch --errors-only` or `api=Fetch errors-only`. Raises KinspectError."""
    values: FilterValues = {}
    for name, value in _pairs(text):
        option = OPTIONS[name]
        if option in MANY:
            values.setdefault(option, []).append(value)
        else:
            values[option] = True if value is None else value
    Filter(**values)
    return values


def narrowed(text: str, more: Mapping[str, str | None]) -> str:
    """The filter `text` with other values of some filters (None for one without a value), in place of those that it
    has. Raises KinspectError for an error in it."""
    kept = [(name, value) for name, value in _pairs(text) if name not in more]
    return " ".join(_written(name, value) for name, value in (*kept, *more.items()))


def _written(name: str, value: str | None) -> str:
    if value is None:
        return name
    word = f"{name}={value}"
    return shlex.quote(word) if any(character in "\"'\\ \t" for character in word) else word


def _pairs(text: str) -> Iterator[tuple[str, str | None]]:
    """The filters in a text with their values; None for one that takes none."""
    try:
        words = iter(shlex.split(text))
    except ValueError:
        raise KinspectError("a quote is not closed") from None
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        option = OPTIONS.get(name)
        if option is None:
            raise KinspectError(f"there is no filter {name!r}; there are {', '.join(OPTIONS)}")
        if option in FLAGS:
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


class Choice:
    """Selects the rows to list. `connection`: only this connection's (its number among the texts); `group`: only those
    that name it; `quiet`: none that is expected, see `row.EXPECTED`."""

    def __init__(
        self,
        store: Store,
        values: FilterValues,
        connection: int | None = None,
        group: str | None = None,
        quiet: bool = False,
    ) -> None:
        self._store = store
        self.connection = connection
        self.group = group
        self.quiet = quiet
        self.hidden = 0
        """Number of rows that are left out as expected."""
        # By number of the names: true if they have the group.
        self._of_group: dict[int, bool] = {}
        self._each = Filter(**{name: value for name, value in values.items() if name in _OF_EACH_ROW})
        self._shared = Filter(**{name: value for name, value in values.items() if name not in _OF_EACH_ROW})
        self.active = bool(values) or quiet or connection is not None or group is not None
        # The verdict and the option whose value is not known, by the values that decide them.
        self._verdicts: dict[tuple[int, ...], tuple[bool, str | None]] = {}
        self.unknown: dict[str, int] = {}
        """By option, the number of rows left out because the value that it tests is not known."""

    @property
    def options(self) -> list[str]:
        """Options of the filter that leaves rows out; a group that is followed counts as one."""
        followed = [] if self.group is None else ["--group"]
        return [*dict.fromkeys((*self._each.options, *self._shared.options, *followed))]

    def passes(self, start: int, stop: int) -> list[int]:
        """The rows from `start` to before `stop` that are listed."""
        if not self.active:
            return list(range(start, stop))
        view = memoryview(self._store.rows)[start * row.SIZE : stop * row.SIZE]
        shared, each = self._shared.active, self._each.active
        self._each.start = self._store.start
        verdicts = self._verdicts
        found = []
        for index, values in enumerate(row.STRUCT.iter_unpack(view), start):
            connection = values[row.CONNECTION]
            if self.connection is not None and connection != self.connection:
                continue
            if self.group is not None and not self._names_group(values[row.SUBJECT]):
                continue
            if shared:
                key = (
                    values[row.FLAGS],
                    connection,
                    values[row.CLIENT],
                    values[row.SUBJECT],
                    values[row.FAULT],
                    values[row.SESSION],
                    values[row.API],
                )
                verdict = verdicts.get(key)
                if verdict is None:
                    verdict = self._verdict(index)
                    if len(verdicts) < _VERDICTS_KEPT:
                        verdicts[key] = verdict
                passed, unknown = verdict
                if not passed:
                    if unknown is not None:
                        self.unknown[unknown] = self.unknown.get(unknown, 0) + 1
                    continue
            if each and not self._passes_each(values):
                continue
            if self.quiet and values[row.FLAGS] & row.EXPECTED:
                self.hidden += 1
                continue
            found.append(index)
        view.release()
        return found

    def _names_group(self, subject: int) -> bool:
        found = self._of_group.get(subject)
        if found is None:
            found = self._of_group[subject] = self.group in self._store.groups(subject)
        return found

    def _verdict(self, index: int) -> tuple[bool, str | None]:
        """The verdict of the shared filters on a row, and the option whose value is not known, if there is one."""
        found = self._store[index]
        if UNKEPT in (found.connection, found.client):
            return False, "names not kept"
        before = dict(self._shared.unknown)
        # It has all attributes of an exchange that filters use.
        passed = self._shared.matches(cast(Exchange, _FilteredRow(self._store, found)))
        unknown = (name for name, count in self._shared.unknown.items() if before.get(name) != count)
        return passed, next(unknown, None)

    def _passes_each(self, values: row.RowValues) -> bool:
        passed = self._each.matches(cast(Exchange, _Timed(values)))
        if not passed:
            self.unknown.update(self._each.unknown)
        return passed


class _Timed:
    """The times of a row in the shape of an `Exchange`, for filters."""

    __slots__ = ("_values",)

    def __init__(self, values: row.RowValues) -> None:
        self._values = values

    @property
    def outcome(self) -> str:
        return row.OUTCOMES[self._values[row.FLAGS] & 3]

    @property
    def timestamp(self) -> int | None:
        return row.timestamp_of(self._values)

    @property
    def latency_ns(self) -> int | None:
        return row.latency_of(self._values)

    @property
    def service_ns(self) -> int | None:
        return row.service_of(self._values)

    @property
    def completed_at(self) -> int | None:
        return _time(self._values[row.COMPLETED_AT])

    @property
    def request(self) -> _Timed | None:
        return self if self._values[row.FLAGS] >> row.REQUEST_AT & row.PRESENT else None

    @property
    def last_time(self) -> int | None:
        """Time of the request's last byte."""
        return _time(self._values[row.REQUEST_LAST])


def _time(time: int) -> int | None:
    return None if time == NONE else time


class _FilteredRow:
    """A row in the shape of an `Exchange`, for filters."""

    def __init__(self, store: Store, found: Row) -> None:
        has_api = bool(found.flags & row.HAS_API)
        self.api_key = found.api_key if has_api else None
        self.api = row_api_name(found)
        client = store.texts[found.client] or [None] * 6
        self.client_id, self.role, self.principal, _, self.software_name, self.software_version = client
        self.connection = _Ends(*store.connection(found)[:4])
        self.outcome, self.outcome_reason, self.wait = found.outcome, found.reason, found.wait
        self.problems = bool(found.flags & row.FAILED)
        topics, ids, unresolved, _, groups, *_ = store.texts[found.subject] or ((), (), (), (), ())
        codes, *_ = store.texts[found.fault] or ((),)
        self.summary = _Names(topics, ids, unresolved, groups, codes)
        self.session_topics, self.fetched = store.session(found)
        kept = UNKEPT not in (found.subject, found.fault, found.session)
        (_, request_bits), (_, response_bits) = found.sides
        self.request = _Body(request_bits, kept) if request_bits & row.PRESENT else None
        self.response = _Body(response_bits, kept) if response_bits & row.PRESENT else None


class _Ends:
    def __init__(self, client_ip: str, client_port: int, broker_ip: str, broker_port: int) -> None:
        self.client_ip, self.client_port = client_ip, client_port
        self.broker_ip, self.broker_port = broker_ip, broker_port


class _Names:
    refusal = None  # `problems` has the failures

    def __init__(
        self,
        topics: Sequence[str],
        ids: Sequence[str],
        unresolved: Sequence[str],
        groups: Sequence[str],
        codes: Sequence[int],
    ) -> None:
        self.topics, self.topic_ids, self.unresolved_topic_ids, self.groups = topics, ids, unresolved, groups
        self.error_codes = codes


class _Body:
    def __init__(self, bits: int, kept: bool) -> None:
        self.complete = bool(bits & row.READ) and kept

    def decode(self) -> _Body:
        return self
