"""Which packets belong to the connections that are chosen, found out while captures are read a second time.

A span is a part of an island: from the packet of one frame to that of another, in the order of the timeline. Whole
connections go on behind their last packet, with what comes late, until another connection begins on the same ends.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from kinspect.kafka.wire.lineorder import LineKey
from kinspect.link.cursor import Cursor
from kinspect.link.segments import Dissector, walk
from kinspect.model import SYN, Block, Caps, Counts, Segment
from kinspect.tcp.flowkeys import ends, reverse_key

SPANS_KEPT: Final = 200_000
"""Number of spans, and of connections that end them, that are noted."""

EndPair = tuple[tuple[str, int], tuple[str, int]]


class Spans:
    """The spans of a run that is read the first time."""

    def __init__(self) -> None:
        self.left_out = 0
        """Spans that there was no room for."""
        self.begins: dict[int, int] = {}
        """Number of spans that begin with a frame."""
        self.lasts: dict[int, int] = {}
        """Number of spans that end with it."""
        self.runs_on: set[int] = set()
        """Last frames of spans that run on."""
        self.opens: set[int] = set()
        """First frames of connections whose beginning is chosen."""
        self.whole: set[int] = set()
        """First frames of whole connections."""
        self.stops: set[int] = set()
        """First frames of other connections on the ends of whole ones."""
        self.hosts: set[bytes] = set()
        """Pairs of addresses, in both orders: fragments between them may belong to a span."""
        self._ends: set[EndPair] = set()
        self.told: dict[int, int] = {}
        """First frames of the connections that tell names, and the last ones that do."""
        self._told: set[LineKey] = set()

    def add(self, first: int, last: int, runs_on: bool = False) -> None:
        """Add a span. `runs_on`: what the sender of its last packet goes on to send belongs to it, as answers to
        requests that are in it, until the other side sends something."""
        if len(self.begins) >= SPANS_KEPT and first not in self.begins:
            self.left_out += 1
            return
        self.begins[first] = self.begins.get(first, 0) + 1
        self.lasts[last] = self.lasts.get(last, 0) + 1
        if runs_on:
            self.runs_on.add(last)

    def add_connection(self, of: EndPair, first: int, last: int) -> None:
        """Add a whole connection."""
        self.add(first, last)
        if first in self.begins:
            self.whole.add(first)
            self._ends.add((min(of), max(of)))
            self._add_hosts(of)

    def add_start(self, of: EndPair, first: int) -> None:
        """Add the beginning of a connection."""
        if len(self.opens) < SPANS_KEPT:
            self.opens.add(first)
            self._add_hosts(of)

    def _add_hosts(self, of: EndPair) -> None:
        one, other = (ip_address(ip).packed for ip, _ in of)
        self.hosts |= {one + other, other + one}

    def pass_over(self, of: EndPair, first: int) -> None:
        """Note a connection that is not chosen."""
        if (min(of), max(of)) in self._ends and len(self.stops) < SPANS_KEPT:
            self.stops.add(first)

    def add_told(self, keys: Iterable[LineKey]) -> None:
        """Add what shows the lines of these keys: their connections from the beginning to them."""
        for key in keys:
            if key not in self._told and len(self._told) < SPANS_KEPT:
                self._told.add(key)
                self.told[key[2]] = max(key[1], self.told.get(key[2], 0))
                self.add(key[2], key[1], runs_on=True)


class _IslandPart:
    """What is chosen of an island at a packet. `open`: spans; `goes_on`: what comes late of a whole connection too;
    `opens`: all until the first payload, of a connection that began with a SYN, else until both directions were seen:
    the key of the first one. `runs_on`: the key of who sends what belongs to a span that is over."""

    __slots__ = ("goes_on", "open", "opens", "runs_on")

    def __init__(self) -> None:
        self.open = 0
        self.goes_on = False
        self.opens: bytes | None = None
        self.runs_on: bytes | None = None


class _FragmentAddresses:
    """An assembler that only notes the addresses of the fragment."""

    found = b""

    def take(self, cursor: Cursor, key: bytes, offset: int, more: bool, protocol: int, /) -> int:
        self.found = cursor.addresses
        return cursor.stop("fragment")


class ChosenPackets:
    """Finds the packets of the spans, block by block in the order of the timeline."""

    def __init__(self, spans: Spans, caps: Caps) -> None:
        self._spans = spans
        self._dissector = Dissector(caps, Counts(), quotes=True)
        self._parts: dict[bytes, _IslandPart] = {}
        self._fragments = _FragmentAddresses()
        self._cursor = Cursor(self._fragments)
        self.segments: list[Segment] = []
        """Those of the last block."""

    def of(self, block: Block) -> list[int]:
        """Indexes of the chosen packets of the next block."""
        spans, parts = self._spans, self._parts
        begins, lasts, stops, first = spans.begins, spans.lasts, spans.stops, block.first_frame
        chosen: list[int] = []
        segments = self.segments = self._dissector.segments(block)
        for segment in segments:
            here, frame = ends(segment[0]), segment[9]
            part, begun, opened = parts.get(here), begins.get(frame, 0), frame in spans.opens
            if part is None:
                if not begun and not opened:
                    continue
                part = parts[here] = parts[reverse_key(here)] = _IslandPart()
            if opened:
                part.opens = b"" if segment[4] & SYN else here
            elif part.opens == b"" and segment[6] < segment[7]:
                part.opens = None
            if part.runs_on is not None and part.runs_on != here and segment[6] < segment[7]:
                part.runs_on = None
            if begun:
                part.open += begun
                part.goes_on = part.goes_on or frame in spans.whole
            if frame in stops and not part.open:
                part.goes_on = False
            if part.open or part.goes_on or part.opens is not None or part.runs_on is not None:
                chosen.append(frame - first)
            if part.opens and part.opens != here:
                part.opens = None
            part.open -= min(lasts.get(frame, 0), part.open)
            if frame in spans.runs_on and not part.open:
                part.runs_on = here
            if frame in stops and not part.open:
                part.goes_on = False
        if len(segments) < len(block):
            chosen += self._parts_of_packets(block, {segment[9] - first for segment in segments})
            chosen.sort()
        return chosen

    def _parts_of_packets(self, block: Block, known: set[int]) -> list[int]:
        """Indexes of fragments between the hosts of whole connections, among the packets without a segment."""
        chosen = []
        for index in range(len(block)):
            if index not in known:
                self._fragments.found = b""
                walk(
                    self._cursor,
                    block.data,
                    block.starts[index],
                    block.ends[index],
                    block.wire_lengths[index],
                    block.link_types[index],
                    block.times[index],
                )
                if self._fragments.found in self._spans.hosts:
                    chosen.append(index)
        return chosen
