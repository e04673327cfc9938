"""The connection table: which packet belongs to which connection, and how many may be open."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from ..model import ACK, FIN, RST, SYN, Caps, Counts, Segment
from .connection import Connection, Half, StreamHandler
from .delivery import LINGER_PACKETS, Delivery
from .keys import ends, reverse_key, scope
from .kin import SYN_DISTANCE, Kin
from .recent import Recent
from .sequence import HALF_SPACE, MASK, distance
from .timers import NEVER, Timers

# Of ended connections so many are remembered, for packets that come late.
REMEMBERED = 4096

# A SYN that comes again is the same connection's if it comes within so many packets of it (and
# `Caps.reorder_ns`): a capture that holds the packet twice, or out of order. Later it is a new connection.
SYN_PACKETS = 8

# So many scopes beside the first are remembered of a connection; it may be seen in more.
ALIASES = 16

SPECIAL = FIN | SYN | RST | ACK


class Reassembler:
    """Segments of all connections in, each connection's streams to its handler out.

    `open_connection` is called with each new `Connection` and gives the handler of its streams. Results
    depend on the packets alone, not on how they are cut into calls of `feed`.
    """

    def __init__(
        self, open_connection: Callable[[Connection], StreamHandler], caps: Caps, counts: Counts
    ) -> None:
        self._open_connection = open_connection
        self._caps = caps
        self._counts = counts
        self._delivery = Delivery(caps, counts)
        self._halves: dict[bytes, Half] = {}
        self._kin = Kin()
        self._recent = Recent(self._halves)
        self._open = 0
        self._opened = 0
        self._ended: deque[Connection] = deque()
        # The time of the capture: the latest of any packet, plus a nanosecond for each without a time, so
        # that it tells packets' order too.
        self._clock = 0
        self._deadline = NEVER
        self._silent = Timers()
        self._holes = Timers()
        # Connections with a hole too old by the clock, and at which tick it is given up: see `_run_timers`.
        self._overdue: deque[tuple[int, Connection]] = deque()
        # The same for connections at whose begin or end packets may be out of order.
        self._lingering: deque[tuple[int, Connection]] = deque()
        # Of them those that wait for the other capture point's clock as well.
        self._skewed = Timers()
        self._ticks = 0
        # By serial, the frame at which a connection began to keep something back; in the order of the packets.
        self._waiting: dict[int, int] = {}

    @property
    def open_connections(self) -> int:
        """How many connections are open."""
        return self._open

    @property
    def waiting_since(self) -> int | None:
        """The frame from which on something may still be handed on late, None if all was handed on at once."""
        return next(iter(self._waiting.values()), None)

    def feed(self, segments: list[Segment]) -> None:
        """Takes segments in the order of the capture. Raises only what a handler raises."""
        find = self._halves.get
        clock = self._clock
        for segment in self._recent.walk(segments):
            key, time, seq, ack, flags, data, start, end, missing, frame, _ = segment
            if time is None:
                clock += 1
            elif time > clock:
                clock = time
            if clock >= self._deadline:
                self._clock = clock
                self._run_timers(time, frame)
            half = find(key)
            if (
                half is not None
                and seq == half.next
                and half.calm
                and flags & SPECIAL == ACK
                and not missing
                and (half.peer.next - ack) & MASK < HALF_SPACE
            ):
                if start == end and ack == half.ack and self._recent.is_copy(half, segment):
                    self._counts.duplicate_packets += 1
                    continue
                half.packets += 1
                half.ack = ack
                half.clock = clock
                half.time = time
                half.frame = frame
                if start != end:
                    size = end - start
                    half.next = (seq + size) & MASK
                    half.bytes += size
                    half.handler.data(half.direction, time, frame, data, start, end)
            else:
                self._clock = clock
                self._unusual(half, segment)
        self._clock = clock

    def closing(self, time: int | None = None, frame: int | None = None) -> Iterator[Connection]:
        """The end of the capture: hands on what waits and closes every connection, one for each that is taken.

        Those that keep something back come first, for its packets lie before the end. `time` and `frame` are the
        capture's last packet's; without them each connection ends with its own last. Nothing may be fed afterwards.
        """
        connections = {half.connection.serial: half.connection for half in self._halves.values()}
        waiting = [serial for serial in self._waiting if serial in connections]
        for serial in (*waiting, *sorted(connections.keys() - set(waiting))):
            connection = connections.pop(serial)
            if connection.end_reason is None:
                end = (connection.end_time, connection.end_frame) if frame is None else (time, frame)
                self._close(connection, *end, "capture_end")
                yield connection

    def flush(self, time: int | None = None, frame: int | None = None) -> None:
        """`closing`, all at once."""
        for _ in self.closing(time, frame):
            pass

    def _unusual(self, half: Half | None, segment: Segment) -> None:
        """Any packet that is not simply the next one of its direction."""
        key, time, seq, ack, flags, data, start, end, missing, frame, mark = segment
        if half is None:
            half = self._join(segment, None)
        behind = seq + end - start + missing + (flags & FIN)
        if (
            half is not None
            and half.has_reached(behind)
            and not (flags & ACK and distance(ack, half.ack) > 0)
            and self._recent.is_copy(half, segment)
        ):
            self._counts.duplicate_packets += 1
            return
        if flags & RST:
            flags &= ~SYN
        if half is not None:
            connection = half.connection
            if connection.end_reason is not None:
                stale = self._clock - connection.last.clock >= self._caps.idle_timeout_ns
                if not stale and not self._is_new(half, seq, ack, flags, end - start):
                    if flags & ACK and distance(ack, half.ack) > 0:
                        half.ack = ack
                    return
                half = self._join(segment, connection)
            elif self._is_new(half, seq, ack, flags, end - start):
                self._close(connection, time, frame, "reuse")
                half = self._join(segment, connection)
        if half is None:
            if flags & RST:
                return
            half = self._open_at(key, time, ack, flags, frame)
        connection = half.connection
        if half.scope is None:
            half.scope = scope(key)
            half.hops = mark >> 24 & 0xFF
        self._count_conflicts(half, segment)
        self._delivery.clock = self._clock
        self._delivery.take(half, time, seq, ack, flags, data, start, end, missing, frame)
        if connection.end_reason is not None:
            self._forget_later(connection)
            return
        self._go_on(connection, frame)

    def _join(self, segment: Segment, but: Connection | None) -> Half | None:
        """The connection, other than `but`, that a packet belongs to although its scope is new there."""
        key, _, seq, ack, flags, _, start, end, missing, _, mark = segment
        bare = self._halves.get(ends(key))
        half = self._kin.find(key, bare, but, seq, ack, flags, end - start + missing, mark >> 24 & 0xFF)
        if half is not None:
            connection = half.connection
            if len(connection.aliases) == ALIASES:
                self._drop(connection.aliases[0], connection)
            self._halves[key] = half
            connection.aliases = (*connection.aliases, key)[-ALIASES:]
        return half

    def _count_conflicts(self, half: Half, segment: Segment) -> None:
        """Compares what of a packet was handed on already; keep-alives repeat a byte of no value."""
        _, _, seq, _, flags, _, start, end, _, _, _ = segment
        behind = -distance(seq, half.next)
        size = min(end - start, behind)
        if half.seen and size > 0 and not flags & SYN and (end - start > 1 or behind > 1):
            self._delivery.conflict(half, self._recent.conflicts(half, segment, size))

    def _is_new(self, half: Half, seq: int, ack: int, flags: int, size: int) -> bool:
        """Whether a packet on known addresses and ports begins another connection."""
        if not flags & SYN:
            return size > 1 and self._is_replayed(half, seq, size)
        connection, peer = half.connection, half.peer
        age = self._clock - connection.start_clock
        few = half.packets + peer.packets < SYN_PACKETS
        late = few and age < self._caps.reorder_ns
        if half.isn >= 0:
            if seq != half.isn:
                return True
            if age < self._caps.skew_ns and half.time is not None:
                return False  # a second capture point with its own clock
            waiting = half.offset == 0 and not half.finished and connection.end_reason is None
            return not waiting and not late
        if half.seen:
            # Its stream was first seen without a SYN. Is this the SYN of that stream, delayed? The very number before
            # its first byte says so after a silence too.
            ahead = distance(half.next - half.offset, seq + 1)
            return not (few and ahead == 0) and not (late and 0 <= ahead <= SYN_DISTANCE)
        if flags & ACK and peer.isn >= 0:
            # It acknowledges the peer's SYN, and with it perhaps data.
            return not 0 < distance(ack, peer.isn) <= SYN_DISTANCE
        return not late

    def _is_replayed(self, half: Half, seq: int, size: int) -> bool:
        """Whether bytes are the begin of a stream without a SYN over again: the capture holds the connection twice.

        No sender repeats so late what was acknowledged long ago.
        """
        connection, peer = half.connection, half.peer
        return (
            half.seen
            and half.isn < 0
            and half.offset >= size
            and (half.next - half.offset - half.finished) & MASK == seq
            and distance(peer.ack, seq + size) >= 0
            and self._clock - connection.start_clock >= self._caps.reorder_ns
        )

    def _open_at(self, key: bytes, time: int | None, ack: int, flags: int, frame: int) -> Half:
        """Opens a connection at its first packet. Out: the packet's direction."""
        self._make_room(time, frame)
        answer = flags & (SYN | ACK) == SYN | ACK
        other_key = reverse_key(key)
        self._opened += 1
        self._drop_aliases(key)
        connection = Connection(other_key if answer else key, self._opened, self._clock, time, frame)
        first, second = connection.halves
        if flags & SYN:
            connection.syn = 0
        if answer or not flags & SYN:
            connection.opening = connection.skewed = connection.may_wait = True
        if answer:
            first.isn = (ack - 1) & MASK
        first.clock = second.clock = self._clock
        first.handler = second.handler = self._open_connection(connection)
        self._open += 1
        self._halves[connection.key] = first
        self._halves[key if answer else other_key] = second
        self._kin.add(connection)
        self._silent.add(self._clock, connection)
        self._set_deadline()
        return second if answer else first

    def _make_room(self, time: int | None, frame: int) -> None:
        """Closes the longest silent connection if there may be no more."""
        while self._open >= self._caps.connections and self._open:
            connection = self._longest_silent()
            if connection is not None:
                self._counts.hit("connections")
                self._close(connection, time, frame, "cap")

    def _longest_silent(self) -> Connection | None:
        """Takes the timer that is due first; the connection, unless it ended or was heard of since."""
        recorded = self._silent.first
        connection = self._silent.pop()
        if connection.end_reason is not None:
            return None
        last = connection.last
        if last.clock > recorded:
            self._silent.add(last.clock, connection)
            return None
        return connection

    def _close(self, connection: Connection, time: int | None, frame: int, reason: str) -> None:
        self._delivery.clock = self._clock
        self._delivery.close(connection, time, frame, reason)
        self._forget_later(connection)

    def _note_waiting(self, connection: Connection, frame: int) -> None:
        """Notes whether the connection keeps anything back since packet `frame`, or since before."""
        first, second = connection.halves
        if (
            connection.opening
            or connection.reset is not None
            or first.held is not None
            or second.held is not None
        ):
            self._waiting.setdefault(connection.serial, frame)
        else:
            self._waiting.pop(connection.serial, None)

    def _forget_later(self, connection: Connection) -> None:
        """Keeps an ended connection for a while, so that its late packets are not taken for a new one."""
        self._waiting.pop(connection.serial, None)
        self._open -= 1
        self._silent.compact(self._open)
        self._holes.compact(self._open)
        self._skewed.compact(self._open)
        self._ended.append(connection)
        if len(self._ended) > REMEMBERED:
            oldest = self._ended.popleft()
            self._kin.forget(oldest)
            for key in (oldest.key, reverse_key(oldest.key), *oldest.aliases):
                self._drop(key, oldest)

    def _drop_aliases(self, key: bytes) -> None:
        """Before another connection takes the ends: its packets in other scopes are not the old one's."""
        half = self._halves.get(key)
        if half is not None:
            for alias in half.connection.aliases:
                self._drop(alias, half.connection)
            half.connection.aliases = ()

    def _drop(self, key: bytes, connection: Connection) -> None:
        half = self._halves.get(key)
        if half is not None and half.connection is connection:
            del self._halves[key]

    def _watch(self, connection: Connection) -> None:
        """Sets a timer for the connection's oldest hole. It has one at most."""
        first, second = connection.halves
        at = min(self._delivery.deadline(first), self._delivery.deadline(second))
        connection.timed = at < NEVER
        if connection.timed:
            self._holes.add(at, connection)
            self._set_deadline()

    def _linger(self, connection: Connection) -> None:
        connection.may_wait = False
        connection.lingers += 1
        self._lingering.append((self._ticks + LINGER_PACKETS, connection))
        self._set_deadline()

    def _end_lingering(self, connection: Connection, frame: int) -> None:
        connection.lingers -= 1
        if connection.end_reason is None:
            connection.opening = False
            self._delivery.advance(connection)
            self._after_timer(connection, frame)

    def _set_deadline(self) -> None:
        if self._overdue or self._lingering:
            self._deadline = -1
        else:
            idle = self._silent.first + self._caps.idle_timeout_ns
            self._deadline = min(idle, self._holes.first, self._skewed.first)

    def _run_timers(self, time: int | None, frame: int) -> None:
        """Closes what was silent too long, and gives up holes that are too old.

        The clock jumps where a capture is quiet, and packets that a capture delayed come after the jump. So a
        hole that is too old still waits for `Caps.reorder_packets` packets of any connection.
        """
        clock, delivery = self._clock, self._delivery
        delivery.clock = clock
        self._ticks += 1
        while self._holes.first <= clock:
            connection = self._holes.pop()
            connection.timed = False
            if connection.end_reason is not None:
                continue
            if min(delivery.deadline(connection.halves[0]), delivery.deadline(connection.halves[1])) > clock:
                self._watch(connection)
            else:
                connection.timed = True
                self._overdue.append((self._ticks + self._caps.reorder_packets, connection))
        while self._overdue and self._overdue[0][0] <= self._ticks:
            _, connection = self._overdue.popleft()
            connection.timed = False
            if connection.end_reason is None:
                delivery.expire(connection)
                self._after_timer(connection, frame)
        while self._lingering and self._lingering[0][0] <= self._ticks:
            _, connection = self._lingering.popleft()
            if connection.skewed and time is not None:
                self._skewed.add(clock + self._caps.skew_ns, connection)
            else:
                self._end_lingering(connection, frame)
        while self._skewed.first <= clock:
            self._end_lingering(self._skewed.pop(), frame)
        self._close_silent(time, frame)
        self._set_deadline()

    def _after_timer(self, connection: Connection, frame: int) -> None:
        if connection.end_reason is not None:
            self._forget_later(connection)
        elif connection.reset is not None and not connection.may_wait and not connection.lingers:
            self._close(connection, *connection.reset, "reset")
        else:
            self._go_on(connection, frame)

    def _go_on(self, connection: Connection, frame: int) -> None:
        """Sets the timers that an open connection needs behind packet `frame`."""
        if connection.may_wait:
            self._linger(connection)
        if not connection.timed:
            self._watch(connection)
        self._note_waiting(connection, frame)

    def _close_silent(self, time: int | None, frame: int) -> None:
        clock, idle = self._clock, self._caps.idle_timeout_ns
        while self._silent.first + idle <= clock:
            connection = self._longest_silent()
            if connection is not None:
                self._close(connection, time, frame, "idle")
