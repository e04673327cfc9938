"""TLS conversations for the tests, recorded and live, and what a decryptor reads of them."""

import contextlib
import datetime
import functools
import random
import re
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from kinspect.tls.decryptor import Decryptor
from kinspect.tls.keylog import KeyLog

DATA = Path(__file__).parent / "data"
CLIENT, SERVER = 0, 1
# Options that Python's ssl does not name (openssl/ssl.h).
NO_EXTENDED_MASTER_SECRET, NO_ENCRYPT_THEN_MAC = 1 << 0, 1 << 19


@dataclass
class Talk:
    """`pieces`: direction and bytes, in order. `sent`: what each side's application sent."""

    pieces: list
    keys: str
    sent: tuple = (b"", b"")
    chunks: tuple = field(default_factory=lambda: ([], []))

    def stream(self, direction):
        return b"".join(data for side, data in self.pieces if side == direction)


class Reading:
    """A decryptor and what it delivered: `plain` by direction, `events` in order."""

    def __init__(self, keys="", **options):
        self.keylog = KeyLog(keys)
        self.plain = bytearray(), bytearray()
        self.events = []
        self.losses = []
        self.frame = 0
        self.decryptor = Decryptor(self.keylog, CLIENT, self.deliver, self.lost, **options)

    def deliver(self, direction, time, frame, plain):
        assert isinstance(plain, bytes)
        assert plain
        self.plain[direction].extend(plain)
        self.events.append((direction, time, frame, plain))

    def lost(self, direction, time, frame, size):
        self.losses.append((direction, frame, size))
        self.events.append((direction, time, frame, size))

    def feed(self, direction, data):
        self.frame += 1
        self.decryptor.data(direction, self.frame * 10, self.frame, b"##" + data + b"#", 2, 2 + len(data))

    def gap(self, direction, size):
        self.frame += 1
        self.decryptor.gap(direction, self.frame * 10, self.frame, size)

    @property
    def both(self):
        return bytes(self.plain[0]), bytes(self.plain[1])

    @property
    def status(self):
        return self.decryptor.status

    @property
    def reason(self):
        return self.decryptor.reason


def read(talk, *, cut=None, seed=0, keys=None, pieces=None, close=True, **options):
    """Read a talk, or its first `pieces`; `cut`: the largest chunk that they are cut into."""
    reading = Reading(talk.keys if keys is None else keys, **options)
    numbers = random.Random(seed)
    for direction, data in talk.pieces[:pieces]:
        while data:
            size = numbers.randint(1, cut) if cut else len(data)
            reading.feed(direction, data[:size])
            data = data[size:]
    if close:
        reading.decryptor.closed()
    return reading


def recorded(name):
    """A conversation of the folder `data`: openssl s_client (>) with openssl s_server (<)."""
    pieces, keys = [], []
    for line in (DATA / f"{name}.txt").read_text().splitlines():
        mark, _, rest = line.partition(" ")
        if mark in "<>":
            pieces.append(("><".index(mark), bytes.fromhex(rest)))
        else:
            keys.append(line)
    return Talk(pieces, "\n".join(keys))


# ---------------------------------------------------------------------- live conversations


@functools.cache
def certificate(kind):
    """A file with a key and a certificate of its own."""
    key = ec.generate_private_key(ec.SECP256R1()) if kind == "ec" else rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker.test")])
    start = datetime.datetime(2020, 1, 1)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(start)
        .not_valid_after(start + datetime.timedelta(days=20_000))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    file = tempfile.NamedTemporaryFile(suffix=".pem")  # noqa: SIM115 (lives as long as the tests)
    file.write(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    file.write(signed.public_bytes(pem))
    file.flush()
    return file


class Peers:
    """Two contexts that can talk any number of times; `keys()` is their key log."""

    def __init__(self, version, ciphers=None, *, kind="rsa", options=0, alpn=(), log_at="server"):
        self._log = tempfile.NamedTemporaryFile(suffix=".keys.log")  # noqa: SIM115 (lives as long as the peers)
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.client.check_hostname = False
        self.client.verify_mode = ssl.CERT_NONE
        self.server.load_cert_chain(certificate(kind).name)
        for context in (self.client, self.server):
            context.minimum_version = context.maximum_version = version
            context.options |= options
            if ciphers:
                context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
            if alpn:
                context.set_alpn_protocols(list(alpn))
        getattr(self, log_at).keylog_filename = self._log.name

    def keys(self):
        return Path(self._log.name).read_text()

    def talk(self, messages, session=None):
        """A conversation of `messages`: (direction, bytes); returns it and the client's end."""
        wires = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
        ends = [
            self.client.wrap_bio(*wires[0], server_hostname="broker.test", session=session),
            self.server.wrap_bio(*wires[1], server_side=True),
        ]
        pieces, sent, chunks = [], (bytearray(), bytearray()), ([], [])

        def carry():
            for direction in (CLIENT, SERVER):
                data = wires[direction][1].read()
                if data:
                    pieces.append((direction, data))
                    wires[1 - direction][0].write(data)

        done = [False, False]
        while not all(done):
            for direction in (CLIENT, SERVER):
                try:
                    ends[direction].do_handshake()
                    done[direction] = True
                except ssl.SSLWantReadError:
                    pass
                carry()
        for direction, message in messages:
            ends[direction].write(message)
            sent[direction].extend(message)
            chunks[direction].append(message)
            carry()
            left = len(message)
            while left:
                left -= len(ends[1 - direction].read(left))
        for direction in (CLIENT, SERVER):
            with contextlib.suppress(ssl.SSLWantReadError):
                ends[direction].unwrap()
            carry()
        return Talk(pieces, self.keys(), (bytes(sent[0]), bytes(sent[1])), chunks), ends[CLIENT]


def messages(count, largest, seed=1):
    numbers = random.Random(seed)
    return [(number % 2, numbers.randbytes(numbers.randint(1, largest))) for number in range(count)]


LIKE_A_RECORD = re.compile(rb"[\x15-\x17]\x03\x03[\x00-\x48]")


@functools.cache
def long_talk(version, ciphers=None, count=40, largest=3000):
    """One without encrypted bytes that look like the beginning of a record by chance: behind a hole that record would
    be waited for."""
    while True:
        talk = Peers(version, ciphers).talk(messages(count, largest))[0]
        records = [data for _, data in talk.pieces if 5 + int.from_bytes(data[3:5]) == len(data)]
        assert len(records) >= count
        if not any(LIKE_A_RECORD.search(data, 1) for data in records):
            return talk
