"""A table with a row for each metric that clients push."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinspect.output import Opening
from kinspect.output.columns import REST, Column
from kinspect.output.console import make_console
from kinspect.output.escape import escape
from kinspect.output.recordtable import DASH, TIME, RecordTable, Row
from kinspect.wording import COMMON


def _metric(row: Row) -> str:
    name = row["metric"]
    return f"({row['kind']})" if name is None else escape(name.removeprefix(COMMON))


def _value(row: Row) -> str:
    histogram = row["histogram"]
    if histogram is not None:
        return f"{histogram['count']}×"
    value = row["value"]
    return DASH if value is None else f"{value:.6g}" if isinstance(value, float) else f"{value}"


def _about(row: Row) -> str:
    if row["problem"] is not None:
        return escape(row["problem"])
    if row["metric"] is not None:
        return escape(_texts(row["attributes"]))
    asked = row["asked"]
    told = ["" if row["error"] is None else row["error"], "terminating" if row["terminating"] else ""]
    if asked is not None:
        deltas = "delta" if asked["delta_temporality"] else "cumulative"
        told += [f"every {asked['push_interval_ms']} ms", deltas, *asked["metrics"]]
    return escape(" ".join(filter(None, told)))


def _texts(attributes: dict[str, Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in attributes.items())


WIDTHS = {
    TIME: 12,
    Column("CLIENT ID", lambda row: escape(row["client_id"] or ""), rank=2, least=8): 14,
    Column("METRIC", _metric, least=24): 48,
    Column("TYPE", lambda row: row["temporality"] or row["type"] or "", rank=4): 10,
    Column("VALUE", _value, right=True): 11,
    Column("ABOUT", _about, rank=1, least=12): REST,
}


def open_rows(opening: Opening, columns: Sequence[str]) -> RecordTable:
    """Rows, which the sink is told, as lines below their day."""
    style = opening.style
    return RecordTable(make_console(opening.stream, style.color), WIDTHS, utc=style.utc, wide=style.wide)
