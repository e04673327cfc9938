"""Parts of a segment's key: two addresses, two ports, and the scope in which they are unique."""

from __future__ import annotations

from typing import Final

NETWORK: Final = 5
"""Bytes of a scope per tunnel; the rest at the end are VLAN ids."""

_IPV4: Final = 12
_IPV6: Final = 36


def address_size(key: bytes) -> int:
    """Bytes of an address. A scope is too short to make the key of IPv4 ends as long as one of IPv6 ends."""
    return 4 if len(key) < _IPV6 else 16


def ends(key: bytes) -> bytes:
    """Key without its scope: addresses and ports."""
    return key[: _IPV4 if len(key) < _IPV6 else _IPV6]


def address(key: bytes, receiver: bool) -> tuple[bytes, int]:
    """Address and port of the sender, or of the receiver."""
    size = address_size(key)
    at = size if receiver else 0
    port = 2 * size + (2 if receiver else 0)
    return key[at : at + size], int.from_bytes(key[port : port + 2], "big")


def pair(key: bytes) -> bytes:
    """Addresses and ports in an order that is the same for both directions, without the scope."""
    here = ends(key)
    return min(here, reverse_key(here))


def scope(key: bytes) -> bytes:
    """Tunnels and VLANs that the packet was in."""
    return key[_IPV4 if len(key) < _IPV6 else _IPV6 :]


def tunnels(of_scope: bytes) -> bytes:
    return of_scope[: len(of_scope) - len(of_scope) % NETWORK]


def reverse_key(key: bytes) -> bytes:
    """Key of segments in the other direction."""
    size = address_size(key)
    ports = 2 * size
    return b"".join(
        (key[size:ports], key[:size], key[ports + 2 : ports + 4], key[ports : ports + 2], key[ports + 4 :])
    )
