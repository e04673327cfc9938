"""Packets of an interface from a memory-mapped ring of an AF_PACKET socket (packet(7), Linux's
Documentation/networking/packet_mmap.rst).

The kernel fills the ring block by block, TPACKET_V3: a block holds many packets with nanosecond times, and is handed
over when it is full or `RETIRE_MS` after its first packet. Packets that find no room are dropped and counted. Unlike a
large socket buffer, the ring needs no right beyond CAP_NET_RAW, and that only when the socket is created.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import socket
import time
from contextlib import suppress
from struct import Struct

from kinspect.capture import bpf
from kinspect.capture.tpacket import BLOCK_HEADER, COOKED, LINK_TYPES, LOOPBACK, ROOM_BYTES
from kinspect.errors import CaptureError

ANY = "any"
"""Name that stands for all interfaces."""
BLOCK_BYTES = 256 * 1024
"""Size of a block of the ring; no packet can be longer (libpcap's limit is the same)."""
RING_BYTES = 64 * 1024 * 1024
MOST_RING_BYTES = 1024 * 1024 * 1024
"""Largest ring allowed: the kernel allocates all of it at once, if need be by killing other processes."""
RETIRE_MS = 20
_LAST_BLOCK_S = 5 * RETIRE_MS / 1000

# linux/if_packet.h and linux/if_ether.h.
_SOL_PACKET = 263
_ADD_MEMBERSHIP, _RX_RING, _STATISTICS, _VERSION, _RESERVE, _IGNORE_OUTGOING = 1, 5, 6, 10, 12, 23
_TPACKET_V3 = 2
_PROMISCUOUS = 1
_ETH_P_ALL = 3
_HARDWARE_AT = 3
"""Index in the address of a packet socket."""

# `tpacket_req3`: block size, blocks, frame size, frames, milliseconds until a block is handed over, size of private
# data, features. Version 3 has frames of any size, but checks these numbers.
_RING_REQUEST = Struct("=7I")
_FRAME_BYTES = 2048
# `packet_mreq`: interface, type, address length, address.
_MEMBERSHIP = Struct("=iHH8x")
# `tpacket_stats_v3`: packets, drops, times the queue was frozen.
_STATISTICS_ROW = Struct("=3I")
# linux/sockios.h and linux/if.h: `ifreq` of a name, with flags or the kind of hardware behind it.
_GET_FLAGS, _GET_HARDWARE = 0x8913, 0x8927
_REQUEST = Struct("=16sH22x")
_UP = 1

_STATUS = Struct("=I")
_STATUS_AT = 8
_KERNEL, _USER = 0, 1


def interface_error(interface: str, error: OSError) -> CaptureError:
    """Error for the user about an interface that failed."""
    advice = {
        errno.ENETDOWN: "the interface is down",
        errno.ENODEV: "the interface is gone",
        errno.ENXIO: "the interface is gone",
        errno.ENOMEM: "the kernel has not the memory for the ring; give a smaller --buffer",
    }
    return CaptureError(f"{interface}: {advice.get(error.errno or 0) or error.strerror or error}")


class Ring:
    """The socket and its ring. Raises OSError as the system does.

    Only creating one needs the right to capture; nothing is received before `start`.
    """

    def __init__(self, interface: str) -> None:
        self.interface = interface
        self._socket = (
            # Without an interface it receives packets from the start; they are discarded when the ring is set up.
            socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL))
            if interface == ANY
            else socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        )
        self._memory: mmap.mmap | None = None
        self._blocks = 0
        self._next = 0
        self._drops = 0
        self._down = 0
        try:
            self._bind(0)
        except OSError:
            self._socket.close()
            raise
        self.hardware: int = self._socket.getsockname()[_HARDWARE_AT]
        """The interface's ARPHRD_ value."""

    @property
    def link_type(self) -> int:
        """LINKTYPE_ value of the packets; -1 if not known."""
        return COOKED if self.interface == ANY else LINK_TYPES.get(self.hardware, -1)

    def fileno(self) -> int:
        return self._socket.fileno()

    def start(self, size: int, program: list[bpf.Instruction] | None) -> None:
        """Receive packets from now on, those that `program` accepts, into a ring of about `size` bytes."""
        self._blocks = max(size // BLOCK_BYTES, 2)
        size = self._blocks * BLOCK_BYTES
        request = _RING_REQUEST.pack(
            BLOCK_BYTES, self._blocks, _FRAME_BYTES, size // _FRAME_BYTES, RETIRE_MS, 0, 0
        )
        if program is not None:
            bpf.attach(self._socket, program)
        self._socket.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V3)
        self._socket.setsockopt(_SOL_PACKET, _RESERVE, ROOM_BYTES)
        self._socket.setsockopt(_SOL_PACKET, _RX_RING, request)
        self._memory = mmap.mmap(self._socket.fileno(), size)
        if self.interface != ANY:
            # Fails before Linux 4.20: there `read_ring_block` leaves them out.
            with suppress(OSError):
                self._socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, self._is_loopback)
            self._listen_to_all()
        self._bind(_ETH_P_ALL)
        if error := self._pending():
            raise OSError(error, os.strerror(error))
        self.drops()
        self._drops = 0

    def reopen(self) -> bool:
        """Receive packets again after the interface went down; False if it is not there, not up, or of another kind.
        It may be another one of the same name. No right is needed."""
        try:
            if not self._asked(_GET_FLAGS) & _UP or self._asked(_GET_HARDWARE) != self.hardware:
                return False
            self._bind(_ETH_P_ALL)
            if self._pending():
                return False
            self._listen_to_all()
        except OSError:
            return False
        self._down = 0
        return True

    def _asked(self, what: int) -> int:
        """What the system says of the interface. Raises OSError if there is none."""
        request = _REQUEST.pack(self.interface.encode(), 0)
        return int(_REQUEST.unpack(fcntl.ioctl(self._socket, what, request))[1])

    def _listen_to_all(self) -> None:
        # A mirror port receives packets for other hosts' addresses.
        membership = _MEMBERSHIP.pack(socket.if_nametoindex(self.interface), _PROMISCUOUS, 0)
        self._socket.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, membership)

    @property
    def _is_loopback(self) -> bool:
        return self.hardware == LOOPBACK

    def _bind(self, protocol: int) -> None:
        if self.interface != ANY:
            self._socket.bind((self.interface, protocol))

    def _pending(self) -> int:
        """The socket's error, 0 if there is none; the system reports it once."""
        return self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def take(self) -> bytes | None:
        """Copy the next block and return its memory to the kernel; None if there is none.

        Raises OSError when the interface has gone down, after everything in the ring was taken.
        """
        memory = self._memory
        assert memory is not None
        base = self._next * BLOCK_BYTES
        if not _is_handed_over(memory, base):
            self._down = self._down or self._pending()
            if not self._down:
                return None
            # The kernel still hands over the last block when its timeout expires, although the interface is down.
            time.sleep(_LAST_BLOCK_S)
            if not _is_handed_over(memory, base):
                raise OSError(self._down, os.strerror(self._down))
        length = BLOCK_HEADER.unpack_from(memory, base)[3]
        data = memory[base : base + length]
        _STATUS.pack_into(memory, base + _STATUS_AT, _KERNEL)
        self._next = (self._next + 1) % self._blocks
        return data

    def drops(self) -> int:
        """Packets that the kernel has dropped so far because the ring was full."""
        # Reading the kernel's count resets it.
        row = self._socket.getsockopt(_SOL_PACKET, _STATISTICS, _STATISTICS_ROW.size)
        self._drops += _STATISTICS_ROW.unpack(row)[1]
        return self._drops

    def close(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        self._socket.close()


def _is_handed_over(memory: mmap.mmap, base: int) -> bool:
    return bool(_STATUS.unpack_from(memory, base + _STATUS_AT)[0] & _USER)
