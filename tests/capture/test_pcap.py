from struct import pack

import pytest
from capture_files import START, Packet, packets, pcap, read
from scapy.utils import RawPcapReader

from kinspect.errors import CaptureError, TruncatedCaptureError

ORDERS = ["<", ">"]
MAGICS = [0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("magic", MAGICS)
def test_every_variant_gives_the_packets_written(tmp_path, order, magic):
    content = packets(50, step=1_000_001_000)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(content, order=order, magic=magic))
    result = read(path)
    assert result.packets == content
    assert result.frames == [(0, i + 1) for i in range(50)]
    assert result.messages == []
    assert result.timeline.status.kernel_drops is None


def test_nanoseconds_are_exact(tmp_path):
    content = [Packet(START + 999_999_999, b"x", 1), Packet(0xFFFFFFFF * 10**9 + 1, b"y", 1)]
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(content, magic=0xA1B23C4D))
    assert read(path).packets == content


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("magic", MAGICS[:2])
def test_scapy_reads_the_same(tmp_path, order, magic):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(packets(20), order=order, magic=magic))
    unit = 1 if magic == 0xA1B23C4D else 1000
    with RawPcapReader(str(path)) as reader:
        theirs = [(meta.sec * 10**9 + meta.usec * unit, data, meta.wirelen) for data, meta in reader]
    assert [packet[:3] for packet in read(path).packets] == theirs


@pytest.mark.parametrize("order", ORDERS)
def test_frame_check_sequence_is_cut_off_where_it_was_captured(tmp_path, order):
    frame = b"payload" + b"FCSX"
    content = [
        Packet(START, frame, 11),  # all of it
        Packet(START, frame[:9], 11),  # two bytes of it
        Packet(START, frame[:5], 11),  # nothing of it
        Packet(START, b"FC", 2),  # less than an FCS
    ]
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(content, order=order, link_field=2 << 28 | 0x04000000 | 1))
    assert read(path).packets == [
        Packet(START, b"payload", 7),
        Packet(START, b"payload", 7),
        Packet(START, b"paylo", 7),
        Packet(START, b"", 0),
    ]


def test_upper_bits_of_the_link_type_are_not_part_of_it(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([Packet(START, b"payload", 7)], link_field=0x2000_0000 | 276))
    assert read(path).packets == [Packet(START, b"payload", 7, 276)]


def test_a_wire_length_below_the_captured_one_is_raised_to_it(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([Packet(START, b"payload", 3)]))
    assert read(path).packets == [Packet(START, b"payload", 7)]


def test_a_header_alone_is_a_capture_without_packets(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap([]))
    result = read(path)
    assert (result.packets, result.messages) == ([], [])


def test_packets_that_go_back_in_time_keep_their_order(tmp_path):
    content = packets(30, step=-1000)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(content))
    assert read(path).packets == content


@pytest.mark.parametrize("block_size", [1, 7, 24, 100, 1000])
def test_the_size_of_blocks_does_not_matter(tmp_path, block_size):
    content = packets(40)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(content))
    result = read(path, block_size=block_size)
    assert result.packets == content
    assert result.frames == [(0, i + 1) for i in range(40)]


def test_packets_larger_than_a_block(tmp_path):
    content = [Packet(START, bytes(200_000), 200_000), Packet(START, b"x", 1)]
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(content))
    assert read(path).packets == content


def test_every_cut_gives_the_packets_before_it(tmp_path):
    content = packets(6)
    whole = pcap(content)
    ends = [24]
    for packet in content:
        ends.append(ends[-1] + 16 + len(packet.data))
    path = tmp_path / "x.pcap"
    for cut in range(4, len(whole)):
        path.write_bytes(whole[:cut])
        result = read(path)
        assert result.packets == content[: sum(end <= cut for end in ends[1:])]
        assert [type(error) for error in result.timeline.errors] == [TruncatedCaptureError] * (
            cut not in ends
        )


def test_messages_of_a_cut_file(tmp_path):
    whole = pcap(packets(3))
    path = tmp_path / "x.pcap"
    for cut, message in [
        (10, "ends in the middle of the file header (offset 0): 10 of 24 bytes are there"),
        (30, "ends in the middle of packet 1 (offset 24): 6 of 16 bytes are there"),
        (70, "ends in the middle of packet 2 (offset 60): 10 of 16 bytes are there"),
        (80, "ends in the middle of packet 2 (offset 60): 20 of 37 bytes are there"),
    ]:
        path.write_bytes(whole[:cut])
        assert read(path).messages == [f"{path}: {message}"]


@pytest.mark.parametrize(
    ("snaplen", "limit"), [(65535, 262144), (1_000_000, 1_000_000), (0x7FFFFFFF, 16 * 1024 * 1024)]
)
def test_an_absurd_length_is_one_clear_error(tmp_path, snaplen, limit):
    content = packets(2)
    damage = pack("<IIII", 1, 2, 0x70000000, 3)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(content, snaplen=snaplen) + damage + bytes(100))
    result = read(path)
    assert result.packets == content
    assert result.messages == [
        f"{path}: packet 3 (offset 97) claims 1879048192 captured bytes, more than the {limit} a packet of "
        "this file can have; the file is damaged, what is before it was read"
    ]
    assert type(result.timeline.errors[0]) is CaptureError
