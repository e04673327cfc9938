"""Composition of the stages: blocks of packets in, finished exchanges out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from kinspect import link, state
from kinspect.errors import KinspectError, StateError
from kinspect.kafka.connection.kafkaconnection import KafkaConnection
from kinspect.kafka.exchange.ledger import BOOKS, PARTIAL, Ledger
from kinspect.kafka.exchange.lines import GAP_CAUSES, Line
from kinspect.kafka.view.view import SCHEMA_VERSION
from kinspect.kafka.wire.endpoints import ip_text
from kinspect.kafka.wire.hostnames import HostNames, HostPort
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import LineKey, LineNumbering
from kinspect.model import NOWHERE, QUOTED, Block, Caps, Counts, Origin, Segment, added
from kinspect.tcp import Connection, Reassembler
from kinspect.tcp.flowkeys import address
from kinspect.tcp.reassembly import takes_all
from kinspect.tls.keylog import KeyLog

EndPlace = tuple[int | None, int]
"""Time and frame reference of a run's last packet."""

EXCHANGES_ONLY: Final = frozenset({"exchange"})

# Thresholds of the garbage collector: new objects after which Python searches the newest for unreachable cycles, and
# the rate of searches among the others. Only ended connections leave cycles; the default thresholds take a fifth of the
# time.
_COLLECTED_EACH: Final = (10_000, 3, 3)


def relax_collector() -> None:
    """Make Python's garbage collector run rarely, in a process that does little but decode."""
    gc.set_threshold(*_COLLECTED_EACH)


def one_by_one(lines: list[Line]) -> Iterator[Line]:
    """Empty the list from its front: decoded parts of a line are freed before the next one is looked at."""
    lines.reverse()
    while lines:
        yield lines.pop()


class RunEnd:
    """Time and frame of the run's last packet. A time farther than the idle timeout from the packets before it is
    considered wrong: then the median of the last three is used."""

    def __init__(self, idle_timeout_ns: int) -> None:
        self._idle_timeout = idle_timeout_ns
        self._times: list[int] = []
        self._frame = 0

    def feed(self, block: Block) -> None:
        """Take the next packets of the run."""
        if len(block):
            last = [time for time in block.times[-3:] if time is not None]
            self.pass_to(last, block.first_frame + len(block) - 1)

    def pass_to(self, times: list[int], frame: int) -> None:
        """Note that the run has come to `frame`, and the times of its last packets."""
        self._times = [*self._times, *times][-3:]
        self._frame = frame

    @property
    def time(self) -> int | None:
        """Time of the run's end; None if no packet has one."""
        if not self._times:
            return None
        last, middle = self._times[-1], sorted(self._times)[len(self._times) // 2]
        return last if abs(last - middle) <= self._idle_timeout else middle

    @property
    def place(self) -> EndPlace:
        """Time and frame of the run's end."""
        return self.time, self._frame


class Inspector:
    """Blocks of packets in, exchanges in order of completion out. Opens nothing; its only clock is the packets'.

    `names`: topic names known beforehand, by topic id, or those shared with other inspectors; `hosts`:
    names of addresses known beforehand, unless `names` are shared ones that have them; `keylog`: TLS secrets
    known beforehand. `kafka_ports`: ports whose traffic is Kafka whatever its first bytes look like. `heads_only`:
    bodies are not needed. `waits`: `Exchange.wait` is asked for; it is not exact without. `emit`: kinds of lines to
    give (`exchange`, `connection`, `gap`). `files`: names of the inputs, for the frame references; the list may grow
    while packets are fed. `takes`: selects the islands (`kinspect.tcp.flowkeys.pair`) of this inspector; the rest is
    left to others. `origin`: where the packets come from. `ordered`: if False, lines are returned by `arrived`, and
    names in `learned` count once they are in `names`: for several inspectors of one run.
    """

    def __init__(
        self,
        *,
        caps: Caps | None = None,
        names: dict[str, str] | LearnedNames | None = None,
        hosts: Mapping[HostPort, str] | None = None,
        keylog: KeyLog | None = None,
        kafka_ports: frozenset[int] = frozenset(),
        heads_only: bool = False,
        waits: bool = True,
        emit: frozenset[str] = EXCHANGES_ONLY,
        files: Sequence[str] | None = None,
        takes: Callable[[bytes], bool] = takes_all,
        ordered: bool = True,
        origin: Origin = NOWHERE,
    ) -> None:
        self.caps = caps or Caps()
        self.emit = emit
        self.counts = Counts()
        self.files: Sequence[str] = files if files is not None else []
        self.names = names if isinstance(names, LearnedNames) else LearnedNames(names, HostNames(hosts))
        self._ledger = Ledger(
            self.caps, self.counts, self.names, emit, kafka_ports, heads_only, self.files, waits, origin
        )
        if keylog is not None:
            self._ledger.keylog = keylog
        if not ordered:
            self._ledger.learned = LearnedNames()
            self._ledger.arrived = []
        self._link = link.Dissector(self.caps, self.counts, quotes=True)
        self._tcp = Reassembler(self._open, self.caps, self.counts, self._ledger.progress, takes)
        self._end = RunEnd(self.caps.idle_timeout_ns)
        self._found = 0
        self._restored = False

    def _open(self, connection: Connection) -> KafkaConnection:
        first, ledger = connection.start_frame, self._ledger
        return KafkaConnection(
            connection, LineNumbering(first), ledger, interface=ledger.origin.interface(first)
        )

    @property
    def open_connections(self) -> int:
        """Number of TCP connections of any kind that have begun and not ended."""
        return self._tcp.open_connections

    def open_now(self) -> tuple[dict[str, int], dict[str, int]]:
        """The open connections: their number by kind (`kafka`, `tls`, `other`, `empty`), and the bytes of all of them
        by the keys of the `summary` line."""
        kinds: dict[str, int] = {}
        books: dict[str, int] = {}
        for handler in self._tcp.handlers():
            if isinstance(handler, KafkaConnection):
                kind = handler.shown_kind
                kinds[kind] = kinds.get(kind, 0) + 1
                books = added(books, handler.books())
        return kinds, books

    def expect_secrets(self) -> None:
        """Let connections wait for their TLS secrets, which may come after the packets they are for."""
        self._ledger.expects_secrets = True

    def add_secrets(self, text: bytes) -> int:
        """Add lines of a TLS key log (NSS key log format), preferably before the packets they are for; returns the
        number of new secrets."""
        with self._guard():
            return self._ledger.add_secrets(text)

    def secrets_of(self, randoms: Iterable[bytes]) -> Iterator[bytes]:
        """Known secrets of the TLS connections with these client randoms, as lines of a key log."""
        return self._ledger.keylog.lines(randoms)

    def add_found(self, secrets: Sequence[bytes]) -> None:
        """Add the key logs found with the packets so far, a list that grows: those that are new since the last call."""
        for text in secrets[self._found :]:
            self.add_secrets(text)
        self._found = len(secrets)

    def feed(self, block: Block) -> list[Line]:
        """Take a block; returns the lines whose turn has come, in order."""
        self._end.feed(block)
        segments = self.segments(block)
        if block.names or block.notes:
            self._hear(block, segments)
        return self.feed_segments(segments)

    def _hear(self, block: Block, segments: list[Segment]) -> None:
        """Learn the names and processes that stand beside packets."""
        hosts = self.names.hosts

        def key(index: int) -> LineKey:
            return block.times[index] or 0, block.first_frame + index, 0, 0

        for index, ip, name in block.names:
            hosts.learn(ip_text(ip), name, key(index))
        notes = {block.first_frame + note.packet: note for note in block.notes}
        for segment in segments:
            note = notes.get(segment[9])
            # A quoted segment stands in a packet between two other ends.
            if note is not None and not segment[4] & QUOTED:
                end, other = (
                    (ip_text(ip), port)
                    for ip, port in (address(segment[0], side) for side in (note.inbound, not note.inbound))
                )
                hosts.learn_end(end, other, note.name, note.process, key(note.packet))

    def segments(self, block: Block) -> list[Segment]:
        """Dissect a block, and count its packets, for another inspector's `feed_segments`."""
        with self._guard():
            return self._link.segments(block)

    def feed_segments(self, segments: list[Segment]) -> list[Line]:
        """Take the result of `segments`, in the order of the run; returns the lines whose turn has come, in order."""
        with self._guard():
            self._tcp.feed(segments)
            return self._ledger.release()

    @property
    def learned(self) -> LearnedNames:
        """Names learned from the lines."""
        return self._ledger.learned

    def arrived(self) -> list[tuple[int, int, Line]]:
        """Lines that came since the last call, each with its packet's index in the run, and its `LineOrder` size."""
        lines, self._ledger.arrived = self._ledger.arrived or [], []
        return lines

    def suspend(self) -> Iterator[tuple[bytes, bytes]]:
        """Islands with connections that are open or ended recently: the pair of ends of each, and its state for
        `resume` in any process. Take `idle`'s lines first; nothing may be fed afterwards.

        The state contains the keys of decrypted connections, but not the key log. A connection that waits for its
        secrets searches for them again when it is taken back.
        """
        with self._guard():
            for island, reassembly in self._tcp.suspend():
                handlers = [connection.halves[0].handler for connection in island.connections]
                sessions = [each.state() if isinstance(each, KafkaConnection) else None for each in handlers]
                yield island.pair, state.to_bytes([reassembly, sessions])

    def resume(self, data: bytes) -> None:
        """Go on with an island from `suspend` of an inspector with the same options. If secrets were added meanwhile,
        this may complete lines: the next call that returns lines includes them.

        Raises StateError, also for bytes that cannot be trusted: nothing in them is run. Damage may also show later,
        then as a StateError too. After one the inspector must not be used any more. Contents of messages in forged
        bytes appear in lines unchecked: showing those may raise anything.
        """
        self._restored = True
        with _state_damage():
            reassembly, sessions = state.from_bytes(data)
            self._tcp.resume(
                reassembly,
                lambda connection, number: KafkaConnection.from_state(
                    sessions[number], connection, self._ledger
                ),
            )

    def idle(self, reached: int | None = None) -> list[Line]:
        """Return complete lines while no packets come, including those that a later line may belong before. `reached`:
        the time up to which no more packets will come, if known, in nanoseconds since the epoch."""
        with self._guard():
            if reached is not None:
                self._tcp.pass_to(reached)
            return self._ledger.rest()

    @property
    def end(self) -> EndPlace:
        """Time and frame of the last packet fed, for `finish`."""
        time, frame = self._end.place
        return None if time is None else max(time, self._tcp.reached), frame

    def finish(self, end: EndPlace | None = None) -> Iterator[Line]:
        """End the capture: close the open connections and yield their lines in order, with no more of them held at once
        than the caps allow. Every connection is closed and counted once all lines are taken. Nothing may be fed
        afterwards. `end`: time and frame of the run's last packet, if it was not fed here."""
        with self._guard():
            self._link.flush()
            for _ in self._tcp.closing(*(end or self.end)):
                yield from self._ledger.shortened()
            yield from one_by_one(self._ledger.rest())

    def abandon(self) -> None:
        """Stop before the end of the capture: open connections are counted, requests in flight are not."""
        self._ledger.muted = True
        with self._guard():
            self._link.flush()
            self._tcp.flush(*self.end)

    def _guard(self) -> AbstractContextManager[None]:
        """Context for everything that uses state taken back."""
        return _state_damage() if self._restored else nullcontext()

    def totals(self) -> dict[str, Any]:
        """Totals of connections and their contents for the `summary` line."""
        return self._ledger.totals()

    def summary(self) -> dict[str, Any]:
        """What was read, what it was, and everything that could not be determined: see `summary_line`."""
        return summary_line(self.files, self.counts, self.totals(), len(self.names.unresolved))


@contextmanager
def _state_damage() -> Iterator[None]:
    """Turn exceptions other than KinspectError into a StateError: values other than those written may cause any."""
    try:
        yield
    except KinspectError:
        raise
    except Exception as error:
        raise StateError(f"the carried state is damaged: {error!r}") from error


def summary_line(
    files: Sequence[str], counts: Counts, totals: dict[str, Any], unresolved: int
) -> dict[str, Any]:
    """The `summary` line's object as `Tally.completed` takes it, with dicts for numbers by name. `counts`: of the
    packets; `totals`: sum of `Ledger.totals` (empty if there are none); `unresolved`: number of topic ids without a
    name."""

    def of_all(key: str, kinds: tuple[str, ...]) -> dict[str, int]:
        return {kind: totals.get(key, {}).get(kind, 0) for kind in kinds}

    return {
        "type": "summary",
        "schema_version": SCHEMA_VERSION,
        "files": list(files),
        "packets": counts.packets,
        "bytes": counts.bytes,
        "kernel_drops": counts.kernel_drops,
        "queue_drops": counts.queue_drops,
        "interface_losses": counts.interface_losses,
        "captured_packets": counts.captured_packets,
        "saved_packets": counts.saved_packets,
        "left_packets": counts.left_packets,
        "clock_offsets": counts.clock_offsets,
        "clock_steps": of_all("clock_steps", ("connections", "ms")),
        "tcp_segments": counts.tcp_segments,
        "payload_bytes": counts.payload_bytes,
        **{
            key: totals.get(key, 0)
            for key in (*BOOKS, "repeated_bytes", "conflicting_bytes", "ignored_bytes")
        },
        "packets_without_tcp": dict(sorted(counts.undecoded_packets.items())),
        "duplicate_packets": totals.get("duplicate_packets", 0),
        "uncompared_bytes": totals.get("uncompared_bytes", 0),
        "late_packets": counts.late_packets,
        "late_lines": totals.get("late_lines", 0),
        "retransmitted_bytes": totals.get("retransmitted_bytes", 0),
        "fragments": counts.fragments,
        "overlapping_fragments": counts.overlapping_fragments,
        "connections": of_all("connections", ("kafka", "tls", "other", "empty")),
        "partial_connections": of_all("partial_connections", PARTIAL),
        "server_names": dict(sorted(totals.get("server_names", {}).items())),
        "tls_not_decrypted": dict(sorted(totals.get("tls_not_decrypted", {}).items())),
        "exchanges": totals.get("exchanges", 0),
        "outcomes": of_all("outcomes", ("answered", "unanswered", "no_response", "orphan")),
        "gaps": totals.get("gaps", 0),
        "gap_bytes": totals.get("gap_bytes", 0),
        "gap_causes": of_all("gap_causes", GAP_CAUSES),
        "unresolved_topic_ids": unresolved,
        "fetch_sessions_under_way": totals.get("fetch_sessions_under_way", 0),
        "caps_hit": dict(sorted(totals.get("caps_hit", {}).items())),
    }
