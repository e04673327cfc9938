"""Link layers and tunnels: kinspect against tshark, over captures wrapped in each."""

from __future__ import annotations

from pathlib import Path

import pytest
from peer import CAPTURES, Frame, Packet, frames, our_packets, their_packet
from support.packets import nanosecond_pcap, packets
from support.wrap import ROOM, WRAPS

pytestmark = pytest.mark.tools

TAKEN = {"ip": CAPTURES / "4.4.0" / "mtu1500.pcap.gz", "ipv6": CAPTURES / "4.4.0" / "ipv6.pcap"}
MOST = 200

NOT_READ = {
    ("wccp_1", "ipv6"): "tshark looks for IPv4 alone behind WCCP's number",
    ("nflog_big_endian_239", "ip"): "tshark takes the byte order of the file for that of the fields",
    ("nflog_big_endian_239", "ipv6"): "tshark takes the byte order of the file for that of the fields",
}


def innermost(frame: Frame, version: str) -> Packet:
    source, destination = (
        (frame.all(f"{version}.{side}")[-1], frame.integer(f"tcp.{port}"))
        for side, port in (("src", "srcport"), ("dst", "dstport"))
    )
    return their_packet(frame)._replace(time=None, source=source, destination=destination)


@pytest.mark.parametrize("version", TAKEN)
@pytest.mark.parametrize("name", WRAPS)
def test_packets_inside(name: str, version: str, tmp_path: Path) -> None:
    wrap = WRAPS[name]
    taken = [packet for packet in packets(TAKEN[version]) if len(packet.data) + ROOM <= 0xFFFF][:MOST]
    path = tmp_path / "wrapped.pcap"
    path.write_bytes(
        nanosecond_pcap(
            packet._replace(data=wrap.around(packet.data), link_type=wrap.link_type) for packet in taken
        )
    )
    ours = {frame: packet._replace(time=None) for frame, packet in our_packets(path).items()}
    assert len(ours) == len(taken)
    theirs = {frame.number: innermost(frame, version) for frame in frames(path, frozenset())}
    if (name, version) in NOT_READ:
        assert theirs == {}, "no exception any more"
    else:
        assert ours == theirs
