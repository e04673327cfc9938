"""What tables are asked for, as the driver and the tasks have it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any
from uuid import uuid4

import orjson

from kinspect.filters import Filter, filter_from
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.names import LearnedNames
from kinspect.model import Caps
from kinspect.pipeline import Inspector
from kinspect.tables.names import DEFAULT_TABLES
from kinspect.tables.rows import Table, open_table
from kinspect.tls import KeyLog


@dataclass(frozen=True, slots=True)
class Request:
    """Tables, and of what: see `kinspect.spark.read`. `fields` are of the one table that is asked for.

    Raises KinspectError for what makes no sense.
    """

    tables: tuple[str, ...] = DEFAULT_TABLES
    fields: Collection[str] | None = None
    view: View = field(default_factory=View)
    chosen: Mapping[str, Any] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    kafka_ports: frozenset[int] = frozenset()
    caps: Caps = field(default_factory=Caps)
    run_id: str = field(default_factory=lambda: uuid4().hex)
    capture_point: str | None = None
    late_secrets: bool = False
    """Whether TLS secrets may come when packets they are for were decoded."""

    def __post_init__(self) -> None:
        self.filter()
        self.open()

    def open(self) -> dict[str, Table]:
        """The tables, to be filled."""
        return {name: open_table(name, self.fields, self.view) for name in self.tables}

    def filter(self) -> Filter:
        """What passes; where a filter takes several values, one alone is taken too. Raises KinspectError."""
        return filter_from(self.chosen)

    def inspector(
        self, names: LearnedNames, keylog: KeyLog, emit: frozenset[str], files: Sequence[str]
    ) -> Inspector:
        """One for an island; the rest is what islands share."""
        inspector = Inspector(
            caps=self.caps,
            names=names,
            keylog=keylog,
            kafka_ports=self.kafka_ports,
            emit=emit,
            files=files,
        )
        if self.late_secrets:
            inspector.expect_secrets()
        return inspector

    def described(self) -> dict[str, Any]:
        """What rows depend on, by the option's name, as JSON has it."""
        options = {
            "--payload": self.view.payload,
            "--show-secrets": self.view.show_secrets,
            "--topic-names": sorted(self.names.items()),
            "--decode-as": sorted(self.kafka_ports),
            "--capture-point": self.capture_point,
            "limits": astuple(self.caps),
            "filters": {name: value for name, value in self.chosen.items() if value},
        }
        return dict(orjson.loads(orjson.dumps(options)))
