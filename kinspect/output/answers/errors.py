"""The table of errors, and below it what each one means."""

from __future__ import annotations

from typing import Any

from kinspect.output.answers.layout import DIM, ERROR, TIME_OF_DAY, UNKNOWN, Column, Layout, known, listed

NAMES, WORDS = 28, 12
"""Widths to which names of errors, and those of APIs and clients, are not cut."""
EXPECTED = {True: "yes", False: "no", None: UNKNOWN}

Row = dict[str, Any]


def _style(row: Row) -> str:
    return DIM if row["expected"] else ERROR


def _notes(rows: list[Row]) -> list[str]:
    """A line for each error, in the order of the table."""
    return [*dict.fromkeys(f"{row['error']}: {row['meaning']} {row['advice']}" for row in rows)]


def _more(file: str, rows: list[Row]) -> str:
    api = rows[0]["api"]
    return f"kinspect read {file} --errors-only" + (f" --api {api}" if api else "")


LAYOUT = Layout(
    (
        Column("ERROR", lambda row: row["error"], style=_style, least=NAMES),
        Column("COUNT", lambda row: known(row["count"]), True),
        Column("EXPECTED", lambda row: EXPECTED[row["expected"]]),
        Column("API", lambda row: known(row["api"]), least=WORDS),
        Column("CLIENT ID", lambda row: known(row["client_id"]), least=WORDS),
        Column("ADDRESS", lambda row: row["client_ip"], rank=3),
        Column("TOPICS", lambda row: listed(row["topics"]), rank=1),
        Column("GROUPS", lambda row: listed(row["groups"]), rank=2),
        Column("FIRST", lambda row: known(row["first"]), rank=5, time=TIME_OF_DAY),
        Column("LAST", lambda row: known(row["last"]), rank=4, time=TIME_OF_DAY),
    ),
    "no error code, and every request was answered",
    _more,
    notes=_notes,
)
