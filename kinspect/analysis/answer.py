"""Answers: accumulators of a run's lines, each of which answers one question with rows.

The rows' keys are in docs/answers.md. Parts of a run whose connections are whole merge in any order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from kinspect import state
from kinspect.analysis import forwards
from kinspect.analysis.histogram import Histogram
from kinspect.analysis.membership import Membership, MembershipRequests
from kinspect.analysis.record import Record
from kinspect.filters.filterdefinitions import CLIENTS, CONNECTIONS, END, TIMES, cutting_more
from kinspect.filters.natcopies import NatCopies
from kinspect.kafka.bodysummary import topics_named
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Line
from kinspect.kafka.wire.endpoints import endpoint
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import LAST, LineKey
from kinspect.protocol import schema
from kinspect.protocol.apikeys import ENVELOPE

ROWS_KEPT = 10_000
"""Largest number of records by key, where an answer says no other."""
NAMES_KEPT = 200_000
"""Largest number of names in all records of an answer."""
MERGED_KEPT = 5 * NAMES_KEPT
"""Largest number of names that other parts of the run add."""
NAMES_OF_ADDRESS = 8
"""Largest number of names of an address in a part of the run."""
BUCKETS_KEPT = 1_000_000
"""Largest number of buckets of all histograms of an answer."""

Row = dict[str, Any]
R = TypeVar("R", bound=Record)
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Passes = Callable[[Exchange], bool]
Topic = tuple[str | None, str | None]
"""A topic's name, or its id where no earlier message named it."""


class ResultContext(NamedTuple):
    """What a whole run shows, for rows: all its names of topic ids, and the times of its first and last
    packet, or those of `--since` and `--until` if they are between these.
    `lossy`: something in the middle of it was lost; `options`: those of the filter, if it left out exchanges;
    `chooses`: whether such an option lets something of these names pass."""

    names: LearnedNames
    begin: int | None = None
    end: int | None = None
    lossy: bool = False
    options: frozenset[str] = frozenset()
    chooses: Callable[[str, Sequence[str]], bool] = lambda *_: True

    @property
    def chosen(self) -> bool:
        """True if exchanges were left out anywhere in the run, whatever their time."""
        return cutting_more(self.options, *TIMES)

    @property
    def begun(self) -> bool:
        """True if exchanges of a connection may have been left out before others of it that were not."""
        return cutting_more(self.options, CONNECTIONS, CLIENTS, END)

    def topic(self, topic_id: str) -> str | None:
        """The name of a topic id, from before or after; None if it has none."""
        return self.names.name(topic_id, LAST)

    def topic_name(self, topic: Topic) -> str | None:
        """The topic's name, or its id if no message names it; None for no topic."""
        name, topic_id = topic
        return name if topic_id is None else name or self.topic(topic_id) or topic_id

    def halves(self, topics: Iterable[Topic]) -> dict[Topic, bool]:
        """Topics of which a half is known: True for an id, False for a name. Two different halves may be one topic."""
        named = {name for _, name, _ in self.names.all()[0]}
        return {
            topic: topic[0] is None
            for topic in topics
            if (topic[0] not in named if topic[1] is None else not (topic[0] or self.topic(topic[1])))
        }


class RecordStore(Generic[R]):
    """Records of an answer by key, `most` of them at most. `make`: a new one."""

    def __init__(self, make: Callable[[], R], answer: Answer, most: int) -> None:
        self._make = make
        self._answer = answer
        self._most = most
        self._records: dict[tuple[Any, ...], R] = {}

    def of(self, *key: Any) -> R | None:
        """The record of a key, made when it is first asked for; None if there is no room for it."""
        record = self._records.get(key)
        if record is None:
            if len(self._records) >= self._most:
                self._answer.left_out += 1
                return None
            record = self._records[key] = self._make()
        return record

    def known(self, *key: Any) -> R | None:
        """The record of a key; None if there is none."""
        return self._records.get(key)

    def items(self) -> list[tuple[tuple[Any, ...], R]]:
        """Keys and records."""
        return list(self._records.items())

    def rekey(self, key_of: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> None:
        """Give the records other keys; those that get the same one are added up."""
        before, self._records = self._records, {}
        for old, record in before.items():
            key = key_of(old)
            if key in self._records:
                self._records[key].merge(record)
            else:
                self._records[key] = record

    def merge(self, other: RecordStore[R]) -> None:
        """Add the records of another part of the run."""
        answer = self._answer
        for key, record in other.items():
            mine = self.of(*key)
            if mine is not None:
                before = mine.names()
                answer.left_out += mine.merge(record, answer.names_merged < MERGED_KEPT)
                answer.names_merged += mine.names() - before

    def state(self) -> list[Any]:
        """Plain values for `restore`."""
        return [[key, record.state()] for key, record in self._records.items()]

    def restore(self, values: list[Any]) -> None:
        """Take the `state` of other ones."""
        kind = type(self._make())
        self._records = {key: kind.from_state(record) for key, record in values}


@dataclass(slots=True)
class AddressNames(Record):
    """Names of an address, or of an address and port: several, if others come to have it, or if it is translated."""

    known: set[str] = field(default_factory=set)


class Answer(ABC):
    """Accumulator of one answer. `exchanges`: how many were counted; `twins`: copies of those, before or after address
    translation, None if they are counted too; `left_out`: how often something was not kept, as there was too much of
    it; `unmeasured`: values that the last `result` has not for the same reason; `unproven`: lines on what it has not as
    nothing proves that it belongs there; `names_merged`: names that other parts of the run added."""

    lines: ClassVar[frozenset[str]] = frozenset({"exchange"})
    """Types of the lines it takes."""
    exempt_apis: ClassVar[Mapping[str, frozenset[int]]] = {}
    """Keys of APIs that pass an option of the filter, by the option: they serve rows, and do not name what it asks
    for."""
    row_keys: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Keys of a row whose values an option of the filter chooses, by the option: others have no rows."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.twins: int | None = 0
        self._copies = NatCopies()
        self.left_out = 0
        self.unmeasured = 0
        self.unproven: list[str] = []
        self.names_merged = 0
        self._room = NAMES_KEPT
        self._buckets = 0
        self._parts: list[RecordStore[Any]] = []
        self._requests = MembershipRequests()
        self._memberships = self.records(Membership)
        self._forwards = self.records(forwards.Forwards)
        self._address_names = self.records(AddressNames)
        self.options: dict[str, Any] = {}
        """Those that it was made with."""

    def share(self, copies: NatCopies) -> None:
        """Tell copies by what others note too, which take the same exchanges."""
        self._copies = copies

    def take_all(self) -> None:
        """Count copies too: not all exchanges come here in the order of the run."""
        self.twins = None

    def take(self, exchange: Exchange, passes: Passes | None = None) -> None:
        """Count an exchange, and its group if that had members before. `passes`: whether the filter lets pass what an
        Envelope holds."""
        is_copy = self.twins is not None and self._copies.seen(exchange)
        if exchange.client_name is not None or exchange.broker_name is not None:
            self._note_names(exchange)
        if is_copy:
            self.twins = (self.twins or 0) + 1
            return
        self.exchanges += 1
        try:
            asked = self._requests.first(exchange)
            if asked is not None and (membership := self._memberships.of(asked.group)) is not None:
                membership.add(asked.joins, exchange.key)
            self.add(self._opened(exchange, passes) if exchange.api_key == ENVELOPE else exchange)
            own = forwards.own_request(exchange)
            if own is not None and (kept := self._forwards.of()) is not None:
                self.keep(kept.own, own)
        except schema.MISFITS as error:
            raise schema.misfit(exchange.api, "an answer needs", error) from None

    def _note_names(self, exchange: Exchange) -> None:
        """Keep the names of its ends; those of a copy are names of the addresses that count, too."""
        ends, original = exchange.connection, self._copies.original
        client, broker, _ = original or (ends.client_ip, ends.broker_ip, 0)
        port = ends.broker_port
        for address, name in (
            (client, exchange.client_name),
            (endpoint(broker, port), exchange.broker_name),
        ):
            kept = None if name is None else self._address_names.of(address)
            if kept is not None and len(kept.known) < NAMES_OF_ADDRESS:
                self.keep(kept.known, name)

    @property
    def address_names(self) -> dict[str, list[str]]:
        """Names by address of clients, and by address and port of brokers, in order."""
        return {address: sorted(kept.known) for (address,), kept in sorted(self._address_names.items())}

    def _opened(self, exchange: Exchange, passes: Passes | None) -> Exchange:
        """An Envelope without what it holds, which is kept until it is known whether the client's request is seen."""
        carried = forwards.carried_request(exchange)
        names = exchange.connection.names
        if carried is not None and (passes is None or passes(carried.exchange(names))):
            kept = self._forwards.of()
            if kept is not None:
                self.keep(kept.carried, carried, carried.room)
        return forwards.without_carried(exchange)

    def settled(self, names: LearnedNames) -> Answer:
        """The answer with what Envelopes hold of clients whose own requests were not seen: this one if there is none.
        `names`: those that the run learned."""
        rest = [carried for _, kept in self._forwards.items() for carried in kept.unseen()]
        if not rest:
            return self
        whole = type(self)(**self.options)
        for carried in rest:
            whole.add_carried(carried.exchange(names))
        whole.merge(self)
        return whole

    @property
    def groups_under_way(self) -> int:
        """Groups that had members before anything that was counted."""
        return sum(membership.is_older for _, membership in self._memberships.items())

    @abstractmethod
    def add(self, exchange: Exchange) -> None:
        """Add what an exchange says to the rows."""

    def add_carried(self, exchange: Exchange) -> None:
        """Add what an Envelope holds: an exchange of a connection that was not seen."""
        self.add(exchange)

    def add_connection(self, line: dict[str, Any]) -> None:  # noqa: B027
        """Count a connection that ended, by its line's object. Most answers take exchanges alone."""

    def hear(self, line: Line) -> None:
        """Take a line that is not counted: of a connection that ended, or of an exchange that was not asked for."""
        if isinstance(line, ConnectionLine):
            self.add_connection(line.to_dict())

    def names(self, row: Row, option: str) -> list[str]:
        """What an option of `about` chooses the row by."""
        values = [row[key] for key in self.row_keys[option]]
        each = [value if isinstance(value, list) else [value] for value in values if value is not None]
        return [str(name) for names in each for name in names]

    def is_chosen(self, row: Row, chooses: Callable[[str, Sequence[str]], bool]) -> bool:
        """True if all options of the filter let something of the row pass. `chooses`: as in `ResultContext`."""
        return all(chooses(option, self.names(row, option)) for option in self.row_keys)

    @abstractmethod
    def result(self, context: ResultContext) -> list[Row]:
        """The rows, those that matter most first."""

    def merge(self, other: Self) -> None:
        """Add what another part of the run counted. `other` must not be used afterwards."""
        self.exchanges += other.exchanges
        self.twins = None if self.twins is None or other.twins is None else self.twins + other.twins
        self.left_out += other.left_out
        for mine, its in zip(self._parts, other._parts, strict=True):
            mine.merge(its)

    def to_bytes(self) -> bytes:
        """What was counted, for `from_bytes`, in another process or on another host."""
        counts = self.exchanges, self.twins, self.left_out
        return state.to_bytes([counts, [part.state() for part in self._parts]])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The accumulator that gave these bytes. Raises StateError."""
        answer = cls()
        (answer.exchanges, answer.twins, answer.left_out), parts = state.from_bytes(data)
        for part, values in zip(answer._parts, parts, strict=True):
            part.restore(values)
        return answer

    def records(self, make: Callable[[], R], most: int = ROWS_KEPT) -> RecordStore[R]:
        """A part of it: records by key."""
        part = RecordStore(make, self, most)
        self._parts.append(part)
        return part

    def keep(self, kept: set[T], name: T | None, size: int = 1) -> None:
        """Keep a name, if there is one, and room for it. `size`: the names that it stands for."""
        if name is not None and name not in kept and self._has_room(size):
            kept.add(name)

    def keep_last(self, kept: dict[K, tuple[LineKey, Any]], name: K, key: LineKey, value: Any) -> None:
        """Keep the last value of a name, by the key of its line, if there is room for the name."""
        seen = kept.get(name)
        if seen[0] < key if seen is not None else self._has_room():
            kept[name] = key, value

    def keep_first(self, kept: dict[K, tuple[LineKey, Any]], name: K, key: LineKey, value: Any) -> None:
        """Keep the first value of a name, by the key of its line, if there is room for the name."""
        seen = kept.get(name)
        if key < seen[0] if seen is not None else self._has_room():
            kept[name] = key, value

    def count(self, counts: dict[K, int], name: K, times: int = 1) -> None:
        """Count a name, if there is room for it."""
        if name in counts or self._has_room():
            counts[name] = counts.get(name, 0) + times

    def measure(self, histogram: Histogram, value: int) -> None:
        """Add to a histogram, if there is room for it."""
        if self._buckets < BUCKETS_KEPT or histogram.has(value):
            self._buckets += histogram.add(value)
        else:
            self.left_out += 1

    def let_go(self, names: int) -> None:
        """Have room for others in place of names that are no longer kept."""
        self._room += names

    def _has_room(self, size: int = 1) -> bool:
        if self._room < size:
            self.left_out += 1
            return False
        self._room -= size
        return True


def topics_of(exchange: Exchange) -> list[Topic]:
    """The topics of an exchange's bodies and of its fetch session, as `ResultContext.topic_name` takes them; none
    among them that is not known."""
    topics, nameless = topics_named(exchange)
    found: list[Topic] = [(None, topic) if topic in nameless else (topic, None) for topic in topics]
    for name, topic_id in exchange.session_topics:
        found.append((None, topic_id) if name is None else (name, None))
    return list(dict.fromkeys(found)) if exchange.fetched is not None else found


def rows_of(answer: Answer, context: ResultContext) -> tuple[list[Row], int]:
    """The rows of a run that is over, and the number of topic ids in them that have no name: single lines may have
    known fewer names."""
    names = context.names
    lines_unresolved, names.unresolved = names.unresolved, set()
    rows = answer.result(context)
    unresolved, names.unresolved = names.unresolved, lines_unresolved
    return rows, len(unresolved)
