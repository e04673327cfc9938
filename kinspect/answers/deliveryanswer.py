"""How long records take from producer to consumer: a row for each topic, and client id and address of a consumer."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from kinspect.analysis.answer import Answer, RecordStore, ResultContext, Row
from kinspect.analysis.client import ClientKey, client_key
from kinspect.analysis.delays import (
    KEPT,
    NO_BATCHES,
    UNTIMED,
    Consumption,
    Delays,
    PartitionLog,
    Place,
    Produced,
    Slowest,
    brought,
    placed_batches,
)
from kinspect.analysis.grouptopics import MEMBER_APIS, TYING, ClientGroups
from kinspect.analysis.lags import read_batches
from kinspect.analysis.messagebody import direction_of, message_body
from kinspect.analysis.offsetranges import joined
from kinspect.analysis.record import GREATEST, Record
from kinspect.answers.celltexts import NOTE, listed, plain
from kinspect.answers.definition import Definition, Key
from kinspect.answers.latencyanswer import QUANTILES, frames_object, frames_of, milliseconds_text, quantiles
from kinspect.answers.topicsanswer import (
    FETCHED_FIELDS,
    READER_KEYS,
    RECORD_APIS,
    USE_KEYS,
    index_of,
    reading_topic,
    topics_in,
)
from kinspect.filters.filterdefinitions import GAP, TIMES, cutting_more
from kinspect.filters.values import CONSUMED
from kinspect.kafka.bodysummary import RecordField, RecordRoom
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import milliseconds
from kinspect.kafka.wire.fetched import TopicRef
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.kafka.wire.message import WireMessage
from kinspect.output.columns import Column
from kinspect.protocol.apikeys import FETCH, PRODUCE, SHARE_FETCH
from kinspect.wording import NAMELESS, counted

READINGS_KEPT = 100_000
"""Most partitions of all consumers."""
READ_COMMITTED = 1

_PRODUCED = frozenset({"topic_data.name", "topic_data.topic_id", "topic_data.partition_data"})
_PLACED = frozenset(
    """
    responses.name responses.topic_id responses.partition_responses.index
    responses.partition_responses.error_code responses.partition_responses.base_offset
    """.split()
)
_ASKED = frozenset(
    """
    replica_id replica_state isolation_level topics.topic topics.topic_id topics.partitions.partition
    topics.partitions.partition_index topics.partitions.fetch_offset
    """.split()
)

Partition = tuple[TopicRef, int]
_Where = tuple[str, int]
"""A partition by its topic's name."""
_Reader = tuple[ClientKey, bool]
"""A consumer, and whether it is one of a share group."""


@dataclass(slots=True)
class _Topic(Record):
    """Produce requests of a topic. `unplaced`: batches whose offsets no answer told."""

    unplaced: int = 0
    incomplete: int = 0


@dataclass(slots=True)
class _Consumer(Record):
    """Fetches of a client that could not be read to their end."""

    incomplete: int = 0


@dataclass(slots=True)
class _Gaps(Record):
    """The last line of a client before which something was lost, or of which: then true. Answers without their request
    have no client id."""

    last: tuple[LineKey, bool] | None = field(default=None, metadata=GREATEST)


class Deliveries(Answer):
    """Accumulator of the rows."""

    exempt_apis: ClassVar[Mapping[str, frozenset[int]]] = {
        "--topic": RECORD_APIS | MEMBER_APIS | TYING,
        "--group": frozenset({PRODUCE, FETCH}),
        "--client-id": frozenset({PRODUCE}),
        "--client-host": frozenset({PRODUCE}),
    }
    row_keys: ClassVar[Mapping[str, tuple[str, ...]]] = READER_KEYS

    def __init__(self) -> None:
        super().__init__()
        self._topics = self.records(_Topic)
        self._produced = self.records(Produced, READINGS_KEPT)
        self._readings = self.records(Consumption, READINGS_KEPT)
        self._consumers = self.records(_Consumer)
        self._gaps = self.records(_Gaps)
        self._groups = ClientGroups(self)

    def add(self, exchange: Exchange) -> None:
        if exchange.request is None or exchange.after_gap:
            self._note_gap(exchange, exchange.request is None)
        if exchange.request is None:
            return
        if exchange.api_key == PRODUCE:
            self._add_produce(exchange, exchange.request)
        elif exchange.api_key in (FETCH, SHARE_FETCH):
            self._add_fetch(exchange, exchange.request)
        self._groups.add(exchange)

    def _note_gap(self, exchange: Exchange, is_within: bool) -> None:
        gaps, gap = self._gaps.of(*client_key(exchange)), (exchange.key, is_within)
        if gaps is not None:
            gaps.last = gap if gaps.last is None else max(gaps.last, gap)

    # ------------------------------------------------------------------ what exchanges say

    def _add_produce(self, exchange: Exchange, request: WireMessage) -> None:
        body, whole = message_body(request, _PRODUCED)
        told, _ = message_body(None if exchange.is_uncertain else exchange.response, _PLACED)
        answers = {
            (topic, part.get("index")): part
            for topic, parts in topics_in(told, "responses", "partition_responses").items()
            for part in parts
        }
        room = RecordRoom(exchange.connection.caps)
        answer_time = None if exchange.response is None else exchange.response.first_time
        times = _time(request.first_time), _time(answer_time)
        place = _place(request, exchange)
        for topic, parts in topics_in(body, "topic_data", "partition_data").items():
            of_topic = self._topics.of(topic)
            if of_topic is None:
                continue
            of_topic.incomplete += not whole
            for part in parts:
                answer = answers.get((topic, part.get("index")), {})
                if not part.get("records") or answer.get("error_code"):
                    continue
                found = RecordField(part["records"], True, room, exchange.connection.counts)
                base = answer.get("base_offset", -1)
                ranges = list(placed_batches(found, base)) if base >= 0 else []
                of_topic.unplaced += len(found.batches()) - len(ranges)
                produced = self._produced.of(topic, part["index"]) if ranges else None
                if produced is not None:
                    for first, end in ranges:
                        batch = *times, end, place
                        seen = produced.batches.get(first)
                        # Of a request that was sent again, as its answer was lost, the first one counts.
                        if batch < seen if seen is not None else self._has_room():
                            produced.batches[first] = batch
                    self._trim(produced)

    def _add_fetch(self, exchange: Exchange, request: WireMessage) -> None:
        asked, whole = message_body(request, _ASKED)
        if exchange.api_key == FETCH and direction_of(asked, whole) != CONSUMED:
            return
        certain = None if exchange.is_uncertain else exchange.response
        told, answered = message_body(certain, FETCHED_FIELDS)
        consumer = self._consumers.of(*client_key(exchange))
        if consumer is not None:
            consumer.incomplete += not whole or (exchange.response is not None and not answered)
        if not whole or (not answered if exchange.response is not None else exchange.outcome_reason == GAP):
            self._note_gap(exchange, True)
        offsets: dict[Partition, int] = {
            (topic, index): part.get("fetch_offset", -1)
            for topic, parts in topics_in(asked, "topics", "partitions").items()
            for part in parts
            if (index := index_of(part)) is not None
        }
        for where, offset in offsets.items():
            reading = self._reading(exchange, where)
            if reading is not None:
                reading.committed |= asked.get("isolation_level") == READ_COMMITTED
                self._pass(reading, exchange, offset)
        if exchange.response is None:
            return
        room = RecordRoom(exchange.connection.caps)
        ended, place = _time(exchange.response.last_time), _place(exchange.response, exchange)
        for topic, parts in topics_in(told, "responses", "partitions").items():
            for part in parts:
                where = topic, part["partition_index"]
                if part.get("records") and not part.get("error_code"):
                    found = RecordField(part["records"], True, room, exchange.connection.counts)
                    self._add_records(exchange, where, found, part, offsets.get(where, 0), (ended, place))

    def _add_records(
        self,
        exchange: Exchange,
        where: Partition,
        found: RecordField,
        part: Row,
        asked: int,
        end: tuple[int, Place],
    ) -> None:
        """What an answer brings of a partition."""
        reading = self._reading(exchange, where)
        if reading is None:
            return
        stretches = [(end[0], *one, end[1]) for one in brought(found, part, max(asked, 0))]
        for stretch in stretches:
            self.keep(reading.stretches, stretch)
        self._trim(reading)
        aborted = part.get("aborted_transactions")
        produced = self._produced.of(*where) if aborted else None
        if produced is not None:
            for one in joined(read_batches(found.batches(), aborted)[1]):
                self.keep(produced.aborted, one)
            self._trim(produced)
        if exchange.api_key == SHARE_FETCH:
            ends = [stretch[2] for stretch in stretches]
        else:
            ends = [
                batch["last_offset"] + 1 for batch in found.batches() if batch.get("last_offset") is not None
            ]
        if ends:
            self._pass(reading, exchange, max(ends))

    def _trim(self, kept: Produced | Consumption) -> None:
        """Let go of what is more than `KEPT`, many at once."""
        if kept.names() > 2 * KEPT:
            self.let_go(kept.trim(KEPT))

    def _pass(self, reading: Consumption, exchange: Exchange, offset: int) -> None:
        if offset >= 0 and (reading.passed is None or reading.passed <= (exchange.key, offset)):
            reading.passed = exchange.key, offset

    def _reading(self, exchange: Exchange, where: Partition) -> Consumption | None:
        return self._readings.of(*client_key(exchange), exchange.api_key == SHARE_FETCH, *where)

    # ------------------------------------------------------------------ the whole

    def result(self, context: ResultContext) -> list[Row]:
        produced: dict[_Where, Produced] = {}
        readings: dict[_Where, dict[_Reader, Consumption]] = {}
        partitions: dict[tuple[str, ClientKey], dict[tuple[int, bool], Consumption]] = {}
        for (topic, index), batches in self._produced.items():
            if (name := context.topic_name(topic)) is not None:
                produced.setdefault((name, index), Produced()).merge(batches)
        for (client_id, client_ip, shared, topic, index), found in self._readings.items():
            if (name := context.topic_name(topic)) is not None:
                reader = (client_id, client_ip), shared
                reading = readings.setdefault((name, index), {}).setdefault(reader, Consumption())
                reading.merge(found)
                partitions.setdefault((name, reader[0]), {})[index, shared] = reading
        for batches in produced.values():
            batches.trim(KEPT)
        for own in partitions.values():
            for reading in own.values():
                reading.trim(KEPT)
        logs = {where: PartitionLog(found) for where, found in produced.items() if found.batches}
        let_go = {where: batches.let_go for where, batches in produced.items()}
        self.unmeasured = sum(let_go.values()) + sum(
            reading.let_go for known in readings.values() for reading in known.values()
        )
        topics, ids = self._topics_by_name(context)
        consumers = {client: found.incomplete for client, found in self._consumers.items()}
        waiting = _Waiting(readings, logs, self._gaps, self._groups.named(context))
        unclear = self._unclear(context, topics)
        chosen = cutting_more(context.options - self.row_keys.keys(), *TIMES)
        rows = []
        for (topic, client), own in partitions.items():
            delays = Delays()
            for (index, _), reading in sorted(own.items()):
                delays.add(index, logs.get((topic, index), NO_BATCHES), reading.stretches)
            left = None if chosen or topic in unclear else waiting.count(topic, client, own)
            if left == 0 and not any(reading.stretches for reading in own.values()):
                continue
            indexes = {index for index, _ in own}
            of_topic = topics.get(topic, _Topic())
            rows.append(
                {
                    "topic": topic,
                    "topic_id": ids.get(topic),
                    "client_id": client[0],
                    "client_ip": client[1],
                    "groups": waiting.groups(client, topic),
                    "partitions": len(indexes),
                    "records": delays.records,
                    "delay_ms": quantiles(delays.delay),
                    "produce_ms": quantiles(delays.produce),
                    "wait_ms": quantiles(delays.wait),
                    # Of nothing that was measured it is not known which clocks its ends are of.
                    "two_clocks": None if delays.slowest is None else delays.two_clocks,
                    "not_delivered": left,
                    "again": delays.again,
                    "slowest": _slowest_object(delays.slowest),
                    "untimed": delays.untimed,
                    "unplaced": of_topic.unplaced,
                    "let_go": sum(let_go.get((topic, index), 0) for index in indexes)
                    + sum(reading.let_go for reading in own.values()),
                    "incomplete": of_topic.incomplete + consumers.get(client, 0),
                    **dict.fromkeys(("records", "untimed", "unplaced") if topic in unclear else ()),
                }
            )
        return sorted(rows, key=_place_of)

    def _unclear(self, context: ResultContext, produced: Container[str]) -> set[str | None]:
        """Topics that are read by an id without a name, where some are produced to by name alone, or the reverse: they
        may be the same."""
        written = [topic for (topic,), _ in self._topics.items()]
        read = {key[3] for key, _ in self._readings.items() if context.topic_name(key[3]) not in produced}
        halves = context.halves([*written, *read])
        there = {not halves[topic] for topic in written if topic in halves}
        return {context.topic_name(topic) for topic in read if halves.get(topic) in there}

    def _topics_by_name(self, context: ResultContext) -> tuple[dict[str, _Topic], dict[str, str]]:
        """What is known of a topic's Produce requests, and its id, by its name."""
        topics: dict[str, _Topic] = {}
        for (topic,), found in self._topics.items():
            if (name := context.topic_name(topic)) is not None:
                topics.setdefault(name, _Topic()).merge(found)
        refs = [key[0] for key, _ in self._produced.items()] + [key[3] for key, _ in self._readings.items()]
        ids = {
            name: topic[1] for topic in refs if topic[1] and (name := context.topic_name(topic)) is not None
        }
        return topics, ids


class _Members:
    """Consumers of a partition that are in one group. `newest`: the last line of what they passed; `offset`: how far
    they passed."""

    def __init__(self, readings: list[Consumption]) -> None:
        self.readings = readings
        passed = [reading.passed for reading in readings if reading.passed is not None]
        self.newest = max((key for key, _ in passed), default=None)
        self.offset = max((offset for _, offset in passed), default=-1)


class _Waiting:
    """Records that wait to be fetched at the end."""

    def __init__(
        self,
        readings: Mapping[_Where, Mapping[_Reader, Consumption]],
        logs: Mapping[_Where, PartitionLog],
        gaps: RecordStore[_Gaps],
        groups: Callable[[ClientKey, str | None], list[str]],
    ) -> None:
        self._readings = readings
        self._logs = logs
        self._gaps = {client: found.last for client, found in gaps.items() if found.last is not None}
        self._left: dict[_Where, dict[_Reader, int | None]] = {}
        self.groups = cache(groups)

    def count(self, topic: str, client: ClientKey, own: Mapping[tuple[int, bool], Consumption]) -> int | None:
        """How many wait for a client; None if that is not known."""
        total = 0
        for index, shared in own:
            where = topic, index
            if where not in self._logs:
                continue
            if where not in self._left:
                self._left[where] = self._of_partition(where, self._logs[where])
            left = self._left[where][client, shared]
            if left is None:
                return None
            total += left
        return total

    def _of_partition(self, where: _Where, log: PartitionLog) -> dict[_Reader, int | None]:
        """Those of a partition by consumer: they wait for the last one of a group that asked for it or was brought of
        it."""
        by_group: dict[tuple[str, bool], list[Consumption]] = {}
        for (client, shared), reading in self._readings[where].items():
            for group in self.groups(client, where[0]):
                by_group.setdefault((group, shared), []).append(reading)
        members = {name: _Members(readings) for name, readings in by_group.items()}
        found = {}
        for reader, reading in self._readings[where].items():
            client, shared = reader
            names = self.groups(client, where[0])
            groups = [members[group, shared] for group in names] or [_Members([reading])]
            found[reader] = self._of_reader(reader, reading, log, groups)
        return found

    def _of_reader(
        self, reader: _Reader, reading: Consumption, log: PartitionLog, groups: list[_Members]
    ) -> int | None:
        client, shared = reader
        passed = reading.passed
        newest = max((group.newest for group in groups if group.newest is not None), default=None)
        if passed is None or newest is None:
            return None if newest is None else 0
        if passed[0] < newest:
            return 0
        # Members of a share group are given records of a partition at the same time.
        offset = max(group.offset for group in groups) if shared else passed[1]
        if log.ends_before(offset):
            return 0
        gaps = [self._gaps[one] for one in (client, (None, client[1])) if one in self._gaps]
        if any((passed[0], False) < gap for gap in gaps) or (log.floor is not None and offset < log.floor):
            return None
        had = (one[1:3] for group in groups for each in group.readings for one in each.stretches)
        return log.left(offset, (*had, *(log.aborted if reading.committed else ())))


def _slowest_object(slowest: Slowest | None) -> Row | None:
    if slowest is None:
        return None
    return {
        "partition": slowest.partition,
        "offset": slowest.offset,
        "delay_ms": milliseconds(slowest.delay),
        "produced": frames_object(slowest.produced[:-1]),
        "fetched": frames_object(slowest.brought[:-1]),
    }


def _place_of(row: Row) -> tuple[Any, ...]:
    """The order of rows: those whose records take longest first."""
    names = row["topic"], row["client_id"] or "", row["client_ip"]
    return -(row["delay_ms"]["p99"] or 0), -(row["records"] or 0), *names


def _time(time: int | None) -> int:
    return UNTIMED if time is None else time


def _place(message: WireMessage, exchange: Exchange) -> Place:
    ends = exchange.connection
    return *frames_of(message, ends), ends.interface or ""


def _of(key: str, name: str) -> Callable[[Row], str]:
    return lambda row: milliseconds_text(row[key][name])


def _frame_texts(slowest: Row | None) -> str:
    """The frames with the slowest record: the last ones of the request and of the answer."""
    if slowest is None:
        return ""
    return f"{slowest['produced']['first']} to {slowest['fetched']['last']}"


def _notes(rows: list[Row], _: Row) -> list[str]:
    unclear = sum(row["partitions"] for row in rows if row["records"] is None)
    several = sum(bool(row["two_clocks"]) for row in rows)
    lost = {row["topic"]: row["unplaced"] for row in rows if row["unplaced"]}
    users = f"consumers or producers of {counted(unclear, 'partition')}"
    ends = f"{counted(several, 'row')} with ends of two files or interfaces"
    counts = {
        f"RECORDS ?: {users} use a topic id {NAMELESS}.": unclear,
        f"{ends}, whose clocks may differ": several,
        **{
            f"batches produced to {topic} whose offsets no answer told: {count:,}": count
            for topic, count in lost.items()
        },
    }
    return [text for text, count in counts.items() if count]


def _is_unjoined(row: Row) -> bool:
    """True for a row of records whose Produce is not in the capture."""
    return row["records"] == 0 and not (row["not_delivered"] or row["let_go"] or row["again"])


ANSWER = Definition(
    Deliveries,
    help="How long records take from producer to consumer.",
    page="v",
    page_help="from producers to consumers",
    columns=(
        *USE_KEYS[:2],
        Key("client_id", "text", "The consumer's", "CLIENT ID", opens="client-id"),
        Key("client_ip", "text", "", "ADDRESS", plain, rank=5, opens="client-host"),
        Key(
            "groups",
            "texts",
            "Groups of the same client id and address, tied to the topic",
            "GROUPS",
            listed,
            rank=3,
        ),
        Key("partitions", "long", "Number of the topic's partitions that it asked for or got records of"),
        Key("records", "long", "Records that it got, and whose Produce is in the capture", "RECORDS"),
        Key(
            "delay_ms",
            "quantiles",
            "From first byte of the Produce request to last byte of the first response with the record",
        ),
        *(Column(name.upper(), _of("delay_ms", name), True) for name in ("p50", "p99", "max")),
        Key("produce_ms", "quantiles", "The part of the delay before the Produce response"),
        Key("wait_ms", "quantiles", "The part of the delay after that"),
        Column("PRODUCE P99", _of("produce_ms", "p99"), True, 2),
        Column("WAIT P99", _of("wait_ms", "p99"), True, 2),
        Key("two_clocks", "bool", "Whether the ends of a delay come from different files or interfaces"),
        Key(
            "not_delivered",
            "long",
            "Records produced, but not fetched at the end",
            "LEFT",
            style=lambda row: NOTE if row["not_delivered"] else "",
        ),
        Key("again", "long", "How often it got a record that it had got before", "AGAIN", rank=1),
        Key("slowest", "slow_record", "The record with the greatest delay"),
        Column("FRAMES", lambda row: _frame_texts(row["slowest"]), rank=4, spare=True),
        Key("untimed", "long", "Records whose delay is unknown"),
        Key("unplaced", "long", "Batches produced to the topic whose offsets are unknown"),
        Key("let_go", "long", "Batches and responses of its partitions that were not kept"),
        Key("incomplete", "long", "Requests and responses that could not be read to their end"),
    ),
    structs={
        "quantiles": QUANTILES,
        "slow_record": "partition long, offset long, delay_ms double, produced frames, fetched frames",
    },
    identity="topic client_id",
    addresses="client_ip",
    compared="delay_ms not_delivered again",
    nothing="no consumer was brought records",
    more=lambda file, rows: reading_topic(file, rows, "records"),
    notes=_notes,
    folds=_is_unjoined,
    folded=lambda rows: (
        f"and {counted(len(rows), 'row')} of records of "
        f"{listed(sorted({row['topic'] or row['topic_id'] for row in rows}))} whose Produce was not captured, "
        "as it was earlier or took another way"
    ),
)
