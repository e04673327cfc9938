"""How far a TLS handshake came, and the alerts within it: by the records' headers, without secrets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from kinspect.state import fields, fill
from kinspect.tls.handshake import SERVER_HELLO
from kinspect.tls.tlsrecords import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    HEADER_BYTES,
    HEARTBEAT,
)

ASKED, ANSWERED, PROTECTED, DONE = "client_hello", "server_hello", "protected", "done"
"""Stages: the ClientHello came; the ServerHello; a protected record of the client; both sides' protected data."""

RECORDS = 64
"""Records after which the handshake is watched no more."""
_ALERT_BYTES = 2
_PROTECTED_ALERTS = (19, 35)
"""Sizes of an alert in TLS 1.3: level, description, type, and a tag of 16 bytes; Java pads with 16 more. A Finished has
53 or more."""
_FINISHED_MOST = 96
"""Most bytes of a protected Finished in TLS 1.2: a second hello has more."""

Alert = tuple[int, int | None, int | None]
"""Direction, level and description; None if it is encrypted."""


class HandshakeWatch:
    """Takes both directions' bytes until the handshake is over. `client` is the client's direction. `strange`: the
    server's first bytes, if they begin no TLS record; `server_spoke`: whether it sent one; `over`: it needs no more."""

    STATE: ClassVar = "alerts over stage strange server_spoke _changed _finished _records _rest".split()
    __slots__ = (*STATE, "_client", "_heads")

    def __init__(self, client: int) -> None:
        self.stage = ASKED
        self.alerts: list[Alert] = []
        self.strange = b""
        self.server_spoke = False
        self.over = False
        self._client = client
        self._heads = (bytearray(), bytearray())
        self._rest = [0, 0]
        self._changed = [False, False]
        self._finished = [False, False]
        self._records = 0

    def state(self) -> list[Any]:
        """State for `restore`."""
        return [fields(self, self.STATE), *map(bytes, self._heads)]

    def restore(self, state: Sequence[Any]) -> None:
        """Go on with the connection of `state`."""
        own, *heads = state
        fill(self, self.STATE, own)
        for head, known in zip(self._heads, heads, strict=True):
            head[:] = known

    def lose(self) -> None:
        """Note that bytes are missing, or are no longer looked at: how far a handshake under way comes is not seen,
        unless an alert came before."""
        if not self.over and not self.alerts:
            self.stage = ""
        self.over = True

    def data(self, direction: int, buffer: bytes, start: int, end: int) -> None:
        """Take `buffer[start:end]`, the next bytes of a direction."""
        head = self._heads[direction]
        while start < end and not self.over:
            if self._rest[direction]:
                step = min(self._rest[direction], end - start)
                self._rest[direction] -= step
                start += step
                continue
            step = min(self._wanted(head) - len(head), end - start)
            head += buffer[start : start + step]
            start += step
            if len(head) >= HEADER_BYTES and not _begins_record(head):
                if direction != self._client and not self.server_spoke:
                    self.strange = bytes(head)
                    self.over = True
                else:
                    self.lose()
            elif len(head) == self._wanted(head):
                kind, size, begin = head[0], _size(head), bytes(head[HEADER_BYTES:])
                head.clear()
                self._rest[direction] = size - len(begin)
                self._record(direction, kind, size, begin)

    @staticmethod
    def _wanted(head: bytearray) -> int:
        """Bytes of a record that are looked at, as far as that is known."""
        return HEADER_BYTES + (min(_ALERT_BYTES, _size(head)) if len(head) >= HEADER_BYTES else 0)

    def _record(self, direction: int, kind: int, size: int, begin: bytes) -> None:
        is_client = direction == self._client
        self.server_spoke = self.server_spoke or not is_client
        self._records += 1
        protected: Alert = direction, None, None
        if kind == APPLICATION_DATA and protected in self.alerts:
            # Nothing follows an alert: it was a short message of the handshake.
            self.alerts.remove(protected)
        if kind == ALERT and size == _ALERT_BYTES:
            self.alerts.append((direction, begin[0], begin[1]))
        elif kind == ALERT or (kind == APPLICATION_DATA and size in _PROTECTED_ALERTS):
            # What the client sends behind its part of the handshake is its end.
            is_end = is_client and self.stage == PROTECTED
            if not is_end:
                self.alerts.append(protected)
            self.over = kind == ALERT or is_end
        elif kind == CHANGE_CIPHER_SPEC:
            self._changed[direction] = True
        elif kind == HANDSHAKE:
            self._finished[direction] = self._changed[direction] and size <= _FINISHED_MOST
            if not is_client and self.stage == ASKED and begin[:1] == bytes((SERVER_HELLO,)):
                self.stage = ANSWERED
        elif kind == APPLICATION_DATA and is_client and self.stage == ANSWERED:
            self.stage = PROTECTED
        elif kind == APPLICATION_DATA and not is_client and self.stage == PROTECTED:
            self.stage = DONE
        if all(self._finished):
            self.stage = DONE
        self.over = self.over or self.stage == DONE
        if self._records >= RECORDS:
            self.lose()


def _size(head: bytearray) -> int:
    return int.from_bytes(head[3:HEADER_BYTES])


def _begins_record(head: bytearray) -> bool:
    return CHANGE_CIPHER_SPEC <= head[0] <= HEARTBEAT and head[1] == 3
