"""`kinspect live` on a pair of virtual Ethernet interfaces between two network namespaces."""

import json
import socket
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from support.pcap import Conversation, framed
from support.waiting import wait_until

from kinspect.capture import open_timeline
from kinspect.protocol import Message, encode_request, encode_response

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("iproute")]

TRAFFIC = str(Path(__file__).with_name("traffic.py"))
HEARTBEAT = 12
TAG = bytes.fromhex("81000005")
HOST, PORT = "10.77.0.2", 9092

SEND = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
    sender.bind((sys.argv[1], 0))
    for line in sys.stdin:
        sender.send(bytes.fromhex(line))
"""


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


class Pair:
    """Two namespaces, `left` and `right`, with a link between their interfaces `left0` and `right0`."""

    def __init__(self, name):
        self.names = {side: f"{name}-{side}" for side in ("left", "right")}

    def make(self):
        left, right = self.names.values()
        for name in (left, right):
            ip("netns", "add", name)
        self.join()

    def join(self):
        """Make the link, anew after one of its ends was deleted."""
        left, right = self.names.values()
        ip("link", "add", "left0", "netns", left, "type", "veth", "peer", "name", "right0", "netns", right)
        for number, (side, name) in enumerate(self.names.items(), 1):
            ip("-n", name, "addr", "add", f"10.77.0.{number}/24", "dev", f"{side}0")
            # Without IPv6 nothing passes but what a test sends.
            ip("-n", name, "link", "set", f"{side}0", "addrgenmode", "none", "up")

    def remove(self):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False)

    def inside(self, side):
        """The beginning of a command that runs in a namespace."""
        return ("ip", "netns", "exec", self.names[side])

    def talk(self, count, client="left"):
        """A client on the left, a broker on the right."""
        end = (HOST, str(PORT))
        serving = [*self.inside("right"), sys.executable, TRAFFIC, "serve", *end]
        with subprocess.Popen(serving, stdout=subprocess.PIPE) as server:
            try:
                assert server.stdout.readline() == b"serving\n"
                talking = [*self.inside(client), sys.executable, TRAFFIC, "talk", *end, str(count)]
                subprocess.run(talking, check=True)
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


def conversation(frame_of=lambda data: data):
    """A Heartbeat and its response, as frames."""
    talk = Conversation()
    talk.open()
    body = {"group_id": "workers", "generation_id": 1, "member_id": "m"}
    talk.client_sends(framed(encode_request(Message(HEARTBEAT, 4, 7, body, "app"))))
    talk.broker_sends(framed(encode_response(Message(HEARTBEAT, 4, 7, {"error_code": 0}))))
    return [frame_of(packet.data) for packet in talk.packets]


def send(inside, interface, frames):
    lines = "".join(f"{frame.hex()}\n" for frame in frames)
    command = [*inside, sys.executable, "-c", SEND, interface]
    subprocess.run(command, input=lines, text=True, check=True)


def read(path):
    command = [sys.executable, "-m", "kinspect", "read", "-q", "--host", "10.0.0.9", path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize(("interface", "link_type", "header"), [("right0", 1, 14), ("any", 276, 20)])
def test_the_kernel_takes_out_vlan_tags_and_they_are_put_back(
    live, pair, tmp_path, interface, link_type, header
):
    frames = conversation(lambda data: data[:12] + TAG + data[12:])
    path = tmp_path / "saved.pcapng"
    options = ("--emit", "exchange,summary", "--host", "10.0.0.9", "-w", path)
    with live("-i", interface, *options, before=pair.inside("right")) as running:
        send(pair.inside("left"), "left0", frames)
        out, _ = running.end()
    exchange, summary = map(json.loads, out.splitlines())
    assert (exchange["api"], exchange["correlation_id"]) == ("Heartbeat", 7)
    assert summary["tcp_segments"] == len(frames)
    assert summary["bytes"] == sum(len(frame) - 14 + header for frame in frames)
    (block,) = open_timeline([path])
    assert set(block.link_types) == {link_type}
    for start, end, frame in zip(block.starts, block.ends, frames, strict=True):
        # The tag, the type behind it, and the rest; a cooked header has the tag's type at its beginning.
        packet = block.data[start:end]
        assert packet[header:] == frame[14:]
        assert packet[12:14] == TAG[:2] if interface != "any" else packet[:2] == TAG[:2]
    assert json.loads(read(path))["correlation_id"] == 7


@pytest.mark.parametrize("names", [["one0", "two0"], ["any"]])
def test_a_packet_that_passes_two_interfaces_is_one(live, pair, names):
    name = pair.names["left"]
    ip("-n", name, "link", "add", "one0", "type", "veth", "peer", "name", "two0")
    for link in ("one0", "two0"):
        ip("-n", name, "link", "set", link, "addrgenmode", "none", "up")
    chosen = [word for name in names for word in ("-i", name)]
    options = ("--emit", "exchange,connection,summary", "--host", "10.0.0.9")
    with live(*chosen, *options, before=pair.inside("left")) as running:
        frames = conversation()
        send(pair.inside("left"), "one0", frames)
        out, err = running.end()
    lines = [json.loads(line) for line in out.splitlines()]
    assert sorted(line["type"] for line in lines) == ["connection", "exchange", "summary"]
    assert lines[-1]["duplicate_packets"] == len(frames)
    (first,) = {line["interface"] for line in lines[:-1]}
    assert first in ("one0", "two0")
    assert lines[-1]["interface"] == ",".join(names)
    assert {line["host"] for line in lines} == {socket.gethostname()}
    assert f"{2 * len(frames)} packets, {len(frames)} of them seen twice" in err


def ids(out):
    found = [json.loads(line) for line in out.splitlines()]
    assert {line["outcome"] for line in found} == {"answered"}
    assert {code["code"] for line in found for code in line["problems"]} == set()
    return sorted(line["correlation_id"] for line in found)


def test_several_interfaces_are_one_capture(live, pair):
    name = pair.names["right"]
    ip("-n", name, "link", "set", "lo", "up")
    with live(
        "-i", "right0", "-i", "lo", "--emit", "exchange,summary", before=pair.inside("right")
    ) as running:
        pair.talk(50)
        pair.talk(50, client="right")
        out, _ = running.end()
        assert running.process.returncode == 0
    *lines, summary = out.splitlines()
    assert ids("\n".join(lines)) == sorted([*range(50), *range(50)])
    clients = {json.loads(line)["client"]["ip"] for line in lines}
    assert clients == {"10.77.0.1", HOST}
    assert json.loads(summary)["files"] == ["right0,lo"]
    times = [json.loads(line)["completed_at"] for line in lines]
    assert times == sorted(times)


def test_one_of_several_interfaces_goes_down(live, pair):
    name = pair.names["right"]
    ip("-n", name, "link", "set", "lo", "up")
    with live("-i", "right0", "-i", "lo", before=pair.inside("right")) as running:
        ip("-n", name, "link", "set", "lo", "down")
        pair.talk(20)
        out, err = running.end()
        assert running.process.returncode == 1
    assert ids(out) == list(range(20))
    assert err.startswith(
        "kinspect: lo: the interface went away: nothing is captured from it until it is there"
    )
    assert "kinspect: lo: the interface is down\n" in err


LOOK = """
import sys, urllib.error, urllib.request
for path in ("healthz", "metrics"):
    try:
        with urllib.request.urlopen("http://127.0.0.1:9464/" + path, timeout=20) as page:
            print(page.status, page.read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode())
"""


@pytest.mark.parametrize("leave", ["deleted", "set down"])
def test_an_interface_that_comes_back_is_captured_from_again(live, pair, leave):
    name, inside = pair.names["right"], pair.inside("right")

    def pages():
        return subprocess.run(
            [*inside, sys.executable, "-c", LOOK], check=True, capture_output=True, text=True
        ).stdout

    def told(text):
        while text not in (line := running.process.stderr.readline().decode()):
            assert line

    ip("-n", name, "link", "set", "lo", "up")
    # Short lines: nobody reads them meanwhile.
    emit = ("--emit", "exchange,stats,summary", "--stats-interval", "1s", "--body", "none")
    with live("-i", "right0", "-i", "lo", "--metrics", "9464", *emit, before=inside) as running:
        told("metrics at")
        pair.talk(5)
        assert pages().startswith("200 ok\n")
        if leave == "deleted":
            ip("-n", name, "link", "del", "right0")
        else:
            ip("-n", name, "link", "set", "right0", "down")
        told("right0: the interface went away: nothing is captured from it until it is there again\n")
        assert pages().startswith("503 right0: the interface is away\n")
        # A page is made anew after half a second.
        wait_until(lambda: 'kinspect_capture_interface_up{interface="right0"} 0.0\n' in pages())
        assert 'kinspect_capture_interface_up{interface="lo"} 1.0\n' in pages()
        lines = []
        while not (lines and lines[-1]["type"] == "stats" and lines[-1]["interface_losses"]):
            lines.append(json.loads(running.line()))
        assert [(each["name"], each["up"]) for each in lines[-1]["interfaces"]] == [
            ("right0", False),
            ("lo", True),
        ]
        if leave == "deleted":
            pair.join()
        else:
            ip("-n", name, "link", "set", "right0", "up")
        told("right0: the interface is there again\n")
        assert pages().startswith("200 ok\n")
        pair.talk(20)
        out, err = running.end()
        assert running.process.returncode == 0
    lines += map(json.loads, out.splitlines())
    exchanges = [line for line in lines if line["type"] == "exchange"]
    assert [line["correlation_id"] for line in exchanges] == [*range(5), *range(20)]
    assert {line["interface"] for line in exchanges} == {"right0"}
    assert lines[-1]["interface_losses"] == 1
    assert "times that an interface went away, whose packets meanwhile are missing: 1\n" in err


@pytest.mark.parametrize("interface", ["right0", "any"])
@pytest.mark.parametrize(
    ("text", "expected"), [(f"tcp port {PORT}", 30), ("host 10.77.0.1 and not udp", 30), ("arp", 0)]
)
def test_a_filter_runs_in_the_kernel(live, pair, interface, text, expected):
    with live(
        "-i", interface, "--bpf", text, "--emit", "exchange,summary", before=pair.inside("right")
    ) as running:
        pair.talk(30)
        out, err = running.end()
        assert running.process.returncode == 0
    *lines, summary = out.splitlines()
    assert len(lines) == expected
    if expected == 0:
        assert {each["name"] for each in json.loads(summary)["packets_without_tcp"]} <= {"arp"}
    assert f"bytes on {interface}, of those that pass '{text}'\n" in err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--bpf", "nonsense and"], "can't parse filter expression"),
        (["--bpf", "vlan 5"], "takes VLAN tags out of packets before it filters"),
    ],
)
def test_filters_that_cannot_be(live, options, text):
    with live("-i", "lo", *options) as running:
        running.end(0)
        assert running.process.returncode == 1
    assert running.started.startswith("kinspect: --bpf: ")
    assert text in running.started


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
