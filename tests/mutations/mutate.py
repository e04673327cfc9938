"""Changes of packets on their way into a capture file: pure functions from packets to packets.

Each packet keeps its `origin`; what is added has none (0). Whatever is drawn is drawn from a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from support.packets import Packet, Tcp, tcp
from support.reading import Reading, directions, ends
from support.wrap import Wrap

from kinspect.model import FIN, SYN

Packets = Sequence[Packet]
NS_PER_US = 1000


def drop(packets: Packets, rate: float, seed: object) -> list[Packet]:
    """Each packet is lost with the probability `rate`."""
    rng = random.Random(f"drop {seed}")
    return [packet for packet in packets if rng.random() >= rate]


def starting_at(packets: Packets, part: float) -> list[Packet]:
    """The capture begins late."""
    return list(packets[int(len(packets) * part) :])


def ending_at(packets: Packets, part: float) -> list[Packet]:
    """The capture ends early."""
    return list(packets[: int(len(packets) * part)])


def snapped(packets: Packets, length: int) -> list[Packet]:
    """No packet is kept beyond a snap length."""
    return [
        packet._replace(data=packet.data[:length], cut=packet.cut + max(0, len(packet.data) - length))
        for packet in packets
    ]


def one_side(whole: Reading, side: str) -> list[Packet]:
    """The packets of the clients, or of the brokers, alone: `side` is what they send."""
    kept = {directions(ends(exchange))[side == "response"] for exchange in whole.exchanges}
    return [packet for packet in whole.packets if direction(packet.data) in kept]


def direction(data: bytes) -> bytes:
    """Sender's and receiver's address, sender's and receiver's port."""
    parts = tcp(data)
    if parts is None:
        return b""
    sender, receiver = parts.ends
    return sender[:-2] + receiver[:-2] + sender[-2:] + receiver[-2:]


def reorder(packets: Packets, window: int, seed: object) -> list[Packet]:
    """Packets are overtaken by up to `window` others; the times are those of the places."""
    rng = random.Random(f"reorder {seed}")
    places = {index: index + window * rng.random() for index in range(len(packets))}
    order = sorted(places, key=places.__getitem__)
    return [packets[index]._replace(time=place.time) for index, place in zip(order, packets, strict=True)]


def copied(packets: Packets, rate: float, seed: object) -> list[Packet]:
    """A mirror port sees some packets twice, up to a millisecond apart, some of them after another router."""
    rng = random.Random(f"copies {seed}")
    seen = list(packets)
    for packet in packets:
        if rng.random() < rate:
            data = bytearray(packet.data)
            if tcp(packet.data) is not None and rng.random() < 0.5:
                data[22 if data[12:14] == b"\x08\x00" else 21] -= 1
            seen.append(
                packet._replace(
                    time=packet.time + rng.randrange(1000) * NS_PER_US, data=bytes(data), origin=0
                )
            )
    return sorted(seen, key=_time)


def _time(packet: Packet) -> int:
    assert packet.time is not None
    return packet.time


def skewed(packets: Packets, client_port_is_source: Callable[[bytes], bool], by: int) -> list[Packet]:
    """The clients' packets were captured elsewhere, by a clock that is `by` nanoseconds ahead."""
    moved = [
        packet._replace(time=_time(packet) + by) if client_port_is_source(packet.data) else packet
        for packet in packets
    ]
    return sorted(moved, key=_time)


def stepped(packets: Packets, part: float, by: int) -> list[Packet]:
    """The capture's clock is set forward by so many nanoseconds, behind that part of the packets."""
    at = int(len(packets) * part)
    return [*packets[:at], *[packet._replace(time=_time(packet) + by) for packet in packets[at:]]]


def stamped(packets: Packets, part: float, ms: int | None) -> list[Packet]:
    """Behind that part of the packets the senders' timestamps are so much later; None: no packet has any."""
    at = int(len(packets) * part)
    return [
        packet._replace(data=_stamped(packet.data, ms if number >= at else 0 if ms is not None else None))
        for number, packet in enumerate(packets)
    ]


def _stamped(data: bytes, ms: int | None) -> bytes:
    parts = tcp(data)
    value = 0 if parts is None else parts.payload - (12 if parts.flags & SYN else 8)
    if data[value - 2 : value] != b"\x08\x0a":
        return data
    if ms is None:
        return data[: value - 2] + b"\1" * 10 + data[value + 8 :]
    stamp = (int.from_bytes(data[value : value + 4]) + ms) % 2**32
    return data[:value] + stamp.to_bytes(4) + data[value + 4 :]


# ---------------------------------------------------------------------- other segments


class _Sent:
    """The bytes each direction sends, and how many of them it can have sent at once."""

    def __init__(self, packets: Packets) -> None:
        self._streams: dict[bytes, tuple[int, bytearray, list[tuple[int, int]]]] = {}
        for packet in packets:
            parts = tcp(packet.data)
            if parts is not None and (parts.carried or parts.flags & SYN):
                start = (parts.seq + 1) % 2**32 if parts.flags & SYN else parts.seq
                first, stream, acks = self._streams.setdefault(
                    direction(packet.data), (start, bytearray(), [])
                )
                if (parts.seq - first) % 2**32 == len(stream):
                    stream += parts.carried
                    acks.append((len(stream), parts.ack))

    def around(self, parts: Tcp, before: int, after: int) -> tuple[int, bytes]:
        """A segment's bytes with so many more (or, if negative, fewer) on either side, and their number.

        Behind it stand only bytes that acknowledge what it does: the sender had them ready.
        """
        first, stream, acks = self._streams[direction(parts.data)]
        at = (parts.seq - first) % 2**32
        end = at + len(parts.carried)
        ready = max((stop for stop, ack in acks if ack == parts.ack), default=end)
        start, stop = max(0, at - before), min(max(end, ready), end + after)
        return (first + start) % 2**32, bytes(stream[start:stop])


def retransmitted(packets: Packets, rate: float, seed: object) -> list[Packet]:
    """Some segments come again with other borders, up to five packets later: from earlier on, and to later on."""
    rng, sent = random.Random(f"retransmitted {seed}"), _Sent(packets)
    found: list[tuple[int, int, Packet]] = [(index, 0, packet) for index, packet in enumerate(packets)]
    for index, packet in enumerate(packets):
        parts = tcp(packet.data)
        if parts is not None and parts.carried and rng.random() < rate:
            seq, payload = sent.around(parts, rng.randrange(60), rng.randrange(-20, 400))
            place = min(index + rng.randrange(5), len(packets) - 1)
            if payload:
                data = parts.carrying(seq, payload, parts.flags & ~FIN, rng.randrange(2**16))
                found.append((place, 1, packet._replace(time=packets[place].time, data=data, origin=0)))
    return [packet for _, _, packet in sorted(found, key=lambda entry: entry[:2])]


def contradicted(packets: Packets, rate: float, seed: object) -> tuple[list[Packet], int]:
    """Some segments come again with other bytes right behind the next packet, and how many bytes that are."""
    rng = random.Random(f"contradicted {seed}")
    found, others, waiting = [], 0, None
    for packet in packets:
        found.append(packet)
        if waiting is not None:
            found.append(waiting._replace(time=packet.time))
            waiting = None
        parts = tcp(packet.data)
        if parts is not None and parts.carried and not parts.flags & FIN and rng.random() < rate:
            payload = bytes(byte ^ 0x55 for byte in parts.carried)
            data = parts.carrying(parts.seq, payload, parts.flags, rng.randrange(2**16))
            waiting = packet._replace(data=data, origin=0)
            others += len(payload)
    return found + ([waiting] if waiting else []), others


def recut(packets: Packets, seed: object, largest: int = 700) -> list[Packet]:
    """The same streams in segments with other borders: neighbours are joined, and all are cut at random."""
    rng = random.Random(f"recut {seed}")
    found: list[Packet] = []
    for _, run in groupby(packets, key=_joinable):
        joined = list(run)
        parts = [tcp(packet.data) for packet in joined]
        first, last = parts[0], parts[-1]
        if first is None or last is None or not first.carried:
            found += joined
            continue
        payload = b"".join(part.carried for part in parts if part is not None)
        if (first.seq + len(payload)) % 2**32 != (last.seq + len(last.carried)) % 2**32:
            found += joined
            continue
        at = 0
        while at < len(payload):
            size = rng.randint(1, largest)
            # What acknowledges comes when all of the run was sent, and so does what ends it.
            flags = last.flags if at + size >= len(payload) else last.flags & ~FIN
            data = last.carrying(first.seq + at, payload[at : at + size], flags, rng.randrange(2**16))
            found.append(joined[-1]._replace(data=data))
            at += size
    return found


def _joinable(packet: Packet) -> object:
    """Equal for neighbours that can be joined: segments with payload of one direction with one acknowledgment."""
    parts = tcp(packet.data)
    if parts is None or not parts.carried:
        return packet
    return direction(packet.data), parts.ack


def wrapped(packets: Iterable[Packet], wrap: Wrap) -> list[Packet]:
    """Every packet inside something else."""
    return [packet._replace(data=wrap.around(packet.data), link_type=wrap.link_type) for packet in packets]
