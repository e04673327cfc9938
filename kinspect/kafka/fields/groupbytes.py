"""Consumer protocol data in classic group messages (`ConsumerProtocol.java`; KIP-62, KIP-429)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from kinspect.records.embedded import decode_assignment, decode_subscription

GroupReader = tuple[str, Callable[[bytes | None], dict[str, Any] | None]]

_SUBSCRIPTION: Final[GroupReader] = ("ConsumerProtocolSubscription", decode_subscription)
_ASSIGNMENT: Final[GroupReader] = ("ConsumerProtocolAssignment", decode_assignment)

GROUP_BYTES: Final[dict[tuple[str, str], GroupReader]] = {
    ("JoinGroupRequest", "metadata"): _SUBSCRIPTION,
    ("JoinGroupResponse", "metadata"): _SUBSCRIPTION,
    ("SyncGroupRequest", "assignment"): _ASSIGNMENT,
    ("SyncGroupResponse", "assignment"): _ASSIGNMENT,
    ("DescribeGroupsResponse", "member_metadata"): _SUBSCRIPTION,
    ("DescribeGroupsResponse", "member_assignment"): _ASSIGNMENT,
}
"""Message and field to the reader of its bytes, for groups whose protocol type is `CONSUMER`."""

CONSUMER: Final = "consumer"

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def read_group_bytes(
    reader: GroupReader, data: bytes | None, protocol_type: str | None
) -> dict[str, Any] | None:
    """A member's decoded bytes; None if they are not the consumer protocol's.

    Where the message does not show the protocol type (SyncGroup before v5, KIP-559), another protocol's bytes could fit
    by chance: then only topics and partitions that can exist count.
    """
    if not data or protocol_type not in (CONSUMER, None):
        return None
    found = reader[1](data)
    return found if found is None or protocol_type is not None or _plausible(found) else None


def _plausible(found: dict[str, Any]) -> bool:
    assigned = found.get("assigned_partitions") or ()
    topics = list(found.get("topics") or ()) + [entry["topic"] for entry in assigned]
    partitions = (partition for entry in assigned for partition in entry["partitions"])
    return all(_TOPIC.fullmatch(topic) for topic in topics) and all(p >= 0 for p in partitions)
