"""A file of message definitions: APIs that can be read and written, or a `KinspectError`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from support.fork import REQUEST, RESPONSE, TEXT

from kinspect.errors import KinspectError
from kinspect.protocol import schema
from kinspect.protocol.overlay import read_definitions

from .decoders import check

BODY = bytes(range(60))


def fuzz(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "definitions.json"
        path.write_bytes(data)
        found, refused = {}, ""
        try:
            found = read_definitions(str(path))
        except KinspectError as error:
            refused = str(error)
        assert found or refused.startswith(str(path))
        assert "\n" not in refused
    for key, api in found.items():
        for message in (api.request, api.response):
            for version in sorted(message.versions)[:2]:
                (layout,) = schema.message_layouts(message, version, key, message.kind)
                check(layout, BODY, 0)
                check(layout, bytes(60), 0)


def seeds() -> Iterator[bytes]:
    yield TEXT.encode()
    kinds = "bool int8 int16 uint16 int32 uint32 int64 uuid float64 string bytes records Node".split()
    node = {"name": "Node", "fields": [{"name": "Id", "type": "int8", "versions": "0+"}]}
    for before in ("", "[]"):
        for kind in kinds:
            fields = [{"name": "X", "type": before + kind, "versions": "0+", "nullableVersions": "1+"}]
            yield json.dumps(
                [{**each, "fields": fields, "commonStructs": [node]} for each in (REQUEST, RESPONSE)]
            ).encode()
