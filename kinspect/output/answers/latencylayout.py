"""The table of latencies."""

from __future__ import annotations

from collections.abc import Callable

from kinspect.output.answers.layout import MINUTE, TIME_OF_DAY, AnswerLayout, known, listed, where
from kinspect.output.columns import Column, Row

WORDS, WAITS = 14, 22
"""Widths to which names of APIs and clients, and causes, are not cut."""

IDLE = "long_poll", "group_wait"
"""Causes that `--slow` leaves out."""


def _ms(value: float | None) -> str:
    return known(None if value is None else f"{value:,.2f}" if value < 10 else f"{value:,.0f}")


def _service(name: str) -> Callable[[Row], str]:
    return lambda row: "" if "wait" in row else _ms(row["service_ms"][name])


def _waits(causes: dict[str, int | None]) -> str:
    """The causes that there were, the most frequent first."""
    waits = {cause: count for cause, count in causes.items() if count}
    ordered = dict(sorted(waits.items(), key=lambda wait: -wait[1]))
    return listed(ordered if len(ordered) > 1 else [*ordered], len(ordered))


def _frames(row: Row) -> Row:
    """Frames of the slowest request, or of the row's own."""
    found: Row = row.get("frames") or row.get("slowest") or {}
    return found


def _more(file: str, rows: list[Row]) -> str:
    if "wait" in rows[0]:
        least = min(int(row["latency_ms"]) for row in rows)
        return f"kinspect read {file} --min-latency {least}ms --wait '!long_poll,!group_wait'"
    busy = [row for row in rows if row["count"] and not any(row["waits"][cause] for cause in IDLE)]
    worst = max((row["service_ms"]["p95"] or 0 for row in busy), default=0)
    return f"kinspect latency {file} --slow {int(worst)}ms" if worst >= 1 else f"kinspect read {file}"


LAYOUT = AnswerLayout(
    (
        Column("MINUTE", where("minute"), least=16, time=MINUTE),
        Column("TIME", where("timestamp"), rank=3, time=TIME_OF_DAY),
        Column("API", where("api"), least=WORDS),
        Column("CLIENT ID", where("client_id"), least=WORDS),
        Column("ADDRESS", where("client_ip"), rank=4),
        Column("PRINCIPAL", where("principal"), rank=9),
        Column("TRANSACTIONAL ID", where("transactional_id")),
        Column("BROKER", where("broker")),
        Column("TOPIC", where("topic")),
        Column("PARTITION", where("partition")),
        Column("COUNT", where("count"), True),
        Column("WAIT", where("wait")),
        Column("LATENCY", lambda row: _ms(row["latency_ms"]) if "wait" in row else "", True),
        Column("SERVICE", lambda row: _ms(row["service_ms"]) if "wait" in row else "", True),
        *(Column(name.upper(), _service(name), True) for name in ("p50", "p95", "p99", "max")),
        Column("LATENCY P99", lambda row: "" if "wait" in row else _ms(row["latency_ms"]["p99"]), True, 5),
        Column("WAITS", where("waits", _waits), rank=2, least=WAITS),
        Column("TOPICS", where("topics", listed), rank=6),
        Column("GROUPS", where("groups", listed), rank=7),
        Column("FRAME", lambda row: known(_frames(row).get("first")), True, 1),
        Column("FILE", lambda row: _frames(row).get("file", ""), rank=8, spare=True),
    ),
    "no such exchange",
    _more,
)
