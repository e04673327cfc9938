"""One direction of a TLS connection: its records, key, sequence number, and resynchronisation after a loss."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from kinspect.state import fields, fill
from kinspect.tls.handshake import MessageReader
from kinspect.tls.suites import Suite
from kinspect.tls.tlsrecords import HEADER_BYTES, RecordReader

if TYPE_CHECKING:
    from kinspect.tls.protection import Epoch

# Limits after a loss: sequence numbers tried on a record, bytes of the stream searched for one that authenticates,
# bytes decrypted in vain, and how many more of these per byte of the stream. A try counts as `TRY_BYTES` bytes
# more than the record has.
TRIES = 1024
SEARCH_BYTES = 1024 * 1024
WASTED_BYTES = 64 * 1024 * 1024
WASTED_PER_BYTE = 32
TRY_BYTES = 1024

# An encrypted record: alert, handshake or application data, version 3.3, length up to 2^14 + 2048.
_CANDIDATE = re.compile(rb"[\x15-\x17]\x03\x03[\x00-\x48][\x00-\xff]")


class FoundRecord(NamedTuple):
    """Record found after a loss: its type and plaintext, its size, the rest of the data behind it, and the number of
    plaintext bytes lost, None if not known."""

    kind: int
    plain: bytes
    size: int
    rest: bytes
    lost: int | None


class TlsSide:
    """State of one direction. `read_bytes`: size of the records that could be read; `plain_bytes`: application data in
    them. `encrypted`: records are protected from here on. `skipping`: records that do not authenticate are skipped
    until one does. `delivered`: application data was handed on. `over`: nothing more is read."""

    STATE: ClassVar = """
        delivered encrypted had_loss over plain_bytes read_bytes seen sequence skipped skipping _wasted
    """.split()
    __slots__ = (*STATE, "direction", "epoch", "messages", "name", "reader", "search")

    def __init__(self, direction: int, name: str) -> None:
        self.direction = direction
        self.name = name
        self.reader = RecordReader()
        self.messages = MessageReader()
        self.read_bytes = 0
        self.plain_bytes = 0
        self.epoch: Epoch | None = None
        self.sequence = 0
        self.encrypted = False
        self.skipping = False
        self.skipped = 0
        self.delivered = False
        self.over = False
        self.had_loss = False
        self.search: RecordSearch | None = None
        self.seen = 0
        self._wasted = 0

    def state(self) -> list[Any]:
        """State for `restore`."""
        return [
            fields(self, self.STATE),
            self.reader.state(),
            fields(self.messages, MessageReader.STATE),
            self.epoch and self.epoch.origin,
            self.search and fields(self.search, RecordSearch.STATE),
        ]

    def restore(self, state: Sequence[Any]) -> None:
        """Go on with the direction of `state`."""
        own, reader, messages, epoch, search = state
        fill(self, self.STATE, own)
        self.reader.restore(reader)
        fill(self.messages, MessageReader.STATE, messages)
        if epoch is not None:
            from kinspect.tls.protection import epoch_of

            suite, *made_of = epoch
            self.epoch = epoch_of(Suite(*suite), *made_of)
        if search is not None:
            self.search = RecordSearch(None, 0)
            fill(self.search, RecordSearch.STATE, search)

    @property
    def is_in_handshake(self) -> bool:
        """True while its records are protected with the handshake key of TLS 1.3."""
        return self.epoch is not None and self.epoch.is_handshake

    def end(self) -> None:
        """Stop reading."""
        self.over = True
        self.search = None
        self.reader.drop()
        self.messages.drop()

    def open(self, record: bytes) -> tuple[int, bytes] | None:
        """Type and plaintext of the next record; None if it does not authenticate."""
        assert self.epoch is not None
        opened = self.epoch.opener.open(self.sequence, record)
        if opened is not None:
            self.sequence += 1
        return opened

    def advance(self) -> None:
        """Switch to the next key."""
        following = self.epoch and self.epoch.successor()
        if following:
            self.epoch = following
            self.sequence = 0

    def lose(self, time: int | None, frame: int, size: int) -> None:
        """Note that `size` bytes are missing here, and search for the next record that authenticates."""
        size += self.reader.drop()
        self.messages.drop()
        # A handshake message may have lost its beginning; later messages have a record each.
        self.messages.desynchronised = self.is_in_handshake
        self.had_loss = True
        if self.search is None:
            self.search = RecordSearch(time, frame)
        self.search.lose(size)

    @property
    def hopeless(self) -> bool:
        """True if the search has cost as much as it may."""
        return self._wasted > WASTED_BYTES + WASTED_PER_BYTE * self.seen

    def find(self, search: RecordSearch, data: bytes) -> FoundRecord | None:
        """Search `data`, and what was not searched before, for a record that authenticates."""
        search.window += data
        while (start := search.candidate()) is not None:
            record = search.record(start)
            if record is None:
                search.drop(start)
                return None
            found = self._attempt(search.lost + start, record)
            if found is None:
                if self.hopeless:
                    return None
                search.position = start + 1
                continue
            (kind, plain), lost = found
            self.search = None
            return FoundRecord(kind, plain, len(record), bytes(search.window[start + len(record) :]), lost)
        return None

    def _attempt(self, lost: int, record: bytes) -> tuple[tuple[int, bytes], int | None] | None:
        """Try all sequence numbers that `record` can have after a loss of `lost` bytes, also under the next key."""
        assert self.epoch is not None
        smallest = self.epoch.opener.smallest
        if len(record) < smallest:
            return None
        tries = min(TRIES, lost // smallest + 1)
        for epoch, first in ((self.epoch, self.sequence), (self.epoch.successor(), 0)):
            if epoch is None:
                continue
            for sequence in range(first, first + tries):
                opened = epoch.opener.open(sequence, record)
                if opened is not None:
                    size = self._lost_plaintext(epoch, sequence, lost)
                    self.epoch = epoch
                    self.sequence = sequence + 1
                    self.encrypted = True
                    self.skipping = False
                    self.messages.desynchronised = epoch.is_handshake
                    return opened, size
                self._wasted += TRY_BYTES + len(record)
                if self.hopeless:
                    return None
        return None

    def _lost_plaintext(self, epoch: Epoch, sequence: int, lost: int) -> int | None:
        """Bytes of application data missing before record `sequence` of an epoch, given that `lost` bytes of the stream
        are; None if not known."""
        old = self.epoch
        assert old is not None
        if epoch.is_handshake or (not sequence and (epoch is old or old.is_handshake)):
            return 0
        overhead = epoch.opener.overhead
        if overhead is None or epoch is not old or not self.delivered:
            return None
        # Once there was application data, records rarely carry anything else.
        size = lost - (sequence - self.sequence) * overhead
        return size if size >= 0 else None


class RecordSearch:
    """Search for a record after a loss. `time` and `frame` are those of the loss, `lost` is the number of bytes lost or
    searched in vain, `window` what may still hold a record, `position` where in it the search goes on."""

    STATE: ClassVar = ("frame", "lost", "position", "searched", "time", "window")
    __slots__ = STATE

    def __init__(self, time: int | None, frame: int) -> None:
        self.time = time
        self.frame = frame
        self.lost = 0
        self.searched = 0
        self.window = bytearray()
        self.position = 0

    def lose(self, size: int) -> None:
        self.drop(len(self.window))
        self.lost += size

    def drop(self, size: int) -> None:
        """Remove the first `size` bytes of the window, in which no record begins."""
        del self.window[:size]
        self.lost += size
        self.searched += size
        self.position = 0

    def candidate(self) -> int | None:
        """Position at which the next record may begin; drops bytes that cannot belong to one."""
        match = _CANDIDATE.search(self.window, self.position)
        if match is None:
            self.drop(max(self.position, len(self.window) - HEADER_BYTES + 1))
            return None
        return match.start()

    def record(self, start: int) -> bytes | None:
        """The record that begins at `start`; None if it is not complete."""
        size = HEADER_BYTES + int.from_bytes(self.window[start + 3 : start + HEADER_BYTES])
        return bytes(self.window[start : start + size]) if start + size <= len(self.window) else None
