"""snoop files, written from RFC 1761."""

from struct import pack

import pytest
from capture_files import START, Packet, packets, read

from kinspect.errors import CaptureError, TruncatedCaptureError


def record(packet, *, padding=None, drops=0, length=None):
    padding = -len(packet.data) % 4 if padding is None else padding
    length = 24 + len(packet.data) + padding if length is None else length
    seconds, nanoseconds = divmod(packet.time, 10**9)
    header = pack(">6I", packet.wire, len(packet.data), length, drops, seconds, nanoseconds // 1000)
    return header + packet.data + bytes(padding)


def snoop(*records, version=2, kind=4):
    return b"".join([pack(">8sII", b"snoop", version, kind), *records])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.snoop"


def test_the_packets_written(path):
    content = packets(50, step=1_000_001_000)
    path.write_bytes(snoop(*map(record, content)))
    result = read(path)
    assert result.packets == content
    assert result.frames == [(0, number + 1) for number in range(50)]
    assert result.messages == []
    assert result.timeline.status.kernel_drops is None


def test_padding_of_any_size_is_no_part_of_a_packet(path):
    content = packets(20)
    path.write_bytes(snoop(*(record(packet, padding=n * 3) for n, packet in enumerate(content))))
    assert read(path).packets == content


def test_the_last_time_that_fits(path):
    packet = Packet(0xFFFFFFFF * 10**9 + 999_999_000, b"y", 1)
    path.write_bytes(snoop(record(packet)))
    assert read(path).packets == [packet]


def test_a_wire_length_below_the_captured_one_is_raised_to_it(path):
    path.write_bytes(snoop(record(Packet(START, b"payload", 3))))
    assert read(path).packets == [Packet(START, b"payload", 7)]


@pytest.mark.parametrize(
    ("kind", "link_type"),
    [(0, 1), (2, 6), (4, 1), (8, 10), (14, 0), (25, 1), (26, 242), (0x80000004, 105), (0x80000005, 226)],
)
def test_data_link_types(path, kind, link_type):
    path.write_bytes(snoop(record(Packet(START, b"payload", 7)), kind=kind))
    assert read(path).packets == [Packet(START, b"payload", 7, link_type)]


@pytest.mark.parametrize(
    ("header", "what"), [({"version": 3}, "version 3"), ({"kind": 17}, "data link type 17")]
)
def test_files_of_other_kinds(path, header, what):
    path.write_bytes(snoop(record(Packet(START, b"payload", 7)), **header))
    result = read(path)
    assert result.packets == []
    assert result.messages == [
        f"{path}: is a snoop file of {what}, which kinspect does not read; "
        f"convert it: editcap -F pcapng {path} {path}.pcapng"
    ]


def test_the_packets_dropped_up_to_the_last_one(path, tmp_path):
    content = packets(6)
    drops = [0, 0, 3, 3, 7, 7]
    path.write_bytes(snoop(*(record(p, drops=n) for p, n in zip(content, drops, strict=True))))
    other = tmp_path / "y.snoop"
    other.write_bytes(snoop(record(content[0], drops=2)))
    for block_size in (None, 1):
        assert read(path, block_size=block_size).timeline.status.kernel_drops == 7
        assert read(path, other, block_size=block_size).timeline.status.kernel_drops == 9


@pytest.mark.parametrize("padding", [0, 1])
def test_every_cut_gives_the_packets_before_it(path, padding):
    content = packets(5)
    records = [record(packet, padding=padding) for packet in content]
    whole = snoop(*records)
    ends = [16]
    for each in records:
        ends.append(ends[-1] + len(each))
    for cut in range(8, len(whole)):
        path.write_bytes(whole[:cut])
        result = read(path)
        assert result.packets == content[: sum(end <= cut for end in ends[1:])]
        assert [type(error) for error in result.timeline.errors] == [TruncatedCaptureError] * (
            cut not in ends
        )


def test_messages_of_a_cut_file(path):
    whole = snoop(*map(record, packets(3)))
    for cut, message in [
        (10, "ends in the middle of the file header (offset 0): 10 of 16 bytes are there"),
        (30, "ends in the middle of packet 1 (offset 16): 14 of 24 bytes are there"),
        (70, "ends in the middle of packet 2 (offset 60): 10 of 24 bytes are there"),
        (88, "ends in the middle of packet 2 (offset 60): 28 of 48 bytes are there"),
    ]:
        path.write_bytes(whole[:cut])
        assert read(path).messages == [f"{path}: {message}"]


@pytest.mark.parametrize("length", [0, 23, 30, 16 * 1024 * 1024 + 1, 0xFFFFFFFF])
def test_an_absurd_length_is_one_clear_error(path, length):
    content = packets(2)
    damage = record(Packet(START, b"payload", 7), length=length)
    path.write_bytes(snoop(*map(record, content), damage, bytes(100)))
    for block_size in (None, 1):
        result = read(path, block_size=block_size)
        assert result.packets == content
        assert result.messages == [
            f"{path}: packet 3 (offset 108) claims 7 captured bytes in a record of {length}; "
            "the file is damaged, what is before it was read"
        ]
        assert type(result.timeline.errors[0]) is CaptureError
