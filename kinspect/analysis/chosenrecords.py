"""The rows of records that a filter chooses, with keys, values and headers in the form that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kinspect.analysis.heldrows import Rows
from kinspect.analysis.recordrows import RecordRows
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Gap, Line
from kinspect.kafka.view.view import View
from kinspect.payloads.payloadforms import HIDDEN, TEXT, PayloadForms


class ChosenRecords:
    """Makes rows of a run's lines, as `RecordRows`. `choice` chooses rows, with keys and values as text if it
    `needs_payload`; `forms`: how those are shown, if not as the view does. `found`: rows, chosen or not."""

    def __init__(
        self,
        view: View,
        choice: Callable[[Rows], Rows],
        needs_payload: bool,
        write: Callable[[dict[str, Any]], None],
        control: bool = False,
        forms: PayloadForms | None = None,
    ) -> None:
        self.found = 0
        self._choice = choice
        self._forms = forms or PayloadForms(view.payload)
        needed = TEXT if needs_payload or self._forms.form != HIDDEN else HIDDEN
        shown = View(payload=needed, show_secrets=view.show_secrets)
        self.rows = RecordRows(shown, self.choose, write, control)

    def take(self, line: Line, shows: bool = True) -> None:
        """Take the next line; an exchange without `shows` only says something about others."""
        if isinstance(line, Exchange):
            self.rows.take(line, shows)
        elif isinstance(line, Gap):
            self.rows.take_gap(line)
        else:
            self.rows.take_connection(line)

    def choose(self, rows: Rows) -> Rows:
        """The rows of a batch that are chosen, as they are shown."""
        self.found += len(rows)
        found = self._choice(rows)
        self._forms.show(found)
        return found
