"""A connection with its two directions, and the island that it is on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from kinspect.model import Evidence, IcmpError, Unacknowledged
from kinspect.state import fields, fill
from kinspect.tcp.flowkeys import address_size
from kinspect.tcp.reorder import FINISH, HeldSegments
from kinspect.tcp.sequence import distance
from kinspect.tcp.strays import StrayPacket

NEVER: Final = (1 << 62) - 1  # as large as an int may be that the compiled form keeps in a register

ERRORS_KEPT: Final = 8
"""Number of different ICMP errors of a connection that are kept."""

UNKNOWN_TICK: Final = 0
UNUSABLE_TICK: Final = -1
"""`SenderClock.tick` before it was measured, and if it is none that a clock has."""


class SenderClock(NamedTuple):
    """A sender's own clock: the timestamp that it gave its first packet, when that came, and the nanoseconds after
    which it gives the next one (`timestamps`)."""

    stamp: int
    time: int
    tick: int = UNKNOWN_TICK


NO_STRAYS: Final[list[StrayPacket]] = []
"""Shared empty list of islands without strays; never appended to."""


NO_TRACE: Final = bytearray()
"""Shared empty trace of directions without one; never appended to."""


class StreamHandler(Protocol):
    """Receiver of a connection's two byte streams, in order and without overlap.

    `direction` 0 is from the sender of the SYN (else the first seen sender), 1 the other. `time` and `frame` are those
    of the packet that first delivered the bytes. `buffer` is valid only during the call.
    """

    def data(
        self, direction: int, time: int | None, frame: int, buffer: bytes, start: int, end: int, /
    ) -> None:
        """`buffer[start:end]` comes next in the stream."""

    def gap(self, direction: int, time: int | None, frame: int, size: int, cause: str, /) -> None:
        """`size` bytes of the stream are not in the capture: `capture_loss` or `snaplen`."""

    def conflict(self, direction: int, size: int, /) -> None:
        """`size` bytes came again with another value; those handed on first are kept."""

    def repeated(self, direction: int, start: int, end: int, /) -> None:
        """The bytes from offset `start` to `end` of the stream, which were handed on, were sent again."""

    def fin(self, direction: int, time: int | None, frame: int, /) -> None:
        """The sender ended the stream; it may still go on."""

    def closed(self, time: int | None, frame: int, reason: str, /) -> None:
        """End of the connection, by `fin`, `reset`, `idle`, `cap`, `reuse` or `capture_end`."""


class NullHandler:
    """Handler that ignores everything after the end of a connection."""

    def data(self, *_: object) -> None: ...
    def gap(self, *_: object) -> None: ...
    def conflict(self, *_: object) -> None: ...
    def repeated(self, *_: object) -> None: ...
    def fin(self, *_: object) -> None: ...
    def closed(self, *_: object) -> None: ...


class HalfConnection:
    """One direction: the sender's side of a connection.

    `next` is the sequence number of the first byte not handed on; while the direction was not `seen`, the number that
    its peer acknowledged (-1: none). `calm`: nothing waits on the connection and the direction is open, so a packet
    with the expected number can be handed on at once. `fin_guessed`: no FIN was seen, but one number more was
    acknowledged than there were bytes. `ack` is the highest acknowledgment it sent, `isn` the sequence number of its
    SYN, -1 for none. `far`, while the connection is opening: the end of what was seen of it, or if nothing was, the
    first number that its peer acknowledged (-1: none). `before`: bytes before its first packet that its peer had not
    acknowledged by then. `scope` and `hops` (the time to live) are those of its first
    packet; `scope` is None while there was none. `row` is the number of its last packet in `RecentPackets`, `thinned`
    the last one when these were thinned, and `linked` the number of packets since. `trace` has packets before
    those. `syns`: SYNs that it sent. `resent`: the segment that it sent again last although nothing of it was
    acknowledged: its sequence number and size, how often, and for how long the peer was silent at first. `full_at`: the
    offset of its first full-sized segment, -1 for none. `sender`: the sender's own clock, if its packets have
    timestamps. `offset`: bytes of the stream that were handed on or given up, `gap_bytes` of them given up.
    """

    STATE: ClassVar = """
        ack before calm clock conflicts direction far fin_guessed finished frame full_at gap_bytes hops isn next offset
        packets resent scope seen syns time trace
    """.split()
    __slots__ = STATE + "connection handler held island linked peer row sender thinned".split()

    connection: Connection
    island: Island
    peer: HalfConnection
    handler: StreamHandler

    def __init__(self, direction: int) -> None:
        self.direction = direction
        self.next = -1
        self.seen = False
        self.calm = False
        self.finished = False
        self.fin_guessed = False
        self.ack = self.far = -1
        self.before = 0
        self.isn = -1
        self.syns = 0
        self.resent: tuple[int, int, int, int] | None = None
        self.full_at = -1
        self.packets = 0
        self.offset = 0
        self.gap_bytes = 0
        self.conflicts = 0
        self.scope: bytes | None = None
        self.hops = 0
        self.clock = 0
        self.sender: SenderClock | None = None
        self.time: int | None = None
        self.frame = 0
        self.row = self.thinned = -1
        self.linked = 0
        self.trace = NO_TRACE
        self.held: HeldSegments | None = None

    def state(self) -> list[Any]:
        """State for `fill`, without its last packets, which belong to the table."""
        return [fields(self, self.STATE), self.held and self.held.state(), self.sender]

    def fill(self, state: Sequence[Any]) -> None:
        """Go on with the direction of `state`."""
        own, held, sender = state
        fill(self, self.STATE, own)
        self.held = held and HeldSegments.from_state(held)
        self.sender = sender and SenderClock(*sender)

    def set_forward(self, by: int) -> None:
        """Go on as if all that was had been so much later."""
        self.clock += by
        if self.sender is not None:
            self.sender = self.sender._replace(time=self.sender.time + by)
        if self.held is not None:
            self.held.set_forward(by)

    def hold(self) -> HeldSegments:
        """The held packets, created if there are none yet."""
        if self.held is None:
            self.held = HeldSegments()
        return self.held

    @property
    def bytes(self) -> int:
        """Bytes of the stream that were handed on."""
        return self.offset - self.gap_bytes

    @property
    def is_late(self) -> bool:
        """While the connection is opening: true if the peer acknowledged more of the direction than was seen, as its
        packets come later than they were sent, or not at all."""
        return self.far >= 0 and self.peer.ack >= 0 and distance(self.peer.ack, self.far) > 0

    def sends_again(self, seq: int, size: int, silence: int) -> None:
        """Note that a segment comes again. `silence`: for how long its peer had sent nothing before."""
        known = self.resent
        if known is not None and known[0] == seq:
            self.resent = seq, max(size, known[1]), known[2] + 1, known[3]
        else:
            self.resent = seq, size, 2, silence

    @property
    def unacknowledged(self) -> Unacknowledged | None:
        """What it sent again to the end without an answer."""
        if self.resent is None or distance(self.peer.ack, self.resent[0]) > 0:
            return None
        _, size, times, silence = self.resent
        full_sized: bool | None = None
        if 0 <= self.full_at < self.offset + distance(self.peer.ack, self.next):
            full_sized = True
        elif self.isn >= 0 and not self.gap_bytes:
            full_sized = False
        return Unacknowledged(self.direction, size, times, silence, full_sized)

    def has_reached(self, number: int) -> bool:
        """True if everything before the sequence number was seen, or lies before something seen."""
        if not self.seen:
            return False
        ahead = distance(number, self.next)
        if ahead > 0 and self.held is not None and self.held.pieces:
            last = self.held.pieces[-1]
            ahead -= last.end - self.offset + (last.kind == FINISH)
        return ahead <= 0


FOREIGN: Final = HalfConnection(0)
"""Keys of islands that another reassembler takes lead to this half."""


class Connection:
    """One TCP connection, from its first packet to its close.

    `syn` is the direction that sent a SYN without ACK (also known from the SYN-ACK), or None for a connection that was
    open before the capture. `end_reason` is None while it is open. `opening`: a packet other than a SYN came first, and
    earlier ones may still come. `skewed`: the directions' times may come from two clocks, as no handshake shows that
    the capture has them in the order of sending, or bytes came long after their acknowledgment. `aliases` are the keys
    of its packets in other scopes. `reset` is the time and frame of the reset that ends it, and its direction. `file`:
    all its packets are from this input file, as another connection has the same numbers in another file; None: from
    any. `superseded`: the number of packets it had when another connection began on its ends, and the time and frame of
    that one's first packet. `ended`: the direction that first ended it, and how long that had been silent. `errors`:
    ICMP errors about it, as values of `IcmpError`. `stepped_at`: the time of its first packet after the last step of
    the capture's clock, None if there was none.

    `may_wait`: packets around its beginning or end may be out of order, and it does not wait for them yet. It waits
    until `linger_packet` of its island, or `linger_at` by its clock. `hole_at`: the time at which its oldest gap is
    given up; `superseded_at`: the time at which it is closed if it was superseded.
    """

    STATE: ClassVar = """
        aliases end_reason ended errors file hole_at linger_at linger_packet may_wait opening reset skewed start_clock
        start_time stepped_at superseded superseded_at syn
    """.split()
    __slots__ = (*STATE, "halves", "key", "start_frame")

    def __init__(self, key: bytes, island: Island, time: int | None, frame: int) -> None:
        self.key = key
        self.start_clock = island.clock
        self.start_time = time
        self.start_frame = frame
        self.syn: int | None = None
        self.end_reason: str | None = None
        self.opening = False
        self.may_wait = False
        self.skewed = False
        self.aliases: tuple[bytes, ...] = ()
        self.reset: tuple[int | None, int, int] | None = None
        self.file: int | None = None
        self.superseded: tuple[int, int | None, int] | None = None
        self.ended: tuple[int, int] | None = None
        self.errors: tuple[tuple[int, int, int, int | None, int], ...] = ()
        self.stepped_at: int | None = None
        self.hole_at = self.linger_at = self.linger_packet = self.superseded_at = NEVER
        first, second = HalfConnection(0), HalfConnection(1)
        for half, peer in ((first, second), (second, first)):
            half.connection = self
            half.island = island
            half.peer = peer
            half.clock = island.clock
        self.halves = first, second

    def state(self) -> list[Any]:
        """State for `from_state`; the handler has its own."""
        halves = [half.state() for half in self.halves]
        return [self.key, self.start_frame, fields(self, self.STATE), halves]

    @classmethod
    def from_state(cls, state: Sequence[Any], island: Island) -> Connection:
        key, start_frame, own, halves = state
        connection = cls(key, island, None, start_frame)
        fill(connection, cls.STATE, own)
        for half, of_half in zip(connection.halves, halves, strict=True):
            half.fill(of_half)
        return connection

    def set_forward(self, by: int) -> None:
        """Go on as if all that was had been so much later."""
        self.start_clock += by
        self.hole_at = _set_forward(self.hole_at, by)
        self.linger_at = _set_forward(self.linger_at, by)
        self.superseded_at = _set_forward(self.superseded_at, by)
        for half in self.halves:
            half.set_forward(by)

    @property
    def addresses(self) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
        """Address and port of the sender of each direction."""
        key = self.key
        size = address_size(key)
        ports = 2 * size
        port, other = (int.from_bytes(key[at : at + 2]) for at in (ports, ports + 2))
        return (key[:size], port), (key[size:ports], other)

    @property
    def handshake(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """The sequence numbers of both SYNs and the hops of the first packets, by direction; None if a SYN was not
        seen."""
        first, second = self.halves
        if first.isn < 0 or second.isn < 0:
            return None
        return (first.isn, first.hops), (second.isn, second.hops)

    @property
    def evidence(self) -> Evidence:
        """What it tells of why it failed."""
        first, second = self.halves
        syns: int | None = None
        refused: bool | None = None
        if self.syn is not None:
            client, broker = self.halves[self.syn], self.halves[1 - self.syn]
            syns = client.syns or None
            refused = (
                self.end_reason == "reset"
                and self.reset is not None
                and self.reset[2] == broker.direction
                and not broker.seen
                and client.packets == client.syns
            )
        ended_by: int | None = None
        silence: int | None = None
        if self.ended is not None:
            ended_by = self.ended[0]
            if self.ended[1] >= 0:
                silence = self.ended[1]
        errors = tuple([IcmpError(*error) for error in self.errors])
        unacknowledged = first.unacknowledged or second.unacknowledged
        frames = self.start_frame, self.last.frame
        return Evidence(syns, refused, errors, ended_by, silence, unacknowledged, frames)

    def note_error(self, error: int, mtu: int, time: int | None, frame: int) -> None:
        """Note an ICMP error about one of its segments."""
        for place, (known, of, count, first_time, first_frame) in enumerate(self.errors):
            if known == error and of == mtu:
                noted = (error, mtu, count + 1, first_time, first_frame)
                self.errors = (*self.errors[:place], noted, *self.errors[place + 1 :])
                return
        if len(self.errors) < ERRORS_KEPT:
            self.errors = (*self.errors, (error, mtu, 1, time, frame))

    @property
    def is_superseded(self) -> bool:
        """True if another connection began on its ends and it has had no packet since."""
        return self.superseded is not None and self.superseded[0] == sum(self.packets)

    @property
    def lingers(self) -> bool:
        """True while packets around its beginning or end that are out of order may still come."""
        return self.linger_at != NEVER

    @property
    def is_late(self) -> bool:
        """True if a direction's packets come later than the acknowledgments of them."""
        first, second = self.halves
        return first.is_late or second.is_late

    @property
    def holds(self) -> bool:
        """True if it holds something back."""
        first, second = self.halves
        return self.opening or self.reset is not None or first.held is not None or second.held is not None

    @property
    def last(self) -> HalfConnection:
        """Direction of the last packet."""
        first, second = self.halves
        if first.clock != second.clock:
            return first if first.clock > second.clock else second
        return first if first.frame > second.frame else second

    @property
    def packets(self) -> tuple[int, int]:
        return self.halves[0].packets, self.halves[1].packets

    @property
    def bytes(self) -> tuple[int, int]:
        """Bytes handed on of each stream."""
        return self.halves[0].bytes, self.halves[1].bytes

    @property
    def conflicts(self) -> tuple[int, int]:
        """Bytes of each stream that came again with another value, as far as noticed."""
        return self.halves[0].conflicts, self.halves[1].conflicts


def _set_forward(at: int, by: int) -> int:
    return at if at == NEVER else at + by


class Island:
    """Two addresses and ports, and the connections on them: results for one depend on the packets of its island alone.
    They follow one another, or are copies of one, or overlap where two hosts' captures or tunnels are mixed.

    `clock`: the latest time of its packets, plus a nanosecond for each without a time, so that it keeps their order
    too. `connections`: those that are open or ended recently, in the order of their first packets. `deadline`: the time
    at which something is due; -1: with its next packet. `queued`: the time for which it waits in the run's queue.
    `packets` counts its packets while a connection lingers. `lent`: time for which the run's clock waits with it, as
    that was set forward, or ahead of the island when the packet `behind_at` came, the last late or unusual one.
    """

    __slots__ = "behind_at clock connections deadline lent packets pair queued strays".split()

    def __init__(self, pair: bytes) -> None:
        self.pair = pair
        self.behind_at = self.clock = self.lent = 0
        self.connections: list[Connection] = []
        self.strays = NO_STRAYS
        self.deadline = self.queued = NEVER
        self.packets = 0

    def __lt__(self, other: Island) -> bool:
        """An arbitrary order, for heap entries with the same time."""
        return self.pair < other.pair

    def set_forward(self, by: int, time: int | None) -> int:
        """Go on as if all that was had been so much later, as the capture's clock was set forward before a packet with
        that time. Returns the number of its open connections."""
        for stray in self.strays:
            stray.clock += by
        still_open = 0
        for connection in self.connections:
            connection.set_forward(by)
            if connection.end_reason is None:
                connection.stepped_at = time
                still_open += 1
        return still_open

    def fall_behind(self, reached: int, frame: int) -> None:
        """Note that the run's clock has `reached` a time at a packet of the island."""
        self.lent = max(0, reached - self.clock)
        self.behind_at = frame

    @property
    def lag(self) -> int:
        """By how much the run's clock was ahead of the island at its last packet: 0 if that was not late."""
        at_last = any([connection.last.frame == self.behind_at for connection in self.connections])
        return self.lent if at_last else 0

    def see(self, time: int | None) -> None:
        """Advance the clock for a packet with that time."""
        if time is None:
            self.clock += 1
        elif time > self.clock:
            self.clock = time
