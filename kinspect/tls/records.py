"""The record layer (RFC 8446 §5.1, RFC 5246 §6.2): one direction of a connection cut into records."""

from __future__ import annotations

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, HEARTBEAT = 20, 21, 22, 23, 24

HEADER_BYTES = 5
# 2^14 bytes of plaintext and 2048 for what protects them (RFC 5246 §6.2.3); TLS 1.3 allows less.
FRAGMENT_BYTES = 2**14 + 2048


class BrokenRecordError(Exception):
    """Where a record should begin is none."""


class RecordReader:
    """Hands out whole records, header and all; keeps no more than the one that is not whole."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending = bytearray()

    def state(self) -> bytes:
        """What `restore` goes on with."""
        return bytes(self._pending)

    def restore(self, state: bytes) -> None:
        """Goes on with the unfinished record of `state`."""
        self._pending = bytearray(state)

    def drop(self) -> int:
        """Forget the unfinished record; returns how many bytes of it there were."""
        size = len(self._pending)
        self._pending.clear()
        return size

    def take(self, buffer: bytes, position: int, end: int) -> tuple[bytes | None, int]:
        """The next record, None if it is not whole, and the position behind what was taken.

        Raises BrokenRecordError.
        """
        pending = self._pending
        if not pending and end - position >= HEADER_BYTES:
            stop = position + _record_size(buffer, position)
            if stop <= end:
                return buffer[position:stop], stop
        while position < end:
            wanted = HEADER_BYTES if len(pending) < HEADER_BYTES else _record_size(pending, 0)
            if len(pending) == wanted:
                break
            stop = min(end, position + wanted - len(pending))
            pending += buffer[position:stop]
            position = stop
        if len(pending) >= HEADER_BYTES and len(pending) == _record_size(pending, 0):
            record = bytes(pending)
            pending.clear()
            return record, position
        return None, position


def _record_size(data: bytes | bytearray, position: int) -> int:
    size = data[position + 3] << 8 | data[position + 4]
    if (
        data[position + 1] != 3
        or not CHANGE_CIPHER_SPEC <= data[position] <= HEARTBEAT
        or size > FRAGMENT_BYTES
    ):
        raise BrokenRecordError
    return HEADER_BYTES + size
