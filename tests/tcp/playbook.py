"""Plays for the reassembler: packets in, events out."""

from dataclasses import dataclass

from kinspect.model import ACK, FIN, RST, SYN, Caps, Counts, Progress, Segment
from kinspect.tcp import Reassembler

LETTERS = {"S": SYN, "F": FIN, "R": RST, "A": ACK}
ISN = 1000, 5000
MS = 1_000_000
SECOND = 1000 * MS


@dataclass
class Packet:
    """`seq` and `ack` count from the initial numbers: 0 is the SYN, 1 the first byte. `at` is nanoseconds.

    Without a `mark` no packet is a copy of another.
    """

    side: int
    flags: str
    seq: int
    ack: int = 0
    payload: bytes = b""
    missing: int = 0
    at: int | None = None
    port: int = 40000
    isn: tuple[int, int] = ISN
    mark: int | None = None
    scope: bytes = b""

    def segment(self, frame, time):
        ends = [b"\x0a\0\0\x01", b"\x0a\0\0\x02"], [self.port.to_bytes(2, "big"), b"\x23\x84"]
        if self.side:
            ends = [pair[::-1] for pair in ends]
        flags = sum(LETTERS[letter] for letter in self.flags)
        start = frame % 7  # the payload is somewhere in a buffer
        return Segment(
            b"".join(ends[0] + ends[1]) + self.scope,
            time if self.at is None else self.at,
            (self.isn[self.side] + self.seq) % 2**32,
            (self.isn[1 - self.side] + self.ack) % 2**32 if flags & ACK else 0,
            flags,
            b"#" * start + self.payload + b"#",
            start,
            start + len(self.payload),
            self.missing,
            frame,
            frame << 32 if self.mark is None else self.mark,
        )


def a(flags, seq, ack=0, payload=b"", **more):
    """A packet of the side that opens the connection."""
    return Packet(0, flags, seq, ack, payload, **more)


def b(flags, seq, ack=0, payload=b"", **more):
    """A packet of the other side."""
    return Packet(1, flags, seq, ack, payload, **more)


def handshake(**more):
    return [a("S", 0, **more), b("SA", 0, 1, **more), a("A", 1, 1, **more)]


class Recorder:
    """A handler that writes events down, the connection's number in front."""

    def __init__(self, play, connection):
        self.play, self.connection = play, connection
        self.number = len(play.connections)
        self.ended = False

    def write(self, time, frame, *event):
        assert not self.ended, "nothing comes after closed"
        self.play.log.append((self.number, *event))
        self.play.stamps.append((time, frame))

    def data(self, direction, time, frame, buffer, start, end):
        assert start < end
        self.write(time, frame, "data", direction, buffer[start:end])

    def gap(self, direction, time, frame, size, cause):
        assert size > 0
        self.write(time, frame, "gap", direction, size, cause)

    def conflict(self, direction, size):
        assert size > 0

    def repeated(self, direction, start, end):
        assert 0 <= start < end <= self.connection.halves[direction].offset

    def fin(self, direction, time, frame):
        self.write(time, frame, "fin", direction)

    def closed(self, time, frame, reason):
        assert self.connection.end_reason == reason
        self.write(time, frame, "closed", reason)
        self.ended = True


class Play:
    """`log`: the events as they came; `stamps`: the time and frame of each."""

    def __init__(self, packets, caps=None, cuts=None, flush=True, step=MS):
        self.log, self.stamps, self.connections = [], [], []
        self.counts = Counts()
        self.tcp = Reassembler(self.open, caps or Caps(), self.counts, Progress())
        rows = [
            packet.segment(frame, None if step is None else frame * step)
            for frame, packet in enumerate(packets, 1)
        ]
        for start, end in zip([0, *(cuts or [])], [*(cuts or []), len(rows)], strict=True):
            self.tcp.feed(rows[start:end])
        if flush:
            self.tcp.flush()
            self.check_books(rows)
            self.check_ends()

    def check_books(self, rows):
        """Every byte that was fed was handed on, came again, or was ignored."""
        counts = self.counts
        handed_on = sum(len(event[3]) for event in self.log if event[1] == "data")
        dropped = counts.repeated_bytes, counts.conflicting_bytes, counts.ignored_bytes
        assert min(dropped) >= 0
        assert sum(row[7] - row[6] for row in rows) == handed_on + sum(dropped)

    def check_ends(self):
        """Every connection that was opened is closed, and nothing is kept."""
        assert all(connection.end_reason is not None for connection in self.connections)
        assert self.tcp.open_connections == self.tcp._delivery.held_bytes == 0
        assert self.tcp._strays._bytes == 0

    def open(self, connection):
        self.connections.append(connection)
        return Recorder(self, connection)

    @property
    def events(self):
        """Events of the only connection."""
        assert len(self.connections) == 1
        return [event[1:] for event in self.log]

    @property
    def gaps(self):
        """Sizes of the gaps in each direction of the only connection."""
        return tuple([event[2] for event in self.events if event[:2] == ("gap", at)] for at in (0, 1))

    def stream(self, direction, number=1):
        """The bytes of a stream, a gap as so many `?`."""
        parts = [event[3] for event in self.log if event[:3] in self._kinds(direction, number)]
        return b"".join(part if isinstance(part, bytes) else b"?" * part for part in parts)

    @staticmethod
    def _kinds(direction, number):
        return (number, "data", direction), (number, "gap", direction)


def data(direction, payload):
    return "data", direction, payload


def gap(direction, size, cause="capture_loss"):
    return "gap", direction, size, cause


def fin(direction):
    return "fin", direction


def closed(reason):
    return "closed", reason


END = closed("capture_end")
