"""Link layers: the headers before the network layer.

Sources: the LINKTYPE_ registry (tcpdump.org/linktypes.html), IEEE 802.3, 802.1Q and 802.1BR (E-Tag), RFC 1042 (SNAP),
RFC 4391 (IPoIB), new-pelissier-vntag-seg-0508 of IEEE 802.1 (VN-Tag).

A VLAN id names a network and goes into the segment's key. VN-Tag and E-Tag name ports of a switch, the sender's and the
receiver's, which change places with the direction and do not tell connections apart.
"""

from __future__ import annotations

from typing import Final

from kinspect.link.cursor import ETHERTYPE, Cursor

IPV4: Final = ETHERTYPE + 0x0800
IPV6: Final = ETHERTYPE + 0x86DD

# BSD's null header holds an address family, whose number for IPv6 differs from system to system (NetBSD and
# OpenBSD 24, FreeBSD 28, Darwin 30, Linux 10).
FAMILIES: Final = {2: IPV4, 10: IPV6, 24: IPV6, 28: IPV6, 30: IPV6}

SNAP: Final = b"\xaa\xaa\x03\x00\x00\x00"
LLC_ETHERTYPE: Final = 0x0004  # Linux cooked: "802.2 LLC follows"


def ethernet(cursor: Cursor) -> int:
    """Ethernet II, or 802.3 with an LLC header."""
    return _header(cursor, 14)


def vlan(cursor: Cursor) -> int:
    """802.1Q or 802.1ad tag; tags stack, and the innermost two tell networks apart."""
    number = int.from_bytes(cursor.data[cursor.at : cursor.at + 2], "big") & 0xFFF
    cursor.vlan = (cursor.vlan << 12 | number) & 0xFFFFFF
    return _header(cursor, 4)


def vn_tag(cursor: Cursor) -> int:
    """VN-Tag: flags and two virtual interfaces."""
    return _header(cursor, 6)


def e_tag(cursor: Cursor) -> int:
    """E-Tag: flags and two E-channel identifiers."""
    return _header(cursor, 8)


def linux_cooked(cursor: Cursor) -> int:
    """LINKTYPE_LINUX_SLL."""
    return _header(cursor, 16)


def linux_cooked_2(cursor: Cursor) -> int:
    """LINKTYPE_LINUX_SLL2."""
    if not cursor.has(20):
        return cursor.stop_short()
    at = cursor.at
    cursor.at = at + 20
    return _typed(cursor, int.from_bytes(cursor.data[at : at + 2], "big"))


def ipoib(cursor: Cursor) -> int:
    """LINKTYPE_IPOIB: 40 bytes with a global routing header or addresses, then the header of RFC 4391 §6."""
    if not cursor.has(44):
        return cursor.stop_short()
    at = cursor.at
    cursor.at = at + 44
    return ETHERTYPE + int.from_bytes(cursor.data[at + 40 : at + 42], "big")


def null(cursor: Cursor) -> int:
    """LINKTYPE_NULL (the family in the capturing host's byte order) and LINKTYPE_LOOP (in network order)."""
    if not cursor.has(4):
        return cursor.stop_short()
    at = cursor.at
    cursor.at = at + 4
    field = cursor.data[at : at + 4]
    # A family is a small number, so only one of the two orders gives a known one.
    family = min(int.from_bytes(field, "big"), int.from_bytes(field, "little"))
    return FAMILIES.get(family) or cursor.stop(f"address family {family}")


def raw_ip(cursor: Cursor) -> int:
    """LINKTYPE_RAW: an IPv4 or IPv6 header comes first, told apart by its version nibble."""
    if not cursor.has(1):
        return cursor.stop_short()
    version = cursor.data[cursor.at] >> 4
    if version == 4:
        return IPV4
    return IPV6 if version == 6 else cursor.stop("malformed")


def raw_ipv4(cursor: Cursor) -> int:
    """LINKTYPE_IPV4."""
    return IPV4


def raw_ipv6(cursor: Cursor) -> int:
    """LINKTYPE_IPV6."""
    return IPV6


def _header(cursor: Cursor, size: int) -> int:
    """Header of `size` bytes, the last two of which are the ethertype."""
    if not cursor.has(size):
        return cursor.stop_short()
    cursor.at = at = cursor.at + size
    return _typed(cursor, int.from_bytes(cursor.data[at - 2 : at], "big"))


def _typed(cursor: Cursor, value: int) -> int:
    """Ethertype field, which below 0x600 is the length of an 802.3 frame with an LLC header."""
    if value >= 0x600:
        return ETHERTYPE + value
    if value > LLC_ETHERTYPE:
        cursor.bound(min(cursor.wire_end, cursor.at + value))
    elif value != LLC_ETHERTYPE:
        return cursor.stop("802.3")
    if not cursor.has(8) or cursor.data[cursor.at : cursor.at + 6] != SNAP:
        return cursor.stop("802.3")
    at = cursor.at
    cursor.at = at + 8
    return ETHERTYPE + int.from_bytes(cursor.data[at + 6 : at + 8], "big")
