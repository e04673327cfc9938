"""Filter of the listed exchanges: the filters of the command line over rows, and a connection that is followed."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any

from kinspect.facts import Facts
from kinspect.filters.filter import Filter
from kinspect.filters.values import Verdict
from kinspect.tui.index import row
from kinspect.tui.index.filterline import FilterValues
from kinspect.tui.index.row import RowValues
from kinspect.tui.index.rowfacts import RowFacts, UnkeptError
from kinspect.tui.index.store import Store
from kinspect.tui.index.texts import Texts

_VERDICTS_KEPT = 1_000_000
_NOT_KEPT = "names not kept"

RowVerdict = bool | str
"""True if a row passes; a text says what is not known of it."""


class ListFilter:
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
        self._filter = Filter(**values)
        self.active = bool(values) or quiet or connection is not None or group is not None
        asked = self._filter.asked
        tests = [(each.option, each.test.verdict) for each in asked if not each.row.timed]
        if group is not None:
            tests.insert(0, ("--group", lambda facts: group in facts.summary.groups))
        self._kept = [Verdicts(store.texts, *test) for test in tests]
        self._timed = [each for each in asked if each.row.timed]
        self.unknown: dict[str, int] = {}
        """By option, the number of rows left out because the value that it tests is not known."""

    @property
    def options(self) -> list[str]:
        """Options of the filter that leaves rows out; a group that is followed counts as one."""
        followed = [] if self.group is None else ["--group"]
        return [*dict.fromkeys((*self._filter.options, *followed))]

    def passes(self, start: int, stop: int) -> list[int]:
        """The rows from `start` to before `stop` that are listed."""
        if not self.active:
            return list(range(start, stop))
        view = memoryview(self._store.rows)[start * row.SIZE : stop * row.SIZE]
        self._filter.start = self._store.start
        connection, kept, timed, quiet = self.connection, self._kept, bool(self._timed), self.quiet
        found = []
        for index, values in enumerate(row.STRUCT.iter_unpack(view), start):
            if connection is not None and values[row.CONNECTION] != connection:
                continue
            verdict: RowVerdict | None = True
            for verdicts in kept:
                verdict = verdicts.known.get(verdicts.key(values))
                if verdict is None:
                    verdict = verdicts.find(values)
                if verdict is not True:
                    break
            if timed and verdict is True:
                verdict = self._in_time(values)
            if verdict is not True:
                if verdict:
                    self.unknown[verdict] = self.unknown.get(verdict, 0) + 1
            elif quiet and values[row.FLAGS] & row.EXPECTED:
                self.hidden += 1
            else:
                found.append(index)
        view.release()
        return found

    def _in_time(self, values: RowValues) -> RowVerdict:
        """The verdict of the filters of which none is kept."""
        facts = RowFacts(self._store.texts, values)
        for asked in self._timed:
            verdict = _verdict(asked.option, asked.test.verdict, facts)
            if verdict is not True:
                return verdict
        return True


def _verdict(option: str, test: Callable[[Facts], Verdict], facts: Facts) -> RowVerdict:
    try:
        found = test(facts)
    except UnkeptError:
        return _NOT_KEPT
    return option if found is None else found


class Verdicts:
    """The verdicts of one test. Rows that are equal in all columns that the test ever looked at have the same one."""

    def __init__(self, texts: Texts, option: str, test: Callable[[Facts], Verdict]) -> None:
        self._texts = texts
        self._option = option
        self._test = test
        self._columns = {row.FLAGS}
        self.key: Callable[[RowValues], Any] = itemgetter(row.FLAGS)
        """Function that gives a row's values in these columns."""
        self.known: dict[Any, RowVerdict] = {}
        """The verdicts by these values."""

    def find(self, values: RowValues) -> RowVerdict:
        """The verdict on a row."""
        noted = UsedColumns(values)
        verdict = _verdict(self._option, self._test, RowFacts(self._texts, noted))
        if not noted.columns <= self._columns:
            self._columns |= noted.columns
            self.key = itemgetter(*sorted(self._columns))
            self.known = {}
        if len(self.known) < _VERDICTS_KEPT:
            self.known[self.key(values)] = verdict
        return verdict


class UsedColumns:
    """The values of a row, with a note of the `columns` that were looked at."""

    def __init__(self, values: RowValues) -> None:
        self._values = values
        self.columns: set[int] = set()

    def __getitem__(self, column: int, /) -> int:
        self.columns.add(column)
        return self._values[column]
