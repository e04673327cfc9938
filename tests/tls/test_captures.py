"""Real connections of Kafka clients with a broker, from the capture to Kafka's frames."""

import gzip
import struct
from pathlib import Path

import pytest

import kinspect
from kinspect import link
from kinspect.capture import open_timeline
from kinspect.model import Caps, Counts, Progress
from kinspect.tcp import Reassembler
from kinspect.tls.decryptor import Decryptor
from kinspect.tls.keylog import KeyLog

CAPTURES = Path(__file__).parents[2] / "captures" / "tls"
GCM_12, GCM_13 = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"
# Capture, key log, version and suite of each connection that can be read, how many cannot, text of the clients.
ROWS = {
    "tls13": ("tls13.keys.log", {("TLS 1.3", GCM_13): 7}, 0, [b"tls13-ak-0", b"tls13-kp-9", b"pc-tlsg13"]),
    "tls12_cbc": (
        "tls12_cbc.keys.log",
        {("TLS 1.2", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384"): 5},
        0,
        [b"tls12-cbc-ak-0", b"tls12-cbc-ak-9", b"pc-tlsg12-cbc"],
    ),
    "tls12_chacha_dsb": (
        None,
        {("TLS 1.2", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"): 5},
        0,
        [b"tls12-chacha-ak-0", b"tls12-chacha-ak-9"],
    ),
    "sasl_ssl_tls12": (
        "sasl_ssl_tls12.keys.log",
        {("TLS 1.2", GCM_12): 5},
        0,
        [b"sasltls12-ak-9", b"SCRAM-SHA-256"],
    ),
    "go": ("go.keys.log", {("TLS 1.3", GCM_13): 8, ("TLS 1.2", GCM_12): 3}, 2, [b"pc-fztls", b"pc-fztls12"]),
}


class Handler:
    def __init__(self, connection, keylog):
        self.client = connection.syn
        self.plain = bytearray(), bytearray()
        self.frames = [], []
        self.losses = []
        self.decryptor = Decryptor(keylog, self.client, self.deliver, lambda *loss: self.losses.append(loss))

    def deliver(self, direction, time, frame, plain):
        assert time is not None
        self.plain[direction].extend(plain)
        self.frames[direction].append(frame)

    def data(self, *args):
        self.decryptor.data(*args)

    def gap(self, direction, time, frame, size, cause):
        self.decryptor.gap(direction, time, frame, size)

    def repeated(self, *args):
        pass

    def fin(self, *args):
        pass

    def closed(self, *args):
        self.decryptor.closed()


def connections(name, keys):
    keylog = KeyLog((CAPTURES / keys).read_text() if keys else "")
    handlers = []

    def open_connection(connection):
        handlers.append(Handler(connection, keylog))
        return handlers[-1]

    reassembler = Reassembler(open_connection, Caps(), Counts(), Progress())
    timeline = open_timeline([next(CAPTURES.glob(f"{name}.pcap*"))])
    for block in timeline:
        for text in timeline.secrets:
            keylog.add(text)
        reassembler.feed(link.segments(block, Counts()))
    reassembler.flush()
    assert not timeline.errors
    return handlers


def kafka_frames(stream):
    """The frames of a stream, which ends with one, or with a size and less than what it announces."""
    frames, position = [], 0
    while position + 4 <= len(stream):
        size = int.from_bytes(stream[position : position + 4])
        assert 4 <= size < 2**20
        if position + 4 + size > len(stream):
            break
        frames.append(bytes(stream[position + 4 : position + 4 + size]))
        position += 4 + size
    return frames


@pytest.mark.parametrize("name", ROWS)
def test_captured_connections(name):
    keys, suites, unread, texts = ROWS[name]
    handlers = connections(name, keys)
    readable = [handler for handler in handlers if handler.decryptor.status == "decrypting"]
    rest = [handler.decryptor for handler in handlers if handler not in readable]
    found = {}
    for handler in readable:
        decryptor = handler.decryptor
        kind = decryptor.version, decryptor.cipher_suite
        found[kind] = found.get(kind, 0) + 1
        assert (decryptor.reason, handler.losses) == (None, [])
        assert sum(map(len, handler.plain)) > 0
        requests = kafka_frames(handler.plain[handler.client])
        responses = kafka_frames(handler.plain[1 - handler.client])
        asked = [frame[4:8] for frame in requests]
        answered = [frame[:4] for frame in responses]
        assert len(asked) - 1 <= len(answered) <= len(asked)
        assert answered == asked[: len(answered)]
        assert all(int.from_bytes(frame[:2]) < 100 for frame in requests)
        assert all(frames == sorted(frames) for frames in handler.frames)
    assert found == suites
    assert [(one.status, one.reason) for one in rest] == [
        ("no_secrets", "no secrets for this connection in the key log")
    ] * unread
    everything = b"".join(bytes(plain) for handler in readable for plain in handler.plain)
    assert all(text in everything for text in texts)


def test_secrets_behind_the_last_packet(tmp_path):
    """Read when all packets were handed on: connections that are open still get them."""
    capture = gzip.decompress((CAPTURES / "tls13.pcap.gz").read_bytes())
    secrets = (CAPTURES / "tls13.keys.log").read_bytes()

    def block(kind, body):
        body += bytes(-len(body) % 4)
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    (link_type,) = struct.unpack_from("<I", capture, 20)
    parts = [
        block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)),
        block(1, struct.pack("<HHI", link_type, 0, 0)),
    ]
    at = 24
    while len(parts) < 91:
        seconds, micros, kept, length = struct.unpack_from("<IIII", capture, at)
        time = seconds * 1_000_000 + micros
        head = struct.pack("<IIIII", 0, time >> 32, time & 0xFFFFFFFF, kept, length)
        parts.append(block(6, head + capture[at + 16 : at + 16 + kept]))
        at += 16 + kept
    # More than is read at once, so that no packets come with what is behind it.
    parts += [block(0xBAD, bytes(60_000))] * 40
    parts.append(block(10, struct.pack("<II", 0x544C534B, len(secrets)) + secrets))
    path = tmp_path / "late.pcapng"
    path.write_bytes(b"".join(parts))
    assert len([*kinspect.read(path)]) == 2
