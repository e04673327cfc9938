"""Keys and values of records as the explorer shows them, among the fields and on the page of records."""

from __future__ import annotations

import signal
import tempfile
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from kinspect.background import OWN, Channel, Child
from kinspect.kafka.view.placedbatches import placed_batches
from kinspect.kafka.view.redact import PAYLOADS
from kinspect.model import REQUEST, RESPONSE
from kinspect.payloads.opendecoder import open_decoder
from kinspect.payloads.payloadforms import TEXT, DecodedPayload, PayloadForms
from kinspect.payloads.wireformat import NamedSchema
from kinspect.tui.index.answerprocess import close_others

if TYPE_CHECKING:
    from kinspect.payloads.payloaddecoder import PayloadDecoder

_ASK, _REPLY = OWN, OWN + 1


class ShownPayloads:
    """Brings payloads into `form`, one of `FORMS`, with the schemas of `--schema-registry`. To be made before there are
    threads.

    `viewed`: the form in which a view shows payloads before; `of_page`: what a page of records takes, which another
    process makes."""

    def __init__(self, form: str, registry: str | None = None) -> None:
        """Raises KinspectError for what holds no schemas."""
        self._folder = None if registry is None else tempfile.TemporaryDirectory(prefix="kinspect-")
        folder = None if self._folder is None else self._folder.name
        decoder = open_decoder(registry, folder)
        self._forms = PayloadForms(form, None if decoder is None else PayloadProcess(decoder))
        self._converts = form not in PAYLOADS
        self.viewed = TEXT if self._converts else form
        self.of_page = {"payload": form, "schema_registry": registry, "folder": folder}

    def convert(self, line: dict[str, Any]) -> None:
        """Convert the payloads in the bodies of an exchange's line, which a view made. Raises KinspectError."""
        for side in (REQUEST, RESPONSE) if self._converts else ():
            for where, batch in placed_batches((line[side] or {}).get("body")):
                self._forms.convert_records(batch["records"], where.get("topic"))

    def close(self) -> None:
        """End what decodes, and remove what it left."""
        self._forms.close()
        if self._folder is not None:
            self._folder.cleanup()


class PayloadProcess:
    """A decoder in a process that holds none of the screen's threads, as it starts processes itself. May be asked in
    any thread."""

    def __init__(self, decoder: PayloadDecoder) -> None:
        self._schemas = decoder.schemas
        self._asking = Lock()
        self._child = Child(
            "the process that decodes payloads", partial(_serve, decoder), ignored=(signal.SIGINT,)
        )

    def decode(self, payloads: list[tuple[NamedSchema, bytes]]) -> list[DecodedPayload]:
        """As `PayloadDecoder.decode`. Raises KinspectError if the process has ended."""
        if not payloads:
            return []
        with self._asking:
            self._child.channel.send(_ASK, [[*named, data] for named, data in payloads])
            _, decoded = self._child.receive() or (_REPLY, [])
        return [
            DecodedPayload(None if key is None else self._schemas.find(key), *rest) for key, *rest in decoded
        ]

    def close(self) -> None:
        """Let it end what it started, and wait for that."""
        self._child.channel.stop()
        self._child.status()
        self._child.end()


def _serve(decoder: PayloadDecoder, channel: Channel) -> None:
    """Decode until nobody asks any more."""
    close_others((channel.fileno(),))
    try:
        while (message := channel.receive()) is not None:
            asked = [(NamedSchema(*named), data) for *named, data in message[1]]
            decoded = decoder.decode(asked)
            channel.send(_REPLY, [[each.schema and each.schema.key, *each[1:]] for each in decoded])
    finally:
        decoder.close()
