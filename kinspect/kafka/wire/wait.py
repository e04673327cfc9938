"""The cause of the wait between a request and its response: one, the first that fits."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import Pair
from kinspect.model import NS_PER_MS, RESPONSE
from kinspect.protocol import schema
from kinspect.protocol.apikeys import JOIN_GROUP

LONG_POLL: Final = "long_poll"
GROUP_WAIT: Final = "group_wait"
QUEUED: Final = "queued"
THROTTLED: Final = "throttled"
RETRANSMITTED: Final = "retransmitted"
BROKER: Final = "broker"
CAUSES: Final = (BROKER, LONG_POLL, GROUP_WAIT, QUEUED, THROTTLED, RETRANSMITTED)
IDLE: Final = frozenset({LONG_POLL, GROUP_WAIT})
"""Causes that are part of what the client asked for."""
EARLY_NS: Final = NS_PER_MS
"""Time by which a broker's timer, which counts whole milliseconds, ends a poll before `max_wait_ms`."""
NONE: Final = 0
REBALANCE_IN_PROGRESS: Final = 27

_ASKED: Final = frozenset({"max_wait_ms", "min_bytes"})
_RECORDS: Final = frozenset({"responses.partitions.records"})
_CODE: Final = frozenset({"error_code"})
_ASSIGNMENTS: Final = frozenset({"assignments"})
_THROTTLE: Final = "throttle_time_ms"
_THROTTLE_ONLY: Final = frozenset({_THROTTLE})
_INT32: Final = 4
_NO_TIME: Final = b"\0\0\0\0"


def wait(exchange: Pair, service: int | None, latency: int | None) -> str | None:
    """The cause of an exchange's wait, one of `CAUSES`; None if its time is not known, or what the cause hangs on was
    cut. `service`, `latency`: its `service_ns` and `latency_ns`.

    A Fetch waits for records until `max_wait_ms` (`long_poll`); a JoinGroup or SyncGroup for other members
    (`group_wait`), but for the leader's SyncGroup, which ends that wait, and those refused at once.
    """
    if service is None or latency is None:
        return None
    asked = schema.trait("wait", exchange.api_key)
    if asked == LONG_POLL:
        polled = _polled(exchange, service)
        if polled is not False:
            return LONG_POLL if polled else None
    elif asked == GROUP_WAIT:
        waited = _waited_for_members(exchange)
        if waited is not False:
            return GROUP_WAIT if waited else None
    if 2 * service < latency:
        return QUEUED
    if exchange.throttled:
        return THROTTLED
    return RETRANSMITTED if exchange.retransmitted else BROKER


def carries_throttle(response: WireMessage) -> bool:
    """True if the response tells its client to wait (KIP-124, KIP-219)."""
    api_key, api_version, raw = response.api_key, response.api_version, response.raw
    if api_key is None or api_version is None or raw is None:
        return False
    leads = _throttle_leads(api_key, api_version)
    if leads:
        time = raw[response.body_start : response.body_start + _INT32]
        return len(time) == _INT32 and time != _NO_TIME
    return leads is not None and bool(_body(response, _THROTTLE_ONLY).get(_THROTTLE))


@lru_cache(maxsize=4096)
def _throttle_leads(api_key: int, api_version: int) -> bool | None:
    """True if a response of this version begins with its throttle time, False if it stands elsewhere in it; None if it
    has none."""
    layouts = schema.layouts(api_key, api_version, RESPONSE)
    names = [[field.name for field in layout.fields] for layout in layouts]
    if not any([_THROTTLE in each for each in names]):
        return None
    return all([each[:1] == [_THROTTLE] for each in names])


def _polled(exchange: Pair, service: int) -> bool | None:
    """True if most of the time was `max_wait_ms`, and fewer bytes than `min_bytes` came, which a quorum's voters leave
    at 0 (KIP-595); None if they are not known."""
    asked = _body(exchange.request, _ASKED)
    if any([asked.get(name) is None for name in _ASKED]) or exchange.response is None:
        return None
    longest = asked["max_wait_ms"] * NS_PER_MS
    if not longest - EARLY_NS <= service < 2 * longest:
        return False
    found = exchange.response.decode(_RECORDS)
    if not found.complete or found.body is None:
        return None
    size = sum(
        [
            len(partition.get("records") or b"")
            for topic in found.body.get("responses") or ()
            for partition in topic.get("partitions") or ()
        ]
    )
    least: int = asked["min_bytes"]
    return size < max(least, 1)


def _waited_for_members(exchange: Pair) -> bool | None:
    code = _body(exchange.response, _CODE).get("error_code")
    if code not in (NONE, REBALANCE_IN_PROGRESS):
        return None if code is None else False
    if exchange.api_key == JOIN_GROUP:
        return True
    assignments = _body(exchange.request, _ASSIGNMENTS).get("assignments")
    return None if assignments is None else not assignments


def _body(message: WireMessage | None, fields: frozenset[str]) -> dict[str, Any]:
    """The fields of a message, as far as it could be read."""
    return (message.facts(fields).body or {}) if message is not None else {}
