"""What a message says, as far as it could be read."""

from __future__ import annotations

from typing import Any

from kinspect.filters.values import CONSUMED, REPLICATED
from kinspect.kafka.wire.message import WireMessage

Struct = dict[str, Any]


def message_body(message: WireMessage | None, fields: frozenset[str]) -> tuple[Struct, bool]:
    """The fields of a message, as far as it could be read; and whether that was to its end."""
    if message is None:
        return {}, False
    decoded = message.facts(fields)
    return decoded.body or {}, decoded.complete and decoded.body is not None


def direction_of(asked: Struct, whole: bool) -> str | None:
    """Of a Fetch; None if it was cut before its replica."""
    replica = (asked.get("replica_state") or asked).get("replica_id")
    if replica is None:
        return CONSUMED if whole else None
    return REPLICATED if replica >= 0 else CONSUMED
