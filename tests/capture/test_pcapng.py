from struct import pack

import pytest
from capture_files import START, Packet, Pcapng, packets, pcapng, read
from scapy.utils import RawPcapNgReader

from kinspect.errors import CaptureError, TruncatedCaptureError

ORDERS = ["<", ">"]


def everything(order: str = "<") -> tuple[bytes, list[tuple[int, Packet | None]]]:
    """A file with all kinds of blocks: its bytes, and a block's end and packet, each."""
    file = Pcapng(order)
    ends: list[tuple[int, Packet | None]] = []

    def done(packet: Packet | None = None) -> None:
        ends.append((len(file.bytes()), packet))

    ticks = START // 1000
    file.section()
    done()
    file.interface(1)
    done()
    file.interface(113, tsresol=9, snaplen=4)
    done()
    file.enhanced(ticks, b"first", 100)
    done(Packet(START, b"first", 100, 1))
    file.enhanced(START + 7, b"second", 6, interface=1, options=file.option(1, b"a comment"))
    done(Packet(START + 7, b"second", 6, 113))
    file.block(4, b"names: skipped")
    done()
    file.simple(b"simple", 6)
    done(Packet(None, b"simple", 6, 1))
    file.old(ticks + 1, b"old", 3)
    done(Packet(START + 1000, b"old", 3, 1))
    file.statistics(0, ifdrop=3, osdrop=4)
    done()
    file.secrets(b"CLIENT_RANDOM 00 11")
    done()
    file.block(0x0BAD, b"unknown")
    done()
    file.section((1, 2))
    done()
    file.interface(276)
    done()
    file.enhanced(ticks, b"", 0)
    done(Packet(START, b"", 0, 276))
    return file.bytes(), ends


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("block_size", [None, 1, 50])
def test_all_kinds_of_blocks(tmp_path, order, block_size):
    data, ends = everything(order)
    path = tmp_path / "x.pcapng"
    path.write_bytes(data)
    result = read(path, block_size=block_size)
    expected = [packet for _, packet in ends if packet]
    assert result.packets == expected
    assert result.frames == [(0, i + 1) for i in range(len(expected))]
    assert result.messages == []
    assert result.timeline.status.kernel_drops == 7
    assert result.timeline.secrets == [b"CLIENT_RANDOM 00 11"]


@pytest.mark.parametrize("order", ORDERS)
def test_every_cut_gives_the_packets_before_it(tmp_path, order):
    data, ends = everything(order)
    path = tmp_path / "x.pcapng"
    for cut in range(4, len(data)):
        path.write_bytes(data[:cut])
        result = read(path)
        assert result.packets == [packet for end, packet in ends if packet and end <= cut]
        whole = cut in [end for end, _ in ends]
        assert [type(error) for error in result.timeline.errors] == [TruncatedCaptureError] * (not whole)


@pytest.mark.parametrize("order", ORDERS)
def test_scapy_reads_the_same(tmp_path, order):
    content = packets(30)
    path = tmp_path / "x.pcapng"
    path.write_bytes(pcapng(content, order))
    with RawPcapNgReader(str(path)) as reader:
        theirs = [(((meta.tshigh << 32) + meta.tslow) * 1000, data, meta.wirelen) for data, meta in reader]
    assert [packet[:3] for packet in read(path).packets] == theirs
    assert read(path).packets == content


@pytest.mark.parametrize(
    ("tsresol", "tsoffset", "ticks", "time"),
    [
        (None, None, 1_234_567, 1_234_567_000),
        (0, None, 1_700_000_000, START),
        (3, None, 1_700_000_000_001, START + 1_000_000),
        (6, 1_700_000_000, 5, START + 5000),
        (9, None, START + 1, START + 1),
        (9, -10, START, START - 10 * 10**9),
        (12, None, 1_999, 1),  # finer than nanoseconds: rounded down
        (12, 1, 10**12 - 1, 2 * 10**9 - 1),
        (0x80 | 10, None, 1024 * 3 + 1, 3 * 10**9 + 976_562),
        (0x80 | 10, 100, 512, 100 * 10**9 + 500_000_000),
        (0x80 | 32, None, (1_700_000_000 << 32) | 0x80000000, START + 500_000_000),
        (0x80, None, 7, 7 * 10**9),
        (127, None, 2**64 - 1, 0),
        (0xFF, None, 2**64 - 1, 0),
        (0, None, 2**64 - 1, None),  # beyond what clocks and timers count
        (9, 1 << 40, 5, None),
        (9, -(1 << 40), 5, None),
    ],
)
def test_times_are_exact_in_every_resolution(tmp_path, tsresol, tsoffset, ticks, time):
    path = tmp_path / "x.pcapng"
    for order in ORDERS:
        file = Pcapng(order).section().interface(tsresol=tsresol, tsoffset=tsoffset)
        path.write_bytes(file.enhanced(ticks, b"x", 1).old(ticks, b"x", 1).bytes())
        assert [packet.time for packet in read(path).packets] == [time, time]


def test_sections_of_both_byte_orders_start_over(tmp_path):
    parts = [
        Pcapng(order).section().interface(link_type).enhanced(i, b"x", 1).bytes()
        for i, (order, link_type) in enumerate([("<", 1), (">", 113), ("<", 276)])
    ]
    path = tmp_path / "x.pcapng"
    path.write_bytes(b"".join(parts))
    result = read(path)
    assert [packet.link_type for packet in result.packets] == [1, 113, 276]
    assert [packet.time for packet in result.packets] == [0, 1000, 2000]
    path.write_bytes(parts[0] + Pcapng().section().enhanced(0, b"x", 1).bytes())
    assert "is of interface 0, which no block before it describes" in read(path).messages[0]


def test_frame_check_sequence_of_an_interface(tmp_path):
    file = Pcapng().section().interface(fcslen=4).interface()
    file.enhanced(0, b"payloadFCSX", 11).enhanced(0, b"payloadFCSX", 11, interface=1)
    file.enhanced(0, b"payloa", 11).old(0, b"payloadF", 11).simple(b"payloadFCSX", 11)
    path = tmp_path / "x.pcapng"
    path.write_bytes(file.bytes())
    assert [(packet.data, packet.wire) for packet in read(path).packets] == [
        (b"payload", 7),
        (b"payloadFCSX", 11),
        (b"payloa", 7),
        (b"payload", 7),
        (b"payload", 7),
    ]


@pytest.mark.parametrize(("snaplen", "captured"), [(0, b"abcdef\0\0"), (6, b"abcdef"), (100, b"abcdef\0\0")])
def test_simple_packets_are_limited_by_the_snap_length(tmp_path, snaplen, captured):
    path = tmp_path / "x.pcapng"
    path.write_bytes(Pcapng().section().interface(snaplen=snaplen).simple(b"abcdef", 1000).bytes())
    assert read(path).packets == [Packet(None, captured, 1000)]


def test_drops_are_the_last_count_of_each_interface(tmp_path):
    path = tmp_path / "x.pcapng"
    file = Pcapng().section().interface().interface()
    file.statistics(0, ifdrop=1).statistics(0, ifdrop=5).statistics(1, osdrop=2).statistics(1)
    path.write_bytes(file.section().interface().statistics(0, ifdrop=10).bytes())
    assert read(path).timeline.status.kernel_drops == 17
    path.write_bytes(Pcapng().section().interface().statistics(0).bytes())
    assert read(path).timeline.status.kernel_drops is None


def test_drops_of_a_rotated_capture_are_counted_once(tmp_path):
    paths = []
    for i, drops in enumerate([3, 8, 8]):
        paths.append(tmp_path / f"{i}.pcapng")
        file = Pcapng().section().interface().enhanced(START // 1000 + i, b"x", 1)
        paths[-1].write_bytes(file.statistics(0, ifdrop=drops, start=START // 1000).bytes())
    assert read(*paths).timeline.status.kernel_drops == 8


def test_secrets_after_their_packets_and_of_other_kinds(tmp_path):
    file = Pcapng().section().interface().enhanced(0, b"x", 1).secrets(b"one\n").secrets(b"wg", 0x57474B4C)
    path = tmp_path / "x.pcapng"
    path.write_bytes(file.secrets(b"two\n").block(10, pack("<II", 0x544C534B, 999) + b"cut ").bytes())
    assert read(path).timeline.secrets == [b"one\n", b"two\n", b"cut "]


@pytest.mark.parametrize(
    "options",
    [
        pack("<HH", 9, 0),  # a resolution without its byte
        pack("<HH", 9, 60000) + b"\x09\0\0\0",  # longer than the block
        pack("<HH", 14, 4) + bytes(4),  # an offset too short
        pack("<HH", 0, 0) + pack("<HH", 9, 1) + b"\x09\0\0\0",  # behind the end of options
        b"\x09",  # padded to something too short
    ],
)
def test_odd_options_are_passed_over(tmp_path, options):
    path = tmp_path / "x.pcapng"
    file = Pcapng().section().block(1, pack("<HHI", 1, 0, 0) + options).enhanced(5, b"x", 1)
    path.write_bytes(file.bytes())
    result = read(path)
    assert result.packets == [Packet(5000, b"x", 1)]
    assert result.messages == []


def broken_trailer(file: Pcapng) -> None:
    file.parts[-1] = file.parts[-1][:-4] + pack("<I", 99)


DAMAGE = {
    "trailer of a packet": (
        lambda file: broken_trailer(file.enhanced(0, b"x", 1)),
        "packet 2 {at} has a length of 36 bytes at its start and of 99 at its end",
    ),
    "trailer of another block": (
        lambda file: broken_trailer(file.secrets(b"x")),
        "a block {at} has a length of 24 bytes at its start and of 99 at its end",
    ),
    "length too small": (
        lambda file: file.parts.append(pack("<III", 6, 8, 8)),
        "packet 2 {at} claims a length of 8 bytes",
    ),
    "length absurd": (
        lambda file: file.parts.append(pack("<III", 6, 0x7FFFFFF0, 0)),
        "packet 2 {at} claims a length of 2147483632 bytes",
    ),
    "more captured than the block holds": (
        lambda file: file.block(6, pack("<5I", 0, 0, 0, 50, 50) + bytes(40)),
        "packet 2 {at} claims 50 captured bytes, its block has room for 40",
    ),
    "old packet with more captured than the block holds": (
        lambda file: file.block(2, pack("<HH4I", 0, 0, 0, 0, 50, 50) + bytes(40)),
        "packet 2 {at} claims 50 captured bytes, its block has room for 40",
    ),
    "unknown interface": (
        lambda file: file.enhanced(0, b"x", 1, interface=3),
        "packet 2 {at} is of interface 3, which no block before it describes",
    ),
    "short packet": (
        lambda file: file.block(6, bytes(12)),
        "packet 2 {at} is too short for what its type must hold",
    ),
    "short interface": (
        lambda file: file.block(1, bytes(4)),
        "a block {at} is too short for what its type must hold",
    ),
    "section without byte order": (
        lambda file: file.block(0x0A0D0D0A, bytes(16)),
        "a block {at} has no byte order mark",
    ),
    "section of another version": (
        lambda file: file.section((2, 0)),
        "a block {at} starts a section of version 2.0; only version 1 is known",
    ),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGE.values(), ids=DAMAGE)
def test_damage_is_one_clear_error_after_the_packets_before(tmp_path, damage, message):
    file = Pcapng().section().interface().enhanced(0, b"good", 4)
    at = f"(offset {len(file.bytes())})"
    damage(file)
    path = tmp_path / "x.pcapng"
    path.write_bytes(file.bytes() + pcapng(packets(2)))
    result = read(path)
    assert result.packets == [Packet(0, b"good", 4)]
    assert result.messages == [
        f"{path}: {message.format(at=at)}; the file is damaged, what is before it was read"
    ]
    assert type(result.timeline.errors[0]) is CaptureError


def test_message_of_a_cut_file(tmp_path):
    data = Pcapng().section().interface().enhanced(0, bytes(200), 200).bytes()
    path = tmp_path / "x.pcapng"
    path.write_bytes(data[:-100])
    offset = len(data) - 232
    assert read(path).messages == [
        f"{path}: ends in the middle of packet 1 (offset {offset}): 132 of 232 bytes are there"
    ]
