"""What the exchanges of a run say of records and their transactions: events, which need no others to be found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kinspect.analysis.client import ClientKey, client_key
from kinspect.analysis.lags import are_aborted
from kinspect.analysis.messagebody import Struct, direction_of, message_body
from kinspect.analysis.offsetranges import Range
from kinspect.analysis.recordfates import ENDS, NONE, Place
from kinspect.analysis.txnhistory import ABORTED, COMMITTED, FENCING, UNANSWERED
from kinspect.filters.filter import connection_ends
from kinspect.filters.values import CONSUMED, PRODUCED, REPLICATED
from kinspect.kafka.connection.kafkaconnection import TLS
from kinspect.kafka.connection.roles import CONSUMER, FOLLOWER
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Gap, Line
from kinspect.kafka.view.batchrows import BatchRows, batch_rows, control_type
from kinspect.kafka.view.placedbatches import place_of, placed_batches
from kinspect.kafka.view.view import View
from kinspect.model import REQUEST, RESPONSE, drop_oldest
from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    PRODUCE,
    SHARE_FETCH,
    WRITE_TXN_MARKERS,
)

RecordEvent = tuple[Any, ...]
PUT: Final = "put"
"""Of the events, the one that has rows: these, and what became of them, or how to find out."""
REMEMBERED: Final = 100_000
"""Clients of groups, and producers of transactional ids."""
_MEMBERS: Final = schema.apis_with("member", "generation", "epoch")
_MARKERS: Final = {"COMMIT": True, "ABORT": False}
_DIRECTIONS: Final = {CONSUMER: CONSUMED, FOLLOWER: REPLICATED}
_READ_COMMITTED: Final = 1
NOT_ITS_OWN: Final = FENCING | {UNANSWERED}
"""Answers to EndTxn that leave it unknown how the transaction ended."""
_FETCHED: Final = frozenset({"replica_id", "replica_state", "isolation_level", "group_id"})
VERSION_2: Final = 2


class RecordLines:
    """The line of an exchange, of which only one side has its body. `view`: how it shows keys and values."""

    def __init__(self, view: View) -> None:
        shown = view.payload, view.show_secrets
        around = ("event_id", "client.ip", "client.id")
        self._views = {
            side: View(
                True,
                *shown,
                fields=(*around, f"{side}.timestamp", f"{side}.frames.first", f"{side}.body"),
            )
            for side in (REQUEST, RESPONSE)
        }

    def __call__(self, exchange: Exchange, side: str) -> Struct:
        return self._views[side].exchange(exchange)


class RecordEvents:
    """Gives the events of lines: the name of a method of `RecordRows` or `RecordFates` that takes each, and its
    arguments. `line`: gives the line of an exchange, of which the body of a side is looked at; `control`: control
    records have rows."""

    def __init__(self, line: Callable[[Exchange, str], Struct], control: bool = False) -> None:
        self._line = line
        self._control = control
        # The last client on a connection.
        self._clients: dict[str, ClientKey] = {}

    def of(self, line: Line) -> Iterator[RecordEvent]:
        """The events of a line."""
        if isinstance(line, Exchange):
            return self._of_exchange(line)
        return self._of_gap(line) if isinstance(line, Gap) else self._of_connection(line)

    def _of_gap(self, gap: Gap) -> Iterator[RecordEvent]:
        """Something may be missing there."""
        address = connection_ends(gap.connection_id)[0][0]
        yield "lose", gap.time, self._clients.get(gap.connection_id, (None, address))

    def _of_connection(self, line: ConnectionLine) -> Iterator[RecordEvent]:
        """What it said before its first packet was captured may be missing, or all that it said."""
        if line.kind == TLS or line.undecoded_bytes:
            yield "lose", line.end_time, (line.client_id, line.client[0])
        elif not line.handshake_seen:
            yield "lose", line.start_time, (line.client_id, line.client[0])

    def _of_exchange(self, exchange: Exchange) -> Iterator[RecordEvent]:
        try:
            client = client_key(exchange)
            if exchange.after_gap:
                yield "lose", exchange.timestamp, client
            if client[0] is not None:
                self._clients[exchange.connection.connection_id] = client
                drop_oldest(self._clients, REMEMBERED)
            if exchange.api_key in _MEMBERS:
                yield from self._member(exchange)
            elif (take := _TAKE.get(exchange.api_key or 0)) is not None and exchange.api_key is not None:
                yield from take(self, exchange)
        except schema.MISFITS as error:
            raise schema.misfit(exchange.api, "records need", error) from None

    # ------------------------------------------------------------------ records

    def _produced(self, exchange: Exchange) -> Iterator[RecordEvent]:
        if exchange.request is None:
            return
        line = self._line(exchange, REQUEST)
        asked = line[REQUEST]["body"] or {}
        bases, errors = self._answered(exchange)
        name = asked.get("transactional_id")
        around = {**_around(line, REQUEST), "direction": PRODUCED, "group": None, "transactional_id": name}
        for where, batch in placed_batches(asked):
            base = bases.get(_key(where))
            if name is not None and batch["is_transactional"]:
                yield "note_producer", batch["producer_id"], name
            rows = batch_rows(
                around,
                where,
                batch,
                [None if base is None else base + at for at in range(len(batch["records"]))],
            )
            rows.shared["error"] = errors.get(_key(where))
            if base is not None:
                bases[_key(where)] = base + len(rows)
            if batch["is_transactional"] and _key(where) in errors:
                # It is in no transaction, or another try is.
                yield PUT, rows, None
            else:
                yield _put(where, batch, rows, base, exchange.request.first_time)

    def _answered(self, exchange: Exchange) -> tuple[dict[Any, int], dict[Any, str]]:
        """The first offset of each partition whose records a broker took and said so; and the errors of those where it
        took none."""
        answered = (self._line(exchange, RESPONSE)[RESPONSE] or {}).get("body") or {}
        bases, errors = {}, {}
        for topic, part in _each(answered, "responses", "partition_responses"):
            key = _key({**place_of(topic), **place_of(part)})
            if part.get("error_code"):
                errors[key] = schema.error_name(part["error_code"], PRODUCE)
            elif part.get("base_offset", -1) >= 0:
                bases[key] = part["base_offset"]
        return bases, errors

    def _fetched(self, exchange: Exchange) -> Iterator[RecordEvent]:
        if exchange.response is None:
            return
        asked, whole = message_body(exchange.request, _FETCHED)
        line = self._line(exchange, RESPONSE)
        answered = line[RESPONSE]["body"] or {}
        if exchange.request is None:
            direction = _DIRECTIONS.get(exchange.role or "")
        else:
            direction = CONSUMED if exchange.api_key == SHARE_FETCH else direction_of(asked, whole)
        client = client_key(exchange)
        group = asked.get("group_id") or None
        member = client if direction == CONSUMED and group is None else None
        around = {**_around(line, RESPONSE), "direction": direction, "group": group}
        committed = asked.get("isolation_level") == _READ_COMMITTED
        for topic, part in _each(answered, "responses", "partitions"):
            where = {**place_of(topic), **place_of(part)}
            batches = [batch for _, batch in placed_batches(part)]
            told = part.get("aborted_transactions")
            if committed and told is not None:
                for batch, is_aborted in zip(batches, are_aborted(batches, told), strict=True):
                    if batch["is_transactional"] and not batch["is_control"]:
                        yield "settle", _sent(where, batch), ABORTED if is_aborted else COMMITTED
            if part.get("last_stable_offset", -1) > 0:
                yield "note_stable", place_in(where), part["last_stable_offset"]
            yield from _read(exchange, where, batches)
            for batch in batches:
                if batch["is_control"] and not self._control:
                    continue
                rows = batch_rows(around, where, batch, [record["offset"] for record in batch["records"]])
                yield _put(where, batch, rows, batch["base_offset"], None, member)

    # ------------------------------------------------------------------ what others say

    def _member(self, exchange: Exchange) -> Iterator[RecordEvent]:
        for name in exchange.summary.groups:
            yield "note_group", client_key(exchange), name

    def _end_txn(self, exchange: Exchange) -> Iterator[RecordEvent]:
        asked, answered = _bodies(exchange)
        producer, epoch = asked.get("producer_id"), asked.get("producer_epoch")
        if producer is None or epoch is None:
            yield "lose", exchange.timestamp, client_key(exchange)
        elif answered.get("error_code", UNANSWERED) in NOT_ITS_OWN:
            yield "lose_end", producer
        elif answered["error_code"] == 0:
            client = client_key(exchange)
            yield (
                "end_transaction",
                exchange.timestamp or 0,
                producer,
                epoch,
                bool(asked.get("committed")),
                client,
            )

    def _init_producer(self, exchange: Exchange) -> Iterator[RecordEvent]:
        asked, answered = _bodies(exchange)
        name, client = asked.get("transactional_id"), client_key(exchange)
        if not asked or (name is not None and not answered):
            yield "lose", exchange.timestamp, client
        elif name is not None and answered["error_code"] == 0:
            producer = answered["producer_id"]
            yield "note_producer", producer, name
            yield "begin_producer", exchange.timestamp or 0, producer, answered["producer_epoch"], client

    def _add_partitions(self, exchange: Exchange) -> Iterator[RecordEvent]:
        asked, answered = _bodies(exchange)
        if not asked:
            yield "lose", exchange.timestamp, client_key(exchange)
            return
        # A client's own; brokers ask for several transactions, and add nothing by that.
        added = {
            (topic["name"], part["partition_index"])
            for topic, part in _each(answered, "results_by_topic_v3_and_below", "results_by_partition")
            if part.get("partition_error_code") == 0
        }
        for place in added:
            yield (
                "add_partition",
                exchange.timestamp or 0,
                place,
                asked["v3_and_below_producer_id"],
                client_key(exchange),
            )

    def _write_markers(self, exchange: Exchange) -> Iterator[RecordEvent]:
        asked, answered = _bodies(exchange)
        if not asked or not answered:
            yield "lose", exchange.timestamp, client_key(exchange)
        written = {
            (marker["producer_id"], topic["name"], part["partition_index"])
            for marker in answered.get("markers") or ()
            for topic, part in _each(marker, "topics", "partitions")
            if part.get("error_code") == 0
        }
        for marker in asked.get("markers") or ():
            for topic in marker.get("topics") or ():
                for index in topic.get("partition_indexes") or ():
                    if (marker["producer_id"], topic["name"], index) in written:
                        # Version 2 of transactions raises the epoch before it writes (KIP-890).
                        epoch = marker["producer_epoch"] - (marker.get("transaction_version", 0) >= VERSION_2)
                        ended = marker["producer_id"], epoch, marker["transaction_result"]
                        yield (
                            "write_marker",
                            exchange.timestamp or 0,
                            (topic["name"], index),
                            *ended,
                            client_key(exchange),
                        )


_TAKE: dict[int, Callable[[RecordEvents, Exchange], Iterator[RecordEvent]]] = {
    PRODUCE: RecordEvents._produced,
    FETCH: RecordEvents._fetched,
    SHARE_FETCH: RecordEvents._fetched,
    END_TXN: RecordEvents._end_txn,
    INIT_PRODUCER_ID: RecordEvents._init_producer,
    ADD_PARTITIONS_TO_TXN: RecordEvents._add_partitions,
    WRITE_TXN_MARKERS: RecordEvents._write_markers,
}


def _read(exchange: Exchange, where: Struct, batches: list[Struct]) -> Iterator[RecordEvent]:
    """Note the markers among a partition's batches, and between which offsets there is no other one."""
    ranges: list[Range] = []
    markers: dict[int, list[tuple[int, bool]]] = {}
    for batch in batches:
        first, last = batch["base_offset"], batch["last_offset"]
        if first is None or last is None or last < first:
            continue
        if batch["is_control"]:
            kinds = _marker_kinds(batch)
            markers.setdefault(batch["producer_id"], []).extend(
                (first, kind) for kind in kinds if kind is not None
            )
        # Compaction leaves gaps; damage does too.
        if ranges and first > ranges[-1][1] and not exchange.problems:
            first = ranges[-1][1]
        ranges.append((first, last + 1))
    if ranges:
        yield "read", place_in(where), ranges, markers


def _put(
    where: Struct,
    batch: Struct,
    rows: BatchRows,
    offset: int | None,
    sent: int | None,
    member: ClientKey | None = None,
) -> RecordEvent:
    """The rows of a batch, with what became of it, or what that is asked for."""
    if batch["is_control"]:
        kinds = _marker_kinds(batch)
        outcome = ENDS[kinds[0]] if kinds and kinds[0] is not None else NONE
        return PUT, rows, outcome, None, None, None, member
    if not batch["is_transactional"]:
        return PUT, rows, NONE, None, None, None, member
    return PUT, rows, None, _sent(where, batch), offset, sent, member


def _bodies(exchange: Exchange) -> tuple[Struct, Struct]:
    """The bodies of both messages, each empty unless all of it was read."""
    asked, answered = (
        {} if m is None or not m.facts().complete else m.body or {}
        for m in (exchange.request, exchange.response)
    )
    return asked, answered


def _each(struct: Struct, outer: str, inner: str) -> Iterator[tuple[Struct, Struct]]:
    for one in struct.get(outer) or ():
        for part in one.get(inner) or ():
            yield one, part


def _key(where: Struct) -> tuple[Any, Any]:
    return where.get("topic_id") or where.get("topic"), where.get("partition")


def place_in(where: Struct) -> Place:
    """The topic and partition of a place in a body, or of a row."""
    return where.get("topic") or where.get("topic_id") or "", where.get("partition", -1)


def _sent(where: Struct, batch: Struct) -> tuple[Place, int, int, int]:
    return place_in(where), batch["producer_id"], batch["producer_epoch"], batch["base_sequence"]


def _marker_kinds(batch: Struct) -> list[bool | None]:
    """Whether each record of a control batch commits a transaction; None: it is no marker."""
    return [_MARKERS.get(control_type(record) or "") for record in batch["records"]]


def _around(line: Struct, side: str) -> Struct:
    return {
        "timestamp": line[side]["timestamp"],
        "client_id": line["client"]["id"],
        "client_ip": line["client"]["ip"],
        "event_id": line["event_id"],
        "frame": line[side]["frames"]["first"],
    }
