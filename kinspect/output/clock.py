"""A time in nanoseconds as people read it, in UTC or local time."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING

from kinspect.model import NS_PER_SECOND

if TYPE_CHECKING:
    from rich.text import Text

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


class DayLines:
    """The times of rows, and a line above those of each day; `wide`: no line, each row has its day."""

    def __init__(self, utc: bool, wide: bool) -> None:
        self.zone = "UTC" if utc else "local time"
        self.day: str | None = None
        """That of the last row."""
        self._zone = UTC if utc else None
        self._wide = wide

    def day_and_time(self, ns: int | None) -> tuple[str, str]:
        """The day of a row's time, and its text in the row."""
        day, clock = day_and_clock(ns, self._zone)
        return day, f"{day} {clock}" if self._wide else clock

    def above(self, day: str) -> list[Text]:
        """The line above the next row, if that is the first one of its day."""
        from rich.text import Text

        is_new, self.day = day != self.day, day
        return [Text(f"{day} {self.zone}", style="dim")] if is_new and not self._wide else []
