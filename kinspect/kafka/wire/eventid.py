"""Ids of lines: hashes that are the same in every run over the same packets."""

from __future__ import annotations

from kinspect.kafka.wire.hashes import blake2b
from kinspect.kafka.wire.pair import Pair


def event_id(text: str) -> str:
    """The id of what `text` identifies, as 32 hex digits."""
    return blake2b(text.encode(), digest_size=16).hexdigest()


def exchange_id(exchange: Pair) -> str:
    """The exchange's id: a hash of its connection, and of the direction and stream offset of its earliest message."""
    message = exchange.request or exchange.response
    assert message is not None
    return event_id(f"{exchange.connection.connection_id}|{message.direction}|{message.offset}")
