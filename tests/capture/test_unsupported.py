"""Files that are not read are told by name, with what makes a capture of them."""

import gzip
import shlex

import pytest
from capture_files import packets, pcap, read

CONVERT = "convert it: editcap -F pcapng {0} {0}.pcapng"
CONVERT_ETHERNET = "convert it: editcap -T ether -F pcapng {0} {0}.pcapng"


@pytest.mark.parametrize(
    ("head", "what", "remedy"),
    [
        (b"RTSS", "a NetMon capture", CONVERT),
        (b"GMBU\0\2", "a NetMon capture", CONVERT),
        (b"TRSNIFF data    \x1a", "a Sniffer capture", CONVERT),
        (b"XCP\x00002.001\0", "a Sniffer capture", CONVERT),
        (b"\x05VNF", "a Visual Networks capture", CONVERT),
        (b"\x01\x10\x4c\0\1\5", "a LANalyzer capture", CONVERT),
        (
            b"\1\1\x40\0\1\0\0\0NetScaler Performance Data",
            "a NetScaler trace",
            "editcap does not convert it, but NetScaler can trace in .pcap format",
        ),
        (
            b"\1\x23\2NetScaler V20 Performance Data",
            "a NetScaler trace",
            "editcap does not convert it, but NetScaler can trace in .pcap format",
        ),
        (
            b"\1\x23\2Netscaler V35 Performance Data",
            "a NetScaler trace",
            "editcap does not convert it, but NetScaler can trace in .pcap format",
        ),
        (b"iptrace 2.0", "an iptrace capture", CONVERT_ETHERNET),
        (b"ObserverPktBufferVersion=15.00", "an Observer capture", CONVERT),
        (b"BZh91AY&SY", "a file compressed with bzip2", "unpack it: bzip2 -dk {0}"),
        (b"\xfd7zXZ\0\0\4", "a file compressed with xz", "unpack it: xz -dk {0}"),
        (b"PK\3\4\x14\0", "a zip archive", "unpack it: unzip {0}"),
    ],
)
@pytest.mark.parametrize("name", ["some.cap", "a name; with $(more).cap"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_known_kinds(tmp_path, head, what, remedy, name, compress):
    path = tmp_path / name
    path.write_bytes(compress(head + bytes(100)))
    result = read(path)
    assert result.packets == []
    (message,) = result.messages
    quoted = shlex.quote(str(path))
    assert message == f"{path}: is {what}, which kinspect does not read; {remedy.format(quoted)}"
    assert result.timeline.errors[0].unread


def test_a_file_that_is_shorter_than_a_magic_number(tmp_path):
    for size in range(1, 4):
        (tmp_path / "x").write_bytes(b"GMBU"[:size])
        assert "not a capture" in read(tmp_path / "x").messages[0]


@pytest.mark.parametrize("link_type", [6, 9, 15, 24])
def test_pcap_of_aix(tmp_path, link_type):
    data = bytearray(pcap(packets(3), order=">", link_field=link_type))
    data[4:8] = b"\0\2\0\2"
    (tmp_path / "x").write_bytes(data)
    assert "is a pcap file of AIX, which" in read(tmp_path / "x").messages[0]


def test_other_pcap_of_that_version(tmp_path):
    data = bytearray(pcap(packets(3), order=">"))
    data[4:8] = b"\0\2\0\2"
    (tmp_path / "x").write_bytes(data)
    assert read(tmp_path / "x").packets == packets(3)
