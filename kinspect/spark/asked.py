"""What a table is asked for, as the driver and the tasks have it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from kinspect.filters import Filter
from kinspect.kafka.view import View
from kinspect.spark.tables import Table, open_table

Unresolved = Callable[[set[str]], None]
"""Takes the topic ids that had no name."""


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
        Filter(**self.chosen)
        self.table()

    def table(self) -> Table:
        """The table, to be filled."""
        return open_table(self.name, self.fields, self.view)

    def filter(self) -> Filter:
        """What passes."""
        return Filter(**self.chosen)
