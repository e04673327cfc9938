"""The requested tables and answers and their options, for driver and tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from hashlib import sha256
from typing import Any
from uuid import uuid4

import orjson

from kinspect.analysis.answer import Answer
from kinspect.answers import open_answer
from kinspect.errors import KinspectError
from kinspect.filters.filter import Filter, filter_from
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.hostnames import HostNames, HostPort
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.model import Caps
from kinspect.pipeline import Inspector
from kinspect.protocol import schema
from kinspect.protocol.tabletext import ApiFile, write_api
from kinspect.tables.rows import Table, open_tables
from kinspect.tables.tablenames import DEFAULT_TABLES
from kinspect.tls.keylog import KeyLog


@dataclass(frozen=True, slots=True)
class Request:
    """Requested tables and answers, and the options of their rows: see `kinspect.spark.read` and
    `kinspect.spark.answer`. `fields` needs a single table; `options`, those of an answer's class, a single answer.

    Raises KinspectError for invalid options.
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
    answers: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    definitions: Mapping[int, ApiFile] = field(default_factory=schema.LAID_OVER.copy)
    """What is laid over the table, and is in each task: many come to a process, one after the other."""
    hosts: Mapping[HostPort, str] = field(default_factory=dict)
    """Names of addresses."""
    late_secrets: bool = False
    """True if TLS secrets may arrive after the packets that they decrypt."""

    def __post_init__(self) -> None:
        if self.filter().translations is not None:
            raise KinspectError("no_twins is not for Spark, where each connection is decoded by itself")
        self.open()
        self.open_answers()

    def open(self) -> dict[str, Table]:
        """The requested tables by name."""
        return open_tables(self.tables, self.fields, self.view)

    def open_answers(self) -> dict[str, Answer]:
        """The requested answers by name, empty. Raises KinspectError."""
        answers = {name: open_answer(name, **self.options) for name in self.answers}
        for answer in answers.values():
            answer.take_all()
        return answers

    def filter(self) -> Filter:
        """The filter of the chosen options; those that take several values also take one. Raises KinspectError."""
        return filter_from(self.chosen)

    def known_names(self) -> LearnedNames:
        """The names that were given, to learn others."""
        return LearnedNames(dict(self.names), HostNames(self.hosts))

    def inspector(
        self, names: LearnedNames, keylog: KeyLog, emit: frozenset[str], files: Sequence[str]
    ) -> Inspector:
        """An inspector for one island, with the state that islands share."""
        inspector = Inspector(
            caps=self.caps, names=names, keylog=keylog, kafka_ports=self.kafka_ports, emit=emit, files=files
        )
        if self.late_secrets:
            inspector.expect_secrets()
        return inspector

    def described(self) -> dict[str, Any]:
        """Values on which rows depend, by option, of types that JSON has."""
        texts = [write_api(api) for _, api in sorted(self.definitions.items())]
        options = {
            "--payload": self.view.payload,
            "--show-secrets": self.view.show_secrets,
            "--topic-names": sorted(self.names.items()),
            "--decode-as": sorted(self.kafka_ports),
            "--schema": sha256("".join(texts).encode()).hexdigest() if texts else None,
            "--capture-point": self.capture_point,
            "limits": astuple(self.caps),
            "filters": {name: value for name, value in self.chosen.items() if value},
        }
        if self.hosts:
            options["--names"] = sorted((ip, port or 0, name) for (ip, port), name in self.hosts.items())
        return dict(orjson.loads(orjson.dumps(options)))
