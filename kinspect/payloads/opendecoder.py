"""The decoder that `--schema-registry` asks for. What it needs is loaded then."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kinspect.payloads.payloaddecoder import PayloadDecoder


def open_decoder(path: str | None, folder: str | None = None) -> PayloadDecoder | None:
    """The decoder by the schemas of a folder or a file, None without; `folder`: as that takes it. Raises
    KinspectError."""
    if path is None:
        return None
    from kinspect.payloads.payloaddecoder import PayloadDecoder
    from kinspect.payloads.schemafiles import SchemaFiles

    return PayloadDecoder(SchemaFiles(path), folder)
