"""The table of topics."""

from __future__ import annotations

from shlex import quote
from typing import Any

from kinspect.output.answers.layout import ERROR, AnswerLayout, known, listed
from kinspect.output.columns import Column


def _software(row: dict[str, Any]) -> str:
    return " ".join(filter(None, (row["software_name"], row["software_version"])))


def _delivered(row: dict[str, Any]) -> str:
    """Where it is not all records."""
    return "" if row["delivered"] in (None, row["records"]) else known(row["delivered"])


def _more(file: str, rows: list[dict[str, Any]]) -> str:
    named = [row["topic"] for row in rows if row["topic"]]
    return f"kinspect read {file}" + (f" --topic {quote(named[0])}" if named else "")


LAYOUT = AnswerLayout(
    (
        Column("TOPIC", lambda row: known(row["topic"])),
        Column("DIRECTION", lambda row: known(row["direction"])),
        Column("CLIENT ID", lambda row: known(row["client_id"])),
        Column("ADDRESS", lambda row: row["client_ip"], rank=2),
        Column("REQUESTS", lambda row: known(row["requests"]), True),
        Column("RECORDS", lambda row: known(row["records"]), True),
        Column("DELIVERED", _delivered, True),
        Column("BYTES", lambda row: known(row["bytes"]), True),
        Column("ERRORS", lambda row: listed(row["errors"]), style=lambda _: ERROR),
        Column("GROUPS", lambda row: listed(row["groups"]), rank=1),
        Column("CODECS", lambda row: listed(row["codecs"]), rank=4),
        Column("ACKS", lambda row: listed([*row["acks"]]), rank=5),
        Column("PRINCIPAL", lambda row: row["principal"] or "", rank=6),
        Column("SOFTWARE", _software, rank=3),
    ),
    "no topic was produced to or consumed from",
    _more,
)
