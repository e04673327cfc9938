"""A cautious guess at the software of a client that does not name it (KIP-511), from the versions that it uses."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from kinspect.protocol import schema
from kinspect.protocol.apikeys import API_VERSIONS

EVIDENCE = 2
"""Smallest number of APIs that a client uses in an older version than the broker has: what it has in common with the
broker does not show it."""

JAVA = "apache-kafka-java"
JAVA_LINES = "0.10.2 0.11 1.0 1.1 2.0 2.1 2.2 2.3"
"""Releases whose clients ask for versions (KIP-97), and do not name themselves yet (KIP-511); each uses the newest
versions of its own release, which Kafka's table has."""
RECORDED = (
    # 4.4.0/kafkajs
    (
        "kafkajs",
        "Produce:7 Fetch:11 ListOffsets:3 Metadata:6 OffsetCommit:5 OffsetFetch:4 FindCoordinator:2 JoinGroup:5"
        " Heartbeat:3 LeaveGroup:3 SyncGroup:3 ListGroups:2 ApiVersions:2 InitProducerId:1"
        " AddPartitionsToTxn:1 EndTxn:1",
    ),
    # 4.4.0/kafkago
    (
        "kafka-go",
        "Produce:8 Fetch:10 ListOffsets:1 Metadata:6,8 OffsetCommit:2 OffsetFetch:1 FindCoordinator:0 JoinGroup:2"
        " LeaveGroup:0 SyncGroup:0 ApiVersions:0",
    ),
    # 4.4.0/groups_classic and 3.9.2/txn_aiokafka, aiokafka 0.14
    (
        "aiokafka",
        "Produce:7 Fetch:11 ListOffsets:3 Metadata:5 OffsetCommit:3 OffsetFetch:3 FindCoordinator:1 JoinGroup:5"
        " Heartbeat:1 LeaveGroup:1 SyncGroup:3 SaslHandshake:1 ApiVersions:0 InitProducerId:0 AddPartitionsToTxn:0"
        " EndTxn:0 SaslAuthenticate:1",
    ),
    # 3.6.2/codecs_aiokafka, aiokafka 0.11
    (
        "aiokafka",
        "Produce:7 Fetch:4 ListOffsets:1 Metadata:0,1 OffsetCommit:2 OffsetFetch:1 FindCoordinator:1 JoinGroup:5"
        " Heartbeat:1 LeaveGroup:1 SyncGroup:3 ApiVersions:0",
    ),
    # 3.6.2/codecs_kafkapython, kafka-python 2.0
    (
        "kafka-python",
        "Produce:7 Fetch:4 ListOffsets:1 Metadata:0,1 OffsetCommit:2 OffsetFetch:1 FindCoordinator:0 JoinGroup:2"
        " Heartbeat:1 LeaveGroup:1 SyncGroup:1 ApiVersions:0",
    ),
)
"""Names of other software, with the versions it used in this project's captures of brokers that have newer ones."""

Limits = tuple[int | None, ...]
"""The newest versions that a broker has, of the APIs of `LIMITS`."""
LIMITS = range(45)
"""Keys of the APIs of the last release of `JAVA_LINES`."""


class _Software(NamedTuple):
    """Software, its release line where that is known, and the versions it uses where the broker has them."""

    name: str
    line: str | None
    versions: dict[int, frozenset[int]]


def inferred(used: dict[int, set[int]], limits: set[Limits]) -> str | None:
    """The only software of the table that uses these versions. `used`: versions by API; `limits`: those of the brokers
    it asked. None where several come into question, or too little is known."""
    if len(limits) != 1 or not used.keys() <= {*LIMITS}:
        return None
    newest = dict(zip(LIMITS, *limits, strict=True))
    if sum(max(versions) < (newest[api_key] or 0) for api_key, versions in used.items()) < EVIDENCE:
        return None
    found = [software for software in _table() if _fits(software, used, newest)]
    if len({software.name for software in found}) != 1:
        return None
    lines = [software.line for software in found if software.line]
    return " ".join([found[0].name, *filter(None, ["..".join(dict.fromkeys([*lines[:1], *lines[-1:]]))])])


def _fits(software: _Software, used: dict[int, set[int]], newest: dict[int, int | None]) -> bool:
    return all(
        api_key in software.versions
        and _is_choice(software.versions[api_key], versions, newest[api_key], api_key)
        for api_key, versions in used.items()
    )


def _is_choice(known: frozenset[int], used: set[int], newest: int | None, api_key: int) -> bool:
    """True if software that uses the `known` versions may choose these. ApiVersions is sent before the broker's newest
    version is known, and again in an older one."""
    if api_key == API_VERSIONS:
        return max(used) == max(known)
    return used <= known or (newest is not None and max(used) == newest < max(known))


@cache
def _table() -> tuple[_Software, ...]:
    return tuple(
        [
            *(_Software(name, None, dict(map(_versions, text.split()))) for name, text in RECORDED),
            *(_Software(JAVA, line, _newest(line)) for line in JAVA_LINES.split()),
        ]
    )


def _versions(text: str) -> tuple[int, frozenset[int]]:
    name, _, versions = text.partition(":")
    api = schema.api(name)
    assert api is not None
    return api.key, frozenset(map(int, versions.split(",")))


def _newest(line: str) -> dict[int, frozenset[int]]:
    release = schema.release(line)
    assert release is not None
    return {api_key: frozenset({spoken.high}) for api_key, spoken in schema.releases()[release].items()}
