"""One direction of a connection cut into messages by their 4-byte size (Kafka protocol guide, "Common Structure").

A framer keeps the pieces of a message until it is whole, joins them once, and knows the next boundary even if bytes
in between were lost: a gap inside a message costs only that message. If a boundary itself was lost, or a size is
impossible, the framer is desynchronised, and its owner has to find the next message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, ClassVar, Final

from kinspect.kafka.exchange.holdings import PIECE_BYTES, Holdings
from kinspect.kafka.wire.message import WireMessage
from kinspect.state import fields, fill

SIZE_BYTES: Final = 4
_size_at: Final = Struct(">i").unpack_from
# Bytes kept of a message too large to be held whole: enough for the header and the topics before the records.
PREFIX_BYTES: Final = 64 * 1024
# Bytes of a stream without a known boundary that are searched at a time.
SEARCH_BYTES: Final = 1024 * 1024
# Bytes held of it where a message may begin in them that is not all there.
SEARCH_MOST_BYTES: Final = 8 * 1024 * 1024
# Held bytes above which such a stream is searched each time it has grown by an eighth, not at every packet.
SEARCH_EACH_BYTES: Final = 64 * 1024
# Number of times the boundary may be lost again in held data before the search waits for more of the stream.
RESUMES: Final = 64
# Number of searches for requests, of a stream whose boundary was lost once, because an answer without one came.
LOOKS_FOR_ANSWERED: Final = 16
# Bytes kept of an unfinished message when room is made: enough for its header, in most cases.
HEAD_BYTES: Final = 256

# Pieces below this size are joined as they come: a long message in many small packets takes little more memory than its
# bytes.
SMALL_BYTES: Final = 1024

Received = tuple[int | None, int, bytes]


class Framer:
    """Cuts one direction into `WireMessage`s.

    `offset` counts the stream's bytes, including missing ones. Captured bytes are in a message (`message_bytes`, with
    its size), in none (`skipped_bytes`), in one that the stream's end cut off (`unfinished_bytes`), or still held.
    `longest` is the size of the longest message that is held whole; `first_size` the first size of the stream if no
    message has it; `unannounced` the owner's mark for a stream seen
    from its middle. `deliver(message, cause)` takes each message; `cause` is the reason why bytes of it are missing
    (`gap`, `snaplen`, `cap`, `total`, or None for the end of the stream). `locate(data)` finds the offset of the next
    message in a desynchronised stream, or returns None; `begins(data)` the first place where one may begin that is not
    all there, -1 for none. Held bytes are counted in `holdings`.
    """

    STATE: ClassVar = """
        first_size longest message_bytes offset skipped_bytes unannounced unfinished_bytes _cause _counted _delivered
        _first_frame _first_time _have _keep _last_frame _last_time _looks _missing _packets _search_at _search_bytes
        _search_most _searched _searching _size _start
    """.split()
    __slots__ = STATE + "_desynchronised _holdings _kept _pieces begins deliver direction locate".split()

    def __init__(
        self,
        direction: str,
        longest: int,
        deliver: Callable[[WireMessage, str | None], None],
        locate: Callable[[bytes], int | None],
        begins: Callable[[bytes], int],
        holdings: Holdings,
    ) -> None:
        self.direction = direction
        self.longest = longest
        self.deliver = deliver
        self.locate = locate
        self.begins = begins
        self.first_size = 0
        self.message_bytes = 0
        self.skipped_bytes = 0
        self.unfinished_bytes = 0
        self.offset = 0
        self.unannounced = False
        self._holdings = holdings
        self._desynchronised: list[Received] | None = None
        self._search_bytes = self._searched = 0
        self._looks = 0
        self._searching = False
        self._search_at = 0  # bytes that must be held before the next search
        self._search_most = SEARCH_BYTES  # bytes that may be held
        self._delivered = 0  # captured bytes of the last incomplete message; 0 if it has no end
        self._reset()

    def _reset(self) -> None:
        """Hold nothing, and read a size next."""
        self._holdings.release(self)
        self._size = -1  # unknown: the size itself is being read
        self._keep = SIZE_BYTES  # bytes to keep of the size or message being read
        self._have = 0  # bytes of it seen or skipped, kept or not
        self._missing = 0  # those of them that are missing
        self._counted = 0  # kept bytes that are counted in the holdings
        self._pieces: list[bytes] = []  # its kept bytes
        self._kept = 0  # number of them
        self._packets = 0
        self._start = 0  # its offset in the stream
        self._cause: str | None = None
        self._first_time: int | None = None
        self._last_time: int | None = None
        self._first_frame = 0
        self._last_frame = 0

    def state(self) -> list[Any]:
        """State for `restore`, as plain values."""
        return [fields(self, self.STATE), b"".join(self._pieces), self._desynchronised]

    def restore(self, state: Sequence[Any]) -> None:
        """Continue the stream of `state`."""
        own, kept, desynchronised = state
        fill(self, self.STATE, own)
        if not isinstance(kept, bytes):
            raise TypeError("the kept bytes of a message are no bytes")
        self._pieces = [kept]
        self._kept = len(kept)
        self._desynchronised = None if desynchronised is None else [*desynchronised]
        held = self._counted + sum(len(data) + PIECE_BYTES for _, _, data in self._desynchronised or ())
        if held:
            self._holdings.hold(self, self, held)

    @property
    def desynchronised(self) -> bool:
        """True if the next message boundary is not known."""
        return self._desynchronised is not None

    @property
    def unfinished(self) -> bool:
        """True if the incomplete message that is delivered now has no end: the stream ended within it."""
        return not self._delivered

    def drift(self) -> None:
        """Forget the boundary: the stream begins, or goes on, at an unknown place."""
        self._desynchronised = []
        self._search_bytes = self._searched = 0
        self._search_at = 0
        self._search_most = SEARCH_BYTES
        self._looks = 0

    def pass_over(self, size: int, missing: int) -> None:
        """Count bytes before the stream's first ones, which were not taken, and bytes that were missing."""
        self.offset += size + missing
        self.skipped_bytes += size
        self.unannounced = True

    def data(self, time: int | None, frame: int, buffer: bytes, start: int, end: int) -> None:
        """Take `buffer[start:end]`, the next bytes of the stream, delivered by packet `frame` at `time`."""
        self.offset += end - start
        if self._desynchronised is not None:
            self._hold(time, frame, buffer[start:end])
            return
        if self._size >= 0:
            have = self._have + end - start
            if self._have < have < self._size == self._keep and end - start >= SMALL_BYTES:
                # A packet in the middle of a long message that is kept whole.
                self._have = self._kept = have
                self._pieces.append(buffer[start:end])
                self._touch(time, frame)
                uncounted = have - self._counted
                if uncounted > self._counted >> 3:
                    self._counted = have
                    self._holdings.hold(self, self, uncounted)
                return
        elif not self._have and end - start >= SIZE_BYTES:
            size: int = _size_at(buffer, start)[0]
            begin = start + SIZE_BYTES
            if begin + size == end and size <= self.longest:
                # A packet with exactly one message, as most small packets are.
                self.message_bytes += end - start
                at = self.offset - size - SIZE_BYTES
                self.deliver(
                    WireMessage(
                        self.direction, buffer[begin:end], size, 0, time, time, frame, frame, 1, True, at
                    ),
                    None,
                )
                return
        self._cut(time, frame, buffer, start, end)

    def _cut(self, time: int | None, frame: int, buffer: bytes, start: int, end: int) -> None:
        position = start
        while position < end:
            if self._size < 0 and not self._have:
                self._first_time = self._last_time = time
                self._first_frame = self._last_frame = frame
                self._packets = 1
                self._start = self.offset - (end - position)
                if end - position >= SIZE_BYTES:
                    size: int = _size_at(buffer, position)[0]
                    stop = position + SIZE_BYTES + size
                    if 0 <= size <= self.longest and stop <= end:
                        raw = buffer[position + SIZE_BYTES : stop]
                        self.message_bytes += stop - position
                        position = stop
                        self.deliver(self._message(raw, size, True), None)
                        if self.desynchronised:
                            self._hold(time, frame, buffer[position:end])
                            return
                        continue
            else:
                self._touch(time, frame)
            position = self._take(buffer, position, end)
            if self.desynchronised:
                self._hold(time, frame, buffer[position:end])
                return

    def _touch(self, time: int | None, frame: int) -> None:
        """Note the time and frame of a packet with a part of the current message."""
        if frame == self._last_frame:
            return
        self._packets += 1
        if frame > self._last_frame:
            self._last_frame = frame
        elif frame < self._first_frame:
            self._first_frame = frame
        if time is not None and (self._last_time is None or time > self._last_time):
            self._last_time = time

    def _take(self, buffer: bytes, position: int, end: int) -> int:
        """Take bytes of the current size or message; returns the position after them."""
        if self._size < 0:
            stop = min(end, position + SIZE_BYTES - self._have)
            self._pieces.append(buffer[position:stop])
            self._have += stop - position
            self._kept = self._have
            if self._have == SIZE_BYTES:
                self._begin(_size_at(b"".join(self._pieces))[0])
            return stop
        stop = min(end, position + self._size - self._have)
        self._have += stop - position
        if self._kept < self._keep:
            self._add(buffer[position : min(stop, position + self._keep - self._kept)])
            uncounted = self._kept - self._counted
            if uncounted > self._counted >> 3:  # counting every packet would cost more than keeping it
                self._counted += uncounted
                self._holdings.hold(self, self, uncounted)
        if self._have == self._size:
            self._finish()
        return stop

    def _add(self, piece: bytes) -> None:
        """Keep the next bytes of the message."""
        pieces = self._pieces
        if pieces and len(piece) < SMALL_BYTES and len(pieces[-1]) < SMALL_BYTES:
            pieces[-1] += piece
        else:
            pieces.append(piece)
        self._kept += len(piece)

    def _begin(self, size: int) -> None:
        self._pieces = []
        self._kept = 0
        self._have = 0
        self._size = size
        if not self._start and not 0 <= size <= self.longest:
            self.first_size = size
        if size < 0:
            self.skipped_bytes += SIZE_BYTES
            self._reset()
            self.drift()
        elif size > self.longest:
            self._keep = PREFIX_BYTES
            self._cause = "cap"
        else:
            self._keep = size
            if not size:
                self._finish()

    def refuse(self, message: WireMessage) -> None:
        """Count the last message as skipped: its bytes are not understood."""
        size = SIZE_BYTES + message.size if message.complete else self._delivered
        self.message_bytes -= size
        self.skipped_bytes += size

    def _finish(self) -> None:
        self._delivered = SIZE_BYTES + self._have - self._missing
        self.message_bytes += self._delivered
        self._hand_on(self._cause is None)

    def _hand_on(self, complete: bool) -> None:
        message, cause = self._message(b"".join(self._pieces), self._size, complete), self._cause
        self._reset()
        self.deliver(message, cause)

    def make_room(self, key: Framer) -> None:
        """Keep only the beginning of an unfinished message, and nothing of a desynchronised stream."""
        if self._desynchronised is not None:
            self._give_up_search()
            return
        # Of two pieces next to each other, one has so many bytes.
        head = b"".join(self._pieces[:2])[:HEAD_BYTES]
        self._pieces = [head]
        self._kept = self._keep = len(head)
        self._counted = 0
        self._cause = self._cause or "total"

    def _message(self, raw: bytes, size: int, complete: bool) -> WireMessage:
        return WireMessage(
            self.direction, raw, size, 0, self._first_time, self._last_time, self._first_frame, self._last_frame,
            self._packets, complete, self._start,
        )  # fmt: skip

    def gap(self, size: int, cause: str) -> None:
        """Take a gap of `size` missing bytes; `cause` is `capture_loss` or `snaplen`."""
        self.offset += size
        if self._size < 0 or self._have + size > self._size:
            self.lose(cause)
            return
        # The gap lies within the message: the next boundary is still known.
        self._have += size
        self._missing += size
        self._keep = self._kept
        self._spoil(cause)
        if self._have == self._size:
            self._finish()

    def _spoil(self, cause: str) -> None:
        """Note the reason why bytes of the message are missing."""
        if self._cause != "gap":
            self._cause = "snaplen" if cause == "snaplen" else "gap"

    def lose(self, cause: str = "capture_loss") -> None:
        """Take a gap of unknown size."""
        if self._desynchronised is not None:
            self._give_up_search()
            return
        if self._size >= 0:
            self._spoil(cause)
            self._finish()
        else:
            self.skipped_bytes += self._have
        self._reset()
        self.drift()

    def end(self) -> None:
        """End the stream: deliver the beginning of an unfinished message. Later data is desynchronised."""
        if self._desynchronised is not None:
            self._give_up_search()
            return
        if self._size < 0 and not self._have:
            return
        self.unfinished_bytes += self._have - self._missing
        if self._size >= 0:
            self.unfinished_bytes += SIZE_BYTES
            self._delivered = 0
            self._hand_on(False)
        self._reset()
        self.drift()

    def _hold(self, time: int | None, frame: int, data: bytes) -> None:
        assert self._desynchronised is not None
        if not data:
            return
        self._desynchronised.append((time, frame, data))
        self._search_bytes += len(data)
        self._holdings.hold(self, self, len(data) + PIECE_BYTES)
        too_much = self._search_bytes > self._search_most
        if too_much or self._search_bytes >= self._search_at:
            self.search()
            if self._search_bytes > SEARCH_EACH_BYTES:
                self._search_at = self._search_bytes + self._search_bytes // 8
        if too_much and self._desynchronised is not None:
            self._let_go(self._desynchronised)

    def search(self) -> None:
        """Resynchronise: look for the next message in the held data, now that more is known."""
        if self._searching:
            return
        self._searching = True
        self._searched = self._search_bytes
        for _ in range(RESUMES):
            if not self._desynchronised or not self._resume(self._desynchronised):
                break
        self._searching = False

    def search_answered(self) -> None:
        """Search what came since the last search: the message that an answer is to may be there."""
        if self._desynchronised and self._searched < self._search_bytes and self._looks < LOOKS_FOR_ANSWERED:
            self._looks += 1
            self.search()

    def _resume(self, chunks: list[Received]) -> bool:
        """Go on at the next message in the held data; return False if there is none."""
        found = self.locate(b"".join(data for _, _, data in chunks))
        if found is None:
            return False
        self.skipped_bytes += found
        self._desynchronised = None
        self._reset()
        self.offset -= sum([len(data) for _, _, data in chunks])
        for time, frame, data in chunks:
            self.offset += len(data)
            if found < len(data):
                if self.desynchronised:
                    self._hold(time, frame, data[found:])
                else:
                    self._cut(time, frame, data, found, len(data))
                found = 0
            else:
                found -= len(data)
        return True

    def _let_go(self, chunks: list[Received]) -> None:
        """Give up what was searched, up to where a message may begin that is not all there."""
        place = self.begins(b"".join(data for _, _, data in chunks))
        # Nothing may lie right at the start: there a packet began.
        gone = max(place - 1, 0)
        left = self._search_bytes - gone
        if place < 0 or left > SEARCH_MOST_BYTES:
            self._give_up_search()
            return
        self._holdings.release(self)
        self.drift()
        self.skipped_bytes += gone
        self._search_bytes = self._searched = left
        self._search_at = left + left // 8
        self._search_most = left + SEARCH_BYTES
        kept: list[Received] = []
        for time, frame, data in chunks:
            if gone < len(data):
                kept.append((time, frame, data[gone:]))
                self._holdings.hold(self, self, len(data) - gone + PIECE_BYTES)
            gone = max(gone - len(data), 0)
        self._desynchronised = kept

    def _give_up_search(self) -> None:
        self.skipped_bytes += self._search_bytes
        self._holdings.release(self)
        self.drift()
