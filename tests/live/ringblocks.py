"""Blocks of a ring as the kernel fills them."""

from __future__ import annotations

import struct

HOST, OUTGOING = 0, 4
ETHERNET, LOOPBACK = 1, 772
SECOND = 1_700_000_000
_FIRST_AT, _LINK_AT = 48, 112


def packet(ns=0, data=b"\0" * 60, length=None, status=1, tag=0, tpid=0, kind=HOST):
    return (ns, data, len(data) if length is None else length, status, tag, tpid, kind)


def ring_block(packets, hardware=ETHERNET, protocol=0, interface=1):
    """A ring's block of packets: nanoseconds, bytes, wire length, status, tag, its ethertype, packet type."""
    rows = []
    for ns, data, length, status, tag, tpid, kind in packets:
        size = (_LINK_AT + len(data) + 15) // 16 * 16
        seconds = (size, SECOND, ns, len(data), length, status, _LINK_AT, _LINK_AT + 14)
        header = struct.pack("=6IHHIIHH8x", *seconds, 0, tag, tpid, 0)
        address = struct.pack(
            "=H2siHBB8s", 17, protocol.to_bytes(2), interface, hardware, kind, 6, b"address!"
        )
        rows.append((header + address).ljust(_LINK_AT, b"\0") + data.ljust(size - _LINK_AT, b"\0"))
    body = b"".join(rows)
    header = struct.pack("=IIIIII", 3, 0, 1, len(rows), _FIRST_AT, _FIRST_AT + len(body))
    return header.ljust(_FIRST_AT, b"\0") + body
