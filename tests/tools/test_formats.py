"""Capture formats: kinspect and Wireshark's programs read the same in files that those write, and the tests."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from struct import pack

import pytest
from peer import CAPTURES, NEEDED, Packet, frames, our_packets, their_packet
from support import packets
from support.formats import WRITERS
from support.reading import texts

import kinspect
from kinspect.errors import CaptureError

pytestmark = pytest.mark.tools

CAPTURE = CAPTURES / "4.4.0" / "mtu1500.pcap.gz"
ETHERNET = [
    CAPTURES / name
    for name in ("4.4.0/mtu1500.pcap.gz", "4.4.0/ipv6.pcap", "4.4.0/snap96.pcap", "variants/qinq.pcap.gz")
]
WRITE = {
    "snoop": ("editcap", "-F", "snoop"),
    # editcap of Wireshark 4.0 fails to write this one.
    "ERF": ("mergecap", "-F", "erf", "-w"),
}
UNSUPPORTED = (
    *("5views", "lanalyzer", "netmon1", "netmon2", "nettl", "ngsniffer", "ngwsniffer_1_1", "ngwsniffer_2_0"),
    *("visual", "k12text", "iptrace", "aix"),
)


def iptrace(taken: Sequence[packets.Packet]) -> bytes:
    """A file as AIX's `iptrace` writes it, as Wireshark's wiretap describes it."""
    parts = [b"iptrace 2.0"]
    for packet in taken:
        seconds, nanoseconds = divmod(packet.time, 10**9)
        head = pack(
            ">II4x4s12sBBHII",
            32 + len(packet.data),
            seconds,
            b"en",
            b"ethernet",
            6,
            0,
            0,
            seconds,
            nanoseconds,
        )
        parts += [head, packet.data]
    return b"".join(parts)


def aix(taken: Sequence[packets.Packet]) -> bytes:
    """A file as AIX's `tcpdump` writes it."""
    parts = [pack(">IHHiIII", 0xA1B2C3D4, 2, 2, 0, 0, 65535, 6)]
    for packet in taken:
        size = len(packet.data)
        parts += [pack(">IIII", *divmod(packet.time, 10**9), size, size + packet.cut), packet.data]
    return b"".join(parts)


WRITTEN_HERE = {"iptrace": iptrace, "aix": aix}


def run(*command: str | Path) -> None:
    program = shutil.which(str(command[0]))
    if program is None:
        pytest.fail(NEEDED.replace("tshark is", f"{command[0]} is"), pytrace=False)
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def their_packets(path: Path) -> dict[int, Packet]:
    return {frame.number: their_packet(frame) for frame in frames(path, frozenset())}


@pytest.mark.parametrize("capture", ETHERNET, ids=lambda path: path.name)
@pytest.mark.parametrize("name", WRITE)
def test_files_that_wireshark_writes(name: str, capture: Path, tmp_path: Path) -> None:
    target = tmp_path / "written"
    command = WRITE[name]
    run(*command, target, capture) if "-w" in command else run(*command, capture, target)
    found = our_packets(target)
    assert found
    assert found == their_packets(target)
    assert [packet._replace(time=None) for packet in found.values()] == [
        packet._replace(time=None) for packet in our_packets(capture).values()
    ]


@pytest.mark.parametrize("name", WRITERS)
def test_files_that_the_tests_write(name: str, tmp_path: Path) -> None:
    path = tmp_path / "written"
    path.write_bytes(WRITERS[name](packets.packets(CAPTURE)))
    found = our_packets(path)
    assert found == our_packets(CAPTURE)
    assert found == their_packets(path)


def test_records_in_another_format(tmp_path: Path) -> None:
    """editcap makes pcapng of ERF as it is: packets of LINKTYPE_ERF."""
    path, target = tmp_path / "x.erf", tmp_path / "x.pcapng"
    path.write_bytes(WRITERS["ERF"](packets.packets(CAPTURE)))
    run("editcap", "-F", "pcapng", path, target)
    assert our_packets(target) == our_packets(CAPTURE)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_the_advice_for_files_that_are_not_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"some {name}.cap"
    if name in WRITTEN_HERE:
        path.write_bytes(WRITTEN_HERE[name](packets.packets(CAPTURE)))
    else:
        run("editcap", "-F", name, CAPTURE, path)
    with pytest.raises(CaptureError, match="which kinspect does not read; convert it") as caught:
        [*kinspect.read(path)]
    command = shlex.split(str(caught.value).rpartition(": ")[2])
    run(*command)
    # Some of these formats have milliseconds alone. `wait` goes by the times.
    times = {"timestamp", "completed_at", "latency_ms", "service_ms", "duration_ms", "wait"}
    left_out = frozenset({"file", "connection_id", "event_id", *times})
    converted, original = (
        texts([exchange.to_dict() for exchange in kinspect.read(each)], left_out)
        for each in (Path(command[-1]), CAPTURE)
    )
    assert converted == original
