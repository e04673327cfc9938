"""Writes pcapng files (draft-ietf-opsawg-pcapng): little-endian, times in nanoseconds.

    with open("some.pcapng", "wb") as file:
        writer = PcapngWriter(file)
        ethernet = writer.interface(1, "eth0")
        writer.packet(ethernet, time_ns, data, wire_length)

The functions return single blocks, for callers that assemble files themselves.
"""

from __future__ import annotations

from struct import Struct
from typing import BinaryIO, Final

from kinspect.capture import pcapng as read

_FRAME: Final = Struct("<II")
_LENGTH: Final = Struct("<I")
_OPTION: Final = Struct("<HH")
_SECTION: Final = Struct("<IHHq")
_INTERFACE: Final = Struct("<HHI")
_PACKET: Final = Struct("<IIIIIII")
_STATISTICS: Final = Struct("<III")
_U64: Final = Struct("<Q")

_BYTE_ORDER: Final = 0x1A2B3C4D
_LENGTH_UNKNOWN: Final = -1
_SHB_USERAPPL: Final = 4
_IF_NAME: Final = 2
_IF_FILTER: Final = 11
_FILTER_IS_TEXT: Final = b"\0"
_ISB_ENDTIME: Final = 3

PACKET_OVERHEAD: Final = 32
"""Bytes of a packet block beside the packet, which is padded to a multiple of four."""
LATEST_NS: Final = read.LATEST
"""Latest time that kinspect would read; the format has room for later ones."""


def section(*options: tuple[int, bytes]) -> bytes:
    """Section header block, which a file starts with. `options`: code and value of each."""
    body = _SECTION.pack(_BYTE_ORDER, 1, 0, _LENGTH_UNKNOWN)
    return block_of(read.SECTION, body + written_options(*options, (_SHB_USERAPPL, b"kinspect")))


def interface_block(
    link_type: int, name: str = "", snaplen: int = 0, filter_text: str = "", digits: int = 9
) -> bytes:
    """Interface block; packets refer to it by its index within the section, from 0. `snaplen` 0: no limit; `digits`: of
    the fractions of seconds."""
    options = [(read.IF_TSRESOL, bytes([digits]))]
    if name:
        options.append((_IF_NAME, _encoded(name)))
    if filter_text:
        options.append((_IF_FILTER, _FILTER_IS_TEXT + _encoded(filter_text)))
    return block_of(read.INTERFACE, _INTERFACE.pack(link_type, 0, snaplen) + written_options(*options))


def packet_block(interface: int, time_ns: int, data: bytes, original_length: int) -> bytes:
    """Enhanced packet block. Raises ValueError for a time that could not be read again."""
    if not 0 <= time_ns <= LATEST_NS:
        raise ValueError(f"{time_ns} ns is no time that could be read again")
    return enhanced_block(interface, time_ns, data, original_length)


def enhanced_block(
    interface: int, ticks: int, data: bytes, original_length: int, options: bytes = b""
) -> bytes:
    """Enhanced packet block of an interface with any resolution. `options`: see `written_options`."""
    captured = len(data)
    padding = -captured % 4
    length = PACKET_OVERHEAD + captured + padding + len(options)
    head = _PACKET.pack(
        read.ENHANCED_PACKET,
        length,
        interface,
        *_ticks(ticks),
        captured,
        original_length,
    )
    return b"".join((head, data, bytes(padding), options, _LENGTH.pack(length)))


def interface_of(block: bytes) -> int:
    """The number of the interface in an enhanced packet block."""
    number: int = _PACKET.unpack_from(block)[2]
    return number


def statistics_block(interface: int, start_ns: int, end_ns: int, dropped: int) -> bytes:
    """Statistics block: packets that the operating system dropped on an interface since the start of the capture."""
    return block_of(
        read.STATISTICS,
        _STATISTICS.pack(interface, *_ticks(end_ns))
        + written_options(
            (read.ISB_STARTTIME, _FRAME.pack(*_ticks(start_ns))),
            (_ISB_ENDTIME, _FRAME.pack(*_ticks(end_ns))),
            (read.ISB_OSDROP, _U64.pack(dropped)),
        ),
    )


def secrets_block(text: bytes) -> bytes:
    """Secrets block with lines of a TLS key log, to be placed before the packets they are for."""
    return block_of(read.SECRETS, _FRAME.pack(read.TLS_KEY_LOG, len(text)) + _padded(text))


class PcapngWriter:
    """A file being written, to be closed by the caller. Raises the file's OSErrors."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._interfaces = 0
        file.write(section())

    def interface(self, link_type: int, name: str = "", snaplen: int = 0, filter_text: str = "") -> int:
        """Describe an interface; returns its number for `packet`. `link_type`: LINKTYPE_ value."""
        self._file.write(interface_block(link_type, name, snaplen, filter_text))
        self._interfaces += 1
        return self._interfaces - 1

    def packet(self, interface_id: int, time_ns: int, data: bytes, original_length: int) -> None:
        """Write a packet. `time_ns`: since the epoch; `original_length`: its bytes on the wire.

        Raises ValueError for an interface that was not described, and for a time before 1970 or after 2116.
        """
        if not 0 <= interface_id < self._interfaces:
            raise ValueError(f"interface {interface_id} was not described")
        self._file.write(packet_block(interface_id, time_ns, data, original_length))

    def secrets(self, text: bytes) -> None:
        """Write lines of a TLS key log (NSS key log format), before the packets they are for."""
        self._file.write(secrets_block(text))


def block_of(kind: int, body: bytes) -> bytes:
    """A block of any kind; `body`: what stands between its lengths, a multiple of four bytes."""
    length = _FRAME.size + len(body) + _LENGTH.size
    return b"".join((_FRAME.pack(kind, length), body, _LENGTH.pack(length)))


def written_options(*rows: tuple[int, bytes]) -> bytes:
    """Options of a block, by code and value, with their end."""
    written = [_OPTION.pack(code, len(value)) + _padded(value) for code, value in rows]
    return b"".join([*written, _OPTION.pack(read.END_OF_OPTIONS, 0)])


def _padded(value: bytes) -> bytes:
    return value + bytes(-len(value) % 4)


def _encoded(text: str) -> bytes:
    """UTF-8, as the format requires, cut to what an option has room for."""
    return text.encode(errors="replace")[:0xFFF0]


def _ticks(time_ns: int) -> tuple[int, int]:
    return time_ns >> 32, time_ns & 0xFFFFFFFF
