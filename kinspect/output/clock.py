"""A time in nanoseconds as people read it, in UTC or local time."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from kinspect.model import NS_PER_SECOND

NO_DATE = "no date"


def day_and_clock(ns: int | None, zone: tzinfo | None) -> tuple[str, str]:
    """`2026-11-21` and `07:13:33.399000000` of a time in nanoseconds; `zone`: None is local time."""
    if ns is None:
        return "no time", "–"
    seconds, fraction = divmod(ns, NS_PER_SECOND)
    try:
        moment = datetime.fromtimestamp(seconds, UTC).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        # A broken clock: beyond the year 9999.
        return NO_DATE, f"{seconds}.{fraction:09}"
    return f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S}.{fraction:09}"
