"""Groups that had members when what is counted begins: who joined was not seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kinspect.analysis.record import LEAST, Record
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.model import drop_oldest
from kinspect.protocol import schema
from kinspect.protocol.apikeys import JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT

CONNECTIONS_LOOKED_AT: Final = 10_000
"""Last connections of which a request of a member was looked at: later ones on them show nothing new."""

_FIELDS = frozenset({"group_id", "member_epoch"})
BY_EPOCH = schema.apis_with("member", "epoch")
"""Heartbeats by which members of groups join, stay and leave, too (KIP-848)."""
_APIS = schema.apis_with("member") - {LEAVE_GROUP, OFFSET_COMMIT}


@dataclass(slots=True)
class Membership(Record):
    """The first request by which a member of a group joined, and the first one of a member that had joined before."""

    joined: LineKey | None = field(default=None, metadata=LEAST)
    met: LineKey | None = field(default=None, metadata=LEAST)

    def add(self, joins: bool, key: LineKey) -> None:
        """Take a request of a member."""
        self.merge(Membership(joined=key) if joins else Membership(met=key))

    @property
    def is_older(self) -> bool:
        """True if a member had joined before anything that was counted."""
        return self.met is not None and (self.joined is None or self.met < self.joined)


class MembershipRequest(NamedTuple):
    """A request of a member: its group, and whether it joins."""

    group: str
    joins: bool


class MembershipRequests:
    """The first request of a member on each connection; another one of a connection that was forgotten meanwhile."""

    def __init__(self) -> None:
        # In the order in which they came.
        self._connections: dict[str, None] = {}

    def first(self, exchange: Exchange) -> MembershipRequest | None:
        """The exchange's request, if it is the first that is known of its connection."""
        key, request, connections = exchange.api_key, exchange.request, self._connections
        if key not in _APIS or request is None:
            return None
        connection = exchange.connection.connection_id
        if connection in connections:
            return None
        connections[connection] = None
        drop_oldest(connections, CONNECTIONS_LOOKED_AT)
        asked = request.facts(_FIELDS).body or {}
        group, epoch = asked.get("group_id"), asked.get("member_epoch") or 0
        joins = epoch <= 0 if key in BY_EPOCH else key == JOIN_GROUP
        return None if group is None else MembershipRequest(group, joins)
