"""Record layer (RFC 8446 §5.1, RFC 5246 §6.2): splits one direction of a connection into records."""

from __future__ import annotations

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA, HEARTBEAT = 20, 21, 22, 23, 24

CLIENT_HELLO = 1
"""Type of the handshake message that a connection begins with."""

HEADER_BYTES = 5
# 2^14 bytes of plaintext and 2048 of overhead for their protection (RFC 5246 §6.2.3); TLS 1.3 allows less.
FRAGMENT_BYTES = 2**14 + 2048


class BrokenRecordError(Exception):
    """No record at a position where one should begin."""


def looks_like_tls(data: bytes) -> bool:
    """True if the first bytes of a stream are a TLS handshake record with a ClientHello."""
    return (
        len(data) > HEADER_BYTES
        and data[0] == HANDSHAKE
        and data[1] == 3
        and data[HEADER_BYTES] == CLIENT_HELLO
    )


class RecordReader:
    """Hands out complete records with their headers; buffers only the incomplete one."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending = bytearray()

    def state(self) -> bytes:
        """State for `restore`."""
        return bytes(self._pending)

    def restore(self, state: bytes) -> None:
        """Go on with the incomplete record of `state`."""
        self._pending = bytearray(state)

    def drop(self) -> int:
        """Discard the incomplete record; returns the number of bytes it had."""
        size = len(self._pending)
        self._pending.clear()
        return size

    def take(self, buffer: bytes, position: int, end: int) -> tuple[bytes | None, int]:
        """The next record, None if it is not complete, and the position behind the bytes taken.

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
