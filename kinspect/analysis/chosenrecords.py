"""The rows of records that a filter chooses, with keys, values and headers in the form that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

from kinspect import state
from kinspect.analysis.recordevents import PUT, RecordLines
from kinspect.analysis.recordrows import RecordRows, SeenOffsets
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.batchrows import BatchRows
from kinspect.kafka.view.view import View
from kinspect.payloads.payloadforms import HIDDEN, TEXT, PayloadForms
from kinspect.sink import CONNECTION, EXCHANGE, GAP

LINES: Final = frozenset({EXCHANGE, CONNECTION, GAP})
"""Types of the lines that are taken."""
Row = dict[str, Any]


class RowChoice(Protocol):
    """What chooses rows: `RecordFilter`, which may search in another process, as nothing here does."""

    needs_payload: bool
    committed: bool

    @property
    def looks(self) -> bool: ...

    def choose(self, rows: list[Row], decode: Callable[[list[Row]], object]) -> list[Row]: ...

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
        self.found = self.behind = self.unplaced = 0
        self._choice = choice
        self._forms = forms
        self._seen = SeenOffsets() if once else None
        # Filters and other forms look at payloads as text.
        needed = TEXT if choice.needs_payload or forms.form != HIDDEN else HIDDEN
        self._looks = choice.looks or forms.form not in (needed, HIDDEN)
        shown = View(payload=needed, show_secrets=view.show_secrets)
        self._rows = RecordRows(RecordLines(shown), self._chosen, control)

    @property
    def undecided(self) -> int:
        """Batches whose transaction there was no room to wait for."""
        return self._rows.undecided

    @property
    def forgotten(self) -> int:
        """Partitions for whose offsets `once` had no room."""
        return 0 if self._seen is None else self._seen.forgotten

    def take(self, line: Line, shows: bool = True) -> Iterator[BatchRows]:
        """Take the next line, and give the rows that it decides, a batch's at a time; an exchange without `shows` only
        says something about others."""
        return map(self._passing, self._rows.take(line, shows))

    def told(self, line: Line, shows: bool = True) -> bytes:
        """What the next line says, with its rows that are chosen, for `apply` of another process; empty if it says
        nothing."""
        events = []
        for name, *values in self._rows.events.of(line):
            if name == PUT:
                rows = values[0]
                found = self._chosen(rows) if shows and rows else rows.first(0)
                values[0] = found.to_bytes()
            events.append((name, *values))
        return state.to_bytes(events) if events else b""

    def apply(self, told: bytes) -> Iterator[BatchRows]:
        """Take what `told` made of the next line."""
        events = [
            (name, BatchRows.from_bytes(values[0]), *values[1:]) if name == PUT else (name, *values)
            for name, *values in state.from_bytes(told)
        ]
        return map(self._passing, self._rows.apply(events, 0, lambda rows: rows))

    def let_go(self, now: int) -> Iterator[BatchRows]:
        """The rows that are held for too long while the capture goes on. `now`: its time, in nanoseconds."""
        return map(self._passing, self._rows.let_go(now))

    def finish(self) -> Iterator[BatchRows]:
        """The rows that are still held."""
        return map(self._passing, self._rows.finish())

    def close(self) -> None:
        """Give back files and processes."""
        self._choice.close()
        self._forms.close()
        self._rows.close()

    def _chosen(self, rows: BatchRows) -> BatchRows:
        """The rows of a batch that are chosen, as they are shown."""
        self.found += len(rows)
        if not self._looks:
            return rows
        found = self._choice.choose([*rows], self._forms.decode)
        self._forms.convert(found)
        return rows.of(found)

    def _passing(self, rows: BatchRows) -> BatchRows:
        if self._choice.committed or self._seen is not None:
            return rows.of(filter(self._passes, rows))
        return rows

    def _passes(self, row: dict[str, Any]) -> bool:
        if not self._choice.passes(row):
            return False
        if self._choice.committed and self._rows.is_behind_open(row):
            self.behind += 1
            return False
        if self._seen is None:
            return True
        self.unplaced += row["offset"] is None
        return row["offset"] is not None and self._seen.is_new(row)
