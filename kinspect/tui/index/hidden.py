"""Bytes of a message that may be drawn: those of values that the view shows, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.recordview import SECRET_TOPICS
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.pair import SASL_TOKEN
from kinspect.output.redacted import HIDDEN, shown_value
from kinspect.protocol.interpreter import Span
from kinspect.tui.index import batches

_TEXTS = frozenset({"string", "bytes"})
RECORDS = "records"


class DrawnParts(NamedTuple):
    """Permission to draw more than the fields: records, secrets, and the `rest`, bytes that no field was read from."""

    payload: bool
    secrets: bool
    rest: bool


def allowed(exchange: Exchange, payload: bool, show_secrets: bool) -> DrawnParts:
    """The permission for an exchange. `payload`: keys and values of records are shown."""
    if not SECRET_TOPICS.isdisjoint(exchange.summary.topics):
        payload = payload and show_secrets
    # Bytes without a name could be a secret or a record.
    return DrawnParts(payload, show_secrets, show_secrets and (payload or exchange.kind == SASL_TOKEN))


def hint(view: View) -> str:
    """The options that show hidden bytes."""
    if view.payload == "none":
        return "--payload text shows records, --show-secrets secrets"
    return "--show-secrets shows it"


def ranges(
    size: int, header: Iterable[Span], body: Iterable[Span], shown: dict[str, Any] | None, may: DrawnParts
) -> list[tuple[int, int]]:
    """The bytes to hide of a message with `size` bytes: sorted ranges. `shown`: the view's body."""
    if may.rest:
        return []
    visible = [(span.start, span.end) for span in header]
    for span in body:
        if span.type == RECORDS and span.value is not None:
            visible += _of_records(span, may)
        elif span.type not in _TEXTS or shown_value(span, shown) is not HIDDEN:
            visible.append((span.start, span.end))
    return list(_others(visible, size))


def _of_records(span: Span, may: DrawnParts) -> Iterator[tuple[int, int]]:
    """Visible ranges of a record set: its length and the headers of its batches, and the records if permitted."""
    if may.payload:
        yield span.start, span.end
        return
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
