"""Releases of brokers, by the versions that their ApiVersions answers offer."""

from __future__ import annotations

from functools import lru_cache

from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    BROKER_REGISTRATION,
    CONTROLLED_SHUTDOWN,
    DESCRIBE_QUORUM,
    PRODUCE,
    UPDATE_METADATA,
)

KRAFT, ZOOKEEPER = "kraft", "zookeeper"

Offer = tuple[tuple[int, int, int], ...]
"""API keys, each with the least and the greatest version, in the order of keys."""

# Least versions say nothing here: 4.x offers Produce from 0 on, which it refuses (KAFKA-18659), and the one of
# ControlledShutdown without a client id is not offered.
_ANY_LEAST = frozenset({PRODUCE, CONTROLLED_SHUTDOWN})
# Last patch releases that speak what the release does: the table has those alone that speak something else.
_LAST_PATCH = dict(
    pair.split(":")
    for pair in """
    0.8.1:1 0.8.2.0:2 0.9.0.0:1 0.10.0.0:1 0.10.1.0:1 0.10.2.0:2 0.11.0.0:3 1.0.0:2 1.1.0:1 2.0.0:1 2.1.0:1 2.2.0:2
    2.3.0:1 2.4.0:1 2.5.0:1 2.6.0:3 2.7.0:2 2.8.0:2 3.0.0:2 3.1.0:2 3.2.0:3 3.3.0:2 3.4.0:1 3.5.0:2 3.6.0:2 3.7.0:2
    """.split()
)


@lru_cache(maxsize=1024)
def releases(offer: Offer) -> tuple[str, ...]:
    """The releases that offer just these versions, oldest first. Which APIs a broker offers depends on its mode and its
    listener, too: of the releases that fit, those with the fewest others."""
    apis = {name: len(spoken) for name, spoken in schema.releases().items() if _fits(offer, spoken)}
    fewest = min(apis.values(), default=0)
    return tuple(patch for name, count in apis.items() if count == fewest for patch in _patches(name))


def mode(offer: Offer) -> str | None:
    """`kraft` or `zookeeper`, if the APIs show it: each mode has some that the other does not offer."""
    keys = {key for key, _, _ in offer}
    if UPDATE_METADATA in keys:
        return ZOOKEEPER
    return KRAFT if keys & {DESCRIBE_QUORUM, BROKER_REGISTRATION} else None


def _fits(offer: Offer, spoken: dict[int, schema.VersionRange]) -> bool:
    keys = {key for key, _, _ in offer}
    # One setting enables all unstable versions (`unstable.api.versions.enable`).
    enabled = {False for key, known in spoken.items() if known.unstable and key not in keys}
    for key, low, high in offer:
        known = spoken.get(key)
        if known is None or high > known.high or (low != known.low and key not in _ANY_LEAST):
            return False
        if known.unstable:
            enabled.add(high == known.high)
        if high != known.high - (known.unstable and high < known.high):
            return False
    return len(enabled) <= 1


def _patches(name: str) -> list[str]:
    last = _LAST_PATCH.get(name)
    if last is None:
        return [name]
    if name == "0.8.1":
        return [name, "0.8.1.1"]
    line = name.rpartition(".")[0]
    return [f"{line}.{patch}" for patch in range(int(last) + 1)]
