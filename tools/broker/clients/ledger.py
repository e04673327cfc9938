"""A client's own account, as facts of a manifest (captures/README.md), printed as one JSON object."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

COUNT = 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NO_TOPIC = "no-such-topic"
LINE = "a line of a log, with words and numbers like 42; "


class Ledger:
    """Facts of a scenario: results that its client got, not its intentions."""

    def __init__(self, scenario: str, clients: str) -> None:
        self.scenario = scenario
        self.clients = clients
        self.what = ""
        self.facts: dict[str, Any] = {}

    def note(self, key: str, *values: Any) -> None:
        """Add to a list of the facts, each value once."""
        known = self.facts.setdefault(key, [])
        known.extend(value for value in values if value not in known)

    def name(self, kind: str) -> str:
        """A name of this scenario's own, for a topic, a group or a client."""
        return f"{self.scenario}-{kind}"

    def topic(self, kind: str) -> str:
        self.note("topics", self.name(kind))
        return self.name(kind)

    def group(self, kind: str) -> str:
        self.note("groups", self.name(kind))
        return self.name(kind)

    def client(self, kind: str) -> str:
        self.note("client_ids", self.name(kind))
        return self.name(kind)

    def delivered(self, topic: str, partition: int, offset: int, key: str | None, value: str | None) -> None:
        """Note a record that the broker acknowledged to the producer with its partition and offset."""
        self.facts.setdefault("delivered", []).append([topic, partition, offset, key, value])

    def received(
        self, topic: str, partition: int, offset: int, key: bytes | None, value: bytes | None
    ) -> None:
        """Note a record that the consumer received."""
        texts = [None if data is None else data.decode() for data in (key, value)]
        self.facts.setdefault("received", []).append([topic, partition, offset, *texts])

    def refused(self, name: str) -> None:
        """Note an error that the client got; `name` is Kafka's."""
        self.note("errors_expected", name)


def main(clients: str, scenarios: dict[str, Callable[..., Any]]) -> None:
    """Run the scenario that the arguments name: scenario, name, servers, servers with SASL, more as JSON.

    More are the users for `sasl`, how to connect for `connect` (`troubles.Trouble.asked`), clients for `settings`
    (`configurations.jobs`).
    """
    kind, name, servers, sasl_servers, more = sys.argv[1:]
    ledger = Ledger(name, clients)
    if kind in ("sasl", "connect", "settings"):
        scenarios[kind](ledger, sasl_servers if kind == "sasl" else servers, json.loads(more))
    else:
        scenarios[kind](ledger, servers)
    json.dump({"clients": clients, "what": ledger.what, "facts": ledger.facts}, sys.stdout)
