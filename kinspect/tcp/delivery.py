"""Delivery of one connection's packets to its handler: order, overlap, gaps, ends. Independent of other connections.

A packet is handed on when every byte before it was (or was given up as a gap), and when every byte of the other
direction that it acknowledges was: packets that the capture has in the wrong order come out in the right one. A gap
that the peer acknowledged is the capture's loss, not the network's: only a packet that the capture delayed can still
fill it, so it is given up `Caps.reorder_packets` packets of the connection, or `Caps.reorder_ns`, after the
acknowledgment. A gap that nobody acknowledged may be retransmitted: it waits `PATIENCE` times as long, by packets only
if no acknowledgment could be seen. Where the two directions were captured with different clocks, a gap waits at least
`Caps.skew_ns`. The end of the connection and the caps on held bytes give up every gap.
"""

from __future__ import annotations

from typing import Final

from kinspect.model import ACK, BEHIND_GAPS, FIN, FULL_SIZED, RST, SYN, Caps, Counts, Segment
from kinspect.tcp.connection import NEVER, Connection, HalfConnection, NullHandler
from kinspect.tcp.reorder import CUT, DATA, FINISH, PIECE_BYTES, RESET, Arrival, HeldSegment
from kinspect.tcp.sequence import MASK, MAX_WINDOW, distance

PATIENCE: Final = 8
# Packets of its island for which a connection waits, since the capture may have packets around its ends in the
# wrong order: before anything is handed on if its first packet was no SYN (the request may come behind its
# response), and before a reset closes it (the data that was answered with the reset may come behind it).
LINGER_PACKETS: Final = 8
# Packets of a connection by which a packet may be late where adjacent packets changed places.
SWAPPED_PACKETS: Final = 4
# Packets that a gap that is too old by the clock still waits for.
LATE_PACKETS: Final = 8
NOBODY: Final = NullHandler()

# Greatest distance of a direction's first packet from the peer's acknowledgment that still shows a loss, rather
# than a peer whose acknowledgments mean nothing.
FIRST_WINDOW: Final = 1 << 24

# A reset is taken if it carries the number its receiver expects (RFC 5961 §3). That lies between what the
# receiver acknowledged and what was sent, or a little beyond if the capture lost the last packets. The
# receiver's window is not used: a reset inside it with another number is challenged, not obeyed.
RESET_SLACK: Final = 0xFFFF


class Delivery:
    """Hands packets on; set `clock` to the island's running time before each call."""

    def __init__(self, caps: Caps, counts: Counts) -> None:
        self.caps = caps
        self.counts = counts
        self.clock = 0
        self.held_bytes = 0

    def take(self, half: HalfConnection, segment: Segment) -> None:
        """Take any packet of an open connection. A SYN must belong to this connection."""
        _, time, seq, ack, flags, data, start, end, missing, frame, _ = segment
        if not (half.connection.opening and _has_ended(half) and _has_ended(half.peer)):
            half.packets += 1  # else it comes behind the end, for which what waits has yet to be handed on
        before, half.clock = half.clock, self.clock
        half.time = time
        half.frame = frame
        if flags & (RST | SYN | ACK) == ACK and half.isn >= 0 and not half.peer.seen:
            self._answered_early(half.connection)
        if flags & RST:
            self.counts.ignored_bytes += end - start
            if self._reset_fits(half, seq, ack, flags):
                self._note_end(half, before)
                self._place_reset(half, seq, ack if flags & ACK else -1)
                self.advance(half.connection)
            return
        wanted = self._acknowledge(half, ack) if flags & ACK else -1
        if flags & SYN:
            half.isn = seq
            half.syns += 1
            seq = (seq + 1) & MASK
            if not half.seen:
                self._begin(half, seq, 0, True)
            elif not half.offset and not half.finished and 0 < distance(half.next, seq) < FIRST_WINDOW:
                self._begin_earlier(half, seq)
        size = end - start + missing
        if not half.seen:
            self._begin(half, seq, size + (flags & FIN), False)
        reach = (seq + size + (flags & FIN)) & MASK
        if 0 < distance(reach, half.far) < MAX_WINDOW:
            half.far = reach
        if flags & FIN:
            self._note_end(half, before)
        if size or flags & FIN:
            ahead = distance(seq, half.next)
            if size > 1 and ahead < 0 and half.peer.ack >= 0 and distance(half.peer.ack, seq) <= 0:
                half.sends_again(seq, size, before - half.peer.clock)
            may_be_first = size > 1 or ahead < -1 or _is_no_keep_alive(half, seq)
            if -FIRST_WINDOW < ahead < 0 and may_be_first and _may_begin_earlier(half):
                self._begin_earlier(half, seq)
                ahead = 0
            if -MAX_WINDOW < ahead < MAX_WINDOW:
                at, arrival = half.offset + half.finished + ahead, self._arrival(half, wanted)
                if size >= FULL_SIZED and half.full_at < 0:
                    half.full_at = at
                self._place(half, at, data[start:end], missing, bool(flags & FIN), arrival)
            else:
                self.counts.ignored_bytes += end - start
        self.advance(half.connection)

    def _note_end(self, half: HalfConnection, before: int) -> None:
        """Note the first FIN or reset. `before`: the clock of the direction's packet before it."""
        connection = half.connection
        if connection.ended is None:
            connection.ended = half.direction, -1 if half.time is None else self.clock - before

    def keeps(self, half: HalfConnection, segment: Segment) -> bool:
        """Keep the next packet of a direction of an opening connection without a gap, as `take` would. Returns False,
        and leaves the packet, if there is more to it than that."""
        _, time, seq, ack, _, data, start, end, _, frame, _ = segment
        held, others, size = half.held, half.peer.held, end - start
        at = half.offset + distance(seq, half.next)
        if (
            half.finished
            or at != (half.offset if held is None else max(held.end, half.offset))
            or (held is not None and held.acked > at)
            or (distance(ack, half.peer.next) > 0 and (others is None or not others.pieces))
            or self._holds_much(half, size)
            or self._holds_too_much(size)
        ):
            return False
        half.packets += 1
        half.clock = self.clock
        half.time = time
        half.frame = frame
        wanted = self._acknowledge(half, ack)
        if size:
            half.far = (seq + size) & MASK
            if size >= FULL_SIZED and half.full_at < 0:
                half.full_at = at
            half.hold().add(at, at + size, DATA, data[start:end], self._arrival(half, wanted))
            self.held_bytes += size + PIECE_BYTES
        return True

    def advance(self, connection: Connection) -> None:
        """Hand on everything that may be handed on now, and give up the gaps that enough packets have passed."""
        first, second = connection.halves
        number = first.packets + second.packets
        while connection.end_reason is None:
            if self._drain(connection):
                continue
            if self._skip_passed(first, number) or self._skip_passed(second, number):
                continue
            if not connection.opening and _next_piece(first) and _next_piece(second):
                # Each acknowledges the other: a retransmission overtook its original, or the numbers are
                # wrong. The order of packets decides.
                self._hand_on(first if _head_number(first) < _head_number(second) else second)
                continue
            break
        self._settle(connection)

    def expire(self, connection: Connection) -> None:
        """Give up the gaps that are too old by the clock."""
        wait = self.caps.reorder_ns
        for half in connection.halves:
            while connection.end_reason is None and self.deadline(half) <= self.clock:
                end = _acknowledged_part(half, NEVER, self.clock - wait // 2)
                self._skip(half, end or _hole_end(half))
                self.advance(connection)

    def is_passed(self, connection: Connection) -> bool:
        """True if enough packets came after the gap that is too old."""
        number = sum(connection.packets)
        return any(
            number - (half.held.acks[0].number if half.held.acks else _head_number(half)) >= LATE_PACKETS
            for half in connection.halves
            if half.held is not None and self.deadline(half) == connection.hole_at
        )

    def deadline(self, half: HalfConnection) -> int:
        """Time at which the gap that a direction waits at is too old by the clock; `NEVER` if there is none."""
        held = half.held
        if held is None or _hole_end(half) < 0:
            return NEVER
        if held.acks:
            return held.acks[0].clock + self.caps.reorder_ns
        return held.pieces[0].arrival.clock + self.caps.reorder_ns * PATIENCE

    def close(self, connection: Connection, time: int | None, frame: int, reason: str) -> None:
        """Hand on everything that waits, with its gaps, and end the connection."""
        first, second = connection.halves
        connection.opening = False
        connection.end_reason = reason
        while True:
            if self._drain(connection):
                continue
            if not self._force(connection) and not (
                self._skip(first, _hole_end(first)) or self._skip(second, _hole_end(second))
            ):
                break
        for half in connection.halves:
            half.calm = False
            self._drop(half)
        if first.finished and second.finished:
            connection.end_reason = reason = "fin"
        elif connection.reset is not None:
            time, frame, _ = connection.reset
            connection.end_reason = reason = "reset"
        first.handler.closed(time, frame, reason)
        first.handler = second.handler = NOBODY

    def _arrival(self, half: HalfConnection, ack: int) -> Arrival:
        return Arrival(half.packets + half.peer.packets, self.clock, half.time, half.frame, ack)

    def _acknowledge(self, half: HalfConnection, ack: int) -> int:
        """Note what `half` acknowledged. Returns `ack` if the packet has to wait for it, else -1."""
        peer = half.peer
        if half.ack < 0 or distance(ack, half.ack) > 0:
            half.ack = ack
        if not peer.seen:
            if peer.next < 0:
                # An answer to its SYN must come.
                peer.far = ack if half.isn < 0 else (ack - 1) & MASK
            elif (
                distance(ack, peer.next) > 0 and self.clock - half.connection.start_clock < self.caps.skew_ns
            ):
                self._reopen(half.connection)
            if peer.next < 0 or distance(ack, peer.next) > 0:
                peer.next = ack
            return ack if half.connection.opening else -1
        ahead = distance(ack, peer.next)
        if peer.finished or not 0 < ahead < MAX_WINDOW:
            # While the connection is opening, the peer's stream may yet begin earlier.
            return ack if half.connection.opening and -FIRST_WINDOW < ahead <= 0 else -1
        self._acknowledged(peer, peer.offset + ahead)
        return ack

    def _acknowledged(self, half: HalfConnection, end: int) -> None:
        """Note that the current packet acknowledges everything before the offset `end`."""
        half.hold().acknowledge(end, half.packets + half.peer.packets, self.clock)

    def _answered_early(self, connection: Connection) -> None:
        """A SYN-ACK was acknowledged before it came: the peer's packets may be late by its clock."""
        if not connection.skewed:
            connection.skewed = True
            self._reopen(connection)

    def _reopen(self, connection: Connection) -> None:
        """Wait as at the connection's beginning: packets before those handed on may come."""
        if not connection.opening:
            connection.opening = connection.may_wait = True
            for half in connection.halves:
                if half.seen and distance(half.next, half.far) > 0:
                    half.far = half.next

    def _begin(self, half: HalfConnection, seq: int, length: int, syn: bool) -> None:
        """Decide where a direction's stream starts, at its first packet.

        The SYN has it, or the acknowledgment of the SYN. Without them it is the first byte seen while the connection
        was opening, or, where the peer was seen before, the first byte that it had not acknowledged. If that one's
        acknowledgments have risen meanwhile, the direction is late, and it begins with what they covered. A single
        byte before it may be a keep-alive.
        """
        known, first = half.next, half.far
        if half.isn >= 0 and 0 <= distance(seq, (half.isn + 1) & MASK) < FIRST_WINDOW:
            seq, syn = (half.isn + 1) & MASK, True
        half.seen = True
        half.next = half.far = seq
        if known < 0:
            return
        behind = distance(known, seq)
        late = distance(known, first) > 0 and distance(seq, first) >= 0
        if 0 < behind < FIRST_WINDOW and (syn or length > 1 or (length and (late or behind > 1))):
            self._acknowledged(half, behind)
            if late:
                self._reopen(half.connection)
        elif not syn and -FIRST_WINDOW < behind < FIRST_WINDOW:
            half.next = known
            half.before = max(0, -behind)

    def _begin_earlier(self, half: HalfConnection, seq: int) -> None:
        """Move a stream's start back: its first packet came after a later one, and nothing was handed on."""
        half.hold().shift(distance(half.next, seq))
        half.next = seq
        acknowledged = distance(half.peer.ack, seq)
        if half.peer.ack >= 0 and acknowledged > 0:
            self._acknowledged(half, acknowledged)

    def _begin_later(self, half: HalfConnection, size: int) -> int:
        """Move a stream's start by `size` bytes that did not come: they were sent before its first packet. Returns the
        size."""
        half.before -= size
        half.next = (half.next + size) & MASK
        held = half.hold()
        held.shift(-size)
        held.forget_acks(half.offset)
        return size

    def _place(
        self, half: HalfConnection, at: int, data: bytes, missing: int, fin: bool, arrival: Arrival
    ) -> None:
        """Insert the new ones of a packet's bytes into the stream at offset `at`."""
        end = at + len(data) + missing
        if half.finished and end > half.offset + (end - at == 1):
            at = self._withdraw_finish(half, at)
        offset = half.offset
        captured = at + len(data)
        end = captured + missing
        before = max(0, min(captured, 0) - at)
        counts = self.counts
        counts.ignored_bytes += before
        if at < offset - 1 or end > offset:
            # Else it is a keep-alive, which repeats one byte on purpose, or nothing.
            again = min(end, offset)
            if again > max(at, 0):
                counts.retransmitted_bytes += again - max(at, 0)
                half.handler.repeated(half.direction, max(at, 0), again)
        if half.finished:
            counts.repeated_bytes += len(data) - before
            return
        counts.repeated_bytes += max(0, min(captured, offset) - at - before)
        held = half.hold()
        if offset < end <= held.acked and arrival.number - held.acks[0].number > SWAPPED_PACKETS:
            # Acknowledged so long before it came that it is not merely out of order.
            half.connection.skewed = True
        before = held.weight
        if captured > offset:
            begin = max(at, offset)
            known = held.conflicting
            known_bytes = held.add(begin, captured, DATA, data[begin - at :], arrival)
            counts.repeated_bytes += known_bytes
            counts.retransmitted_bytes += known_bytes
            self.conflict(half, held.conflicting - known)
        if end > max(captured, offset):
            counts.retransmitted_bytes += held.add(max(captured, offset), end, CUT, b"", arrival)
        if fin and end >= offset:
            held.add_mark(end, FINISH, arrival)
        self.held_bytes += held.weight - before
        if half.connection.opening and (self._holds_much(half) or self._holds_too_much()):
            half.connection.opening = False
        self._drain(half.connection)
        self._keep_caps(half)

    def _place_reset(self, half: HalfConnection, seq: int, ack: int) -> None:
        arrival = self._arrival(half, self._acknowledge(half, ack) if ack >= 0 else -1)
        held = half.hold()
        ahead = max(0, distance(seq, half.next)) if half.seen else 0
        before = held.weight
        held.add_mark(half.offset + ahead, RESET, arrival)
        self.held_bytes += held.weight - before

    def conflict(self, half: HalfConnection, size: int) -> None:
        """Count bytes that came again with another value."""
        if size:
            half.conflicts += size
            self.counts.conflicting_bytes += size
            self.counts.repeated_bytes -= size
            half.handler.conflict(half.direction, size)

    def _reset_fits(self, half: HalfConnection, seq: int, ack: int, flags: int) -> bool:
        peer = half.peer
        if half.next < 0:
            # The answer to a SYN: there is no sequence number to go by, its acknowledgment must fit.
            return bool(flags & ACK) and ack == peer.next
        ahead = distance(seq, half.next)
        if ahead < 0:
            return peer.ack >= 0 and distance(seq, peer.ack) >= 0
        reach = half.offset if half.held is None else max(half.offset, half.held.acked, half.held.end)
        return half.offset + ahead <= reach + RESET_SLACK

    def _drain(self, connection: Connection) -> bool:
        """Hand on the next pieces of the streams that wait for nothing, in the order of their packets. Returns True if
        there were any."""
        first, second = connection.halves
        drained = False
        while not connection.opening:
            one, other = _is_ready(first), _is_ready(second)
            if not one and not other:
                break
            is_first = one and not (other and _head_number(second) < _head_number(first))
            self._hand_on(first if is_first else second)
            drained = True
        return drained

    def _hand_on(self, half: HalfConnection) -> None:
        """Hand on the first waiting piece."""
        held = half.held
        assert held is not None
        piece = held.pop()
        self.held_bytes -= len(piece.data) + PIECE_BYTES
        time, frame = piece.arrival.time, piece.arrival.frame
        if piece.kind == DATA:
            size = len(piece.data)
            reset = half.connection.reset
            if reset is not None and reset[2] == half.direction:
                half.connection.reset = None  # a sender that goes on has not reset the connection
            half.offset += size
            half.next = (half.next + size) & MASK
            half.handler.data(half.direction, time, frame, piece.data, 0, size)
        elif piece.kind == CUT:
            self._gap(half, time, frame, piece.end - piece.start, "snaplen")
        elif piece.kind == FINISH:
            self._finish(half, time, frame)
        else:
            self._reset(half, piece.arrival)

    def _reset(self, half: HalfConnection, arrival: Arrival) -> None:
        """Note a reset. The first one counts; the data it answers may come after it."""
        connection = half.connection
        if connection.reset is None:
            connection.reset = arrival.time, arrival.frame, half.direction
            connection.may_wait = True

    def _finish(self, half: HalfConnection, time: int | None, frame: int) -> None:
        held = half.hold()
        behind = next((piece.start for piece in held.pieces if piece.kind == DATA), -1)
        if behind >= 0:
            # The sender went on.
            if behind > half.offset:
                held.shift(-1)  # the FIN took a number
                half.next = (half.next + 1) & MASK
            return
        for piece in held.pieces:
            if piece.kind == RESET:
                self._reset(half, piece.arrival)
        self._drop(half)
        half.finished = True
        half.next = (half.next + 1) & MASK
        half.handler.fin(half.direction, time, frame)
        if half.peer.finished and half.connection.end_reason is None:
            self.close(half.connection, time, frame, "fin")

    def _withdraw_finish(self, half: HalfConnection, at: int) -> int:
        """Undo a FIN: its sender goes on at offset `at`, counted from the FIN. Returns the offset in the stream."""
        half.finished = False
        if at > half.offset and not half.fin_guessed:
            return at - 1  # the FIN took a number
        half.next = (half.next - 1) & MASK
        return at

    def _drop(self, half: HalfConnection) -> None:
        """Drop everything that waits."""
        if half.held is not None:
            self.held_bytes -= half.held.weight
            self.counts.ignored_bytes += half.held.size
            half.held = None

    def _gap(self, half: HalfConnection, time: int | None, frame: int, size: int, cause: str) -> None:
        half.gap_bytes += size
        half.offset += size
        half.next = (half.next + size) & MASK
        half.handler.gap(half.direction, time, frame, size, cause)

    def _skip(self, half: HalfConnection, end: int) -> bool:
        """Give up the gap before the offset `end`. Returns True if there was one."""
        size, held = end - half.offset, half.held
        if size <= 0 or held is None:
            return False
        if half.before and not half.offset:
            size -= self._begin_later(half, min(half.before, size))
            if not size:
                return True
        told_by = held.pieces[0].arrival if held.pieces else half.peer
        if size == 1 and not held.pieces and held.acked == end:
            # One number acknowledged and nothing behind it: that is how a lost FIN looks.
            half.fin_guessed = True
            self._finish(half, told_by.time, told_by.frame)
        else:
            self._gap(half, told_by.time, told_by.frame, size, "capture_loss")
        return True

    def _skip_passed(self, half: HalfConnection, number: int) -> bool:
        """Give up a gap that enough packets of the connection have passed. Returns True if there was one."""
        held = half.held
        if held is None:
            return False
        held.forget_acks(half.offset)
        end = _hole_end(half)
        if end < 0:
            return False
        limit = self.caps.reorder_packets
        if held.acks and half.offset == 0 and half.isn < 0:
            limit = LINGER_PACKETS  # its peer was seen to acknowledge more before its first packet came
        if held.acks:
            if number - held.acks[0].number < limit or self._may_be_late(half, held.acks[0].clock):
                return False
            end = _acknowledged_part(half, number - limit // 2, NEVER)
        elif half.peer.seen or number - _head_number(half) < limit * PATIENCE:
            return False
        return self._skip(half, end)

    def _may_be_late(self, half: HalfConnection, since: int) -> bool:
        """True if bytes missing since then may still come because the directions have different clocks.

        A packet behind the gap shows that they do not: a direction has one clock. The amount held is limited, so that
        a loss on a fast connection does not hit a cap.
        """
        return (
            half.connection.skewed
            and not (half.held and half.held.pieces)
            and half.time is not None
            and self.clock - since < self.caps.skew_ns
            and not self._holds_much(half)
            and not self._holds_much(half.peer)
        )

    def _holds_much(self, half: HalfConnection, more: int = 0) -> bool:
        """True if a direction holds much, or would with a packet of `more` bytes."""
        held, caps = half.held, self.caps
        return held is not None and (
            held.size + more > caps.buffered_bytes // 4
            or len(held.pieces) + (more > 0) > caps.buffered_segments // 4
        )

    def _keep_caps(self, half: HalfConnection) -> None:
        while half.connection.end_reason is None and (cap := self._cap_hit(half)):
            self.counts.hit(cap)
            self._force(half.connection)
            self._drain(half.connection)

    def _cap_hit(self, half: HalfConnection) -> str:
        """Name of the cap that the held bytes exceed; empty if none."""
        held, caps = half.held, self.caps
        if held is None or not held.pieces:
            return ""
        if held.size > caps.buffered_bytes:
            return "buffered_bytes"
        if len(held.pieces) > caps.buffered_segments:
            return "buffered_segments"
        return "total_bytes" if self._holds_too_much() else ""

    def _holds_too_much(self, more: int = 0) -> bool:
        """True if more waits on all connections than may wait behind gaps, or would with a packet of `more` bytes."""
        return self.held_bytes + more + PIECE_BYTES * (more > 0) > self.caps.total_bytes // BEHIND_GAPS

    def _force(self, connection: Connection) -> bool:
        """Make room: give up the gap that keeps the connection's first waiting piece. Returns False if none waits."""
        halves = [half for half in connection.halves if half.held is not None and half.held.pieces]
        if not halves:
            return False
        half = min(halves, key=_head_number)
        peer = half.peer
        if not self._skip(half, _hole_end(half)) and not self._skip(peer, _hole_end_for(half)):
            self._hand_on(half)
        return True

    def _settle(self, connection: Connection) -> None:
        """Free what waits no more, and determine if packets may again be handed on as they come."""
        if connection.end_reason is not None:
            return
        first, second = connection.halves
        for half in connection.halves:
            held = half.held
            if held is not None and not held.pieces and not held.acks:
                half.held = None
        calm = (
            first.held is None
            and second.held is None
            and not connection.opening
            and connection.reset is None
            and connection.file is None
        )
        first.calm = calm and first.seen and not first.finished and second.next >= 0
        second.calm = calm and second.seen and not second.finished and first.next >= 0


def _hole_end(half: HalfConnection) -> int:
    """Offset at which the stream goes on behind the gap at its current offset; -1 if there is no gap."""
    held = half.held
    if held is None or half.finished:
        return -1
    end = held.pieces[0].start if held.pieces else held.acked
    return end if end > half.offset else -1


def _hole_end_for(half: HalfConnection) -> int:
    """End of the peer's gap for which the first piece of `half` waits: what was acknowledged then; -1 if none."""
    assert half.held is not None
    peer, ack = half.peer, half.held.pieces[0].arrival.ack
    if ack < 0 or not peer.seen:
        return -1
    return min(_hole_end(peer), peer.offset + distance(ack, peer.next))


def _acknowledged_part(half: HalfConnection, number: int, clock: int) -> int:
    """Offset up to which the gap was acknowledged by then; 0 if it was not.

    Bytes lost in one go are acknowledged in parts. Once the first part is given up, those that have waited half as long
    are given up with it.
    """
    held = half.held
    assert held is not None
    end = 0
    for ack in held.acks:
        if ack.number > number or ack.clock > clock:
            break
        end = ack.end
    return min(end, _hole_end(half))


def _blocked(half: HalfConnection, ack: int) -> bool:
    """True if bytes of the peer that `ack` acknowledges have not come."""
    peer = half.peer
    return ack >= 0 and peer.seen and not peer.finished and distance(ack, peer.next) > 0


def _has_ended(half: HalfConnection) -> bool:
    """True if the direction's FIN was seen, and nothing behind it."""
    held = half.held
    return half.finished or (held is not None and bool(held.pieces) and held.pieces[-1].kind == FINISH)


def _may_begin_earlier(half: HalfConnection) -> bool:
    """True while the start of the stream is still a guess."""
    return half.connection.opening and half.isn < 0 and half.offset == 0


def _is_no_keep_alive(half: HalfConnection, seq: int) -> bool:
    """True if the byte before those that came first is data: a keep-alive repeats one that the peer acknowledged."""
    acknowledged = half.peer.ack >= 0 and distance(half.peer.ack, seq) > 0
    return half.held is not None and bool(half.held.pieces) and not acknowledged


def _is_ready(half: HalfConnection) -> bool:
    """True if the next bytes are there and wait for nothing."""
    held = half.held
    if held is None or not held.pieces:
        return False
    piece = held.pieces[0]
    return piece.start == half.offset and not _blocked(half, piece.arrival.ack)


def _next_piece(half: HalfConnection) -> HeldSegment | None:
    """The next bytes if they are there, though they may wait for the peer's."""
    held = half.held
    return (
        held.pieces[0] if held is not None and held.pieces and held.pieces[0].start == half.offset else None
    )


def _head_number(half: HalfConnection) -> int:
    assert half.held is not None
    return half.held.pieces[0].arrival.number
