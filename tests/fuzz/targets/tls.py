"""A recorded TLS conversation, played with changes: whatever is delivered was sent, in that order."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from kinspect.tls.decryptor import DECRYPTING, FAILED, HANDSHAKE, NO_SECRETS, UNSUPPORTED, Decryptor
from kinspect.tls.handshake import parse_client_hello, parse_encrypted_extensions, parse_server_hello
from kinspect.tls.keylog import KeyLog

from ..script import Script, short
from ..traffic import CAPTURES, TESTS, Piece, connections

STATES = {HANDSHAKE, DECRYPTING, NO_SECRETS, UNSUPPORTED, FAILED}
LONGEST = 12_000

# What a step does with the next piece of the conversation, by its low bits; the other bits say where.
STEPS = 12
WHOLE, PAIR, REST, CUT, CHANGE, DROP, SWAP, RAW, GAP, RETRY, SECRETS, PARSE = range(STEPS)


class Talk(NamedTuple):
    pieces: list[Piece]
    keys: str


@cache
def talks() -> tuple[Talk, ...]:
    """Recorded conversations; an input begins with an index into them."""
    found = []
    for path in sorted((TESTS / "tls" / "data").glob("*.txt")):
        pieces, keys = [], []
        for line in path.read_text().splitlines():
            mark, _, rest = line.partition(" ")
            if mark in "<>":
                pieces.append(("><".index(mark), bytes.fromhex(rest)))
            else:
                keys.append(line)
        found.append(Talk(pieces, "\n".join(keys)))
    for name in ("tls12_cbc", "tls13", "sasl_ssl_tls12"):
        log = (CAPTURES / "tls" / f"{name}.keys.log").read_text()
        streams = connections(CAPTURES / "tls" / f"{name}.pcap.gz", LONGEST)
        found.append(Talk(streams[0].pieces, log))
    return tuple(found)


@cache
def sent(number: int) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """Plaintext of each direction of a conversation, record by record."""
    talk = talks()[number]
    reading = Reading(talk.keys, 1 << 20)
    for direction, data in talk.pieces:
        reading.feed(direction, data)
    reading.decryptor.closed()
    return tuple(reading.plain[0]), tuple(reading.plain[1])


class Reading:
    def __init__(self, keys: str, held_bytes: int) -> None:
        self.plain: tuple[list[bytes], list[bytes]] = [], []
        self.frame = 0
        self.keylog = KeyLog(keys)
        self.over = False
        self.decryptor = Decryptor(self.keylog, 0, self.deliver, self.lost, held_bytes)

    def deliver(self, direction: int, time: int | None, frame: int, data: bytes) -> None:
        assert data
        assert 1 <= frame <= self.frame
        assert time == frame * 10
        self.plain[direction].append(data)

    def lost(self, direction: int, time: int | None, frame: int, size: int | None) -> None:
        assert direction in (0, 1)
        assert size is None or size >= 0

    def feed(self, direction: int, data: bytes) -> None:
        self.frame += 1
        self.decryptor.data(direction, self.frame * 10, self.frame, b"##" + data + b"#", 2, 2 + len(data))

    def gap(self, direction: int, size: int) -> None:
        self.frame += 1
        self.decryptor.gap(direction, self.frame * 10, self.frame, size)


def fuzz(data: bytes) -> None:
    steps = Script(data)
    number = steps.byte() % len(talks())
    talk = talks()[number]
    # Half of the conversations wait for their secrets.
    option = steps.byte()
    reading = Reading("" if option & 1 else talk.keys, 2000 if option & 2 else 1 << 20)
    pieces = talk.pieces[::-1]
    while steps.left:
        play(reading, talk, pieces, steps)
    reading.decryptor.retry()
    reading.decryptor.closed()
    assert reading.decryptor.status in STATES
    assert "\n" not in (reading.decryptor.reason or "")
    assert reading.decryptor.held == 0
    for got, said in zip(reading.plain, sent(number), strict=True):
        left = iter(said)
        assert all(record in left for record in got), "plaintext that was not sent, or not in that order"


def play(reading: Reading, talk: Talk, pieces: list[Piece], steps: Script) -> None:
    step = steps.byte() % STEPS
    if step == RAW:
        reading.feed(steps.byte() & 1, steps.take(steps.byte()))
    elif step == GAP:
        reading.gap(steps.byte() & 1, steps.short() + 1)
    elif step == RETRY:
        reading.decryptor.retry()
    elif step == SECRETS:
        reading.keylog.add(talk.keys)
        reading.decryptor.retry()
    elif step == PARSE:
        body = steps.take(steps.short())
        parse_client_hello(body)
        parse_server_hello(body)
        parse_encrypted_extensions(body)
        assert len(KeyLog(body)) == 0
    elif step == SWAP and len(pieces) > 1:
        pieces[-1], pieces[-2] = pieces[-2], pieces[-1]
    elif pieces:
        direction, data = pieces.pop()
        if step == DROP:
            reading.gap(direction, len(data))
        elif step == CHANGE:
            changed = bytearray(data)
            changed[steps.short() % len(data)] ^= steps.byte()
            reading.feed(direction, bytes(changed))
        elif step == CUT:
            cuts = sorted((0, steps.short() % len(data), steps.byte() % len(data), len(data)))
            for start, stop in pairwise(cuts):
                if start < stop:
                    reading.feed(direction, data[start:stop])
        else:
            reading.feed(direction, data)
            if step in (PAIR, REST) and pieces:
                for _ in range(1 if step == PAIR else len(pieces)):
                    reading.feed(*pieces.pop())


def seeds() -> Iterator[bytes]:
    for number, talk in enumerate(talks()):
        count = len(talk.pieces)
        start = bytes((number, 0))
        yield start + bytes((REST,))
        yield bytes((number, 1, REST, SECRETS))
        yield start + bytes((CUT, 1, 7, 9)) * count
        for lost in range(2, count):
            yield start + bytes((WHOLE,)) * lost + bytes((DROP, REST))
        yield start + bytes((WHOLE, WHOLE, WHOLE, WHOLE, SWAP, REST))
        yield start + bytes((CHANGE, 0, 70, 1, REST))
        yield start + bytes((WHOLE, WHOLE, CHANGE, 0, 70, 1, REST))
        for direction, data in talk.pieces[:2]:
            yield start + bytes((RAW, direction, 255)) + data[:255] + bytes((REST,))
            yield start + bytes((PARSE,)) + short(len(data)) + data[9:]
