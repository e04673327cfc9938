"""Implementations of Kafka's protocol, by what their brokers show."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from kinspect.analysis.releases import Offer, releases
from kinspect.protocol import schema
from kinspect.protocol.versions import parse_versions

APACHE, UNKNOWN_DIALECT = "apache", "unknown"
BY_RELEASE, BY_API_KEYS, BY_CLUSTER_ID = "api_versions", "api_keys", "cluster_id"


class Dialect(NamedTuple):
    """`keys`: APIs that no release of Apache's has; `cluster_id`: how the cluster's id begins."""

    name: str
    keys: str
    cluster_id: str | None = None


DIALECTS = (
    # Message definitions of AutoMQ.
    Dialect("automq", "501-521,600-603"),
    # grepplabs/kafka-proxy #185; ids of Confluent Cloud.
    Dialect("confluent", "10000-20000", "lkc-"),
    # InitDisklessLog, AlterDisklessSwitch and RepairDisklessLog of Aiven Inkless.
    Dialect("inkless", "500-502"),
    # handlers/metadata.cc of Redpanda: so that callers can tell.
    Dialect("redpanda", "none", "redpanda."),
)


def dialect(offer: Offer, answered: Iterable[int], cluster_id: str | None) -> tuple[str, str | None]:
    """The dialect of a broker, and what it is known by. `offer`: of its ApiVersions answer, empty if it gave none;
    `answered`: keys of APIs that it answered."""
    for known in DIALECTS:
        if known.cluster_id is not None and (cluster_id or "").startswith(known.cluster_id):
            return known.name, BY_CLUSTER_ID
    foreign = {*(key for key, _, _ in offer), *answered} - apache_keys()
    if foreign:
        # Of several, that with the fewest other APIs.
        fits = [
            (len(keys), known.name) for known in DIALECTS if foreign <= (keys := parse_versions(known.keys))
        ]
        return (min(fits)[1], BY_API_KEYS) if fits else (UNKNOWN_DIALECT, None)
    return (APACHE, BY_RELEASE) if offer and releases(offer) else (UNKNOWN_DIALECT, None)


@cache
def apache_keys() -> frozenset[int]:
    """Keys of the APIs that any release of Apache's has."""
    return frozenset().union(*schema.releases().values())
