"""The packets of connections without exchanges, as Enter on a row of the page connect shows them."""

import pytest
from support.tui import CAPTURES, indexed

import kinspect
from kinspect.errors import KinspectError
from kinspect.output import Style
from kinspect.tui.index import connectionpackets, export
from kinspect.tui.index.reread import StoppedError

CONNECT = CAPTURES / "connect"
HTTP = CONNECT / "http_curl.pcap"
PORTS = [9092]
HEAD = 2
"""Lines above the packets of a connection: its end and the titles."""


def packets(*paths, **changed):
    """The first row's connections, each as lines without times, below a line on all."""
    rows = kinspect.answer("connect", [*paths], decode_as=PORTS)["rows"]
    row, store = rows[0] | changed, indexed(*paths, kafka_ports=frozenset(PORTS))
    text = connectionpackets.packet_text(store, row, row["frames"], Style(utc=True))
    if text is None:
        return None
    head, *each = text.split("\n\n")
    return head, [[" ".join(line.split()) for line in one.split("\n")] for one in each]


def untimed(lines):
    return [" ".join(word for word in line.split() if ":" not in word) for line in lines[HEAD:]]


# As tshark shows them: flags, length, relative numbers.
ALIEN = """
25 client 0 0 SYN
26 broker 0 0 1 SYN, ACK
27 client 0 1 1 ACK
28 client 78 1 1 PSH, ACK
29 broker 0 1 79 ACK
30 broker 0 1 79 FIN, ACK
31 broker 0 2 79 RST, ACK
""".strip().split("\n")


def test_segments_are_those_of_the_connection_with_flags_sizes_and_relative_numbers():
    head, (lines,) = packets(HTTP)
    assert head == "1 connection from 10.77.1.2 to 10.77.2.2:9092"
    assert lines[:HEAD] == [
        "from 10.77.1.2:42216, in http_curl.pcap",
        "FRAME TIME SENDER BYTES SEQ ACK FLAGS",
    ]
    assert lines[HEAD] == "25 06:32:16.789 client 0 0 SYN"
    assert untimed(lines) == ALIEN


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        (
            "refused-ipv6_librdkafka.pcap.gz",
            "3 connections from fd77:1::2 to [fd77:2::2]:9999",
            ["13 client 0 0 SYN", "14 broker 0 1 1 RST, ACK"],
        ),
        # The error comes behind the connection's last packet.
        (
            "prohibited_aiokafka.pcap",
            "the first 5 of 9 connections from 10.77.1.2 to 10.77.2.2:9999",
            ["13 client 0 0 SYN", "14 ICMP 0 prohibited"],
        ),
    ],
)
def test_what_ended_a_connection_is_among_its_packets(name, head, expected):
    found, connections = packets(CONNECT / name)
    assert found == head
    assert untimed(connections[0]) == expected
    assert len({lines[0] for lines in connections}) == len(connections) == min(5, len(connections))


@pytest.mark.parametrize("name", ["idle_java.pcap.gz", "password_java.pcap"])
def test_connections_with_exchanges_have_these_in_place_of_packets(name):
    assert packets(CONNECT / name) is None


def test_exchanges_with_another_broker_are_not_those_of_the_connection():
    for ends in ({"broker": "10.77.2.2:1"}, {"client_ip": "10.0.0.1", "broker": "10.77.2.2:1"}):
        with pytest.raises(KinspectError, match="did they change meanwhile"):
            packets(CONNECT / "idle_java.pcap.gz", **ends)


def test_the_first_and_the_last_of_many_packets(monkeypatch):
    monkeypatch.setattr(connectionpackets, "SHOWN", 5)
    _, (lines,) = packets(HTTP)
    assert untimed(lines) == [*ALIEN[:3], "… 2 packets left out …", *ALIEN[-2:]]


def cut(folder, frames):
    """The capture in two, the first of which has that many frames."""
    data, at = HTTP.read_bytes(), 24
    for _ in range(frames):
        at += 16 + int.from_bytes(data[at + 8 : at + 12], "little")
    paths = folder / "a.pcap", folder / "b.pcap"
    for path, part in zip(paths, (data[24:at], data[at:]), strict=True):
        path.write_bytes(data[:24] + part)
    return paths


def test_packets_in_another_capture_are_told(tmp_path):
    paths = cut(tmp_path, 27)
    (row,) = kinspect.answer("connect", paths, decode_as=PORTS)["rows"]
    assert row["frames"] == [{"file": str(paths[0]), "first": 25, "last": None, "packets": 7}]
    _, (lines,) = packets(*paths)
    assert lines[0] == "from 10.77.1.2:42216, in a.pcap"
    assert untimed(lines) == [
        *ALIEN[:3],
        "and 4 packets in other captures, or lost here",
    ]


def test_why_packets_are_not_there(monkeypatch):
    (row,) = kinspect.answer("connect", [HTTP], decode_as=PORTS)["rows"]
    store, (place,) = indexed(HTTP), row["frames"]

    def read(stopped=lambda: False, **changed):
        return connectionpackets.packet_text(store, row, [place | changed], Style(), stopped)

    with pytest.raises(KinspectError, match="did they change meanwhile"):
        read(first=10_000, last=10_000)
    with pytest.raises(KinspectError, match="nobody noted"):
        read(file=None)
    with pytest.raises(StoppedError):
        read(lambda: True)
    monkeypatch.setattr(export, "can_reopen", lambda _: False)
    with pytest.raises(KinspectError, match="read only once"):
        read()


def test_enter_shows_the_packets_and_escape_goes_back_to_the_row(explore):
    async def script(explorer):
        await explorer.press("h", "enter")
        shown = explorer.read()
        assert "from 10.77.1.2:42216, in http_curl.pcap" in shown
        assert "78        1        1  PSH, ACK" in shown
        await explorer.press("escape")
        assert explorer.app.screen is explorer.main
        assert explorer.main.pages.shown == "connect"
        assert "connect 1/1 rows" in explorer.read()

    explore(script, HTTP, kafka_ports=frozenset(PORTS), size=(100, 40))


def test_packets_that_come_when_the_page_is_left_are_not_shown(explore):
    async def script(explorer):
        await explorer.press("h")
        main = explorer.main
        row = main.page.rows.row
        await explorer.press("0")
        main._row_read("connect", row, 0, "late")
        assert explorer.app.screen is main

    explore(script, HTTP, kafka_ports=frozenset(PORTS))
