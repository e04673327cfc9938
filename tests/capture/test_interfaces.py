"""Which interface a packet of a live capture came over."""

import socket
from struct import pack

import pytest

from kinspect.capture.interfaces import KEPT, Interfaces
from kinspect.capture.pcapng import read_pcapng
from kinspect.capture.reader import Findings
from kinspect.capture.tpacket import COOKED, ETHERNET
from kinspect.capture.writer import interface_block, packet_block, section


class Whole:
    """A section that is there already."""

    name, position = "interface", 0

    def read(self, size):
        return b""

    def release(self):
        pass

    def close(self):
        pass


def block_of(first, link_types, packets):
    """Packets, each the number of its interface and its bytes, as the capturing process hands them on."""
    described = b"".join(interface_block(link_type, "x", 100, "") for link_type in link_types)
    data = section() + described + b"".join(packet_block(number, 1, raw, 60) for number, raw in packets)
    (block,) = read_pcapng(data, Whole(), first, len(data), Findings())
    return block


def test_one_is_known_of_any_packet():
    interfaces = Interfaces(["eth0"])
    interfaces.add(block_of(1, [ETHERNET], [(0, bytes(60))]))
    assert interfaces.of(1) == interfaces.of(10**9) == "eth0"


def test_several():
    interfaces = Interfaces(["eth0", "eth1"])
    interfaces.add(block_of(1, [ETHERNET] * 2, [(0, bytes(60)), (1, bytes(61)), (1, bytes(62))]))
    interfaces.add(block_of(7, [ETHERNET] * 2, [(1, bytes(60)), (0, bytes(61))]))
    names = [interfaces.of(frame) for frame in range(10)]
    assert names == [None, "eth0", "eth1", "eth1", None, None, None, "eth1", "eth0", None]


def test_any_names_the_one_it_was():
    loopback = socket.if_nametoindex("lo")
    cooked = [b"\x08\0\0\0" + pack(">I", number) + bytes(40) for number in (loopback, 2**31 - 1)]
    interfaces = Interfaces(["any"])
    interfaces.add(block_of(1, [COOKED], [(0, raw) for raw in cooked]))
    assert [interfaces.of(1), interfaces.of(2)] == ["lo", None]


@pytest.mark.parametrize("size", [1, 1000])
def test_what_is_remembered_is_bounded(size):
    interfaces = Interfaces(["eth0", "eth1"])
    block = block_of(1, [ETHERNET] * 2, [(1, bytes(60))] * size)
    count = 0
    while count < 2 * KEPT:
        block.first_frame = 1 + count
        interfaces.add(block)
        count += size
    assert interfaces.of(1) is None
    assert interfaces.of(count) == "eth1"
    assert interfaces.of(count - KEPT + size) == "eth1"
    assert interfaces.of(count - KEPT - size) is None
