"""Differences of two captures on a terminal, a line each, what the captures lack, and the command to type next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from sys import maxsize
from typing import Any

from rich.text import Text

from kinspect import wording
from kinspect.answers.celltexts import DIM, ERROR, HEAD, NOTE, known, listed
from kinspect.answers.comparison import APPEARED, MOVED, lacking, shortness
from kinspect.answers.definition import address_texts, nothing_decoded
from kinspect.answers.layout import GAP, PRINTED
from kinspect.output import Style
from kinspect.output.columns import LEAST, Column, Row, aligned, fitted
from kinspect.output.escape import escape

NOTHING, NOTHING_COMPARED = "no difference was found", "nothing was compared"

SIDES = ("before", "after")
FEW = 3
"""Names that a cell has where not all is shown."""


def lines(found: Row, width: int, style: Style, command: str) -> Iterator[Text]:
    """Lines for an object with `before`, `after` (what the captures are), `threshold`, `compared` and `rows`.
    `command`: the one to type next, empty for none."""
    rows = found["rows"] if style.wide else _gathered(found["rows"])
    shown = rows if style.wide else rows[: PRINTED.rows]
    if shown:
        yield from _table(shown, _columns(found, style), width, style)
        if len(rows) > len(shown):
            yield Text(f"and {wording.counted(len(rows) - len(shown), 'more row')}{PRINTED.more}", style=DIM)
    else:
        yield Text(NOTHING if found["compared"] else NOTHING_COMPARED)
    for side, other in (SIDES, SIDES[::-1]):
        if hint := found[side]["instead"]:
            yield Text(escape(f"{side.upper()}: {hint}"), style=NOTE)
        if lacks := lacking(found[side]):
            weight = (
                "nothing to compare" if nothing_decoded(found[side]) else "what is missing there may be in it"
            )
            yield Text(escape(f"{side.upper()}: {lacks}: {weight}"), style=NOTE)
        if found["compared"] and (short := shortness(found[side], found[other], found["threshold"])):
            text = f"{side.upper()}: {short}: rates are compared, and what is missing there may need longer"
            yield Text(text, style=NOTE)
    if command:
        yield Text(f"next: {escape(command)}", style=DIM)


def _table(rows: list[Row], columns: Iterable[Column], width: int, style: Style) -> Iterator[Text]:
    texts = {column: [escape(column.text(row)) for row in rows] for column in columns}
    texts = {column: cells for column, cells in texts.items() if any(cells)}
    widths = {column: max(map(len, [column.title, *cells])) for column, cells in texts.items()}
    chosen = widths if style.wide else fitted(widths, width, GAP)
    yield aligned({column: Text(column.title, style=HEAD) for column in chosen}, chosen, GAP)
    for number, row in enumerate(rows):
        yield aligned(
            {column: Text(texts[column][number], column.style(row)) for column in chosen}, chosen, GAP
        )


def _gathered(rows: list[Row]) -> list[Row]:
    """Rows with one in place of several of an answer that came, or went."""
    alike: dict[Any, list[Row]] = defaultdict(list)
    for number, row in enumerate(rows):
        alone = row["column"] is not None
        alike[number if alone else (row["change"], row["answer"], row["caveat"])].append(row)
    return [
        {**same[0], "names": [*map(_with_count, same)]} if len(same) > 1 else same[0]
        for same in alike.values()
    ]


def _with_count(row: Row) -> str:
    """Which row came or went, and how many of it were seen."""
    count = row["before_count"] if row["after_count"] is None else row["after_count"]
    return _which(row) + ("" if count is None else f" {count:,}")


def _which(row: Row) -> str:
    return " ".join(known(value) for value in row["row"].values() if value is not None)


def _where(row: Row, names: Iterable[dict[str, str]]) -> str:
    """Addresses, or what stands for them; two where they differ."""
    if len(row.get("names", ())) > 1:
        return ""
    pairs = [
        " → ".join(dict.fromkeys(own.get(each, each) for own, each in zip(names, pair, strict=True) if each))
        for pair in row["addresses"].values()
    ]
    return " ".join(filter(None, pairs))


def _text(value: Any, most: int) -> str:
    """A value; of many names the first ones, as many as `most`."""
    if isinstance(value, dict):
        if value and all(isinstance(count, int) for count in value.values()):
            total = sum(value.values())
            names = [f"{name} {count / total:.0%}" for name, count in value.items()]
            return listed([*value] if len(value) == 1 else names, most)
        return listed([f"{name} {_below(each, most)}" for name, each in value.items()], most)
    if isinstance(value, list):
        return listed([*map(str, value)], most) if value else "none"
    return "" if value is None else f"{value:,g}" if isinstance(value, float) else known(value)


def _values(row: Row, most: int) -> tuple[str, str]:
    """The values before and after. Where not all is shown, texts lack the words that they begin with alike: cut in
    their ends they would lack what differs."""
    before, after = _text(row["before"], most), _text(row["after"], most)
    shorter = min(len(before), len(after))
    if most == maxsize or not isinstance(row["before"], str) or shorter <= LEAST:
        return before, after
    pairs = enumerate(zip(before, after, strict=False))
    alike = next((place for place, (one, other) in pairs if one != other), shorter)
    alike = max(before.rfind(mark, 0, alike) + 1 for mark in " ,.-/:")
    return (f"…{before[alike:]}", f"…{after[alike:]}") if alike > 1 else (before, after)


def _below(value: Any, most: int) -> str:
    """A value by a name: a range of versions, or as it is."""
    return "-".join(map(str, dict.fromkeys(value))) if isinstance(value, list) else _text(value, most)


def _rows(row: Row) -> str:
    """Which row it is: of several, the first ones."""
    return listed(row["names"]) if len(row.get("names", ())) > 1 else _which(row)


def _seen(row: Row) -> str:
    if len(row.get("names", ())) > 1:
        return ""
    counts = [count for count in (row["before_count"], row["after_count"]) if count is not None]
    return " → ".join(f"{count:,}" for count in counts)


def _factor(row: Row) -> str:
    return "" if row["factor"] is None else f"×{row['factor']:.3g}"


def _columns(found: Row, style: Style) -> list[Column]:
    names = [address_texts(found[side]) for side in SIDES]
    most = maxsize if style.wide else FEW
    return [
        Column(
            "CHANGE",
            lambda row: row["change"] + ("?" if row["caveat"] else ""),
            style=lambda row: ERROR if row["change"] in (APPEARED, MOVED) else "",
        ),
        Column("ANSWER", lambda row: row["answer"]),
        Column("ROW", _rows),
        Column("ADDRESS", lambda row: _where(row, names), rank=3),
        Column("COLUMN", lambda row: row["column"] or ""),
        Column("BEFORE", lambda row: _values(row, most)[0], least=8),
        Column("AFTER", lambda row: _values(row, most)[1], least=8),
        Column("FACTOR", _factor, right=True, rank=1),
        Column("SEEN", _seen, rank=2),
    ]
