"""The rows of records that a filter chooses, with keys, values and headers in the form that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kinspect.analysis.heldrows import Rows
from kinspect.analysis.recordrows import RecordRows
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Gap, Line
from kinspect.kafka.view.redact import PAYLOADS, payload_bytes
from kinspect.kafka.view.view import View

HIDDEN: Final = "none"
TEXT: Final = "text"
PAIRS: Final = ("key", "value")


class ChosenRecords:
    """Makes rows of a run's lines, as `RecordRows`. `view`: the form of keys and values; `choice` chooses rows, with
    keys and values as text if it `needs_payload`. `found`: rows, chosen or not."""

    def __init__(
        self,
        view: View,
        choice: Callable[[Rows], Rows],
        needs_payload: bool,
        write: Callable[[dict[str, Any]], None],
        control: bool = False,
    ) -> None:
        self.found = 0
        self._choice = choice
        self._payload = view.payload
        needed = TEXT if needs_payload or view.payload != HIDDEN else HIDDEN
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
        if self._payload != TEXT:
            for row in found:
                self._show(row)
        return found

    def _show(self, row: dict[str, Any]) -> None:
        """Bring key, value and headers into the form that is asked for."""
        for name in PAIRS:
            row[name], row[f"{name}_encoding"] = self._shown(row[name], row[f"{name}_encoding"])
        headers = []
        for header in row["headers"]:
            value, encoding = self._shown(header["value"], header["value_encoding"])
            headers.append({"key": header["key"], "value": value, "value_encoding": encoding})
        row["headers"] = headers

    def _shown(self, text: str | None, encoding: str | None) -> tuple[str | None, str | None]:
        return PAYLOADS[self._payload](payload_bytes(text, encoding))
