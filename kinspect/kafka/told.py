"""Which responses tell the names of topic ids, and which names one tells (KIP-516)."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from kinspect.kafka.meaning import TOPIC_ID, is_topic_id, is_topic_name
from kinspect.kafka.names import ZERO_ID
from kinspect.kafka.sites import Site, sites
from kinspect.model import RESPONSE
from kinspect.protocol import schema

if TYPE_CHECKING:
    from kinspect.kafka.exchange import Exchange

LARGE = 256 * 1024
"""Of a longer message what was decoded is not held until its line is written: others may wait with it."""


def tells_names(api_key: int, api_version: int) -> bool:
    """Whether a response of this API and version may tell topic names beside topic ids."""
    return _named(api_key, api_version) is not None


def told_names(exchange: Exchange) -> list[tuple[str, str]]:
    """The (topic id, name) pairs the exchange's response tells, as far as it could be read."""
    message = exchange.response
    if message is None or message.api_key is None or message.api_version is None:
        return []
    site = _named(message.api_key, message.api_version)
    body = message.decode().body if site is not None else None
    if site is None or body is None:
        return []
    told = [
        (topic_id, struct[name])
        for _, struct, name in site.walk(body)
        if struct[name] and (topic_id := struct.get(TOPIC_ID, ZERO_ID)) != ZERO_ID
    ]
    if message.size > LARGE:
        message.forget()
    return told


@lru_cache(maxsize=4096)
def _named(api_key: int, api_version: int) -> Site | None:
    """Where names stand beside topic ids in the response."""
    layout = schema.layout(api_key, api_version, RESPONSE)
    if layout is None:
        return None
    return sites(
        layout.fields,
        lambda field, struct: is_topic_name(field) and not field.array and any(map(is_topic_id, struct)),
    )
