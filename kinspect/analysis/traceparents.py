"""The spans that headers of records name: `traceparent` of W3C's Trace Context."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.protocol.apikeys import FETCH, PRODUCE, SHARE_FETCH
from kinspect.records import batches as read_records

MOST_PARENTS: Final = 128
"""Of an exchange, each once; as many links as a span of OpenTelemetry has unless told otherwise."""
_HEADER: Final = "traceparent"
_NAME: Final = _HEADER.encode()
_APIS: Final = frozenset({PRODUCE, FETCH, SHARE_FETCH})
_VALUE: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL)


class TraceParent(NamedTuple):
    """A span, and its flags."""

    trace_id: int
    span_id: int
    flags: int


def trace_parents(exchange: Exchange) -> list[TraceParent]:
    """The spans that records of an exchange name; values that are not valid count for nothing."""
    found: dict[TraceParent, None] = {}
    if exchange.api_key in _APIS:
        for header in _headers(exchange):
            parent = parsed(header["value"]) if header["key"] == _HEADER else None
            if parent is not None:
                found[parent] = None
                if len(found) == MOST_PARENTS:
                    break
    return [*found]


def parsed(value: bytes | None) -> TraceParent | None:
    """What a header's value says; None for one that is not valid."""
    match = _VALUE.fullmatch(value or b"")
    if match is None:
        return None
    version, *numbers, more = match.groups()
    parent = TraceParent(*(int(number, 16) for number in numbers))
    # Version ff is none, and those behind 00 may go on.
    is_valid = version != b"ff" and (version != b"00" or more is None) and parent.trace_id and parent.span_id
    return parent if is_valid else None


def _headers(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """Headers of records, within the limits of an exchange. Only what may have such a header is read."""
    caps = exchange.connection.caps
    size, records = caps.records_bytes, caps.records
    for field in exchange.summary.record_fields:
        plain = all(batch["compression"] == "none" for batch in field.batches())
        if plain and _NAME not in field.value:
            continue
        found = read_records(field.value, max_bytes=size, max_records=records, max_batches=caps.records)
        size, records = max(size - found.expanded_bytes, 0), max(records - found.kept, 0)
        for batch in found:
            for record in batch["records"]:
                yield from record["headers"]
