"""Segments in any order: streams that add up, and each byte where its sequence number puts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kinspect.model import ACK, FIN, RST, SYN, Caps, Counts, Progress, Segment
from kinspect.tcp import Connection, Reassembler

from ..script import Script

FLAGS = (ACK, ACK, SYN, SYN | ACK, FIN | ACK, RST, RST | ACK, FIN)
MS = 1_000_000
DELAYS = (0, 1, 20, 90, 300, 1100, 40_000, 700_000)
START = (0xFFFF_FF80, 5000)
SMALL = Caps(buffered_bytes=200, buffered_segments=6, connections=2, reorder_packets=4, total_bytes=300)

# The first octet of a step.
SIDE, PORT, TIMELESS, OTHER_BYTES, FAR, CUT, COPY = 1, 6, 8, 16, 32, 64, 128


class Step(NamedTuple):
    side: int
    flags: int = ACK
    size: int = 0
    ahead: int = 0
    """By how much the sequence number differs from what is due."""
    acked: int = 0
    missing: int = 0
    delay: int = 1


def write(*steps: Step) -> bytes:
    out = b"\0"
    for step in steps:
        first = step.side | (CUT if step.missing else 0)
        out += bytes((first, FLAGS.index(step.flags), step.ahead & 255, step.acked & 255))
        out += bytes((step.size, step.missing, DELAYS.index(step.delay)))
    return out


class Recorder:
    """Writes events down and checks them: the payload of a byte is its sequence number, modulo 256."""

    def __init__(self, play: Play, connection: Connection) -> None:
        self.play = play
        self.connection = connection
        self.number = len(play.recorders)
        self.due: list[int | None] = [None, None]
        self.bytes = [0, 0]
        self.gap_bytes = [0, 0]
        self.reason: str | None = None

    def write(self, *event: Any) -> None:
        assert self.reason is None, "something came after closed"
        self.play.log.append((self.number, *event))

    def data(
        self, direction: int, time: int | None, frame: int, buffer: bytes, start: int, end: int, /
    ) -> None:
        assert 0 <= start < end <= len(buffer)
        data = buffer[start:end]
        self.write("data", direction, time, frame, data)
        self.bytes[direction] += len(data)
        due = self.due[direction]
        if self.play.faithful:
            # Who goes on behind a FIN may have counted it.
            behind_fin = due is not None and (data[0] - due) & 255 <= self.play.fins
            first = data[0] if due is None or behind_fin else due
            assert data == stream(first, len(data)), "bytes are not where they belong"
            self.due[direction] = (first + len(data)) & 255

    def gap(self, direction: int, time: int | None, frame: int, size: int, cause: str, /) -> None:
        assert size > 0
        assert cause in ("capture_loss", "snaplen")
        self.write("gap", direction, time, frame, size, cause)
        self.gap_bytes[direction] += size
        due = self.due[direction]
        # Nobody knows how many FINs were counted.
        self.due[direction] = None if due is None or self.play.fins else (due + size) & 255

    def conflict(self, direction: int, size: int, /) -> None:
        assert size > 0
        assert self.reason is None, "something came after closed"

    def repeated(self, direction: int, start: int, end: int, /) -> None:
        assert 0 <= start < end <= self.connection.halves[direction].offset
        assert self.reason is None, "something came after closed"

    def fin(self, direction: int, time: int | None, frame: int, /) -> None:
        self.write("fin", direction, time, frame)

    def closed(self, time: int | None, frame: int, reason: str, /) -> None:
        self.write("closed", time, frame, reason)
        assert reason in ("fin", "reset", "idle", "cap", "reuse", "capture_end")
        assert self.connection.end_reason == reason
        self.reason = reason

    def check(self) -> None:
        assert self.reason is not None, "never closed"
        assert self.connection.bytes == tuple(self.bytes)
        assert [half.gap_bytes for half in self.connection.halves] == self.gap_bytes


class Play:
    def __init__(self, segments: list[Segment], caps: Caps, faithful: bool, one_by_one: bool) -> None:
        self.faithful = faithful
        self.fins = sum(segment.flags & FIN for segment in segments)
        self.recorders: list[Recorder] = []
        self.log: list[tuple[Any, ...]] = []
        self.counts = Counts()
        tcp = Reassembler(self.open, caps, self.counts, Progress())
        for part in [[segment] for segment in segments] if one_by_one else [segments]:
            tcp.feed(part)
            assert tcp.open_connections <= caps.connections
        tcp.flush()
        assert tcp.open_connections == 0
        assert tcp._delivery.held_bytes == 0
        for recorder in self.recorders:
            recorder.check()
        counts = self.counts
        dropped = counts.repeated_bytes, counts.conflicting_bytes, counts.ignored_bytes
        assert min(dropped) >= 0
        handed_on = sum(sum(recorder.bytes) for recorder in self.recorders)
        assert sum(row[7] - row[6] for row in segments) == handed_on + sum(dropped), (
            "the books do not balance"
        )

    def open(self, connection: Connection) -> Recorder:
        self.recorders.append(Recorder(self, connection))
        return self.recorders[-1]


def stream(first: int, size: int) -> bytes:
    return bytes((first + index) & 255 for index in range(size))


def script(data: bytes) -> tuple[list[Segment], Caps, bool]:
    """The segments, the limits, and whether every byte has the value that its sequence number gives it."""
    steps = Script(data)
    options = steps.byte()
    due = {port: list(START) for port in range(4)}
    segments: list[Segment] = []
    time = 0
    faithful = True
    while steps.left and len(segments) < 150:
        first, flags = steps.byte(), FLAGS[steps.byte() % len(FLAGS)]
        side, port = first & SIDE, (first & PORT) >> 1
        scale = 1 << 20 if first & FAR else 1
        seq = (due[port][side] + steps.signed() * scale) % 2**32
        ack = (due[port][1 - side] + steps.signed() * scale) % 2**32
        size, missing = steps.byte() & 63, steps.byte() & 31
        missing = missing if first & CUT else 0
        time += DELAYS[steps.byte() % len(DELAYS)] * MS
        payload = stream(seq + bool(flags & SYN) & 255, size)
        if first & OTHER_BYTES and size:
            payload = bytes(byte ^ 0x55 for byte in payload)
            faithful = False
        frame = len(segments) + 1
        ends = [b"\x0a\0\0\x01", b"\x0a\0\0\x02"], [bytes((0x9C, port)), b"\x23\x84"]
        key = b"".join(b"".join(pair[::-1] if side else pair) for pair in ends)
        mark = (frame - 1 if first & COPY else frame) << 32 | 64 << 24
        segments.append(
            Segment(
                key,
                None if first & TIMELESS else time,
                seq,
                ack if flags & ACK else 0,
                flags,
                b"##" + payload + b"#",
                2,
                2 + size,
                missing,
                frame,
                mark,
            )
        )
        behind = (seq + size + missing + bool(flags & (SYN | FIN))) % 2**32
        if (behind - due[port][side]) % 2**32 < 2**31:
            due[port][side] = behind
    return segments, SMALL if options & 1 else Caps(), faithful


def fuzz(data: bytes) -> None:
    segments, caps, faithful = script(data)
    whole = Play(segments, caps, faithful, one_by_one=False)
    parts = Play(segments, caps, faithful, one_by_one=True)
    assert parts.log == whole.log, "streams depend on how segments are handed in"
    assert parts.counts == whole.counts


def seeds() -> Iterator[bytes]:
    hello = [Step(0, SYN), Step(1, SYN | ACK), Step(0)]
    talk = [Step(0, size=20), Step(1, size=30), Step(0, size=10), Step(1), Step(1, size=60), Step(0)]
    bye = [Step(0, FIN | ACK), Step(1, FIN | ACK), Step(0)]
    yield write(*hello, *talk, *bye)
    yield write(*talk)
    yield write(*hello, *talk, Step(0, RST), Step(1, size=9), *hello, *talk)
    yield write(*hello, Step(0, size=9, ahead=30), Step(0, size=30, ahead=-39), Step(1, acked=0), *bye)
    yield write(*hello, Step(0, size=9, ahead=30), Step(1), Step(1), Step(0, size=5, delay=1100), *bye)
    yield write(*hello, Step(0, size=20, missing=9), *talk, Step(1, size=9, delay=700_000))
    yield write(*hello, Step(0, size=20), Step(0, size=20, ahead=-20), Step(0, size=30, ahead=-10), *bye)
    yield write(*talk, *hello, Step(1, RST | ACK), Step(0, size=3), Step(1, FIN), Step(0, FIN))
