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
    from kinspect.api import read

__all__ = ["protocol", "read", "records"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Imported when first used: `kinspect --help` and scripts that only want the protocol need not load the rest.
    if name == "read":
        return importlib.import_module("kinspect.api").read
    if name in ("protocol", "records"):
        return importlib.import_module(f"kinspect.{name}")
    raise AttributeError(f"module 'kinspect' has no attribute {name!r}")
