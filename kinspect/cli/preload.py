"""Modules that are otherwise loaded when first needed, for `kinspect live` to load before it gives up its rights: the
user behind sudo may have no right to read Python's files."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

from kinspect.answers import answers
from kinspect.cli.options import OTLP
from kinspect.cli.recordscommand import LIVE_FORMATS
from kinspect.extras import has
from kinspect.formats import FORMATS
from kinspect.link.addedlayers import added_layers
from kinspect.payloads.payloaddecoder import MODULES


class Preload(NamedTuple):
    """Modules for runs of which `asked`, given the values of the options, is true. `extra`: what they need, if it
    is not installed everywhere."""

    asked: Callable[[dict[str, Any]], bool]
    modules: tuple[str, ...]
    extra: str | None = None


def _of_format(name: str, module: str, extra: str) -> Preload:
    return Preload(lambda values: values["format_name"] == name, (module,), extra)


PRELOADS = (
    Preload(
        lambda values: True,
        (
            *(each.module for each in FORMATS.values() if each.module is not None and each.extra is None),
            *"""
            kinspect.answers.layout kinspect.records.pushedmetrics
            kinspect.tls.decryptor kinspect.tls.protection kinspect.tls.keyderivation kinspect.protocol.interpreter
            kinspect.tui.live.screen kinspect.tui.live.liveloop kinspect.capture.streamedcapture kinspect.capture.sender
            cramjam crc32c scapy.arch.common base64 cbor2 ctypes.util decimal difflib fnmatch ipaddress json
            shutil subprocess tempfile traceback urllib.parse
            """.split(),
        ),
    ),
    Preload(lambda values: values["explore"], ("kinspect.tui.app",), "explore"),
    Preload(lambda values: values["records_only"], (*LIVE_FORMATS.values(), "kinspect.cli.topicfiles")),
    Preload(lambda values: values["schema_registry"] is not None, (*MODULES.values(),), "payload"),
    Preload(
        lambda values: values["metrics"] is not None,
        ("prometheus_client.core", "kinspect.cli.exposition", "kinspect.cli.metricserver"),
        "metrics",
    ),
    *(
        _of_format(name, each.module, each.extra)
        for name, each in FORMATS.items()
        if each.module is not None and each.extra is not None
    ),
    Preload(
        lambda values: values[OTLP] is not None,
        # The last three with the first batch.
        ("kinspect.cli.otlpsink", "requests", "encodings.idna", "netrc"),
        "otel",
    ),
)
"""What is loaded when it is asked for."""


def preload(values: dict[str, Any]) -> None:
    """Load the modules that a run with these values of its options needs later. Those whose extra is not installed
    are left out: what needs it says so."""
    for each in PRELOADS:
        if each.asked(values) and (each.extra is None or has(each.extra)):
            for name in each.modules:
                import_module(name)
    answers()
    added_layers()
    # The widths of characters are loaded with the first one beyond ASCII.
    import_module("rich.cells").cell_len("…")
