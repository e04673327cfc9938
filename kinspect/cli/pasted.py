"""A message as people paste it: hex, base64, or the dump of a tool."""

from __future__ import annotations

import base64
import binascii
import re

from kinspect import link
from kinspect.capture.compressed import is_compressed
from kinspect.capture.formats import READERS
from kinspect.errors import KinspectError
from kinspect.model import Block, Counts, Segment

_OFFSET_LINE = re.compile(r"\s*(?:0x)?([0-9A-Fa-f]{3,8})(:?)(\s.*)?", re.ASCII)
_SECTION = re.compile(r"\s*([A-Z][A-Za-z ]*) \(\d+ bytes\):?\s*", re.ASCII)
_GROUP = re.compile(r"(\s+)((?:[0-9A-Fa-f]{2}){1,16})(?=\s|$)", re.ASCII)
_HEX_NOISE = re.compile(r"0[xX]|\\x|[\s:,;-]", re.ASCII)
_HEX = re.compile(r"[0-9A-Fa-f]+", re.ASCII)

FORMS = "hex, base64 or the dump of hexdump -C, xxd, tcpdump -X, tshark -x or Wireshark"
SEVERAL = "this is a dump of several packets: paste one"
MAGIC_BYTES = 4
LINE_BYTES = 16
TEXT_GAP = 3
"""Spaces between the bytes of a short last line and its text, at least."""

PACKET_SECTION = "Frame"
MESSAGE_SECTIONS = ("Reassembled TLS", "Decrypted TLS", "Reassembled TCP")
"""Sections that `tshark -x` prints below a packet: what it put together, the innermost first."""

LINK_TYPES = (1, 113, 276, 0, 101)
"""Ethernet, Linux cooked v1 and v2, loopback, bare IP: what a dumped packet may begin with."""


def message_bytes(data: bytes, least: int = 1) -> bytes:
    """The bytes of a message: `data` itself unless it is text, else what the text stands for.

    A dump of a whole packet (as `tcpdump -X` prints it) gives its TCP payload, or what Wireshark put together of it
    and others. Raises KinspectError for nothing, for a capture, for a dump of several packets, and for text that is
    neither hex, base64 nor a dump. Many a word is base64 too: that of fewer than `least` bytes is not taken for it.
    """
    if not data.strip():
        raise KinspectError("there is no message: give one as argument, with --file or on standard input")
    head = data[:MAGIC_BYTES]
    if head in READERS:
        raise KinspectError("this is a capture: use `kinspect read`")
    if is_compressed(head):
        raise KinspectError("this is compressed: `kinspect read` reads compressed captures")
    text = _as_text(data)
    if text is None:
        return data
    put_together = message_section(text)
    if put_together is not None and (message := parse_dump(put_together)):
        return message
    dumped = parse_dump(text)
    if dumped is not None:
        return tcp_payload(dumped) or dumped
    return parse_hex(text) or parse_base64(text, least)


def _as_text(data: bytes) -> str | None:
    try:
        text = data.decode("ascii")
    except UnicodeDecodeError:
        return None
    return text if all(c.isprintable() or c in "\t\r\n" for c in text) else None


def parse_hex(text: str) -> bytes | None:
    """Hex digits, whatever stands between the bytes; None if it is something else."""
    digits = _HEX_NOISE.sub("", text)
    if not _HEX.fullmatch(digits):
        return None
    if len(digits) % 2:
        raise KinspectError(f"the hex has an odd number of digits: {len(digits)}")
    return bytes.fromhex(digits)


def parse_base64(text: str, least: int) -> bytes:
    """Base64 of either alphabet, with or without its padding, of at least so many bytes."""
    compact = "".join(map(str.strip, text.splitlines())).translate(str.maketrans("-_", "+/")).rstrip("=")
    try:
        data = base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except binascii.Error:
        data = b""
    if not data:
        raise KinspectError(f"the input is no message: give {FORMS}")
    if len(data) < least:
        raise KinspectError(
            f"the input is no message: as base64 it has {len(data)} of the {least} bytes that one begins with;"
            f" give {FORMS}"
        )
    return data


def message_section(text: str) -> str | None:
    """The section of a dump by `tshark -x` that holds the message as a whole; None if there is none.

    Raises KinspectError if there are several, or several packets.
    """
    sections: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        match = _SECTION.fullmatch(line)
        if match is not None:
            sections.append((match[1], []))
        elif sections:
            sections[-1][1].append(line)
    if sum(name == PACKET_SECTION for name, _ in sections) > 1:
        raise KinspectError(SEVERAL)
    for wanted in MESSAGE_SECTIONS:
        found = [lines for name, lines in sections if name == wanted]
        if len(found) > 1:
            raise KinspectError(f"the dump has several sections {wanted!r}: paste one")
        if found:
            return "\n".join(found[0])
    return None


def parse_dump(text: str) -> bytes | None:
    """What `hexdump -C`, `xxd`, `tcpdump -X` and Wireshark print; None if the text is no dump.

    Each line begins with its offset, which must follow from the lines before it; lines without one (tcpdump's
    summary of the packet) are passed over. A `*` stands for more lines like the one before. Raises KinspectError
    if the offsets begin anew.
    """
    rows: list[tuple[int, bool, str]] = []
    repeated: set[int] = set()
    for line in text.splitlines():
        match = _OFFSET_LINE.fullmatch(line)
        if match is not None:
            rows.append((int(match[1], 16), bool(match[2]), match[3] or ""))
        elif line.strip() == "*":
            repeated.add(len(rows))
    if not rows:
        return None
    data = bytearray()
    base = rows[0][0]
    for index, (offset, marked, rest) in enumerate(rows):
        if index in repeated and data:
            while len(data) < offset - base:
                data += data[-LINE_BYTES:]
        set_off = marked or rest.startswith("  ")
        if index and set_off and rest.strip() and offset == base == 0:
            raise KinspectError(SEVERAL)
        if offset - base != len(data) or not (set_off or not rest.strip() or len(rows) > 1):
            return None
        following = rows[index + 1][0] - offset if index + 1 < len(rows) else LINE_BYTES
        data += _line_bytes(rest, LINE_BYTES if index + 1 in repeated else following)
    return bytes(data) or None


def _line_bytes(rest: str, limit: int) -> bytes:
    """The bytes at the start of a line's rest, `limit` at most: the text column may look like hex too."""
    data = bytearray()
    position = 0
    width = 0
    while len(data) < limit:
        match = _GROUP.match(rest, position)
        if match is None:
            break
        gap, group = len(match[1]), bytes.fromhex(match[2])
        # Groups of two bytes and more are one space apart, so two spaces end them; single bytes have a wider
        # gap in their middle.
        if data and (gap >= TEXT_GAP or (gap > 1 and width > 1)):
            break
        width = max(width, len(group))
        data += group
        position = match.end()
    return bytes(data[:limit])


def tcp_payload(packet: bytes) -> bytes | None:
    """The TCP payload, if the bytes are a packet that has one."""
    for link_type in LINK_TYPES:
        block = Block(packet, 1, [None], [0], [len(packet)], [len(packet)], [link_type])
        for segment in map(Segment._make, link.segments(block, Counts())):
            if segment.end > segment.start:
                return segment.data[segment.start : segment.end]
    return None
