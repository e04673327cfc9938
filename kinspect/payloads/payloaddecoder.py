"""Payloads by the schemas that they name, decoded in a process of its own: what schemas and payloads make libraries do
is bounded in time and memory there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, Protocol

from kinspect.errors import KinspectError, shortened
from kinspect.extras import need
from kinspect.payloads.payloadforms import DecodedPayload
from kinspect.payloads.schemafiles import AVRO, JSON_SCHEMA, PROTOBUF, SchemaFiles
from kinspect.payloads.wireformat import NamedSchema
from kinspect.timedwork import TimedWork

OPTION = "--schema-registry"
SECONDS = 3.0
MEMORY = 512 << 20
"""Processor time for payloads that are given at once, that of reading their schema included, or else for each of them;
and memory."""
AT_ONCE = 32
"""Payloads that are given at once."""
FAILED_MOST = 5
"""Payloads of a schema, and those at once, that may take more; then none of it is decoded any more."""
LONGEST, LONGER = 4 << 20, 8
"""Bytes of JSON that a payload may become, and how often its own bytes beyond that."""
ROOM, TIMES = 32 << 20, 2
"""The same of the payloads of a batch."""
MODULES = {
    AVRO: "kinspect.payloads.avropayloads",
    JSON_SCHEMA: "kinspect.payloads.jsonpayloads",
    PROTOBUF: "kinspect.payloads.protobufpayloads",
}
"""Modules whose `open_schema` makes the decoder of a schema."""
ENCODINGS = {AVRO: "avro", JSON_SCHEMA: "json", PROTOBUF: "protobuf"}
"""What the payloads are, in rows."""


class DecodedText(NamedTuple):
    """A payload as JSON, the name of its message, and what does not fit: to its schema, or where it has no JSON, of the
    bytes."""

    json: bytes | None
    message: str | None = None
    problem: str | None = None


_NO_ROOM = DecodedText(None, problem="the payloads of its batch become too many bytes of JSON")


class SchemaDecoder(Protocol):
    """The decoder of a schema's payloads."""

    def __call__(self, data: bytes, rest: bytes | None) -> DecodedText:
        """Decode a payload; `rest`: what a header has behind the schema's name. Raises any exception for what does not
        fit."""


class _GivenUpError(Exception):
    """Too many payloads of a schema took too much."""


class PayloadDecoder:
    """Decodes payloads by the schemas of files. `folder`: where libraries write files, which its owner removes; None:
    one that is made, and removed at the end."""

    def __init__(self, schemas: SchemaFiles, folder: str | None = None) -> None:
        """Raises MissingLibraryError where the extra is not installed."""
        need("payload", OPTION)
        self.schemas = schemas
        self._given = folder
        self._opened: dict[int | str, SchemaDecoder | str] = {}
        self._failed: dict[int | str, int] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._work = TimedWork(
            "the decoding of payloads", self._decoded, SECONDS, self._note_failed, MEMORY, self._load
        )

    def decode(self, payloads: list[tuple[NamedSchema, bytes]]) -> list[DecodedPayload]:
        """Each payload, whose schema has that name, by that schema."""
        found: list[DecodedPayload] = []
        by_schema: dict[int | str, list[int]] = {}
        for place, (named, _) in enumerate(payloads):
            schema = self.schemas.find(named.key)
            if schema is None:
                doubt = "" if named.rest is not None else ", if the bytes name one"
                text = f"the schema {named.key} is not in {OPTION} {self.schemas.path}{doubt}"
                found.append(DecodedPayload(None, problem=text))
            else:
                found.append(DecodedPayload(schema))
                by_schema.setdefault(schema.key, []).append(place)
        room = ROOM + TIMES * sum(len(data) for _, data in payloads)
        for key, places in by_schema.items():
            for first in range(0, len(places), AT_ONCE):
                some = places[first : first + AT_ONCE]
                items = [
                    [key, payloads[place][1][payloads[place][0].start :], payloads[place][0].rest]
                    for place in some
                ]
                for place, result in zip(some, self._results(items, room), strict=True):
                    room -= len((result and result[0]) or b"")
                    found[place] = _payload(found[place], result if room >= 0 else _NO_ROOM)
        return found

    def close(self) -> None:
        """End the process, and remove what it left."""
        self._work.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _results(self, items: list[list[Any]], room: int) -> Iterable[Any]:
        """What becomes of payloads of one schema, unless there is no room for it."""
        # protoc reads files. The process may end while it does.
        if self._folder is None and self._given is None:
            self._folder = tempfile.TemporaryDirectory(prefix="kinspect-")
        key = items[0][0]
        if room >= 0 and self._failed.get(key, 0) <= FAILED_MOST:
            before = self._work.retries
            try:
                return self._work.do(items)
            except _GivenUpError:
                pass
            finally:
                self._failed[key] = self._failed.get(key, 0) + self._work.retries - before
        text = f"too many payloads of the schema {key} took too much time or memory: none is decoded any more"
        return [_NO_ROOM if room < 0 else DecodedText(None, problem=text)] * len(items)

    def _note_failed(self, item: list[Any]) -> None:
        self._failed[item[0]] = self._failed.get(item[0], 0) + 1
        if self._failed[item[0]] > FAILED_MOST:
            raise _GivenUpError

    # ------------------------------------------------------------------ in the other process

    def _load(self, item: list[Any]) -> None:
        schema = self.schemas.find(item[0])
        if schema is not None and schema.type in MODULES:
            import_module(MODULES[schema.type])

    def _decoded(self, item: list[Any]) -> list[Any]:
        key, data, rest = item
        if key not in self._opened:
            self._opened[key] = self._open(key)
        decode = self._opened[key]
        if isinstance(decode, str):
            return [None, None, decode]
        try:
            found = decode(data, rest)
        except MemoryError:
            raise
        except Exception as error:
            return [None, None, f"does not fit the schema {key}: {_reason(error)}"]
        most = LONGEST + LONGER * len(data)
        if found.json is not None and len(found.json) > most:
            return [None, found.message, f"becomes more than {most:,} bytes of JSON"]
        return [*found]

    def _open(self, key: int | str) -> SchemaDecoder | str:
        schema = self.schemas.find(key)
        assert schema is not None
        tempfile.tempdir = self._given if self._folder is None else self._folder.name
        module = MODULES.get(schema.type)
        if module is None:
            return f"the schema {key} is of an unknown type: {schema.type}"
        try:
            decoder: SchemaDecoder = import_module(module).open_schema(
                schema.text, self.schemas.referenced(schema), self.schemas.files
            )
        except MemoryError:
            raise
        except Exception as error:
            return f"the schema {key} cannot be used: {_reason(error)}"
        return decoder


def _payload(decoded: DecodedPayload, result: Sequence[Any] | None) -> DecodedPayload:
    assert decoded.schema is not None
    if result is None:
        text = f"takes more than {SECONDS:g} s or {MEMORY >> 20} MiB to decode"
        return decoded._replace(problem=text)
    json, message, problem = result
    if json is None:
        return decoded._replace(message=message, problem=problem)
    encoding = ENCODINGS[decoded.schema.type]
    return decoded._replace(json=json, encoding=encoding, message=message, problem=problem)


def _reason(error: Exception) -> str:
    """An exception of a library in one line."""
    text = " ".join(str(error).split())
    known = isinstance(error, KinspectError) and text
    return shortened(text if known else f"{type(error).__name__}: {text}" if text else type(error).__name__)
