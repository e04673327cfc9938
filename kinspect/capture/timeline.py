"""Several captures as one timeline."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, Protocol

from kinspect.capture.clocks import ClockOffset, clock_offsets
from kinspect.capture.fileformats import open_capture
from kinspect.capture.merging import TimedBlocks
from kinspect.capture.reader import BLOCK_SIZE, Findings
from kinspect.capture.source import STDIN, STDIN_NAME, Source, can_reopen, input_size, open_source
from kinspect.errors import CaptureError, TruncatedCaptureError
from kinspect.model import FRAME_BITS, NS_PER_MS, SKEW_NS, Block, Counts

# Limit in bytes on the blocks of all files: where many overlap, each holds two, so these are made smaller.
_BUFFERED: Final = 64 * 1024 * 1024
_SMALLEST_BLOCK: Final = 16 * 1024


def open_timeline(
    paths: Sequence[str | os.PathLike[str]],
    *,
    block_size: int = BLOCK_SIZE,
    open_input: Callable[[str], Source] = open_source,
    skew_ns: int = SKEW_NS,
    resolved: bool = False,
) -> Timeline:
    """All captures in `paths` (`-`: standard input) as one timeline, to be iterated once, in blocks.

    Nothing is opened before the first block is asked for, and unreadable inputs raise nothing: see `Timeline.errors`.
    `open_input` makes a source of a path, for paths that are not files. `skew_ns`: `Caps.skew_ns`, the most by which
    the times of a capture are set right. `resolved`: name resolution blocks are kept (`Timeline.findings`).
    """
    timeline = Timeline(paths, block_size=block_size, open_input=open_input, skew_ns=skew_ns)
    timeline.findings.resolved = {} if resolved else None
    return timeline


def may_bring_secrets(names: Sequence[str]) -> bool:
    """True if one of the inputs may contain TLS secrets, perhaps behind the packets they are for."""
    return any(".pcapng" in name or name.endswith(".ntar") for name in names)


def slice_block(block: Block, start: int, stop: int) -> Block:
    """Packets from index `start` up to but not including `stop` of a block; the buffer is shared, not copied."""
    part = Block(
        block.data,
        block.first_frame + start,
        block.times[start:stop],
        block.starts[start:stop],
        block.ends[start:stop],
        block.wire_lengths[start:stop],
        block.link_types[start:stop],
    )
    if block.names or block.notes:
        part.names = [(index - start, ip, name) for index, ip, name in block.names if start <= index < stop]
        part.notes = [
            note._replace(packet=note.packet - start) for note in block.notes if start <= note.packet < stop
        ]
    return part


class SourceStatus(NamedTuple):
    """How reading or capturing stands. None: it is not known, as files do not say it, or an interface has none of it.

    `errors`: of inputs that could not be read at all, or not to the end (often TruncatedCaptureError). `bytes_read`: of
    `bytes_total`, the size of all captures on disk; None if a pipe is among them. `reached`: all packets up to this
    time came. Packets that the kernel or the interface dropped, that were captured but not decoded; how often an
    interface went away; packets captured, and written whole into files. `clock_offsets`: None before the first packet.
    """

    errors: list[CaptureError]
    bytes_read: int = 0
    bytes_total: int | None = None
    reached: int | None = None
    kernel_drops: int | None = None
    queue_drops: int | None = None
    interface_losses: int | None = None
    captured_packets: int | None = None
    saved_packets: int | None = None
    clock_offsets: list[ClockOffset] | None = None


class Packets(Protocol):
    """A supplier of packets: a `Timeline` of captures, an interface, or what a program hands over."""

    @property
    def files(self) -> list[str]:
        """Captures as they were named; the upper part of a frame reference is an index into this list."""

    @property
    def secrets(self) -> list[bytes]:
        """TLS key logs found so far; one may stand behind the packets it is for."""

    @property
    def status(self) -> SourceStatus:
        """How it stands at the block handed out last."""

    def __iter__(self) -> Iterator[Block]: ...
    def close(self) -> None: ...


def note_capture(counts: Counts, packets: Packets) -> None:
    """Copy the state of the capture that the packets come from into the counts."""
    status = packets.status
    counts.kernel_drops = status.kernel_drops
    counts.queue_drops = status.queue_drops
    counts.interface_losses = status.interface_losses
    counts.captured_packets = status.captured_packets
    counts.saved_packets = status.saved_packets
    if status.clock_offsets is not None:
        counts.clock_offsets = [
            {
                "file": packets.files[file],
                "to": packets.files[to],
                "offset_ms": offset_ns / NS_PER_MS,
                "applied": applied,
            }
            for file, to, offset_ns, applied in status.clock_offsets
        ]
    if counts.captured_packets is not None:
        counts.left_packets = counts.captured_packets - counts.packets - (counts.queue_drops or 0)


class Timeline:
    """Iterates the blocks of all captures in order of time.

    Each capture keeps its own order, whatever its times are. Between captures the earlier packet comes first, and of
    two with the same time that of the capture named first. A packet without a time goes with the packet before it, and
    so does one whose time is far ahead of what follows it in its capture (`merging`): it holds nothing back. Where
    packets of several captures interleave, blocks are split. Before the first packet, the offsets of the captures'
    clocks are estimated (`set_clocks`); offsets of no more than `skew_ns` are taken from the packets' times.

    All attributes are up to date during iteration, and final after it.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        block_size: int = BLOCK_SIZE,
        open_input: Callable[[str], Source] = open_source,
        skew_ns: int = SKEW_NS,
    ) -> None:
        self.clock_offsets: list[ClockOffset] | None = None
        self._skew_ns = skew_ns
        self.files: list[str] = [os.fspath(path) for path in paths]
        self.errors: list[CaptureError] = []
        self.packets = 0
        """Number of packets handed out."""
        sizes = [input_size(path) for path in self.files]
        self.bytes_total: int | None = None if None in sizes else sum(size or 0 for size in sizes)
        self.findings = Findings()
        """Contents of the captures beside packets, so far."""
        block_size = min(block_size, max(_SMALLEST_BLOCK, _BUFFERED // max(2 * len(sizes), 1)))
        self._cursors: list[_Cursor] = []
        for index, path in enumerate(self.files):
            if path == STDIN and STDIN in self.files[:index]:
                twice = CaptureError(f"{STDIN_NAME}: was named twice, but can be read only once")
                twice.unread = True
                self.errors.append(twice)
            else:
                self._cursors.append(_Cursor(index, path, block_size, self.findings, open_input))
        self._blocks = self._counted(self._alone() if len(self._cursors) == 1 else self._merged())

    def __iter__(self) -> Iterator[Block]:
        return self._blocks

    def close(self) -> None:
        """Close what is still open, if iteration stops before the end."""
        self._blocks.close()

    @property
    def status(self) -> SourceStatus:
        drops = self.findings.drops
        return SourceStatus(
            self.errors,
            sum(cursor.source.position for cursor in self._cursors),
            self.bytes_total,
            kernel_drops=sum(drops.values()) if drops else None,
            clock_offsets=self.clock_offsets,
        )

    @property
    def secrets(self) -> list[bytes]:
        return self.findings.secrets

    @property
    def descriptions(self) -> list[tuple[int, int, bytes]]:
        """Blocks of pcapng files that describe how the packets behind them are to be read: file, offset, block."""
        found = self.findings
        return [
            (file, offset, text)
            for (file, offset, _), text in zip(found.described, found.descriptions, strict=True)
        ]

    def offset(self, block: Block) -> int:
        """Offset in its file of the buffer of the block handed out last; meaningless for a compressed file."""
        file = block.first_frame >> FRAME_BITS
        cursor = next(cursor for cursor in self._cursors if cursor.index == file)
        return cursor.position - len(block.data)

    def _counted(self, blocks: Iterator[Block]) -> Generator[Block]:
        try:
            for block in blocks:
                self.packets += len(block)
                yield block
        finally:
            for cursor in self._cursors:
                cursor.source.close()

    def _alone(self) -> Iterator[Block]:
        (cursor,) = self._cursors
        try:
            for block in cursor.open():
                cursor.position = cursor.ends.popleft()
                yield block
        except CaptureError as error:
            self.errors.append(error)

    def set_clocks(self) -> None:
        """Estimate the offsets of the clocks, and set those right that may differ so. Nothing is done the second time,
        so that processes that share the work estimate once, before they part."""
        if self.clock_offsets is not None or len(self._cursors) == 1:
            return
        cursors = [cursor for cursor in self._cursors if can_reopen(self.files[cursor.index])]
        self.clock_offsets = []
        for cursor, found in zip(cursors, clock_offsets([cursor.head() for cursor in cursors]), strict=True):
            if found is not None:
                to, offset = found
                applied = abs(offset) <= self._skew_ns
                cursor.ahead = offset if applied else 0
                self.clock_offsets.append(ClockOffset(cursor.index, cursors[to].index, offset, applied))

    def _merged(self) -> Iterator[Block]:
        self.set_clocks()
        heap: list[tuple[int, int, _Cursor]] = []
        time = 0
        for cursor in self._cursors:
            try:
                first = cursor.first_time()
            except CaptureError as error:
                error.unread = True
                self.errors.append(error)
                continue
            # A capture without a time follows the one named before it.
            time = cursor.time = time if first is None else first
            heap.append((time, cursor.index, cursor))
        heapify(heap)
        while heap:
            _, index, cursor = heappop(heap)
            if self._has_packet(cursor):
                yield cursor.take(heap[0][:2] if heap else None)
                # Checked before the push: the next packet's time is the cursor's place in the heap.
                if self._has_packet(cursor):
                    heappush(heap, (cursor.time, index, cursor))

    def _has_packet(self, cursor: _Cursor) -> bool:
        try:
            return cursor.has_packet()
        except CaptureError as error:
            self.errors.append(error)
            return False


class _Cursor:
    """One capture among several: its current block, the next packet in it, and blocks read ahead."""

    def __init__(
        self, index: int, path: str, block_size: int, findings: Findings, open_input: Callable[[str], Source]
    ) -> None:
        self.index = index
        self.source = open_input(path)
        self.time = 0
        """Merge time of the next packet (`merging`)."""
        self.ahead = 0
        """Nanoseconds that are taken from its times."""
        self.position = 0
        """Position in the capture at which the current block ends."""
        self.ends: deque[int] = deque()
        """Positions at which the blocks read ahead end."""
        self._path = path
        self._open_input = open_input
        self._block_size = block_size
        self._findings = findings
        self._turns: Iterator[tuple[Block, list[int]]] | None = None
        self._block: Block | None = None
        self._next = 0
        self._times: list[int] = []

    def open(self) -> Iterator[Block]:
        """All blocks of the capture. Raises CaptureError, whose `unread` is true if there were none."""
        begun = False
        try:
            first_frame = (self.index << FRAME_BITS) + 1
            for block in open_capture(self.source, first_frame, self._block_size, self._findings):
                begun = True
                self.ends.append(self.source.position)
                if self.ahead:
                    block.times = [None if time is None else time - self.ahead for time in block.times]
                yield block
        except CaptureError as error:
            error.unread = not begun
            raise

    def _again(self, block_size: int) -> _Cursor:
        """Another cursor at the beginning of the capture."""
        again = _Cursor(self.index, self._path, block_size, Findings(), self._open_input)
        again.ahead = self.ahead
        return again

    def head(self) -> Iterator[Block]:
        """The capture's blocks to look at, as far as it can be read."""
        peek = self._again(self._block_size)
        try:
            yield from peek.open()
        except CaptureError:
            pass  # Raised again, and recorded, when the timeline reaches it.
        finally:
            peek.source.close()

    def first_time(self) -> int | None:
        """Time of the first packet; None if it has none, or there is no packet.

        Opens a file and closes it again, so that no more files are open than are being read. Raises CaptureError for an
        input that is not a capture.
        """
        if not can_reopen(self._path):
            return self.time if self.has_packet() else None
        peek = self._again(_SMALLEST_BLOCK)
        try:
            if peek.has_packet() and peek._block is not None and peek._block.times[0] is not None:
                return peek.time
        except TruncatedCaptureError:
            pass  # Raised again, and recorded, when the timeline reaches this file.
        finally:
            peek.source.close()
        return None

    def has_packet(self) -> bool:
        """True if there is a next packet; reads the next block if necessary. Raises CaptureError."""
        if self._block is not None:
            return True
        if self._turns is None:
            self._turns = iter(TimedBlocks(self.open(), self.time))
        try:
            found = next(self._turns, None)
        finally:
            self.source.release()
        if found is None:
            return False
        self._block, self._times = found
        self._next = 0
        self.time = self._times[0]
        self.position = self.ends.popleft()
        return True

    def take(self, other: tuple[int, int] | None) -> Block:
        """Take the next packets, up to the first that comes after the other capture's next one (its time and index)."""
        block = self._block
        assert block is not None
        start, size = self._next, len(block)
        stop = start + 1
        if other is None:
            stop = size
        else:
            time, index = other
            last = time if self.index < index else time - 1
            while stop < size and self._times[stop] <= last:
                stop += 1
        if stop == size:
            self._block = None
        else:
            self._next = stop
            self.time = self._times[stop]
        return block if stop - start == size else slice_block(block, start, stop)
