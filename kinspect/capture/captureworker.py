"""The capturing process: moves packets from rings into files and to the decoding process, never waiting for it."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from kinspect.background import spoken
from kinspect.capture.handover import Counters, InterfaceCounters, Outbox
from kinspect.capture.packetorder import PacketBatch, PacketOrder
from kinspect.capture.ring import RETIRE_MS, Ring, interface_error
from kinspect.capture.save import SaveFiles
from kinspect.capture.tpacket import packet_blocks, read_ring_block
from kinspect.capture.writer import interface_of
from kinspect.errors import KinspectError
from kinspect.model import NS_PER_MS

VISIBLE_NS = 2 * RETIRE_MS * NS_PER_MS
"""Time after which a packet is in a block that the kernel has handed over."""
BEAT_NS = 100 * NS_PER_MS
"""Interval at which the decoding process gets the state of the capture."""
REOPEN_NS = 250 * NS_PER_MS
"""Interval at which it is looked whether an interface that went away is there again."""
SECRETS_NS = 20 * NS_PER_MS
"""Interval at which the key log is checked for new TLS secrets."""
BLOCKS_A_TURN = 32
LONGEST_END_NS = 10_000 * NS_PER_MS
"""Longest time for ending. The end is found by the packets' times, and never if the clock is set back."""
FOREVER = 1 << 63


class CaptureLimits(NamedTuple):
    """Limits of a capture, and `secrets`: gives the lines added to a TLS key log since it was last called."""

    duration_ns: int | None = None
    packets: int | None = None
    secrets: Callable[[], bytes] = bytes


class CaptureWorker:
    """One capture. `run` returns when it has ended and everything is handed over and written. `control` becomes
    readable when the capture is to end. `prelude`: the pcapng blocks that describe the interfaces."""

    def __init__(
        self,
        rings: Sequence[Ring],
        outbox: Outbox,
        control: int,
        plan: CaptureLimits,
        prelude: bytes,
        files: SaveFiles | None,
    ) -> None:
        self._rings = dict(enumerate(rings))
        # Those whose interface went away, and what is reported if it stays away.
        self._away: dict[int, tuple[Ring, str]] = {}
        self._link_types = [ring.link_type for ring in rings]
        self._outbox = outbox
        self._control = control
        self._plan = plan
        self._prelude = prelude
        self._files = files
        self._order = PacketOrder() if len(rings) > 1 else None
        self._errors: list[str] = []
        self._packets = 0
        self._bytes = 0
        self._saved = 0
        self._reached = 0
        # A clock that is set forward does not make packets late.
        self._offset = time.time_ns() - time.monotonic_ns()
        self._drops = [0] * len(rings)
        self._counted = [InterfaceCounters() for _ in rings]
        self._deadline: int | None = None
        self._ended_at: int | None = None
        self._patience = 0
        self._enough = False
        self._next_secrets = 0
        self._next_beat = 0
        self._next_reopen = 0
        self._poll = select.poll()
        self._poll.register(outbox.fileno(), 0)
        for descriptor in (control, *(ring.fileno() for ring in rings)):
            self._poll.register(descriptor, select.POLLIN)

    def run(self) -> None:
        limit = self._plan.duration_ns
        self._deadline = None if limit is None else time.monotonic_ns() + limit
        try:
            self._capture()
        except Exception as error:
            # This process has no terminal to report it on.
            self._errors.append(spoken(error, "the capture ends"))
        self._finish()

    def stop(self) -> None:
        """End with the packets up to now. May be called from a signal handler."""
        if self._ended_at is None:
            # Counted now: packets dropped while the rings are emptied came after the end.
            self._count_drops()
            self._patience = time.monotonic_ns() + VISIBLE_NS
            self._ended_at = time.time_ns()

    def _capture(self) -> None:
        while True:
            waited = time.monotonic_ns() - self._patience if self._ended_at is not None else -1
            last = waited >= 0
            busy = self._turn(last)
            if self._enough or (last and not busy) or waited > LONGEST_END_NS:
                return
            self._wait(0 if busy else BEAT_NS)
            if self._deadline is not None and time.monotonic_ns() >= self._deadline:
                self.stop()

    def _wait(self, longest: int) -> None:
        """Wait until there is something to do, `longest` nanoseconds at most."""
        now = time.monotonic_ns()
        if self._order is not None or self._ended_at is not None:
            longest = min(longest, RETIRE_MS * NS_PER_MS)
        elif self._deadline is not None:
            longest = min(longest, max(0, self._deadline - now))
        self._poll.modify(self._outbox.fileno(), select.POLLOUT if self._outbox.waiting else 0)
        for descriptor, _ in self._poll.poll(longest / NS_PER_MS):
            if descriptor == self._control:
                # A byte, or the end of the other process.
                self._poll.unregister(self._control)
                self.stop()

    def _turn(self, last: bool) -> bool:
        """Hand on what is there now; returns True if there is more."""
        left = []
        now = min(time.time_ns(), time.monotonic_ns() + self._offset)
        for number in [*self._rings]:
            latest = self._empty(number)
            if latest is not None:
                left.append(latest)
        if self._order is not None:
            until = time.monotonic_ns() - VISIBLE_NS
            self._hand_on(self._order.settled(FOREVER if last else until, left))
        if not left:
            self._reached = now
        self._save(lambda files: files.tick(self._drops))
        self._beat()
        self._outbox.send()
        return bool(left)

    def _empty(self, number: int) -> int | None:
        """Take blocks from a ring, at most `BLOCKS_A_TURN`, so that the others are not kept waiting. Returns the latest
        time if there is more, else None."""
        latest = None
        for _ in range(BLOCKS_A_TURN):
            data = None if self._enough else self._take(number)
            if data is None:
                return None
            block = read_ring_block(data, self._link_types[number])
            if not len(block):
                continue
            times = [time or 0 for time in block.times]
            latest = times[-1]
            batch = PacketBatch(times, block.wire_lengths, packet_blocks(block, number))
            if self._order is None:
                self._hand_on(batch)
            else:
                self._order.add(batch, time.monotonic_ns())
        return latest or 0

    def _take(self, number: int) -> bytes | None:
        ring = self._rings[number]
        try:
            return ring.take()
        except OSError as error:
            self._poll.unregister(ring.fileno())
            del self._rings[number]
            self._away[number] = ring, str(interface_error(ring.interface, error))
            counted = self._counted[number]
            self._counted[number] = counted._replace(losses=counted.losses + 1, up=0)
            if not self._rings:
                self.stop()
            return None

    def _look_for_interfaces(self, now: int) -> None:
        """Go on with interfaces that are there again."""
        if not self._away or now < self._next_reopen or self._ended_at is not None:
            return
        self._next_reopen = now + REOPEN_NS
        for number, (ring, _) in [*self._away.items()]:
            if ring.reopen():
                del self._away[number]
                self._rings[number] = ring
                self._poll.register(ring.fileno(), select.POLLIN)
                self._counted[number] = self._counted[number]._replace(up=1)

    def _hand_on(self, batch: PacketBatch) -> None:
        """Write packets to the files and send them to the decoding process."""
        batch = batch.first(self._count_before_end(batch.times))
        if not batch.blocks:
            return
        first = self._packets + 1
        self._packets += len(batch.blocks)
        self._bytes += sum(batch.lengths)
        shares = _shares(batch, len(self._counted))
        for number, (packets, size) in shares.items():
            counted = self._counted[number]
            self._counted[number] = counted._replace(
                packets=counted.packets + packets, bytes=counted.bytes + size
            )
        self._save(self._save_secrets)
        self._save(lambda files: files.packets(batch.blocks, self._drops))
        if not self._outbox.packets(self._counters(), first, self._prelude, batch.blocks):
            for number, (packets, _) in shares.items():
                counted = self._counted[number]
                self._counted[number] = counted._replace(queue_drops=counted.queue_drops + packets)
        self._outbox.send()

    def _count_before_end(self, times: list[int]) -> int:
        """Number of these packets that come before the end; notes when it is reached."""
        size = len(times)
        if self._ended_at is not None:
            end = self._ended_at
            size = next((index for index, at in enumerate(times) if at > end), size)
            self._enough = size < len(times)
        if self._plan.packets is not None and self._packets + size >= self._plan.packets:
            size = self._plan.packets - self._packets
            self._enough = True
        return size

    def _save(self, act: Callable[[SaveFiles], None]) -> None:
        """Apply `act` to the files, if there are any. If one cannot be written, the capture ends: what was captured
        until then is still handed on."""
        files = self._files
        if files is None:
            return
        try:
            act(files)
        except KinspectError as error:
            self._errors.append(f"{error}: the capture ends")
            self._files = None
            self.stop()
            # A full disk may still have room for the drop counts.
            with suppress(KinspectError):
                files.close(self._drops)
        self._saved = files.saved

    def _save_secrets(self, files: SaveFiles) -> None:
        """Save new lines of the key log before the packets that they may be for."""
        now = time.monotonic_ns()
        if now >= self._next_secrets:
            self._next_secrets = now + SECRETS_NS
            files.secrets(self._new_secrets())

    def _new_secrets(self) -> bytes:
        """New lines of the key log. If it can no longer be read, the capture goes on without."""
        try:
            return self._plan.secrets()
        except KinspectError as error:
            self._errors.append(str(error))
            self._plan = self._plan._replace(secrets=bytes)
            return b""

    def _beat(self) -> None:
        now = time.monotonic_ns()
        if now >= self._next_beat:
            self._next_beat = now + BEAT_NS
            self._look_for_interfaces(now)
            if self._ended_at is None:
                self._count_drops()
            self._outbox.beat(self._counters())

    def _count_drops(self) -> None:
        for number, ring in self._rings.items():
            self._drops[number] = ring.drops()

    def _counters(self) -> Counters:
        outbox = self._outbox
        return Counters(
            self._packets,
            self._bytes,
            sum(self._drops),
            outbox.drops,
            outbox.waiting,
            self._saved,
            self._reached,
            time.monotonic_ns(),
            tuple(
                [
                    counted._replace(kernel_drops=drops)
                    for counted, drops in zip(self._counted, self._drops, strict=True)
                ]
            ),
        )

    def _finish(self) -> None:
        """Close the files, then wait for the decoding process to take the rest."""
        self.stop()
        self._save(lambda files: files.secrets(self._new_secrets()))
        self._save(lambda files: files.close(self._drops))
        outbox = self._outbox
        self._errors += [error for _, error in self._away.values()]
        outbox.end(self._counters(), {"errors": self._errors})
        while outbox.waiting:
            outbox.send()
            select.select([], [outbox.fileno()], [])


def _shares(batch: PacketBatch, interfaces: int) -> dict[int, tuple[int, int]]:
    """Packets and bytes by the number of their interface."""
    if interfaces == 1:
        return {0: (len(batch.blocks), sum(batch.lengths))}
    found: dict[int, tuple[int, int]] = {}
    for block, length in zip(batch.blocks, batch.lengths, strict=True):
        number = interface_of(block)
        packets, size = found.get(number, (0, 0))
        found[number] = packets + 1, size + length
    return found
