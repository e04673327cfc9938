"""The table of logins."""

from __future__ import annotations

from typing import Any

from kinspect.output.answers.layout import ERROR, NOTE, AnswerLayout, Clock, counted, known
from kinspect.output.columns import Column


def _none_if_zero(count: int) -> str:
    return f"{count:,}" if count else ""


def _details(row: dict[str, Any], _: Clock) -> list[str]:
    lines = [f"{counted(count, 'time')}: {reason}" for reason, count in row["reasons"].items()]
    if row["probably_failed"]:
        times = counted(row["probably_failed"], "time")
        lines.append(f"{times}: the broker closed the connection right after the token")
    return lines


def _next(file: str, rows: list[dict[str, Any]]) -> str:
    refused = rows[0]["failed"] or rows[0]["probably_failed"]
    return f"kinspect read {file} --api 'Sasl*'" + " --errors-only" * bool(refused)


LAYOUT = AnswerLayout(
    (
        Column("FAILED", lambda row: _none_if_zero(row["failed"]), True, style=lambda _: ERROR),
        Column(
            "PROBABLY FAILED", lambda row: _none_if_zero(row["probably_failed"]), True, style=lambda _: NOTE
        ),
        Column("SUCCEEDED", lambda row: _none_if_zero(row["succeeded"]), True),
        Column("CLIENT ID", lambda row: known(row["client_id"])),
        Column("ADDRESS", lambda row: row["client_ip"], rank=2),
        Column("MECHANISM", lambda row: known(row["mechanism"]), rank=1),
        Column("PRINCIPAL", lambda row: known(row["principal"])),
        Column("TLS", lambda row: "yes" if row["tls"] else "no", rank=3),
    ),
    "no client authenticated by SASL",
    _next,
    _details,
)
