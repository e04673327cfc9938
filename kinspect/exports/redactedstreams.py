"""Streams with redacted messages, as packets made anew: one for each that had their bytes, at its time.

What is in place of a message has its own length, so the streams have numbers of their own. Bytes in no message that was
read are left out: there the streams have holes, as where bytes were lost.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain, takewhile
from math import inf
from struct import pack
from typing import Final, NamedTuple

from kinspect.exports.plaintext import HOPS, LARGEST, PSH, UNKNOWN_LOSS, Encrypted, PlainPacket, tcp_packet
from kinspect.exports.pseudonyms import Pseudonyms
from kinspect.exports.readback import Made
from kinspect.exports.redactedmessage import Redaction
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.message import WireMessage
from kinspect.model import ACK, FIN, RST, SYN, Counts, Progress, Segment
from kinspect.pipeline import Inspector
from kinspect.tcp import Connection, Reassembler
from kinspect.tcp.connection import StreamHandler
from kinspect.tls.decryptor import Decryptor
from kinspect.tls.keylog import KeyLog

PACKETS_WAIT: Final = 50_000
"""Packets of a connection that wait for the end of a message. Of a longer one the first bytes are left out, and never
kept: they may yet be understood."""
BYTES_WAIT: Final = 64 << 20
"""Bytes of packets that wait for earlier ones of other connections."""
REPEATS_KEPT: Final = 16 << 20
"""Bytes of all connections, the newest, that are kept as they can be sent again."""
EVENTS_WAIT: Final = 200_000
"""Packets of all connections that wait for the end of messages; those of the oldest message are given up first."""
_PIECE_BYTES: Final = 256
"""What a piece takes beside its data."""
_LARGEST_GAP: Final = 0xFFFF - LARGEST - 0xFF
"""Bytes that may be cut from a packet, which holds as many as `LARGEST`, and its headers."""

_ALERT: Final = re.compile(rb"\x15\x03[\x00-\x04]\x00\x02[\x01\x02][\s\S]")
"""An alert of TLS in clear (RFC 8446 §6), as a TLS listener answers what is no TLS: it says nothing of anybody."""
_LOST: Final = 0x100
"""No flag of TCP: bytes were lost."""
_LOST_UNKNOWN: Final = 0x300
"""Nobody knows how many."""


class _Event(NamedTuple):
    """What a packet showed of a direction: the bytes from `start` to `end` of the stream. `cut`: the snap length cut
    them off; `again`: they were sent before; `flags`: what it began or ended."""

    direction: int
    time: int | None
    frame: int
    start: int
    end: int
    cut: bool = False
    again: bool = False
    flags: int = 0
    raw: bytes | None = None


class _Piece(NamedTuple):
    """Bytes in place of those from `start` to `end` of the original stream: `size` from `begin` on in the new one, of
    which `data` are written. `goes_on`: packets behind these had bytes of a message too, which become zeros."""

    start: int
    end: int
    begin: int
    size: int
    data: bytes
    goes_on: bool = False

    def place(self, offset: int) -> int:
        """The place in the new stream of an offset in the original one."""
        at = min(max(offset - self.start, 0), self.end - self.start)
        return self.begin + (
            at if self.size == self.end - self.start else at * self.size // (self.end - self.start)
        )


class RedactedStreams:
    """Makes packets of the chosen connections, by their first frames. `inspector`: reads the messages; its lines come
    as they arrive. `keeps`: bytes that are not understood are not left out."""

    def __init__(
        self,
        encrypted: dict[int, Encrypted],
        secrets: bytes,
        inspector: Inspector,
        redaction: Redaction,
        pseudonyms: Pseudonyms,
        keeps: bool,
    ) -> None:
        self.left_out = 0
        """Bytes of streams that are in no message that was read, and were left out, or kept."""
        self.too_long = 0
        """Bytes that were left out as their message took too many packets."""
        self.exchanges: list[tuple[Exchange, Made]] = []
        """Those that were read since they were last taken, each with what is in place of its messages."""
        self._encrypted = encrypted
        self._keylog = KeyLog(secrets)
        self._inspector = inspector
        self._redaction = redaction
        self._pseudonyms = pseudonyms
        self.keeps = keeps
        self._tcp = Reassembler(self._open, inspector.caps, Counts(), Progress())
        self._streams: dict[int, _RedactedConnection] = {}
        self._made: list[tuple[int, int, PlainPacket]] = []
        self._repeatable: deque[tuple[int, int, int, int]] = deque()
        self._repeatable_bytes = 0
        self._number = 0
        self._bytes = 0
        self.waiting = 0
        """Packets that wait for the end of messages."""
        self.current: Segment | None = None

    def feed(self, segments: list[Segment]) -> list[PlainPacket]:
        """Take the next segments of the chosen packets; return packets in the order of frames."""
        for segment in segments:
            self.current = segment
            self._tcp.feed([segment])
        self._inspector.feed_segments(segments)
        self._take()
        return list(self._written())

    def finish(self) -> Iterator[PlainPacket]:
        """The packets that the end of the run completes."""
        self.current = None
        self._tcp.flush()
        for _ in self._inspector.finish():
            pass
        self._take()
        yield from self._written()

    def make(self, packet: PlainPacket) -> None:
        """Take a packet."""
        self._number += 1
        self._bytes += len(packet.data)
        heappush(self._made, (packet.frame, self._number, packet))

    def keep(self, first: int, direction: int, piece: _Piece) -> None:
        """Note a piece that a connection keeps, as it may be sent again: it does so as long as there is room."""
        size = len(piece.data) + _PIECE_BYTES
        self._repeatable.append((first, direction, piece.end, size))
        self._repeatable_bytes += size

    def _open(self, connection: Connection) -> StreamHandler:
        first = connection.start_frame
        found = self._encrypted.get(first)
        stream = _RedactedConnection(connection, found, self._keylog, self, self._pseudonyms)
        self._streams[first] = stream
        return stream

    def _take(self) -> None:
        """Replace the messages that were read."""
        for _, _, line in self._inspector.arrived():
            if isinstance(line, Exchange):
                stream = self._streams.get(line.key[2])
                made = self._made_of(line.request, line, stream), self._made_of(line.response, line, stream)
                self.exchanges.append((line, made))

    def _made_of(
        self, message: WireMessage | None, exchange: Exchange, stream: _RedactedConnection | None
    ) -> bytes | None:
        """Put what is in place of a message into its stream, and return it: the message itself if it is not understood
        and kept; None if it is left out."""
        if message is None or stream is None:
            return None
        found = self._redaction.message(message, exchange)
        if found is None:
            return message.raw if self.keeps else None
        stream.put(message, found, exchange)
        return found[0]

    def _forget(self) -> None:
        """Let the oldest pieces go that are written, where there is no room for more."""
        kept = self._repeatable
        for _ in range(len(kept)):
            if self._repeatable_bytes <= REPEATS_KEPT:
                break
            first, direction, end, size = kept.popleft()
            stream = self._streams.get(first)
            if stream is None or stream.forget(direction, end):
                self._repeatable_bytes -= size
            else:
                kept.append((first, direction, end, size))

    def _written(self) -> Iterator[PlainPacket]:
        """Write what can be, in the order of frames, up to the first packet that waits. Packets that are made behind it
        wait too, as long as there is room."""
        held = min((stream.held for stream in self._streams.values()), default=inf)
        while True:
            rows = [(stream.begins, first) for first, stream in self._streams.items()]
            waiting = [row for row in rows if row[0] < inf]
            heapify(waiting)
            while waiting:
                _, first = heappop(waiting)
                stream = self._streams[first]
                if not stream.write():
                    held = min(held, stream.begins)
                elif stream.begins < inf:
                    heappush(waiting, (stream.begins, first))
                yield from self._released(min(held, waiting[0][0] if waiting else inf))
            if self.waiting <= EVENTS_WAIT:
                break
            oldest = min(self._streams.values(), key=lambda each: each.begins)
            while oldest.begins < inf:
                oldest.write(gives_up=True)
        for first in [first for first, stream in self._streams.items() if stream.is_over]:
            del self._streams[first]
        self._forget()

    def _released(self, until: float) -> Iterator[PlainPacket]:
        made = self._made
        while made and (made[0][0] < until or self._bytes > BYTES_WAIT):
            packet = heappop(made)[2]
            self._bytes -= len(packet.data)
            yield packet


class _RedactedConnection:
    """A stream handler: notes which packets had which bytes, until it is known what is in place of them."""

    def __init__(
        self,
        connection: Connection,
        encrypted: Encrypted | None,
        keylog: KeyLog,
        owner: RedactedStreams,
        pseudonyms: Pseudonyms,
    ) -> None:
        self._owner, self._connection, self._pseudonyms = owner, connection, pseudonyms
        self._ends = tuple((pseudonyms.address(ip), port) for ip, port in connection.addresses)
        self._client = 0 if connection.syn is None else connection.syn
        self._decryptor: Decryptor | None = None
        if encrypted is not None:
            self._client = encrypted.client
            self._decryptor = Decryptor(keylog, encrypted.client, self._plain, self._lost)
        self._events: deque[_Event] = deque()
        self._frames: deque[int] = deque()
        """Frames of the events that have none before them behind: the first one is the least."""
        self._waiting: tuple[dict[int, _Piece], dict[int, _Piece]] = ({}, {})
        self._placed: tuple[deque[_Piece], deque[_Piece]] = (deque(), deque())
        self._offsets = [0, 0]
        self._reached = [0, 0]
        self._written = [0, 0]
        self._next = [1, 1]
        self._told = [1, 1]
        """Numbers that the other side acknowledges."""
        self._packets = 0
        self._first: tuple[int, int] | None = None
        """The number that both streams begin with, and the hops that the client's packets have left: both tell copies
        of a connection (`filters.natcopies`). Set with the first packet: then its SYN is known."""
        self._closed = False
        begin, frame = connection.start_time, connection.start_frame
        if connection.syn is not None or encrypted is not None:
            for direction, flags in ((self._client, SYN), (1 - self._client, SYN | ACK), (self._client, ACK)):
                self._event(direction, begin, frame, 0, flags=flags)

    # ------------------------------------------------------------------ events of the reassembly

    def data(self, direction: int, time: int | None, frame: int, buffer: bytes, start: int, end: int) -> None:
        if self._decryptor is not None:
            self._decryptor.data(direction, time, frame, buffer, start, end)
            return
        keeps = self._owner.keeps or _ALERT.fullmatch(buffer, start, end) is not None
        self._event(direction, time, frame, end - start, raw=buffer[start:end] if keeps else None)

    def gap(self, direction: int, time: int | None, frame: int, size: int, cause: str) -> None:
        if self._decryptor is not None:
            self._decryptor.gap(direction, time, frame, size)
            return
        if cause != "snaplen":
            self._event(direction, time, frame, size, flags=_LOST)
            return
        last = self._events[-1] if self._events else None
        if last is not None and last[:3] == (direction, time, frame) and not last.flags and not last.again:
            # What was captured of the packet.
            self._events[-1] = last._replace(end=last.end + size, cut=True)
            self._offsets[direction] += size
        else:
            self._event(direction, time, frame, size, cut=True)

    def conflict(self, direction: int, size: int) -> None: ...

    def repeated(self, direction: int, start: int, end: int) -> None:
        current = self._owner.current
        if self._decryptor is None and current is not None:
            self._add(_Event(direction, current[1], current[9], start, end, again=True))

    def fin(self, direction: int, time: int | None, frame: int) -> None:
        self._event(direction, time, frame, 0, flags=FIN | ACK)

    def closed(self, time: int | None, frame: int, reason: str) -> None:
        if self._decryptor is not None:
            self._decryptor.closed(False)
        if reason == "reset" and self._connection.reset is not None:
            when, at, direction = self._connection.reset
            self._event(direction, when, at, 0, flags=RST | ACK)
        self._closed = True

    def _plain(self, direction: int, time: int | None, frame: int, plaintext: bytes) -> None:
        self._event(direction, time, frame, len(plaintext), raw=plaintext if self._owner.keeps else None)

    def _lost(self, direction: int, time: int | None, frame: int, size: int | None) -> None:
        self._event(direction, time, frame, size or 0, flags=_LOST if size is not None else _LOST_UNKNOWN)

    def _event(
        self,
        direction: int,
        time: int | None,
        frame: int,
        size: int,
        cut: bool = False,
        flags: int = 0,
        raw: bytes | None = None,
    ) -> None:
        start = self._offsets[direction]
        self._offsets[direction] += size
        self._add(_Event(direction, time, frame, start, start + size, cut, False, flags, raw))

    def _add(self, event: _Event) -> None:
        self._events.append(event)
        while self._frames and self._frames[-1] > event.frame:
            self._frames.pop()
        self._frames.append(event.frame)
        self._owner.waiting += 1

    # ------------------------------------------------------------------ what is in place of them

    def put(self, message: WireMessage, found: tuple[bytes, int], exchange: Exchange) -> None:
        """Take what is in place of a message, and how many bytes that were captured are not."""
        if message.raw is None:
            return
        made, left = found
        is_request = message.direction == "request"
        direction = self._side(exchange) if is_request else 1 - self._side(exchange)
        size = message.size + len(made) + left - len(message.raw)
        start = message.offset
        piece = _Piece(start, start + 4 + message.size, 0, 4 + size, pack(">i", size) + made, True)
        reached = self._reached[direction]
        if start < reached < piece.end:
            # Its first bytes were given up.
            self._owner.too_long += min(piece.end, self._offsets[direction]) - reached
            piece = _Piece(reached, piece.end, 0, piece.end - reached, b"")
        if piece.start >= reached:
            self._waiting[direction][piece.start] = piece

    def _side(self, exchange: Exchange) -> int:
        """The client's direction."""
        ends, own = exchange.connection, self._connection.addresses
        if own[0][1] == own[1][1]:
            return self._client
        return 0 if own[0][1] == ends.client_port else 1

    @property
    def held(self) -> float:
        """The first frame that the reassembly holds back: what is behind lost bytes, and a reset; infinity if it holds
        none."""
        connection = self._connection
        if self._closed or not connection.holds:
            return inf
        reset = () if connection.reset is None else (connection.reset[1],)
        pieces = chain(*(half.held.pieces for half in connection.halves if half.held is not None))
        return min(chain(reset, (piece.arrival.frame for piece in pieces)), default=inf)

    @property
    def is_over(self) -> bool:
        return self._closed and not self._events

    @property
    def begins(self) -> float:
        """The first frame whose packet waits; infinity if none does."""
        return self._frames[0] if self._frames else inf

    def forget(self, direction: int, end: int) -> bool:
        """Let the pieces up to `end` go; False if packets wait that have bytes of them."""
        if self._written[direction] < end:
            return False
        placed = self._placed[direction]
        while placed and placed[0].end <= end:
            placed.popleft()
        return True

    def write(self, gives_up: bool = False) -> bool:
        """Write the next packet; False if a message is not known of yet that it has bytes of. `gives_up`: then too."""
        event = self._events[0]
        given_up = gives_up or self._closed or len(self._events) > PACKETS_WAIT
        if not event.again:
            if not self._place(event, given_up):
                return False
            self._written[event.direction] = event.end
        self._events.popleft()
        if self._frames[0] == event.frame:
            self._frames.popleft()
        self._owner.waiting -= 1
        self._write(event)
        return True

    def _place(self, event: _Event, given_up: bool) -> bool:
        """True once it is known what is in place of the bytes up to the event's last one."""
        direction = event.direction
        waiting, placed = self._waiting[direction], self._placed[direction]
        while (at := self._reached[direction]) < event.end:
            piece = waiting.pop(at, None)
            if piece is None:
                if not given_up:
                    return False
                stop = min([each for each in waiting if each > at] + [event.end])
                size, data = stop - at, b""
                if not event.flags & _LOST and not event.cut:
                    if not self._closed:
                        self._owner.too_long += size
                    else:
                        if event.raw is None or self._owner.keeps:
                            self._owner.left_out += size
                        if event.raw is not None:
                            data = event.raw[at - event.start :][:size]
                piece = _Piece(at, stop, 0, size, data)
            piece = piece._replace(begin=self._next[direction])
            placed.append(piece)
            self._owner.keep(self._connection.start_frame, direction, piece)
            self._next[direction] += piece.size
            self._reached[direction] = piece.end
        return True

    def _write(self, event: _Event) -> None:
        direction = event.direction
        if event.flags & _LOST_UNKNOWN == _LOST_UNKNOWN:
            self._next[direction] += UNKNOWN_LOSS
        elif event.flags and not event.flags & _LOST:
            syn = event.flags & SYN
            self._packet(event, 0 if syn else self._next[direction], b"", event.flags)
            self._next[direction] += bool(event.flags & FIN)
            self._told[direction] = self._next[direction]
        for begin, data, hole in self._parts(event):
            behind = len(data) % LARGEST or min(len(data), LARGEST)
            for at in range(0, len(data) - behind, LARGEST):
                self._packet(event, begin + at, data[at : at + LARGEST], PSH | ACK)
            missing = hole if event.cut and hole <= _LARGEST_GAP else 0
            if data or missing:
                self._packet(
                    event, begin + len(data) - behind, data[len(data) - behind :], PSH | ACK, missing
                )
            self._told[direction] = max(self._told[direction], begin + len(data) + hole)

    def _parts(self, event: _Event) -> Iterator[tuple[int, bytes, int]]:
        """The parts of the new stream that stand for the event's bytes: where each begins, its bytes, and the number of
        those that are missing behind them."""
        begin, joined = 0, b""
        # Those of the last bytes stand at the end.
        pieces = takewhile(lambda piece: piece.end > event.start, reversed(self._placed[event.direction]))
        for piece in reversed([piece for piece in pieces if piece.start < event.end]):
            low, high = piece.place(event.start), piece.place(event.end)
            data = piece.data[low - piece.begin : high - piece.begin]
            if not data and piece.goes_on and not event.cut and not event.flags:
                data = bytes(high - low)
            begin, joined = begin if joined else low, joined + data
            if low + len(data) < high:
                yield begin, joined, high - low - len(data)
                joined = b""
        if joined:
            yield begin, joined, 0

    def _packet(self, event: _Event, seq: int, payload: bytes, flags: int, missing: int = 0) -> None:
        self._packets += 1
        client = self._connection.halves[self._client]
        if self._first is None:
            was_seen = client.isn >= 0
            self._first = (self._pseudonyms.sequence(client.isn), client.hops) if was_seen else (0, HOPS)
        number, hops = self._first
        own, other = self._ends[event.direction], self._ends[1 - event.direction]
        ack = number + self._told[1 - event.direction] if flags & ACK else 0
        left = hops if event.direction == self._client else HOPS
        data = tcp_packet(own, other, number + seq, ack, flags, payload, self._packets, missing, left)
        self._owner.make(PlainPacket(event.frame, event.time, data, missing=missing))
