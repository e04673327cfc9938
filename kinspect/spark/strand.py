"""Some of a run's connections, inspected as the whole run would be.

A task has all segments of some connections, in the order of the run, and none of the others'. What the connections
of a run have in common reaches it in other ways: the clock and the places of packets from the first look
(`kinspect.spark.clock`), topic names and the APIs that clients use from a pass before (`Known`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import length_hint
from struct import Struct

from kinspect.kafka.connection import KafkaConnection
from kinspect.kafka.exchange import Exchange
from kinspect.kafka.ledger import Ledger
from kinspect.kafka.lines import Gap
from kinspect.kafka.names import TopicNames
from kinspect.model import Caps, Counts, Segment
from kinspect.pipeline import Line
from kinspect.spark.clock import Clock, Places
from kinspect.tcp import Connection, Reassembler
from kinspect.tcp.connection import Half
from kinspect.tcp.recent import LOOK_BACK, Recent

Use = tuple[str, int, int]
"""Client id, API key, API version."""

# The place of the packet that completed the line, then what orders lines of one packet: a phase, what it sorts
# by, and the order in which they were completed. Its bytes sort as it does.
_KEY = Struct(">QBQQI")
# The phases of a packet: silent connections are closed by it, it is taken, and the last one ends the capture.
_TIMERS, _TAKEN, _END = range(3)
_OWN = (_TAKEN, 0, 0)

Moment = tuple[int, int, int, int]
"""When something was processed: place, phase, and what the phase sorts by."""


@dataclass(slots=True)
class Known:
    """What other connections tell.

    `names`: topic id to its name and the key of the line that told it. `uses`: when an API and version was first
    seen in use by a client.
    """

    names: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    uses: dict[Use, Moment] = field(default_factory=dict)


@dataclass(slots=True)
class Setting:
    """What all tasks of a run are told. `emit`: the kinds of lines wanted, as for `Inspector`."""

    caps: Caps
    files: Sequence[str]
    clock: Clock
    places: Places
    last: tuple[int | None, int]
    emit: frozenset[str]
    names: dict[str, str]
    kafka_ports: frozenset[int]
    secrets: list[bytes]
    heads_only: bool = False
    known: Known = field(default_factory=Known)


class StrandLedger(Ledger):
    """Lines get their key at once, and need not wait for one another."""

    def __init__(self, setting: Setting, counts: Counts) -> None:
        names = TopicNames(setting.names)
        for topic_id, (name, key) in setting.known.names.items():
            names.learn(topic_id, name, int.from_bytes(key))
        super().__init__(
            setting.caps, counts, names, setting.emit, setting.kafka_ports, setting.heads_only, setting.files
        )
        self._places = setting.places
        self._foreign_uses = setting.known.uses
        self._keyed: list[tuple[bytes, Line]] = []
        self.noted: dict[str, int] = {}
        """By Community ID, how many lines there were: tasks that go on with the same connections count alike."""
        self.first_uses: dict[Use, Moment] = {}
        self.now: Callable[[], Moment] = lambda: (0, *_OWN)
        self.closing: tuple[int, tuple[int, int, int]] | None = None
        """The frame that closes a connection from outside, and how its lines sort among those of that frame."""

    def _hold(self, line: Line, frame: int) -> None:
        key = self._next_key(line, frame)
        if isinstance(line, Exchange):
            line.order = int.from_bytes(key)
            if "exchange" not in self.emit:
                return
        self._keyed.append((key, line))

    def place(self, frame: int) -> int:
        """Where the frame stands in the run."""
        return self._places.place(frame)

    def _next_key(self, line: Line, frame: int) -> bytes:
        """The key of a line that the packet `frame` completed; exchanges are counted, whatever else is asked for."""
        if isinstance(line, Gap):
            whose = line.connection_id
        else:
            whose = (line.connection if isinstance(line, Exchange) else line).community_id
        noted = self.noted[whose] = self.noted.get(whose, 0) + isinstance(line, Exchange)
        phase = self.closing[1] if self.closing is not None and self.closing[0] == frame else _OWN
        return _KEY.pack(self._places.place(frame), *phase, noted & 0xFFFFFFFF)

    def taken(self) -> list[tuple[bytes, Line]]:
        """The lines since the last call, with their keys."""
        lines, self._keyed = self._keyed, []
        return lines

    def note_use(self, client_id: str | None, api_key: int, api_version: int) -> None:
        super().note_use(client_id, api_key, api_version)
        if client_id:
            self.first_uses.setdefault((client_id, api_key, api_version), self.now())

    def uses(self, client_id: str | None, api_key: int, api_version: int) -> bool:
        if super().uses(client_id, api_key, api_version):
            return True
        first = self._foreign_uses.get((client_id or "", api_key, api_version))
        return first is not None and first < self.now()


class _Seen(Recent):
    """Looks back over as many packets of the capture as the whole run does, though it has only some of them."""

    def __init__(self, halves: dict[bytes, Half]) -> None:
        super().__init__(halves)
        self._taken: list[Segment] = []
        self._ordinals: Sequence[int] = ()
        # Ordinals by frame: of what came before and may still be looked back at, and of all, when one is asked for.
        self._earlier: dict[int, int] = {}
        self._known: dict[int, int] | None = None
        self._passed = -1

    def take(self, segments: list[Segment], ordinals: Sequence[int], passed: int) -> None:
        """Those are walked next, behind the segment `passed` of the run."""
        self._earlier = self._recent_ordinals()
        self._passed = passed
        self._taken, self._ordinals, self._known = segments, ordinals, None

    def begin(self, rows: list[tuple[int, Segment]]) -> None:
        """`rows`, with their ordinals, came before."""
        self._rows = [row for _, row in rows]
        self._earlier = {row[9]: at for at, row in rows}

    def current(self) -> Segment:
        """The row that is being taken."""
        return self._rows[len(self._rows) - length_hint(self._walk) - 1]

    def ordinal(self, frame: int) -> int:
        """The ordinal of a row that is being taken or may be looked back at."""
        if self._known is None:
            frames = [row[9] for row in self._taken]
            self._known = self._earlier | dict(zip(frames, self._ordinals, strict=True))
        return self._known[frame]

    def before(self, ordinal: int) -> int:
        """The segment of the run behind which the others up to the row with this ordinal pass."""
        at = bisect_left(self._ordinals, ordinal)
        return self._ordinals[at - 1] if at else self._passed

    def recent(self, ordinal: int) -> list[tuple[int, Segment]]:
        """What the segment `ordinal` would look back at, with ordinals, each packet with its own payload alone."""
        found: list[tuple[int, Segment]] = []
        for row in (self._before + self._rows)[-LOOK_BACK:]:
            key, time, seq, ack, flags, data, start, end, missing, frame, mark = row
            own_ordinal = self.ordinal(frame)
            if own_ordinal >= ordinal - LOOK_BACK:
                own = key, time, seq, ack, flags, data[start:end], 0, end - start, missing, frame, mark
                found.append((own_ordinal, own))  # type: ignore[arg-type]  # a row, as they all are
        return found

    def _recent_ordinals(self) -> dict[int, int]:
        rows = self._taken[-LOOK_BACK:]
        known = dict(zip([row[9] for row in rows], self._ordinals[-LOOK_BACK:], strict=True))
        if len(known) < LOOK_BACK:
            earlier = list(self._earlier.items())[len(known) - LOOK_BACK :]
            known = {**dict(earlier), **known}
        return known

    def _last(self) -> list[Segment]:
        rows = super()._last()
        first = self.ordinal(self.current()[9]) - LOOK_BACK
        return rows[bisect_left(rows, first, key=lambda row: self.ordinal(row[9])) :]


class _Tcp(Reassembler):
    """A reassembly whose timers also run at the segments of connections that it does not have."""

    def __init__(self, setting: Setting, counts: Counts, ledger: StrandLedger) -> None:
        super().__init__(lambda connection: KafkaConnection(connection, ledger), setting.caps, counts)
        self._recent = self._seen = _Seen(self._halves)
        self._ledger = ledger
        self._run_clock = setting.clock
        self._places = setting.places
        self._last_ordinal = -1
        self._moment: Moment | None = None
        ledger.now = self._now

    def _now(self) -> Moment:
        return self._moment or (self._places.place(self._seen.current()[9]), *_OWN)

    def take(self, segments: list[Segment], ordinals: Sequence[int]) -> None:
        """Takes segments in the order of the run; `ordinals`: which of all segments they are."""
        self._seen.take(segments, ordinals, self._last_ordinal)
        begin = 0
        if not self._run_clock.ascends(ordinals[0], ordinals[-1]):
            for at, ordinal in enumerate(ordinals):
                clock = self._run_clock.at(ordinal)
                if clock is not None:
                    self.feed(segments[begin:at])
                    begin = at
                    self._clock = max(self._clock, clock)
        self.feed(segments[begin:] if begin else segments)
        self._last_ordinal = ordinals[-1]

    def closing(self, time: int | None = None, frame: int | None = None) -> Iterator[Connection]:
        self._pass_others(self._last_ordinal + 1, self._run_clock.segments)
        yield from super().closing(time, frame)

    def begin(self, ordinal: int, recent: list[tuple[int, Segment]]) -> None:
        """Begins at the segment `ordinal` of the run; `recent`: what may be looked back at, with ordinals."""
        self._last_ordinal = ordinal - 1
        self._seen.begin(recent)

    def recent(self) -> list[tuple[int, Segment]]:
        """What may still be looked back at, with ordinals, each packet with its own payload alone."""
        return self._seen.recent(self._last_ordinal + 1)

    def advance(self, ordinal: int) -> None:
        """The segments of others up to before `ordinal` pass."""
        self._pass_others(self._last_ordinal + 1, ordinal)
        self._last_ordinal = max(self._last_ordinal, ordinal - 1)

    def _run_timers(self, time: int | None, frame: int) -> None:
        clock = self._clock
        ordinal = self._seen.ordinal(frame)
        self._pass_others(self._seen.before(ordinal) + 1, ordinal)
        self._clock = clock
        if clock >= self._deadline:
            self._run_timers_at(time, frame)

    def _pass_others(self, begin: int, end: int) -> None:
        """Runs the timers at those of the segments from `begin` to before `end`, all of other tasks, that are due."""
        while (due := self._run_clock.first_due(begin, end, self._deadline)) is not None:
            ordinal, time, frame, self._clock = due
            self._run_timers_at(time, frame)
            begin = ordinal + 1

    def _run_timers_at(self, time: int | None, frame: int) -> None:
        self._moment = (self._places.place(frame), _TIMERS, 0, 0)
        super()._run_timers(time, frame)
        self._moment = None

    def _close(self, connection: Connection, time: int | None, frame: int, reason: str) -> None:
        place = self._places.place
        if reason == "idle":
            self._ledger.closing = frame, (_TIMERS, connection.last.clock, place(connection.start_frame))
        elif reason == "capture_end":
            since = self._waiting.get(connection.serial)
            order = (0, place(since)) if since is not None else (1, place(connection.start_frame))
            closing = (_END, *order)
            self._ledger.closing = frame, closing
            self._moment = (place(frame), *closing)
        super()._close(connection, time, frame, reason)
        self._ledger.closing = None


class Strand:
    """Feed it the segments of some connections, it gives lines with the keys that order them in the run."""

    def __init__(self, setting: Setting, ledger: type[StrandLedger] = StrandLedger) -> None:
        self.counts = Counts()
        self.ledger = ledger(setting, self.counts)
        self.tcp = _Tcp(setting, self.counts, self.ledger)
        self._last = setting.last
        for text in setting.secrets:
            self.ledger.add_secrets(text)

    def feed(self, segments: list[Segment], ordinals: Sequence[int]) -> list[tuple[bytes, Line]]:
        """Takes segments in the order of the run, with their ordinals; returns what they completed."""
        if segments:
            self.tcp.take(segments, ordinals)
        return self.ledger.taken()

    def begin(self, ordinal: int, recent: list[tuple[int, Segment]]) -> None:
        """Begins at the segment `ordinal` of the run; `recent`: what may be looked back at, with ordinals."""
        self.tcp.begin(ordinal, recent)

    def recent(self) -> list[tuple[int, Segment]]:
        """What may still be looked back at, with ordinals, each packet with its own payload alone."""
        return self.tcp.recent()

    def advance(self, ordinal: int) -> list[tuple[bytes, Line]]:
        """The segments of others up to before `ordinal` pass; returns what their time completed."""
        self.tcp.advance(ordinal)
        return self.ledger.taken()

    def finish(self) -> Iterator[tuple[bytes, Line]]:
        """The capture has ended: hands on what was still open."""
        for _ in self.tcp.closing(*self._last):
            yield from self.ledger.taken()
        yield from self.ledger.taken()
