"""Option values as people write them."""

from __future__ import annotations

import re
from typing import Any

import click

from kinspect.errors import KinspectError
from kinspect.filters import parse_duration

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE | re.ASCII)


class Size(click.ParamType):  # type: ignore[type-arg]  # not generic before click 8.4
    """Bytes: `65536`, `64KiB`, `64k`, `1.5GB`."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = _SIZE.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is not a size: give bytes, or a number and a unit, as 64MiB", param, ctx)
        number, prefix, binary = match.groups()
        base = 1024 if binary else 1000
        size = int(float(number) * base ** " KMGT".index(prefix.upper() or " "))
        return size or self.fail("must be more than 0", param, ctx)


class Duration(click.ParamType):  # type: ignore[type-arg]  # as above
    """Nanoseconds: `600`, `90s`, `500ms`, `10m`, `1.5h`."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_duration(str(value)) or self.fail("must be more than 0", param, ctx)
        except KinspectError as error:
            self.fail(str(error), param, ctx)


SIZE, DURATION = Size(), Duration()
PORT = click.IntRange(1, 65535)
COUNT = click.IntRange(min=1)
