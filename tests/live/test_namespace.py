"""`kinspect live` on a pair of virtual Ethernet interfaces between two network namespaces."""

import json
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from support.pcap import Conversation, framed

from kinspect.protocol import Message, encode_request, encode_response

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("iproute")]

TRAFFIC = str(Path(__file__).with_name("traffic.py"))
HEARTBEAT = 12
TAG = bytes.fromhex("81000005")
HOST, PORT = "10.77.0.2", 9092

SEND = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind(("left0", 0))
    for line in sys.stdin:
        sender.send(bytes.fromhex(line))
"""


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, timeout=20)


class Pair:
    """Two namespaces, `left` and `right`, with a link between their interfaces `left0` and `right0`."""

    def __init__(self, name):
        self.names = {side: f"{name}-{side}" for side in ("left", "right")}

    def make(self):
        left, right = self.names.values()
        for name in (left, right):
            ip("netns", "add", name)
        ip("link", "add", "left0", "netns", left, "type", "veth", "peer", "name", "right0", "netns", right)
        for number, (side, name) in enumerate(self.names.items(), 1):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", f"{side}0")
            # Without IPv6 nothing passes but what a test sends.
            ip("-n", name, "link", "set", f"{side}0", "addrgenmode", "none", "up")

    def remove(self):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, timeout=20)

    def inside(self, side):
        """The beginning of a command that runs in a namespace."""
        return ("ip", "netns", "exec", self.names[side])

    def talk(self, count):
        """A client on the left, a broker on the right."""
        end = (HOST, str(PORT))
        serving = [*self.inside("right"), sys.executable, TRAFFIC, "serve", *end]
        with subprocess.Popen(serving, stdout=subprocess.PIPE) as server:
            try:
                assert server.stdout.readline() == b"serving\n"
                talking = [*self.inside("left"), sys.executable, TRAFFIC, "talk", *end, str(count)]
                subprocess.run(talking, check=True, timeout=30)
            finally:
                server.kill()


@pytest.fixture
def pair():
    # Namespaces are the machine's: each test has its own.
    made = Pair(f"kinspect-{uuid.uuid4().hex[:8]}")
    try:
        made.make()
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("side", ["left", "right"])
def test_both_directions_are_seen_once(live, pair, side):
    with live("-i", f"{side}0", before=pair.inside(side)) as running:
        pair.talk(100)
        out, err = running.end()
        assert running.process.returncode == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert sorted(line["correlation_id"] for line in lines) == list(range(100))
    assert {line["outcome"] for line in lines} == {"answered"}
    assert "packets dropped by the capturing kernel: 0" in err


def test_the_kernel_takes_out_vlan_tags_and_they_are_put_back(live, pair):
    talk = Conversation()
    talk.open()
    body = {"group_id": "workers", "generation_id": 1, "member_id": "m"}
    talk.client_sends(framed(encode_request(Message(HEARTBEAT, 4, 7, body, "app"))))
    talk.broker_sends(framed(encode_response(Message(HEARTBEAT, 4, 7, {"error_code": 0}))))
    sizes = [len(packet.data) + len(TAG) for packet in talk.packets]
    frames = [packet.data[:12] + TAG + packet.data[12:] for packet in talk.packets]
    options = ("--emit", "exchange,summary", "--host", "10.0.0.9")
    with live("-i", "right0", *options, before=pair.inside("right")) as running:
        lines = "".join(f"{frame.hex()}\n" for frame in frames)
        command = [*pair.inside("left"), sys.executable, "-c", SEND]
        subprocess.run(command, input=lines, text=True, check=True, timeout=20)
        out, _ = running.end()
    exchange, summary = map(json.loads, out.splitlines())
    assert (exchange["api"], exchange["correlation_id"]) == ("Heartbeat", 7)
    assert summary["tcp_segments"] == len(frames)
    assert summary["bytes"] == sum(sizes)


def test_an_interface_that_goes_down_ends_it(live, pair):
    with live("-i", "right0", before=pair.inside("right")) as running:
        pair.talk(10)
        ip("-n", pair.names["right"], "link", "set", "right0", "down")
        out, err = running.end(0)
        assert running.process.returncode == 1
    assert len(out.splitlines()) == 10
    assert err.startswith("kinspect: right0: the interface is down\n")


def test_an_interface_that_is_down_cannot_be_captured_from(live, pair):
    ip("-n", pair.names["right"], "link", "set", "right0", "down")
    with live("-i", "right0", before=pair.inside("right")) as running:
        running.end(0)
        assert running.started == "kinspect: right0: the interface is down\n"
        assert running.process.returncode == 1
