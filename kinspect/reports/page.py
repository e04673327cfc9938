"""The page of `kinspect report`: what a template shows of answers' objects, all of it bounded."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from os import path
from typing import Any, NamedTuple

from jinja2 import Environment, FunctionLoader, StrictUndefined

from kinspect.answers import definition_of
from kinspect.answers.definition import Definition, address_texts
from kinspect.answers.layout import Cells, clock, span, warnings
from kinspect.kafka.view.view import epoch_ns
from kinspect.output import Style
from kinspect.output.columns import Row
from kinspect.output.escape import escape
from kinspect.reports.plots import Plot, Plots

SUMMARY, TOPICS, GROUPS = "summary", "topics", "groups"
TABLE_ROWS, TABLE_SIZE = 500, 100_000
"""Largest number of rows of a table, and of characters in them, from which on it gets no more rows."""
CELL, LINES_BELOW = 300, 20
"""Largest number of characters of a cell, and of lines on a row."""
MATRIX_TOPICS, MATRIX_CLIENTS = 40, 24
"""Largest numbers of rows and columns of the matrix."""
LEVELS = 5
"""Shades of its cells."""
SORTED = frozenset({"int", "long", "double", "time"})
"""Kinds of keys whose texts sort in another order than their values."""
MARKUP = 12
"""Characters around a cell or a line."""

Object = dict[str, Any]


class ReportColumn(NamedTuple):
    """A column of a table. `right`: it holds numbers."""

    title: str
    right: bool


class ReportRow(NamedTuple):
    """A row of a table: its cells, each with what it is sorted by (None: by its text), and lines on it."""

    cells: list[tuple[str, Any]]
    lines: list[str]


class ReportTable(NamedTuple):
    """The table of an answer. `left_out`: rows that it has no room for; `empty`: the text in place of rows; `lacks`:
    lines on what was not counted or not seen."""

    name: str
    help: str
    columns: list[ReportColumn]
    rows: list[ReportRow]
    left_out: int
    notes: list[str]
    empty: str
    lacks: list[str]


class ReportFinding(NamedTuple):
    """A finding. `answer`: the one whose table shows it; `number`: how many there are; `command`: what to type;
    `advice`: what to do."""

    severity: str
    name: str
    number: str
    text: str
    answer: str
    command: str
    advice: list[str]


class MatrixCell(NamedTuple):
    """What a client does with a topic. `level`: the shade, from 0 (nothing) by the logarithm of bytes."""

    text: str
    level: int


class Matrix(NamedTuple):
    """Topics by clients; the numbers of those for which there was no room."""

    clients: list[str]
    rows: list[tuple[str, list[MatrixCell]]]
    topics_left_out: int
    clients_left_out: int


def page(
    found: Sequence[Object],
    slots: Sequence[Row],
    style: Style,
    version: str,
    filters: Sequence[str] = (),
    lacks: Sequence[str] = (),
) -> str:
    """The page. `found`: objects of answers, that of `summary` among them; `slots`: the rows of `OverTime`; `filters`:
    what was counted, as options; `lacks`: lines on what the captures lacked before they were redacted."""
    names = {name: path.basename(name) for each in found for name in each["capture"]["files"]}
    objects = {each["answer"]: _renamed(each, names) for each in found}
    capture = objects[SUMMARY]["capture"]
    script = _file("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    title = span(capture, style)
    return (
        _environment()
        .get_template("report.html")
        .render(
            css=_file("report.css"),
            script=script,
            digest=digest,
            version=version,
            files=[escape(name) for name in capture["files"]],
            span="" if title is None else title.plain,
            filters=[_cut(escape(text)) for text in filters],
            lacks=[escape(text) for text in dict.fromkeys([*lacks, *capture["incomplete"]])],
            findings=_findings(objects[SUMMARY]["rows"]),
            nothing=definition_of(SUMMARY).empty(capture),
            plots=_plots(slots, objects.get(GROUPS)),
            slots=slots,
            matrix=_matrix(objects[TOPICS]["rows"]) if TOPICS in objects else None,
            tables=[_table(each, style) for name, each in objects.items() if name != SUMMARY],
        )
    )


def _renamed(value: Any, names: dict[str, str]) -> Any:
    """An object with other names of files: those of folders are nobody else's business."""
    if isinstance(value, dict):
        return {key: _renamed(each, names) for key, each in value.items()}
    if isinstance(value, list):
        return [_renamed(each, names) for each in value]
    return names.get(value, value) if isinstance(value, str) else value


@cache
def _environment() -> Environment:
    return Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _cut(text: str) -> str:
    """A text for a cell."""
    return text if len(text) <= CELL else f"{text[: CELL - 1]}…"


def _findings(rows: list[Row]) -> list[ReportFinding]:
    """What is wrong, before what there is."""
    made = definition_of(SUMMARY)
    name, count = ({key.name: key for key in made.keys}[key].column().text for key in ("finding", "count"))
    return [
        ReportFinding(
            row["severity"],
            escape(name(row)),
            count(row),
            _cut(escape(row["text"])),
            made.leads_to(row),
            escape(row["command"]),
            [_cut(escape(text)) for text in row["advice"]],
        )
        for row in sorted(rows, key=made.leads)
    ]


def _plots(slots: Sequence[Row], groups: Object | None) -> list[Plot]:
    if not slots or slots[0]["begin"] is None:
        return []
    rebalances = [each for row in (groups["rows"] if groups else []) for each in row["rebalances"] or []]
    bands = [
        (epoch_ns(each["started"]), epoch_ns(each["ended"]))
        for each in rebalances
        if each["started"] is not None and each["ended"] is not None
    ]
    return Plots(slots, sorted(bands)).all()


def _table(found: Object, style: Style) -> ReportTable:
    made, capture = definition_of(found["answer"]), found["capture"]
    rows = made.ordered(found["rows"])
    cells = Cells(made, rows[:TABLE_ROWS], style, address_texts(capture))
    sorts = {key.title: key.name for key in made.keys if key.kind in SORTED}
    shown: list[ReportRow] = []
    room = TABLE_SIZE
    for number, row in enumerate(cells.rows):
        each = [
            (_cut(text), row.get(sorts.get(column.title.removesuffix(" (UTC)"), "")))
            for column, text in cells.texts(number).items()
        ]
        lines = _lines(made, row, style)
        room -= sum(len(text) + MARKUP for text in (*(text for text, _ in each), *lines))
        if room < 0:
            break
        shown.append(ReportRow(each, lines))
    return ReportTable(
        found["answer"],
        made.help,
        [ReportColumn(column.title, column.right) for column in cells.widths],
        shown,
        len(rows) - len(shown),
        [escape(note) for note in made.notes(rows, capture)] if rows else [],
        "" if rows else made.empty(capture),
        warnings(capture),
    )


def _lines(made: Definition, row: Row, style: Style) -> list[str]:
    lines = [*made.details(row, lambda time: clock(time, style)), *made.meaning(row)]
    more = [f"and {len(lines) - LINES_BELOW:,} more"] if len(lines) > LINES_BELOW else []
    return [*(_cut(escape(line)) for line in lines[:LINES_BELOW]), *more]


_DIRECTIONS = {"produce": "produced", "consume": "consumed", "replicate": "replicated"}


def _matrix(rows: list[Row]) -> Matrix:
    """Who does what with which topic: the topics and clients with the most bytes."""
    topics: dict[str, int] = {}
    clients: dict[str, int] = {}
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        at = topic, client = escape(str(row["topic"] or row.get("topic_id") or "?")), _client(row)
        cells.setdefault(at, []).append(row)
        topics[topic] = topics.get(topic, 0) + (row["bytes"] or 0)
        clients[client] = clients.get(client, 0) + (row["bytes"] or 0)
    across, down = _first(clients, MATRIX_CLIENTS), _first(topics, MATRIX_TOPICS)
    most = max((sum(row["bytes"] or 0 for row in each) for each in cells.values()), default=0)
    return Matrix(
        [_cut(name) for name in across],
        [(_cut(topic), [_cell(cells.get((topic, client), []), most) for client in across]) for topic in down],
        len(topics) - len(down),
        len(clients) - len(across),
    )


def _client(row: Row) -> str:
    return escape(row["client_id"] or f"no id, {row['client_ip']}")


def _first(sizes: dict[str, int], most: int) -> list[str]:
    return sorted(sizes, key=lambda name: (-sizes[name], name))[:most]


def _cell(rows: list[Row], most: int) -> MatrixCell:
    if not rows:
        return MatrixCell("", 0)
    sums: dict[str, int | None] = {}
    for row in rows:
        before = sums.get(row["direction"], 0)
        sums[row["direction"]] = None if before is None or row["records"] is None else before + row["records"]
    text = ", ".join(
        f"{'?' if count is None else f'{count:,}'} {_DIRECTIONS.get(direction, direction)}"
        for direction, count in sums.items()
    )
    size = sum(row["bytes"] or 0 for row in rows)
    level = 1 + round((LEVELS - 1) * math.log1p(size) / math.log1p(most)) if most else 1
    return MatrixCell(text, level)
