"""Packets in, rows out, in batches: the work of a process beside the explorer.

Every exchange is decoded once, for the list and the filters, and then dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, Protocol, Self

from kinspect import extensions
from kinspect.analysis.expected import Expectation
from kinspect.capture import Timeline
from kinspect.capture.frameoffsets import has_places
from kinspect.capture.source import can_reopen
from kinspect.capture.timeline import Packets
from kinspect.errors import CaptureError
from kinspect.filters.filterdefinitions import FILTERS
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Line
from kinspect.kafka.wire.hostnames import HostPort
from kinspect.kafka.wire.lineorder import BEHIND, LineKey
from kinspect.kafka.wire.pair import UNANSWERED
from kinspect.kafka.wire.wait import IDLE
from kinspect.model import FRAME_BITS, Block, Caps
from kinspect.output.actions import action_of
from kinspect.output.escape import printable
from kinspect.pipeline import EXCHANGES_ONLY, Inspector
from kinspect.protocol.apikeys import ENVELOPE
from kinspect.run import Run
from kinspect.sink import CONNECTION, EXCHANGE, Sink
from kinspect.tui.index import row
from kinspect.tui.index.spool import Messages, Spool
from kinspect.tui.index.texts import UNKEPT, TextNumbers

BATCH_ROWS = 2000
BATCH_SECONDS = 0.08
"""Time between two batches. Where packets come as they are captured, lines wait no longer than that for others that
belong before them."""
SEEN = 100_000
"""Largest number of names noted for completion."""
LIVE_EXCHANGES = 2_000_000
"""Number of exchanges after which a live capture ends: their rows take 336 MiB."""
_LISTED = 100


@dataclass(slots=True)
class Inputs:
    """The inputs, and options for reading them. `keylog`: TLS secrets in NSS key log format. `hosts`: names of
    addresses. `interface`: the capture's source, in place of the paths. `jobs`: number of processes to read with, as
    `kinspect.jobs.processes` takes it."""

    paths: list[str]
    caps: Caps = field(default_factory=Caps)
    topic_names: dict[str, str] | None = None
    kafka_ports: frozenset[int] = frozenset()
    keylog: bytes = b""
    interface: str | None = None
    jobs: int | None = 1
    hosts: dict[HostPort, str] = field(default_factory=dict)

    @property
    def plain(self) -> frozenset[int]:
        """The captures, by number, whose packets can be read again where they are."""
        return frozenset(number for number, path in enumerate(self.paths) if has_places(path))

    @property
    def can_reread(self) -> bool:
        """True if the captures can be read again from their beginning."""
        return all(map(can_reopen, self.paths))

    @property
    def emit(self) -> frozenset[str]:
        """Lines to take: where nothing can be read again, also those of connections."""
        return EXCHANGES_ONLY if self.can_reread else EXCHANGES_ONLY | {CONNECTION}

    @property
    def names(self) -> list[str]:
        """The paths as they are shown, or the interface."""
        if self.interface is not None:
            return [self.interface]
        return [printable(path) for path in self.paths]

    def inspector(self, **more: Any) -> Inspector:
        """An inspector for the inputs."""
        inspector = Inspector(
            caps=self.caps,
            names=self.topic_names,
            hosts=self.hosts,
            kafka_ports=self.kafka_ports,
            files=self.names,
            **more,
        )
        if self.keylog:
            inspector.add_secrets(self.keylog)
        return inspector


ClosedConnection = tuple[int, dict[str, Any]]
"""Number of rows before a connection's end, and its line's object."""


class RowBatch(NamedTuple):
    """Results of an indexer since the previous batch.

    `seen`: names, each with the filter that takes it; `start`: the time of the first packet. With `done` it is the
    last one; `errors` are then exit statuses and messages for inputs that could not be read, `unread` is the number of
    those of which nothing could be read. `summary`: the `summary` line's object, in the last batch, and in every batch
    of a live capture. `closed`: connections that ended, where the input can be read only once. `asked`: topic ids with
    their names that count for no line, but for the captures as a whole: those of the key `BEHIND`.
    """

    rows: bytes
    texts: list[bytes]
    places: list[tuple[int, int]]
    descriptions: list[tuple[int, int, bytes]]
    names: list[tuple[str, str, LineKey]]
    nodes: list[tuple[str, int, int, LineKey]]
    seen: list[tuple[str, str]]
    start: int | None
    bytes_read: int
    bytes_total: int | None
    refused: int
    done: bool = False
    errors: Sequence[tuple[int, str]] = ()
    unread: int = 0
    summary: dict[str, Any] | None = None
    closed: Sequence[ClosedConnection] = ()
    asked: Sequence[tuple[str, str]] = ()

    @classmethod
    def told(cls, values: Sequence[Any]) -> Self:
        """The batch whose values another process sent: its tuples are lists there."""
        batch = cls(*values)
        return batch._replace(
            names=[(topic_id, name, (*key,)) for topic_id, name, key in batch.names],
            nodes=[(ip, port, node_id, (*key,)) for ip, port, node_id, key in batch.nodes],
        )

    def ended(self, errors: Sequence[CaptureError], summary: dict[str, Any]) -> RowBatch:
        """The same batch marked as the last one."""
        return self._replace(
            done=True,
            errors=[
                *((error.status, printable(str(error))) for error in errors),
                *((0, line) for line in extensions.kept),
            ],
            unread=sum(error.unread for error in errors),
            summary=summary,
        )


class MessageStorage(Protocol):
    """Storage for messages that cannot be read again, as `Spool`."""

    def add(self, messages: Messages) -> int: ...


class Metadata(NamedTuple):
    """Names that a line reports: topic ids with their names, and addresses with their nodes; and `asked`, the names for
    the captures as a whole that came before it."""

    names: list[tuple[str, str]]
    nodes: list[tuple[str, int, int]]
    asked: list[tuple[str, str]]


NO_METADATA = Metadata([], [], [])


class OfferedNames:
    """Names to be offered for filters, each with the filter that takes it, in the order in which they came."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], None] = {}
        self._offered = 0

    def __contains__(self, seen: tuple[str, str]) -> bool:
        return seen in self._seen

    def add(self, option: str, name: str) -> None:
        """Note a name, if there is room for it."""
        if len(self._seen) < SEEN:
            self._seen[option, name] = None

    def take(self) -> list[tuple[str, str]]:
        """The names that are new since the last call."""
        seen = [*islice(self._seen, self._offered, None)]
        self._offered += len(seen)
        return seen


class RowMaker:
    """Makes rows of exchanges. `plain`: the inputs, by number, whose packets can be read again where they are; messages
    from other inputs go into the spool."""

    def __init__(self, spool: MessageStorage, plain: frozenset[int]) -> None:
        self._spool = spool
        self._plain = plain
        self._numbering = TextNumbers()
        self._expectation = Expectation()
        # Names reported by lines that have no row yet, by the lines' keys.
        self._metadata: dict[LineKey, Metadata] = {}
        self._asked: list[tuple[str, str]] = []
        self.seen = OfferedNames()

    def hear(self, names: list[tuple[str, str, LineKey]], nodes: list[tuple[str, int, int, LineKey]]) -> None:
        """Note names and nodes by the key of the line that reported them."""
        for topic_id, name, key in names:
            (self._asked if key == BEHIND else self._of(key).names).append((topic_id, name))
        for ip, port, node_id, key in nodes:
            self._of(key).nodes.append((ip, port, node_id))

    def _of(self, key: LineKey) -> Metadata:
        return self._metadata.setdefault(key, Metadata([], [], []))

    def make(self, exchange: Exchange) -> tuple[bytes, Metadata]:
        """The exchange's row, and the names that it reported."""
        made = row.pack_row(exchange, self._numbers(exchange))
        metadata = self._metadata.pop(exchange.key, NO_METADATA)
        if self._asked:
            metadata, self._asked = metadata._replace(asked=self._asked), []
        return made, metadata

    def take_texts(self) -> list[bytes]:
        """The texts that are new with the rows since the last call."""
        return self._numbering.take()

    def _numbers(self, exchange: Exchange) -> row.RowNumbers:
        number = self._numbering.number
        ends, summary = exchange.connection, exchange.summary
        addresses = [ends.client_ip, ends.client_port, ends.broker_ip, ends.broker_port]
        connection = number([*addresses, ends.connection_id, ends.community_id, ends.tls, ends.handshake])
        software = [exchange.software_name, exchange.software_version]
        names = [exchange.client_name, exchange.broker_name, exchange.client_process]
        client = number(
            [exchange.client_id, exchange.role, exchange.principal, exchange.mechanism, *software, *names]
        )
        topics = [summary.topics, summary.topic_ids, [*summary.unresolved_topic_ids]]
        others = [summary.partitions[:_LISTED], summary.groups, summary.transactional_ids]
        inner = [exchange.inner_api_key, exchange.inner_principal] if exchange.api_key == ENVELOPE else None
        subject = number([*topics, *others, inner, *action_of(exchange)])
        codes = dict.fromkeys(problem.code for problem in exchange.problems[:_LISTED])
        fault = number([summary.error_codes, [*codes], exchange.api_candidates])
        if self._numbering.grew or (exchange.api and ("api", exchange.api) not in self.seen):
            self._see(exchange)
        noted = number([list(problem.to_dict().values()) for problem in exchange.noted])
        fetched = exchange.fetched
        session = number(fetched and [exchange.session_topics, *fetched.state()])
        cut = UNKEPT in (connection, client, subject, fault, noted, session)
        spool, expected = self._spooled(exchange), self._is_expected(exchange)
        return row.RowNumbers(connection, client, subject, fault, noted, session, spool, cut, expected)

    def _is_expected(self, exchange: Exchange) -> bool:
        """True for a wait that the client asked for, and for errors that are part of normal operation."""
        summary = exchange.summary
        self._expectation.note(exchange)
        if exchange.problems or summary.refusal:
            return False
        if exchange.outcome == UNANSWERED or summary.error_counts:
            return self._expectation.holds(exchange)
        return exchange.wait in IDLE

    def _see(self, exchange: Exchange) -> None:
        """Note the names that are to be offered for filters."""
        for filter_name, filter_row in FILTERS.items():
            for name in filter_row.offered(exchange):
                if name:
                    self.seen.add(filter_name, name)

    def _spooled(self, exchange: Exchange) -> int:
        """The exchange's place in the spool; NOWHERE if it is full, or if the packets can be read again."""
        messages = [message for message in (exchange.request, exchange.response) if message is not None]
        files = [
            {message.first_frame >> FRAME_BITS, message.last_frame >> FRAME_BITS} for message in messages
        ]
        in_place = all(len(both) == 1 and both <= self._plain for both in files)
        if in_place and not exchange.connection.tls:
            return row.NOWHERE
        request, response = exchange.request, exchange.response
        return self._spool.add(
            (None if request is None else request.raw, None if response is None else response.raw)
        )


class PendingBatch:
    """Contents of the next batch."""

    def __init__(self) -> None:
        self._rows: list[bytes] = []
        self._count = 0
        self._names: list[tuple[str, str, LineKey]] = []
        self._nodes: list[tuple[str, int, int, LineKey]] = []
        self._asked: list[tuple[str, str]] = []
        self._closed: list[ClosedConnection] = []

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._rows)

    def add(self, made: bytes, metadata: Metadata) -> None:
        """Add the next row, and the names that its exchange reported."""
        self._rows.append(made)
        self._count += 1
        key = row.key(row.values(made, 0)[row.COMPLETED_AT], self._count)
        self._names += [(topic_id, name, key) for topic_id, name in metadata.names]
        self._nodes += [(ip, port, node_id, key) for ip, port, node_id in metadata.nodes]
        self._asked += metadata.asked

    def close(self, line: ConnectionLine) -> None:
        """Add a connection that ended."""
        self._closed.append((self._count, line.to_dict()))

    def take(
        self,
        texts: list[bytes],
        seen: list[tuple[str, str]],
        start: int | None,
        read: tuple[int, int | None],
        refused: int,
    ) -> RowBatch:
        """Take the contents as a batch. `read`: bytes read, and bytes in total."""
        rows, self._rows = b"".join(self._rows), []
        names, self._names = self._names, []
        nodes, self._nodes = self._nodes, []
        closed, self._closed = self._closed, []
        asked, self._asked = self._asked, []
        return RowBatch(
            rows, texts, [], [], names, nodes, seen, start, *read, refused, closed=closed, asked=asked
        )


class Indexer(Sink):
    """Takes the lines of a run, and piles up the rows of its exchanges."""

    lines = frozenset({EXCHANGE, CONNECTION})

    def __init__(self, run: Run, spool: Spool, plain: frozenset[int]) -> None:
        self._run = run
        self._spool = spool
        self._maker = RowMaker(spool, plain)
        self._pending = PendingBatch()

    def take(self, line: Line) -> None:
        self._maker.hear(*self._run.inspector.names.take_new())
        if isinstance(line, Exchange):
            self._pending.add(*self._maker.make(line))
        elif isinstance(line, ConnectionLine):
            self._pending.close(line)

    def waiting(self) -> int:
        """Number of rows in the next batch."""
        return len(self._pending)

    def batch(self) -> RowBatch:
        """The results since the last batch."""
        maker, run, status = self._maker, self._run, self._run.packets.status
        texts, seen, read = maker.take_texts(), maker.seen.take(), (status.bytes_read, status.bytes_total)
        return self._pending.take(texts, seen, run.filter.start, read, self._spool.refused)


@dataclass(slots=True, eq=False, repr=False)
class CaptureRun(Run):
    """A run that notes where the packets of `plain` captures are."""

    packets: Timeline
    plain: frozenset[int]
    places: list[tuple[int, int]] = field(init=False, default_factory=list)
    described: int = field(init=False, default=0)

    def feed(self, piece: Block) -> list[Line]:
        if piece.first_frame >> FRAME_BITS in self.plain:
            self.places.append((piece.first_frame, self.packets.offset(piece)))
        return Run.feed(self, piece)

    def take_places(self) -> tuple[list[tuple[int, int]], list[tuple[int, int, bytes]]]:
        """What is new since the last call: first frames of blocks with the places of their buffers, and the captures'
        descriptions of packets."""
        places, self.places = self.places, []
        descriptions = self.packets.descriptions[self.described :]
        self.described += len(descriptions)
        return places, descriptions


class LivePackets(Packets, Protocol):
    """Packets of an interface."""

    def start(self) -> None: ...
    def stop(self) -> None:
        """End the capture; its packets up to now still come."""

    def leave(self) -> None:
        """End the capture; no more packets come."""


def index_live(inputs: Inputs, spool: Spool, packets: LivePackets, send: Callable[[RowBatch], None]) -> None:
    """Capture, to the end or until `LIVE_EXCHANGES`; every batch has the capture's state as its summary."""
    run = Run(packets, inputs.inspector(emit=inputs.emit))
    exchanges = 0

    def send_with_summary(batch: RowBatch) -> None:
        nonlocal exchanges
        exchanges += len(batch.rows) // row.SIZE
        batch = batch._replace(summary=run.summary())
        if exchanges >= LIVE_EXCHANGES:
            packets.stop()
            if batch.done:
                full = f"the capture has ended: {exchanges:,} exchanges are as many as are kept"
                batch = batch._replace(errors=[*batch.errors, (0, full)])
        send(batch)

    packets.start()
    index_packets(run, Indexer(run, spool, frozenset()), send_with_summary)


def index_packets(run: Run, indexer: Indexer, send: Callable[[RowBatch], None]) -> None:
    """Take all packets of the run, and send batches of their exchanges."""
    run.held_seconds, run.released_at = BATCH_SECONDS, time.monotonic()
    try:
        for lines in run.fed():
            for line in lines:
                indexer.take(line)
            if run.due or indexer.waiting() >= BATCH_ROWS:
                send(indexer.batch())
        for line in run.rest():
            indexer.take(line)
    finally:
        run.packets.close()
    send(indexer.batch().ended(run.packets.status.errors, run.summary()))
