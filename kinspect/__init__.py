"""A wire-traffic inspector for Apache Kafka.

>>> import kinspect
>>> for exchange in kinspect.read("capture.pcap"):
...     print(exchange.api, exchange.latency_ms)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinspect import protocol, records
    from kinspect.api import Reading, answer, check, read, records_of
    from kinspect.errors import (
        CaptureError,
        DecodeError,
        KinspectError,
        StateError,
        TruncatedCaptureError,
        UnreadableError,
    )
    from kinspect.filters.filterdefinitions import Filters
    from kinspect.filters.recordfilters import RecordFilters
    from kinspect.kafka.exchange.exchange import Exchange
    from kinspect.model import Block, Caps

__all__ = [
    "Block",
    "Caps",
    "CaptureError",
    "DecodeError",
    "Exchange",
    "Filters",
    "KinspectError",
    "Reading",
    "RecordFilters",
    "StateError",
    "TruncatedCaptureError",
    "UnreadableError",
    "answer",
    "check",
    "protocol",
    "read",
    "records",
    "records_of",
]
__version__: str

_MODULES = {
    "api": ("Reading", "answer", "check", "read", "records_of"),
    "errors": (
        "CaptureError",
        "DecodeError",
        "KinspectError",
        "StateError",
        "TruncatedCaptureError",
        "UnreadableError",
    ),
    "filters.filterdefinitions": ("Filters",),
    "filters.recordfilters": ("RecordFilters",),
    "kafka.exchange.exchange": ("Exchange",),
    "model": ("Block", "Caps"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imported when first used: `kinspect --help` and scripts that only want the protocol need not load the rest.
    if name in ("protocol", "records"):
        return importlib.import_module(f"kinspect.{name}")
    if name == "__version__":
        return importlib.import_module("kinspect.form").VERSION
    if name in _HOMES:
        return getattr(importlib.import_module(f"kinspect.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'kinspect' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
