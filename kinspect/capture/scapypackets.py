"""Packets of scapy as rows of a block. scapy itself is never imported: who has a packet of it has loaded it."""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from kinspect.errors import CaptureError
from kinspect.model import NS_PER_SECOND

SECONDS_MOST = 1 << 63
"""Seconds before or after 1970 from which on a time is none."""
LINK_TYPES = range(1 << 16)


class ScapyPacket(Protocol):
    """Members of scapy's `Packet` that are used, beside its class and `wirelen`."""

    @property
    def time(self) -> Decimal | float: ...
    def __bytes__(self) -> bytes: ...


class PacketRow(NamedTuple):
    """One packet: captured bytes, time (nanoseconds since the epoch), length on the wire in bytes, LINKTYPE_ value."""

    data: bytes
    time: int | None
    wire_length: int
    link_type: int


def is_packet(item: object) -> bool:
    """True for a packet of scapy."""
    module = sys.modules.get("scapy.packet")
    return module is not None and isinstance(item, module.Packet)


class Converter:
    """Makes rows of the packets of one input."""

    def __init__(self) -> None:
        self._link_types: dict[type, int] = {}
        self._last: int | None = None

    def row(self, packet: Any) -> PacketRow:
        """Row of a packet. Raises CaptureError if it has no bytes, or its first layer no link type."""
        link_type = self._last = self._link_type(type(packet))
        try:
            data, time, length = bytes(packet), packet.time, packet.wirelen
        except Exception as error:
            raise CaptureError(f"scapy fails to give its bytes: {error!r}") from error
        known = isinstance(length, int) and length >= 0
        return PacketRow(data, _nanoseconds(time), length if known else len(data), link_type)

    def _link_type(self, layer: type) -> int:
        if layer in self._link_types:
            return self._link_types[layer]
        conf = sys.modules["scapy.config"].conf
        numbers = conf.l2types.layer2num
        found = next((numbers[base] for base in layer.__mro__ if numbers.get(base) in LINK_TYPES), None)
        if found is not None:
            self._link_types[layer] = found
            return int(found)
        # A frame that scapy fails to dissect, of the interface or file that the others are of.
        if layer is conf.raw_layer and self._last is not None:
            return self._last
        raise CaptureError(f"scapy has no link type for {layer.__name__}, its first layer")


def _nanoseconds(seconds: Any) -> int | None:
    """A time in seconds as whole nanoseconds, exactly; None for no time."""
    try:
        if seconds is None or not -SECONDS_MOST < seconds < SECONDS_MOST:
            return None
        numerator, denominator = seconds.as_integer_ratio()
    except ArithmeticError:
        return None
    except (AttributeError, TypeError, ValueError):
        raise CaptureError(f"its time is no number: {seconds!r:.50}") from None
    return int((numerator * NS_PER_SECOND + denominator // 2) // denominator)
