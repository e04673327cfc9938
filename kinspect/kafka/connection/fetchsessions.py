"""The fetch sessions of one connection: which partitions a request stands for that it does not name (KIP-227, KIP-932).

A session is known by its first request, which names all of its partitions. Each later one has the next epoch, and names
those that it adds, changes or lets go of. Where an epoch is missing a request was lost, and what it let go of may be
anything; so it is for a session that began before its connection was seen, or where a request was cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any, Final

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.fetched import (
    NO_PARTITIONS,
    Fetched,
    FetchRoom,
    Partitions,
    TopicRef,
    partition_count,
    partitions_from,
    partitions_state,
    topic_ref,
    topic_size,
)
from kinspect.kafka.wire.message import WireMessage
from kinspect.protocol.apikeys import FETCH, SHARE_ACKNOWLEDGE, SHARE_FETCH

FETCH_APIS: Final = frozenset({FETCH, SHARE_FETCH, SHARE_ACKNOWLEDGE})
"""Requests of fetch sessions."""
SESSIONS_KEPT: Final = 64
"""Most sessions known of a connection; the one begun first is forgotten. A client has one."""
FIRST_WITH_SESSIONS: Final = 7
REPLICA_IN_TAGS: Final = 15
"""From this version on the request begins without the replica's id (KIP-903)."""
_PLACE: Final = Struct(">ii")
_MADE: Final = Struct(">hi")
BEFORE_PLACE: Final = 13
BEFORE_MADE: Final = 4
INITIAL: Final = 0
FINAL: Final = -1
GREATEST_EPOCH: Final = 0x7FFFFFFF

NOT_SEEN: Final = Fetched(NO_PARTITIONS, False)
"""Of a request that was cut before its session."""
SHARE_HEAD: Final = frozenset({"group_id", "member_id", "share_session_epoch"})

Key = tuple[str | int, ...]
"""Of a Fetch the session's id, of a share session its group and member."""


class _FetchSession:
    """`epoch`: that of the last request; `count`: how many `partitions` there are; `whole`: these are all of them."""

    __slots__ = ("count", "epoch", "partitions", "whole")

    def __init__(self, epoch: int, partitions: Partitions, count: int, whole: bool) -> None:
        self.epoch = epoch
        self.partitions = partitions
        self.count = count
        self.whole = whole


class FetchSessions:
    """The sessions of a connection, by its exchanges in the order of their requests. `heads_only`: only their number is
    asked for."""

    def __init__(self, room: FetchRoom, heads_only: bool) -> None:
        self._room = room
        self._heads_only = heads_only
        # The one begun last stands last.
        self._sessions: dict[Key, _FetchSession] = {}
        # Of the last full Fetch whose answer was not seen: it may have begun a session.
        self._unnamed: _FetchSession | None = None

    def state(self) -> list[Any]:
        """Plain values for `restore`."""
        known = [[list(key), *_session_state(session)] for key, session in self._sessions.items()]
        return [known, None if self._unnamed is None else _session_state(self._unnamed)]

    def restore(self, state: Sequence[Any]) -> None:
        """Continue with the sessions of `state`."""
        known, unnamed = state
        for key, *session in known:
            self._keep(tuple(key), _session_from(session))
        self._unnamed = None if unnamed is None else _session_from(unnamed)

    def forget_all(self) -> None:
        """Give back the room of all sessions: the connection has ended."""
        for key in list(self._sessions):
            self._forget(key)

    def lose_requests(self) -> None:
        """Note that requests were lost: a session whose number was not seen may have begun with one of them."""
        self._unnamed = None

    def take(self, exchange: Exchange) -> Fetched | None:
        """What a request stands for; None if it names everything it asks for."""
        request = exchange.request
        if request is None or request.api_version is None:
            return None
        if request.api_key == FETCH:
            return self._fetch(request, exchange.response)
        return self._share(request)

    def _fetch(self, request: WireMessage, response: WireMessage | None) -> Fetched | None:
        version, raw = request.api_version or 0, request.raw or b""
        at = request.body_start + BEFORE_PLACE + (4 if version < REPLICA_IN_TAGS else 0)
        if version < FIRST_WITH_SESSIONS:
            return None
        if at + _PLACE.size > len(raw):
            return NOT_SEEN
        session_id, epoch = _PLACE.unpack_from(raw, at)
        key = (int(session_id),)
        if epoch > INITIAL:
            if epoch == INITIAL + 1 and self._unnamed is not None and key not in self._sessions:
                self._keep(key, self._unnamed)
            self._unnamed = None
            return self._go_on(key, epoch, request)
        # A full one: it ends the session that it names, and may begin another, which the answer names.
        self._forget(key)
        self._unnamed = None
        if epoch == INITIAL:
            begun = self._begun(epoch, request)
            made = _made(response)
            if made is None:
                self._unnamed = begun
            elif made:
                self._keep((made,), begun)
        return None

    def _share(self, request: WireMessage) -> Fetched | None:
        body = request.facts(SHARE_HEAD if self._heads_only else None).body or {}
        group, member, epoch = body.get("group_id"), body.get("member_id"), body.get("share_session_epoch")
        if group is None or member is None or epoch is None:
            return NOT_SEEN
        key = (group, member)
        if epoch > INITIAL:
            return self._go_on(key, epoch, request)
        self._forget(key)
        if epoch == INITIAL:
            self._keep(key, self._begun(epoch, request))
        return None

    def _begun(self, epoch: int, request: WireMessage) -> _FetchSession:
        """The session that a request begins."""
        partitions, count = _added(NO_PARTITIONS, 0, self._named(request, "topics"))
        return _FetchSession(epoch, partitions, count, request.complete)

    def _go_on(self, key: Key, epoch: int, request: WireMessage) -> Fetched:
        """Take a later request of a session."""
        session = self._sessions.get(key)
        if session is None:
            self._room.under_way += 1
            session = self._keep(key, _FetchSession(epoch, NO_PARTITIONS, 0, False))
        elif not request.complete or epoch != session.epoch % GREATEST_EPOCH + 1:
            self._hold(session, NO_PARTITIONS, 0)
            session.whole = False
        session.epoch = epoch
        if request.api_key == SHARE_ACKNOWLEDGE:
            return Fetched(NO_PARTITIONS, True)
        partitions, count = _added(session.partitions, session.count, self._named(request, "topics"))
        asked = Fetched(partitions, session.whole)
        self._hold(session, *_without(partitions, count, self._named(request, "forgotten_topics_data")))
        return asked

    def _keep(self, key: Key, session: _FetchSession) -> _FetchSession:
        self._forget(key)
        asked, count = session.partitions, session.count
        session.partitions, session.count = NO_PARTITIONS, 0
        self._hold(session, asked, count)
        self._sessions[key] = session
        if len(self._sessions) > SESSIONS_KEPT:
            self._forget(next(iter(self._sessions)))
        return session

    def _hold(self, session: _FetchSession, partitions: Partitions, count: int) -> None:
        """Let a session have these partitions, if there is room for so many."""
        if partitions is session.partitions:
            return
        if self._room.takes(count - session.count):
            session.partitions, session.count = partitions, count
        else:
            self._room.left += session.count
            session.partitions, session.count, session.whole = NO_PARTITIONS, 0, False

    def _forget(self, key: Key) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._room.left += session.count

    def _named(self, request: WireMessage, field: str) -> list[tuple[TopicRef, list[int]]]:
        """Topics of a request with their partitions."""
        if self._heads_only:
            return []
        found = []
        for struct in (request.facts().body or {}).get(field) or ():
            named = [
                part if isinstance(part, int) else part.get("partition", part.get("partition_index"))
                for part in struct.get("partitions") or ()
            ]
            found.append((topic_ref(struct), [index for index in named if index is not None]))
        return found


def _session_state(session: _FetchSession) -> list[Any]:
    return [session.epoch, partitions_state(session.partitions), session.whole]


def _session_from(state: Sequence[Any]) -> _FetchSession:
    epoch, partitions, whole = state
    known = partitions_from(partitions)
    return _FetchSession(epoch, known, partition_count(known), whole)


def _made(response: WireMessage | None) -> int | None:
    """The session that the answer to a full Fetch names, 0 for none; None if that was not seen."""
    if response is None or response.raw is None:
        return None
    at = response.body_start + BEFORE_MADE
    if at + _MADE.size > len(response.raw):
        return None
    error, session_id = _MADE.unpack_from(response.raw, at)
    return 0 if error else int(session_id)


def _added(
    partitions: Partitions, count: int, named: Iterable[tuple[TopicRef, list[int]]]
) -> tuple[Partitions, int]:
    """Partitions with those of topics that are named, and how many there are then. `count`: how many there were."""
    changed: dict[TopicRef, frozenset[int]] | None = None
    for topic, indexes in named:
        there = (partitions if changed is None else changed).get(topic)
        if there is None or not there.issuperset(indexes):
            if changed is None:
                changed = dict(partitions)
            changed[topic] = found = frozenset(indexes) if there is None else there.union(indexes)
            count += topic_size(found) - topic_size(there)
    return partitions if changed is None else changed, count


def _without(
    partitions: Partitions, count: int, forgotten: Iterable[tuple[TopicRef, list[int]]]
) -> tuple[Partitions, int]:
    """Partitions without those that are forgotten, and how many there are then. `count`: how many there were."""
    changed: dict[TopicRef, frozenset[int]] | None = None
    for topic, indexes in forgotten:
        there = (partitions if changed is None else changed).get(topic)
        if there is None:
            continue
        if changed is None:
            changed = dict(partitions)
        del changed[topic]
        left = there.difference(indexes)
        if left:
            changed[topic] = left
        count += topic_size(left or None) - topic_size(there)
    return partitions if changed is None else changed, count
