"""A row for each metric that clients push to brokers (KIP-714), and for what brokers ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kinspect.analysis.groupevents import bodies
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View, iso_time
from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol.apikeys import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from kinspect.records.compression import codec_name
from kinspect.records.pushedmetrics import PushError, read_push

Row = dict[str, Any]

KEYS: Final = tuple(
    """
    timestamp kind client_id client_ip software_name software_version client_instance_id subscription_id asked
    terminating codec error metric type temporality monotonic unit attributes resource scope start_time time value
    histogram problem event_id frame
    """.split()
)
"""The keys of a row, in their order."""
SUBSCRIPTION, PUSH, METRIC = "subscription", "push", "metric"
"""Kinds of rows: what a broker asked for; a push of which no more metrics are known; a metric."""
_ASKED: Final = frozenset(
    {"subscription_id", "terminating", "compression_type", "client_instance_id", "metrics"}
)
_ANSWERED: Final = frozenset(
    """
    error_code client_instance_id subscription_id accepted_compression_types push_interval_ms telemetry_max_bytes
    delta_temporality requested_metrics
    """.split()
)
_AROUND: Final = (
    "event_id",
    "client",
    "error_names",
    *(f"{side}.{key}" for side in (REQUEST, RESPONSE) for key in ("timestamp", "frames.first")),
)
_VIEW: Final = View(fields=_AROUND)


def telemetry_rows(exchange: Exchange) -> Iterator[Row]:
    """The rows of an exchange; none of one that is not about metrics, or of which only the other side is known."""
    if exchange.api_key == GET_TELEMETRY_SUBSCRIPTIONS and exchange.response is not None:
        yield _subscription(exchange)
    elif exchange.api_key == PUSH_TELEMETRY and exchange.request is not None:
        yield from _push(exchange)


def _subscription(exchange: Exchange) -> Row:
    asked, answered = bodies(exchange, (_ASKED, _ANSWERED))
    answered = answered or {}
    given = answered.get("error_code") == 0 and "requested_metrics" in answered
    return {
        **_around(exchange, RESPONSE, SUBSCRIPTION),
        "client_instance_id": answered.get("client_instance_id") or asked.get("client_instance_id"),
        "subscription_id": answered.get("subscription_id"),
        "asked": {
            "metrics": answered["requested_metrics"],
            "push_interval_ms": answered["push_interval_ms"],
            "delta_temporality": answered["delta_temporality"],
            "codecs": [codec_name(each) for each in answered["accepted_compression_types"]],
            "max_bytes": answered["telemetry_max_bytes"],
        }
        if given
        else None,
    }


def _push(exchange: Exchange) -> Iterator[Row]:
    asked, _ = bodies(exchange, (_ASKED, frozenset()))
    codec, data = asked.get("compression_type"), asked.get("metrics")
    around = {
        **_around(exchange, REQUEST, PUSH),
        "client_instance_id": asked.get("client_instance_id"),
        "subscription_id": asked.get("subscription_id"),
        "terminating": asked.get("terminating"),
        "codec": None if codec is None else codec_name(codec),
    }
    if codec is None or data is None:
        yield {**around, "problem": "the metrics were not captured whole, or cannot be decoded"}
        return
    empty = True
    try:
        for point in read_push(codec, data):
            empty = False
            begun, time = point.pop("start_time_ns"), point.pop("time_ns")
            yield {**around, "kind": METRIC, **point, "start_time": iso_time(begun), "time": iso_time(time)}
    except PushError as error:
        yield {**around, "problem": str(error)}
    else:
        if empty:
            yield around


def _around(exchange: Exchange, side: str, kind: str) -> Row:
    line = _VIEW.exchange(exchange)
    client = line["client"]
    return {
        **dict.fromkeys(KEYS),
        "timestamp": line[side]["timestamp"],
        "kind": kind,
        "client_id": client["id"],
        "client_ip": client["ip"],
        "software_name": client["software_name"],
        "software_version": client["software_version"],
        "error": next(iter(line["error_names"]), None),
        "event_id": line["event_id"],
        "frame": line[side]["frames"]["first"],
    }
