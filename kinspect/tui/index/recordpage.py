"""The page of records, in the columns of `kinspect records`: the only page that is no answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

import orjson

from kinspect.analysis.answer import ROWS_KEPT, Answer, Passes, ResultContext, Row
from kinspect.analysis.chosenrecords import LINES, PassingRecords
from kinspect.analysis.recordfates import NONE
from kinspect.answers import definition_of
from kinspect.answers.celltexts import TIME_OF_DAY, known
from kinspect.answers.definition import Definition
from kinspect.filters.recordfilters import RecordFilter
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.view import View
from kinspect.output.columns import WHOLE
from kinspect.output.recordtable import TIME, WIDTHS
from kinspect.payloads.opendecoder import open_decoder
from kinspect.payloads.payloadforms import PayloadForms
from kinspect.wording import counted

RECORDS = "records"
TEXT_KEPT = 300
"""Characters of a text in a row; the fields of its exchange have all."""
KEPT = """
    timestamp direction topic topic_id partition offset client_id transaction control key key_encoding key_size value
    value_encoding value_size crc_ok error
""".split()
"""Keys of a row that its columns are made of."""


class RecordPage(Answer):
    """Accumulator of the first `ROWS_KEPT` rows that the filters `given` choose. `payload`, `schema_registry` and
    `folder`: as `ShownPayloads` has them; `start`: time of the first packet; `whole`: it takes all lines of the
    captures, so that what became of transactions is known."""

    lines: ClassVar[frozenset[str]] = LINES

    def __init__(
        self,
        given: Mapping[str, Any],
        payload: str,
        show_secrets: bool,
        start: int | None,
        whole: bool,
        schema_registry: str | None = None,
        folder: str | None = None,
    ) -> None:
        super().__init__()
        self.take_all()
        self._choice = NumberedChoice(given, lambda: start)
        forms = PayloadForms(payload, open_decoder(schema_registry, folder))
        self._records = PassingRecords(View(show_secrets=show_secrets), self._choice, forms, control=True)
        self._whole = whole
        self._rows: list[Row] = []

    def take(self, exchange: Exchange, passes: Passes | None = None) -> None:
        self.exchanges += 1
        self.add(exchange)

    def add(self, exchange: Exchange) -> None:
        self._choice.begin(exchange)
        self._keep(self._records.take(exchange))

    def hear(self, line: Line) -> None:
        self._keep(self._records.take(line, shows=False))

    def result(self, context: ResultContext) -> list[Row]:
        self._keep(self._records.finish())
        self._records.close()
        self.unproven = [
            f"{counted(count, 'record')} of which {option} is not known"
            for option, count in self._choice.unknown.items()
        ]
        slow = self._choice.slow
        self.unproven += [f"{counted(slow, 'text')} that took too long to search"] if slow else []
        return self._rows

    def _keep(self, batches: Iterable[Iterable[Row]]) -> None:
        for row in chain.from_iterable(batches):
            if len(self._rows) == ROWS_KEPT:
                self.left_out += 1
                continue
            short = {key: _begin(row[key]) for key in (*KEPT, "exchange", "record")}
            if not self._whole and row["transaction"] != NONE:
                short["transaction"] = None
            self._rows.append(short)


class NumberedChoice(RecordFilter):
    """Gives each row the row of its exchange, and its record's number among those of the exchange."""

    looks = True
    _exchange = _number = 0

    def begin(self, exchange: Exchange) -> None:
        """The next rows are of this exchange."""
        self._exchange, self._number = exchange.order - 1, 0

    def choose(self, rows: list[Row], decode: Callable[[list[Row]], object]) -> list[Row]:
        for number, row in enumerate(rows, self._number):
            row["exchange"], row["record"] = self._exchange, number
        self._number += len(rows)
        return super().choose(rows, decode)


def _begin(value: Any) -> Any:
    if isinstance(value, dict | list):
        value = orjson.dumps(value).decode()
    return f"{value[:TEXT_KEPT]}…" if isinstance(value, str) and len(value) > TEXT_KEPT else value


_TIME = replace(TIME, text=lambda row: known(row["timestamp"]), rank=0, least=WHOLE, time=TIME_OF_DAY)
PAGE = Definition(
    answer=RecordPage,
    help="",
    page="k",
    page_help="records: of the list, an exchange, a page's row",
    columns=(_TIME, *(column for column in WIDTHS if column is not TIME)),
    nothing="no record found",
    more=lambda *_: "",
)


def page_definition(name: str) -> Definition:
    """The definition of a page."""
    return PAGE if name == RECORDS else definition_of(name)
