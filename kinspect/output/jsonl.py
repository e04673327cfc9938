"""JSON lines: one object a line, UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from kinspect.jsontext import escape_json
from kinspect.kafka.view.batchrows import KEYS, OWN, BatchRows
from kinspect.kafka.view.view import View
from kinspect.output import Opening
from kinspect.output.linelimit import FittedText
from kinspect.output.linesink import LineSink

TOGETHER: Final = 64
"""Rows whose text is made at once."""
_BEFORE: Final = KEYS[: KEYS.index(OWN[0])]
_BEHIND: Final = KEYS[KEYS.index(OWN[-1]) + 1 :]


def text(line: dict[str, Any]) -> bytes:
    """The object as a line of text."""
    # Escaped for files too: their text is shown on a terminal sooner or later.
    return escape_json(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


def text_maker(view: View) -> Callable[[dict[str, Any]], bytes]:
    """The function that makes text of a line's object."""
    return text if view.max_line is None else FittedText(view.max_line, view.nulls, text)


def open_sink(opening: Opening) -> LineSink:
    """Exchanges, and the other line types, as JSON."""
    view, made = opening.view, text_maker(opening.view)
    return LineSink(
        opening, lambda exchange: made(view.exchange(exchange)), lambda line: made(view.other(line))
    )


def open_rows(opening: Opening, columns: Sequence[str]) -> JsonRows:
    """Rows, which the sink is told, as JSON."""
    return JsonRows(opening, lambda _: b"", text)


class JsonRows(LineSink):
    """Writes many rows at once. What those of a batch have in common becomes text once."""

    def tell_rows(self, rows: BatchRows) -> None:
        shared, own = rows.shared, rows.own
        begin = orjson.dumps({name: shared[name] for name in _BEFORE})[:-1] + b","
        end = (
            b","
            + orjson.dumps({name: shared[name] for name in _BEHIND}, option=orjson.OPT_APPEND_NEWLINE)[1:]
        )
        between = end + begin
        for at in range(0, len(own), TOGETHER):
            texts = [orjson.dumps(row)[1:-1] for row in own[at : at + TOGETHER]]
            self._put(escape_json(begin + between.join(texts) + end))
