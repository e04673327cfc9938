"""pcapng files (draft-ietf-opsawg-pcapng): sections, interfaces, packets, statistics and secrets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kinspect.capture.packetnotes import NAMES_READ, names_of, note_of
from kinspect.capture.reader import PACKET_LIMIT, Findings, damaged, new_block, packet_name, truncated
from kinspect.capture.source import Source, SourceHead, read_at_least
from kinspect.model import FRAME_BITS, Block, PacketNote

if TYPE_CHECKING:
    from mypy_extensions import i64

MAGIC: Final = b"\x0a\x0d\x0d\x0a"

# Block types (§4; the packet block is in appendix A).
SECTION: Final = 0x0A0D0D0A
INTERFACE: Final = 1
OLD_PACKET: Final = 2
SIMPLE_PACKET: Final = 3
RESOLUTION: Final = 4
STATISTICS: Final = 5
ENHANCED_PACKET: Final = 6
SECRETS: Final = 10
_PACKETS: Final = (OLD_PACKET, SIMPLE_PACKET, ENHANCED_PACKET)

_BLOCK_OVERHEAD: Final = 12
"""Type, length, and the length again at the end."""
_ENHANCED_OVERHEAD: Final = 32
_WITHOUT_OPTIONS: Final = 35
"""Most bytes of an enhanced packet block beside the packet, if it has no options."""

# Options (§3.5, §4.2, §4.6).
END_OF_OPTIONS: Final = 0
IF_TSRESOL: Final = 9
_IF_FCSLEN: Final = 13
IF_TSOFFSET: Final = 14
ISB_STARTTIME: Final = 2
_ISB_IFDROP: Final = 5
ISB_OSDROP: Final = 7

TLS_KEY_LOG: Final = 0x544C534B

RESOLVED_KEPT: Final = 256
RESOLVED_BYTES: Final = 1 << 16
"""Number of name resolution blocks that are kept of all files, and bytes of each."""

LATEST: Final = (1 << 62) - 1


class ByteOrder:
    """The structures of a section, in its byte order."""

    def __init__(self, mark: str) -> None:
        def unpacker(fields: str) -> Callable[..., tuple[Any, ...]]:
            return Struct(mark + fields).unpack_from

        self.mark = mark
        self.u32 = unpacker("I")
        self.u32_pair = unpacker("II")
        self.u64 = unpacker("Q")
        self.i64 = unpacker("q")
        self.version = unpacker("HH")
        self.option = unpacker("HH")
        self.interface = unpacker("HHI")
        self.old_packet = unpacker("HHIIII")
        self.packet = unpacker("IIIII")
        self.packet_block = unpacker("IIIIIII")


BYTE_ORDER_MARKS: Final = {b"\x4d\x3c\x2b\x1a": ByteOrder("<"), b"\x1a\x2b\x3c\x4d": ByteOrder(">")}


def _known_time(time: int | None) -> int | None:
    """The time; None if it is beyond the years 1823 to 2116 (a broken clock): clocks and timers count up to there."""
    return time if time is not None and -LATEST <= time <= LATEST else None


class _Interface(NamedTuple):
    link_type: int
    snaplen: int
    fcs: int
    # A time in nanoseconds is ticks * numerator // denominator + offset_ns.
    numerator: int
    denominator: int
    offset_ns: int
    most_high: int  # the largest upper 32 bits of ticks with which that is counted in 64 bits


class _DamageError(Exception):
    """An unusable block, behind which nothing can be trusted; becomes a CaptureError with its place."""


def prefix(begin: SourceHead, described: Sequence[bytes]) -> bytes:
    """Section and interface blocks before the packet; a `reader.Prefix`."""
    return b"".join(described)


def read_pcapng(
    head: bytes, source: Source, first_frame: int, block_size: int, findings: Findings
) -> Iterator[Block]:
    """The packets of a pcapng file; a `reader.FormatReader`."""
    walker = _Walker(first_frame, findings)
    data, need, offset = head, _BLOCK_OVERHEAD, 0
    while True:
        data = read_at_least(source, data, need, block_size)
        if not data:
            return
        if len(data) < need:
            raise truncated(source, walker.name_of(data), offset, len(data), need)
        block = new_block(data, walker.frame)
        why = None
        walker.base = offset
        try:
            need = walker.walk(block)
        except _DamageError as damage:
            why = str(damage)
        offset += walker.position
        data = data[walker.position :]
        if len(block):
            walker.name_addresses(block)
            yield block
        if why is not None:
            raise damaged(source, walker.name_of(data), offset, why)


class _Walker:
    """Walks the blocks of a file, and keeps what they say about later ones."""

    def __init__(self, first_frame: int, findings: Findings) -> None:
        self.frame = first_frame
        """Frame reference of the next packet."""
        self.position = 0
        """Position of the first block not walked, in the data walked last."""
        self.base = 0
        """Offset in the file of the data walked."""
        self._file = first_frame >> FRAME_BITS
        self._findings = findings
        self._sections = 0
        self._names: list[tuple[int, bytes, str]] = []  # with the frame reference of the next packet
        self._names_read = 0
        self._order = BYTE_ORDER_MARKS[b"\x4d\x3c\x2b\x1a"]
        self._interfaces: list[_Interface] = []
        self._handlers: dict[int, Callable[[Block, int, int], None]] = {
            SECTION: self._section,
            INTERFACE: self._interface,
            OLD_PACKET: self._old_packet,
            SIMPLE_PACKET: self._simple_packet,
            RESOLUTION: self._resolution,
            STATISTICS: self._statistics,
            ENHANCED_PACKET: self._enhanced_packet,
            SECRETS: self._secrets,
        }

    def name_of(self, data: bytes) -> str:
        """Name in messages of the block that `data` starts with."""
        is_packet = len(data) >= 4 and self._order.u32(data)[0] in _PACKETS
        return packet_name(self.frame) if is_packet else "a block"

    def name_addresses(self, block: Block) -> None:
        """Give a block the names that stand before one of its packets."""
        if self._names:
            first, names = block.first_frame, self._names
            block.names = [(frame - first, ip, name) for frame, ip, name in names if frame < self.frame]
            self._names = [told for told in names if told[0] >= self.frame]

    def walk(self, block: Block) -> int:
        """Append the packets of all complete blocks to `block`.

        Sets `position` and returns the number of bytes needed from there to go on. Raises _DamageError.
        """
        data = block.data
        self.position = 0
        while True:
            self.position = position = self._enhanced_packets(block, self.position)
            have = len(data) - position
            if have < _BLOCK_OVERHEAD:
                return _BLOCK_OVERHEAD
            order = self._order
            if data.startswith(MAGIC, position):
                order = BYTE_ORDER_MARKS.get(data[position + 8 : position + 12], order)
            kind, length = order.u32_pair(data, position)
            if not _BLOCK_OVERHEAD <= length <= PACKET_LIMIT:
                raise _DamageError(f"claims a length of {length} bytes")
            if have < length:
                return int(length)
            again = order.u32(data, position + length - 4)[0]
            if again != length:
                raise _DamageError(f"has a length of {length} bytes at its start and of {again} at its end")
            handler = self._handlers.get(kind)
            if handler is not None:
                handler(block, position + 8, position + length - 4)
            self.position = position + length

    def _enhanced_packets(self, block: Block, position: int) -> int:
        """Fast path for enhanced packet blocks, which nearly all files consist of; stops at the first block that is
        anything else. Returns its position."""
        data = block.data
        unpack, unpack_length = self._order.packet_block, self._order.u32
        interfaces = self._interfaces
        add_time, add_start, add_end = block.times.append, block.starts.append, block.ends.append
        add_wire, add_link_type = block.wire_lengths.append, block.link_types.append
        size = len(data)
        last_header = size - _ENHANCED_OVERHEAD
        before = len(block)
        current = -1
        notes: list[PacketNote] = []
        link_type = fcs = numerator = denominator = offset_ns = most_high = 0
        # Compiled, as in `pcap`.
        ticks: i64
        while position <= last_header:
            kind, length, interface, high, low, captured, wire = unpack(data, position)
            following = position + length
            if kind != ENHANCED_PACKET or following > size or captured > length - _ENHANCED_OVERHEAD:
                break
            if unpack_length(data, following - 4)[0] != length:
                break
            if interface != current:
                if interface >= len(interfaces):
                    break
                current = interface
                link_type, _, fcs, numerator, denominator, offset_ns, most_high = interfaces[interface]
            start = position + 28
            end = start + captured
            if length - captured > _WITHOUT_OPTIONS:
                self._note(notes, len(block.starts), data, end + -captured % 4, following - 4)
            position = following
            if wire != captured or fcs:
                wire = max(max(wire, captured) - fcs, 0)
                end = min(end, start + wire)
            if high <= most_high:
                ticks = high
                ticks = ticks << 32 | low
                add_time(ticks * numerator // denominator + offset_ns)
            else:
                add_time((high << 32 | low) * numerator // denominator + offset_ns)
            add_start(start)
            add_end(end)
            add_wire(wire)
            add_link_type(link_type)
        taken = block.times[before:]
        if taken and (max(taken) > LATEST or min(taken) < -LATEST):  # type: ignore[type-var, operator]
            block.times[before:] = map(_known_time, taken)
        self.frame += len(block) - before
        if notes:
            block.notes = [*block.notes, *notes]
        return position

    def _note(self, notes: list[PacketNote], index: int, data: bytes, start: int, end: int) -> None:
        """Add what the options of a packet tell of who sent it."""
        found = note_of(options(self._order, data, start, end), self._order.mark == ">")
        if found is not None:
            inbound, name, process = found
            notes.append(PacketNote(index, inbound, name, process))

    def _section(self, block: Block, start: int, end: int) -> None:
        order = BYTE_ORDER_MARKS.get(block.data[start : start + 4])
        if order is None:
            raise _DamageError("has no byte order mark")
        _need(start, end, 16)
        major, minor = order.version(block.data, start + 4)
        if major != 1:
            raise _DamageError(f"starts a section of version {major}.{minor}; only version 1 is known")
        self._order = order
        self._interfaces = []
        self._sections += 1
        self._describe(block, start, end)

    def _interface(self, block: Block, start: int, end: int) -> None:
        _need(start, end, 8)
        link_type, _, snaplen = self._order.interface(block.data, start)
        fcs = 0
        numerator, denominator = 1000, 1
        offset_ns = 0
        for code, value in options(self._order, block.data, start + 8, end):
            if code == IF_TSRESOL and value:
                base = 2 if value[0] & 0x80 else 10
                numerator, denominator = 1_000_000_000, base ** (value[0] & 0x7F)
            elif code == IF_TSOFFSET and len(value) >= 8:
                offset_ns = self._order.i64(value)[0] * 1_000_000_000
            elif code == _IF_FCSLEN and value:
                fcs = value[0]
        if numerator % denominator == 0:
            numerator, denominator = numerator // denominator, 1
        small = denominator < LATEST and abs(offset_ns) < LATEST
        most_high = (LATEST // numerator >> 32) - 1 if small else -1
        self._interfaces.append(
            _Interface(link_type, snaplen, fcs, numerator, denominator, offset_ns, most_high)
        )
        self._describe(block, start, end)

    def _describe(self, block: Block, start: int, end: int) -> None:
        """Keep a block as it stands, with its type and both lengths."""
        self._findings.descriptions.append(block.data[start - 8 : end + 4])
        self._findings.described.append((self._file, self.base + start - 8, self.frame))

    def _enhanced_packet(self, block: Block, start: int, end: int) -> None:
        """A packet block that `_enhanced_packets` left, which is damaged: `_packet` reports what is wrong."""
        _need(start, end, 20)
        interface, high, low, captured, wire = self._order.packet(block.data, start)
        self._packet(
            block, interface, high << 32 | low, start=start + 20, captured=captured, wire=wire, limit=end
        )

    def _old_packet(self, block: Block, start: int, end: int) -> None:
        _need(start, end, 20)
        interface, _drops, high, low, captured, wire = self._order.old_packet(block.data, start)
        self._packet(
            block, interface, high << 32 | low, start=start + 20, captured=captured, wire=wire, limit=end
        )

    def _simple_packet(self, block: Block, start: int, end: int) -> None:
        _need(start, end, 4)
        wire = self._order.u32(block.data, start)[0]
        # The block does not say how much was captured: the snap length does, the rest is padding.
        snaplen = self._interfaces[0].snaplen if self._interfaces else 0
        captured = min(wire, snaplen or wire, end - start - 4)
        self._packet(block, 0, None, start=start + 4, captured=captured, wire=wire, limit=end)

    def _packet(
        self,
        block: Block,
        interface: int,
        ticks: int | None,
        *,
        start: int,
        captured: int,
        wire: int,
        limit: int,
    ) -> None:
        if captured > limit - start:
            raise _DamageError(f"claims {captured} captured bytes, its block has room for {limit - start}")
        if interface >= len(self._interfaces):
            raise _DamageError(f"is of interface {interface}, which no block before it describes")
        link_type, _, fcs, numerator, denominator, offset_ns, _ = self._interfaces[interface]
        wire = max(max(wire, captured) - fcs, 0)
        block.times.append(
            None if ticks is None else _known_time(ticks * numerator // denominator + offset_ns)
        )
        block.starts.append(start)
        block.ends.append(start + min(captured, wire))
        block.wire_lengths.append(wire)
        block.link_types.append(link_type)
        self.frame += 1

    def _statistics(self, block: Block, start: int, end: int) -> None:
        _need(start, end, 12)
        interface = self._order.u32(block.data, start)[0]
        run: tuple[int, ...] = (self._file, self._sections)
        drops = []
        for code, value in options(self._order, block.data, start + 12, end):
            if code == ISB_STARTTIME and len(value) >= 8:
                # Counts run from the start of a capture, even if it is rotated over several files.
                run = self._order.u32_pair(value)
            elif code in (_ISB_IFDROP, ISB_OSDROP) and len(value) >= 8:
                drops.append(self._order.u64(value)[0])
        if drops:
            key = (*run, interface)
            self._findings.drops[key] = max(sum(drops), self._findings.drops.get(key, 0))

    def _secrets(self, block: Block, start: int, end: int) -> None:
        _need(start, end, 8)
        kind, length = self._order.u32_pair(block.data, start)
        if kind == TLS_KEY_LOG:
            self._findings.secrets.append(block.data[start + 8 : min(start + 8 + length, end)])

    def _resolution(self, block: Block, start: int, end: int) -> None:
        if self._names_read < NAMES_READ:
            for ip, name in islice(
                names_of(self._order.option, block.data, start, end), NAMES_READ - self._names_read
            ):
                self._names_read += 1
                self._names.append((self.frame, ip, name))
        resolved, found = self._findings.resolved, (self._order.mark, block.data[start:end])
        if resolved is None or found in resolved:
            return
        if len(resolved) < RESOLVED_KEPT and end - start <= RESOLVED_BYTES:
            resolved[found] = None
        else:
            self._findings.resolved_left_out += 1


def options(order: ByteOrder, data: bytes, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Code and value of each option that lies entirely within the block (§3.5)."""
    while start + 4 <= end:
        code, length = order.option(data, start)
        start += 4
        if code == END_OF_OPTIONS or start + length > end:
            return
        yield code, data[start : start + length]
        start += length + -length % 4


def _need(start: int, end: int, size: int) -> None:
    if end - start < size:
        raise _DamageError("is too short for what its type must hold")
