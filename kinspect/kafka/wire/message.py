"""A request or a response as captured; its body is decoded on first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

from kinspect.kafka.wire.endpoints import Endpoints
from kinspect.model import Caps, Problem
from kinspect.protocol import Decoded, decode_body
from kinspect.state import fields

DEFAULT_CAPS: Final = Caps()
NOTHING_DECODED: Final = Decoded(None, None, False)


class WireMessage:
    """A request or a response as captured.

    `raw` holds the bytes of the message without its 4-byte size, as far as they were captured (None: dropped by a cap).
    `size` is the number that the 4-byte size announced, `body_start` the index of the body in `raw`. Times are
    nanoseconds since the epoch (None: the capture has none), `first_frame` and `last_frame` frame references
    (`model.FRAME_BITS`). `complete` is true if no byte is missing. `offset` is the position of the 4-byte size in the
    stream of its direction (in the plaintext, if it is encrypted). `api_key` is None where the layout is unknown (an
    orphan response, a raw SASL token): then there is no body. `is_foreign`: the broker told that it does not offer this
    version, which then counts only if the body fits to the last byte. `ends` are those of its connection, with the caps
    that apply and the counts of the caps that were reached; None for a message alone.
    """

    STATE: ClassVar = """
        direction raw size body_start first_time last_time first_frame last_frame packets complete offset
        inferred api_key api_version is_foreign
    """.split()
    __slots__ = (*STATE, "_cut", "_decoded", "_fields", "ends")

    def __init__(
        self,
        direction: str,
        raw: bytes | None,
        size: int,
        body_start: int,
        first_time: int | None,
        last_time: int | None,
        first_frame: int,
        last_frame: int,
        packets: int,
        complete: bool,
        offset: int = 0,
    ) -> None:
        self.direction = direction
        self.raw = raw
        self.size = size
        self.body_start = body_start
        self.first_time = first_time
        self.last_time = last_time
        self.first_frame = first_frame
        self.last_frame = last_frame
        self.packets = packets
        self.complete = complete
        self.offset = offset
        self.inferred = False
        self.ends: Endpoints | None = None
        self.api_key: int | None = None
        self.api_version: int | None = None
        self.is_foreign = False
        self._cut = False
        self._decoded: Decoded | None = None
        self._fields: frozenset[str] | None = None

    def state(self) -> list[Any]:
        """State for `from_state`, as plain values."""
        return fields(self, self.STATE)

    @classmethod
    def from_state(cls, state: Sequence[Any], ends: Endpoints | None) -> WireMessage:
        message = cls(*state[:11])
        message.inferred, message.api_key, message.api_version, message.is_foreign = state[11:]
        message.ends = ends
        return message

    def decode(self, fields: frozenset[str] | None = None) -> Decoded:
        """The body with the dotted paths `fields`, None: all of it. The result is kept for the next call."""
        if self._decoded is not None and (self._fields is None or self._fields == fields):
            return self._decoded
        if self.raw is None or self.api_key is None or self.api_version is None:
            decoded = NOTHING_DECODED
        else:
            decoded = decode_body(
                self.api_key,
                self.api_version,
                self.direction,
                self.raw,
                self.body_start,
                len(self.raw),
                fields,
                0,
                DEFAULT_CAPS.body_bytes if self.ends is None else self.ends.caps.body_bytes,
            )
            if decoded.problems and self.ends is not None and not self._cut:
                self._cut = any([problem.code == "cap" for problem in decoded.problems])
                if self._cut:
                    self.ends.counts.hit("body_bytes")
            if self.is_foreign and decoded.layout is not None and not _is_exact(decoded):
                text = f"{decoded.layout.name} version {self.api_version} is not among those that the broker offers"
                decoded = Decoded(None, None, False, (Problem(self.direction, "unknown_version", text),))
            elif not self.complete:
                # `complete` and the cause of the cut report the missing bytes already.
                problems = tuple(p for p in decoded.problems if p.code != "malformed")
                decoded = Decoded(decoded.body, decoded.layout, False, problems)
        self._decoded, self._fields = decoded, fields
        return decoded

    def facts(self, fields: frozenset[str] | None = None) -> Decoded:
        """As `decode`, but without a body that does not fit its layout: what was read of that may be anything."""
        decoded = self.decode(fields)
        if decoded.complete or not any([problem.code == "malformed" for problem in decoded.problems]):
            return decoded
        return Decoded(None, decoded.layout, False, decoded.problems)

    def forget(self) -> None:
        """Drop the decoded body; the next use decodes it again."""
        self._decoded = None

    @property
    def body(self) -> dict[str, Any] | None:
        """Kafka's fields in snake case, as plain Python values (see `kinspect.protocol.Message`); None without a known
        layout."""
        return self.decode().body


def _is_exact(decoded: Decoded) -> bool:
    return decoded.complete and not any([problem.code == "trailing_bytes" for problem in decoded.problems])
