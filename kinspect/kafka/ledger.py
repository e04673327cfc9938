"""What the connections of one run share: the order of completion, topic names, caps, and what is handed on."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from kinspect.kafka import told
from kinspect.kafka.exchange import Exchange
from kinspect.kafka.holdings import EXCHANGE_BYTES, Holdings
from kinspect.kafka.names import TopicNames
from kinspect.model import BEHIND_HOLES, FRAME_BITS, Caps, Counts
from kinspect.tls import Decryptor, KeyLog

if TYPE_CHECKING:
    from kinspect.kafka.lines import ConnectionLine, Gap
    from kinspect.tls.decryptor import Deliver, Lost

# What is kept of the versions in use, over all clients.
USES_KEPT = 100_000
# TLS connections that wait for their secrets, and what each of them may hold meanwhile.
WAITING_DECRYPTORS, WAITING_BYTES = 256, 256 * 1024
# Lines that wait until nothing can complete before them, at most. With more the first ones go ahead; what then
# should have come before them is counted as `held_lines`.
HELD_LINES = 10_000


class PacketOrder:
    """Where a frame stands in the run. Within a file frames ascend; over several files only the run tells."""

    __slots__ = ("_begin", "_end", "_runs", "_shift", "_total")

    def __init__(self) -> None:
        self._total = 0
        self._begin = self._end = self._shift = 0  # of what was fed last: frames, and place less frame
        # By file, the runs of frames that were fed without another file's between: first frame, place less frame.
        self._runs: dict[int, list[tuple[int, int]]] = {}

    def fed(self, first_frame: int, packets: int) -> None:
        """The next `packets` packets of the run have the frame references from `first_frame` on."""
        runs = self._runs.setdefault(first_frame >> FRAME_BITS, [])
        shift = self._total - first_frame
        if not runs or runs[-1][1] != shift:
            runs.append((first_frame, shift))
            del runs[:-HELD_LINES]
        self._total += packets
        self._begin, self._end, self._shift = first_frame, first_frame + packets, shift

    def place(self, frame: int) -> int:
        """The frame's place in the run."""
        if self._begin <= frame < self._end:
            return frame + self._shift
        for first, shift in reversed(self._runs.get(frame >> FRAME_BITS, ())):
            if frame >= first:
                return frame + shift
        return 0


class Ledger:
    """Takes finished exchanges in order of completion.

    `emit` names the kinds of lines wanted (`exchange`, `connection`, `gap`); `kafka_ports` are ports whose traffic
    is Kafka's by order of the user; with `heads_only` nobody will ask for a body, and none is decoded.
    """

    def __init__(
        self,
        caps: Caps,
        counts: Counts,
        names: TopicNames,
        emit: frozenset[str],
        kafka_ports: frozenset[int],
        heads_only: bool,
        files: Sequence[str],
    ) -> None:
        self.caps = caps
        self.counts = counts
        self.names = names
        self.emit = emit
        self.kafka_ports = kafka_ports
        self.heads_only = heads_only
        self.files = files
        self.holdings = Holdings(caps.total_bytes - caps.total_bytes // BEHIND_HOLES, counts)
        self.order = PacketOrder()
        # Place, number, line, and how many bytes the line takes: a heap. Most lines come in order, and what is in
        # order is one without any work.
        self._held: list[tuple[int, int, Exchange | ConnectionLine | Gap, int]] = []
        self._in_order = True
        self._held_bytes = 0
        self._forced = -1  # the place of the last line that a cap handed on early
        self._noted = 0
        self.muted = False
        self._numbered = 0
        self._lines: list[Exchange | ConnectionLine | Gap] = []
        self.exchanges = 0
        self.gaps = 0
        self.gap_bytes = 0
        self.skipped_bytes = 0
        self.outcomes: dict[str, int] = {}
        self.connections: dict[str, int] = {}
        self.server_names: dict[str, int] = {}
        self.tls_reasons: dict[str, int] = {}
        self.keylog = KeyLog()
        self.expects_secrets = False
        self._decryptors: dict[Decryptor, None] = {}
        self._uses: set[tuple[str, int, int]] = set()

    def finish(self, exchange: Exchange, frame: int) -> None:
        """An exchange was completed by the packet `frame`."""
        if self.muted:
            return
        self.exchanges += 1
        self.outcomes[exchange.outcome] = self.outcomes.get(exchange.outcome, 0) + 1
        self._hold(exchange, frame)

    def _hold(self, line: Exchange | ConnectionLine | Gap, frame: int) -> None:
        self._noted += 1
        size = _size(line)
        place = self.order.place(frame)
        if place < self._forced:
            self.counts.hit("held_lines")
        held = self._held
        if self._in_order and (not held or place >= held[-1][0]):
            held.append((place, self._noted, line, size))
        else:
            self._in_order = False
            heappush(held, (place, self._noted, line, size))
        self._held_bytes += size
        while held and (
            len(held) > HELD_LINES or self._held_bytes + self.holdings.bytes > self.holdings.limit
        ):
            self._forced = held[0][0]
            self._hand_on_first()

    def _hand_on_first(self) -> None:
        _, _, line, size = self._held.pop(0) if self._in_order else heappop(self._held)
        self._held_bytes -= size
        self._hand_on(line)

    def handed_on(self) -> list[Exchange | ConnectionLine | Gap]:
        """The lines that are out of the order's hands since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def release(self, waiting_since: int | None) -> list[Exchange | ConnectionLine | Gap]:
        """The lines that nothing can come before any more, in order of completion.

        `waiting_since`: the frame from which on something may still be handed on late; None: there is no such thing.
        """
        held = self._held
        if not self._in_order:
            held.sort()
            self._in_order = True
        ready = len(held) if waiting_since is None else bisect_left(held, (self.order.place(waiting_since),))
        for _, _, line, size in held[:ready]:
            self._held_bytes -= size
            self._hand_on(line)
        del held[:ready]
        return self.handed_on()

    def rest(self) -> Iterator[Exchange | ConnectionLine | Gap]:
        """All lines left, in order, each let go of when it is taken."""
        self._held.sort(reverse=True)
        while self._held:
            self._hand_on(self._held.pop()[2])
            yield from self.handed_on()

    def _hand_on(self, line: Exchange | ConnectionLine | Gap) -> None:
        if isinstance(line, Exchange):
            self._number(line)
            if "exchange" not in self.emit:
                return
        self._lines.append(line)

    def _number(self, exchange: Exchange) -> None:
        """Give the exchange its place in the order of completion, and learn the topic names it tells."""
        self._numbered += 1
        exchange.order = self._numbered
        if (
            not self.heads_only
            and exchange.response is not None
            and exchange.api_key is not None
            and exchange.api_version is not None
            and told.tells_names(exchange.api_key, exchange.api_version)
        ):
            for topic_id, name in told.told_names(exchange):
                self.names.learn(topic_id, name, exchange.order)

    def totals(self) -> dict[str, Any]:
        """What the `summary` line adds up of connections and what they carried."""
        counts = self.counts
        return {
            "duplicate_packets": counts.duplicate_packets,
            "retransmitted_bytes": counts.retransmitted_bytes,
            "conflicting_bytes": counts.conflicting_bytes,
            "connections": dict(self.connections),
            "server_names": dict(self.server_names),
            "tls_not_decrypted": dict(self.tls_reasons),
            "exchanges": self.exchanges,
            "outcomes": dict(self.outcomes),
            "gaps": self.gaps,
            "gap_bytes": self.gap_bytes,
            "undecoded_bytes": self.skipped_bytes,
            "caps_hit": dict(counts.caps_hit),
        }

    def note_use(self, client_id: str | None, api_key: int, api_version: int) -> None:
        """A whole request of this API and version came from this client."""
        if client_id and len(self._uses) < USES_KEPT:
            self._uses.add((client_id, api_key, api_version))

    def uses(self, client_id: str | None, api_key: int, api_version: int) -> bool:
        """Whether this API and version was noted of the client, on any connection."""
        return client_id is not None and (client_id, api_key, api_version) in self._uses

    def gap(self, gap: Gap, frame: int) -> None:
        """Count a gap, hand it on if asked for."""
        if self.muted:
            return
        self.gaps += 1
        self.gap_bytes += gap.bytes
        if "gap" in self.emit:
            self._hold(gap, frame)

    @property
    def wants_connections(self) -> bool:
        """Whether finished connections are handed on."""
        return "connection" in self.emit

    def open_decryptor(self, client: int, deliver: Deliver, lost: Lost) -> Decryptor:
        """A decryptor for a connection whose client sends in direction `client`.

        It waits for secrets that are still to come if there may be any, and if not too many others wait.
        """
        waits = self.expects_secrets and len(self._decryptors) < WAITING_DECRYPTORS
        decryptor = Decryptor(self.keylog, client, deliver, lost, WAITING_BYTES if waits else 0)
        if waits:
            self._decryptors[decryptor] = None
        return decryptor

    def forget_decryptor(self, decryptor: Decryptor) -> None:
        """Its connection is closed."""
        self._decryptors.pop(decryptor, None)

    def add_secrets(self, text: bytes) -> int:
        """Lines of a TLS key log, for connections to come and for those that wait."""
        self.expects_secrets = True
        new = self.keylog.add(text)
        if new:
            for decryptor in tuple(self._decryptors):
                decryptor.retry()
        return new

    def closed(
        self, kind: str, server_name: str | None, tls_reason: str | None, undecoded_bytes: int
    ) -> None:
        """Count a finished connection; `tls_reason`: why it stayed encrypted."""
        self.connections[kind] = self.connections.get(kind, 0) + 1
        self.skipped_bytes += undecoded_bytes
        if server_name is not None:
            self.server_names[server_name] = self.server_names.get(server_name, 0) + 1
        if tls_reason is not None:
            self.tls_reasons[tls_reason] = self.tls_reasons.get(tls_reason, 0) + 1

    def connection(self, line: ConnectionLine, frame: int) -> None:
        """Hand a finished connection on."""
        self._hold(line, frame)


def _size(line: Exchange | ConnectionLine | Gap) -> int:
    """About how many bytes a line takes."""
    size = EXCHANGE_BYTES
    if isinstance(line, Exchange):
        for message in (line.request, line.response):
            if message is not None and message.raw is not None:
                size += len(message.raw)
    return size
