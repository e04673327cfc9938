"""Targets of fuzzing, a module each.

Each has `fuzz(data)`, which raises if a rule is broken, and `seeds()`, the inputs to begin with.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Protocol, cast

NAMES = (
    "pcap",
    "pcapng",
    "snoop",
    "erf",
    "link",
    "tcp",
    "session",
    "decoders",
    "schema",
    "records",
    "tls",
)


class Target(Protocol):
    def fuzz(self, data: bytes, /) -> None: ...

    def seeds(self) -> Iterator[bytes]: ...


def target(name: str) -> Target:
    return cast(Target, import_module(f"{__name__}.{name}"))
