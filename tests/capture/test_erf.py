"""ERF files, written from Endace's reference of ERF types."""

import random
from fractions import Fraction
from struct import pack

import pytest
from capture_files import START, Packet, read
from hypothesis import given
from hypothesis import strategies as st

from kinspect.capture.erffile import is_erf
from kinspect.capture.fileformats import open_capture
from kinspect.capture.reader import BLOCK_SIZE, Findings
from kinspect.capture.source import SourceHead
from kinspect.errors import CaptureError, TruncatedCaptureError

ETH, COLOR_ETH, META, PAD = 2, 11, 27, 48
SECONDS = START // 10**9


def record(
    body=b"", *, kind=ETH, seconds=SECONDS, fraction=0, losses=0, wire=None, extensions=(), length=None
):
    """A record whose body begins behind the extensions, padded to eight bytes."""
    behind = b""
    for number, extension in enumerate(extensions):
        behind += bytes([extension | (0x80 if number + 1 < len(extensions) else 0)]) + bytes(7)
    body = behind + body
    body += bytes(-len(body) % 8)
    length = 16 + len(body) if length is None else length
    wire = len(body) - len(behind) if wire is None else wire
    kind |= 0x80 if extensions else 0
    return pack("<II", fraction, seconds) + pack(">BBHHH", kind, 4, length, losses, wire) + body


def ethernet(data, **fields):
    return record(bytes(2) + data, wire=len(data), **fields)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.erf"


@given(st.integers(1, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_time_is_that_of_the_nearest_nanosecond(tmp_path_factory, seconds, fraction):
    path = tmp_path_factory.getbasetemp() / "x.erf"
    # Behind another record: some times, as a file's first bytes, are the begin of a zstd frame.
    path.write_bytes(
        ethernet(b"first", seconds=seconds) + ethernet(b"frame", seconds=seconds, fraction=fraction)
    )
    _, packet = read(path).packets
    exact = (seconds + Fraction(fraction, 2**32)) * 10**9
    assert abs(packet.time - exact) <= Fraction(1, 2)


@given(st.integers(0, 999_999_999))
def test_a_time_that_was_written_from_nanoseconds_comes_back(tmp_path_factory, nanoseconds):
    path = tmp_path_factory.getbasetemp() / "x.erf"
    path.write_bytes(ethernet(b"frame", fraction=(nanoseconds << 32) // 10**9))
    assert read(path).packets[0].time == START + nanoseconds


@pytest.mark.parametrize("extensions", [(), (17,), (17, 18, 3, 3)])
@pytest.mark.parametrize(
    ("kind", "before", "link_type"),
    [
        *[(kind, 0, 50) for kind in (1, 10, 15, 19)],
        *[(kind, 4, 50) for kind in (5, 17)],
        *[(kind, 2, 1) for kind in (2, 11, 16, 20)],
        (21, 0, 247),
        (22, 0, 228),
        (23, 0, 229),
    ],
)
def test_link_types_of_records(path, kind, before, link_type, extensions):
    data = b"a packet"
    path.write_bytes(record(bytes(before) + data, kind=kind, wire=20, extensions=extensions, length=None))
    (packet,) = read(path).packets
    assert packet.link_type == link_type
    assert packet.data.startswith(data)
    assert (packet.time, packet.wire) == (START, 20)


def test_padding_is_no_part_of_a_packet(path):
    path.write_bytes(b"".join(ethernet(b"x" * size) for size in range(1, 20)))
    assert [packet.data for packet in read(path).packets] == [b"x" * size for size in range(1, 20)]


def test_a_cut_packet(path):
    path.write_bytes(record(bytes(2) + b"x" * 62, wire=1518))
    assert read(path).packets == [Packet(START, b"x" * 62, 1518)]


def test_records_without_a_packet_that_is_known_stay_whole(path):
    written = record(b"provenance", kind=META, extensions=(17,), seconds=0)
    path.write_bytes(written + ethernet(b"frame"))
    assert read(path).packets == [
        Packet(None, written, len(written), 197),
        Packet(START, b"frame", 5),
    ]


def test_padding_records_are_no_frames(path):
    pad = record(kind=PAD, seconds=0)
    path.write_bytes(pad + ethernet(b"one") + pad + record(bytes(30), kind=PAD) + ethernet(b"two") + pad)
    for block_size in (None, 1):
        result = read(path, block_size=block_size)
        assert [packet.data for packet in result.packets] == [b"one", b"two"]
        assert result.frames == [(0, 1), (0, 2)]
        assert result.messages == []


def test_losses_are_counted_where_the_type_counts_them(path):
    path.write_bytes(
        ethernet(b"one", losses=3) + ethernet(b"two", kind=COLOR_ETH, losses=9) + ethernet(b"3", losses=4)
    )
    for block_size in (None, 1):
        assert read(path, block_size=block_size).timeline.status.kernel_drops == 7
    path.write_bytes(ethernet(b"one") + ethernet(b"two", kind=COLOR_ETH, losses=9))
    assert read(path).timeline.status.kernel_drops is None


@pytest.mark.parametrize(
    "damage",
    [
        ethernet(b"frame", length=0),
        ethernet(b"frame", length=15),
        ethernet(b"frame", length=17),
        record(b"", kind=ETH),
        record(bytes(8), kind=ETH | 0x80, length=24)[:16] + b"\x91" + bytes(7),
        record(bytes(3), kind=5, length=19)[:19],
    ],
)
def test_a_record_that_is_shorter_than_its_headers_is_one_clear_error(path, damage):
    content = [ethernet(b"one"), ethernet(b"two"), ethernet(b"three")]
    path.write_bytes(b"".join(content) + damage + bytes(100))
    for block_size in (None, 1):
        result = read(path, block_size=block_size)
        assert [packet.data for packet in result.packets] == [b"one", b"two", b"three"]
        offset = sum(map(len, content))
        assert result.messages == [
            f"{path}: packet 4 (offset {offset}) is shorter than its headers; "
            "the file is damaged, what is before it was read"
        ]
        assert type(result.timeline.errors[0]) is CaptureError


def test_every_cut_gives_the_packets_before_it(path):
    records = [ethernet(bytes([number]) * number, extensions=(17,) * (number % 2)) for number in range(1, 6)]
    whole = b"".join(records)
    ends = [0]
    for each in records:
        ends.append(ends[-1] + len(each))
    for cut in range(1, len(whole)):
        path.write_bytes(whole[:cut])
        result = read(path)
        assert len(result.packets) == sum(end <= cut for end in ends[1:])
        if cut < ends[1]:
            # Nothing else tells that it is ERF.
            assert "not a capture" in result.messages[0]
        else:
            assert [type(error) for error in result.timeline.errors] == [TruncatedCaptureError] * (
                cut not in ends
            )


# ---------------------------------------------------------------------- what is taken for ERF


def begins(data):
    at = 0

    def more(size):
        nonlocal at
        at += size
        return data[at - size : at]

    return SourceHead(more)


@pytest.mark.parametrize(
    "data",
    [
        ethernet(b"frame"),
        record(b"", kind=PAD) * 2 + ethernet(b"frame"),
        record(b"metadata", kind=META, seconds=0) + ethernet(b"frame"),
        ethernet(b"frame") + ethernet(b"frame", seconds=SECONDS - 1),
        ethernet(b"frame") + bytes(15),
    ],
)
def test_files_of_records(data):
    assert is_erf(begins(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(1000),
        b"\xff" * 1000,
        b"some text\nand more of it, line by line\n" * 100,
        b"12345678\n" * 10_000,
        b"0" * 100_000,
        record(b"", kind=PAD) * 3 + ethernet(b"frame"),
        ethernet(b"frame")[:-1],
        ethernet(b"frame", kind=0) * 3,
        ethernet(b"frame", kind=33) * 3,
        ethernet(b"frame") + ethernet(b"frame", seconds=SECONDS + 400 * 86400),
        ethernet(b"frame") * 2 + ethernet(b"frame", kind=99),
        ethernet(b"frame") + ethernet(b"frame", length=15),
    ],
)
def test_other_files(data):
    assert not is_erf(begins(data))


def test_random_bytes_are_not_taken_for_records():
    rng = random.Random(1)
    assert sum(is_erf(begins(rng.randbytes(70_000))) for _ in range(500)) == 0


class Pipe:
    """A source to which nothing comes after `data`, and which is still open."""

    name = "pipe"

    def __init__(self, data):
        self.position = 0
        self._data = data

    def read(self, size):
        data = self._data[self.position : self.position + size]
        if not data:
            raise AssertionError("waits for more")
        self.position += len(data)
        return data


def test_packets_of_a_pipe_are_seen_when_three_records_are_there():
    found = open_capture(Pipe(ethernet(b"frame") * 3), 1, BLOCK_SIZE, Findings())
    assert sum(len(next(found)) for _ in range(2)) == 3


def test_recognising_reads_three_headers_at_most():
    records = [ethernet(bytes(size)) for size in (100, 200, 300)]
    begin = begins(b"".join(records) * 9)
    assert is_erf(begin)
    assert len(begin.data) == len(records[0]) + len(records[1]) + 16
