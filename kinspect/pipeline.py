"""The stages joined: blocks of packets in, finished exchanges out."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from kinspect import link, state
from kinspect.errors import KinspectError, StateError
from kinspect.kafka.connection import KafkaConnection
from kinspect.kafka.ledger import BOOKS, Ledger
from kinspect.kafka.names import LearnedNames
from kinspect.kafka.order import Line, Numbering
from kinspect.kafka.view import SCHEMA_VERSION
from kinspect.model import Block, Caps, Counts, Segment
from kinspect.tcp import Connection, Reassembler
from kinspect.tcp.reassembly import takes_all
from kinspect.tls import KeyLog

EXCHANGES_ONLY = frozenset({"exchange"})

# How many more objects there are before Python looks for unreachable cycles among the newest, how often among the
# others. Only what is left of an ended connection is one; with the usual numbers a fifth of the time goes there.
_COLLECTED_EACH = (10_000, 3, 3)


def relax_collector() -> None:
    """For a process that does little but decode: unreachable cycles are looked for as rarely as there are some."""
    gc.set_threshold(*_COLLECTED_EACH)


def one_by_one(lines: list[Line]) -> Iterator[Line]:
    """Empties the list from its front: what was decoded of a line is let go before the next is looked at."""
    lines.reverse()
    while lines:
        yield lines.pop()


class Found(Protocol):
    """Blocks of packets, and the TLS key logs that were found with them so far."""

    @property
    def secrets(self) -> list[bytes]: ...
    def __iter__(self) -> Iterator[Block]: ...


def fed(inspector: Inspector, packets: Found) -> Iterator[tuple[Block, list[Line]]]:
    """Each block of the packets with what it completes, the secrets found with it handed on first; those behind the
    last block are handed on before it ends."""
    used = 0
    for block in packets:
        for text in packets.secrets[used:]:
            inspector.add_secrets(text)
        used = len(packets.secrets)
        yield block, inspector.feed(block)
    for text in packets.secrets[used:]:
        inspector.add_secrets(text)


class RunEnd:
    """The time and frame of the run's last packet. A time that is farther than the idle timeout from the packets before
    it is taken for wrong: then the middle one of the last three counts."""

    def __init__(self, idle_timeout_ns: int) -> None:
        self._idle_timeout = idle_timeout_ns
        self._times: list[int] = []
        self._frame = 0

    def feed(self, block: Block) -> None:
        """The next packets of the run."""
        if len(block):
            last = [time for time in block.times[-3:] if time is not None]
            self._times = [*self._times, *last][-3:]
            self._frame = block.first_frame + len(block) - 1

    @property
    def time(self) -> int | None:
        """None if no packet has one."""
        if not self._times:
            return None
        last, middle = self._times[-1], sorted(self._times)[len(self._times) // 2]
        return last if abs(last - middle) <= self._idle_timeout else middle

    @property
    def place(self) -> tuple[int | None, int]:
        """Time and frame."""
        return self.time, self._frame


class Inspector:
    """Feed it blocks of packets, it gives exchanges in order of completion. It opens nothing and knows no clock
    but the packets' own.

    `names`: topic names known beforehand, by topic id, or what is shared with other inspectors; `keylog`: TLS secrets
    known beforehand. `kafka_ports`: ports whose traffic is Kafka whatever its
    first bytes look like. `heads_only`: nobody will ask for a body. `emit`: which kinds of lines are wanted
    (`exchange`, `connection`, `gap`). `files`: names of the inputs, for the frame references; the list
    may grow while packets are fed. `takes`: of which islands (`kinspect.tcp.keys.pair`) lines are wanted; others look
    after the rest. `ordered`: if not, lines come through `arrived`, and the names that `told` learned count as soon as
    `names` does: for several inspectors of one run.
    """

    def __init__(
        self,
        *,
        caps: Caps | None = None,
        names: dict[str, str] | LearnedNames | None = None,
        keylog: KeyLog | None = None,
        kafka_ports: frozenset[int] = frozenset(),
        heads_only: bool = False,
        emit: frozenset[str] = EXCHANGES_ONLY,
        files: Sequence[str] | None = None,
        takes: Callable[[bytes], bool] = takes_all,
        ordered: bool = True,
    ) -> None:
        self.caps = caps or Caps()
        self.emit = emit
        self.counts = Counts()
        self.files: Sequence[str] = files if files is not None else []
        self.names = names if isinstance(names, LearnedNames) else LearnedNames(names)
        self._ledger = Ledger(self.caps, self.counts, self.names, emit, kafka_ports, heads_only, self.files)
        if keylog is not None:
            self._ledger.keylog = keylog
        if not ordered:
            self._ledger.told = LearnedNames()
            self._ledger.arrived = []
        self._link = link.Dissector(self.caps, self.counts)
        self._tcp = Reassembler(self._open, self.caps, self.counts, self._ledger.progress, takes)
        self._end = RunEnd(self.caps.idle_timeout_ns)
        self._carried = False

    def _open(self, connection: Connection) -> KafkaConnection:
        return KafkaConnection(connection, Numbering(connection.start_frame), self._ledger)

    @property
    def open_connections(self) -> int:
        """TCP connections, of whatever kind, that have begun and not ended."""
        return self._tcp.open_connections

    def expect_secrets(self) -> None:
        """TLS secrets may come after the packets they are for: let connections wait for them."""
        self._ledger.expects_secrets = True

    def add_secrets(self, text: bytes) -> int:
        """Lines of a TLS key log (NSS key log format), best before the packets they are for; how many were new."""
        with self._guard():
            return self._ledger.add_secrets(text)

    def feed(self, block: Block) -> list[Line]:
        """Take a block; returns the lines whose turn has come, in order."""
        self._end.feed(block)
        return self.feed_segments(self.segments(block))

    def segments(self, block: Block) -> list[Segment]:
        """Dissect a block, and count what is in it, for another inspector's `feed_segments`."""
        with self._guard():
            return self._link.segments(block)

    def feed_segments(self, segments: list[Segment]) -> list[Line]:
        """Take what `segments` gave, in the order of the run; returns the lines whose turn has come, in order."""
        with self._guard():
            self._tcp.feed(segments)
            return self._ledger.release()

    @property
    def told(self) -> LearnedNames:
        """What the lines told."""
        return self._ledger.told

    def arrived(self) -> list[tuple[int, int, Line]]:
        """The lines that came since the last call, each with the place of its packet in the run, and its size as
        `LineOrder` counts it."""
        lines, self._ledger.arrived = self._ledger.arrived or [], []
        return lines

    def put_away(self) -> Iterator[tuple[bytes, bytes]]:
        """Every island with connections that are open or ended lately: its pair of ends, and what `take_back` goes on
        with, here or elsewhere. Take `idle`'s lines first; nothing may be fed afterwards.

        The keys of connections that are decrypted are in it, the key log is not. A connection that waits for its
        secrets looks for them again where it is taken back.
        """
        with self._guard():
            for island, reassembly in self._tcp.put_away():
                handlers = [connection.halves[0].handler for connection in island.connections]
                sessions = [each.state() if isinstance(each, KafkaConnection) else None for each in handlers]
                yield island.pair, state.to_bytes([reassembly, sessions])

    def take_back(self, data: bytes) -> None:
        """Goes on with an island of `put_away`, of an inspector with the same options. Where secrets came meanwhile,
        that completes lines: the next lines that are returned have them.

        Raises StateError, also for bytes that cannot be trusted: nothing in them is run. What is wrong with them may
        show later, and is a StateError then too. After one the inspector is of no use. What made-up bytes tell of
        messages stands in lines as they say it: showing those may raise anything.
        """
        self._carried = True
        with _damage_told():
            reassembly, sessions = state.from_bytes(data)
            self._tcp.take_back(
                reassembly,
                lambda connection, number: KafkaConnection.from_state(
                    sessions[number], connection, self._ledger
                ),
            )

    def put_away_fragments(self) -> bytes:
        """The IP fragments that wait for others, for `take_back_fragments`; they belong to no island yet."""
        return state.to_bytes(self._link.fragments.state())

    def take_back_fragments(self, data: bytes) -> None:
        """Goes on with the fragments of `put_away_fragments`. Raises StateError."""
        self._carried = True
        with _damage_told():
            self._link.fragments.restore(state.from_bytes(data))

    def idle(self, reached: int | None = None) -> list[Line]:
        """No packets come: the lines that are complete, also those that something not there yet may belong before.
        `reached`: the time up to which none come any more, if that is known, in nanoseconds since the epoch."""
        with self._guard():
            if reached is not None:
                self._tcp.pass_to(reached)
            return self._ledger.rest()

    @property
    def end(self) -> tuple[int | None, int]:
        """Time and frame of the last packet fed, for `finish`."""
        time, frame = self._end.place
        return None if time is None else max(time, self._tcp.reached), frame

    def finish(self, end: tuple[int | None, int] | None = None) -> Iterator[Line]:
        """The capture has ended: closes the connections that are open and hands on their lines in order, of which no
        more than the caps allow are there at once. Take them all: only then is every connection closed and counted.
        Nothing may be fed afterwards. `end`: time and frame of the run's last packet, if it was not fed here."""
        with self._guard():
            self._link.flush()
            for _ in self._tcp.closing(*(end or self.end)):
                yield from self._ledger.shortened()
            yield from one_by_one(self._ledger.rest())

    def abandon(self) -> None:
        """The run stops before the capture does: open connections are counted, what is in flight is not."""
        self._ledger.muted = True
        with self._guard():
            self._link.flush()
            self._tcp.flush(*self.end)

    def _guard(self) -> AbstractContextManager[None]:
        """Around all that goes on with what was taken back."""
        return _damage_told() if self._carried else nullcontext()

    def totals(self) -> dict[str, Any]:
        """What the `summary` line adds up of connections and what they carried."""
        return self._ledger.totals()

    def summary(self) -> dict[str, Any]:
        """The `summary` line's object: what was read, what it was, and everything that could not be told."""
        return summary_line(self.files, self.counts, self.totals(), len(self.names.unresolved))


@contextmanager
def _damage_told() -> Iterator[None]:
    """What other values than those that were written bring about, which may be anything, is a StateError."""
    try:
        yield
    except KinspectError:
        raise
    except Exception as error:
        raise StateError(f"the carried state is damaged: {error!r}") from error


def summary_line(
    files: Sequence[str], counts: Counts, totals: dict[str, Any], unresolved: int
) -> dict[str, Any]:
    """The `summary` line's object. `counts`: of the packets; `totals`: those of `Ledger.totals`, added up (empty if
    nothing was); `unresolved`: topic ids without a name."""

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
        "captured_packets": counts.captured_packets,
        "saved_packets": counts.saved_packets,
        "left_packets": counts.left_packets,
        "tcp_segments": counts.tcp_segments,
        "payload_bytes": counts.payload_bytes,
        **{
            key: totals.get(key, 0)
            for key in (*BOOKS, "repeated_bytes", "conflicting_bytes", "ignored_bytes")
        },
        "packets_without_tcp": dict(sorted(counts.undecoded_packets.items())),
        "duplicate_packets": totals.get("duplicate_packets", 0),
        "late_packets": counts.late_packets,
        "late_lines": totals.get("late_lines", 0),
        "retransmitted_bytes": totals.get("retransmitted_bytes", 0),
        "fragments": counts.fragments,
        "overlapping_fragments": counts.overlapping_fragments,
        "connections": of_all("connections", ("kafka", "tls", "other", "empty")),
        "server_names": dict(sorted(totals.get("server_names", {}).items())),
        "tls_not_decrypted": dict(sorted(totals.get("tls_not_decrypted", {}).items())),
        "exchanges": totals.get("exchanges", 0),
        "outcomes": of_all("outcomes", ("answered", "unanswered", "no_response", "orphan")),
        "gaps": totals.get("gaps", 0),
        "gap_bytes": totals.get("gap_bytes", 0),
        "unresolved_topic_ids": unresolved,
        "caps_hit": dict(sorted(totals.get("caps_hit", {}).items())),
    }
