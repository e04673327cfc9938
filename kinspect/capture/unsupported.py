"""Files that kinspect does not read, recognised by their first bytes: what they are, and how to make captures of them.

The numbers are those of Wireshark's wiretap library, whose `editcap` converts the captures among them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kinspect.capture.source import STDIN_NAME, SourceHead
from kinspect.errors import CaptureError

_CONVERT: Final = "convert it: editcap -F pcapng {file} {file}.pcapng"
# These formats give each packet its own link type, which editcap does not know before it writes.
_CONVERT_ETHERNET: Final = "convert it: editcap -T ether -F pcapng {file} {file}.pcapng"
_TRACE_ANEW: Final = "editcap does not convert it, but NetScaler can trace in .pcap format"


class _Kind(NamedTuple):
    what: str
    magic: bytes
    offset: int = 0
    remedy: str = _CONVERT


_KINDS: Final = (
    _Kind("a NetMon capture", b"RTSS"),  # version 1
    _Kind("a NetMon capture", b"GMBU"),  # version 2
    _Kind("a Sniffer capture", b"TRSNIFF data    \x1a"),  # of DOS
    _Kind("a Sniffer capture", b"XCP\0"),  # of Windows, and NetXRay
    _Kind("a Sniffer capture", b"VL\0\0"),  # NetXRay 1
    _Kind("a Visual Networks capture", b"\x05VNF"),
    _Kind("a LANalyzer capture", b"\x01\x10\x4c\0"),
    _Kind("a NetScaler trace", b"NetScaler ", 8, _TRACE_ANEW),  # version 1
    _Kind("a NetScaler trace", b"NetScaler V", 3, _TRACE_ANEW),
    _Kind("a NetScaler trace", b"Netscaler V", 3, _TRACE_ANEW),
    _Kind("an iptrace capture", b"iptrace ", 0, _CONVERT_ETHERNET),
    _Kind("a nettl trace", b"TR\0d\0\0\0\0\0\0\0\x80", 0, _CONVERT_ETHERNET),  # HP-UX 10 and later
    _Kind("a nettl trace", b"\0\0\0\1\0\0\0\0\0\x07\xd0\0", 0, _CONVERT_ETHERNET),  # HP-UX 9
    _Kind("an Observer capture", b"ObserverPktBuffer"),
    _Kind("an OmniPeek capture", b"\x7fver"),
    _Kind("a Capsa capture", b"cpse"),
    _Kind("a 5View capture", b"\xaa\xaa\xaa\xaa"),
    _Kind("a K12 capture", b"\0\0\2\0\x12\5\0\x10", 0, _CONVERT_ETHERNET),
    _Kind("a K12 capture", b"+---------+---------------+----------+", 0, _CONVERT_ETHERNET),  # as text
    _Kind("a RADCOM capture", b"\x42\xd2\0\x34\x12\x66\x22\x88"),
    _Kind("an Ixia capture", b"\x1c\0\1\xac"),
    _Kind("an Ixia capture", b"\xac\1\0\x1c"),
    _Kind("an Ixia capture", b"\x1c\0\1\xab"),
    _Kind("an Ixia capture", b"\xab\1\0\x1c"),
    _Kind("a file compressed with bzip2", b"BZh", 0, "unpack it: bzip2 -dk {file}"),
    _Kind("a file compressed with xz", b"\xfd7zXZ\0", 0, "unpack it: xz -dk {file}"),
    _Kind("a zip archive", b"PK\3\4", 0, "unpack it: unzip {file}"),
)

_LONGEST: Final = max(kind.offset + len(kind.magic) for kind in _KINDS)


def unsupported(name: str, what: str, remedy: str = _CONVERT) -> CaptureError:
    """Error: the input `name` is `what`, which is not read."""
    from shlex import quote

    file = "FILE" if name == STDIN_NAME else quote(name)
    return CaptureError(f"{name}: is {what}, which kinspect does not read; {remedy.format(file=file)}")


def known(name: str, begin: SourceHead) -> CaptureError | None:
    """Error for an input of a format known not to be supported; None for an unknown one.

    Raises what its source raises.
    """
    head = begin.first(_LONGEST)
    for kind in _KINDS:
        if head.startswith(kind.magic, kind.offset):
            return unsupported(name, kind.what, kind.remedy)
    return None
