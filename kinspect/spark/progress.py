"""What an endless run knows between two batches, and what it carries of that as bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from kinspect import link, state
from kinspect.kafka.ledger import USES_KEPT, Ledger
from kinspect.kafka.names import NAMES_KEPT, TopicNames
from kinspect.model import FRAME_BITS, Caps, Counts
from kinspect.spark.facts import Facts, Told, added, merge
from kinspect.spark.folder import Capture
from kinspect.spark.portion import Standing
from kinspect.spark.strand import Known

FileKey = tuple[str, int | None]
"""What a file is known by: path and first packet's time."""
DONE_KEPT = 100_000
"""So many files are known to be taken, at least those that are in the folder."""
SECRETS_KEPT = 64 * 1024 * 1024
"""Bytes of TLS secrets that captures brought along; of more the oldest are forgotten."""


class Done(NamedTuple):
    """What was taken of a file: its size then, its number, and how many of its packets."""

    path: str
    size: int
    number: int
    taken: int
    packets: int

    @property
    def is_whole(self) -> bool:
        return self.taken >= self.packets


@dataclass(slots=True)
class Progress:
    """Everything that the next batch goes on from."""

    strands: int
    tables: tuple[str, ...]
    standing: Standing = field(default_factory=Standing)
    done: dict[FileKey, Done] = field(default_factory=dict)
    """The files that were taken, as far as they were."""
    numbers: int = 0
    """How many files have a number."""
    files: dict[int, str] = field(default_factory=dict)
    """The names of files that are still referred to."""
    known: Known = field(default_factory=Known)
    secrets: list[bytes] = field(default_factory=list)
    sums: dict[str, Any] = field(default_factory=dict)
    """What packets and files add up to."""
    is_open: bool = False
    """Whether strands are carried."""
    totals: dict[str, Any] = field(default_factory=dict)
    """What the connections of the strands added up to."""
    ended: dict[str, Any] = field(default_factory=dict)
    """The same of strands that `--drain` flushed."""
    asked: dict[str, str] = field(default_factory=dict)
    """The options that rows depend on, of the last batch."""

    def add(self, **numbers: int) -> None:
        self.sums = added(self.sums, numbers)

    def hit(self, cap: str, times: int = 1) -> None:
        self.sums = added(self.sums, {"caps_hit": {cap: times}})

    def count(self, counts: Counts) -> None:
        """Adds what was counted in a batch."""
        told = {f.name: getattr(counts, f.name) for f in fields(counts)}
        self.sums = added(self.sums, {name: value for name, value in told.items() if value is not None})

    def learn(self, parts: list[Facts]) -> None:
        """Takes in what the strands told."""
        told = [Told(topic_id, *found, None, None) for topic_id, found in self.known.names.items()]
        self.known, self.totals = merge([Facts(told, self.known.uses), *parts])
        for cap, kept in (("names", NAMES_KEPT), ("uses", USES_KEPT)):
            found = getattr(self.known, cap)
            if len(found) > kept:
                self.hit(cap, len(found) - kept)
                when = {"names": lambda item: item[1][1], "uses": lambda item: item[1]}[cap]
                setattr(self.known, cap, dict(sorted(found.items(), key=when)[:kept]))

    def flush(self) -> None:
        """Nothing is open any more."""
        self.is_open = False
        self.ended, self.totals = added(self.ended, self.totals), {}

    def add_secrets(self, secrets: Iterable[bytes]) -> None:
        self.secrets += [text for text in dict.fromkeys(secrets) if text not in self.secrets]
        size = sum(map(len, self.secrets))
        while size > SECRETS_KEPT:
            self.hit("secrets")
            size -= len(self.secrets.pop(0))

    def refer(self, places: dict[int, int]) -> None:
        """These frames are still referred to; of files without one the name is forgotten."""
        self.standing.places = places
        numbers = {frame >> FRAME_BITS for frame in places}
        numbers |= {done.number for done in self.done.values() if not done.is_whole}
        self.files = {number: name for number, name in self.files.items() if number in numbers}

    def lose(self, captures: Iterable[Capture]) -> list[Done]:
        """Gives up the files that are not in the folder any more. Out: those of them that were not taken whole."""
        there = {capture.key for capture in captures}
        lost = {key: done for key, done in self.done.items() if key not in there and not done.is_whole}
        self.done |= {key: done._replace(taken=done.packets) for key, done in lost.items()}
        gone = [key for key in self.done if key not in there]
        for key in gone[: max(0, len(self.done) - DONE_KEPT)]:
            del self.done[key]
        return list(lost.values())


_FIELDS = (
    "strands",
    "tables",
    "done",
    "numbers",
    "files",
    "secrets",
    "sums",
    "is_open",
    "totals",
    "ended",
    "asked",
)


def to_bytes(progress: Progress, dissector: link.Dissector) -> bytes:
    """`dissector`: the one that puts fragments together."""
    standing = {f.name: getattr(progress.standing, f.name) for f in fields(Standing)}
    told = {name: getattr(progress, name) for name in _FIELDS}
    told["done"] = {key: tuple(done) for key, done in progress.done.items()}
    rest = [told, standing, progress.known.names, progress.known.uses]
    return state.dump({"fragments": dissector._fragments}, {}, rest)


def from_bytes(data: bytes, dissector: link.Dissector, caps: Caps) -> Progress:
    """Fills `dissector` too. Raises StateError."""
    nobody = Ledger(caps, Counts(), TopicNames(), frozenset(), frozenset(), False, [])
    told, standing, names, uses = state.load(data, {"fragments": dissector._fragments}, {}, nobody)
    told["done"] = {key: Done(*done) for key, done in told["done"].items()}
    return Progress(**told, standing=Standing(**standing), known=Known(names, uses))
