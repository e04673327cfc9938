"""What an answer is beside its accumulator: its line in `--help`, options, keys, and how a terminal shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kinspect.analysis.answer import Answer
from kinspect.answers.celltexts import known
from kinspect.output.columns import LEAST, Column, Row
from kinspect.output.escape import escape

_NUMBERS = frozenset({"int", "long", "double"})

Clock = Callable[[str | None], str]
"""Gives the time of day of a row's time."""
FilterWords = Iterable[tuple[str, str | None]]
"""Filters with their values as they are typed; None for one that takes none."""


class OwnOption(NamedTuple):
    """An option of an answer. `help`: its line in `--help`; `metavar`: what stands for its value there, None: it has
    none; `words`: those that complete it; `read`: makes its value of what is given, if that may be a capture, of which
    it is handed the object of an answer, by its name and the path."""

    help: str
    metavar: str | None = None
    words: Callable[[], Iterable[str]] | None = None
    read: Callable[[Any, Callable[[str, str], dict[str, Any]]], Any] | None = None


@dataclass(eq=False, repr=False)
class Key:
    """A key of an answer's rows. `kind`: that of its column in tables (`tables/arrowcolumns.py`), or one of
    `Definition.structs`; `meaning`: the column's comment, if the name does not say it all.

    `title`: above its cells on a terminal, which does not show the key without one; `text`: a cell, of the value;
    `cell`: the same of the whole row; the others: as those of `Column`. `opens`: the filter that lists the exchanges of
    such a value, or gives filters for a row."""

    name: str
    kind: str
    meaning: str = ""
    title: str = ""
    text: Callable[[Any], str] = known
    cell: Callable[[Row], str] | None = None
    rank: int = 0
    style: str | Callable[[Row], str] = ""
    least: int = LEAST
    time: tuple[int, int] | None = None
    right: bool = False
    opens: str | Callable[[Row], FilterWords] = ""

    def column(self) -> Column:
        """Its column on a terminal. Options of an answer choose its keys: rows without it have no text."""
        name, text, style = self.name, self.text, self.style
        return Column(
            self.title,
            self.cell or (lambda row: text(row[name]) if name in row else ""),
            self.right or self.kind in _NUMBERS,
            self.rank,
            (lambda _: style) if isinstance(style, str) else style,
            self.least,
            self.time,
        )


@dataclass(eq=False, repr=False)
class Definition:
    """An answer. `answer`: its accumulator; `page`: the key that opens its page, by which answers stand in order;
    `page_help`: what the page shows; `columns`: keys of its rows in their order, and columns of the terminal that
    are made of several; `order`: titles in the order of the terminal, where it is another one; `options`: its own,
    by the argument of its class that takes the value; `structs`: kinds of keys that are objects, by name, with the
    keys of these; `failures`: tests of rows, by the words of `--fail-on`.

    `nothing`: the text where there are no rows; `more`: the command to type next, from a file's name and the rows in
    the order in which they are shown; `unread`: the text in place of `nothing` where something was cut or lost;
    `details`: lines below a row, for what one line has no room for; `meaning`: those behind them, which stand below the
    first of rows that have the same; `notes`: lines below the table, from the rows that
    it shows and what the object says of its capture; `folds`: true for a row of which `folded` tells, a line for all of
    them; `joined`: rows of one thing as one row; `gathered`: where not all is shown, rows with one in place of several
    that are alike; `leads`: true for a row that stands before the others; `spans`: the table stands below the capture's
    time span; `leads_to`: the answer that shows more of a row; `connections`: where the packets of a row's connections
    stand, each as `frames` in their lines, beside its `client_ip` and `broker`.

    For the differences of two captures, names of columns: `identity`: those that tell which row it is, none: its rows
    are not compared; `addresses`: those that tell it too where both captures have them; `compared`: those that are
    compared, by their kinds (`comparison.py`); `NAME.BELOW` is that of the objects in a map. `unknown`: by
    column, the value that stands for what is not known, other than null; `usual`: true for a row that may come and go;
    `troubles`: its rows are what went wrong; `without_kafka`: it has rows where no Kafka could be decoded."""

    answer: type[Answer]
    help: str
    page: str
    page_help: str
    columns: tuple[Key | Column, ...]
    nothing: str
    more: Callable[[str, list[Row]], str]
    order: str = ""
    options: Mapping[str, OwnOption] = field(default_factory=dict)
    structs: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, Callable[[Row], bool]] = field(default_factory=dict)
    details: Callable[[Row, Clock], list[str]] = lambda *_: []
    meaning: Callable[[Row], list[str]] = lambda _: []
    notes: Callable[[list[Row], Row], list[str]] = lambda rows, capture: []
    folds: Callable[[Row], bool] = lambda _: False
    folded: Callable[[list[Row]], str] = lambda _: ""
    joined: Callable[[list[Row]], list[Row]] = lambda rows: rows
    gathered: Callable[[list[Row]], list[Row]] = lambda rows: rows
    leads: Callable[[Row], bool] = lambda _: False
    spans: bool = False
    unread: str = ""
    leads_to: Callable[[Row], str] = lambda _: ""
    connections: Callable[[Row], list[Row]] = lambda _: []
    identity: str = ""
    addresses: str = ""
    compared: str = ""
    unknown: Mapping[str, Any] = field(default_factory=dict)
    usual: Callable[[Row], bool] = lambda _: False
    troubles: bool = False
    without_kafka: bool = False

    @property
    def keys(self) -> list[Key]:
        """The keys of a row."""
        return [each for each in self.columns if isinstance(each, Key)]

    @property
    def titled(self) -> list[Column]:
        """The columns on a terminal."""
        found = (each.column() if isinstance(each, Key) else each for each in self.columns)
        order = self.order.split(", ")
        return sorted(
            filter(lambda each: each.title, found),
            key=lambda each: order.index(each.title) if each.title in order else len(order),
        )

    def ordered(self, rows: list[Row]) -> list[Row]:
        """The rows in the order in which they are shown."""
        return sorted(self.joined(rows), key=lambda row: not self.leads(row))

    def split(self, rows: list[Row]) -> tuple[list[Row], list[Row]]:
        """Rows with a line each, and those that are folded into one."""
        whole: list[Row] = []
        folded: list[Row] = []
        for row in self.gathered(self.ordered(rows)):
            (folded if self.folds(row) else whole).append(row)
        return whole, folded

    def empty(self, capture: Row) -> str:
        """The text where there are no rows."""
        if nothing_decoded(capture):
            return escape(capture["incomplete"][0])
        if capture["filters"] and not capture["counted"]:
            return "nothing passes the filter"
        text = self.unread if self.unread and capture["gaps"] else self.nothing
        return text + (" in what passes the filter" if capture["filters"] else "")

    def flat(self, row: Row) -> Iterator[tuple[str, Any]]:
        """The row's keys and values, those of an object that always has the same keys apart, also where it is null."""
        objects = {key.name: self.structs[key.kind] for key in self.keys if key.kind in self.structs}
        for name, value in row.items():
            if name in objects and not isinstance(value, (int, float)):
                for below in objects[name].split(","):
                    key = below.split()[0]
                    yield f"{name}.{key}", (value or {}).get(key)
            else:
                yield name, value


def nothing_decoded(capture: Row) -> bool:
    """True if there is nothing to answer from; the first line of what is missing says why."""
    return bool(capture["exchanges"] == capture["orphans"] and not capture["complete"])


def address_texts(capture: Row) -> dict[str, str]:
    """What stands for addresses that have names."""
    names: dict[str, list[str]] = capture.get("names", {})
    return {address: ", ".join(own) + _port(address) for address, own in names.items()}


def _port(address: str) -> str:
    """The port behind an address, with its colon; empty if there is none."""
    ip, colon, port = address.rpartition(":")
    return colon + port if colon and (ip.endswith("]") or ":" not in ip) else ""
