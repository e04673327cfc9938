"""The rows of records that a filter chooses, with keys, values and headers in the form that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

from kinspect.analysis.heldrows import Rows
from kinspect.analysis.recordrows import RecordLines, RecordRows, SeenOffsets
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Gap, Line
from kinspect.kafka.view.view import View
from kinspect.payloads.payloadforms import HIDDEN, TEXT, PayloadForms
from kinspect.sink import CONNECTION, EXCHANGE, GAP

LINES: Final = frozenset({EXCHANGE, CONNECTION, GAP})
"""Types of the lines that are taken."""


class ChosenRecords:
    """Makes rows of a run's lines, as `RecordRows`. `choice` chooses rows, with keys and values as text if it
    `needs_payload`; `forms`: how those are shown, if not as the view does. `found`: rows, chosen or not."""

    def __init__(
        self,
        view: View,
        choice: Callable[[Rows], Rows],
        needs_payload: bool,
        control: bool = False,
        forms: PayloadForms | None = None,
    ) -> None:
        self.found = 0
        self._choice = choice
        self._forms = forms or PayloadForms(view.payload)
        needed = TEXT if needs_payload or self._forms.form != HIDDEN else HIDDEN
        shown = View(payload=needed, show_secrets=view.show_secrets)
        self.rows = RecordRows(RecordLines(shown), self.choose, control)

    def take(self, line: Line, shows: bool = True) -> Iterator[Rows]:
        """Take the next line, and give the rows that it decides, a batch's at a time; an exchange without `shows` only
        says something about others."""
        if isinstance(line, Exchange):
            return self.rows.take(line, shows)
        if isinstance(line, Gap):
            self.rows.take_gap(line)
        else:
            self.rows.take_connection(line)
        return iter(())

    def choose(self, rows: Rows) -> Rows:
        """The rows of a batch that are chosen, as they are shown."""
        self.found += len(rows)
        found = self._choice(rows)
        self._forms.convert(found)
        return found


class RowChoice(Protocol):
    """What chooses rows: `RecordFilter`."""

    needs_payload: bool
    committed: bool
    decode: Callable[[Rows], object]

    def choose(self, rows: Rows) -> Rows: ...

    def passes(self, row: dict[str, Any]) -> bool: ...

    def close(self) -> None: ...


class PassingRecords:
    """Gives the rows of a run's lines that `choice` chooses, and lets pass with what became of their transaction.
    `forms`: how keys and values are shown; `once`: each topic, partition and offset once; `control`: control records
    too.

    `found`: rows, chosen or not; `behind`: those that `choice` leaves out as they stand behind an open transaction;
    `unplaced`: those that `once` leaves out, as their offset is not known."""

    def __init__(
        self,
        view: View,
        choice: RowChoice,
        forms: PayloadForms,
        *,
        once: bool = False,
        control: bool = False,
    ) -> None:
        self.behind = self.unplaced = 0
        self._choice = choice
        self._forms = forms
        choice.decode = forms.decode
        self._seen = SeenOffsets() if once else None
        self._records = ChosenRecords(view, choice.choose, choice.needs_payload, control, forms)

    @property
    def found(self) -> int:
        return self._records.found

    @property
    def undecided(self) -> int:
        """Batches whose transaction there was no room to wait for."""
        return self._records.rows.undecided

    @property
    def forgotten(self) -> int:
        """Partitions for whose offsets `once` had no room."""
        return 0 if self._seen is None else self._seen.forgotten

    def take(self, line: Line, shows: bool = True) -> Iterator[Iterable[dict[str, Any]]]:
        """Take the next line, as `ChosenRecords`."""
        return map(self._passing, self._records.take(line, shows))

    def let_go(self, now: int) -> Iterator[Iterable[dict[str, Any]]]:
        """The rows that are held for too long while the capture goes on. `now`: its time, in nanoseconds."""
        return map(self._passing, self._records.rows.let_go(now))

    def finish(self) -> Iterator[Iterable[dict[str, Any]]]:
        """The rows that are still held."""
        return map(self._passing, self._records.rows.finish())

    def close(self) -> None:
        """Give back files and processes."""
        self._choice.close()
        self._forms.close()
        self._records.rows.close()

    def _passing(self, rows: Rows) -> Iterable[dict[str, Any]]:
        return filter(self._passes, rows) if self._choice.committed or self._seen is not None else rows

    def _passes(self, row: dict[str, Any]) -> bool:
        if not self._choice.passes(row):
            return False
        if self._choice.committed and self._records.rows.is_behind_open(row):
            self.behind += 1
            return False
        if self._seen is None:
            return True
        self.unplaced += row["offset"] is None
        return row["offset"] is not None and self._seen.is_new(row)
