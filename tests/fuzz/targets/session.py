"""Streams of client and broker with gaps: their lines can be written as JSON, however they are cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from kinspect.kafka.connection.kafkaconnection import KafkaConnection
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.ledger import Ledger
from kinspect.kafka.exchange.lines import ConnectionLine
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.endpoints import Address
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import LineNumbering
from kinspect.model import NO_EVIDENCE, Caps, Counts, Evidence

from ..script import Script, short
from ..traffic import connections, kafka_captures

MS = 1_000_000
EMIT = frozenset({"exchange", "connection", "gap"})
SMALL = Caps(message_bytes=600, buffered_bytes=2000, total_bytes=3000, in_flight=3, records_bytes=2000)
USUAL = Caps(records_bytes=1 << 20)
REASONS = ("fin", "reuse", "reset", "idle", "cap", "capture_end")
VIEWS = (
    View(records=True, payload="base64", show_secrets=True),
    View(records=True, payload="text", int64="string"),
    View(),
)

# The first octet.
SYN_KNOWN, SYN_SIDE, FORCED, SMALL_CAPS, TIMELESS = 1, 2, 4, 8, 16
# The first octet of a step: the direction, and what is done.
SIDE, GAP, FIN = 1, 6, 14


@dataclass
class Flow:
    """The connection as the reassembly would describe it."""

    syn: int | None
    start_time: int | None
    addresses: tuple[Address, Address] = (b"\x0a\0\0\x01", 41234), (b"\x0a\0\0\x09", 9092)
    packets: tuple[int, int] = (1, 1)
    bytes: tuple[int, int] = (1, 1)
    conflicts: tuple[int, int] = (0, 0)
    handshake: None = None
    stepped_at: None = None
    evidence: Evidence = NO_EVIDENCE


def write(first: int, pieces: list[tuple[int, bytes | int]]) -> bytes:
    """Bytes of a direction, or the size of a gap."""
    out = bytes((first,))
    for direction, item in pieces:
        if isinstance(item, int):
            out += bytes((GAP | direction,)) + short(item)
        else:
            out += bytes((direction,)) + short(len(item)) + item
    return out


def play(data: bytes, split: bool) -> tuple[list[bytes], int]:
    """The lines of a script as JSON, and the bytes in which no message was found.

    `split`: each piece of data comes as two, of the same packet.
    """
    steps = Script(data)
    first = steps.byte()
    caps = SMALL if first & SMALL_CAPS else USUAL
    ports = frozenset({9092} if first & FORCED else ())
    ledger = Ledger(caps, Counts(), LearnedNames(None), EMIT, ports, False, ["fuzz.pcap"])
    syn = bool(first & SYN_SIDE) if first & SYN_KNOWN else None
    timeless = bool(first & TIMELESS)
    flow = Flow(syn, None if timeless else 0)
    connection = KafkaConnection(flow, LineNumbering(0), ledger)
    frame = size = handed_on = 0
    while steps.left:
        frame += 1
        time = None if timeless else frame * MS
        step = steps.byte()
        direction = step & SIDE
        if step & FIN == FIN:
            connection.fin(direction, time, frame)
        elif step & FIN == GAP:
            cause = "snaplen" if step & 16 else "capture_loss"
            missing = steps.short() + 1
            connection.gap(direction, time, frame, missing, cause)
            size += missing
        else:
            piece = steps.take(steps.short())
            size += len(piece)
            handed_on += len(piece)
            cut = len(piece) // 2 if split else 0
            for part in (piece[:cut], piece[cut:]):
                if part:
                    connection.data(direction, time, frame, b"#" + part + b"#", 1, 1 + len(part))
    flow.bytes = (handed_on, 0)
    connection.closed(None if timeless else frame * MS, frame, REASONS[(first >> 5) % len(REASONS)])
    assert min(ledger.books.values()) >= 0
    assert sum(ledger.books.values()) == handed_on, "the books do not balance"
    shown: list[bytes] = []
    undecoded = 0
    for line in ledger.rest():
        if isinstance(line, Exchange):
            shown += [orjson.dumps(line.to_dict(view)) for view in VIEWS]
        else:
            shown.append(orjson.dumps(line.to_dict()))
            if isinstance(line, ConnectionLine):
                undecoded = line.undecoded_bytes
    assert undecoded <= size, "more bytes undecoded than there were"
    return shown, undecoded


def fuzz(data: bytes) -> None:
    lines, undecoded = play(data, split=False)
    if is_whole(data):
        same_lines, also_undecoded = play(data, split=True)
        # Where the search for the next message finds one may depend on how much of it is there.
        if not undecoded or not also_undecoded:
            assert same_lines == lines, "lines depend on how the stream was cut"


def is_whole(data: bytes) -> bool:
    """True if the connection was seen from its start, without a gap, and no limit is near."""
    steps = Script(data)
    first = steps.byte()
    while steps.left:
        kind = steps.byte() & FIN
        if kind == GAP:
            return False
        if kind != FIN:
            steps.take(steps.short())
    return bool(first & SYN_KNOWN) and not first & SMALL_CAPS


def seeds() -> Iterator[bytes]:
    for path in kafka_captures():
        for stream in connections(path, 6000)[:3]:
            first = 0 if stream.connection.syn is None else SYN_KNOWN
            pieces: list[tuple[int, bytes | int]] = [*stream.pieces]
            yield write(first, pieces)
        middle = len(pieces) // 2
        yield write(0, pieces[middle:])
        if middle:
            yield write(first, [*pieces[:middle], (1, 300), *pieces[middle:]])
            yield write(first | SMALL_CAPS, [*pieces[:middle], (0, 40), *pieces[middle + 1 :]])
