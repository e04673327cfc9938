"""The parts of a segment's key: two addresses, two ports, and the scope they are unique in."""

from __future__ import annotations

NETWORK = 5
"""How many bytes of a scope a tunnel takes; what remains at the end are VLAN ids."""

_IPV4, _IPV6 = 12, 36


def address_size(key: bytes) -> int:
    """How long an address is. A scope is too short to make the key of IPv4 ends as long as one of IPv6 ends."""
    return 4 if len(key) < _IPV6 else 16


def ends(key: bytes) -> bytes:
    """The key without its scope."""
    return key[: _IPV4 if len(key) < _IPV6 else _IPV6]


def pair(key: bytes) -> bytes:
    """The ends, the same for both directions and in every scope."""
    here = ends(key)
    return min(here, reverse_key(here))


def scope(key: bytes) -> bytes:
    """The tunnels and VLANs the packet was in."""
    return key[_IPV4 if len(key) < _IPV6 else _IPV6 :]


def tunnels(of_scope: bytes) -> bytes:
    return of_scope[: len(of_scope) - len(of_scope) % NETWORK]


def reverse_key(key: bytes) -> bytes:
    """The key that segments of the other direction carry."""
    size = address_size(key)
    ports = 2 * size
    return (
        key[size:ports] + key[:size] + key[ports + 2 : ports + 4] + key[ports : ports + 2] + key[ports + 4 :]
    )
