"""The table of latencies."""

from __future__ import annotations

from typing import Any

from kinspect.output.answers.layout import Column, Layout, known, listed

Row = dict[str, Any]


def _of(key: str, title: str, right: bool = False, rank: int = 0) -> Column:
    return Column(title, lambda row: known(row[key]), right, rank, key=key)


def _ms(value: float | None) -> str:
    return known(None if value is None else f"{value:,.2f}" if value < 10 else f"{value:,.0f}")


def _quantile(title: str, kind: str, name: str, rank: int = 0) -> Column:
    return Column(title, lambda row: _ms(row[kind][name]), True, rank, key="count")


def _waits(row: Row) -> str:
    """The causes that there were, the most frequent first."""
    waits = {cause: count for cause, count in row["waits"].items() if count}
    ordered = dict(sorted(waits.items(), key=lambda wait: -wait[1]))
    return listed(ordered if len(ordered) > 1 else [*ordered], len(ordered))


def _frames(row: Row) -> Row:
    """Frames of the slowest request, or of the row's own."""
    found: Row = row.get("frames") or row.get("slowest") or {}
    return found


def _more(file: str, rows: list[Row]) -> str:
    if "wait" in rows[0]:
        return f"kinspect read {file} --min-latency {rows[0]['latency_ms']:.0f}ms"
    worst = rows[0]["service_ms"]["p95"]
    return f"kinspect read {file}" if worst is None else f"kinspect latency {file} --slow {worst:.0f}ms"


LAYOUT = Layout(
    (
        Column("MINUTE (UTC)", lambda row: known(row["minute"] and row["minute"][:16]), key="minute"),
        Column(
            "TIME (UTC)",
            lambda row: known(row["timestamp"] and row["timestamp"][11:23]),
            rank=3,
            key="timestamp",
        ),
        _of("api", "API"),
        _of("client_id", "CLIENT ID"),
        _of("client_ip", "ADDRESS", rank=2),
        _of("broker", "BROKER"),
        _of("topic", "TOPIC"),
        _of("count", "COUNT", True),
        Column("WAIT", lambda row: row["wait"], key="wait"),
        Column("LATENCY", lambda row: _ms(row["latency_ms"]), True, key="wait"),
        Column("SERVICE", lambda row: _ms(row["service_ms"]), True, key="wait"),
        _quantile("P50", "service_ms", "p50"),
        _quantile("P95", "service_ms", "p95"),
        _quantile("P99", "service_ms", "p99"),
        _quantile("MAX", "service_ms", "max"),
        _quantile("LATENCY P99", "latency_ms", "p99", rank=5),
        Column("WAITS", _waits, rank=1, key="count", whole=True),
        Column("TOPICS", lambda row: listed(row["topics"]), rank=4, key="topics"),
        Column("GROUPS", lambda row: listed(row["groups"]), rank=5, key="groups"),
        Column("FRAME", lambda row: known(_frames(row).get("first")), True, rank=6),
        Column("FILE", lambda row: _frames(row).get("file", ""), rank=7),
    ),
    "no such exchange",
    _more,
)
