"""The table of findings."""

from __future__ import annotations

from typing import Any

from kinspect.output.answers.layout import ERROR, NOTE, AnswerLayout, known
from kinspect.output.columns import Column

_WORDS = {
    "lag": "lag in records",
    "one_sided": "one-sided connections",
    "slow": "slow exchanges",
    "throttled": "throttled exchanges",
    "unanswered": "unanswered requests",
}
"""Findings whose names alone do not say what is counted."""
CONTENTS = frozenset({"brokers", "clients", "groups", "topics"})
"""Findings that say what there is."""
_STYLES = {"error": ERROR, "warning": NOTE}


def _finding(row: dict[str, Any]) -> str:
    name: str = row["finding"]
    return _WORDS.get(name) or name.replace("_", " ")


def _style(row: dict[str, Any]) -> str:
    return _STYLES.get(row["severity"], "")


def _next(file: str, rows: list[dict[str, Any]]) -> str:
    worst = next((row for row in rows if row["finding"] not in CONTENTS), rows[0])
    name, *options = worst["command"].split()
    return " ".join(["kinspect", name, file, *options])


LAYOUT = AnswerLayout(
    (
        Column("FINDING", _finding, style=_style),
        Column("COUNT", lambda row: known(row["count"]), True),
        Column("WHICH", lambda row: row["text"]),
        Column("SHOWN BY", lambda row: row["command"]),
    ),
    "no Kafka traffic",
    _next,
    leads=lambda row: row["finding"] in CONTENTS,
    spans=True,
)
