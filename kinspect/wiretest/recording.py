"""Streams of connections as packets of a pcapng file, as if they had been captured on their way."""

from __future__ import annotations

import time
from ipaddress import ip_address
from typing import BinaryIO, Final

from kinspect.capture.writer import PcapngWriter
from kinspect.exports.plaintext import LARGEST, PSH, tcp_packet
from kinspect.model import ACK, FIN, RST, SYN

RAW_IP: Final = 101
"""LINKTYPE_RAW."""
CLIENT, BROKER = 0, 1
BYTES_MOST: Final = 1 << 30
"""Bytes of payload that are recorded; the file is a little larger."""

Place = tuple[str, int]


class Recording:
    """A file of packets. `missed`: payload that there was no room for. Used by one thread at a time."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._writer = file, PcapngWriter(file)
        self._interface = self._writer.interface(RAW_IP)
        self._room = BYTES_MOST
        self._last = 0
        self.missed = 0

    def open(self, client: Place, broker: Place) -> RecordedStream:
        """Record a connection that begins."""
        return RecordedStream(self, client, broker)

    def packet(self, data: bytes, payload: int) -> None:
        """Write a packet, now, if there is room for its payload."""
        if payload > self._room:
            self.missed += payload
            return
        self._room -= payload
        self._last = max(self._last, time.time_ns())
        self._writer.packet(self._interface, self._last, data, len(data))

    def flush(self) -> None:
        """Let others read what was written."""
        self._file.flush()


class RecordedStream:
    """A connection of a recording. Bytes that there was no room for are missing in it."""

    def __init__(self, recording: Recording, client: Place, broker: Place) -> None:
        self._recording = recording
        self._ends = [(ip_address(host).packed, port) for host, port in (client, broker)]
        self._numbers, self._packets = [0, 0], 0
        self._is_over = [False, False]
        self._put(CLIENT, SYN)
        self._put(BROKER, SYN | ACK)
        self._put(CLIENT, ACK)

    def data(self, direction: int, data: bytes) -> None:
        """Bytes that one side sent."""
        for start in range(0, len(data), LARGEST):
            self._put(direction, PSH | ACK, data[start : start + LARGEST])

    def end(self, direction: int) -> None:
        """One side sends no more."""
        if not self._is_over[direction]:
            self._is_over[direction] = True
            self._put(direction, FIN | ACK)

    def reset(self, direction: int) -> None:
        """One side reset the connection."""
        if not self._is_over[direction]:
            self._is_over = [True, True]
            self._put(direction, RST | ACK)

    def _put(self, direction: int, flags: int, payload: bytes = b"") -> None:
        numbers, self._packets = self._numbers, self._packets + 1
        acknowledged = numbers[1 - direction] if flags & ACK else 0
        ends = self._ends[direction], self._ends[1 - direction]
        packet = tcp_packet(*ends, numbers[direction], acknowledged, flags, payload, self._packets)
        self._recording.packet(packet, len(payload))
        numbers[direction] += len(payload) + bool(flags & (SYN | FIN))
