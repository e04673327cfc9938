"""One direction's bytes to messages: any cut gives the same, a hole costs what it hit."""

from __future__ import annotations

from itertools import accumulate, cycle
from struct import pack

from hypothesis import given
from hypothesis import strategies as st

from kinspect.kafka.connection.framing import HEAD_BYTES, SMALL_BYTES, Framer
from kinspect.kafka.exchange.holdings import Holdings
from kinspect.kafka.wire.message import WireMessage
from kinspect.model import Counts
from kinspect.state import from_bytes, to_bytes

CAP = 1000


def frame(body: bytes) -> bytes:
    return pack(">i", len(body)) + body


class Collected:
    """A framer and what it delivered."""

    def __init__(self, boundary: bytes | None = None, cap: int = CAP) -> None:
        self.messages: list[WireMessage] = []
        self.causes: list[str | None] = []
        self.boundary = boundary
        self.framer = Framer(
            "request", cap, self._deliver, self._locate, lambda _: -1, Holdings(1 << 20, Counts())
        )

    def _deliver(self, message: WireMessage, cause: str | None) -> None:
        self.messages.append(message)
        self.causes.append(cause)

    def _locate(self, data: bytes) -> int | None:
        at = data.find(self.boundary) if self.boundary else -1
        return at - 4 if at >= 4 else None

    def feed(self, *chunks: bytes) -> Collected:
        for number, chunk in enumerate(chunks, 1):
            self.framer.data(number * 10, number, b"<" + chunk + b">", 1, 1 + len(chunk))
        return self

    @property
    def bodies(self) -> list[bytes | None]:
        return [message.raw for message in self.messages]


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_any_cut_gives_the_same_messages(bodies: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(map(frame, bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    collected = Collected().feed(*pieces)
    assert collected.bodies == bodies
    assert all(message.complete for message in collected.messages)
    begins = [*accumulate((len(frame(body)) for body in bodies), initial=0)]
    assert [message.offset for message in collected.messages] == begins[:-1]


LONG = bytes(range(256)) * 40


@given(st.lists(st.integers(1, 3 * SMALL_BYTES), min_size=1, max_size=8), st.integers(0, 20))
def test_long_messages_in_pieces_of_any_size_also_carried(sizes: list[int], carried: int) -> None:
    left, bodies = frame(LONG) + frame(b"next"), []
    collected = Collected(cap=len(LONG))
    for number, size in enumerate(cycle(sizes)):
        if number == carried:
            before, collected = collected, Collected(cap=len(LONG))
            bodies += before.bodies
            collected.framer.restore(from_bytes(to_bytes(before.framer.state())))
        collected.feed(left[:size])
        left = left[size:]
        if not left:
            break
    assert [*bodies, *collected.bodies] == [LONG, b"next"]


@given(st.lists(st.integers(1, 2 * SMALL_BYTES), min_size=1, max_size=4))
def test_room_is_made_by_all_but_the_beginning(sizes: list[int]) -> None:
    collected = Collected(cap=len(LONG))
    left = frame(LONG) + frame(b"next")
    for size in (4, *sizes):
        collected.feed(left[:size])
        left = left[size:]
    collected.framer.make_room(collected.framer)
    collected.feed(left)
    assert collected.bodies == [LONG[: min(sum(sizes), HEAD_BYTES)], b"next"]
    assert collected.causes == ["total", None]


def test_times_and_frames_span_the_packets_of_a_message() -> None:
    collected = Collected().feed(frame(b"first") + frame(b"second")[:5], b"", b"eco", b"nd" + frame(b"third"))
    spans = [(m.first_time, m.last_time, m.first_frame, m.last_frame, m.packets) for m in collected.messages]
    assert spans == [(10, 10, 1, 1, 1), (10, 40, 1, 4, 3), (40, 40, 4, 4, 1)]


def test_the_latest_byte_gives_the_last_time_also_out_of_order() -> None:
    collected = Collected()
    whole = frame(b"abcdef")
    collected.framer.data(50, 5, whole, 0, 6)
    collected.framer.data(40, 4, whole, 6, len(whole))
    (message,) = collected.messages
    assert (message.first_time, message.last_time) == (50, 50)
    assert (message.first_frame, message.last_frame, message.packets) == (4, 5, 2)


def test_a_hole_inside_a_message_costs_that_message_alone() -> None:
    collected = Collected().feed(frame(b"0123456789")[:8])
    collected.framer.gap(3, "capture_loss")
    collected.feed(b"789" + frame(b"next"))
    assert collected.bodies == [b"0123", b"next"]
    assert [message.complete for message in collected.messages] == [False, True]
    assert collected.causes == ["gap", None]


def test_a_hole_to_the_very_end_of_a_message_keeps_the_boundary() -> None:
    collected = Collected().feed(frame(b"0123456789")[:8])
    collected.framer.gap(6, "snaplen")
    collected.feed(frame(b"next"))
    assert collected.bodies == [b"0123", b"next"]
    assert collected.causes == ["snaplen", None]


def test_a_hole_over_a_boundary_sends_the_framer_searching() -> None:
    collected = Collected(boundary=b"next").feed(frame(b"0123456789")[:8])
    collected.framer.gap(30, "capture_loss")
    collected.feed(b"tail of something", frame(b"next") + frame(b"last"))
    assert collected.bodies == [b"0123", b"next", b"last"]
    assert collected.framer.skipped_bytes == len(b"tail of something")
    assert [message.offset for message in collected.messages] == [0, 8 + 30 + 17, 8 + 30 + 17 + 8]


def test_a_negative_size_sends_the_framer_searching() -> None:
    collected = Collected(boundary=b"next").feed(frame(b"one") + b"\xff\xff\xff\xfegarbage" + frame(b"next"))
    assert collected.bodies == [b"one", b"next"]


def test_a_message_over_the_cap_keeps_its_beginning_and_the_boundary() -> None:
    big = bytes(range(256)) * 300
    collected = Collected().feed(frame(big) + frame(b"next"))
    assert collected.bodies == [big[: 64 * 1024], b"next"]
    assert collected.causes == ["cap", None]
    assert collected.messages[0].size == len(big)


def test_what_is_unfinished_at_the_end_is_delivered_incomplete() -> None:
    collected = Collected().feed(frame(b"whole") + frame(b"unfinished")[:9])
    collected.framer.end()
    assert collected.bodies == [b"whole", b"unfin"]
    assert collected.messages[1].complete is False
    assert collected.causes == [None, None]


def test_empty_messages_are_messages() -> None:
    assert Collected().feed(frame(b"") + frame(b"x")).bodies == [b"", b"x"]
