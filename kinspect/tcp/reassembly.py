"""Connection table: assigns packets to connections, and limits the number of open ones.

The results for a connection depend on the packets of its island alone. The run's clock only does early what is due
anyway.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from heapq import heapify, heappop, heappush, nsmallest
from operator import itemgetter
from typing import Any, Final

from kinspect.model import (
    ACK,
    FIN,
    FRAME_BITS,
    FULL_SIZED,
    NS_PER_MS,
    QUOTED,
    RST,
    SYN,
    Caps,
    Counts,
    Progress,
    Segment,
)
from kinspect.tcp import timestamps
from kinspect.tcp.connection import FOREIGN, NEVER, Connection, HalfConnection, Island, StreamHandler
from kinspect.tcp.delivery import LINGER_PACKETS, NOBODY, Delivery
from kinspect.tcp.flowkeys import ends, pair, reverse_key, scope
from kinspect.tcp.lookup import CLOSE, SYN_DISTANCE, find_half, has_nearer, is_near
from kinspect.tcp.recentpackets import LOOKED_AT, RecentPackets
from kinspect.tcp.runclock import LOOK_EACH, RunClock
from kinspect.tcp.sequence import MASK, NEAR, distance
from kinspect.tcp.strays import StrayPacket, Strays, waiting_since
from kinspect.tcp.timestamps import MEASURE_EACH

# An ended connection is remembered for late packets. Limits: time by its island's clock (TIME_WAIT, RFC 9293 §3.6.1,
# is shorter everywhere), number per island, and number in all.
LATE_NS: Final = 60 * 1_000_000_000
REMEMBERED_HERE: Final = 16
REMEMBERED: Final = 4096

# A SYN that comes again belongs to the same connection within its first packets, at most so many, and
# `Caps.reorder_ns`: the capture holds it twice, or out of order. Later it opens a new connection, unless it fits the
# first byte of a stream that was seen without it, within `LATE_NS`.
SYN_PACKETS: Final = 8

# A capture may be quiet for long between packets that it swapped. So a gap that is too old still waits for some
# packets of its connection (`delivery.LATE_PACKETS`), but no longer than this: many times what a capture's buffers hold
# back, and short enough for someone who watches a connection that fell silent live.
GRACE_NS: Final = 5 * 1_000_000_000

# Scopes of a connection that are remembered beside the first; it may be seen in more.
ALIASES: Final = 16

SPECIAL: Final = FIN | SYN | RST | ACK

# Number of the longest silent connections that are looked up at once.
SILENT: Final = 1024

# Number of keys remembered of islands that another reassembler takes.
FOREIGN_KEYS: Final = 65_536


def takes_all(of_pair: bytes) -> bool:
    """True for every island."""
    return True


def _is_syn(flags: int) -> bool:
    """True if a packet opens a connection; a reset never does."""
    return flags & (SYN | RST) == SYN


class Reassembler:
    """Segments of all connections in, each connection's streams to its handler out.

    `open_connection` is called with each new `Connection` and returns the handler of its streams; `takes` selects the
    islands by `keys.pair`. Results depend on the packets alone, not on how they are divided among calls of `feed`.
    """

    def __init__(
        self,
        open_connection: Callable[[Connection], StreamHandler],
        caps: Caps,
        counts: Counts,
        progress: Progress,
        takes: Callable[[bytes], bool] = takes_all,
    ) -> None:
        self._open_connection = open_connection
        self._takes = takes
        self._caps = caps
        self._counts = counts
        self._progress = progress
        self._delivery = Delivery(caps, counts)
        self._halves: dict[bytes, HalfConnection] = {}
        self._islands: dict[bytes, Island] = {}
        self._foreign: list[bytes] = []
        self._recent = RecentPackets(counts, caps.skew_ns, self._halves)
        self._strays = Strays(counts)
        self._run = RunClock(caps.idle_timeout_ns)
        self._until_look = 0
        # Islands by the time at which something is due. Only the entry of an island for which it is `queued` counts.
        self._queue: list[tuple[int, Island]] = []
        self._open = 0
        # The open connections that were silent for longest, by the time of their last packet; all others had one
        # later than `_heard`.
        self._silent: list[tuple[int, int, Connection]] = []
        self._heard = (NEVER, 0)
        self._ended: deque[Connection] = deque()

    @property
    def open_connections(self) -> int:
        """Number of open connections."""
        return self._open

    def handlers(self) -> Iterator[StreamHandler]:
        """The handlers of the open connections."""
        for island in self._islands.values():
            for connection in island.connections:
                if connection.end_reason is None:
                    yield connection.halves[0].handler

    @property
    def reached(self) -> int:
        """Time of the run's clock."""
        return self._run.time

    def feed(self, segments: list[Segment]) -> None:
        """Take segments in capture order. Raises only what a handler raises."""
        halves, progress, recent = self._halves, self._progress, self._recent
        number, links = recent.add(segments)
        reached = self._run.time
        late = at = 0
        while at < len(segments):
            if not self._until_look:
                progress.place = number + at
                self._look(segments[at])
                reached = self._run.time
            stop = min(len(segments), at + self._until_look)
            self._until_look -= stop - at
            for index in range(at, stop):
                segment = segments[index]
                time = segment[1]
                half = halves.get(segment[0])
                if time is not None and time < reached:
                    late += 1
                    if half is not None and half is not FOREIGN:
                        half.island.fall_behind(reached, segment[9])
                if half is FOREIGN:
                    continue
                _, _, seq, ack, flags, data, start, end, missing, frame, _ = segment
                if (
                    half is not None
                    and seq == half.next
                    and half.calm
                    and flags & SPECIAL == ACK
                    and not missing
                    and (start != end or ack != half.ack)
                    and (half.peer.next - ack) & MASK < NEAR
                ):
                    island = half.island
                    clock = island.clock
                    if time is None:
                        clock += 1
                    elif time > clock:
                        clock = time
                    if clock < island.deadline:
                        island.clock = clock
                        links[index] = half.row
                        half.row = number + index
                        half.linked += 1
                        if half.linked == LOOKED_AT:
                            recent.thin(half)
                        half.packets = packets = half.packets + 1
                        if not packets % MEASURE_EACH:
                            timestamps.measure(half, segment)
                        if (ack - half.ack) & MASK < NEAR or half.ack < 0:
                            half.ack = ack
                        half.clock = clock
                        half.time = time
                        half.frame = frame
                        if start != end:
                            size = end - start
                            if size >= FULL_SIZED and half.full_at < 0:
                                half.full_at = half.offset
                            half.next = (seq + size) & MASK
                            half.offset += size
                            progress.place = number + index
                            half.handler.data(half.direction, time, frame, data, start, end)
                        continue
                self._unusual(half, segment, number + index)
            at = stop
        progress.place = number + at
        self._counts.late_packets += late

    def _look(self, segment: Segment) -> None:
        self._until_look = LOOK_EACH
        self._run.look(segment)
        self._do_due()

    def pass_to(self, time: int) -> None:
        """Advance the run's clock to a time, with or without packets."""
        self._run.pass_to(time)
        self._do_due()

    def _do_due(self) -> None:
        """Run the timers that are due by the run's clock, also of islands that get no more packets."""
        reached, queue = self._run.time, self._queue
        if self._run.lent:
            self._lend(self._run.lent)
            self._run.lent = 0
        while queue and queue[0][0] <= reached:
            at, island = heappop(queue)
            if island.queued == at:
                island.queued = NEVER
                self._run_timers(island, reached - island.lent)
                self._set_deadline(island)

    def _lend(self, by: int) -> None:
        """Let the run's clock wait so much longer with the islands that had no packet since it was set forward."""
        for island in self._islands.values():
            if island.clock < self._run.time - by // 2:
                island.lent += by
                island.queued = NEVER
                self._set_deadline(island)

    def closing(self, time: int | None = None, frame: int | None = None) -> Iterator[Connection]:
        """End of the capture: hand on everything held back and close all connections, one for each item taken.

        Connections that hold something back come first, since its packets lie before the end. `time` and `frame` are
        those of the capture's last packet; without them each connection ends with its own last one. Nothing may be fed
        afterwards.
        """
        for island in [*self._islands.values()]:
            if time is not None:
                self._run_timers(island, time - island.lag)
            for stray in island.strays:
                self._strays.discard(stray)
        still_open = [
            connection
            for island in self._islands.values()
            for connection in island.connections
            if connection.end_reason is None
        ]
        for connection in sorted(still_open, key=lambda each: (not each.holds, each.start_frame)):
            last = connection.last
            end = (last.time, last.frame) if frame is None else (time, frame)
            self._close(connection, *end, "capture_end")
            yield connection

    def flush(self, time: int | None = None, frame: int | None = None) -> None:
        """Run `closing` to its end."""
        for _ in self.closing(time, frame):
            pass

    # ------------------------------------------------------------------ state

    def suspend(self) -> Iterator[tuple[Island, list[Any]]]:
        """Each island with its state for `resume`, except for the handlers' state. Nothing may be fed afterwards."""
        for island in self._islands.values():
            connections = [
                [connection.state(), self._keys(connection), [*map(self._recent.rows, connection.halves)]]
                for connection in island.connections
            ]
            strays = [stray.state() for stray in island.strays]
            yield island, [island.pair, island.clock, island.packets, connections, strays]

    def resume(self, state: Sequence[Any], handler: Callable[[Connection, int], StreamHandler]) -> None:
        """Go on with an island. `handler` returns the handler of an open connection, given its index on the island."""
        of_pair, clock, packets, connections, strays = state
        island = self._open_island(of_pair)
        island.clock, island.packets = clock, packets
        self._run.begin_at(clock)
        for number, (of_connection, keys, rows) in enumerate(connections):
            connection = Connection.from_state(of_connection, island)
            island.connections.append(connection)
            for key in keys:
                self._halves[key] = connection.halves[ends(key) != ends(connection.key)]
            for half, of_half in zip(connection.halves, rows, strict=True):
                self._recent.restore(half, [Segment(*row) for row in of_half])
                self._delivery.held_bytes += half.held.weight if half.held is not None else 0
                half.handler = NOBODY
            if connection.end_reason is not None:
                self._ended.append(connection)
                continue
            self._open += 1
            first, second = connection.halves
            first.handler = second.handler = handler(connection, number)
        island.strays = []
        for segment, data, since in strays:
            self._strays.keep(island.strays, StrayPacket(Segment(*segment), data, since))
        self._set_deadline(island)

    def _keys(self, connection: Connection) -> list[bytes]:
        """Keys that lead to the connection."""
        keys = (connection.key, reverse_key(connection.key), *connection.aliases)
        return [key for key in keys if (half := self._halves.get(key)) and half.connection is connection]

    # ------------------------------------------------------------------ packets

    def _unusual(self, half: HalfConnection | None, segment: Segment, number: int) -> None:
        """Take a packet that is not simply the next one of its direction; `number`: its index in the run."""
        if segment[4] & QUOTED:
            if half is not None:
                self._note_error(half, segment)
            return
        if half is not None and half.connection.opening and self._follows_on(half, segment):
            self._recent.link(half, number)
            return
        key = segment[0]
        island = self._island(key) if half is None else half.island
        if island is None:
            return
        self._progress.place = number
        island.see(segment[1])
        island.fall_behind(self._run.time, segment[9])
        if island.clock >= island.deadline:
            if half is not None:
                self._follow_step(half, segment)
            # Timers that are due run as before the packet came: the run's clock may have run them then.
            self._run_timers(island, island.clock)
            for connection in [*island.connections]:
                if connection.linger_packet <= island.packets + 1:
                    self._end_lingering_by_packets(connection)
            if not island.connections:
                # As if the island had been forgotten before: nothing of its past counts any more.
                island = self._open_island(island.pair)
                island.see(segment[1])
            half = self._halves.get(key)
        island.packets += 1
        taker = self._place(island, half, segment)
        if taker is not None:
            self._recent.link(taker, number)
        self._give_up_holes(island)
        if island.connections:
            self._set_deadline(island)
        else:
            self._drop_island(island)

    def _note_error(self, half: HalfConnection, segment: Segment) -> None:
        """Note an ICMP error about a segment of an open connection that it can be of."""
        _, time, seq, mtu, flags, _, _, _, _, frame, _ = segment
        connection = half.connection
        known = half.next if half.seen else half.isn
        silent = time is None or time - connection.last.clock < self._caps.idle_timeout_ns
        if connection.end_reason is None and silent and known >= 0 and abs(distance(seq, known)) < NEAR:
            connection.note_error(flags & ~QUOTED, mtu, time, frame)

    def _follows_on(self, half: HalfConnection, segment: Segment) -> bool:
        """Let a packet wait with the others of a connection that is opening, if there is nothing to find out about it:
        it is simply the next one of its direction, nothing is due, and no other connection is on its ends."""
        connection, island, peer = half.connection, half.island, half.peer
        _, time, seq, ack, flags, _, start, end, missing, _, _ = segment
        clock = island.clock + 1 if time is None else max(time, island.clock)
        if (
            seq != half.far
            or flags & SPECIAL != ACK
            or missing
            or (start == end and ack == half.ack)
            or not (half.seen and peer.seen)
            or (peer.far - ack) & MASK >= NEAR
            or island.packets + 1 >= connection.linger_packet
            or clock >= connection.linger_at
            or connection.hole_at != NEVER
            or connection.file is not None
            or len(island.connections) > 1
            or island.strays
        ):
            return False
        self._delivery.clock = clock
        if not self._delivery.keeps(half, segment):
            return False
        island.clock = clock
        island.packets += 1
        if not half.packets % MEASURE_EACH:
            timestamps.measure(half, segment)
        return True

    def _follow_step(self, half: HalfConnection, segment: Segment) -> None:
        """Go on with the island if only the capture's clock says that it was silent for the idle timeout."""
        by = timestamps.step(half, segment, self._caps.idle_timeout_ns)
        island = half.island
        if by:
            self._run.note_step(island.clock)
            connections = island.set_forward(by, segment[1])
            self._counts.stepped_connections += connections
            self._counts.stepped_ms += connections * round(by / NS_PER_MS)

    def _island(self, key: bytes) -> Island | None:
        """Island of a packet with a new key; None if another reassembler takes it."""
        of_pair = pair(key)
        island = self._islands.get(of_pair)
        if island is not None or self._takes(of_pair):
            return island or self._open_island(of_pair)
        if len(self._foreign) >= FOREIGN_KEYS:
            for known in self._foreign:
                del self._halves[known]
            self._foreign.clear()
        self._foreign.append(key)
        self._halves[key] = FOREIGN
        return None

    def _open_island(self, of_pair: bytes) -> Island:
        island = self._islands[of_pair] = Island(of_pair)
        return island

    def _place(self, island: Island, half: HalfConnection | None, segment: Segment) -> HalfConnection | None:
        """Find or open the connection of a packet, and hand the packet to it. `half`: the direction its key leads to.
        Returns its direction, None if it is a copy or was not taken."""
        taker = self._find(island, half, segment)
        if taker is None and half is not None:
            self._take_stray(island, segment, True)
        elif taker is not None and self._is_copy(taker, segment):
            self._counts.duplicate_packets += 1
            self._counts.repeated_bytes += segment[7] - segment[6]
            taker = None
        elif taker is None or self._is_new(taker, segment):
            taker = self._take_new(island, taker, segment)
        elif taker.connection.end_reason is not None:
            taker = self._take_late(island, taker, segment)
        else:
            taker = self._take(taker, segment)
        return taker

    def _find(self, island: Island, half: HalfConnection | None, segment: Segment) -> HalfConnection | None:
        """Direction that a packet belongs to, if any; the one its key leads to is tried first."""
        _, _, seq, ack, flags, _, _, _, _, frame, _ = segment
        if half is None:
            return self._join(island, segment, None)
        if not flags & SYN and not is_near(half, seq, ack, flags, frame):
            return self._join(island, segment, half.connection)
        nearer = self._join(island, segment, None) if has_nearer(island, half, segment) else None
        return nearer or half

    def _is_copy(self, half: HalfConnection, segment: Segment) -> bool:
        _, _, seq, ack, flags, _, start, end, missing, _, _ = segment
        tells = flags & ACK and distance(ack, half.ack) > 0
        reached = half.has_reached(seq + end - start + missing + (flags & FIN))
        return reached and not tells and self._recent.is_copy(half, segment)

    def _take_new(
        self, island: Island, known: HalfConnection | None, segment: Segment
    ) -> HalfConnection | None:
        """Take a packet that belongs to no connection yet, or opens another one on the ends of `known`."""
        half = None
        if known is not None:
            half = self._join(island, segment, known.connection, open_only=True)
            if half is None and known.connection.end_reason is None:
                self._supersede(known.connection, segment)
        if half is None and segment[4] & RST:
            self._counts.ignored_bytes += segment[7] - segment[6]
            return None
        return self._take(half or self._open_at(island, segment), segment)

    def _take(self, half: HalfConnection, segment: Segment) -> HalfConnection | None:
        connection, island = half.connection, half.island
        if half.scope is None:
            half.scope = scope(segment[0])
            half.hops = segment[10] >> 24 & 0xFF
            timestamps.note(half, segment)
        conflicts = self._conflicts(half, segment)
        if conflicts and connection.file is None and self._conflicts(half, segment, elsewhere=True):
            # Other bytes in the same place, in another file: another connection, on another host.
            connection.file = connection.start_frame >> FRAME_BITS
            for each in connection.halves:
                each.calm = False
            self._take_stray(island, segment, True)
            return None
        self._delivery.clock = island.clock
        self._delivery.conflict(half, conflicts)
        self._delivery.take(half, segment)
        if not half.packets % MEASURE_EACH:
            timestamps.measure(half, segment)
        if connection.end_reason is not None:
            self._remember(connection)
        else:
            self._go_on(connection, island.clock)
            if connection.opening and connection.linger_packet == NEVER and not connection.is_late:
                self._end_lingering(connection, island.clock)
        return half

    def _take_late(self, island: Island, half: HalfConnection, segment: Segment) -> HalfConnection | None:
        """Take a packet that comes after the end of its connection."""
        _, _, seq, ack, flags, _, start, end, _, _, _ = segment
        connection = half.connection
        if flags & ACK and distance(ack, half.ack) > 0:
            half.ack = ack
        if half.next >= 0 and distance(seq + end - start, half.next) <= 0:
            if distance(half.next, seq) <= half.offset + half.finished:
                self._counts.repeated_bytes += end - start
            else:
                self._counts.ignored_bytes += end - start
            return half
        # The receiver of a reset may have sent this before it; a sender of one that goes on did not mean it.
        reset = connection.reset
        crossed = (
            reset is not None
            and reset[2] != half.direction
            and (
                island.clock - connection.last.clock < self._caps.reorder_ns
                or abs(distance(seq, half.next)) < CLOSE
            )
        )
        self._take_stray(island, segment, not flags & RST and not crossed)
        return None

    def _take_stray(self, island: Island, segment: Segment, may_wait: bool) -> None:
        """Take a packet that fits no open connection: with another that agrees it opens one; until then it may wait."""
        if not island.strays:
            island.strays = []
        found = self._strays.agreeing(island.strays, segment)
        if found is None:
            if may_wait and segment[7] > segment[6]:
                self._strays.add(island.strays, segment, island.clock)
            else:
                self._counts.ignored_bytes += segment[7] - segment[6]
            return
        first = self._strays.take(found)
        if first is None:
            self._take(self._open_at(island, segment), segment)
            return
        self._take(self._open_at(island, first), first)
        self._place(island, self._halves.get(segment[0]), segment)

    def _supersede(self, connection: Connection, segment: Segment) -> None:
        """Another connection begins on the same ends. If this one was active just before, both may go on."""
        _, time, seq, _, flags, _, _, _, _, frame, _ = segment
        clock = connection.halves[0].island.clock
        numbers = [half.isn for half in connection.halves]
        silent = clock - connection.last.clock >= self._caps.reorder_ns
        if silent or not _is_syn(flags) or seq in numbers:
            self._close(connection, time, frame, "reuse")
        else:
            connection.superseded = sum(connection.packets), time, frame
            connection.superseded_at = clock + self._caps.reorder_ns

    def _join(
        self, island: Island, segment: Segment, but: Connection | None, open_only: bool = False
    ) -> HalfConnection | None:
        """Direction of a connection other than `but` that a packet belongs to although its key does not lead there."""
        key = segment[0]
        half = find_half(island, segment, but, open_only)
        if half is not None and self._halves.get(key) is not half:
            connection = half.connection
            self._halves[key] = half
            if key not in (connection.key, reverse_key(connection.key)) and key not in connection.aliases:
                if len(connection.aliases) == ALIASES:
                    self._drop(connection.aliases[0], connection)
                connection.aliases = (*connection.aliases, key)[-ALIASES:]
        return half

    def _conflicts(self, half: HalfConnection, segment: Segment, elsewhere: bool = False) -> int:
        """Number of a packet's bytes that were handed on with another value; keep-alives, which repeat a byte of no
        value, are left out."""
        _, _, seq, _, flags, _, start, end, _, _, _ = segment
        behind = distance((half.next - half.finished) & MASK, seq)
        size = min(end - start, behind)
        in_stream = half.seen and behind <= half.offset
        if in_stream and size > 0 and not flags & (SYN | RST) and (end - start > 1 or behind > 1):
            return self._recent.conflicts(half, segment, size, elsewhere)
        return 0

    def _is_new(self, half: HalfConnection, segment: Segment) -> bool:
        """True if a packet on known addresses and ports opens another connection."""
        _, _, seq, ack, flags, _, start, end, _, _, _ = segment
        if not _is_syn(flags):
            return end - start > 1 and self._is_replayed(half, seq, end - start)
        connection, peer = half.connection, half.peer
        age = half.island.clock - connection.start_clock
        few = half.packets + peer.packets < SYN_PACKETS
        late = few and age < self._caps.reorder_ns
        if half.isn >= 0:
            if seq != half.isn:
                return True
            elsewhere = segment[9] >> FRAME_BITS != connection.start_frame >> FRAME_BITS
            if elsewhere or (age < self._caps.skew_ns and half.time is not None):
                return False  # a second capture point with its own clock
            waiting = half.offset == 0 and not half.finished and connection.end_reason is None
            return not waiting and not late
        if half.seen:
            # The number just before the first byte of a stream seen without a SYN shows that SYN, though late.
            ahead = distance(half.next - half.offset, seq + 1)
            fits = ahead == 0 and (few or age < LATE_NS)
            return not fits and not (late and 0 <= ahead <= SYN_DISTANCE)
        if flags & ACK and peer.isn >= 0:
            # It acknowledges the peer's SYN, and with it perhaps data.
            return not 0 < distance(ack, peer.isn) <= SYN_DISTANCE
        return not late

    def _is_replayed(self, half: HalfConnection, seq: int, size: int) -> bool:
        """True if the bytes are the start of a stream without a SYN again: the capture holds the connection twice.

        No sender retransmits so late what was acknowledged long ago.
        """
        connection, peer = half.connection, half.peer
        return (
            half.seen
            and half.isn < 0
            and half.offset >= size
            and (half.next - half.offset - half.finished) & MASK == seq
            and distance(peer.ack, seq + size) >= 0
            and half.island.clock - connection.start_clock >= self._caps.reorder_ns
        )

    # ------------------------------------------------------------------ begin and end

    def _open_at(self, island: Island, segment: Segment) -> HalfConnection:
        """Open a connection at its first packet. Returns the packet's direction."""
        key, time, _, ack, flags, _, _, _, _, frame, _ = segment
        self._make_room(time, frame)
        answer = flags & (SYN | ACK) == SYN | ACK
        other_key = reverse_key(key)
        self._drop_aliases(key)
        connection = Connection(other_key if answer else key, island, time, frame)
        first, second = connection.halves
        if flags & SYN:
            connection.syn = 0
        if answer or not flags & SYN:
            connection.opening = connection.skewed = connection.may_wait = True
        if answer:
            first.isn = (ack - 1) & MASK
        first.handler = second.handler = self._open_connection(connection)
        self._open += 1
        self._halves[connection.key] = first
        self._halves[key if answer else other_key] = second
        if any(other.file is not None for other in island.connections):
            connection.file = frame >> FRAME_BITS
        island.connections.append(connection)
        self._note_silent(connection)
        return second if answer else first

    def _make_room(self, time: int | None, frame: int) -> None:
        """Close the connection that was silent for longest while there are as many as allowed."""
        while self._open >= self._caps.connections and self._open:
            connection = self._longest_silent()
            if connection is not None:
                self._counts.hit("connections")
                self._close(connection, time, frame, "cap")
                self._set_deadline(connection.halves[0].island)

    def _longest_silent(self) -> Connection | None:
        """Take the first candidate of the silent connections; None if it ended or had packets since."""
        silent = self._silent
        if not silent:
            still_open = (
                (connection.last.clock, connection.start_frame, connection)
                for island in self._islands.values()
                for connection in island.connections
                if connection.end_reason is None
            )
            # A sorted list is a valid heap.
            silent += nsmallest(SILENT, still_open, key=itemgetter(0, 1))
            self._heard = silent[-1][:2]
        recorded, _, connection = heappop(silent)
        if connection.end_reason is not None:
            return None
        if connection.last.clock > recorded:
            self._note_silent(connection)
            return None
        return connection

    def _note_silent(self, connection: Connection) -> None:
        last, frame = connection.last.clock, connection.start_frame
        if self._silent and (last, frame) < self._heard:
            heappush(self._silent, (last, frame, connection))

    def _close(self, connection: Connection, time: int | None, frame: int, reason: str) -> None:
        if reason == "capture_end" and connection.is_superseded:
            assert connection.superseded is not None
            _, time, frame = connection.superseded
            reason = "reuse"
        self._delivery.close(connection, time, frame, reason)
        self._remember(connection)

    def _remember(self, connection: Connection) -> None:
        """Keep an ended connection for a while, so that late packets do not open a new one."""
        self._open -= 1
        connection.hole_at = connection.linger_at = connection.linger_packet = connection.superseded_at = (
            NEVER
        )
        island = connection.halves[0].island
        ended = [each for each in island.connections if each.end_reason is not None]
        if len(ended) > REMEMBERED_HERE:
            self._forget(ended[0])
        self._ended.append(connection)
        while len(self._ended) > REMEMBERED:
            oldest = self._ended.popleft()
            if oldest in oldest.halves[0].island.connections:
                self._counts.hit("ended_connections")
                self._forget(oldest)

    def _forget(self, connection: Connection) -> None:
        island = connection.halves[0].island
        island.connections.remove(connection)
        for key in (connection.key, reverse_key(connection.key), *connection.aliases):
            self._drop(key, connection)
        for half in connection.halves:
            self._recent.forget(half)
        if not island.connections:
            self._drop_island(island)

    def _drop_island(self, island: Island) -> None:
        if self._islands.get(island.pair) is island:
            del self._islands[island.pair]
        island.queued = NEVER
        for stray in island.strays:
            self._strays.discard(stray)

    def _drop_aliases(self, key: bytes) -> None:
        """Forget aliases before another connection takes the ends: packets in those scopes are not the old one's."""
        half = self._halves.get(key)
        if half is not None:
            for alias in half.connection.aliases:
                self._drop(alias, half.connection)
            half.connection.aliases = ()

    def _drop(self, key: bytes, connection: Connection) -> None:
        half = self._halves.get(key)
        if half is not None and half.connection is connection:
            del self._halves[key]

    # ------------------------------------------------------------------ timers

    def _go_on(self, connection: Connection, now: int) -> None:
        """Reset the timers of an open connection, as of `now`."""
        if connection.may_wait:
            connection.may_wait = False
            connection.linger_packet = connection.halves[0].island.packets + LINGER_PACKETS
            connection.linger_at = now + self._caps.reorder_ns
        connection.hole_at = min(map(self._delivery.deadline, connection.halves))

    def _set_deadline(self, island: Island) -> None:
        """Set the next due time of an island: for its own packets, and in the run's queue, where a gap may wait
        `GRACE_NS` longer."""
        due = hole = NEVER
        lingers = False
        for connection in island.connections:
            due = min(due, self._timer_of(connection))
            hole = min(hole, connection.hole_at)
            lingers = lingers or connection.linger_packet != NEVER
        since = waiting_since(island.strays)
        if since is not None:
            due = min(due, since + self._caps.reorder_ns)
        island.deadline = -1 if lingers else min(due, hole)
        due = min(due, hole + GRACE_NS) + island.lent
        if due < island.queued:
            heappush(self._queue, (due, island))
            island.queued = due
            if len(self._queue) > 2 * len(self._islands) + 1024:
                self._queue = [entry for entry in self._queue if entry[1].queued == entry[0]]
                heapify(self._queue)

    def _timer_of(self, connection: Connection) -> int:
        """Time at which something is due on a connection, its gaps left aside."""
        silence = self._caps.idle_timeout_ns if connection.end_reason is None else LATE_NS
        return min(connection.linger_at, connection.superseded_at, connection.last.clock + silence)

    def _due_of(self, connection: Connection) -> int:
        """Time at which something is due on a connection by the run's clock."""
        return min(self._timer_of(connection), connection.hole_at + GRACE_NS)

    def _give_up_holes(self, island: Island) -> None:
        """Give up the gaps that are too old by the island's clock and that enough packets have passed."""
        for connection in [*island.connections]:
            if connection.hole_at <= island.clock and self._delivery.is_passed(connection):
                self._expire(connection, island.clock)

    def _expire(self, connection: Connection, now: int) -> None:
        self._delivery.clock = connection.hole_at
        self._delivery.expire(connection)
        self._after_timer(connection, now)

    def _run_timers(self, island: Island, now: int) -> None:
        """Run all timers due by `now`, in order of time, no matter which clock `now` is from."""
        while island.connections:
            due = [self._due_of(connection) for connection in island.connections]
            at = min(due)
            if at > now:
                break
            self._do(island.connections[due.index(at)], at)
        since = waiting_since(island.strays)
        while since is not None and since + self._caps.reorder_ns <= now:
            self._strays.discard(next(stray for stray in island.strays if stray.data is not None))
            since = waiting_since(island.strays)

    def _do(self, connection: Connection, at: int) -> None:
        """Run the connection's first due timer."""
        last = connection.last
        if connection.end_reason is not None:
            self._forget(connection)
        elif connection.hole_at + GRACE_NS == at:
            self._expire(connection, at)
        elif connection.linger_at == at:
            self._end_lingering(connection, at)
        elif connection.superseded_at == at:
            connection.superseded_at = NEVER
            if connection.is_superseded:
                assert connection.superseded is not None
                self._close(connection, *connection.superseded[1:], "reuse")
        else:
            idle = self._caps.idle_timeout_ns
            self._close(connection, None if last.time is None else last.time + idle, last.frame, "idle")

    def _end_lingering_by_packets(self, connection: Connection) -> None:
        """End lingering after enough packets; a connection with two clocks waits for the other clock as well, at its
        beginning only while a direction is late."""
        connection.linger_packet = NEVER
        last = connection.last
        waits = connection.is_late if connection.opening else connection.skewed
        if waits and last.time is not None:
            island = last.island
            connection.linger_at = min(connection.linger_at, island.clock + self._caps.skew_ns)
        else:
            self._end_lingering(connection, last.island.clock)

    def _end_lingering(self, connection: Connection, now: int) -> None:
        connection.linger_at = connection.linger_packet = NEVER
        connection.opening = False
        self._delivery.clock = now
        self._delivery.advance(connection)
        self._after_timer(connection, now)

    def _after_timer(self, connection: Connection, now: int) -> None:
        if connection.end_reason is not None:
            self._remember(connection)
        elif connection.reset is not None and not connection.may_wait and not connection.lingers:
            reset_time, reset_frame, _ = connection.reset
            self._close(connection, reset_time, reset_frame, "reset")
        else:
            self._go_on(connection, now)
