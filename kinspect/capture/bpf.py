"""Filters that run in the kernel: classic BPF programs (linux/filter.h), compiled by libpcap through scapy."""

from __future__ import annotations

import re
import socket
from array import array
from struct import Struct, pack
from typing import NamedTuple

from kinspect.capture.tpacket import COOKED
from kinspect.errors import CaptureError

_SO_ATTACH_FILTER = 26
_INSTRUCTION = Struct("=HBBI")

# The class of an instruction, and its mode.
_CLASS, _LD, _LDX, _RET = 0x07, 0x00, 0x01, 0x06
_MODE, _ABSOLUTE, _INDIRECT, _HEADER_LENGTH = 0xE0, 0x20, 0x40, 0xA0
_RETURN_CONSTANT = 0x06

# A cooked socket's packets begin behind the link header, and the kernel gives the header's fields separately
# (SKF_AD_PROTOCOL, _IFINDEX, _HATYPE, _PKTTYPE): these, by their offsets in LINKTYPE_LINUX_SLL2.
_COOKED_BYTES = 20
_ANCILLARY = 0xFFFFF000
_COOKED_FIELDS = {0: _ANCILLARY, 4: _ANCILLARY + 8, 8: _ANCILLARY + 28, 10: _ANCILLARY + 4}

# The keyword that tests for tags; not names that contain the word, as of a host `vlan-gw` or `a.vlan`, nor a name
# escaped with a backslash.
_VLAN = re.compile(r"(?<![\w.\\-])vlan(?![\w.-])")


class Instruction(NamedTuple):
    code: int
    if_true: int
    if_false: int
    value: int


def whole(snaplen: int) -> list[Instruction]:
    """Program that takes `snaplen` bytes of every packet."""
    return [Instruction(_RETURN_CONSTANT, 0, 0, snaplen)]


def compiled(text: str, link_type: int, snaplen: int) -> list[Instruction]:
    """Program of a filter in tcpdump's syntax, for packets of a link type; it takes `snaplen` bytes of each packet.

    Raises CaptureError.
    """
    if looks_for_tags(text):
        raise CaptureError(
            "--bpf: the kernel takes VLAN tags out of packets before it filters, so that `vlan` would match none"
            " of them; leave it out: packets of every VLAN are filtered by what is behind the tag"
        )
    try:
        # Imported only when needed: it takes longer to load than everything else.
        from scapy.arch.common import compile_filter
        from scapy.error import Scapy_Exception

        program = compile_filter(text, linktype=link_type)
    except ImportError:
        raise CaptureError("--bpf: needs libpcap (package libpcap0.8) to compile the filter") from None
    except Scapy_Exception as error:
        why = re.search(r"\((.*)\)$", str(error), re.DOTALL)
        raise CaptureError(f"--bpf: {text!r}: {why[1] if why else error}") from None
    found = [program.bf_insns[index] for index in range(program.bf_len)]
    rows = [Instruction(row.code, row.jt, row.jf, row.k) for row in found]
    if link_type == COOKED:
        rows = [_behind_cooked(row) for row in rows]
    return [
        row._replace(value=snaplen) if row.code == _RETURN_CONSTANT and row.value else row for row in rows
    ]


def looks_for_tags(text: str) -> bool:
    """True if a filter asks for VLAN tags."""
    return _VLAN.search(text) is not None


def _behind_cooked(row: Instruction) -> Instruction:
    """An instruction adapted to a cooked socket's packet, which has no link header."""
    mode = row.code & _MODE
    loads = row.code & _CLASS == _LD and mode in (_ABSOLUTE, _INDIRECT)
    if not loads and not (row.code & _CLASS == _LDX and mode == _HEADER_LENGTH):
        return row
    if row.value >= _COOKED_BYTES:
        return row._replace(value=row.value - _COOKED_BYTES)
    if row.value not in _COOKED_FIELDS:
        raise CaptureError("--bpf: looks at a part of the link header that the kernel does not tell of `any`")
    return row._replace(value=_COOKED_FIELDS[row.value])


def attach(target: socket.socket, program: list[Instruction]) -> None:
    """Attach a program to a socket as its filter. Raises OSError."""
    code = array("B", b"".join(_INSTRUCTION.pack(*row) for row in program))
    address, _ = code.buffer_info()
    target.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, pack("HP", len(program), address))
