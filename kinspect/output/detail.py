"""An exchange as a tree: header facts, both bodies, errors and problems. Lines are written as the body is walked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from kinspect.kafka.bodysummary import ERRORS_SHOWN
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.pair import ANSWERED
from kinspect.model import REQUEST, RESPONSE
from kinspect.output import Opening, table
from kinspect.output.actions import refused
from kinspect.output.console import make_console
from kinspect.output.escape import escape
from kinspect.output.numbernames import number_name
from kinspect.output.treewriter import StyledText, TreeWriter
from kinspect.pipeline import EXCHANGES_ONLY
from kinspect.sink import PieceSink, WrittenLine

KEY, VALUE, TEXT, NULL = "cyan", "", "green", "dim"

SPACE: StyledText = " ", VALUE
COMMA: StyledText = ", ", VALUE

PART = 1_000
"""Characters of a text, or numbers of a list, that are laid out at a time."""
SIDES = (REQUEST, RESPONSE)
HEADER_KEYS = """
    timestamp completed_at connection_id kind correlation_id api_candidates in_flight latency_ms service_ms
    max_wait_ms throttle_time_ms wait topics topic_ids partitions groups transactional_ids record_count
    record_bytes
""".split()


def open_sink(opening: Opening) -> Detail:
    """Exchanges as trees."""
    return Detail(make_console(opening.stream, opening.style.color), opening.view)


class Detail(PieceSink):
    """Writes exchanges as trees."""

    def __init__(self, console: Console, view: View) -> None:
        self._tree = TreeWriter(console)
        self._view = view
        self._api_key: int | None = None

    lines = EXCHANGES_ONLY

    def take(self, line: Line) -> None:
        self._write(cast(Exchange, line))

    def _write(self, exchange: Exchange) -> None:
        line = self._view.exchange(exchange)
        self._api_key = exchange.api_key
        self._tree.root(_title(line, exchange.order))
        facts = {
            "client": " ".join(_end_words(line["client"])),
            "broker": " ".join(_end_words(line["broker"])),
            **{key: line[key] for key in HEADER_KEYS if line[key] is not None and line[key] != []},
        }
        sides = [side for side in SIDES if line[side] is not None]
        problems = line["problems"]
        left = len(sides) + len(problems)
        self._struct("", facts, more=left > 0)
        for side in sides:
            left -= 1
            errors = [*_errors(line, exchange)] if side == RESPONSE else []
            self._message(side, line[side], errors, last=not left)
        for problem in problems:
            left -= 1
            self._tree.line("", not left, _problem(problem))

    def piece(self, line: Line) -> WrittenLine:
        with self._tree.aside() as rows:
            self.take(line)
        return WrittenLine("".join(rows).encode())

    def put(self, piece: WrittenLine) -> None:
        self._tree.put(piece.text.decode())

    def flush(self) -> None:
        self._tree.flush()

    def _message(
        self, side: str, message: dict[str, Any], errors: list[tuple[StyledText, ...]], last: bool
    ) -> None:
        body = message["body"]
        below = self._tree.line("", last, _message_title(side, message))
        for error in errors:
            self._tree.line(below, body == {} and error is errors[-1], error)
        if body is None:
            self._tree.line(below, True, (("body not decoded", NULL),))
        else:
            self._struct(below, body)

    def _struct(self, above: str, struct: dict[str, Any], more: bool = False) -> None:
        """Write each key of a struct, as deep as it goes; `more`: other lines follow on the same level."""
        left = len(struct) + more
        for key, item in struct.items():
            left -= 1
            self._item(above, not left, (escape(key), KEY), item, number_name(key, item, self._api_key))

    def _item(self, above: str, last: bool, label: StyledText, item: Any, name: str | None = None) -> None:
        write = self._tree.line
        if isinstance(item, dict) and item:
            self._struct(write(above, last, (label,)), item)
        elif isinstance(item, list) and item and any(isinstance(entry, dict | list) for entry in item):
            below = write(above, last, (label, (f" ({len(item)})", NULL)))
            final = len(item) - 1
            for index, entry in enumerate(item):
                self._item(below, index == final, (f"[{index}]", NULL), entry)
        elif len(item) > PART if isinstance(item, str) else isinstance(item, list) and item:
            write(above, last, chain((label, SPACE), scalar(item)))
        elif name:
            write(above, last, (label, SPACE, _word(item), (f" ({name})", NULL)))
        else:
            write(above, last, (label, SPACE, _word(item)))


def scalar(item: Any) -> Iterator[StyledText]:
    """The pieces of a value without fields of its own. A text or list of any length comes in parts."""
    if isinstance(item, str) and len(item) > PART:
        for at in range(0, len(item), PART):
            yield _word(item[at : at + PART])
    elif isinstance(item, list) and item:
        for at in range(0, len(item), PART):
            yield from _elements(item[at : at + PART])
            if at + PART < len(item):
                yield COMMA
    else:
        yield _word(item)


def _elements(items: list[Any]) -> Iterator[StyledText]:
    if {*map(type, items)} == {int}:
        yield ", ".join(map(str, items)), VALUE
        return
    for index, item in enumerate(items):
        if index:
            yield COMMA
        yield from scalar(item)


def _word(item: Any) -> StyledText:
    if isinstance(item, str):
        return escape(item) or '""', TEXT
    if item is None:
        return "null", NULL
    if isinstance(item, bool):
        return "true" if item else "false", VALUE
    return ("[]", NULL) if item == [] else ("{}" if item == {} else str(item), VALUE)


def _title(line: dict[str, Any], order: int) -> tuple[StyledText, ...]:
    title = ((f"#{order} ", "bold"), _piece(table.api_text(line)), (f"  {table.ends_text(line)}  ", VALUE))
    outcome, reason = line["outcome"], line["outcome_reason"]
    if outcome == ANSWERED:
        return *title, _piece(table.latency(line["latency_ms"]))
    return *title, (f"{outcome} ({reason})" if reason else outcome, table.NOTE)


def _piece(text: Text) -> StyledText:
    return text.plain, str(text.style)


def _end_words(end: dict[str, Any]) -> list[str]:
    """Words for a client or broker: `10.0.0.1 41234`, `id=p-1`, `role=consumer`."""
    rest = {key: value for key, value in end.items() if key not in ("ip", "port") and value is not None}
    return [f"{end['ip']} {end['port']}", *(f"{key}={value}" for key, value in rest.items())]


def _message_title(side: str, message: dict[str, Any]) -> tuple[StyledText, ...]:
    facts = [f"{message['size']} bytes"]
    frames = message["frames"]
    first, last = frames["first"], frames["last"]
    facts.append(f"{f'frame {first}' if first == last else f'frames {first}–{last}'} of {frames['file']}")
    if message["layout"]:
        facts.append(f"layout {message['layout']}")
    facts += ["inferred"] * message["inferred"] + ["not complete"] * (not message["complete"])
    return (side, "bold"), (escape(f"  {', '.join(facts)}"), "dim")


def _errors(line: dict[str, Any], exchange: Exchange) -> Iterator[tuple[StyledText, ...]]:
    """Lines above the response's body."""
    refusal = refused(exchange)
    if refusal is not None:
        yield ((escape(refusal), table.ERROR),)
    errors = line[RESPONSE]["errors"]
    yield from map(_error, errors)
    more = (line["error_count"] or 0) - ERRORS_SHOWN
    if len(errors) == ERRORS_SHOWN and more > 0:
        yield ((f"and {more:,} more", table.ERROR),)


def _error(error: dict[str, Any]) -> tuple[StyledText, ...]:
    retriable = ", retriable" if error["retriable"] else ""
    text = f"{error['name']} ({error['code']}{retriable}) {error['path']}".rstrip()
    return ((escape(text), table.ERROR),)


def _problem(problem: dict[str, Any]) -> tuple[StyledText, ...]:
    where = [problem["side"], problem["path"]]
    if problem["offset"] is not None:
        where.append(f"at byte {problem['offset']}")
    place = " ".join(part for part in where if part)
    return ((escape(f"{problem['code']} {place}: {problem['message']}"), table.PROBLEM),)
