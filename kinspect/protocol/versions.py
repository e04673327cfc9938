"""Sets of message versions in the table's notation: `0-3,5+`, where `+` runs to the newest version."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

# Far above any version Kafka has; int16 on the wire.
_OPEN_END: Final = 1 << 15


def parse_versions(text: str, valid: Iterable[int] | None = None) -> frozenset[int]:
    """Versions named by `text`; with `valid`, only those in it, as `5+` has no end of its own.

    Raises ValueError for text that is not a version set, or an open end without `valid`.
    """
    return _parsed(text, None if valid is None else frozenset(valid))


@lru_cache(4096)  # the table repeats the same sets for most fields
def _parsed(text: str, valid: frozenset[int] | None) -> frozenset[int]:
    if text == "none":
        return frozenset()
    ranges = version_ranges(text)
    if valid is not None:
        return frozenset([version for version in valid for low, high in ranges if low <= version <= high])
    if any(high == _OPEN_END for _, high in ranges):
        raise ValueError(f"versions {text!r} have no end")
    return frozenset([version for low, high in ranges for version in range(low, high + 1)])


def version_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """First and last version of each range in `text`."""
    return tuple(_bounds(part) for part in text.split(","))


def _bounds(part: str) -> tuple[int, int]:
    if part.endswith("+"):
        return int(part[:-1]), _OPEN_END
    low, _, high = part.partition("-")
    return int(low), int(high or low)


def format_versions(versions: Iterable[int], valid: Iterable[int] | None = None) -> str:
    """Shortest text for `versions`; with `valid`, a set that runs to the newest of them ends in `+`."""
    wanted = sorted(versions)
    if not wanted:
        return "none"
    order = sorted(valid) if valid is not None else list(range(wanted[0], wanted[-1] + 1))
    runs: list[list[int]] = []
    previous = None
    for version in wanted:
        index = order.index(version)
        if previous is not None and index == previous + 1:
            runs[-1].append(version)
        else:
            runs.append([version])
        previous = index
    newest = order[-1] if valid is not None else None
    return ",".join(_format_run(run[0], run[-1], newest) for run in runs)


def _format_run(low: int, high: int, newest: int | None) -> str:
    if high == newest:
        return f"{low}+"
    return str(low) if low == high else f"{low}-{high}"
