"""Option values as people write them."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import click

from kinspect.errors import KinspectError
from kinspect.filters.values import UNITS, parse_duration, parse_size

SIZE_UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class Size(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """A size in bytes: `65536`, `64KiB`, `64k`, `1.5GB`; `most`, `least`: the largest and smallest one accepted."""

    name = "size"

    def __init__(self, most: int | None = None, least: int = 0) -> None:
        self._most = most
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            size = parse_size(str(value))
        except KinspectError as error:
            self.fail(str(error), param, ctx)
        if self._most is not None and size > self._most:
            self.fail(f"must be {self.written(self._most)} at most", param, ctx)
        if 0 < size < self._least:
            self.fail(f"must be {self._least} bytes at least", param, ctx)
        return size or self.fail("must be more than 0", param, ctx)

    def written(self, size: int) -> str:
        """The size in the greatest unit that it is a whole number of: `64MiB`."""
        return _written(size, SIZE_UNITS)


class Duration(click.ParamType):  # type: ignore[type-arg]  # as above
    """A duration, converted to nanoseconds: `600`, `90s`, `500ms`, `10m`, `1.5h`; `zero`: 0 is accepted."""

    name = "duration"

    def __init__(self, zero: bool = False) -> None:
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            duration = parse_duration(str(value))
            return duration if duration or self._zero else self.fail("must be more than 0", param, ctx)
        except KinspectError as error:
            self.fail(str(error), param, ctx)

    def written(self, nanoseconds: int) -> str:
        """The duration in the greatest unit that it is a whole number of: `10m`."""
        return _written(nanoseconds, UNITS)


class Number(click.IntRange):
    """A whole number of a range."""

    name = "number"


class Count(Number):
    """A number of things."""

    def written(self, count: int) -> str:
        return str(count)


class Mode(click.ParamType):  # type: ignore[type-arg]  # as above
    """Permissions of a file, in octal: `640`, `0640`; its owner can read and write it."""

    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if re.fullmatch(r"0?[0-7]{3}", value) is None:
            self.fail(f"{value!r} is not a mode: give three octal digits, as 0640", param, ctx)
        mode = int(value, 8)
        if mode & 0o600 != 0o600:
            self.fail(f"{value}: the owner must be able to read and write the file, as with 0640", param, ctx)
        return mode


def _written(value: int, units: dict[str, int]) -> str:
    unit = max((unit for unit, size in units.items() if value % size == 0), key=units.__getitem__)
    return f"{value // units[unit]}{unit}"


class Factor(click.FloatRange):
    """A finite number above 1."""

    name = "factor"

    def __init__(self) -> None:
        super().__init__(1, min_open=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        factor: float = super().convert(value, param, ctx)
        if not isfinite(factor):
            self.fail(f"{value} is no number", param, ctx)
        return factor


SIZE, DURATION, MODE = Size(), Duration(), Mode()
PORT = Number(1, 65535)
COUNT = Count(min=1)
