"""What `--redact` writes of captures, and what is read of that again."""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from kinspect.capture import open_timeline
from kinspect.cli.options import make_caps
from kinspect.errors import KinspectError
from kinspect.exports.choice import Choice
from kinspect.exports.plaintext import PlainPacket
from kinspect.exports.pseudonyms import KEY_BYTES, Pseudonyms
from kinspect.exports.readback import Shapes
from kinspect.exports.redactedmessage import Redaction
from kinspect.exports.redactedstreams import RedactedStreams
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.model import Block, Segment
from kinspect.ownfile import open_target
from kinspect.pipeline import Inspector
from kinspect.run import Run
from kinspect.sink import EXCHANGE
from kinspect.tls.keylog import KeyLog
from kinspect.wording import counted

_LONGEST_KEY = 4096


class RedactedExport:
    """The packets of an export with `--redact`. `read`: what read the captures; `keylog`: the secrets to read them."""

    def __init__(self, values: dict[str, Any], choice: Choice, read: Inspector, keylog: bytes) -> None:
        self._values = values
        names = LearnedNames()
        names.add(*read.names.all())
        caps = make_caps(values)
        reader = self._inspector(names, KeyLog(keylog), ordered=False)
        pseudonyms = Pseudonyms(_key(values["redact_key"]))
        self._streams = RedactedStreams(
            choice.encrypted(),
            keylog,
            reader,
            Redaction(pseudonyms, caps),
            pseudonyms,
            values["keep_unknown"],
        )
        self._shapes = Shapes()

    def replaced(
        self, segments: list[Segment], block: Block, indexes: Collection[int]
    ) -> tuple[list[PlainPacket], list[int]]:
        """Take a block's segments; return what was made of those that were chosen. No packet stays beside it."""
        chosen = {block.first_frame + index for index in indexes}
        made = self._streams.feed([segment for segment in segments if segment[9] in chosen])
        self._note()
        return made, []

    def finish(self) -> Iterator[PlainPacket]:
        """The packets that the end of the run completes."""
        yield from self._streams.finish()
        self._note()

    def report(self, paths: Sequence[str] | None) -> list[str]:
        """Read these files, and tell what is as it was in them. None: what was written cannot be read again."""
        did = "kept" if self._streams.keeps else "left out"
        told = [f"{did}, as not understood: {counted(self._streams.left_out, 'byte')}"]
        if self._streams.too_long:
            told.append(
                f"left out, as a message took too many packets: {counted(self._streams.too_long, 'byte')}"
            )
        if paths is None:
            return [*told, "standard output was not read back"]
        found = Shapes()
        timeline = open_timeline(tuple(paths))
        inspector = self._inspector(LearnedNames(), KeyLog(b""))
        try:
            for lines in Run(timeline, inspector).pieces():
                found.add_read(lines)
        finally:
            timeline.close()
        equal = self._shapes.equal(found)
        read = f"read back: {counted(equal, 'exchange')} equal but for what was replaced"
        others = len(self._shapes) - equal
        return [*told, f"{read}, {others:,} not" if others else read]

    def _note(self) -> None:
        for exchange, made in self._streams.exchanges:
            self._shapes.add(exchange, made)
        self._streams.exchanges.clear()

    def _inspector(self, names: LearnedNames, keylog: KeyLog, ordered: bool = True) -> Inspector:
        return Inspector(
            caps=make_caps(self._values),
            names=names,
            keylog=keylog,
            kafka_ports=frozenset(self._values["decode_as"]),
            emit=frozenset({EXCHANGE}),
            ordered=ordered,
        )


def _key(path: str | None) -> bytes:
    """The key in a file, which is written if it is not there; without one a key that nobody gets."""
    made = secrets.token_hex(KEY_BYTES).encode()
    if path is None:
        return made
    try:
        with open(path, "rb") as file:
            found = file.read(_LONGEST_KEY).strip()
    except FileNotFoundError:
        try:
            with os.fdopen(open_target(path).descriptor, "wb") as file:
                file.write(made + b"\n")
        except OSError as error:
            raise KinspectError(f"--redact-key: {path}: {error.strerror}") from None
        return made
    except OSError as error:
        raise KinspectError(f"--redact-key: {path}: {error.strerror}") from None
    if len(found) < KEY_BYTES:
        raise KinspectError(f"--redact-key: {path}: a key has {KEY_BYTES} bytes or more")
    return found
