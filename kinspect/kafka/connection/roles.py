"""Role of a client, from the requests it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kinspect.protocol import schema
from kinspect.protocol.apikeys import ADD_PARTITIONS_TO_TXN

if TYPE_CHECKING:
    from kinspect.kafka.wire.message import WireMessage

PRODUCER: Final = "producer"
CONSUMER: Final = "consumer"
ADMIN: Final = "admin"
FOLLOWER: Final = "follower"
CONTROLLER: Final = "controller"
BROKER: Final = "broker"
CLUSTER: Final = frozenset({FOLLOWER, CONTROLLER, BROKER})
"""Roles of brokers and controllers among themselves."""
HIDDEN: Final = "hidden"
"""What a request shows whose role was cut off: its connection's role is not known."""
ROLES: Final = (PRODUCER, CONSUMER, ADMIN, FOLLOWER, CONTROLLER, BROKER)

_EVERYBODY: Final = "any"
"""Sender of APIs that clients of several roles send; a body may show more."""

# Of Fetch in replica_state from v15 (KIP-903).
_REPLICA: Final = frozenset({"replica_id", "replica_state.replica_id"})
_OF_BROKERS: Final = 4
"""Version of AddPartitionsToTxn from which it is the brokers' own (KIP-890)."""
_UNHIDES: Final = frozenset({CONSUMER, FOLLOWER})
"""Roles of which a connection has one at most: nothing that was cut off comes before them."""
_RANK: Final = {None: 0, ADMIN: 1, HIDDEN: 2, PRODUCER: 2, CONSUMER: 2, FOLLOWER: 3, CONTROLLER: 3, BROKER: 3}


def role_of(api_key: int, request: WireMessage | None) -> str | None:
    """Role that a request shows: `producer`, `consumer`, `admin`, `follower`, `controller`, `broker`.

    None if every kind of client sends it (Metadata, ApiVersions, …), or without the request; `HIDDEN` if
    a field is needed that was cut off.
    Only the few fields that show a role are decoded, and only for APIs that need them.
    """
    sender, _, other = (schema.trait("sender", api_key) or _EVERYBODY).partition(",")
    role = None if sender == _EVERYBODY else sender
    if not other:
        return role
    if request is None:
        return None
    if api_key == ADD_PARTITIONS_TO_TXN:
        return other if (request.api_version or 0) >= _OF_BROKERS else role
    decoded = request.facts(_REPLICA)
    body = decoded.body or {}
    state = body.get("replica_state") or body
    if not decoded.complete and "replica_id" not in state:
        return HIDDEN
    return other if state.get("replica_id", -1) >= 0 else role


def stronger(old: str | None, new: str | None) -> str | None:
    """Role of a connection that showed both: roles of a cluster come before those of clients, and those before `admin`.
    Among equals the first one stays. What a cut request hides may be as strong as a client's role, or stronger."""
    if old == HIDDEN:
        return new if new in _UNHIDES else old
    return new if _RANK[new] > _RANK[old] else old
