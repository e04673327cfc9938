"""A connection and its two directions."""

from __future__ import annotations

from typing import Protocol

from .held import FINISH, Held
from .keys import address_size
from .sequence import distance


class StreamHandler(Protocol):
    """What takes a connection's two byte streams, in order and without overlap.

    `direction` 0 is what the sender of the SYN (else the first seen sender) sends, 1 the other. `time` and
    `frame` are those of the packet that first delivered the bytes. `buffer` is valid during the call.
    """

    def data(
        self, direction: int, time: int | None, frame: int, buffer: bytes, start: int, end: int, /
    ) -> None:
        """`buffer[start:end]` comes next in the stream."""

    def gap(self, direction: int, time: int | None, frame: int, size: int, cause: str, /) -> None:
        """`size` bytes of the stream are not in the capture: `capture_loss` or `snaplen`."""

    def fin(self, direction: int, time: int | None, frame: int, /) -> None:
        """The stream ended."""

    def closed(self, time: int | None, frame: int, reason: str, /) -> None:
        """Nothing comes any more: `fin`, `reset`, `idle`, `cap`, `reuse` or `capture_end`."""


class Nobody:
    """Takes what comes after the end of a connection."""

    def data(
        self, direction: int, time: int | None, frame: int, buffer: bytes, start: int, end: int, /
    ) -> None:
        pass

    def gap(self, direction: int, time: int | None, frame: int, size: int, cause: str, /) -> None:
        pass

    def fin(self, direction: int, time: int | None, frame: int, /) -> None:
        pass

    def closed(self, time: int | None, frame: int, reason: str, /) -> None:
        pass


class Half:
    """One direction: the sender's side of a connection.

    `next` is the sequence number of the first byte not handed on; as long as the direction was not `seen`,
    what its peer acknowledged (-1: nothing). `calm`: nothing waits on the connection and the direction is
    open, so a packet with the expected number can be handed on at once. `ack` is the last
    acknowledgment it sent, `isn` the sequence number of its SYN, -1 for none. `scope` and `hops` (the time
    to live) are those of its first packet; `scope` is None as long as there was none.
    """

    __slots__ = (
        "ack",
        "bytes",
        "calm",
        "clock",
        "conflicts",
        "connection",
        "direction",
        "finished",
        "frame",
        "gap_bytes",
        "gaps",
        "handler",
        "held",
        "hops",
        "isn",
        "next",
        "packets",
        "peer",
        "retransmitted",
        "scope",
        "seen",
        "time",
    )

    connection: Connection
    peer: Half
    handler: StreamHandler

    def __init__(self, direction: int) -> None:
        self.direction = direction
        self.next = -1
        self.seen = False
        self.calm = False
        self.finished = False
        self.ack = -1
        self.isn = -1
        self.packets = 0
        self.bytes = 0
        self.gaps = 0
        self.gap_bytes = 0
        self.retransmitted = 0
        self.conflicts = 0
        self.scope: bytes | None = None
        self.hops = 0
        self.clock = 0
        self.time: int | None = None
        self.frame = 0
        self.held: Held | None = None

    @property
    def offset(self) -> int:
        """How many bytes of the stream were handed on or given up."""
        return self.bytes + self.gap_bytes

    def has_reached(self, number: int) -> bool:
        """Whether all before the sequence number was seen, or lies before something seen."""
        if not self.seen:
            return False
        ahead = distance(number, self.next)
        if ahead > 0 and self.held is not None and self.held.pieces:
            last = self.held.pieces[-1]
            ahead -= last.end - self.offset + (last.kind == FINISH)
        return ahead <= 0


class Connection:
    """One TCP connection, from its first packet to its close.

    `syn` is the direction that sent a SYN without ACK (known from the SYN-ACK too), or None for a
    connection that was open before the capture. `end_reason` is None while it is open. `serial` counts
    connections in the order of their first packets. `opening`: a packet other than a SYN came first, and what came
    before may still come. `skewed`: the directions' times may come from two clocks, as no handshake shows that the
    capture has them in the order in which they were sent, or bytes came long after their acknowledgment. `aliases`
    are the keys of its packets in other scopes. `reset` is the time and frame of the reset that ended it. `may_wait`:
    packets around its begin or end may be out of order, and it does not wait for them yet; `lingers`: how often it
    does.
    """

    __slots__ = (
        "aliases",
        "end_reason",
        "halves",
        "key",
        "lingers",
        "may_wait",
        "opening",
        "reset",
        "serial",
        "skewed",
        "start_clock",
        "start_frame",
        "start_time",
        "syn",
        "timed",
    )

    def __init__(self, key: bytes, serial: int, clock: int, time: int | None, frame: int) -> None:
        self.key = key
        self.serial = serial
        self.start_clock = clock
        self.start_time = time
        self.start_frame = frame
        self.syn: int | None = None
        self.end_reason: str | None = None
        self.opening = False
        self.lingers = 0
        self.may_wait = False
        self.skewed = False
        self.aliases: tuple[bytes, ...] = ()
        self.reset: tuple[int | None, int] | None = None
        self.timed = False
        first, second = Half(0), Half(1)
        first.connection = second.connection = self
        first.peer, second.peer = second, first
        self.halves = first, second

    @property
    def addresses(self) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
        """Address and port of the sender of each direction."""
        key = self.key
        size = address_size(key)
        ports = 2 * size
        return (
            (key[:size], int.from_bytes(key[ports : ports + 2], "big")),
            (key[size:ports], int.from_bytes(key[ports + 2 : ports + 4], "big")),
        )

    @property
    def last(self) -> Half:
        """The direction that sent the last packet."""
        first, second = self.halves
        return first if (first.clock, first.frame) > (second.clock, second.frame) else second

    @property
    def end_time(self) -> int | None:
        """The time of the last packet."""
        return self.last.time

    @property
    def end_frame(self) -> int:
        """The frame of the last packet."""
        return self.last.frame

    @property
    def packets(self) -> tuple[int, int]:
        return self.halves[0].packets, self.halves[1].packets

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes of each stream that were handed on."""
        return self.halves[0].bytes, self.halves[1].bytes

    @property
    def gaps(self) -> tuple[int, int]:
        return self.halves[0].gaps, self.halves[1].gaps

    @property
    def gap_bytes(self) -> tuple[int, int]:
        return self.halves[0].gap_bytes, self.halves[1].gap_bytes

    @property
    def retransmitted(self) -> tuple[int, int]:
        """Bytes that came again."""
        return self.halves[0].retransmitted, self.halves[1].retransmitted

    @property
    def conflicts(self) -> tuple[int, int]:
        """Bytes that came again with another value, as far as that was noticed."""
        return self.halves[0].conflicts, self.halves[1].conflicts
