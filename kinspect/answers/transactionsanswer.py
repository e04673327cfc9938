"""Transactions: a row for each transactional id that an exchange names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from kinspect.analysis.answer import Answer, ResultContext, Row
from kinspect.analysis.client import client_key
from kinspect.analysis.record import GREATEST, LEAST, Record
from kinspect.analysis.txnhistory import (
    END,
    FENCED,
    FENCING,
    GAP,
    INIT,
    MARKER,
    ONGOING,
    PART,
    STATE,
    TIMED_OUT,
    UNANSWERED,
    Event,
    Partition,
    Transaction,
    history,
)
from kinspect.answers.celltexts import ERROR, NOTE, counted, known, lasting, listed, longest
from kinspect.answers.definition import Clock, Definition, Key
from kinspect.kafka.bodysummary import RecordField, RecordRoom
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import iso_time, milliseconds
from kinspect.kafka.wire.message import WireMessage
from kinspect.output.columns import Column
from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    LIST_TRANSACTIONS,
    PRODUCE,
    TXN_OFFSET_COMMIT,
    WRITE_TXN_MARKERS,
)

OFFSETS = "__consumer_offsets"
TRANSACTION_KEY = 1
"""Type of a FindCoordinator's key (KIP-98)."""
_ID = frozenset({"transactional_id"})

Struct = dict[str, Any]


@dataclass(slots=True)
class _Id(Record):
    """A transactional id. `client` and `producer` are the last, of those that brokers took if there are any; `clients`:
    all of them, with their addresses; `cut` is the time of the first event for which there was no room."""

    events: set[tuple[Any, ...]] = field(default_factory=set)
    clients: set[tuple[str | None, str]] = field(default_factory=set)
    epochs: set[int] = field(default_factory=set)
    errors: dict[str, int] = field(default_factory=dict)
    client: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    producer: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    cut: int | None = field(default=None, metadata=LEAST)


@dataclass(slots=True)
class _Producer(Record):
    """Markers of a producer id: brokers among themselves name no transactional id."""

    events: set[tuple[Any, ...]] = field(default_factory=set)
    errors: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _ClientHoles(Record):
    """Gaps in the connections of a client, or of any at its address if that is all that is known: requests may be
    missing there."""

    events: set[tuple[Any, ...]] = field(default_factory=set)


class Transactions(Answer):
    """Accumulator of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self._ids = self.records(_Id)
        self._producers = self.records(_Producer)
        self._clients = self.records(_ClientHoles)

    def add(self, exchange: Exchange) -> None:
        if exchange.after_gap and (client := self._clients.of(*client_key(exchange))) is not None:
            self.keep(client.events, Event(exchange.timestamp or 0, exchange.key, GAP))
        add = _ADD.get(exchange.api_key)
        if add is not None and exchange.request is not None:
            add(self, exchange)

    # ------------------------------------------------------------------ what exchanges say

    def _add_produce(self, exchange: Exchange) -> None:
        assert exchange.request is not None
        name = (exchange.request.facts(_ID).body or {}).get("transactional_id")
        if name is None:
            return
        request, answer = _bodies(exchange)
        codes = _codes(answer.get("responses"), "partition_responses", "index", "error_code")
        room = RecordRoom(exchange.connection.caps)
        producer, epoch, taken = -1, -1, []
        # Not known where a message was cut.
        is_whole = all(
            message is not None and message.complete for message in (exchange.request, exchange.response)
        )
        records = size = 0 if is_whole else -1
        for partition, struct in _partitions(request.get("topic_data"), "partition_data", "index"):
            value = struct.get("records")
            if value is None:
                continue
            found = RecordField(value, True, room, exchange.connection.counts)
            if producer < 0:
                batches = found.batches()
                producer, epoch = (
                    (batches[0]["producer_id"], batches[0]["producer_epoch"]) if batches else (-1, -1)
                )
            if codes.get(partition, UNANSWERED) == 0:
                taken.append(partition)
                size = size if size < 0 else size + len(value)
                records = -1 if records < 0 or found.count is None else records + found.count
        producer, epoch = _number(producer), _number(epoch)
        self._add(exchange, name, PART, producer, epoch, codes.values(), taken, records=records, bytes=size)

    def _add_init(self, exchange: Exchange) -> None:
        request, answer = _bodies(exchange)
        name = request.get("transactional_id")
        if name is None:
            return
        producer, epoch = _number(answer.get("producer_id")), _number(answer.get("producer_epoch"))
        timeout = _number(request.get("transaction_timeout_ms"))
        client = _text(exchange.client_id)
        self._add(exchange, name, INIT, producer, epoch, _error(answer), value=timeout, word=client)

    def _add_partitions(self, exchange: Exchange) -> None:
        request, answer = _bodies(exchange)
        if "transactions" not in request:
            request = {key.removeprefix("v3_and_below_"): value for key, value in request.items()}
            results = {request.get("transactional_id"): answer.get("results_by_topic_v3_and_below")}
            asked = [request]
        else:
            results = {
                each.get("transactional_id"): each.get("topic_results")
                for each in _each(answer, "results_by_transaction")
            }
            asked = _each(request, "transactions")
        for each in asked:
            name = each.get("transactional_id")
            if name is None:
                continue
            codes = _codes(
                results.get(name), "results_by_partition", "partition_index", "partition_error_code"
            )
            named = [
                (_text(topic.get("name")), "", index)
                for topic in _each(each, "topics")
                for index in topic.get("partitions") or ()
            ]
            taken = [partition for partition in named if codes.get(partition, UNANSWERED) == 0]
            error_codes = [*codes.values(), *filter(None, _error(answer))]
            producer, epoch = _number(each.get("producer_id")), _number(each.get("producer_epoch"))
            # Brokers ask whether a client has added partitions, or add them for it (KIP-890).
            kind = None if each.get("verify_only") else PART
            self._add(exchange, name, kind, producer, epoch, error_codes, taken, by_client=each is request)

    def _add_offsets(self, exchange: Exchange) -> None:
        request, answer = _bodies(exchange)
        name, group = request.get("transactional_id"), _text(request.get("group_id"))
        if name is None:
            return
        codes = _error(answer)
        if "topics" in answer:
            codes = [*_codes(answer["topics"], "partitions", "partition_index", "error_code").values()]
        producer, epoch = _number(request.get("producer_id")), _number(request.get("producer_epoch"))
        self._add(exchange, name, PART, producer, epoch, codes, word=group)

    def _add_end(self, exchange: Exchange) -> None:
        request, answer = _bodies(exchange)
        name = request.get("transactional_id")
        if name is None:
            return
        producer, epoch = _number(request.get("producer_id")), _number(request.get("producer_epoch"))
        asked = _number(request.get("committed"))
        self._add(exchange, name, END, producer, epoch, _error(answer), value=asked)
        record = self._ids.of(name)
        if record is not None and _number(answer.get("producer_epoch")) >= 0:
            self.keep(record.epochs, answer["producer_epoch"])

    def _add_markers(self, exchange: Exchange) -> None:
        request, answer = _bodies(exchange)
        for marker in _each(request, "markers"):
            record = self._producers.of(_number(marker.get("producer_id")))
            if record is None:
                continue
            event = Event(
                _time(exchange),
                exchange.key,
                MARKER,
                _number(marker.get("producer_id")),
                _number(marker.get("producer_epoch")),
                done=exchange.completed_at or 0,
                value=_number(marker.get("transaction_result")),
                version=_number(marker.get("transaction_version")),
            )
            self.keep(record.events, event)
        for marker in _each(answer, "markers"):
            record = self._producers.of(_number(marker.get("producer_id")))
            for code in _codes(marker.get("topics"), "partitions", "partition_index", "error_code").values():
                if record is not None and code:
                    self.count(record.errors, schema.error_name(code, exchange.api_key))

    def _add_states(self, exchange: Exchange) -> None:
        request, answer = _bodies(exchange)
        for name in request.get("transactional_ids") or ():
            self._ids.of(name)
        for state in _each(answer, "transaction_states"):
            name, code = state.get("transactional_id"), state.get("error_code") or 0
            if name is None:
                continue
            partitions = [
                (_text(topic.get("topic")), "", index)
                for topic in _each(state, "topics")
                for index in topic.get("partitions") or ()
            ]
            self._add(
                exchange,
                name,
                None if code else STATE,
                _number(state.get("producer_id")),
                _number(state.get("producer_epoch")),
                [code],
                partitions,
                word=_text(state.get("transaction_state")),
                by_client=False,
            )

    def _add_coordinators(self, exchange: Exchange) -> None:
        request, answer = _bodies(exchange)
        if request.get("key_type") != TRANSACTION_KEY:
            return
        keys = request["coordinator_keys"] if "coordinator_keys" in request else [request.get("key")]
        codes = {each.get("key"): each.get("error_code") for each in _each(answer, "coordinators")}
        for name in keys or ():
            if name is not None:
                code = codes.get(name) or answer.get("error_code") or 0
                self._add(exchange, name, None, -1, -1, [code], by_client=False)

    # ------------------------------------------------------------------ kept

    def _add(
        self,
        exchange: Exchange,
        name: str,
        kind: int | None,
        producer: int,
        epoch: int,
        codes: Iterable[int],
        partitions: Iterable[Partition] = (),
        by_client: bool = True,
        **more: Any,
    ) -> None:
        """Count the error `codes` of an answer, and keep the event that it and its request are."""
        record = self._ids.of(name)
        if record is None:
            return
        codes = [*codes]
        for code in filter(None, codes):
            self.count(record.errors, schema.error_name(code, exchange.api_key))
        answered = exchange.response is not None and bool(codes)
        error = _worst(codes) if answered else UNANSWERED
        if kind is None:
            return
        rank = (int(error == 0 and kind != INIT), *exchange.key)
        if by_client:
            self.keep(record.clients, client_key(exchange))
            record.client = _last(record.client, rank, exchange.client_id)
        if producer >= 0:
            record.producer = _last(record.producer, (int(error == 0), *exchange.key), producer)
        if epoch >= 0:
            self.keep(record.epochs, epoch)
        named = tuple(sorted({each for each in partitions if _is_named(each) and self._has_room()}))
        event = Event(
            _time(exchange),
            exchange.key,
            kind,
            producer,
            epoch,
            error,
            exchange.completed_at or 0,
            **more,
            partitions=named,
        )
        if self._has_room():
            record.events.add(event)
        else:
            record.cut = event.time if record.cut is None else min(record.cut, event.time)

    # ------------------------------------------------------------------ the whole

    def result(self, context: ResultContext) -> list[Row]:
        ids = self._ids.items()
        owners: dict[int, set[str]] = {}
        for (name,), record in ids:
            for event in record.events:
                owners.setdefault(Event(*event).producer, set()).add(name)
        markers = {producer: record for (producer,), record in self._producers.items()}
        gaps = {client: record.events for client, record in self._clients.items()}
        rows = []
        for (name,), record in ids:
            # Two clusters in one capture may have one producer id for two: then nobody knows whose a marker is.
            own = [
                markers[producer]
                for producer, names in owners.items()
                if names == {name} and producer in markers
            ]
            own_clients = {each for client_id, ip in record.clients for each in ((client_id, ip), (None, ip))}
            missing = [event for client in own_clients for event in gaps.get(client, ())]
            rows.append(_row(name, record, own, missing, context))
        return sorted(rows, key=_place)


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: those where something is wrong first, then those with most transactions."""
    outcomes = [each["outcome"] for each in row["transactions"]]
    wrong = sum(outcome in (FENCED, TIMED_OUT, ONGOING, None) for outcome in outcomes)
    return -wrong, -sum(row["errors"].values()), -len(outcomes), row["transactional_id"]


def _row(
    name: str, record: _Id, markers: list[_Producer], gaps: list[tuple[Any, ...]], context: ResultContext
) -> Row:
    cut = record.cut
    events = [Event(*event) for event in chain(record.events, gaps, *(each.events for each in markers))]
    found = history((event for event in events if cut is None or event.time < cut), context.chosen)
    errors = dict(record.errors)
    for producer in markers:
        for error, count in producer.errors.items():
            errors[error] = errors.get(error, 0) + count
    return {
        "transactional_id": name,
        "client_id": record.client[1] if record.client else None,
        "producer_id": record.producer[1] if record.producer else None,
        "epochs": sorted(record.epochs),
        "transactions": [_shown(each, context) for each in found if cut is None or each.outcome != ONGOING],
        "errors": dict(sorted(errors.items())),
    }


def _shown(found: Transaction, context: ResultContext) -> Row:
    partitions = {
        (name or context.topic(topic_id) or topic_id, index) for name, topic_id, index in found.partitions
    }
    return {
        "began": iso_time(found.began or None),
        "ended": iso_time(found.ended or None),
        "duration_ms": milliseconds(found.ended - found.began) if found.began and found.ended else None,
        "outcome": found.outcome,
        "fenced_by": found.fenced_by,
        "epoch": found.epoch if found.epoch >= 0 else None,
        "partitions": [f"{topic}-{index}" for topic, index in sorted(partitions)],
        "records": found.records,
        "bytes": found.bytes,
        "groups": sorted(found.groups),
    }


def _is_named(partition: Partition) -> bool:
    """True for a partition that a message puts into a transaction; a name or number may have been cut off."""
    name, topic_id, index = partition
    return bool(name or topic_id) and name != OFFSETS and index >= 0


def _last(seen: tuple[Any, Any] | None, rank: tuple[int, ...], value: Any) -> tuple[Any, Any] | None:
    return (rank, value) if value is not None and (seen is None or tuple(seen[0]) < rank) else seen


def _time(exchange: Exchange) -> int:
    return (exchange.request.first_time if exchange.request is not None else None) or 0


def _bodies(exchange: Exchange) -> tuple[Struct, Struct]:
    """The bodies of both messages, as far as they could be read."""
    return _body(exchange.request), _body(exchange.response)


def _body(message: WireMessage | None) -> Struct:
    return {} if message is None else message.facts().body or {}


def _each(struct: Struct, name: str) -> list[Struct]:
    return struct.get(name) or []


def _number(value: Any) -> int:
    return -1 if value is None else int(value)


def _text(value: Any) -> str:
    return value or ""


def _error(answer: Struct) -> list[int]:
    return [answer["error_code"]] if "error_code" in answer else []


def _worst(codes: list[int]) -> int:
    """0 if something was taken; else an error that fences the client, or the first."""
    return 0 if 0 in codes else next((code for code in codes if code in FENCING), codes[0])


def _partitions(
    topics: list[Struct] | None, partitions: str, index: str
) -> Iterator[tuple[Partition, Struct]]:
    """Each partition of a body's topics."""
    for topic in topics or ():
        name, topic_id = _text(topic.get("name")), _text(topic.get("topic_id"))
        for struct in topic.get(partitions) or ():
            yield (name, topic_id, _number(struct.get(index))), struct


def _codes(topics: list[Struct] | None, partitions: str, index: str, code: str) -> dict[Partition, int]:
    """The error code of each partition in an answer."""
    return {
        partition: struct[code]
        for partition, struct in _partitions(topics, partitions, index)
        if code in struct
    }


_ADD: dict[int | None, Callable[[Transactions, Exchange], None]] = {
    PRODUCE: Transactions._add_produce,
    FIND_COORDINATOR: Transactions._add_coordinators,
    INIT_PRODUCER_ID: Transactions._add_init,
    ADD_PARTITIONS_TO_TXN: Transactions._add_partitions,
    ADD_OFFSETS_TO_TXN: Transactions._add_offsets,
    END_TXN: Transactions._add_end,
    WRITE_TXN_MARKERS: Transactions._add_markers,
    TXN_OFFSET_COMMIT: Transactions._add_offsets,
    DESCRIBE_TRANSACTIONS: Transactions._add_states,
    LIST_TRANSACTIONS: Transactions._add_states,
}


EXPECTED = frozenset({"CONCURRENT_TRANSACTIONS"})
"""Error codes that belong to transactions that follow each other quickly."""
ENDED = frozenset({"committed", "aborted"})
UNSEEN = "outcome not seen"
ABORTED_SHOWN = 3
NAMELESS = "UNKNOWN_CODE_"
"""What names of codes begin with that no release of Kafka has: no filter asks for them."""
NAMED = 10
"""Number of transactional ids listed of which nothing more is known."""


def _outcomes(row: Row) -> Counter[str]:
    return Counter(one["outcome"] or UNSEEN for one in row["transactions"])


def _count(outcome: str, row: Row) -> str:
    count = _outcomes(row)[outcome]
    return f"{count:,}" if count else ""


def _others(row: Row) -> str:
    return listed(
        {name.replace("_", " "): count for name, count in _outcomes(row).items() if name not in ENDED}
    )


def _epochs(epochs: list[int]) -> str:
    return "" if not epochs else str(epochs[0]) if len(epochs) == 1 else f"{epochs[0]}..{epochs[-1]}"


def _longest(row: Row) -> str:
    ended = [one["duration_ms"] for one in row["transactions"] if one["outcome"] != "open"]
    return longest(ended) if ended else ""


def _records(row: Row) -> str:
    counts = [one["records"] for one in row["transactions"]]
    return "" if not counts else known(None if None in counts else sum(counts))


def _errors(errors: dict[str, int]) -> str:
    return listed({name: count for name, count in errors.items() if name not in EXPECTED})


def _details(row: Row, clock: Clock) -> list[str]:
    wrong = [one for one in row["transactions"] if one["outcome"] not in ENDED]
    longest = sorted(row["transactions"], key=lambda one: -(one["duration_ms"] or 0))
    aborted, committed = (
        [one for one in longest if one["outcome"] == outcome] for outcome in ("aborted", "committed")
    )
    return [_transaction(one, clock) for one in (*wrong, *aborted[:ABORTED_SHOWN], *committed[:1])]


def _transaction(one: Row, clock: Clock) -> str:
    parts = [
        f"{clock(one['began'])} {(one['outcome'] or UNSEEN).replace('_', ' ')}",
        f" by {one['fenced_by']}" if one["fenced_by"] else "",
        f" after {lasting(one['duration_ms'])}" if one["duration_ms"] is not None else "",
        f"; epoch {known(one['epoch'])}",
        f"; {counted(one['records'], 'record')} in {listed(one['partitions'])}" if one["partitions"] else "",
        f"; offsets of {listed(one['groups'])}" if one["groups"] else "",
    ]
    return "".join(parts)


def _next(file: str, rows: list[Row]) -> str:
    errors = [name for name in rows[0]["errors"] if name not in EXPECTED and not name.startswith(NAMELESS)]
    if errors:
        return f"kinspect read {file} --error {','.join(errors)}"
    return f"kinspect read {file} --api InitProducerId,AddPartitionsToTxn,EndTxn,WriteTxnMarkers"


def _is_only_named(row: Row) -> bool:
    return not any(row[key] for key in ("client_id", "epochs", "transactions", "errors"))


def _only_named(rows: list[Row]) -> str:
    names = [row["transactional_id"] for row in rows]
    return f"transactional ids that were only named ({len(rows):,}): {listed(names, NAMED)}"


ANSWER = Definition(
    Transactions,
    help="Transactional ids, producers and epochs; how each transaction ended.",
    page="9",
    page_help="how each ended",
    columns=(
        Key("transactional_id", "text", "", "TRANSACTIONAL ID", str),
        Key("client_id", "text", "", "CLIENT ID", rank=2, opens="client-id"),
        Key("producer_id", "long", "", "PRODUCER", lambda number: known(number).replace(",", ""), rank=3),
        Key("epochs", "ints", "Producer epochs", "EPOCHS", _epochs, rank=4, right=True),
        Key("transactions", "transactions", "In the order in which they began"),
        Column("COMMITTED", lambda row: _count("committed", row), True),
        Column("ABORTED", lambda row: _count("aborted", row), True),
        Column("OTHERS", _others, style=lambda _: NOTE),
        Column("LONGEST", _longest, True, rank=1),
        Column("RECORDS", _records, True, rank=5),
        Key(
            "errors",
            "counts",
            "Error codes of responses about the id, by name",
            "ERRORS",
            _errors,
            style=ERROR,
        ),
    ),
    structs={
        "transaction": """began time, ended time, duration_ms double, outcome text, fenced_by text, epoch int,
            partitions texts, records long, bytes long, groups texts"""
    },
    identity="transactional_id client_id",
    nothing="no transactional id is named",
    more=_next,
    details=_details,
    folds=_is_only_named,
    folded=_only_named,
    unread="no transactional id could be read",
)
