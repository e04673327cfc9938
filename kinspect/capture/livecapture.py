"""Packets from network interfaces, as they arrive.

    rings = open_rings(["eth0"])         # needs the right to capture
    capture = Live(rings, CaptureSettings(), CaptureLimits())
    capture.start()
    for block in capture:
        ...                              # model.Block
    capture.counters                     # packets captured, dropped, and waiting

Two processes share the work: the capturing one (`worker`) takes packets out of the kernel's rings and saves them,
independent of the other; they arrive here through a bounded queue.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from kinspect.background import Channel, Child
from kinspect.capture import bpf
from kinspect.capture.captureworker import CaptureLimits, CaptureWorker
from kinspect.capture.handover import QUEUE_BYTES, Counters, Handover, Inbox, InterfaceCounters, Outbox
from kinspect.capture.interfaces import Interfaces
from kinspect.capture.pcapng import read_pcapng
from kinspect.capture.reader import Findings, new_block
from kinspect.capture.ring import ANY, BLOCK_BYTES, RING_BYTES, Ring, interface_error
from kinspect.capture.save import SaveFiles, SaveOptions
from kinspect.capture.timeline import Packets, SourceStatus
from kinspect.capture.writer import interface_block, section
from kinspect.errors import CaptureError
from kinspect.model import Block, Origin

LOST = "what it had not handed over is lost"


class CaptureSettings(NamedTuple):
    """Capture settings: bytes captured of each packet, a filter that runs in the kernel (tcpdump's syntax), bytes of
    the kernel's ring for each interface and of the queue behind it, and where packets are saved."""

    snaplen: int = BLOCK_BYTES
    bpf: str | None = None
    ring_bytes: int = RING_BYTES
    queue_bytes: int = QUEUE_BYTES
    saving: SaveOptions | None = None


def interface_names() -> list[str]:
    """Names of the interfaces that there are, and `any`."""
    return [*(name for _, name in socket.if_nameindex()), ANY]


def open_rings(interfaces: Sequence[str]) -> list[Ring]:
    """Open a socket for each interface: all that needs the right to capture. Nothing is received before `Live.start`.

    Raises CaptureError if an interface cannot be captured from.
    """
    if sys.platform != "linux":
        raise CaptureError(
            f"capturing from an interface needs Linux: elsewhere, tcpdump -i {interfaces[0]} -w - | kinspect read -"
        )
    rings: list[Ring] = []
    try:
        for interface in dict.fromkeys(interfaces):
            rings.append(_open_ring(interface))
    except CaptureError:
        for ring in rings:
            ring.close()
        raise
    return rings


def _open_ring(interface: str) -> Ring:
    if interface not in interface_names():
        raise CaptureError(
            f"{interface}: there is no such interface; there are: {', '.join(interface_names())}"
        )
    try:
        ring = Ring(interface)
    except PermissionError:
        raise CaptureError(
            f"{interface}: no right to capture: use sudo, or grant it to every program of this Python with sudo setcap"
            f" cap_net_raw,cap_net_admin=eip {os.path.realpath(sys.executable)}; a container needs --cap-add=NET_RAW"
        ) from None
    except OSError as error:
        raise interface_error(interface, error) from error
    if ring.link_type < 0:
        ring.close()
        raise CaptureError(f"{interface}: packets of its kind (ARPHRD {ring.hardware}) cannot be read")
    return ring


class OngoingCapture(Packets, Protocol):
    """A capture that goes on: of interfaces, or one that is made elsewhere. What its members say is at `Live`."""

    @property
    def origin(self) -> Origin: ...
    @property
    def counters(self) -> Counters: ...
    @property
    def interfaces(self) -> dict[str, InterfaceCounters]: ...
    @property
    def queue_limit(self) -> int: ...
    @property
    def worker(self) -> int | None: ...
    @property
    def capturing(self) -> bool: ...
    def start(self, foreign: Sequence[int] = ()) -> None: ...
    def leave(self) -> None: ...
    def stop(self) -> None: ...


class Live:
    """Iterates the packets of interfaces in blocks, each as soon as it is there, until it is stopped, the time is over,
    there are enough packets, or every interface has gone down. One that is there again is captured from again. Between
    them come several blocks without packets a second, so that the consumer sees time pass.

    The interfaces, which share one numbering, stand for the file.
    """

    def __init__(self, rings: list[Ring], settings: CaptureSettings, plan: CaptureLimits) -> None:
        """Packets are received from here on. Raises CaptureError if an interface is down or the filter is not valid."""
        names = [ring.interface for ring in rings]
        self.files = [",".join(names)]
        self._errors: list[CaptureError] = []
        self.secrets: list[bytes] = []
        self._interfaces = Interfaces(names)
        self.origin = Origin(socket.gethostname(), self._interfaces.of)
        self.counters = Counters(interfaces=(InterfaceCounters(),) * len(rings))
        """State of the capture when the last block was handed over."""
        self._rings = rings
        self._settings = settings
        self._plan = plan
        self._prelude = section() + b"".join(
            interface_block(ring.link_type, ring.interface, settings.snaplen, settings.bpf or "")
            for ring in rings
        )
        for ring in rings:
            program = _program(ring, settings)
            try:
                ring.start(settings.ring_bytes, program)
            except OSError as error:
                raise interface_error(ring.interface, error) from error
        self._blocks = self._read()
        self._next_frame = 1
        self._child: Child | None = None
        self._ended = True

    def start(self, foreign: Sequence[int] = ()) -> None:
        """Start the capturing process. `foreign`: descriptors that it does not hold: who deletes a file wants its space
        back. Raises CaptureError if a file cannot be created."""
        files = None
        if self._settings.saving is not None:
            files = SaveFiles(self._settings.saving, self._prelude, time.time_ns())
        told, tell = os.pipe()
        outbox = Outbox(tell, self._settings.queue_bytes)
        work = partial(_work, self._rings, outbox, self._plan, self._prelude, files)
        self._child = Child("the capturing process", work, LOST, foreign=(told, *foreign))
        os.close(tell)
        self._inbox = Inbox(told)
        self.counters = self.counters._replace(told_at=time.monotonic_ns())
        self._ended = False
        self.leave()
        if files is not None:
            files.leave()

    def leave(self) -> None:
        """Close the sockets in this process: the other one captures."""
        for ring in self._rings:
            ring.close()

    def __iter__(self) -> Iterator[Block]:
        return self._blocks

    @property
    def status(self) -> SourceStatus:
        counters = self.counters
        return SourceStatus(
            self._errors,
            counters.bytes,
            reached=counters.reached or None,
            kernel_drops=counters.kernel_drops,
            queue_drops=counters.queue_drops,
            interface_losses=sum(each.losses for each in counters.interfaces),
            captured_packets=counters.packets,
            saved_packets=None if self._settings.saving is None else counters.saved,
        )

    @property
    def interfaces(self) -> dict[str, InterfaceCounters]:
        """What each interface gave, by its name."""
        return {
            ring.interface: counted
            for ring, counted in zip(self._rings, self.counters.interfaces, strict=True)
        }

    @property
    def queue_limit(self) -> int:
        """Bytes that may wait to be decoded."""
        return self._settings.queue_bytes

    @property
    def worker(self) -> int | None:
        """Process id of the capturing process; None before `start` and after `close`."""
        return None if self._child is None else self._child.pid

    @property
    def capturing(self) -> bool:
        """True while the capturing process runs. May be asked in any thread."""
        child = self._child
        return child is not None and child.running

    def stop(self) -> None:
        """End the capture; waiting packets are still handed on. May be called from a signal handler."""
        if self._child is not None:
            self._child.channel.stop()

    def close(self) -> None:
        """End, and wait until everything is saved; packets not yet handed on are dropped. Works before `start`, too."""
        self.leave()
        self.stop()
        while not self._ended:
            self._next_message()
        if self._child is not None:
            self._inbox.close()
            self._child.status()
            self._child.channel.close()
            self._child = None

    def _read(self) -> Generator[Block]:
        while (message := self._next_message()) is not None:
            yield self._block(message)

    def _next_message(self) -> Handover | None:
        """The next message; None at the end."""
        if self._ended:
            return None
        # Wait for the whole message: after an interruption in it, the start of the next one is not known.
        self._ended = True
        message = self._inbox.message()
        if message is None:
            assert self._child is not None
            self._errors.append(CaptureError(self._child.why()))
            return None
        self.counters = message.counters
        if message.end is not None:
            self._errors += map(CaptureError, message.end["errors"])
            return None
        self._ended = False
        return message

    def _block(self, message: Handover) -> Block:
        if not message.section:
            return new_block(b"", self._next_frame)
        (block,) = read_pcapng(message.section, _NO_SOURCE, message.first, len(message.section), Findings())
        self._next_frame = message.first + len(block)
        self._interfaces.add(block)
        return block


def _program(ring: Ring, settings: CaptureSettings) -> list[bpf.Instruction] | None:
    if settings.bpf is not None:
        return bpf.compiled(settings.bpf, ring.link_type, settings.snaplen)
    return None if settings.snaplen >= BLOCK_BYTES else bpf.whole(settings.snaplen)


class _NoSource:
    """Source without bytes, for a section that is complete already."""

    name = "interface"
    position = 0

    def read(self, size: int) -> bytes:
        return b""

    def release(self) -> None: ...

    def close(self) -> None: ...


_NO_SOURCE = _NoSource()


def _work(
    rings: list[Ring],
    outbox: Outbox,
    plan: CaptureLimits,
    prelude: bytes,
    files: SaveFiles | None,
    channel: Channel,
) -> None:
    """Run the capturing process from its start to its end."""
    # A session of its own: a terminal's signals (Ctrl-C, Ctrl-Z) are for the other process, which passes them on.
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    # This process makes no cycles; looking for them would copy the memory that both processes share.
    gc.disable()
    worker = CaptureWorker(rings, outbox, channel.fileno(), plan, prelude, files)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: worker.stop())
    worker.run()
