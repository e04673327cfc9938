"""Streams of other protocols, made from a seed: what a recogniser of Kafka's must not take for Kafka.

Each maker takes a `random.Random` and gives what the side that opened the connection sends, and what the other side
does. They are the beginnings of real conversations, or of their middles, with the protocols' own lengths, types and
counters; what is not fixed is random.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from struct import pack

from kinspect.protocol import schema

Stream = tuple[bytes, bytes]
Maker = Callable[[Random], Stream]

WORDS = (
    "user",
    "admin",
    "orders",
    "db",
    "select 1",
    "hello",
    "node-7",
    "a",
    "payments.v2",
    "x-id",
    "0123456789abcdef",
)


def _u8(value: int) -> bytes:
    return bytes((value & 0xFF,))


def _u16(value: int) -> bytes:
    return pack(">H", value & 0xFFFF)


def _u24(value: int) -> bytes:
    return pack(">I", value & 0xFFFFFF)[1:]


def _u32(value: int) -> bytes:
    return pack(">I", value & 0xFFFFFFFF)


def _u64(value: int) -> bytes:
    return pack(">Q", value & 0xFFFFFFFFFFFFFFFF)


def _word(rng: Random) -> bytes:
    return rng.choice(WORDS).encode()


def _some(rng: Random, most: int = 64) -> bytes:
    return rng.randbytes(rng.randrange(most))


def _many(rng: Random, one: Callable[[], bytes], most: int = 4) -> bytes:
    return b"".join(one() for _ in range(rng.randint(1, most)))


def _small(rng: Random) -> int:
    """A counter or an id: often small, sometimes any."""
    return rng.choice(
        (0, 1, 2, rng.randrange(256), rng.randrange(65536), rng.randrange(1 << 20), rng.getrandbits(32))
    )


def tls(rng: Random) -> Stream:
    """RFC 8446: records of application data; what begins with a ClientHello is TLS for kinspect too."""
    first = rng.choice((20, 21, 22, 23))

    def record() -> bytes:
        data = _some(rng)
        return _u8(first) + b"\3\3" + _u16(len(data)) + data

    return _many(rng, record), _many(rng, record)


def ssh(rng: Random) -> Stream:
    """RFC 4253: banners, then binary packets; the middle of a connection begins with one of these."""

    def packet() -> bytes:
        data = _some(rng)
        return (
            _u32(len(data) + 2) + _u8(rng.randrange(4, 12)) + _u8(rng.choice((20, 21, 30, 31, 90, 94))) + data
        )

    banner = b"SSH-2.0-OpenSSH_9." + str(rng.randrange(9)).encode() + b"\r\n"
    begin = rng.choice((banner, b""))
    return begin + _many(rng, packet), begin + _many(rng, packet)


def http2(rng: Random) -> Stream:
    """RFC 9113, with gRPC in its DATA frames: etcd's traffic."""

    def frame() -> bytes:
        kind = rng.choice((0, 0, 0, 1, 3, 4, 6, 7, 8))
        flags = rng.choice((0, 0, 1, 4, 5))
        stream = rng.choice((0, 1, 3, 5, rng.randrange(1024), rng.randrange(1 << 24)))
        text = bytes(rng.choice(b"abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(rng.randrange(48)))
        field = _u8(rng.choice((0x0A, 0x12, 0x1A, 0x22, 0x2A, 0x32))) + _u8(len(text)) + text
        payload = {
            0: rng.choice((b"\0" + _u32(len(field)) + field, _some(rng), text)),
            3: _u32(rng.randrange(14)),
            4: _u16(rng.randrange(1, 7)) + _u32(_small(rng)),
            6: rng.choice((bytes(8), rng.randbytes(8))),
            7: _u32(stream) + _u32(rng.randrange(14)),
            8: _u32(_small(rng) & 0x7FFFFFFF),
        }.get(kind, _some(rng))
        return _u24(len(payload)) + _u8(kind) + _u8(flags) + _u32(stream) + payload

    preface = rng.choice((b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"", b""))
    frames = _many(rng, frame)
    cut = rng.choice((len(frames), rng.randint(1, len(frames))))
    return preface + frames[:cut], _many(rng, frame)


def doip(rng: Random) -> Stream:
    """ISO 13400: diagnostics over IP."""

    def message() -> bytes:
        kind = rng.choice((0, 5, 6, 7, 8, 0x4003, 0x8001, 0x8002, 0x8003))
        data = rng.choice((_u16(0x0E00) + _u16(rng.randrange(0x100)) + _some(rng, 24), _some(rng, 24)))
        return rng.choice((b"\2\xfd", b"\1\xfe", b"\3\xfc")) + _u16(kind) + _u32(len(data)) + data

    return _many(rng, message), _many(rng, message)


def openflow(rng: Random) -> Stream:
    """OpenFlow 1.0 to 1.5."""
    version, xid = rng.randrange(1, 7), _small(rng)

    def message() -> bytes:
        kind = rng.randrange(30)
        data = rng.choice(
            (_u64(_small(rng)) + _some(rng, 40), _u32(_small(rng)) + bytes(rng.randrange(40)), b"")
        )
        return _u8(version) + _u8(kind) + _u16(8 + len(data)) + _u32(xid) + data

    return _many(rng, message), _many(rng, message)


def _ber(tag: int, data: bytes) -> bytes:
    if len(data) < 128:
        return _u8(tag) + _u8(len(data)) + data
    return _u8(tag) + b"\x82" + _u16(len(data)) + data


KERBEROS = bytes.fromhex("06092a864886f712010202")


def ldap(rng: Random) -> Stream:
    """RFC 4511, with GSSAPI binds, and after them messages wrapped with a length in front (RFC 4752, RFC 1964)."""

    def message() -> bytes:
        operation = _ber(rng.choice((0x60, 0x63, 0x42)), b"\2\1\3" + _ber(4, _word(rng)) + _some(rng))
        return _ber(0x30, _ber(2, _u8(rng.randrange(128))) + operation)

    def wrapped() -> bytes:
        kind = rng.choice((b"\2\1", b"\1\1"))
        token = _ber(0x60, KERBEROS + kind + b"\x11\0\x10\0\xff\xff" + rng.randbytes(8 + rng.randrange(120)))
        modern = b"\5\4\6\xff" + bytes(4) + rng.randbytes(8 + rng.randrange(120))
        data = rng.choice((token, modern))
        return _u32(len(data)) + data

    bind = _ber(
        0x30,
        b"\2\1\1" + _ber(0x60, b"\2\1\3\4\0" + _ber(0xA3, _ber(4, b"GSSAPI") + _ber(4, _some(rng, 200)))),
    )
    if rng.random() < 0.5:
        return _many(rng, wrapped), _many(rng, wrapped)
    return rng.choice((bind, message())) + _many(rng, message), _many(rng, message)


def postgres(rng: Random) -> Stream:
    """PostgreSQL's frontend/backend protocol 3, and its requests for TLS, GSSAPI and cancelling."""

    def message(kinds: bytes) -> bytes:
        data = rng.choice((_word(rng) + b"\0", _some(rng)))
        return bytes((rng.choice(kinds),)) + _u32(4 + len(data)) + data

    options = b"user\0" + _word(rng) + b"\0database\0" + _word(rng) + b"\0\0"
    startup = _u32(8 + len(options)) + _u32(3 << 16 | rng.choice((0, 2))) + options
    first = rng.choice(
        (
            startup,
            _u32(8) + _u32(80877103) + startup,
            _u32(8) + _u32(80877104),
            _u32(16) + _u32(80877102) + _u32(_small(rng)) + rng.randbytes(4),
            b"",
        )
    )
    return first + _many(rng, lambda: message(b"QPBDESXp")), _many(rng, lambda: message(b"RKZTDCES"))


def mysql(rng: Random) -> Stream:
    """MySQL's packets; the server speaks first."""

    def packet(number: int) -> bytes:
        data = rng.choice((b"\3" + _word(rng), _u8(rng.randrange(32)), _some(rng)))
        return pack("<I", len(data))[:3] + _u8(number) + data

    greeting = b"\x0a8.0.36\0" + rng.randbytes(30)
    return b"".join(packet(n) for n in range(1, 4)), pack("<I", len(greeting)) + greeting + packet(2)


def redis(rng: Random) -> Stream:
    """RESP."""
    words = [_word(rng) for _ in range(rng.randint(1, 4))]
    command = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)
    return command, rng.choice((b"+OK\r\n", b":%d\r\n" % _small(rng), b"$-1\r\n"))


def amqp(rng: Random) -> Stream:
    """AMQP 0-9-1 and 1.0."""

    def frame() -> bytes:
        data = rng.choice(
            (_u16(rng.choice((10, 20, 50, 60))) + _u16(rng.randrange(60)) + _some(rng), _some(rng))
        )
        return _u8(rng.choice((1, 2, 3, 8))) + _u16(rng.choice((0, 1))) + _u32(len(data)) + data + b"\xce"

    def frame_1() -> bytes:
        data = b"\0\x53" + _u8(rng.randrange(16, 25)) + b"\xc0" + _some(rng)
        return (
            _u32(8 + len(data)) + b"\2" + rng.choice((b"\0", b"\1")) + _u16(rng.choice((0, 0, 1, 2))) + data
        )

    one = rng.choice((frame, frame_1))
    begin = rng.choice((b"AMQP\0\0\x09\1", b"AMQP\0\1\0\0", b""))
    return begin + _many(rng, one), rng.choice((begin, b"")) + _many(rng, one)


def mongodb(rng: Random) -> Stream:
    """MongoDB's wire protocol: everything little-endian."""

    def message(to: int) -> bytes:
        data = pack("<I", 0) + b"\0" + pack("<I", 20) + _word(rng) + _some(rng, 700) + b"\0"
        head = pack("<IIII", 16 + len(data), _small(rng), to, rng.choice((2013, 2004, 1)))
        return head + data

    return _many(rng, lambda: message(0)), _many(rng, lambda: message(_small(rng)))


def mqtt(rng: Random) -> Stream:
    """MQTT 3.1.1 and 5."""

    def packet() -> bytes:
        data = _u16(rng.randrange(1, 64)) + _word(rng)
        return _u8(rng.choice((0x30, 0x40, 0x62, 0x82, 0xC0, 0xE0))) + _u8(len(data)) + data

    connect = b"\0\4MQTT" + _u8(rng.choice((4, 5))) + b"\2\0\x3c" + _u16(4) + b"cl-1"
    return b"\x10" + _u8(len(connect)) + connect + _many(rng, packet), b"\x20\2\0\0" + _many(rng, packet)


def cassandra(rng: Random) -> Stream:
    """CQL native protocol 3 to 5."""
    version = rng.randrange(3, 6)

    def frame(direction: int) -> bytes:
        data = rng.choice((b"", _u16(1) + _u16(11) + b"CQL_VERSION" + _u16(5) + b"3.0.0", _some(rng)))
        head = _u8(version | direction) + _u8(rng.choice((0, 1))) + _u16(_small(rng)) + _u8(rng.randrange(17))
        return head + _u32(len(data)) + data

    return _many(rng, lambda: frame(0)), _many(rng, lambda: frame(0x80))


def zookeeper(rng: Random) -> Stream:
    """ZooKeeper's jute records, from the first or from the middle."""
    zxid = rng.choice((0, 1, 5)) << 32 | _small(rng)
    xid = rng.choice((1, rng.randrange(1 << 20)))
    path = b"/" + _word(rng)

    def sized(data: bytes) -> bytes:
        return _u32(len(data)) + data

    def asks(number: int) -> bytes:
        kind = rng.choice((1, 2, 3, 4, 5, 8, 9, 11, 12, 14))
        body = (
            b"" if kind == 11 else _u32(len(path)) + path + rng.choice((b"", b"\0", b"\1", _u32(_small(rng))))
        )
        return sized(_u32(-2 if kind == 11 else xid + number) + _u32(kind) + body)

    def told(number: int) -> bytes:
        stat = b"".join(_u64(rng.choice((0, zxid, _small(rng)))) for _ in range(4)) + bytes(28)
        error = rng.choice((0, 0, -101, -110))
        body = rng.choice((b"", stat, _u32(len(path)) + path, _u32(3) + b"abc" + stat)) if not error else b""
        return sized(_u32(xid + number) + _u64(zxid + number) + _u32(error) + body)

    session = rng.choice((0, rng.getrandbits(60)))
    asked = _u32(0) + _u64(zxid) + _u32(rng.choice((4000, 30000))) + _u64(session) + _u32(16) + bytes(16)
    connect = sized(asked + rng.choice((b"", b"\0")))
    connected = sized(_u32(0) + _u32(30000) + _u64(rng.getrandbits(60)) + _u32(16) + rng.randbytes(16))
    if rng.random() < 0.5:
        connect = connected = b""
    count = rng.randint(1, 20)
    return connect + b"".join(map(asks, range(count))), connected + b"".join(map(told, range(count)))


def nfs(rng: Random) -> Stream:
    """ONC RPC over TCP (RFC 5531): record marks, also of fragments that are not the last."""
    xid = _small(rng)

    def call() -> bytes:
        procedure = _u32(100003) + _u32(rng.choice((3, 4))) + _u32(rng.randrange(22))
        data = _u32(xid) + _u32(0) + _u32(2) + procedure + bytes(16) + _some(rng)
        return _u32(rng.choice((0, 0x80000000)) | len(data)) + data

    def reply() -> bytes:
        data = _u32(xid) + _u32(1) + bytes(16) + _some(rng)
        return _u32(rng.choice((0, 0x80000000)) | len(data)) + data

    return _many(rng, call), _many(rng, reply)


def smb(rng: Random) -> Stream:
    """SMB 1 to 3 behind NetBIOS' length (RFC 1002)."""

    def message() -> bytes:
        data = rng.choice((b"\xffSMB", b"\xfeSMB", b"\xfdSMB")) + pack(
            "<HHIHH", 64, 1, 0, rng.randrange(19), 1
        )
        data += bytes(40) + _some(rng)
        return b"\0" + _u24(len(data)) + data

    return rng.choice((b"", b"\x81\0\0\x44" + bytes(68))) + _many(rng, message), _many(rng, message)


def thrift(rng: Random) -> Stream:
    """Thrift framed: binary protocol strict and not, and compact."""
    names = (b"ping", b"get", b"getStatus", b"open_session", b"a")

    def message(kind: int) -> bytes:
        name, number = rng.choice(names), _small(rng)
        data = rng.choice(
            (
                _u32(0x80010000 | kind) + _u32(len(name)) + name + _u32(number),
                _u32(len(name)) + name + _u8(kind) + _u32(number),
                b"\x82" + _u8(kind << 5 | 1) + _u8(number & 0x7F) + _u8(len(name)) + name,
            )
        )
        data += rng.choice((b"\0", b"\x0b\0\1" + _u32(4) + b"text\0", _some(rng)))
        return _u32(len(data)) + data

    return _many(rng, lambda: message(1)), _many(rng, lambda: message(2))


def dns(rng: Random) -> Stream:
    """DNS over TCP (RFC 7766)."""
    labels = b"".join(
        _u8(len(part)) + part for part in (b"www", b"a" * rng.randint(1, 63), b"example", b"com")
    )
    number = _small(rng)

    def message(flags: int) -> bytes:
        extra = rng.randrange(2)
        data = _u16(number) + _u16(flags) + _u16(1) + _u16(0) + _u16(0) + _u16(extra)
        data += rng.choice((labels, labels[4:])) + b"\0" + _u16(rng.choice((1, 28, 252))) + _u16(1)
        data += b"\0\0\x29\x04\xd0\0\0\0\0\0\0" * extra
        return _u16(len(data)) + data

    asked = rng.choice((0, 0x0100, 0x0120))
    return _many(rng, lambda: message(asked)), _many(rng, lambda: message(0x8180))


def bgp(rng: Random) -> Stream:
    """BGP (RFC 4271), and the middle of one with the marker cut."""

    def message() -> bytes:
        data = _some(rng)
        return b"\xff" * 16 + _u16(19 + len(data)) + _u8(rng.randrange(1, 6)) + data

    cut = rng.choice((0, 0, rng.randrange(24)))
    return _many(rng, message)[cut:], _many(rng, message)


def modbus(rng: Random) -> Stream:
    """Modbus/TCP, IEC 60870-5-104, DNP3."""
    number = _small(rng)

    def message(index: int) -> bytes:
        data = (
            _u8(rng.choice((0, 1, 255)))
            + _u8(rng.randrange(1, 24))
            + _u16(_small(rng))
            + _u16(rng.randrange(126))
        )
        return _u16(number + index) + _u16(0) + _u16(len(data)) + data

    def dnp3() -> bytes:
        return (
            b"\5\x64"
            + _u8(rng.randrange(5, 60))
            + _u8(0xC4)
            + pack("<HH", _small(rng) & 0xFFFF, 3)
            + _some(rng)
        )

    count = rng.randint(1, 5)
    asked = rng.choice((b"".join(map(message, range(count))), _many(rng, dnp3)))
    return asked, b"".join(map(message, range(count)))


def tpkt(rng: Random) -> Stream:
    """RDP and S7 (RFC 1006), TNS, TDS: 4 bytes of kind and length."""

    def packet() -> bytes:
        data = rng.choice(
            (b"\x06\xe0" + bytes(4), b"\x02\xf0\x80", b"\0\0" + _u16(rng.randrange(99)))
        ) + _some(rng)
        size = 4 + len(data)
        head = rng.choice(
            (b"\3\0" + _u16(size), _u16(size) + b"\0\0", b"\1\1" + _u16(size), b"\3\1" + _u16(size))
        )
        return head + data

    return _many(rng, packet), _many(rng, packet)


def smpp(rng: Random) -> Stream:
    """SMPP and others whose length, command, status and counter are four bytes each."""
    number, whole = _small(rng), rng.choice((0, 4))

    def message(index: int, reply: int) -> bytes:
        text = b"".join(_word(rng) + b"\0" for _ in range(rng.randrange(4)))
        data = (
            _u32(rng.choice((1, 2, 4, 5, 9, 21)) | reply) + _u32(rng.choice((0, 0, 1))) + _u32(number + index)
        )
        data += text + rng.choice((b"", _some(rng)))
        return _u32(len(data) + whole) + data

    count = rng.randint(1, 5)
    both = [b"".join(message(index, reply) for index in range(count)) for reply in (0, 0x80000000)]
    return both[0], both[1]


def pulsar(rng: Random) -> Stream:
    """Pulsar, RocketMQ, Hadoop's RPC: the whole length, the head's length, a head."""

    def message() -> bytes:
        head = rng.choice((b"\x08" + _u8(rng.randrange(40)) + _some(rng, 40), b'{"code":%d}' % _small(rng)))
        data = rng.choice((b"", _some(rng)))
        return rng.choice(
            (
                _u32(4 + len(head) + len(data)) + _u32(len(head)) + head + data,
                _u32(1 + len(head)) + _u8(len(head)) + head,
            )
        )

    return _many(rng, message), _many(rng, message)


def counters(rng: Random) -> Stream:
    """A protocol of one's own: length, counter, status; the answer repeats the counter."""
    number = _small(rng)

    def message(index: int) -> bytes:
        data = _u32(number + index) + rng.choice((b"\0\0", bytes(4), b"\0\0\0\1", _u16(200), _some(rng, 9)))
        return _u32(len(data)) + data

    count = rng.randint(1, 6)
    return b"".join(map(message, range(count))), b"".join(map(message, range(count)))


def zeros(rng: Random) -> Stream:
    """The middle of a file: runs of zeros, small numbers, texts with their lengths."""

    def piece() -> bytes:
        word = _word(rng)
        return rng.choice(
            (bytes(rng.randrange(12)), _u32(_small(rng)), _u16(_small(rng)), _u16(len(word)) + word)
        )

    return b"".join(piece() for _ in range(rng.randint(4, 60))), _some(rng)


def noise(rng: Random) -> Stream:
    """Random bytes."""
    return _some(rng, 256), _some(rng, 256)


_REQUESTS = [(api.key, version) for api in schema.apis() for version in api.versions]


def _head(rng: Random) -> bytes:
    """Key and version, nearly always ones that exist, and a correlation id."""
    key, version = (
        rng.choice(_REQUESTS) if rng.random() < 0.8 else (rng.randrange(10_000), rng.randrange(1_000))
    )
    return _u16(key) + _u16(version) + _u32(_small(rng))


def plausible(rng: Random) -> Stream:
    """A Kafka header with a short client id, and behind it 16 random bytes or more; the size right, or of more than
    there is. (A header alone is a whole request of some APIs.)"""
    length = rng.choice((-1, 0, rng.randrange(16)))
    data = _head(rng) + _u16(length) + rng.randbytes(16) + _some(rng, rng.choice((4, 16, 64, 256)))
    size = len(data) + rng.choice((0, 0, 0, rng.randrange(64), rng.randrange(100_000)))
    answer = rng.choice((data[4:8], _u32(_small(rng)))) + _some(rng, 8)
    return _u32(size) + data, _u32(len(answer)) + answer


def lettered(rng: Random) -> Stream:
    """A Kafka header with a client id of letters, and behind it at least 16 random bytes."""
    letters = bytes(rng.choice(b"abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randrange(1, 12)))
    data = _head(rng) + _u16(len(letters)) + letters + rng.randbytes(16) + _some(rng)
    size = len(data) + rng.choice((0, 0, 0, rng.randrange(64), rng.randrange(100_000)))
    # With the same correlation id it would be an answer.
    answer = bytes(255 - byte for byte in data[4:8]) + rng.randbytes(4) + _some(rng)
    return _u32(size) + data, _u32(len(answer)) + answer


PROTOCOLS: tuple[Maker, ...] = (
    tls, ssh, http2, doip, openflow, ldap, postgres, mysql, redis, amqp, mongodb, mqtt, cassandra, zookeeper, nfs,
    smb, thrift, dns, bgp, modbus, tpkt, smpp, pulsar, counters, zeros, noise, plausible, lettered,
)  # fmt: skip
