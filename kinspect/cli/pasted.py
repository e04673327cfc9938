"""A message as people paste it: hex, base64, or the dump of a tool."""

from __future__ import annotations

import base64
import binascii
import io
import re
from contextlib import suppress
from string import hexdigits

from kinspect import link
from kinspect.capture.compressed import is_compressed
from kinspect.capture.fileformats import recognise
from kinspect.capture.source import SourceHead
from kinspect.errors import KinspectError
from kinspect.model import Block, Caps, Counts, Segment

_OFFSET_LINE = re.compile(r"\s*(?:0x)?([0-9A-Fa-f]{3,8})(:?)(\s.*)?", re.ASCII)
_WORDS = re.compile(r"(?:\s+(?:[0-9A-Fa-f]{4}|[0-9A-Fa-f]{8}|[0-9A-Fa-f]{16}))*\s*", re.ASCII)
_BYTES = re.compile(r"\s*|\s+[0-9A-Fa-f]{2}(?:\s.*)?", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_SECTION = re.compile(r"\s*([A-Z][A-Za-z ]*) \(\d+ bytes\):?\s*", re.ASCII)
_GROUP = re.compile(r"(\s+)((?:[0-9A-Fa-f]{2}){1,16})(?=\s|$)", re.ASCII)
_HEX_NOISE = re.compile(r"(?:0[xX]|\\x|[\s:,;-])+", re.ASCII)
_SHORT_HEX = re.compile(r"0[xX]([0-9A-Fa-f])(?![0-9A-Fa-f])", re.ASCII)
_NUMBERS = re.compile(r"(?:new\s+byte\s*\[\]\s*)?(?:byte\s*)?[\[{]([-+\d\s,]*\d[\s,]*)[\]}];?", re.ASCII)
_NUMBER = re.compile(r"[-+]?\d{1,3}", re.ASCII)
_ENCLOSED = re.compile(r"""<Buffer (.*)>|[\[{(](.*)[\]})];?|"(.*)";?|'(.*)';?""", re.ASCII | re.DOTALL)
_PYTHON = re.compile(
    r"""(?:bytes|bytearray)?\(?\s*(?:b(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s*)+\)?""", re.ASCII | re.DOTALL
)
_PYTHON_PIECE = re.compile(r"""b('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""", re.ASCII | re.DOTALL)
_PYTHON_ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{2}|[0-7]{1,3}|\n|.)", re.DOTALL)
_PYTHON_NAMED = {
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
    b"\n": b"",
}
_HEX = re.compile(r"[0-9A-Fa-f]+", re.ASCII)

FORMS = (
    "hex, base64, Java's [0, 18, -1], Python's b'...', or the dump of hexdump -C, xxd, od, tcpdump -X, tshark -x or"
    " Wireshark"
)
SEVERAL = "this is a dump of several packets: paste one"
MOST_BYTES = Caps().message_bytes
MAGIC_BYTES = 4
LINE_BYTES = 16
NEARLY_ALL = 8
"""Least number of characters of mistyped hex for each that is no hex digit."""
RADIXES = (16, 8, 10)
"""Radixes of offsets; od's are octal by default."""
OD_DIGITS, HEXDUMP_DIGITS = (6, 7), 7
"""Numbers of digits of od's offsets, and of those that only `hexdump` prints; no colon follows them."""
BYTES_LEAST, BYTES_MOST, NO_BYTE = -128, 255, 256
TEXT_GAP = 3
"""Least number of spaces between the bytes of a short last line and its text."""

PACKET_SECTION = "Frame"
MESSAGE_SECTIONS = ("Reassembled TLS", "Decrypted TLS", "Reassembled TCP")
"""Sections that `tshark -x` prints below a packet, for reassembled or decrypted data, the innermost first."""

IP_AT = {1: 14, 113: 16, 276: 20, 0: 4, 101: 0}
"""Offset of the IP header by link type: Ethernet, Linux cooked v1 and v2, loopback, bare IP."""
ETHERNET, VLAN_TAGS, MOST_TAGS, VLAN_TAG_BYTES = 1, (b"\x81\x00", b"\x88\xa8"), 2, 4
IPV4, IPV4_WORDS, IPV6, IPV6_HEADER_BYTES = 4, 10, 6, 40
TRAILER_BYTES = 6
"""Most bytes behind the IP packet of a frame: a check sequence, or padding to 60 bytes where there is a payload."""


def message_bytes(given: bytes | str, least: int = 1) -> bytes:
    """The bytes of a message: those that the text `given` stands for, or `given` itself if it is not text.

    A whole packet (a dump of it, as `tcpdump -X` prints it, or its bytes) gives its TCP payload, or the data that
    Wireshark reassembled from it and others. Raises KinspectError for no data, for a capture or a dump of one, for a
    dump of several packets, and for text that is neither hex, base64 nor a dump. Many words are valid base64 too: text
    of fewer than `least` bytes does not count as base64.
    """
    data = given.encode(errors="surrogateescape") if isinstance(given, str) else given
    if not data.strip():
        raise KinspectError("there is no message: give one as argument, with --file or on standard input")
    _refuse_capture(data)
    text = given if isinstance(given, str) else _as_text(given)
    if text is None:
        return _framed_payload(data) or data
    put_together = message_section(text)
    if put_together is not None and (message := parse_dump(put_together)):
        return message
    dumped = parse_dump(text)
    if dumped is not None:
        _refuse_capture(dumped)
        return tcp_payload(dumped) or dumped
    text = text.strip()
    strange = next((character for character in text if not character.isascii()), None)
    if strange is not None:
        raise KinspectError(f"the input is no message: it contains {strange!r}; give {FORMS}")
    data = (
        parse_numbers(text)
        or parse_python(text)
        or parse_hex(_bare(text))
        or parse_base64(_bare(text), least)
    )
    _refuse_capture(data)
    return _framed_payload(data) or data


def _refuse_capture(data: bytes) -> None:
    if recognise(SourceHead(io.BytesIO(data).read)) is not None:
        raise KinspectError("this is a capture: use `kinspect read`")
    if is_compressed(data[:MAGIC_BYTES]):
        raise KinspectError("this is compressed: `kinspect read` reads compressed captures")


def parse_numbers(text: str) -> bytes | None:
    """Numbers as Java (`[0, 18, -1]`, signed), Go (`[0 18 255]`) and others print them; None if there are none."""
    match = _NUMBERS.fullmatch(text)
    if match is None:
        return None
    data = bytearray()
    for word in match[1].replace(",", " ").split():
        number = int(word) if _NUMBER.fullmatch(word) else NO_BYTE
        if not BYTES_LEAST <= number <= BYTES_MOST:
            raise KinspectError(f"{word[:20]} is no byte: those of a message are from -128 to 255")
        data.append(number % 256)
    return bytes(data)


def parse_python(text: str) -> bytes | None:
    """The bytes of Python's `b'...'`, also of several in a row and in `bytearray(...)`; None if it is not that."""
    if not _PYTHON.fullmatch(text):
        return None
    pieces = (found[1][1:-1].encode() for found in _PYTHON_PIECE.finditer(text))
    return b"".join(_PYTHON_ESCAPE.sub(_unescaped, piece) for piece in pieces)


def _unescaped(found: re.Match[bytes]) -> bytes:
    escape = found[1]
    if escape[:1] == b"x" and len(escape) > 1:
        return bytes.fromhex(escape[1:].decode())
    if escape.isdigit():
        return bytes([int(escape, 8) % 256])
    return _PYTHON_NAMED.get(escape, escape if escape in (b"\\", b"'", b'"') else b"\\" + escape)


def _bare(text: str) -> str:
    """The text without the brackets or quotes around it."""
    match = _ENCLOSED.fullmatch(text)
    return next(part for part in match.groups() if part is not None).strip() if match else text


def _as_text(data: bytes) -> str | None:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if _CONTROL.search(text) else text


def parse_hex(text: str) -> bytes | None:
    """The bytes of hex digits, with any of the usual separators; None if it is something else.

    Raises KinspectError for an odd number of digits, and for text that is hex but for a few characters.
    """
    digits = _HEX_NOISE.sub("", _SHORT_HEX.sub(r"0x0\1", text))
    if not _HEX.fullmatch(digits):
        _refuse_mistyped(text)
        return None
    if len(digits) % 2:
        raise KinspectError(f"the hex has an odd number of digits: {len(digits)}")
    return bytes.fromhex(digits)


def _refuse_mistyped(text: str) -> None:
    """Raise KinspectError for text that is hex but for a few characters; base64 has fewer decimal digits."""
    marks = _HEX_NOISE.sub(lambda noise: " " * len(noise[0]), text)
    size = len(marks.replace(" ", ""))
    strange = [at for at, mark in enumerate(marks) if mark not in hexdigits and mark != " "]
    if strange and len(strange) * NEARLY_ALL <= size and sum(map(str.isdecimal, marks)) * 2 >= size:
        raise KinspectError(f"character {strange[0] + 1}, {text[strange[0]]!r}, is no hex digit")


def parse_base64(text: str, least: int) -> bytes:
    """The bytes of base64 in either alphabet, with or without padding. Raises KinspectError for fewer than `least`."""
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
    """The bytes in a dump by `hexdump`, `od -x`, `xxd`, `tcpdump -X` or Wireshark; None if the text is no dump.

    Each line begins with its offset, which must follow from the lines before it; lines without one (tcpdump's
    summary of the packet) are passed over. A `*` stands for more lines like the one before. Raises KinspectError if
    the offsets begin anew, or for a dump by `hexdump` or `od` in other units than bytes and words.
    """
    found: list[tuple[str, bool, str]] = []
    repeated: set[int] = set()
    for line in text.splitlines():
        match = _OFFSET_LINE.fullmatch(line)
        if match is not None:
            found.append((match[1], bool(match[2]), match[3] or ""))
        elif line.strip() == "*":
            repeated.add(len(found))
    if not found:
        return None
    digits = {0 if marked else len(offset) for offset, marked, _ in found}
    only_bytes = digits == {HEXDUMP_DIGITS} and all(_BYTES.fullmatch(rest) for *_, rest in found)
    words = digits.issubset(OD_DIGITS) and all(_WORDS.fullmatch(rest) for *_, rest in found)
    word = _word(found) if words else int(only_bytes)
    if word or digits != {HEXDUMP_DIGITS}:
        for radix in RADIXES if word else RADIXES[:1]:
            with suppress(ValueError):  # no digits of this radix
                rows = [(int(offset, radix), marked, rest) for offset, marked, rest in found]
                if data := _rows_bytes(rows, repeated, word):
                    return data
    if digits == {HEXDUMP_DIGITS} and any(rest for *_, rest in found):
        raise KinspectError(
            "this looks like a dump, of another kind or with parts missing: give that of `hexdump -C`"
        )
    return None


def _word(rows: list[tuple[str, bool, str]]) -> int:
    """Size in bytes of the first number in the rows."""
    return next((len(rest.split(maxsplit=1)[0]) // 2 for *_, rest in rows if rest.strip()), 0)


def _rows_bytes(rows: list[tuple[int, bool, str]], repeated: set[int], word: int) -> bytes | None:
    """The bytes of a dump's rows; None if the offsets do not follow from the rows. A row is its offset, True if a colon
    follows that, and the rest. `word`: the rest is only little-endian numbers of so many bytes, padded with zeros in
    the last row; 0: single bytes, and there may be text behind them."""
    data = bytearray()
    base = rows[0][0]
    for index, (offset, marked, rest) in enumerate(rows):
        if index in repeated and data:
            if offset - base > MOST_BYTES:
                raise KinspectError(f"the dump says that it has {offset - base} bytes: no message is so long")
            while len(data) < offset - base:
                data += data[-LINE_BYTES:]
        set_off = marked or rest.startswith("  ")
        if index and set_off and rest.strip() and offset == base == 0:
            raise KinspectError(SEVERAL)
        if offset - base != len(data) or not (set_off or not rest.strip() or len(rows) > 1):
            return None
        following = rows[index + 1][0] - offset if index + 1 < len(rows) else LINE_BYTES
        limit = LINE_BYTES if index + 1 in repeated else following
        here = _line_bytes(rest, limit + word, word)
        if word and index + 1 < len(rows) and (len(here) - limit not in range(word) or any(here[limit:])):
            return None
        data += here[:limit]
    return bytes(data) or None


def _line_bytes(rest: str, limit: int, word: int) -> bytes:
    """The bytes at the start of a line's rest, at most `limit`: the text column may look like hex too."""
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
        if data and not word and (gap >= TEXT_GAP or (gap > 1 and width > 1)):
            break
        width = max(width, len(group))
        data += group[::-1] if word else group
        position = match.end()
    return bytes(data[:limit])


def tcp_payload(packet: bytes) -> bytes | None:
    """The TCP payload if the bytes are a packet that has one, else None."""
    return next((payload for link_type in IP_AT if (payload := _payload(packet, link_type))), None)


def _payload(packet: bytes, link_type: int) -> bytes | None:
    block = Block(packet, 1, [None], [0], [len(packet)], [len(packet)], [link_type])
    segments = map(Segment._make, link.segments(block, Counts()))
    return next((s.data[s.start : s.end] for s in segments if s.end > s.start), None)


def _framed_payload(data: bytes) -> bytes | None:
    """The TCP payload if the bytes, which may be anything, are a packet beyond doubt, else None."""
    likely = (
        link_type for link_type, at in IP_AT.items() if _is_ip(data[_behind_tags(data, link_type, at) :])
    )
    return next((payload for link_type in likely if (payload := _payload(data, link_type))), None)


def _behind_tags(data: bytes, link_type: int, at: int) -> int:
    """Offset of the IP header, behind VLAN tags."""
    for _ in range(MOST_TAGS if link_type == ETHERNET else 0):
        at += VLAN_TAG_BYTES * (data[at - 2 : at] in VLAN_TAGS)
    return at


def _is_ip(data: bytes) -> bool:
    """True for a whole IP packet: its lengths and its checksum (0 where the interface computes it) fit."""
    version = data[0] >> 4 if data else 0
    if version == IPV6 and len(data) > IPV6_HEADER_BYTES:
        size = IPV6_HEADER_BYTES + int.from_bytes(data[4:6])
    elif version == IPV4:
        header = data[: (data[0] & 0xF) * 4]
        size = int.from_bytes(data[2:4])
        words = [int.from_bytes(header[i : i + 2]) for i in range(0, len(header), 2)]
        if len(words) < IPV4_WORDS or (words[5] and sum(words) % 0xFFFF):
            return False
    else:
        return False
    return 0 <= len(data) - size <= TRAILER_BYTES
