"""Written pcapng files, as `read_pcapng`, scapy and (by `tools`) tshark read them."""

import subprocess

import pytest
from capture_files import Packet, read
from scapy.utils import RawPcapNgReader

from kinspect.capture import open_timeline
from kinspect.capture.writer import LATEST_NS, PcapngWriter, statistics_block

TIME = 1_700_000_000_123_456_789
SECRET = b"CLIENT_RANDOM " + b"0a" * 32 + b" " + b"0b" * 48 + b"\n"
PACKETS = [
    (0, TIME, b"odd", 3),
    (1, TIME + 1, b"cut short", 1500),
    (0, LATEST_NS, b"", 0),
    (1, 0, bytes(range(256)) * 200, 51200),
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "x.pcapng"
    with path.open("wb") as file:
        writer = PcapngWriter(file)
        assert writer.interface(1, "eth0", 65535, "tcp port 9092") == 0
        assert writer.interface(276) == 1
        writer.secrets(SECRET)
        for packet in PACKETS:
            writer.packet(*packet)
    return path


def test_what_is_written_is_read(path):
    timeline = open_timeline([path])
    found = [
        Packet(block.times[index], block.data[start:end], block.wire_lengths[index], block.link_types[index])
        for block in timeline
        for index, (start, end) in enumerate(zip(block.starts, block.ends, strict=True))
    ]
    link_types = [1, 276]
    assert found == [Packet(time, data, wire, link_types[number]) for number, time, data, wire in PACKETS]
    assert timeline.errors == []
    assert timeline.secrets == [SECRET]
    assert timeline.status.kernel_drops is None


def test_scapy_reads_it_too(path):
    with RawPcapNgReader(str(path)) as reader:
        found = [(data, meta.wirelen, meta.linktype, meta.ifname) for data, meta in reader]
    assert found == [(d, wire, [1, 276][n], [b"eth0", None][n]) for n, _, d, wire in PACKETS]


@pytest.mark.tools
def test_tshark_reads_it_too(path):
    columns = ("frame.interface_name", "frame.time_epoch", "frame.len", "frame.cap_len")
    fields = [word for column in columns for word in ("-e", column)]
    shown = subprocess.run(
        ["tshark", "-r", path, "-T", "fields", *fields],
        check=True,
        capture_output=True,
        text=True,
    )
    first, second, *_ = shown.stdout.splitlines()
    assert first.split("\t")[0] == "eth0"
    assert first.split("\t")[1].startswith("1700000000.123456789")
    assert second.split("\t")[2:] == ["1500", "9"]


def test_drops_of_one_capture_are_told_once_over_its_files(tmp_path):
    paths = [tmp_path / "1.pcapng", tmp_path / "2.pcapng"]
    for path, dropped in zip(paths, (3, 5), strict=True):
        with path.open("wb") as file:
            writer = PcapngWriter(file)
            writer.packet(writer.interface(1), TIME, b"packet", 6)
            file.write(statistics_block(0, TIME, TIME + 1, dropped))
    timeline = open_timeline(paths)
    assert sum(map(len, timeline)) == 2
    assert timeline.status.kernel_drops == 5


@pytest.mark.parametrize(("interface", "time"), [(1, TIME), (-1, TIME), (0, -1), (0, LATEST_NS + 1)])
def test_what_the_format_cannot_say_is_refused(tmp_path, interface, time):
    path = tmp_path / "x.pcapng"
    with path.open("wb") as file:
        writer = PcapngWriter(file)
        writer.interface(1)
        with pytest.raises(ValueError, match=r"interface|is no time that could be read again"):
            writer.packet(interface, time, b"", 0)
    assert read(path).packets == []
