"""The table of errors, and below it what each one means."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kinspect.output.answers.layout import (
    DIM,
    ERROR,
    MINUTE,
    TIME_OF_DAY,
    UNKNOWN,
    AnswerLayout,
    counted,
    known,
    listed,
    where,
)
from kinspect.output.columns import Column, Row

NAMES, WORDS = 28, 12
"""Widths to which names of errors, and those of APIs and clients, are not cut."""
LISTS = "topics", "groups", "principals", "transactional_ids"
EXPECTED = {True: "yes", False: "no", None: UNKNOWN}


def _style(row: Row) -> str:
    return DIM if row["expected"] else ERROR


def _gathered(rows: list[Row]) -> list[Row]:
    """Of expected errors one row for each API and error, whoever got them."""
    found: dict[Any, list[Row]] = {}
    for number, row in enumerate(rows):
        alike = (
            row["expected"]
            and "client_id" in row
            and (row["api"], row["error"], row["meaning"], row.get("minute"))
        )
        found.setdefault(alike or number, []).append(row)
    return sorted([alike[0] if len(alike) == 1 else _one(alike) for alike in found.values()], key=_place)


def _place(row: Row) -> tuple[Any, ...]:
    return row.get("minute") or "", bool(row["expected"]), -row["count"]


def _one(rows: list[Row]) -> Row:
    texts = {key: sorted({text for row in rows for text in row[key]}) for key in LISTS}
    return {
        **rows[0],
        **texts,
        "clients": len({(row["client_id"], row["client_ip"]) for row in rows}),
        "count": sum(row["count"] for row in rows),
        "first": min((row["first"] for row in rows if row["first"]), default=None),
        "last": max((row["last"] for row in rows if row["last"]), default=None),
        "client_id": None,
        "client_ip": None,
    }


def _client(row: Row) -> str:
    return counted(row["clients"], "client") if "clients" in row else where("client_id")(row)


def _notes(rows: list[Row], capture: Row) -> list[str]:
    """A line for each error, in the order of the table; where one means several things, of which rows each is."""
    notes: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        notes.setdefault((row["error"], f"{row['meaning']} {row['advice']}"), []).append(row)
    meanings = Counter(error for error, _ in notes)
    return [
        f"{error}{f' ({_places(found)})' if meanings[error] > 1 else ''}: {text}"
        for (error, text), found in notes.items()
    ]


def _places(rows: list[Row]) -> str:
    """APIs and clients of rows."""
    return listed(
        [*dict.fromkeys(" of ".join(filter(None, (known(row["api"]), _client(row)))) for row in rows)]
    )


def _more(file: str, rows: list[Row]) -> str:
    api = rows[0]["api"]
    return f"kinspect read {file} --errors-only" + (f" --api {api}" if api else "")


LAYOUT = AnswerLayout(
    (
        Column("MINUTE", where("minute"), least=16, time=MINUTE),
        Column("ERROR", lambda row: row["error"], style=_style, least=NAMES),
        Column("COUNT", lambda row: known(row["count"]), True),
        Column("EXPECTED", lambda row: EXPECTED[row["expected"]]),
        Column("API", lambda row: known(row["api"]), least=WORDS),
        Column("CLIENT ID", _client, least=WORDS),
        Column("ADDRESS", lambda row: row.get("client_ip") or "", rank=3),
        Column("PRINCIPAL", where("principal")),
        Column("TRANSACTIONAL ID", where("transactional_id")),
        Column("BROKER", where("broker")),
        Column("TOPIC", where("topic")),
        Column("PARTITION", where("partition")),
        Column(
            "TOPICS", lambda row: "" if {"topic", "partition"} & row.keys() else listed(row["topics"]), rank=1
        ),
        Column("GROUPS", lambda row: listed(row["groups"]), rank=2),
        Column("PRINCIPALS", lambda row: "" if "principal" in row else listed(row["principals"]), rank=1),
        Column(
            "TXN IDS",
            lambda row: "" if "transactional_id" in row else listed(row["transactional_ids"]),
            rank=2,
        ),
        Column("FIRST", lambda row: known(row["first"]), rank=5, time=TIME_OF_DAY),
        Column("LAST", lambda row: known(row["last"]), rank=4, time=TIME_OF_DAY),
    ),
    "no error code, and every request was answered",
    _more,
    notes=_notes,
    gathered=_gathered,
)
