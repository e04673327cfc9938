"""Bytes of a message that may be drawn: those of values that the view shows, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.fields import secrets
from kinspect.kafka.view.redact import HIDDEN, shown_value
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.pair import SASL_TOKEN
from kinspect.protocol.interpreter import Span
from kinspect.tui.index import batches

_TEXTS = frozenset({"string", "bytes"})
RECORDS = "records"


def hint(view: View) -> str:
    """The options that show hidden bytes."""
    if view.payload == "none":
        return "--payload text shows records, --show-secrets secrets"
    return "--show-secrets shows it"


def ranges(
    exchange: Exchange,
    size: int,
    header: Iterable[Span],
    body: Iterable[Span],
    shown: dict[str, Any] | None,
    view: View,
) -> list[tuple[int, int]]:
    """The bytes to hide of a message with `size` bytes: sorted ranges. `shown`: the view's body."""
    is_secret = not secrets.TOPICS.isdisjoint(exchange.summary.topics)
    payload = view.payload != "none" and (view.show_secrets or not is_secret)
    # Bytes that no field was read from could be a secret or a record.
    if view.show_secrets and (payload or exchange.kind == SASL_TOKEN):
        return []
    visible = [(span.start, span.end) for span in header]
    for span in body:
        if span.type == RECORDS and span.value is not None and not payload:
            visible += _around_records(span)
        elif span.type not in _TEXTS or shown_value(span, shown) is not HIDDEN:
            visible.append((span.start, span.end))
    return list(_others(visible, size))


def _around_records(span: Span) -> Iterator[tuple[int, int]]:
    """A record set's length and the headers of its batches."""
    first = span.end - len(span.value)
    yield span.start, first
    for batch in batches.batch_spans(span.value):
        yield first + batch.start, first + min(batch.start + batches.HEADERS[batch.magic], batch.end)


def _others(visible: list[tuple[int, int]], size: int) -> Iterator[tuple[int, int]]:
    position = 0
    for start, end in sorted(visible):
        if start > position:
            yield position, start
        position = max(position, end)
    if position < size:
        yield position, size
