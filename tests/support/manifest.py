"""The manifest of a folder of captures: what was done while each was recorded.

`MANIFEST.tsv` has a row a capture, its facts as JSON; `APIKEYS.tsv` beside it counts the requests and responses of each
API and version. captures/README.md describes both.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

csv.field_size_limit(10_000_000)

MANIFEST = "MANIFEST.tsv"
API_KEYS = "APIKEYS.tsv"


class ApiCount(NamedTuple):
    """Numbers of requests and responses of one API and version in a capture, and a note about them."""

    api: str
    version: int
    requests: int
    responses: int
    note: str


@dataclass(frozen=True)
class Row:
    """A capture. `facts` are its own and, for one made of another capture, those of that one."""

    folder: Path
    file: str
    broker: str
    ports: str
    what: str
    facts: dict[str, Any]
    api_counts: tuple[ApiCount, ...]

    @property
    def path(self) -> Path:
        return self.folder / self.file

    @property
    def is_kafka(self) -> bool:
        return self.facts.get("kafka_messages") != 0

    @property
    def original(self) -> str | None:
        """The capture this one was made from by changing packets or the container."""
        return self.facts.get("mutated_from")

    @property
    def expect(self) -> str:
        """Expectation of the capture in the manifest's words; empty without one."""
        return str(self.facts.get("expect", ""))

    @property
    def is_partial(self) -> bool:
        """The recording itself lacks something: its packets are cut, or it began late."""
        return self.is_cut or bool(re.search("mid-stream", self.what))

    @property
    def is_cut(self) -> bool:
        """True if tcpdump kept only the beginning of each packet."""
        return "truncated" in self.facts or "snaplen" in self.facts

    @cached_property
    def truth(self) -> list[dict[str, Any]] | None:
        """Kafka's own reading of every request and response, where the capture has one beside it."""
        name = self.facts.get("truth")
        if name is None:
            return None
        path = self.path.parent / name
        data = path.read_bytes()
        text = gzip.decompress(data) if path.suffix == ".gz" else data
        return [json.loads(line) for line in text.splitlines()]


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def load(folder: Path) -> list[Row]:
    """The rows of a folder's manifest, in its order."""
    counts: dict[str, list[ApiCount]] = {}
    for row in _table(folder / API_KEYS):
        count = ApiCount(
            row["api"], int(row["version"]), int(row["requests"]), int(row["responses"]), row["note"]
        )
        counts.setdefault(row["file"], []).append(count)
    table = _table(folder / MANIFEST)
    facts = {row["file"]: json.loads(row["facts_json"]) for row in table}
    rows = []
    for row in table:
        own = facts[row["file"]]
        original = facts.get(own.get("mutated_from") or own.get("made_of", [None])[0], {})
        file, counted = row["file"], tuple(counts.get(row["file"], ()))
        rows.append(Row(folder, file, row["broker"], row["ports"], row["what"], {**original, **own}, counted))
    return rows
