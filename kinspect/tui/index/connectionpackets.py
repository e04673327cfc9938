"""The packets of connections without exchanges, as text: segments, and the ICMP errors that quote them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from kinspect.answers.layout import clock
from kinspect.errors import KinspectError
from kinspect.kafka.view.view import iso_time
from kinspect.kafka.wire.endpoints import endpoint, ip_text
from kinspect.model import ACK, FRAME_BITS, FRAME_MASK, ICMP_ERRORS, QUOTED, SYN, Segment
from kinspect.output import Style
from kinspect.tcp.flowkeys import address_size, ends, reverse_key
from kinspect.tui.index import row as rows
from kinspect.tui.index.export import PacketSpan, check_kept, near_packets
from kinspect.tui.index.store import Store, never
from kinspect.wording import counted

SHOWN = 1_000
"""Most packets shown."""
BEHIND = 10_000
"""Frames behind a connection's last packet in which ICMP errors about it are looked for."""
FLAGS = "FIN SYN RST PSH ACK URG ECE CWR".split()
"""Names of the flags, from the lowest bit on."""
_TITLES = f"{'FRAME':>7} {'TIME':>12}  {'SENDER':<6} {'BYTES':>6} {'SEQ':>8} {'ACK':>8}  FLAGS"
_MODULUS = 1 << 32

Row = dict[str, Any]


def packet_text(
    store: Store, row: Row, places: list[Row], style: Style, stopped: Callable[[], bool] = never
) -> str | None:
    """The packets of connections between a row's `client_ip` and `broker`, which stand at `places`, each an object as
    `frames` in a connection's line; None if the two had exchanges within these.

    Raises KinspectError if packets cannot be read again, StoppedError if `stopped` returns true meanwhile.
    """
    spans = [_span(store, place) for place in places]
    if _have_exchanges(store, row, spans):
        return None
    check_kept(store, spans)
    found = [_ConnectionPackets(row["broker"], span, SHOWN // len(spans)) for span in spans]
    wanted = sorted(span._replace(last=min(span.last + BEHIND, span.last | FRAME_MASK)) for span in spans)
    needed = {span.first >> FRAME_BITS for span in spans}
    for _, segments, _ in near_packets(store, wanted, needed, stopped, quotes=True):
        for segment in segments:
            for each in found:
                each.add(segment)
    first = f"the first {len(spans)} of " if row["count"] > len(spans) else ""
    head = f"{first}{counted(row['count'], 'connection')} from {row['client_ip']} to {row['broker']}"
    texts = ["\n".join(each.lines(place, style)) for each, place in zip(found, places, strict=True)]
    return "\n\n".join([head, *texts])


def _span(store: Store, place: Row) -> PacketSpan:
    """The packets at a place, of any connection; to the end of the capture if it ends in another one."""
    if place["file"] not in store.inputs.names:
        raise KinspectError("nobody noted where its packets lie")
    file = store.inputs.names.index(place["file"]) << FRAME_BITS
    last = FRAME_MASK if place["last"] is None else place["last"]
    return PacketSpan(file | place["first"], file | last, ())


def _have_exchanges(store: Store, row: Row, spans: list[PacketSpan]) -> bool:
    """True if an exchange of the row's client and broker begins within one of the spans."""
    for connection, *frames in rows.first_frames(store.rows):
        if any(span.first <= frame <= span.last for span in spans for frame in frames):
            client_ip, _, ip, port, *_ = store.texts[connection] or [None, 0, "", 0]
            if client_ip in (None, row["client_ip"]) and (not ip or endpoint(ip, port) == row["broker"]):
                return True
    return False


class _ConnectionPackets:
    """The packets of the connection whose first one stands where `span` begins: the first and the last ones."""

    def __init__(self, broker: str, span: PacketSpan, most: int) -> None:
        self._broker = broker
        self._span = span
        self._first: list[Segment] = []
        self._last: deque[Segment] = deque(maxlen=most // 2)
        self._most = most - most // 2
        self._count = self._sent = 0
        # Where the sequence numbers of each end begin, by its key, the client's first.
        self._begin: dict[bytes, int | None] = {}

    def add(self, row: Segment) -> None:
        """Take a packet of any connection."""
        key, frame, quotes = ends(row[0]), row[9], row[4] & QUOTED
        if frame == self._span.first:
            brokers = [each for each in (key, reverse_key(key)) if _endpoint_of(each) == self._broker]
            self._begin = dict.fromkeys(
                each for broker in brokers[:1] for each in (reverse_key(broker), broker)
            )
        if key not in self._begin or (frame > self._span.last and not quotes):
            return
        # Without the bytes, which would keep those of all packets near it.
        segment = Segment(*row)._replace(key=key, data=b"")
        if not quotes:
            self._sent += 1
            self._note_begin(key, segment.seq - (not segment.flags & SYN))
            if segment.flags & ACK:
                self._note_begin(reverse_key(key), segment.ack - 1)
        self._count += 1
        (self._first if len(self._first) < self._most else self._last).append(segment)

    def _note_begin(self, key: bytes, number: int) -> None:
        if self._begin[key] is None:
            self._begin[key] = number

    def lines(self, place: Row, style: Style) -> Iterator[str]:
        """The packets, a line each, below the client's end and the capture."""
        if not self._begin:
            raise KinspectError("the captures are not what was indexed: did they change meanwhile?")
        file = os.path.basename(place["file"])
        yield f"from {_endpoint_of(next(iter(self._begin)))}, in {file}"
        yield _TITLES
        yield from (self._line(segment, style) for segment in self._first)
        left_out = self._count - len(self._first) - len(self._last)
        if left_out:
            yield f"… {counted(left_out, 'packet')} left out …"
        yield from (self._line(segment, style) for segment in self._last)
        elsewhere = place["packets"] - self._sent
        if elsewhere > 0:
            yield f"and {counted(elsewhere, 'packet')} in other captures, or lost here"

    def _line(self, segment: Segment, style: Style) -> str:
        """A segment, or an ICMP error about one, with the sequence number of that."""
        key = segment.key
        if segment.flags & QUOTED:
            sender, size, ack = "ICMP", "", ""
            flags = ICMP_ERRORS[segment.flags & ~QUOTED].replace("_", " ")
            flags += f", MTU {segment.ack}" if segment.ack else ""
        else:
            sender = "client" if key == next(iter(self._begin)) else "broker"
            size = f"{segment.end - segment.start + segment.missing}"
            ack = self._relative(reverse_key(key), segment.ack) if segment.flags & ACK else ""
            flags = ", ".join(name for bit, name in enumerate(FLAGS) if segment.flags >> bit & 1)
        frame, time = segment.frame & FRAME_MASK, clock(iso_time(segment.time), style)
        seq = self._relative(key, segment.seq)
        return f"{frame:>7} {time:>12}  {sender:<6} {size:>6} {seq:>8} {ack:>8}  {flags}"

    def _relative(self, key: bytes, number: int) -> str:
        """A sequence number from the beginning of its direction on; empty if that is not known."""
        begin = self._begin[key]
        return "" if begin is None else f"{(number - begin) % _MODULUS}"


def _endpoint_of(key: bytes) -> str:
    """Address and port of the sender."""
    size = address_size(key)
    return endpoint(ip_text(key[:size]), int.from_bytes(key[2 * size : 2 * size + 2]))
