"""What a table of lines must give: the same sums as the lines themselves."""

from __future__ import annotations

import json
from datetime import datetime

FIGURES = (
    "count(*), sum(record_count), sum(record_bytes), sum(error_count), count(latency_ms), sum(client.port), "
    "sum(length(topics)), sum(request.size), round(sum(latency_ms), 1), {nanoseconds}(max(timestamp))"
)
"""Of the table's rows, in SQL; `nanoseconds`: the function that makes them of a time."""


def rows(path, *key):
    """The lines of a file, one of each key."""
    found = {tuple(row[name] for name in key): row for row in map(json.loads, path.read_bytes().splitlines())}
    return [*found.values()]


def sums(rows):
    """FIGURES of rows."""

    def total(*values):
        return sum(value for value in values if value is not None)

    return (
        len(rows),
        total(*(row["record_count"] for row in rows)),
        total(*(row["record_bytes"] for row in rows)),
        total(*(row["error_count"] for row in rows)),
        sum(row["latency_ms"] is not None for row in rows),
        total(*(row["client"]["port"] for row in rows)),
        sum(len(row["topics"]) for row in rows),
        total(*(row["request"]["size"] for row in rows if row["request"])),
        round(total(*(row["latency_ms"] for row in rows)), 1),
        max(nanoseconds(row["timestamp"]) for row in rows if row["timestamp"]),
    )


def nanoseconds(time):
    """Since the epoch, of a time with nine digits."""
    second, _, fraction = time.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(f"{second}+00:00").timestamp()) * 10**9 + int(fraction)
