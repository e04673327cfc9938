"""Ranges of whole numbers: how many exchanges, which versions."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kinspect.errors import KinspectError
from kinspect.filters.values import DIGITS_MOST
from kinspect.wording import counted

_RANGE = rf"(\d{{0,{DIGITS_MOST}}})\.\.(\d{{0,{DIGITS_MOST}}})"


class Bounds(NamedTuple):
    """The least number, and the greatest; None: any."""

    low: int = 0
    high: int | None = None

    def has(self, number: int) -> bool:
        return number >= self.low and (self.high is None or number <= self.high)

    def text(self, thing: str) -> str:
        """So many of a thing: `no exchange`, `1 exchange`, `1 to 3 exchanges`, `at least 1 exchange`."""
        if self.high is None:
            return f"at least {counted(self.low, thing)}"
        if self.low == self.high:
            return counted(self.low, thing) if self.high else f"no {thing}"
        return f"{f'{self.low:,} to' if self.low else 'at most'} {counted(self.high, thing)}"

    @property
    def versions(self) -> str:
        """Versions: `v3 to v9`, `v3 or later`, `v9 or earlier`."""
        if self.high is None:
            return f"v{self.low} or later"
        return f"v{self.low} to v{self.high}" if self.low else f"v{self.high} or earlier"


def bounds_of(value: Any) -> Bounds:
    """The range that a number, `"1..3"` (both ends belong to it, and one may be left out) or a `range` of Python says.
    Raises KinspectError."""
    if isinstance(value, range) and value.step == 1 and 0 <= value.start < value.stop:
        return Bounds(value.start, value.stop - 1)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**DIGITS_MOST:
        return Bounds(value, value)
    if isinstance(value, str) and (found := re.fullmatch(_RANGE, value, re.ASCII)) and len(value) > 2:
        low, high = found.groups()
        bounds = Bounds(int(low or 0), int(high) if high else None)
        if bounds.high is None or bounds.low <= bounds.high:
            return bounds
    raise KinspectError(
        f'{value!r} is neither a number nor a range of numbers: give 2, "1..3", "1.." or "..3"'
    )
