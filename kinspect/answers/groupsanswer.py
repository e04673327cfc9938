"""Groups: their members, why they rebalanced, how long each member stood still, who got what, commits and lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from shlex import quote
from typing import Any, ClassVar

from kinspect.analysis import groupevents as events
from kinspect.analysis.acquisitions import SHARE_FIELDS, Acquisitions
from kinspect.analysis.answer import Answer, ResultContext, Row
from kinspect.analysis.client import client_key
from kinspect.analysis.groupevents import (
    BEAT_FIELDS,
    HEARTBEAT_FIELDS,
    JOIN_FIELDS,
    LEAVE_FIELDS,
    NONE,
    SYNC_FIELDS,
    WELL,
    Fields,
    RefusedRequest,
    Struct,
    bodies,
)
from kinspect.analysis.grouprows import Group, Member, member_rows, row, row_place, span_rows
from kinspect.analysis.grouptopics import ties
from kinspect.analysis.lags import (
    NO_BLANKS,
    PENDING_KEPT,
    Offsets,
    Partition,
    Place,
    by_name,
    joined_blanks,
    last_commits,
    read_batches,
    spans_by_name,
    unmeasured,
    with_blanks,
)
from kinspect.analysis.membership import BY_EPOCH
from kinspect.analysis.offsetranges import OffsetRanges, Range, joined
from kinspect.analysis.record import EARLIEST, LATEST, Record, later
from kinspect.answers import grouptexts as texts
from kinspect.answers.celltexts import ERROR, TIME_OF_DAY, plain, where
from kinspect.answers.definition import Definition, Key, OwnOption
from kinspect.errors import KinspectError
from kinspect.filters.filterdefinitions import TIMES, cutting_more
from kinspect.filters.values import parse_duration
from kinspect.kafka.bodysummary import RecordField, RecordRoom, error_counts
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.fields import entities
from kinspect.kafka.wire.endpoints import endpoint
from kinspect.model import REQUEST, RESPONSE
from kinspect.output.columns import Column
from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
)
from kinspect.protocol.fieldpaths import each_field

KINDS = {api_key: kind for api_key, kind in schema.traits("group").items() if kind != "any"}
"""The kind of group that an API is for."""
COORDINATED = schema.apis_with("coordinator", "group")
OF_ALL = frozenset({FETCH, LIST_OFFSETS, END_TXN})
"""APIs whose responses cover all groups; their requests name none."""
NOT_THERE = frozenset({"COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR"})
RUNS_KEPT = 100
"""Number of times that a connection's transactions may turn from committed to aborted, or back."""

_COMMITTED = (
    frozenset(
        """
        group_id member_id generation_id_or_member_epoch transactional_id topics.name topics.topic_id
        topics.partitions.partition_index topics.partitions.committed_offset
        """.split()
    ),
    frozenset(
        """
        topics.name topics.topic_id topics.partitions.partition_index topics.partitions.error_code
        """.split()
    ),
)
_FETCHED = (
    frozenset(
        """
        replica_id replica_state topics.topic topics.topic_id topics.partitions.partition
        topics.partitions.fetch_offset
        """.split()
    ),
    frozenset(
        """
        responses.topic responses.topic_id responses.partitions.partition_index
        responses.partitions.error_code responses.partitions.high_watermark
        responses.partitions.aborted_transactions responses.partitions.records
        """.split()
    ),
)
_READ = (
    frozenset({"group_id"}),
    frozenset(
        """
        topics.name topics.topic_id topics.partitions.partition_index topics.partitions.committed_offset
        topics.partitions.error_code groups.group_id groups.topics.name groups.topics.topic_id
        groups.topics.partitions.partition_index groups.topics.partitions.committed_offset
        groups.topics.partitions.error_code
        """.split()
    ),
)
_OFFSETS = (
    frozenset(
        """
        replica_id isolation_level topics.name topics.partitions.partition_index topics.partitions.timestamp
        """.split()
    ),
    frozenset(
        """
        topics.name topics.partitions.partition_index topics.partitions.error_code topics.partitions.offset
        topics.partitions.old_style_offsets
        """.split()
    ),
)
_ENDED = frozenset({"transactional_id", "committed"}), frozenset({"error_code"})
LATEST_OFFSET, CONSUMER_REPLICA = -1, -1


@dataclass(slots=True)
class _Marks(Record):
    """High watermarks: the last and the first ones, and the last of each span of time (`--every`); and offsets that no
    consumer is given a record for."""

    last: dict[Place, Any] = field(default_factory=dict, metadata=LATEST)
    first: dict[Place, Any] = field(default_factory=dict, metadata=EARLIEST)
    spans: dict[tuple[Place, int], Any] = field(default_factory=dict, metadata=LATEST)
    blank: dict[Place, Any] = field(default_factory=dict, metadata={"choose": joined_blanks})


@dataclass(slots=True)
class _Reads(Record):
    """How far a client id at an address has fetched partitions."""

    last: dict[Place, Any] = field(default_factory=dict, metadata=LATEST)


@dataclass(slots=True)
class _Ends(Record):
    """Outcomes of a connection's transactions, None where the request was cut before it: the last of each row of equal
    ones."""

    runs: set[tuple[Any, ...]] = field(default_factory=set)


class Groups(Answer):
    """Accumulator of the rows. `members`: they are members; `every`: they are lags at the ends of spans of that
    duration (`10s`). Raises KinspectError."""

    row_keys: ClassVar[Mapping[str, tuple[str, ...]]] = {"--group": ("group",), "--topic": ("topics",)}
    exempt_apis: ClassVar[Mapping[str, frozenset[int]]] = {
        "--group": OF_ALL,
        "--topic": OF_ALL
        | {FIND_COORDINATOR, LIST_GROUPS, TXN_OFFSET_COMMIT, OFFSET_COMMIT, OFFSET_FETCH, *KINDS},
    }

    def __init__(self, members: bool = False, every: str | None = None) -> None:
        super().__init__()
        self._by_member = members
        self._every = None if every is None else _span(every)
        if members and self._every is not None:
            raise KinspectError("--members and --every make different rows: give one of them")
        self._groups = self.records(Group)
        self._members = self.records(Member)
        self._acquisitions = self.records(Acquisitions)
        self._marks = self.records(_Marks)
        self._ends = self.records(_Ends)
        self._reads = self.records(_Reads)

    def add(self, exchange: Exchange) -> None:
        key = exchange.api_key
        if key is None or exchange.request is None:
            return
        if key in _MEMBERS:
            fields, add = _MEMBERS[key]
            asked, told = bodies(exchange, fields)
            group = self._group(exchange, asked, told)
            if group is not None:
                add(self, exchange, group, asked, told)
        elif key in _COUNTED:
            _COUNTED[key](self, exchange)
        elif _names_groups(key):
            self._add_other(exchange)
        if key == OFFSET_FETCH:
            self._add_read(exchange)
        for name, topics in ties(exchange):
            group = self._named(name)
            if group is not None:
                for topic in topics:
                    self.keep(group.topics, topic)

    # ------------------------------------------------------------------ members of classic groups

    def _add_join(self, exchange: Exchange, group: Group, asked: Struct, told: Struct | None) -> None:
        event = events.joined(exchange, asked, told)
        self.keep(group.joins, event, events.size(event))
        group.protocol = later(group.protocol, exchange.key, event.protocol)
        if event.error == NONE:
            member = self._heard(exchange, asked, event.member)
            if member is not None:
                member.session = later(member.session, exchange.key, asked.get("session_timeout_ms"))

    def _add_sync(self, exchange: Exchange, group: Group, asked: Struct, told: Struct | None) -> None:
        event = events.synced(exchange, asked, told)
        self.keep(group.syncs, event, events.size(event))
        if event.error in WELL:
            self._heard(exchange, asked, event.member)

    def _add_heartbeat(self, exchange: Exchange, group: Group, asked: Struct, told: Struct | None) -> None:
        error = (told or {}).get("error_code")
        self._answered(exchange, group, asked, error, True)
        if error == NONE and asked.get("member_id"):
            member = self._members.of(asked["group_id"], asked["member_id"])
            if member is not None:
                end = events.times(exchange)[2]
                member.calm = end if member.calm is None else min(member.calm, end)

    def _answered(
        self, exchange: Exchange, group: Group, asked: Struct, error: int | None, heartbeat: bool
    ) -> None:
        """Note that a member's request was answered, well or not."""
        name = asked.get("member_id")
        if not name or error is None:
            return
        if error:
            self.keep(group.refused, RefusedRequest(*events.times(exchange), error, name, heartbeat))
        if error in WELL:
            self._heard(exchange, asked, name)

    def _add_leave(self, exchange: Exchange, group: Group, asked: Struct, told: Struct | None) -> None:
        event = events.left(exchange, asked, told)
        if event is not None:
            self.keep(group.leaves, event, events.size(event))

    # ------------------------------------------------------------------ members of other groups

    def _add_beat(self, exchange: Exchange, group: Group, asked: Struct, told: Struct | None) -> None:
        group.protocol = later(group.protocol, exchange.key, asked.get("server_assignor"))
        event = events.beat(exchange, asked, told)
        if event is not None:
            self.keep(group.beats, event, events.size(event))
        if told is not None and told.get("error_code") == NONE:
            member = self._heard(exchange, asked, told.get("member_id") or asked.get("member_id"))
            if member is not None:
                interval = told.get("heartbeat_interval_ms") or None
                member.interval = later(member.interval, exchange.key, interval)

    # ------------------------------------------------------------------ offsets

    def _add_commit(self, exchange: Exchange, group: Group, asked: Struct, told: Struct | None) -> None:
        errors = {place: part.get("error_code") for place, part in _places(told, "topics")}
        codes = {code for code in errors.values() if code is not None}
        if codes:
            self._answered(exchange, group, asked, max(codes & WELL or codes), False)
        transaction = asked.get("transactional_id")
        key, begin, end = events.times(exchange)
        if NONE in codes and asked.get("member_id"):
            member = self._members.of(asked["group_id"], asked["member_id"])
            if member is not None:
                member.held = begin if member.held is None else min(member.held, begin)
        for place, part in _places(asked, "topics"):
            offset = part.get("committed_offset", -1)
            if offset < 0 or errors.get(place) != NONE:
                continue
            by = client_key(exchange)
            if transaction is None:
                self.keep_last(group.committed, place, key, (offset, end, *by))
                self.keep_first(group.begun, place, key, offset)
                self._keep_span(group.spans, place, exchange, offset)
            else:
                self._add_pending(group, (transaction, place), (key, offset, end, *by))

    def _keep_span(
        self, spans: dict[tuple[Place, int], Any], place: Place, exchange: Exchange, value: int
    ) -> None:
        """Keep the last value in a span of time."""
        if self._every is not None:
            self.keep_last(spans, (place, events.times(exchange)[2] // self._every), exchange.key, value)

    def _add_read(self, exchange: Exchange) -> None:
        """Offsets from which members go on."""
        asked, told = bodies(exchange, _READ)
        for one in ({**asked, **(told or {})}, *((told or {}).get("groups") or ())):
            group = self._named(one.get("group_id"))
            for place, part in _places(one, "topics"):
                if group is not None and part.get("committed_offset", -1) >= 0 and not part.get("error_code"):
                    self.keep_first(group.begun, place, exchange.key, part["committed_offset"])

    def _add_pending(self, group: Group, name: tuple[str, Place], commit: tuple[Any, ...]) -> None:
        """Keep an offset that counts if its transaction is committed."""
        kept = group.pending.get(name, ())
        if kept or self._has_room(PENDING_KEPT):
            group.pending[name] = tuple(sorted((*kept, commit))[-PENDING_KEPT:])

    def _add_end(self, exchange: Exchange) -> None:
        """The end of a transaction."""
        asked, told = bodies(exchange, _ENDED)
        if told is None or told.get("error_code") != NONE or asked.get("transactional_id") is None:
            return
        ends = self._ends.of(asked["transactional_id"], exchange.connection.connection_id)
        if ends is None:
            return
        committed = asked.get("committed")
        last = max(ends.runs, default=None)
        if last is not None and last[1] == committed:
            ends.runs.discard(last)
            ends.runs.add((exchange.key, committed))
        elif len(ends.runs) < RUNS_KEPT:
            ends.runs.add((exchange.key, committed))
        else:
            self.left_out += 1

    def _add_fetch(self, exchange: Exchange) -> None:
        asked, told = bodies(exchange, _FETCHED)
        marks = self._marks.of()
        if marks is None:
            return
        read = None
        if (asked.get("replica_state") or asked).get("replica_id", -1) < 0:
            read = self._reads.of(*client_key(exchange))
        positions = {
            place: part.get("fetch_offset", -1) for place, part in _places(asked, "topics", "partition")
        }
        room = RecordRoom(exchange.connection.caps)
        for place, part in _places(told, "responses"):
            if part.get("error_code"):
                continue
            self._keep_mark(marks, place, exchange, part.get("high_watermark", -1))
            if part.get("records"):
                found = RecordField(part["records"], True, room, exchange.connection.counts).batches()
                end, blanks = read_batches(found, part.get("aborted_transactions"))
                positions[place] = positions.get(place, -1) if end is None else end
                self._keep_blanks(marks, place, joined(blanks))
        for place, position in positions.items():
            if read is not None and position >= 0:
                self.keep_last(read.last, place, exchange.key, position)

    def _keep_blanks(self, marks: _Marks, place: Place, blanks: list[Range]) -> None:
        """Keep ranges of offsets without a record for consumers; without room for them, up to where they went."""
        if not blanks:
            return
        before = marks.blank.get(place, NO_BLANKS)
        found = with_blanks(before, (0, tuple(blanks)))
        if not self._has_room(max(0, len(found[1]) - len(before[1]))):
            found = max(before[0], blanks[-1][1]), before[1]
        if place in marks.blank or place in marks.last or self._has_room():
            marks.blank[place] = found

    def _keep_mark(self, marks: _Marks, place: Place, exchange: Exchange, mark: int) -> None:
        if mark >= 0:
            self.keep_last(marks.last, place, exchange.key, mark)
            self.keep_first(marks.first, place, exchange.key, mark)
            self._keep_span(marks.spans, place, exchange, mark)

    def _add_offsets(self, exchange: Exchange) -> None:
        """High watermarks in an answer to ListOffsets: latest offsets as a consumer sees them that reads all."""
        asked, told = bodies(exchange, _OFFSETS)
        marks = self._marks.of()
        if marks is None or asked.get("replica_id") != CONSUMER_REPLICA or asked.get("isolation_level"):
            return
        latest = {place for place, part in _places(asked, "topics") if part.get("timestamp") == LATEST_OFFSET}
        for place, part in _places(told, "topics"):
            old = part.get("old_style_offsets")
            mark = old[0] if old else part.get("offset", -1)
            if place in latest and not part.get("error_code"):
                self._keep_mark(marks, place, exchange, mark)

    # ------------------------------------------------------------------ other requests that name groups

    def _add_share(self, exchange: Exchange) -> None:
        """A request for records or their acknowledgement: as many as there are of Fetch."""
        asked, told = bodies(exchange, SHARE_FIELDS)
        group = self._named(asked.get("group_id"))
        if group is None:
            return
        self._take_kind(group, exchange, (told or {}).get("error_code"))
        if asked.get("member_id"):
            acquisitions = self._acquisitions.of(asked["group_id"], asked["member_id"])
            if acquisitions is not None:
                acquisitions.add(exchange)
        self._count_errors(group, exchange, error_counts(exchange))

    def _add_other(self, exchange: Exchange) -> None:
        summary = exchange.summary
        told = exchange.response.facts().body if exchange.response is not None else None
        listed = _listed(told)
        if exchange.api_key == FIND_COORDINATOR and not listed and told is not None:
            # Before version 4 it is about one group.
            listed = dict.fromkeys(summary.groups, told)
        for name in summary.groups:
            group = self._named(name)
            if group is None:
                continue
            of_it = listed.get(name)
            errors = summary.error_counts if of_it is None and len(summary.groups) == 1 else _codes(of_it)
            self._count_errors(group, exchange, errors)
            if exchange.api_key in COORDINATED and told is not None:
                self._take_coordinator(group, exchange, errors)
            if of_it is not None:
                self._take_told(group, name, exchange, of_it)

    def _take_told(self, group: Group, name: str, exchange: Exchange, told: Struct) -> None:
        """What a response about several groups says of one."""
        key, api = exchange.key, exchange.api_key
        if told.get("error_code"):
            return
        if api == FIND_COORDINATOR and told.get("host"):
            group.found = later(group.found, key, endpoint(told["host"], told.get("port", 0)))
        elif api == LIST_GROUPS:
            kind = (told.get("group_type") or "").lower()
            group.kind = later(group.kind, key, kind if kind in KINDS.values() else None)
        elif api in KINDS and told.get("group_state") not in ("Dead", "", None):
            group.kind = later(group.kind, key, KINDS[api])
            protocol = told.get("protocol_data") or told.get("assignor_name") or None
            group.protocol = later(group.protocol, key, protocol)
            for one in told.get("members") or ():
                self._take_member(name, exchange, one)

    def _take_member(self, name: str, exchange: Exchange, one: Struct) -> None:
        """A member as a response to an administrator describes it."""
        if not one.get("member_id"):
            return
        member = self._members.of(name, one["member_id"])
        if member is not None:
            member.listed += 1
            instance = one.get("group_instance_id") or one.get("instance_id")
            member.instance = later(member.instance, exchange.key, instance)
            # What the member's own requests say comes first.
            client = (
                1,
                exchange.key,
                one.get("client_id"),
                (one.get("client_host") or "").lstrip("/") or None,
            )
            member.client = client if member.client is None else min(member.client, client)

    # ------------------------------------------------------------------ records

    def _named(self, name: str | None) -> Group | None:
        return None if name is None else self._groups.of(name)

    def _group(self, exchange: Exchange, asked: Struct, told: Struct | None) -> Group | None:
        """The group that a request is about, with the errors of its answer counted."""
        group = self._named(asked.get("group_id"))
        if group is None:
            return None
        codes = _codes(told)
        self._count_errors(group, exchange, codes)
        self._take_kind(group, exchange, (told or {}).get("error_code"))
        if told is not None:
            self._take_coordinator(group, exchange, codes)
        return group

    def _count_errors(self, group: Group, exchange: Exchange, codes: Mapping[int, int]) -> None:
        for code, count in codes.items():
            self.count(group.errors, schema.error_name(code, exchange.api_key), count)

    def _take_kind(self, group: Group, exchange: Exchange, error: int | None) -> None:
        kind = KINDS.get(exchange.api_key or 0)
        if error in WELL:
            group.kind = later(group.kind, exchange.key, kind)
        group.tried = later(group.tried, exchange.key, kind)

    def _take_coordinator(self, group: Group, exchange: Exchange, codes: Iterable[int]) -> None:
        if NOT_THERE.isdisjoint(schema.error_name(code, exchange.api_key) for code in codes):
            ends = exchange.connection
            group.coordinator = later(
                group.coordinator, exchange.key, endpoint(ends.broker_ip, ends.broker_port)
            )

    def _heard(self, exchange: Exchange, asked: Struct, name: str | None) -> Member | None:
        """Note that a member sent a request that was answered well."""
        member = self._members.of(asked.get("group_id"), name) if name else None
        if member is None:
            return None
        begin = events.times(exchange)[1]
        member.first = begin if member.first is None else min(member.first, begin)
        member.alive = begin if member.alive is None else max(member.alive, begin)
        instance = asked.get("group_instance_id") or asked.get("instance_id")
        member.instance = later(member.instance, exchange.key, instance)
        # Offsets may be committed by a producer, in its own name.
        if exchange.api_key != TXN_OFFSET_COMMIT:
            client = 0, exchange.key, *client_key(exchange)
            member.client = client if member.client is None else min(member.client, client)
        return member

    # ------------------------------------------------------------------ the whole

    def result(self, context: ResultContext) -> list[Row]:
        names: dict[str, str] = {}

        def name(topic: str) -> str:
            if topic not in names:
                names[topic] = context.topic(topic) or topic
            return names[topic]

        members: dict[str, dict[str, Member]] = {}
        for (group, member), found in self._members.items():
            members.setdefault(group, {})[member] = found
        groups = {group: found for (group,), found in self._groups.items()}
        # The options on groups and topics leave out nothing of the groups that have rows.
        filtered = cutting_more(context.options - self.row_keys.keys(), *TIMES)
        offsets = self._offsets(name)._replace(hidden=filtered)
        if self._every is not None:
            spans = [spans_by_name(found.spans, name) for found in groups.values()]
            told_of = [(where, offset) for each in spans for (where, _), (_, offset) in each.items()]
            self.unmeasured = unmeasured(told_of, offsets)
            return span_rows(groups, offsets, self._every)
        commits = {
            group: last_commits(found.committed, found.pending, offsets) for group, found in groups.items()
        }
        last = [(where, commit[1][0]) for found in commits.values() for where, commit in found.items()]
        self.unmeasured = unmeasured(last, offsets)
        reads = self._fetched(commits, members, name)
        lossy = context.lossy or filtered
        acquired: dict[str, dict[str, Acquisitions]] = {}
        for (group, member), acquisitions in self._acquisitions.items():
            acquired.setdefault(group, {})[member] = acquisitions
        rows = [
            row(
                group,
                found,
                members.get(group, {}),
                acquired.get(group, {}),
                commits[group],
                reads[group],
                offsets,
                lossy,
            )
            for group, found in groups.items()
        ]
        rows.sort(key=row_place)
        return member_rows(rows) if self._by_member else rows

    def _offsets(self, name: Callable[[str], str]) -> Offsets:
        marks = self._marks.of() or _Marks()
        return Offsets(
            by_name(marks.last, name),
            by_name(marks.first, name, min),
            spans_by_name(marks.spans, name),
            {
                where: (known_from, OffsetRanges(ranges))
                for where, (known_from, ranges) in by_name(marks.blank, name, with_blanks).items()
            },
            self._outcomes(),
            name,
        )

    def _fetched(
        self,
        commits: dict[str, dict[Partition, Any]],
        members: dict[str, dict[str, Member]],
        name: Callable[[str], str],
    ) -> dict[str, dict[Partition, Any]]:
        """How far the clients of each group fetched its partitions. Of a client that reads a partition for several
        groups it is not known for which."""
        reads = {client: by_name(found.last, name) for client, found in self._reads.items()}
        readers: dict[tuple[Any, Partition], set[str]] = {}
        for group, found in commits.items():
            clients = {one.client[2:] for one in members.get(group, {}).values() if one.client is not None}
            clients |= {tuple(commit[1][2:]) for commit in found.values()}
            for client in clients:
                for place in found.keys() & reads.get(client, {}).keys():
                    readers.setdefault((client, place), set()).add(group)
        fetched: dict[str, dict[Partition, Any]] = {group: {} for group in commits}
        for (client, place), of in readers.items():
            if len(of) == 1:
                (group,) = of
                read = reads[client][place]
                fetched[group][place] = max(fetched[group].get(place, read), read)
        return fetched

    def _outcomes(self) -> dict[str, list[tuple[Any, ...]]]:
        """Ends of each transactional id's transactions, in their order."""
        found: dict[str, list[tuple[Any, ...]]] = {}
        for (transaction, _), ends in self._ends.items():
            found.setdefault(transaction, []).extend(ends.runs)
        return {transaction: sorted(runs) for transaction, runs in found.items()}


_MEMBERS: dict[int, tuple[Fields, Callable[[Groups, Exchange, Group, Struct, Struct | None], None]]] = {
    JOIN_GROUP: (JOIN_FIELDS, Groups._add_join),
    SYNC_GROUP: (SYNC_FIELDS, Groups._add_sync),
    HEARTBEAT: (HEARTBEAT_FIELDS, Groups._add_heartbeat),
    LEAVE_GROUP: (LEAVE_FIELDS, Groups._add_leave),
    **dict.fromkeys(BY_EPOCH, (BEAT_FIELDS, Groups._add_beat)),
    **dict.fromkeys((OFFSET_COMMIT, TXN_OFFSET_COMMIT), (_COMMITTED, Groups._add_commit)),
}
"""Requests about one group: the fields that are needed, and what counts them."""
_COUNTED: dict[int, Callable[[Groups, Exchange], None]] = {
    FETCH: Groups._add_fetch,
    LIST_OFFSETS: Groups._add_offsets,
    END_TXN: Groups._add_end,
    **dict.fromkeys((SHARE_FETCH, SHARE_ACKNOWLEDGE), Groups._add_share),
}


@cache
def _names_groups(api_key: int) -> bool:
    """True for an API whose messages may name a group."""
    api = schema.api(api_key)
    if api is None:
        return False
    layouts = [
        layout
        for version in api.versions
        for direction in (REQUEST, RESPONSE)
        for layout in schema.layouts(api_key, version, direction)
    ]
    fields = (field for layout in layouts for _, field, _ in each_field(layout.fields))
    return api_key == FIND_COORDINATOR or any(map(entities.is_group, fields))


def _span(text: str) -> int:
    try:
        span = parse_duration(text)
    except KinspectError as error:
        raise KinspectError(f"--every: {error}") from None
    if not span:
        raise KinspectError("--every: a span of time is longer than 0")
    return span


def _places(
    body: Struct | None, topics: str, index: str = "partition_index"
) -> Iterator[tuple[Place, Struct]]:
    """Partitions in a body, as far as it could be read."""
    for topic in (body or {}).get(topics) or ():
        name, topic_id = topic.get("topic") or topic.get("name") or None, topic.get("topic_id")
        for part in topic.get("partitions") or ():
            if index in part:
                yield (name, topic_id, part[index]), part


def _listed(told: Struct | None) -> dict[str, Struct]:
    """What an answer says of each of several groups."""
    return {
        name: one
        for value in (told or {}).values()
        if isinstance(value, list)
        for one in value
        if isinstance(one, dict) and isinstance(name := one.get("group_id", one.get("key")), str)
    }


def _codes(value: Any) -> dict[int, int]:
    """Error codes in a part of an answer, with how often each occurs."""
    found: dict[int, int] = {}
    parts = [value]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            for name, inner in part.items():
                if name.endswith("error_code") and inner:
                    found[inner] = found.get(inner, 0) + 1
                elif isinstance(inner, (list, dict)):
                    parts.append(inner)
    return found


ANSWER = Definition(
    Groups,
    help="Who is in which group, why it rebalanced, who stood still, and how far behind it is.",
    page="4",
    page_help="members, rebalances, lag",
    columns=(
        Key("group", "text", "", "GROUP", str, opens="group"),
        Key("kind", "text", "classic, consumer, share or streams", "KIND", rank=3),
        Key("protocol", "text", "Assignor or protocol last chosen", "PROTOCOL", plain, rank=4),
        Key("coordinator", "text", "Address of the broker that coordinates it", "COORDINATOR", rank=5),
        Key(
            "members",
            "members",
            "In the order in which they joined",
            "MEMBERS",
            texts.members_text,
            right=True,
        ),
        Key(
            "rebalances",
            "rebalances",
            "In the order in which they began",
            "REBALANCES",
            lambda found: f"{len(found):,}",
            right=True,
        ),
        Column("LONGEST STOP", texts.longest_stop, True),
        Key("deliveries", "acquisition_map", "Of a share group, records by the member that acquired them"),
        Key("topics", "texts", "Topics of its subscriptions, assignments and offsets"),
        Key("committed", "commit_map", "Last commits by partition", "LAG", texts.lag_text, right=True),
        Key(
            "errors",
            "counts",
            "Error codes of responses about the group, by name",
            "ERRORS",
            texts.errors_text,
            rank=1,
            style=ERROR,
        ),
        # Rows of `--members`
        Column("CLIENT ID", where("client_id")),
        Column("ADDRESS", where("client_ip"), rank=3),
        Column("INSTANCE", where("instance_id", plain), rank=4),
        Column("JOINED", where("joined"), rank=2, time=TIME_OF_DAY),
        Column("LEFT", where("left", plain), rank=1, time=TIME_OF_DAY),
        Column("HOW", where("left_how", plain), rank=5),
        Column("HAS", texts.held_text, least=24),
        Column("MEMBER ID", where("member_id", str), rank=6),
        # Rows of `--every`
        Column("FROM", where("from"), time=TIME_OF_DAY),
        Column("LAG", where("lag"), True),
        Column("BEHIND", texts.behind_text, least=24),
    ),
    order="GROUP, FROM, KIND, MEMBERS, REBALANCES, LONGEST STOP, LAG, ERRORS, PROTOCOL, COORDINATOR",
    options={
        "members": OwnOption("A row for each member, with the partitions that it has at the end."),
        "every": OwnOption(
            "Lag over time: a row for each group and interval (10s, 1m) with new information.", "TIME"
        ),
    },
    structs={
        "member": """member_id text, instance_id text, client_id text, client_ip text, joined time, left time,
            left_how text, left_reason text, partitions texts""",
        "rebalance": """generation long, started time, ended time, trigger text, by text, reason text, members long,
            cooperative bool, stopped_ms double_map, unowned_ms double_map, assigned texts_map, revoked texts_map""",
        "acquisition": """acquired long, accepted long, released long, rejected long, again long,
            delivery_count_max long, unacknowledged long""",
        "commit": """offset long, at time, by text, high_watermark long, lag long, fetched long, fetched_lag long,
            lag_at_begin long, lag_at_end long, progress long""",
    },
    identity="group",
    compared="kind protocol topics",
    nothing="no group is named",
    more=lambda file, rows: f"kinspect read {file} --group {quote(rows[0]['group'])}",
    details=texts.details,
    notes=texts.why_no_lag,
    folds=texts.is_only_named,
    folded=texts.only_named,
    unread="no group could be read",
)
