"""A row for each record of a run's exchanges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import starmap
from typing import Any, Final

from kinspect.analysis.client import ClientKey, client_key
from kinspect.analysis.heldrows import HeldRows
from kinspect.analysis.lags import are_aborted
from kinspect.analysis.messagebody import Struct, direction_of, message_body
from kinspect.analysis.offsetranges import GrowingRanges, Range
from kinspect.analysis.recordfates import ENDS, NONE, Place, RecordFates, SentBatch
from kinspect.analysis.txnhistory import ABORTED, COMMITTED, FENCING, UNANSWERED
from kinspect.filters.filter import connection_ends
from kinspect.filters.values import CONSUMED, PRODUCED, REPLICATED
from kinspect.kafka.connection.kafkaconnection import TLS
from kinspect.kafka.connection.roles import CONSUMER, FOLLOWER
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Gap
from kinspect.kafka.view.batchrows import BatchRows, batch_rows, control_type
from kinspect.kafka.view.placedbatches import place_of, placed_batches
from kinspect.kafka.view.view import View
from kinspect.model import NS_PER_SECOND, REQUEST, RESPONSE, drop_oldest
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

REMEMBERED: Final = 100_000
"""Clients of groups, and producers of transactional ids."""
LIVE_ROWS: Final = 4096
LIVE_NS: Final = 5 * NS_PER_SECOND
"""Rows that may wait in a capture that goes on, and for how long."""
_MEMBERS: Final = schema.apis_with("member", "generation", "epoch")
_MARKERS: Final = {"COMMIT": True, "ABORT": False}
_DIRECTIONS: Final = {CONSUMER: CONSUMED, FOLLOWER: REPLICATED}
_READ_COMMITTED: Final = 1
NOT_ITS_OWN: Final = FENCING | {UNANSWERED}
"""Answers to EndTxn that leave it unknown how the transaction ended."""
_FETCHED: Final = frozenset({"replica_id", "replica_state", "isolation_level", "group_id"})
RANGES_KEPT: Final = 1_000_000
"""Ranges of offsets that were seen, of all partitions."""
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


class RecordRows:
    """Makes the rows that `choose` takes, those of a batch at a time, in the order of the lines. `line`: gives that of
    an exchange, of which the body of a side is looked at, with keys and values as `choose` needs them; `control`:
    control records have rows."""

    def __init__(
        self,
        line: Callable[[Exchange, str], Struct],
        choose: Callable[[BatchRows], BatchRows],
        control: bool = False,
    ) -> None:
        self._line = line
        self._choose = choose
        self._control = control
        self._fates = RecordFates()
        self._held = HeldRows()
        # The groups that a client is in, None for several; transactional ids of producers; the
        # last client on a connection.
        self._groups: dict[ClientKey, str | None] = {}
        self._ids: dict[int, str] = {}
        self._clients: dict[str, ClientKey] = {}

    @property
    def undecided(self) -> int:
        """Batches whose transaction there was no room to wait for."""
        return self._fates.dropped + self._held.given_up

    def take_gap(self, gap: Gap) -> None:
        """Take a gap: something may be missing there."""
        address = connection_ends(gap.connection_id)[0][0]
        self._fates.lose(gap.time, self._clients.get(gap.connection_id, (None, address)))

    def take_connection(self, line: ConnectionLine) -> None:
        """Take a connection: what it said before its first packet was captured may be missing, or all that it said."""
        if line.kind == TLS or line.undecoded_bytes:
            self._fates.lose(line.end_time, (line.client_id, line.client[0]))
        elif not line.handshake_seen:
            self._fates.lose(line.start_time, (line.client_id, line.client[0]))

    def take(self, exchange: Exchange, shows: bool = True) -> Iterator[BatchRows]:
        """Take the next exchange, and give what it decides; without `shows` it only says something about others."""
        try:
            client = client_key(exchange)
            if exchange.after_gap:
                self._fates.lose(exchange.timestamp, client)
            if client[0] is not None:
                self._clients[exchange.connection.connection_id] = client
                drop_oldest(self._clients, REMEMBERED)
            if exchange.api_key in _MEMBERS:
                self._note_groups(exchange)
            elif (take := _TAKE.get(exchange.api_key or 0)) is not None and exchange.api_key is not None:
                for outcome, number, rows in take(self, exchange):
                    chosen = self._choose(rows) if shows and rows else rows.first(0)
                    # What waits holds up what stands behind it, whether or not it is shown.
                    if number or (chosen and len(self._held)):
                        self._held.put(chosen, outcome, number, exchange.completed_at or 0)
                        yield from self._passed()
                    elif chosen:
                        yield _decided(chosen, outcome)
        except schema.MISFITS as error:
            raise schema.misfit(exchange.api, "records need", error) from None
        yield from self._settled()

    def is_behind_open(self, row: Struct) -> bool:
        """Whether a record that was passed on stands behind a transaction that was left open: no consumer of committed
        records gets it before that ends."""
        first = self._fates.first_open.get(_place(row))
        return first is not None and row["offset"] is not None and row["offset"] > first

    def let_go(self, now: int) -> Iterator[BatchRows]:
        """What is held for too long while the capture goes on, or is too much."""
        while (first := self._held.first) is not None:
            number, time = first
            if self._held.rows <= LIVE_ROWS and now - time <= LIVE_NS:
                break
            self._fates.give_up(number)
            yield from self._settled()

    def finish(self) -> Iterator[BatchRows]:
        """What is held."""
        self._fates.finish()
        return self._settled()

    def close(self) -> None:
        """Give back what it is held in."""
        self._held.close()

    def _settled(self) -> Iterator[BatchRows]:
        decided, self._fates.decided = self._fates.decided, []
        for number, outcome in decided:
            self._held.decide(number, outcome)
        return self._passed()

    def _passed(self) -> Iterator[BatchRows]:
        return starmap(_decided, self._held.passed())

    # ------------------------------------------------------------------ records

    def _produced(self, exchange: Exchange) -> Iterator[tuple[str | None, int, BatchRows]]:
        if exchange.request is None:
            return
        line = self._line(exchange, REQUEST)
        asked = line[REQUEST]["body"] or {}
        bases, refused = self._answered(exchange)
        name = asked.get("transactional_id")
        around = {**_around(line, REQUEST), "direction": PRODUCED, "group": None, "transactional_id": name}
        for where, batch in placed_batches(asked):
            base = bases.get(_key(where))
            if name is not None and batch["is_transactional"]:
                self._ids[batch["producer_id"]] = name
                drop_oldest(self._ids, REMEMBERED)
            rows = batch_rows(
                around,
                where,
                batch,
                [None if base is None else base + at for at in range(len(batch["records"]))],
            )
            if base is not None:
                bases[_key(where)] = base + len(rows)
            if batch["is_transactional"] and _key(where) in refused:
                # It is in no transaction, or another try is.
                yield None, 0, rows
            else:
                yield *self._fate(where, batch, base, exchange.request.first_time), rows

    def _answered(self, exchange: Exchange) -> tuple[dict[Any, int], set[Any]]:
        """The first offset of each partition whose records a broker took and said so; and those where it took none."""
        answered = (self._line(exchange, RESPONSE)[RESPONSE] or {}).get("body") or {}
        bases, refused = {}, set()
        for topic, part in _each(answered, "responses", "partition_responses"):
            key = _key({**place_of(topic), **place_of(part)})
            if part.get("error_code"):
                refused.add(key)
            elif part.get("base_offset", -1) >= 0:
                bases[key] = part["base_offset"]
        return bases, refused

    def _fetched(self, exchange: Exchange) -> Iterator[tuple[str | None, int, BatchRows]]:
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
        group = asked.get("group_id") or (self._groups.get(client) if direction == CONSUMED else None)
        around = {**_around(line, RESPONSE), "direction": direction, "group": group}
        committed = asked.get("isolation_level") == _READ_COMMITTED
        for topic, part in _each(answered, "responses", "partitions"):
            where = {**place_of(topic), **place_of(part)}
            batches = [batch for _, batch in placed_batches(part)]
            told = part.get("aborted_transactions")
            if committed and told is not None:
                for batch, is_aborted in zip(batches, are_aborted(batches, told), strict=True):
                    if batch["is_transactional"] and not batch["is_control"]:
                        self._fates.settle(_sent(where, batch), ABORTED if is_aborted else COMMITTED)
            if part.get("last_stable_offset", -1) > 0:
                self._fates.note_stable(_place(where), part["last_stable_offset"])
            self._read(exchange, where, batches)
            for batch in batches:
                if batch["is_control"] and not self._control:
                    continue
                around["transactional_id"] = self._ids.get(batch["producer_id"])
                rows = batch_rows(around, where, batch, [record["offset"] for record in batch["records"]])
                yield *self._fate(where, batch, batch["base_offset"], None), rows

    def _read(self, exchange: Exchange, where: Struct, batches: list[Struct]) -> None:
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
            self._fates.read(_place(where), ranges, markers)

    def _fate(
        self, where: Struct, batch: Struct, offset: int | None, sent: int | None
    ) -> tuple[str | None, int]:
        if batch["is_control"]:
            kinds = _marker_kinds(batch)
            return (ENDS[kinds[0]] if kinds and kinds[0] is not None else NONE), 0
        if not batch["is_transactional"]:
            return NONE, 0
        return self._fates.fate(_sent(where, batch), offset, sent)

    # ------------------------------------------------------------------ what others say

    def _note_groups(self, exchange: Exchange) -> None:
        for name in exchange.summary.groups:
            client = client_key(exchange)
            self._groups[client] = name if self._groups.get(client, name) == name else None
            drop_oldest(self._groups, REMEMBERED)

    def _end_txn(self, exchange: Exchange) -> Iterator[tuple[str | None, int, BatchRows]]:
        asked, answered = _bodies(exchange)
        producer, epoch = asked.get("producer_id"), asked.get("producer_epoch")
        if producer is None or epoch is None:
            self._fates.lose(exchange.timestamp, client_key(exchange))
        elif answered.get("error_code", UNANSWERED) in NOT_ITS_OWN:
            self._fates.lose_end(producer)
        elif answered["error_code"] == 0:
            client = client_key(exchange)
            self._fates.end_transaction(
                exchange.timestamp or 0, producer, epoch, bool(asked.get("committed")), client
            )
        return iter(())

    def _init_producer(self, exchange: Exchange) -> Iterator[tuple[str | None, int, BatchRows]]:
        asked, answered = _bodies(exchange)
        name, client = asked.get("transactional_id"), client_key(exchange)
        if not asked or (name is not None and not answered):
            self._fates.lose(exchange.timestamp, client)
        elif name is not None and answered["error_code"] == 0:
            producer = answered["producer_id"]
            self._ids[producer] = name
            drop_oldest(self._ids, REMEMBERED)
            self._fates.begin_producer(exchange.timestamp or 0, producer, answered["producer_epoch"], client)
        return iter(())

    def _add_partitions(self, exchange: Exchange) -> Iterator[tuple[str | None, int, BatchRows]]:
        asked, answered = _bodies(exchange)
        if not asked:
            self._fates.lose(exchange.timestamp, client_key(exchange))
            return iter(())
        # A client's own; brokers ask for several transactions, and add nothing by that.
        added = {
            (topic["name"], part["partition_index"])
            for topic, part in _each(answered, "results_by_topic_v3_and_below", "results_by_partition")
            if part.get("partition_error_code") == 0
        }
        for place in added:
            self._fates.add_partition(
                exchange.timestamp or 0, place, asked["v3_and_below_producer_id"], client_key(exchange)
            )
        return iter(())

    def _write_markers(self, exchange: Exchange) -> Iterator[tuple[str | None, int, BatchRows]]:
        asked, answered = _bodies(exchange)
        if not asked or not answered:
            self._fates.lose(exchange.timestamp, client_key(exchange))
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
                        self._fates.write_marker(
                            exchange.timestamp or 0, (topic["name"], index), *ended, client_key(exchange)
                        )
        return iter(())


_TAKE: dict[int, Callable[[RecordRows, Exchange], Iterator[tuple[str | None, int, BatchRows]]]] = {
    PRODUCE: RecordRows._produced,
    FETCH: RecordRows._fetched,
    SHARE_FETCH: RecordRows._fetched,
    END_TXN: RecordRows._end_txn,
    INIT_PRODUCER_ID: RecordRows._init_producer,
    ADD_PARTITIONS_TO_TXN: RecordRows._add_partitions,
    WRITE_TXN_MARKERS: RecordRows._write_markers,
}


def _decided(rows: BatchRows, outcome: str | None) -> BatchRows:
    rows.shared["transaction"] = outcome
    return rows


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


def _place(where: Struct) -> Place:
    return where.get("topic") or where.get("topic_id") or "", where.get("partition", -1)


def _sent(where: Struct, batch: Struct) -> SentBatch:
    return SentBatch(_place(where), batch["producer_id"], batch["producer_epoch"], batch["base_sequence"])


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


class SeenOffsets:
    """Which records were seen, by topic, partition and offset. `forgotten`: partitions for whose offsets there was no
    room."""

    def __init__(self, room: int = RANGES_KEPT) -> None:
        self.forgotten = 0
        self._room = room
        self._ranges = 0
        self._seen: dict[Place, GrowingRanges] = {}

    def is_new(self, row: Struct) -> bool:
        """Add the record of a row; false if it was seen."""
        place = _place(row)
        seen = self._seen.pop(place, None)
        if seen is None:
            # Those that came before their topic's name was known.
            seen = self._seen.pop((row["topic_id"] or "", place[1]), None) or GrowingRanges()
        self._seen[place] = seen
        before = len(seen)
        is_new = bool(seen.add(row["offset"], row["offset"] + 1))
        self._ranges += len(seen) - before
        if self._ranges > self._room:
            self._ranges -= len(self._seen.pop(next(iter(self._seen))))
            self.forgotten += 1
        return is_new
