"""What a table is asked for, as the driver and the tasks have it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kinspect.errors import KinspectError
from kinspect.filters import FILTER_NAMES, REPEATED, Filter
from kinspect.kafka.view import View
from kinspect.spark.tables import Table, open_table

Tell = Callable[[int, set[str], dict[str, int]], None]
"""Takes what a task found while it made rows: its part's number, topic ids that had no name, and the caps it hit."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A table, and of what: see `kinspect.spark.read`. Raises KinspectError for what makes no sense."""

    name: str
    fields: Collection[str] | None = None
    view: View = field(default_factory=View)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    keylog: bytes = b""
    names: dict[str, str] = field(default_factory=dict)
    kafka_ports: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self.filter()
        self.table()

    def table(self) -> Table:
        """The table, to be filled."""
        return open_table(self.name, self.fields, self.view)

    def filter(self) -> Filter:
        """What passes. Raises KinspectError."""
        return filter_of(self.chosen)


def filter_of(chosen: Mapping[str, Any]) -> Filter:
    """A filter by the options of `Filter`; where several values can be given, one alone is taken too. Raises
    KinspectError."""
    unknown = chosen.keys() - FILTER_NAMES
    if unknown:
        raise KinspectError(
            f"there is no filter {', '.join(sorted(unknown))}; there are {', '.join(FILTER_NAMES)}"
        )
    options: dict[str, Any] = {
        name: [value] if name in REPEATED and isinstance(value, str) else value
        for name, value in chosen.items()
    }
    return Filter(**options)
