"""An answer's object, which holds the rows and what is to be known of the capture: as a table, as JSON or as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from importlib import import_module
from io import StringIO
from typing import Any, TextIO

import orjson

from kinspect.answers import definition_of
from kinspect.answers.incomplete import AnswerCounts, why_incomplete
from kinspect.answers.nextcommand import NO_COMMAND, NextCommand
from kinspect.filters.filterdefinitions import kinds
from kinspect.jsontext import escape_json
from kinspect.output import Style
from kinspect.output.cells import cell

TABLE, JSON, JSONL, CSV = "table", "json", "jsonl", "csv"
SCHEMA_VERSION = 1
INDENTED = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE

Object = dict[str, Any]
Rows = list[tuple[str, Object]]
"""Rows, each with the answer that has it."""


def document(
    answer: str,
    summary: Object,
    span: tuple[str | None, str | None],
    rows: list[Object],
    counted: AnswerCounts,
    filters: Sequence[str] = (),
    served: Container[str] = (),
    instead: str | None = None,
    ended: Iterable[str] = (),
) -> Object:
    """The object of an answer. `summary`: the `summary` line's object; `span`: when the capture begins and ends;
    `filters`: options of the filter that was given; `served`: those of them that left out nothing of a row; `instead`:
    what there is where nothing passed them; `ended`: why not all was read."""
    incomplete, named = why_incomplete(summary, counted, filters, ended), kinds()
    return {
        "answer": answer,
        "schema_version": SCHEMA_VERSION,
        "capture": {
            "files": summary["files"],
            "from": span[0],
            "until": span[1],
            "packets": summary["packets"],
            "exchanges": summary["exchanges"],
            "counted": counted.exchanges,
            "twins": counted.twins,
            "gaps": summary["gaps"],
            "gap_bytes": summary["gap_bytes"],
            "orphans": summary["outcomes"]["orphan"],
            "unresolved_topic_ids": summary["unresolved_topic_ids"],
            "fetch_sessions_under_way": summary["fetch_sessions_under_way"],
            "tls_not_decrypted": sum(summary["tls_not_decrypted"].values()),
            "left_out": counted.left_out,
            "filters": [*filters],
            "only_naming": [named[option] for option in filters if option in named and option not in served],
            "instead": instead,
            "complete": not incomplete,
            "incomplete": incomplete,
        },
        "rows": rows,
    }


def write(
    found: Object, name: str, stream: TextIO, style: Style, next_command: NextCommand = NO_COMMAND
) -> None:
    """Write an answer's object to the stream in the format `name`. `next_command`: the one to type next."""
    if name == TABLE:
        layout = import_module("kinspect.answers.layout")
        _print(lambda width: layout.page(found, width, style, next_command), stream, style)
    elif name == JSON:
        stream.write(escape_json(orjson.dumps(found, option=INDENTED)).decode())
    else:
        _ROWS[name]([(found["answer"], row) for row in found["rows"]], [found["answer"]], stream)


def write_several(
    found: list[Object], name: str, stream: TextIO, style: Style, next_command: NextCommand = NO_COMMAND
) -> None:
    """Write the objects of several answers to the stream: in the format `json` each is a line, and rows of `jsonl` and
    `csv` begin with their answer. `next_command`: the one to type next."""
    if name == TABLE:
        layout = import_module("kinspect.answers.layout")
        _print(lambda width: layout.several(found, width, style, next_command), stream, style)
    elif name == JSON:
        for each in found:
            stream.write(escape_json(orjson.dumps(each)).decode() + "\n")
    else:
        rows = [(each["answer"], {"answer": each["answer"], **row}) for each in found for row in each["rows"]]
        _ROWS[name](rows, [each["answer"] for each in found], stream)


def _print(lines: Callable[[int], Iterator[Any]], stream: TextIO, style: Style) -> None:
    """Print the lines of a terminal's width."""
    console = import_module("kinspect.output.console").make_console(stream, style.color)
    for line in lines(console.width):
        console.print(line, soft_wrap=True)


def _jsonl(rows: Rows, _: Sequence[str], stream: TextIO) -> None:
    for _, row in rows:
        stream.write(escape_json(orjson.dumps(row)).decode() + "\n")


def _csv(rows: Rows, answers: Sequence[str], stream: TextIO) -> None:
    """Rows below their columns; an answer without rows has those that its rows may have."""
    flat = [{name: cell(value) for name, value in definition_of(answer).flat(row)} for answer, row in rows]
    empty = [definition_of(name) for name in answers if name not in {answer for answer, _ in rows}]
    titles = ["answer"] if len(answers) > 1 else []
    titles += [name for row in flat for name in row]
    titles += [name for each in empty for name, _ in each.flat(dict.fromkeys(key.name for key in each.keys))]
    text = StringIO()
    writer = csv.DictWriter(text, [*dict.fromkeys(titles)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    stream.write(text.getvalue())


_ROWS: dict[str, Callable[[Rows, Sequence[str], TextIO], None]] = {JSONL: _jsonl, CSV: _csv}
FORMATS = (TABLE, JSON, *_ROWS)
"""The names of all formats of an answer."""
