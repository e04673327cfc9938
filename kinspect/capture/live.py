"""Packets from a network interface: a memory-mapped ring of an AF_PACKET socket (packet(7), Linux's
Documentation/networking/packet_mmap.rst, include/uapi/linux/if_packet.h).

The kernel fills the ring by blocks, TPACKET_V3: a block holds many packets with nanosecond times, and is handed over
when it is full or `RETIRE_MS` after its first packet. The ring is also the queue: while packets are decoded the kernel
goes on filling it, and what finds no room is dropped and counted. Unlike a large socket buffer, it needs no right
beyond CAP_NET_RAW.
"""

from __future__ import annotations

import errno
import mmap
import os
import select
import socket
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import suppress
from struct import Struct, pack

from kinspect.capture.reader import new_block
from kinspect.capture.timeline import slice_block
from kinspect.errors import CaptureError
from kinspect.model import Block

BLOCK_BYTES = 256 * 1024
"""Of the ring; no packet can be longer (libpcap's limit is the same)."""
RING_BLOCKS = 256
RETIRE_MS = 50

# linux/if_packet.h and linux/if_ether.h.
_SOL_PACKET = 263
_ADD_MEMBERSHIP, _RX_RING, _STATISTICS, _VERSION, _RESERVE, _IGNORE_OUTGOING = 1, 5, 6, 10, 12, 23
_TPACKET_V3 = 2
_PROMISCUOUS = 1
_OUTGOING = 4
_ETH_P_ALL = 3

# `tpacket_req3`: block size, blocks, frame size, frames, milliseconds until a block is handed over, size of private
# data, features. Version 3 has frames of any size, but checks these numbers.
_RING_REQUEST = Struct("=7I")
_FRAME_BYTES = 2048
# `packet_mreq`: interface, type, address length, address.
_MEMBERSHIP = Struct("=iHH8x")
# `tpacket_stats_v3`: packets, drops, times the queue was frozen.
_STATISTICS_ROW = Struct("=3I")

# `tpacket_block_desc`: status, packets, offset of the first one, length of the block.
_BLOCK_HEADER = Struct("=8x4I")
_STATUS = Struct("=I")
_STATUS_AT = 8
_KERNEL, _USER = 0, 1

# `tpacket3_hdr`: offset to the next packet, seconds, nanoseconds, captured and wire length, status, offset of the
# link header, VLAN tag and its ethertype; behind it `sockaddr_ll`, of which the packet type.
_PACKET = Struct("=6IH6xIH20xB")
_VLAN_VALID, _VLAN_TPID_VALID = 0x10, 0x40
_ADDRESSES_BYTES, _TAG_BYTES = 12, 4
_TPID = 0x8100

_NS_PER_SECOND = 1_000_000_000

# ARPHRD_ values (linux/if_arp.h) and the link types their packets have.
LINK_TYPES = {
    1: 1,  # Ethernet
    772: 1,  # loopback, which has Ethernet headers
    519: 101,  # raw IP
    0xFFFE: 101,  # none: tun, WireGuard
}
_LOOPBACK = 772


def open_live(interface: str, *, duration_ns: int | None = None, count: int | None = None) -> Live:
    """The packets of an interface from now on, for a duration or a number of packets if they are given.

    Raises CaptureError if the interface cannot be captured from.
    """
    if sys.platform != "linux":
        raise CaptureError(
            f"capturing from an interface needs Linux: elsewhere, tcpdump -i {interface} -w - | kinspect read -"
        )
    try:
        socket.if_nametoindex(interface)
    except OSError:
        names = ", ".join(name for _, name in socket.if_nameindex())
        raise CaptureError(f"{interface}: there is no such interface; there are: {names}") from None
    try:
        ring = Ring(interface)
    except PermissionError:
        raise CaptureError(
            f"{interface}: no right to capture: use sudo, or grant it to every program of this Python with "
            f"sudo setcap cap_net_raw+ep {os.path.realpath(sys.executable)}"
        ) from None
    except OSError as error:
        raise _clear(interface, error) from error
    return Live(interface, ring, duration_ns, count)


def _clear(interface: str, error: OSError) -> CaptureError:
    advice = {
        errno.ENETDOWN: "the interface is down",
        errno.ENODEV: "the interface is gone",
        errno.ENOMEM: f"the kernel has not the memory for a ring of {BLOCK_BYTES * RING_BLOCKS >> 20} MiB",
    }
    return CaptureError(f"{interface}: {advice.get(error.errno or 0) or error.strerror or error}")


class Ring:
    """The socket and its ring. Raises OSError as the system does."""

    def __init__(self, interface: str) -> None:
        # Protocol 0: nothing is received before the ring is there and the socket is bound to the interface.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            self._open(interface)
        except OSError:
            self._socket.close()
            raise
        self._next = 0
        self._drops = 0
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def _open(self, interface: str) -> None:
        size = BLOCK_BYTES * RING_BLOCKS
        request = _RING_REQUEST.pack(
            BLOCK_BYTES, RING_BLOCKS, _FRAME_BYTES, size // _FRAME_BYTES, RETIRE_MS, 0, 0
        )
        self._socket.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V3)
        # Room for the VLAN tags that the kernel takes out of packets.
        self._socket.setsockopt(_SOL_PACKET, _RESERVE, _TAG_BYTES)
        self._socket.setsockopt(_SOL_PACKET, _RX_RING, request)
        self._memory = mmap.mmap(self._socket.fileno(), size)
        self._socket.bind((interface, _ETH_P_ALL))
        self._raise_pending()
        self.hardware: int = self._socket.getsockname()[3]
        """The interface's ARPHRD_ value."""
        # A port that mirrors others receives packets for their addresses.
        membership = _MEMBERSHIP.pack(socket.if_nametoindex(interface), _PROMISCUOUS, 0)
        self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, membership)
        if self.hardware == _LOOPBACK:
            # Not before Linux 4.20: there, leaving them out is left to `read_ring_block`.
            with suppress(OSError):
                self._socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)

    def _raise_pending(self) -> None:
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))

    def take(self) -> bytes | None:
        """The next block, given back to the kernel; None if there is none within `RETIRE_MS`.

        Raises OSError when the interface goes down; what the ring holds then can still be taken.
        """
        base = self._next * BLOCK_BYTES
        if not self._is_ready(base):
            if not self._poll.poll(RETIRE_MS):
                return None
            self._raise_pending()
            if not self._is_ready(base):
                return None
        length = _BLOCK_HEADER.unpack_from(self._memory, base)[3]
        data = self._memory[base : base + length]
        _STATUS.pack_into(self._memory, base + _STATUS_AT, _KERNEL)
        self._next = (self._next + 1) % RING_BLOCKS
        return data

    def _is_ready(self, base: int) -> bool:
        return bool(_STATUS.unpack_from(self._memory, base + _STATUS_AT)[0] & _USER)

    def drops(self) -> int:
        """Packets that the kernel has dropped so far because the ring was full."""
        # The kernel counts anew from each look.
        row = self._socket.getsockopt(_SOL_PACKET, _STATISTICS, _STATISTICS_ROW.size)
        dropped = _STATISTICS_ROW.unpack(row)[1]
        self._drops += dropped
        return self._drops

    def close(self) -> None:
        self._memory.close()
        self._socket.close()


class Live:
    """Iterates the packets of an interface in blocks, each as soon as it is there, until it is told to stop, the time
    is over, the packets are enough, or the interface goes down.

    It has the attributes of a `Timeline`; the interface stands for the file.
    """

    bytes_total = None

    def __init__(self, interface: str, ring: Ring, duration_ns: int | None, count: int | None) -> None:
        if ring.hardware not in LINK_TYPES:
            ring.close()
            raise CaptureError(f"{interface}: packets of its kind (ARPHRD {ring.hardware}) cannot be read")
        self.files = [interface]
        self.errors: list[CaptureError] = []
        self.secrets: list[bytes] = []
        self.packets = 0
        self.bytes_read = 0
        self._ring = ring
        self._count = count
        self._deadline = None if duration_ns is None else time.monotonic_ns() + duration_ns
        self._end: int | None = None
        self._patience = 0
        self._drops = 0
        self._blocks = self._read()

    def __iter__(self) -> Iterator[Block]:
        return self._blocks

    @property
    def kernel_drops(self) -> int:
        """Packets that found no room up to the end of the capture."""
        return self._drops if self._end is not None else self._ring.drops()

    def stop(self) -> None:
        """End with the packets up to now: those in the ring are still handed on. A signal handler may call it."""
        if self._end is None:
            # Counted now: what is dropped while the ring is emptied was never asked for.
            self._drops = self._ring.drops()
            self._patience = time.monotonic_ns() + 2 * RETIRE_MS * 1_000_000
            self._end = time.time_ns()

    def close(self) -> None:
        """Close the socket; for whoever stops before the end."""
        self.stop()
        self._blocks.close()
        self._ring.close()

    def _read(self) -> Generator[Block]:
        hardware = self._ring.hardware
        while True:
            if self._deadline is not None and time.monotonic_ns() >= self._deadline:
                self.stop()
            data = self._take()
            if data is None:
                # The last packets may be in a block that the kernel still fills.
                if self._end is not None and time.monotonic_ns() >= self._patience:
                    return
                continue
            block = read_ring_block(data, self.packets + 1, LINK_TYPES[hardware], hardware == _LOOPBACK)
            size = self._wanted(block)
            self.packets += size
            self.bytes_read += sum(block.wire_lengths[:size])
            ended = size < len(block) or self.packets == self._count
            if ended:
                self.stop()
            if size:
                yield block if size == len(block) else slice_block(block, 0, size)
            if ended:
                return

    def _take(self) -> bytes | None:
        try:
            return self._ring.take()
        except OSError as error:
            self.errors.append(_clear(self.files[0], error))
            self.stop()
            return None

    def _wanted(self, block: Block) -> int:
        """How many packets of a block come before the end."""
        size = len(block)
        if self._count is not None:
            size = min(size, self._count - self.packets)
        if self._end is not None:
            late = (index for index, at in enumerate(block.times) if at is not None and at > self._end)
            size = min(size, next(late, size))
        return size


def read_ring_block(data: bytes, first_frame: int, link_type: int, without_outgoing: bool) -> Block:
    """The packets of a block of the ring.

    `without_outgoing`: on the loopback interface each packet comes twice, as sent and as received; libpcap too
    leaves out the one sent. A VLAN tag that the kernel (or the network card) took out is put back.
    """
    block = new_block(data, first_frame)
    tags: list[tuple[int, int, int]] = []
    _, packets, at, _ = _BLOCK_HEADER.unpack_from(data)
    for _ in range(packets):
        step, seconds, ns, captured, length, status, header, tag, tpid, kind = _PACKET.unpack_from(data, at)
        if not (without_outgoing and kind == _OUTGOING):
            start = at + header
            end = start + captured
            if status & _VLAN_VALID and captured >= _ADDRESSES_BYTES:
                start -= _TAG_BYTES
                length += _TAG_BYTES
                tags.append((start, tpid if status & _VLAN_TPID_VALID else _TPID, tag))
            block.times.append(seconds * _NS_PER_SECOND + ns)
            block.starts.append(start)
            block.ends.append(end)
            block.wire_lengths.append(length)
            block.link_types.append(link_type)
        at += step
    if tags:
        block.data = _with_tags(data, tags)
    return block


def _with_tags(data: bytes, tags: list[tuple[int, int, int]]) -> bytes:
    """Put each tag behind the addresses, which move to the front, to `start`."""
    room = bytearray(data)
    for start, tpid, tag in tags:
        addresses = start + _TAG_BYTES
        tag_at = start + _ADDRESSES_BYTES
        room[start:tag_at] = data[addresses : addresses + _ADDRESSES_BYTES]
        room[tag_at : tag_at + _TAG_BYTES] = pack(">HH", tpid, tag)
    return bytes(room)
