"""What was inside TLS as plain TCP: packets made anew, with addresses and times of those that the bytes came in."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from struct import pack
from typing import Final, NamedTuple

from kinspect.model import ACK, FIN, RST, SYN, Block, Caps, Counts, Progress, Segment
from kinspect.tcp import Connection, Reassembler
from kinspect.tcp.connection import NullHandler, StreamHandler
from kinspect.tcp.flowkeys import pair
from kinspect.tls.decryptor import Decryptor
from kinspect.tls.keylog import KeyLog

PSH: Final = 0x08
_TCP: Final = 6
_U32: Final = 0xFFFFFFFF
_IPV4_BYTES: Final = 4
_WINDOW: Final = 0xFFFF
HOPS: Final = 64
"""Those that a packet has left, if nothing else is to be told."""
UNKNOWN_LOSS: Final = 1 << 16
"""Bytes by which numbers go on where it is not known how many were lost."""
LARGEST: Final = 1 << 15
"""Bytes of a packet; TLS records are shorter."""


Address = tuple[bytes, int]


class Encrypted(NamedTuple):
    """A connection to decrypt: the ends of its island, its client's direction, and the frame behind which nothing of it
    is written."""

    pair: bytes
    client: int
    until: int | None


class PlainPacket(NamedTuple):
    """An IP packet made of plaintext. `frame`: of the packet that the bytes came in; `last`: it is the last one made of
    that; `missing`: bytes at its end that were not captured."""

    frame: int
    time: int | None
    data: bytes
    last: bool = False
    missing: int = 0


class PlainStreams:
    """Decrypts connections, by their first frames, and makes packets of their bytes."""

    def __init__(self, connections: dict[int, Encrypted], secrets: bytes, caps: Caps) -> None:
        self._connections = connections
        self._pairs = {each.pair for each in connections.values()}
        self._keylog = KeyLog(secrets)
        self._tcp = Reassembler(self._open, caps, Counts(), Progress(), self.takes)
        self._made: list[PlainPacket] = []
        self._streams: dict[bytes, _PlainConnection] = {}
        """The connection of each island that has one."""
        self.taken: set[int] = set()
        """Frames of the segments taken last that are of these islands."""

    def takes(self, of_pair: bytes) -> bool:
        """True for the islands of these connections."""
        return of_pair in self._pairs

    def feed(self, segments: list[Segment]) -> list[PlainPacket]:
        """Take the next segments of the run; return the packets that they complete, in the order of frames."""
        own = [segment for segment in segments if self.takes(pair(segment[0]))]
        self.taken = {segment[9] for segment in own}
        self._tcp.feed(segments)
        # A reset ends its connection only when it is certain that its sender does not go on, far behind it.
        for segment in own:
            if segment[4] & RST and (stream := self._streams.get(pair(segment[0]))) is not None:
                stream.reset()
        return self._taken()

    def replaced(
        self, segments: list[Segment], block: Block, indexes: Sequence[int]
    ) -> tuple[list[PlainPacket], list[int]]:
        """Take a block's segments; return what was made of them, and which of the chosen packets stay beside it."""
        made = self.feed(segments)
        return made, [index for index in indexes if block.first_frame + index not in self.taken]

    def finish(self) -> list[PlainPacket]:
        """The packets that the end of the run completes."""
        self._tcp.flush()
        return self._taken()

    def _taken(self) -> list[PlainPacket]:
        made, self._made[:] = sorted(self._made, key=lambda each: each.frame), []
        ends = [each.frame != after.frame for each, after in pairwise(made)] + [True]
        return [each._replace(last=last) for each, last in zip(made, ends, strict=False)]

    def _open(self, connection: Connection) -> StreamHandler:
        found = self._connections.get(connection.start_frame)
        if found is None:
            return NullHandler()
        stream = _PlainConnection(connection, found, self._keylog, self._made, self._streams)
        self._streams[found.pair] = stream
        return stream


class _PlainConnection:
    """A stream handler: a connection of its own for the plaintext of another. It leaves `streams` when it is over."""

    def __init__(
        self,
        connection: Connection,
        found: Encrypted,
        keylog: KeyLog,
        made: list[PlainPacket],
        streams: dict[bytes, _PlainConnection],
    ) -> None:
        self._connection, self._ends = connection, connection.addresses
        self._until, self._pair, self._streams = found.until, found.pair, streams
        self._made = made
        self._numbers = [0, 0]
        self._packets = 0
        self._is_reset = False
        self._decryptor = Decryptor(keylog, found.client, self._plain, self._lost)
        client, time, frame = found.client, connection.start_time, connection.start_frame
        self._put(client, time, frame, SYN)
        self._put(1 - client, time, frame, SYN | ACK)
        self._put(client, time, frame, ACK)

    def data(self, direction: int, time: int | None, frame: int, buffer: bytes, start: int, end: int) -> None:
        self._decryptor.data(direction, time, frame, buffer, start, end)

    def gap(self, direction: int, time: int | None, frame: int, size: int, cause: str) -> None:
        self._decryptor.gap(direction, time, frame, size)

    def conflict(self, direction: int, size: int) -> None: ...
    def repeated(self, direction: int, start: int, end: int) -> None: ...

    def fin(self, direction: int, time: int | None, frame: int) -> None:
        self._put(direction, time, frame, FIN | ACK)

    def closed(self, time: int | None, frame: int, reason: str) -> None:
        self._decryptor.closed(False)
        if reason == "reset":
            self.reset()
        if self._streams.get(self._pair) is self:
            del self._streams[self._pair]

    def reset(self) -> None:
        """Write the reset that was captured, once."""
        if self._connection.reset is not None and not self._is_reset:
            self._is_reset = True
            time, frame, direction = self._connection.reset
            self._put(direction, time, frame, RST | ACK)

    def _plain(self, direction: int, time: int | None, frame: int, plaintext: bytes) -> None:
        for start in range(0, len(plaintext), LARGEST):
            self._put(direction, time, frame, PSH | ACK, plaintext[start : start + LARGEST])

    def _lost(self, direction: int, time: int | None, frame: int, size: int | None) -> None:
        self._numbers[direction] += UNKNOWN_LOSS if size is None else size

    def _put(self, direction: int, time: int | None, frame: int, flags: int, payload: bytes = b"") -> None:
        if self._until is not None and frame > self._until:
            return
        numbers, self._packets = self._numbers, self._packets + 1
        acknowledged = numbers[1 - direction] if flags & ACK else 0
        source, target = self._ends[direction], self._ends[1 - direction]
        data = tcp_packet(source, target, numbers[direction], acknowledged, flags, payload, self._packets)
        self._made.append(PlainPacket(frame, time, data))
        numbers[direction] += len(payload) + bool(flags & (SYN | FIN))


def tcp_packet(
    source: Address,
    target: Address,
    seq: int,
    ack: int,
    flags: int,
    payload: bytes,
    number: int,
    missing: int = 0,
    hops: int = HOPS,
) -> bytes:
    """The IP packet of that number of a connection. `missing`: bytes of its payload that were not captured; `hops`:
    those that it has left."""
    head = pack(">HHIIBBHHH", source[1], target[1], seq & _U32, ack & _U32, 5 << 4, flags, _WINDOW, 0, 0)
    segment = head + payload
    if not missing:
        pseudo = source[0] + target[0] + pack(">II", len(segment), _TCP)
        segment = segment[:16] + pack(">H", _checksum(pseudo + segment)) + segment[18:]
    return _ip_header(source[0], target[0], len(segment) + missing, number, hops) + segment


def _ip_header(source: bytes, target: bytes, size: int, number: int, hops: int) -> bytes:
    """Header of the connection's packet of that number, with `size` bytes behind it."""
    if len(source) != _IPV4_BYTES:
        return pack(">IHBB", 6 << 28, size, _TCP, hops) + source + target
    header = pack(">BBHHHBBH", 0x45, 0, 20 + size, number & 0xFFFF, 0x4000, hops, _TCP, 0) + source + target
    return header[:10] + pack(">H", _checksum(header)) + header[12:]


def _checksum(data: bytes) -> int:
    """RFC 1071."""
    total = int.from_bytes(data + bytes(len(data) % 2)) % 0xFFFF
    return ~total & 0xFFFF
