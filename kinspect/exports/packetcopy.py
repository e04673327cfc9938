"""Packets of captures as blocks of a pcapng file, with all that their captures say about them.

Interfaces, resolution of times, options and comments of packets of a pcapng file stay. Numbers are written in the byte
order of the new file, and interfaces that are described alike are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from struct import Struct, error, pack
from typing import TYPE_CHECKING, Final

from kinspect.capture import pcapng
from kinspect.capture.fileformats import beginning
from kinspect.capture.pcap import MAGIC_SIZE, VARIANTS
from kinspect.capture.reader import Findings
from kinspect.capture.save import SaveFiles
from kinspect.capture.source import open_source
from kinspect.capture.timeline import Timeline
from kinspect.capture.writer import block_of, enhanced_block, interface_block, section, written_options
from kinspect.errors import CaptureError
from kinspect.model import FRAME_BITS, NS_PER_US, Block

if TYPE_CHECKING:
    from kinspect.exports.comments import Comments
    from kinspect.exports.plaintext import PlainPacket

COMMENT: Final = 1
_SECTION_TEXTS: Final = (COMMENT, 2, 3)
"""Comment, hardware and operating system of a section."""
_COMMENTS_KEPT: Final = 64

# Options whose values are numbers, by the kind of their block (§4.2, §4.3).
_NUMBERS: Final = {
    pcapng.INTERFACE: {8: "Q", pcapng.IF_TSOFFSET: "q", 16: "Q", 17: "Q"},
    pcapng.ENHANCED_PACKET: {2: "I", 4: "Q", 5: "Q", 6: "I"},
}
_MICROSECONDS, _NANOSECONDS = 6, 9
_NO_TIME: Final = (1 << 64) - 1
_RAW_IP: Final = 101
"""LINKTYPE_RAW."""
DECRYPTED: Final = "decrypted"
REDACTED: Final = "redacted"
"""Interfaces of packets that no capture has."""
_BEFORE_PACKET: Final = 28
"""Bytes of a packet block before the packet."""
_BEFORE_SIMPLE: Final = 12
_END_OF_OPTIONS: Final = 4
Option = tuple[int, bytes]
"""Code and value."""
_SNAPLEN_AT: Final = 16
_SECRETS_BLOCK: Final = 1 << 20
"""Bytes of secrets in a block, and a line more."""

LITTLE: Final = pcapng.BYTE_ORDER_MARKS[b"\x4d\x3c\x2b\x1a"]


def options_of(order: pcapng.ByteOrder, kind: int, data: bytes, start: int, end: int) -> bytes:
    """The options of a block as they are written in this file's byte order."""
    if order is LITTLE:
        return data[start:end]
    numbers = _NUMBERS.get(kind, {})
    found = []
    for code, value in pcapng.options(order, data, start, end):
        form = numbers.get(code)
        if form is not None and len(value) == Struct(f"<{form}").size:
            value = value[::-1]
        found.append((code, value))
    return written_options(*found) if found else b""


def section_of(findings: Findings) -> bytes:
    """The section that the new file begins with: comments of all that were read, and what they ran on if it is one."""
    texts: dict[int, dict[bytes, None]] = {code: {} for code in _SECTION_TEXTS}
    for found in findings.descriptions:
        if found.startswith(pcapng.MAGIC):
            order = pcapng.BYTE_ORDER_MARKS[found[8:12]]
            for code, value in pcapng.options(order, found, 24, len(found) - 4):
                if code in texts and len(texts[code]) < _COMMENTS_KEPT:
                    texts[code][value] = None
    rows = [
        (code, value)
        for code, values in texts.items()
        if code == COMMENT or len(values) == 1
        for value in values
    ]
    return section(*rows)


def resolution(findings: Findings) -> bytes:
    """Name resolution blocks of all captures, each once."""
    blocks: dict[bytes, None] = {}
    for mark, body in findings.resolved or ():
        if mark != LITTLE.mark:
            order = next(each for each in pcapng.BYTE_ORDER_MARKS.values() if each.mark == mark)
            # Records are built like options, and end like them.
            body = written_options(*pcapng.options(order, body, 0, len(body)))
        if not len(body) % 4:
            blocks[block_of(pcapng.RESOLUTION, body)] = None
    return b"".join(blocks)


class PacketCopy:
    """Writes packets of the timeline into `files`. `findings`: those of the captures, read before to their end; `made`:
    the interface of packets that are made."""

    def __init__(
        self, timeline: Timeline, findings: Findings, files: SaveFiles, made: str = DECRYPTED
    ) -> None:
        self._made = interface_block(_RAW_IP, made)
        self._files = files
        self._blocks: list[bytes] = []
        self._interfaces: dict[tuple[bytes, int], int] = {}
        self._timeline = timeline
        described: dict[int, list[tuple[int, bytes]]] = {}
        for (file, _, frame), found in zip(findings.described, findings.descriptions, strict=True):
            described.setdefault(file, []).append((frame, found))
        self._described = described
        self._inputs: dict[int, _Input] = {}
        self.packets = 0

    def secrets(self, lines: Iterable[bytes]) -> None:
        """Write lines of a key log, in blocks that any program reads."""
        text = b""
        for line in lines:
            text += line
            if len(text) >= _SECRETS_BLOCK:
                self._files.secrets(text)
                text = b""
        if text:
            self._files.secrets(text)

    def mix(
        self,
        block: Block | None,
        indexes: Iterable[int],
        made: Sequence[PlainPacket],
        comments: Comments | None,
    ) -> None:
        """Take these packets of the block, and among them packets that were made of it, both in the order of frames."""

        def of(frame: int) -> Sequence[bytes]:
            return () if comments is None else comments.of(frame)

        at = 0
        for index in indexes:
            assert block is not None
            frame = block.first_frame + index
            while at < len(made) and made[at].frame < frame:
                self._make(made[at], of(made[at].frame))
                at += 1
            self.take(block, index, of(frame))
        for each in made[at:]:
            self._make(each, of(each.frame))

    def take(self, block: Block, index: int, comments: Sequence[bytes] = ()) -> None:
        """Take a packet of the block that the timeline handed out last."""
        file = block.first_frame >> FRAME_BITS
        found = self._inputs.get(file)
        if found is None:
            found = self._inputs[file] = self._open(file)
        # May describe an interface, which stands behind the blocks so far.
        copied = found.copy(block, index, [(COMMENT, each) for each in comments])
        self._blocks.append(copied)
        self.packets += 1

    def _make(self, made: PlainPacket, comments: Sequence[bytes]) -> None:
        interface, time, size = self.interface(self._made), made.time, len(made.data) + made.missing
        # Of the packets made of one, the last one has the end of what is commented on.
        added = written_options(*((COMMENT, each) for each in comments)) if comments and made.last else b""
        self._blocks.append(
            enhanced_block(interface, _NO_TIME if time is None else time, made.data, size, added)
        )
        self.packets += 1

    def flush(self) -> None:
        """Write what was taken."""
        if self._blocks:
            blocks, self._blocks = self._blocks, []
            self._files.packets(blocks, ())

    def _open(self, file: int) -> _Input:
        shifted = any(each.file == file and each.applied for each in self._timeline.clock_offsets or ())
        if file in self._described:
            return _PcapngInput(self, self._described[file], shifted)
        return _Input(self, *_pcap_layout(self._timeline.files[file], shifted))

    def interface(self, described: bytes, number: int = 0, first: bool = False) -> int:
        """Number of the interface that is described so, `number` of those of its section that are. `first`: it must be
        0, as for packets that name none."""
        key = described, number
        known = self._interfaces.get(key)
        if known is None or (first and known):
            self.flush()
            anew = first and bool(self._interfaces)
            if anew:
                self._interfaces = {}
            self._files.describe(section() + described if anew else described, anew)
            known = self._interfaces[key] = len(self._interfaces)
        return known


class _Input:
    """Packets of a capture that is no pcapng. `digits`: of the fractions of its times."""

    def __init__(self, copy: PacketCopy, digits: int, snaplen: int) -> None:
        self._to = copy
        self._digits = digits
        self._snaplen = snaplen

    def copy(self, block: Block, index: int, added: Sequence[Option]) -> bytes:
        """The packet's block in the new file, with these options too."""
        link_type = block.link_types[index]
        interface = self._to.interface(interface_block(link_type, snaplen=self._snaplen, digits=self._digits))
        return enhanced_block(
            interface,
            self._ticks(block.times[index]),
            block.data[block.starts[index] : block.ends[index]],
            block.wire_lengths[index],
            written_options(*added) if added else b"",
        )

    def _ticks(self, time: int | None) -> int:
        if time is None:
            return _NO_TIME
        return max(time if self._digits == _NANOSECONDS else time // NS_PER_US, 0)


class _PcapngInput(_Input):
    """Packets of a pcapng file. `shifted`: its times are set right."""

    def __init__(self, copy: PacketCopy, described: list[tuple[int, bytes]], shifted: bool) -> None:
        super().__init__(copy, _NANOSECONDS, 0)
        self._described = described
        self._shifted = shifted
        self._at = 0
        self._order = LITTLE
        self._interfaces: list[tuple[bytes, int]] = []
        self._alike: Counter[bytes] = Counter()

    def copy(self, block: Block, index: int, added: Sequence[Option]) -> bytes:
        self._advance(block.first_frame + index)
        try:
            return self._copied(block, index, added)
        except (error, LookupError):
            # Another program wrote to the file since it was read the first time.
            raise CaptureError("an input was changed while it was read") from None

    def _copied(self, block: Block, index: int, added: Sequence[Option]) -> bytes:
        data, start, time = block.data, block.starts[index], block.times[index]
        head = start - _BEFORE_PACKET
        if time is None and not self._has_time(data, head):
            self._to.interface(*self._interfaces[0], first=True)
            length, wire = self._order.u32_pair(data, start - 8)
            size = length - _BEFORE_SIMPLE - 4
            # Such a block has no options.
            return block_of(pcapng.SIMPLE_PACKET, pack("<I", wire) + data[start : start + size])
        kind, length, interface, high, low, captured, wire = self._order.packet_block(data, head)
        if kind == pcapng.OLD_PACKET:
            interface = self._order.option(data, start - 20)[0]
        number = self._to.interface(*self._interfaces[interface])
        behind = start + captured + -captured % 4
        options = options_of(self._order, pcapng.ENHANCED_PACKET, data, behind, head + length - 4)
        if added:
            own = written_options(*added)
            options = own[:-_END_OF_OPTIONS] + options if options else own
        ticks = self._ticks(time) if self._shifted else high << 32 | low
        return enhanced_block(number, ticks, data[start : start + captured], wire, options)

    def _has_time(self, data: bytes, head: int) -> bool:
        """True if a block begins at `head` whose packets have times, though they may be beyond those that are read."""
        kind, length = self._order.u32_pair(data, head) if head >= 0 else (pcapng.SIMPLE_PACKET, 0)
        again = data[head + length - 4 : head + length]
        return kind in (pcapng.OLD_PACKET, pcapng.ENHANCED_PACKET) and again == data[head + 4 : head + 8]

    def _advance(self, frame: int) -> None:
        """Go on to the section and the interfaces of a packet."""
        while self._at < len(self._described) and self._described[self._at][0] <= frame:
            found = self._described[self._at][1]
            self._at += 1
            if found.startswith(pcapng.MAGIC):
                self._order = pcapng.BYTE_ORDER_MARKS[found[8:12]]
                self._interfaces, self._alike = [], Counter()
            else:
                described = self._written(found)
                self._interfaces.append((described, self._alike[described]))
                self._alike[described] += 1

    def _written(self, found: bytes) -> bytes:
        """An interface block as the new file has it."""
        link_type, reserved, snaplen = self._order.interface(found, 8)
        options = options_of(self._order, pcapng.INTERFACE, found, 16, len(found) - 4)
        if self._shifted:
            times = pcapng.IF_TSRESOL, pcapng.IF_TSOFFSET
            kept = [each for each in pcapng.options(LITTLE, options, 0, len(options)) if each[0] not in times]
            options = written_options(*kept, (pcapng.IF_TSRESOL, bytes([_NANOSECONDS])))
        return block_of(pcapng.INTERFACE, pack("<HHI", link_type, reserved, snaplen) + options)


def _pcap_layout(path: str, shifted: bool) -> tuple[int, int]:
    """Digits of the fractions of a capture's times, and its snap length; 0 if it has none."""
    source = open_source(path)
    try:
        begin, _ = beginning(source)
        variant = VARIANTS.get(begin.first(MAGIC_SIZE))
        if variant is None:
            return _NANOSECONDS, 0
        snaplen = Struct(variant.order + "I").unpack_from(begin.first(_SNAPLEN_AT + 4), _SNAPLEN_AT)[0]
        return _MICROSECONDS if variant.fraction_ns == NS_PER_US and not shifted else _NANOSECONDS, snaplen
    finally:
        source.close()
