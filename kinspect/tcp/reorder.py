"""Packets that one direction of a connection holds back: behind a gap, or ahead of what they answer."""

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, ClassVar, Final

from kinspect.state import fields, fill

DATA: Final = 0
CUT: Final = 1
FINISH: Final = 2
RESET: Final = 3
# Approximate overhead of a piece beside its bytes.
PIECE_BYTES: Final = 400


# Classes, and no named tuples: compiled code makes those through an interpreted `__new__`, at ten times the price.
class Arrival:
    """Arrival of a packet: its number on the connection, the running clock, its own time and frame.

    `ack` is the acknowledgment that must be satisfied before the packet may be handed on, or -1.
    """

    __slots__ = ("ack", "clock", "frame", "number", "time")

    def __init__(self, number: int, clock: int, time: int | None, frame: int, ack: int) -> None:
        self.number = number
        self.clock = clock
        self.time = time
        self.frame = frame
        self.ack = ack

    def state(self) -> list[Any]:
        """Arguments that make it again."""
        return [self.number, self.clock, self.time, self.frame, self.ack]


class HeldSegment:
    """Waiting bytes of one packet.

    `start` and `end` are offsets in the stream of the direction. `kind`: `DATA` with its bytes, `CUT` (bytes that the
    snap length cut off), `FINISH` or `RESET` (no bytes).
    """

    __slots__ = ("arrival", "data", "end", "kind", "start")

    def __init__(self, start: int, end: int, kind: int, data: bytes, arrival: Arrival) -> None:
        self.start = start
        self.end = end
        self.kind = kind
        self.data = data
        self.arrival = arrival

    def state(self) -> list[Any]:
        """Arguments that make it again, the arrival's in place of the arrival."""
        return [self.start, self.end, self.kind, self.data, self.arrival.state()]


class Acknowledged:
    """Acknowledgment by the peer of everything before `end`: its packet's number on the connection, and its time."""

    __slots__ = ("clock", "end", "number")

    def __init__(self, end: int, number: int, clock: int) -> None:
        self.end = end
        self.number = number
        self.clock = clock

    def state(self) -> list[int]:
        """Arguments that make it again."""
        return [self.end, self.number, self.clock]


_START: Final = attrgetter("start")


class HeldSegments:
    """The waiting pieces of one direction, in stream order and without overlap.

    `acks` are the peer's acknowledgments of bytes not yet handed on, rising. `conflicting` counts bytes that came again
    with another value.
    """

    STATE: ClassVar = ("conflicting", "size")
    __slots__ = (*STATE, "acks", "pieces")

    def __init__(self) -> None:
        self.pieces: list[HeldSegment] = []
        self.size = 0
        self.conflicting = 0
        self.acks: list[Acknowledged] = []

    def state(self) -> list[Any]:
        """State for `from_state`."""
        acks, pieces = [ack.state() for ack in self.acks], [piece.state() for piece in self.pieces]
        return [*fields(self, self.STATE), acks, pieces]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> "HeldSegments":
        held = cls()
        *plain, acks, pieces = state
        fill(held, cls.STATE, plain)
        held.acks = [Acknowledged(*ack) for ack in acks]
        held.pieces = [
            HeldSegment(start, end, kind, data, Arrival(*arrival))
            for start, end, kind, data, arrival in pieces
        ]
        return held

    @property
    def acked(self) -> int:
        """Offset before which everything was acknowledged; 0 if that is nothing new."""
        return self.acks[-1].end if self.acks else 0

    @property
    def end(self) -> int:
        """End of the last piece; 0 if none waits."""
        return self.pieces[-1].end if self.pieces else 0

    @property
    def weight(self) -> int:
        """Approximate memory that the pieces take, in bytes."""
        return self.size + PIECE_BYTES * len(self.pieces)

    def acknowledge(self, end: int, number: int, clock: int) -> None:
        """Note that the connection's packet `number` acknowledged everything before `end`, unless another one did."""
        if end > self.acked:
            self.acks.append(Acknowledged(end, number, clock))

    def forget_acks(self, offset: int) -> None:
        """Drop acknowledgments that cover nothing behind `offset`."""
        while self.acks and self.acks[0].end <= offset:
            del self.acks[0]

    def add(self, start: int, end: int, kind: int, data: bytes, arrival: Arrival) -> int:
        """Keep those bytes from `start` to `end` that are not held already (the first seen win).

        Returns the number of bytes that were held already. `conflicting` counts those with another value.
        """
        pieces = self.pieces
        origin = start
        repeated = 0
        at = bisect_left(pieces, start + 1, key=_START)
        if at and pieces[at - 1].end > start:
            at -= 1
        while start < end:
            stop = min(end, pieces[at].start) if at < len(pieces) else end
            if start < stop:
                part = data[start - origin : stop - origin]
                pieces.insert(at, HeldSegment(start, stop, kind, part, arrival))
                self.size += len(part)
                at += 1
                start = stop
            if start < end:
                stop = min(end, pieces[at].end)
                repeated += self._compare(pieces[at], origin, start, stop, data)
                start = stop
                at += 1
        return repeated

    def _compare(self, piece: HeldSegment, origin: int, start: int, stop: int, data: bytes) -> int:
        """Count in `conflicting` the bytes from `start` to `stop` that differ from the held ones; `data` begins at
        `origin`. Returns their number, equal or not."""
        if piece.data and data:
            held = piece.data[start - piece.start : stop - piece.start]
            self.conflicting += differing(held, data[start - origin : stop - origin])
        return stop - start

    def add_mark(self, at: int, kind: int, arrival: Arrival) -> None:
        """Keep a `FINISH` or `RESET` before the byte at offset `at`, or behind the piece that holds that byte; a
        repeated mark is dropped."""
        pieces = self.pieces
        place = bisect_left(pieces, at, key=_START)
        if place and pieces[place - 1].end > at:
            at = pieces[place - 1].end
            place = bisect_left(pieces, at, key=_START)
        # Before the bytes that begin here, or a repeated mark would not be found among them.
        while place < len(pieces) and pieces[place].end == at:
            if pieces[place].kind == kind:
                return
            place += 1
        pieces.insert(place, HeldSegment(at, at, kind, b"", arrival))

    def shift(self, size: int) -> None:
        """Increase all offsets by `size`: the stream begins that much earlier."""
        for piece in self.pieces:
            piece.start += size
            piece.end += size
        for ack in self.acks:
            ack.end += size

    def set_forward(self, by: int) -> None:
        """Increase all times of the running clock."""
        # The pieces of one packet share its arrival.
        for arrival in {id(piece.arrival): piece.arrival for piece in self.pieces}.values():
            arrival.clock += by
        for ack in self.acks:
            ack.clock += by

    def pop(self) -> HeldSegment:
        """Remove and return the first piece."""
        piece = self.pieces.pop(0)
        self.size -= len(piece.data)
        return piece


def differing(one: bytes | bytearray, other: bytes | bytearray) -> int:
    """Number of positions at which two byte strings of equal length differ."""
    return 0 if one == other else sum(a != b for a, b in zip(one, other, strict=True))
