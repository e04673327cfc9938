"""Blocks of the kernel's ring to blocks of packets, and when a capture ends; made up, without a socket."""

import errno
import struct
import sys
import time
from types import SimpleNamespace

import pytest
from support.pcap import Conversation, tcp_frame

from kinspect.capture import live
from kinspect.cli import main
from kinspect.errors import CaptureError
from kinspect.link import segments
from kinspect.model import Counts

HOST, OUTGOING = 0, 4
FIRST_AT, LINK_AT = 48, 96
ETHERNET, LOOPBACK = 1, 772
SECOND = 1_700_000_000
VLAN_VALID, VLAN_TPID_VALID = 0x10, 0x40


def ring_block(packets):
    """A block as the kernel fills it: (nanoseconds, bytes, wire length, status, tag, ethertype, packet type)."""
    rows = []
    for ns, data, length, status, tag, tpid, kind in packets:
        size = (LINK_AT + len(data) + 15) // 16 * 16
        seconds = (size, SECOND, ns, len(data), length, status, LINK_AT, LINK_AT + 14)
        header = struct.pack("=6IHHIIHH8x", *seconds, 0, tag, tpid, 0)
        address = struct.pack("=HHiHBB8x", 17, 0, 1, ETHERNET, kind, 6)
        rows.append((header + address).ljust(LINK_AT, b"\0") + data.ljust(size - LINK_AT, b"\0"))
    body = b"".join(rows)
    header = struct.pack("=IIIIII", 3, 0, 1, len(rows), FIRST_AT, FIRST_AT + len(body))
    return header.ljust(FIRST_AT, b"\0") + body


def packet(ns=0, data=b"\0" * 60, length=None, status=1, tag=0, tpid=0, kind=HOST):
    return (ns, data, len(data) if length is None else length, status, tag, tpid, kind)


def frame(payload=b"payload"):
    return tcp_frame(("10.0.0.1", 40000), ("10.0.0.9", 9092), 7, 9, 0x18, payload)


def test_times_lengths_and_bytes():
    data = ring_block([packet(5, b"a" * 60), packet(999_999_999, b"b" * 61, length=1500)])
    block = live.read_ring_block(data, 17, 1, False)
    assert block.first_frame == 17
    assert block.times == [SECOND * 10**9 + 5, SECOND * 10**9 + 999_999_999]
    assert [block.data[s:e] for s, e in zip(block.starts, block.ends, strict=True)] == [b"a" * 60, b"b" * 61]
    assert block.wire_lengths == [60, 1500]
    assert block.link_types == [1, 1]


def test_copies_of_what_the_loopback_interface_sends_are_left_out():
    data = ring_block([packet(1, kind=OUTGOING), packet(2), packet(3, kind=OUTGOING), packet(4)])
    assert [t % 10**9 for t in live.read_ring_block(data, 1, 1, True).times] == [2, 4]
    assert [t % 10**9 for t in live.read_ring_block(data, 1, 1, False).times] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("status", "tpid", "written"),
    [(VLAN_VALID, 0, 0x8100), (VLAN_VALID | VLAN_TPID_VALID, 0x88A8, 0x88A8)],
)
def test_a_vlan_tag_is_put_back(status, tpid, written):
    whole = frame()
    tagged = packet(1, whole, status=status | 1, tag=0x2005, tpid=tpid)
    block = live.read_ring_block(ring_block([packet(0, whole), tagged, packet(2, whole)]), 1, 1, False)
    plain, with_tag, after = (
        block.data[start:end] for start, end in zip(block.starts, block.ends, strict=True)
    )
    assert plain == after == whole
    assert with_tag == whole[:12] + struct.pack(">HH", written, 0x2005) + whole[12:]
    assert block.wire_lengths[1] == len(whole) + 4
    rows = segments(block, Counts())
    assert [row[5][row[6] : row[7]] for row in rows] == [b"payload"] * 3


def test_a_tag_of_nothing_is_left_alone():
    block = live.read_ring_block(ring_block([packet(1, b"short", status=VLAN_VALID, tag=5)]), 1, 1, False)
    assert block.data[block.starts[0] : block.ends[0]] == b"short"


class Ring:
    """Stands in for the kernel's: hands out what it is given; a function is called instead."""

    def __init__(self, *blocks, hardware=ETHERNET):
        self.hardware = hardware
        self.blocks = list(blocks)
        self.dropped = 3
        self.closed = False

    def take(self):
        if not self.blocks:
            time.sleep(0.01)
            return None
        block = self.blocks.pop(0)
        return block() if callable(block) else block

    def drops(self):
        return self.dropped

    def close(self):
        self.closed = True


def ages(capture):
    return [at % 10**9 for block in capture for at in block.times]


def some(*times):
    return ring_block([packet(ns) for ns in times])


def test_frames_are_numbered_through():
    capture = live.Live("x", Ring(some(1, 2), some(3)), None, 3)
    assert [block.first_frame for block in capture] == [1, 3]
    assert (capture.packets, capture.bytes_read, capture.bytes_total) == (3, 180, None)


@pytest.mark.parametrize(("count", "expected"), [(1, [1]), (2, [1, 2]), (3, [1, 2, 3])])
def test_count(count, expected):
    assert ages(live.Live("x", Ring(some(1, 2), some(3, 4)), None, count)) == expected


def test_stop_hands_on_what_came_before_it():
    ring = Ring(some(1), some(2, 3), some(4))
    capture = live.Live("x", ring, None, None)
    blocks = iter(capture)
    next(blocks)
    capture.stop()
    ring.dropped = 99
    assert [len(block) for block in blocks] == [2, 1]
    assert capture.kernel_drops == 3


def test_stop_leaves_out_what_came_after_it(monkeypatch):
    monkeypatch.setattr(live.time, "time_ns", lambda: SECOND * 10**9 + 20)
    capture = live.Live("x", Ring(some(1), some(10, 20, 21, 22), some(23)), None, None)
    blocks = iter(capture)
    next(blocks)
    capture.stop()
    assert ages(blocks) == [10, 20]


def test_duration():
    start = time.monotonic()
    capture = live.Live("x", Ring(some(1)), 200_000_000, None)
    assert ages(capture) == [1]
    assert 0.2 < time.monotonic() - start < 5


def test_an_interface_that_goes_down_is_an_error_after_the_last_packets():
    def down():
        raise OSError(errno.ENETDOWN, "Network is down")

    capture = live.Live("eth7", Ring(some(1), down, some(2)), None, None)
    assert ages(capture) == [1, 2]
    assert [str(error) for error in capture.errors] == ["eth7: the interface is down"]


def test_close_closes_the_socket():
    ring = Ring(some(1), some(2))
    capture = live.Live("x", ring, None, None)
    next(iter(capture))
    capture.close()
    assert ring.closed
    assert capture.kernel_drops == 3


def test_hardware_without_a_link_type():
    ring = Ring(hardware=805)
    with pytest.raises(CaptureError, match=r"wlan0: packets of its kind \(ARPHRD 805\) cannot be read"):
        live.Live("wlan0", ring, None, None)
    assert ring.closed


def test_no_such_interface(capsys):
    assert main(["live", "-i", "nothing0"]) == 1
    assert "nothing0: there is no such interface; there are: " in capsys.readouterr().err


def test_without_the_right_one_line_says_what_to_grant(monkeypatch, capsys, tmp_path):
    def refuse(interface):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(live, "Ring", refuse)
    monkeypatch.setattr(live.socket, "if_nametoindex", lambda name: 1)
    assert main(["live", "-i", "eth0", "-o", str(tmp_path / "out")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "sudo setcap cap_net_raw+ep /" in line
    assert not list(tmp_path.iterdir())


def test_elsewhere_than_on_linux(monkeypatch, capsys):
    monkeypatch.setattr(live, "sys", SimpleNamespace(platform="darwin", executable=sys.executable))
    assert main(["live", "-i", "en0"]) == 1
    assert "needs Linux: elsewhere, tcpdump -i en0 -w - | kinspect read -" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["-i", "lo", "--count", "0"], ["-i", "lo", "--duration", "soon"]])
def test_usage_errors(options):
    assert main(["live", *options]) == 2


def test_a_live_capture_reads_as_a_file_does():
    talk = Conversation()
    talk.open()
    talk.client_sends(b"hello")
    data = ring_block([packet(number, frame.data) for number, frame in enumerate(talk.packets)])
    block = live.read_ring_block(data, 1, live.LINK_TYPES[LOOPBACK], True)
    assert [row[5][row[6] : row[7]] for row in segments(block, Counts()) if row[7] > row[6]] == [b"hello"]
