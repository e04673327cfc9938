"""The table of findings."""

from __future__ import annotations

from typing import Any

from kinspect.output.answers.layout import ERROR, NOTE, Column, Layout, known

_STYLES = {"error": ERROR, "warning": NOTE}


def _style(row: dict[str, Any]) -> str:
    return _STYLES.get(row["severity"], "")


def _next(file: str, rows: list[dict[str, Any]]) -> str:
    name, *options = rows[0]["command"].split()
    return " ".join(["kinspect", name, file, *options])


LAYOUT = Layout(
    (
        Column("FINDING", lambda row: row["finding"].replace("_", " "), style=_style),
        Column("COUNT", lambda row: known(row["count"]), True),
        Column("", lambda row: row["text"]),
        Column("SHOWN BY", lambda row: f"kinspect {row['command']}", rank=1),
    ),
    "no Kafka traffic",
    _next,
)
