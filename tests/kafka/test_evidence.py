"""Keys of `connection` lines that tell why a connection failed."""

import pytest
from support.packets import blocks
from support.segments import BROKER, CLIENT, MS, SECOND, TcpConnection

from kinspect.pipeline import Inspector

REQUEST = bytes.fromhex("0000001a 0012 0003 00000001 0007 61646d696e2d31 00 02 61 02 31 00".replace(" ", ""))
API_VERSIONS = b"\0\0\0\x11\0\x12\0\0\0\0\0\1\0\7admin-1"
HELLO = bytes.fromhex("16030100 2d 010000 29 0303".replace(" ", "")) + bytes(32) + b"\0\0\2\x13\x01\1\0"
SERVER_HELLO = bytes.fromhex("16030300 2a 020000 26 0303".replace(" ", "")) + bytes(32) + b"\0\x13\x01\0"
FATAL = b"\x15\x03\x03\0\2\2"


def line(connection, **options):
    inspector = Inspector(emit=frozenset({"connection"}), files=["a.pcap"], **options)
    lines = [found for block in blocks(connection.packets) for found in inspector.feed(block)]
    (found,) = [*lines, *inspector.finish()]
    return found.to_dict(), inspector


def told(connection, *keys):
    found, _ = line(connection)
    return tuple(found[key] for key in keys)


def test_a_syn_that_nobody_answers():
    found, _ = line(TcpConnection().syn(3))
    assert (found["syns"], found["refused"], found["icmp"], found["ended_by"]) == (3, False, [], None)
    assert found["frames"] == {"file": "a.pcap", "first": 1, "last": 3, "packets": 3}


def test_a_reset_that_answers_the_syn():
    assert told(TcpConnection().syn().reset(BROKER), "syns", "refused", "ended_by") == (1, True, "broker")
    assert told(TcpConnection().open().reset(BROKER), "refused", "ended_by") == (False, "broker")


@pytest.mark.parametrize(
    ("client", "kind", "code", "mtu", "error"),
    [
        ("10.0.0.1", 3, 1, 0, "host_unreachable"),
        ("10.0.0.1", 3, 13, 0, "prohibited"),
        ("10.0.0.1", 3, 4, 1400, "packets_too_large"),
        ("fd00::1", 1, 4, 0, "port_unreachable"),
        ("fd00::1", 2, 0, 1280, "packets_too_large"),
    ],
)
def test_icmp_errors_that_quote_a_segment(client, kind, code, mtu, error):
    connection = TcpConnection(client=client, broker="fd00::9" if ":" in client else "10.0.0.9")
    found, inspector = line(connection.syn().icmp(kind, code, mtu).icmp(kind, code, mtu))
    (only,) = found["icmp"]
    assert (only["error"], only["mtu"], only["count"]) == (error, mtu or None, 2)
    assert only["timestamp"] == "2023-11-14T22:13:20.002000000Z"
    assert inspector.counts.tcp_segments == 1
    assert sum(inspector.counts.undecoded_packets.values()) == 2


def test_errors_about_other_segments_count_for_no_connection():
    other = TcpConnection(port=40_001).syn().icmp(3, 1)
    connection = TcpConnection().syn()
    connection.packets.append(other.packets[1])
    assert told(connection, "icmp") == ([],)


def test_icmp_that_quotes_no_segment_is_counted_as_before():
    connection = TcpConnection().syn()
    connection.icmp(3, 1, quoted=24).icmp(8, 0)
    found, inspector = line(connection)
    assert found["icmp"] == []
    assert inspector.counts.undecoded_packets == {"icmp": 2}


def test_silence_before_the_end():
    connection = TcpConnection().open().say(CLIENT, API_VERSIONS).wait(3 * SECOND).fin(BROKER)
    assert told(connection, "ended_by", "idle_before_end_ms") == ("broker", 3003.0)


def test_a_segment_that_is_never_acknowledged():
    data = bytes(1448)
    connection = TcpConnection().open().say(CLIENT, data, after=2 * SECOND).repeat(CLIENT, data, 3)
    (last,) = told(connection, "unacknowledged")
    assert last == {
        "sender": "client",
        "bytes": 1448,
        "times": 4,
        "idle_before_ms": 2001.0,
        "full_sized_acknowledged": False,
    }
    assert told(connection.send(BROKER, 16), "unacknowledged") == (None,)
    connection.say(CLIENT, data).repeat(CLIENT, data, 1)
    (last,) = told(connection, "unacknowledged")
    assert last["full_sized_acknowledged"] is True
    connection = TcpConnection().open().send(BROKER, 16).say(CLIENT, data).repeat(CLIENT, data, 3)
    del connection.packets[:3]
    (last,) = told(connection, "unacknowledged")
    assert last["full_sized_acknowledged"] is None


@pytest.mark.parametrize(
    ("data", "answer", "words"),
    [
        (API_VERSIONS, b"", ("kafka", None)),
        (API_VERSIONS, FATAL + b"\x0a", ("kafka", "tls")),
        (b"GET / HTTP/1.1\r\n\r\n", b"", ("http", None)),
        (b"SSH-2.0-x\r\n", b"SSH-2.0-y\r\n", ("ssh", "ssh")),
        (HELLO, FATAL + b"\x28", ("tls", "tls")),
        (HELLO, b"HTTP/1.1 400 Bad Request\r\n", ("tls", "http")),
        (b"\xff\xff\xff\xff", b"", (None, None)),
        (b"\0\0\0\x1c\0\3\0\0\0\0\0\1\0\x0e" + b"a" * 9, b"", (None, None)),
        (b"GET / HTTP/1.1\r\n\r\n", b"220 ready\r\n", ("http", None)),
    ],
)
def test_the_protocol_of_the_first_bytes(data, answer, words):
    connection = TcpConnection().open().say(CLIENT, data)
    if answer:
        connection.say(BROKER, answer)
    assert told(connection.fin(BROKER).fin(CLIENT), "first_bytes", "answered_with") == words


def test_first_bytes_that_were_not_seen():
    connection = TcpConnection().open()
    del connection.packets[:]
    assert (
        told(connection.say(CLIENT, b"GET / HTTP/1.1\r\n"), "first_bytes", "syns", "refused") == (None,) * 3
    )


def test_bytes_behind_a_gap_are_not_the_first_ones():
    connection = TcpConnection().open().say(CLIENT, b"GET / HTTP/1.1\r\n\r\n").say(BROKER, bytes(100))
    del connection.packets[-1]
    connection.say(BROKER, b"SSH-2.0-x\r\n").send(CLIENT, 16).fin(BROKER).fin(CLIENT)
    assert told(connection, "first_bytes", "answered_with") == ("http", None)


@pytest.mark.parametrize(
    ("records", "stage", "alerts"),
    [
        ([], "client_hello", []),
        ([(BROKER, FATAL + b"\x46")], "client_hello", [("broker", "fatal", "protocol_version")]),
        ([(BROKER, SERVER_HELLO)], "server_hello", []),
        (
            [(BROKER, SERVER_HELLO), (CLIENT, FATAL + b"\x30")],
            "server_hello",
            [("client", "fatal", "unknown_ca")],
        ),
        (
            [(BROKER, SERVER_HELLO), (CLIENT, b"\x17\x03\x03\0\x23" + bytes(35))],
            "server_hello",
            [("client", None, None)],
        ),
        (
            [(BROKER, SERVER_HELLO), (CLIENT, b"\x17\x03\x03\0\x13" + bytes(19))],
            "server_hello",
            [("client", None, None)],
        ),
        (
            [
                (BROKER, SERVER_HELLO),
                (CLIENT, b"\x17\x03\x03\0\x35" + bytes(53)),
                (BROKER, b"\x17\x03\x03\0\x40" + bytes(64)),
            ],
            "done",
            [],
        ),
    ],
)
def test_how_far_a_tls_handshake_came(records, stage, alerts):
    connection = TcpConnection().open().say(CLIENT, HELLO)
    for side, record in records:
        connection.say(side, record[:7]).say(side, record[7:])
    found, alerts_told = told(connection.fin(BROKER), "tls_handshake", "tls_alerts")
    assert found == stage
    assert [tuple(alert.values()) for alert in alerts_told] == alerts


def test_a_handshake_of_which_bytes_are_missing():
    connection = TcpConnection().open().say(CLIENT, HELLO).say(BROKER, SERVER_HELLO)
    connection.say(BROKER, bytes(500)).say(CLIENT, bytes(80)).say(BROKER, bytes(80))
    del connection.packets[-3]
    assert told(connection.fin(BROKER).fin(CLIENT), "tls_handshake") == (None,)


PROTECTED = b"\x17\x03\x03\0\x35" + bytes(53)
SHORT = b"\x17\x03\x03\0\x23" + bytes(35)
"""As long as an alert: EncryptedExtensions may be that, too."""


@pytest.mark.parametrize(
    ("records", "stage"),
    [
        ([SERVER_HELLO, SHORT, PROTECTED], "done"),
        ([SERVER_HELLO, *[PROTECTED] * 64], None),
    ],
)
def test_a_handshake_of_short_or_many_records_did_not_fail(records, stage):
    connection = TcpConnection().open().say(CLIENT, HELLO)
    for record in records:
        connection.say(BROKER, record)
    connection.say(CLIENT, PROTECTED).say(BROKER, PROTECTED).fin(CLIENT).fin(BROKER)
    assert told(connection, "tls_handshake", "tls_alerts") == (stage, [])


def test_a_port_of_decode_as():
    connection = TcpConnection().syn().reset(BROKER)
    found, _ = line(connection, kafka_ports=frozenset({9092}))
    assert found["decode_as"] is True
    assert told(connection, "decode_as") == (False,)


def test_evidence_is_carried_on():
    connection = TcpConnection().open().say(CLIENT, HELLO).say(BROKER, SERVER_HELLO).icmp(3, 1)
    connection.say(CLIENT, FATAL[:3]).say(CLIENT, FATAL[3:] + b"\x30").wait(200 * MS).repeat(
        CLIENT, FATAL[3:] + b"\x30", 2
    )
    whole, _ = line(connection)
    first = None
    for each in blocks(connection.packets[:1]):
        first = each
    assert first is not None
    lines = []
    carried: list[bytes] = []
    for packet in connection.packets:
        inspector = Inspector(emit=frozenset({"connection"}), files=["a.pcap"])
        for state in carried:
            inspector.resume(state)
        (block,) = blocks([packet])
        block.first_frame = connection.packets.index(packet) + 1
        lines += inspector.feed(block)
        last = inspector
        end = last.end
        if packet is not connection.packets[-1]:
            lines += inspector.idle()
            carried = [state for _, state in inspector.suspend()]
    (found,) = [*lines, *last.finish(end)]
    assert found.to_dict() == whole
    assert whole["unacknowledged"]["times"] == 3
