"""Compares exchanges before and after texts were replaced: by all that stays, as numbers, times and sizes, and by the
bytes that were made of their messages."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final

from kinspect.exports.pseudonyms import is_address
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.wire.message import WireMessage
from kinspect.records import batches

Made = tuple[bytes | None, bytes | None]
"""The bytes of a request and a response."""

_OF_ANOTHER_SIZE: Final = frozenset({"auth_bytes", "request_data", "response_data", "metrics"})
_RECORDS: Final = frozenset({"records", "unaligned_records"})
_OF_BATCHES: Final = frozenset({"size"})
"""What another compression changes of a batch."""


class Shapes:
    """What stays of exchanges, and what is in place of the rest, eight bytes of each."""

    def __init__(self) -> None:
        self._found = array("Q")

    def add(self, exchange: Exchange, made: Made) -> None:
        """Add an exchange. `made`: what its messages are once everything was replaced; those that are not whole are
        compared by what stays alone."""
        digest = blake2b(repr(_shape(exchange)).encode(errors="replace"), digest_size=8)
        for message, data in zip((exchange.request, exchange.response), made, strict=True):
            digest.update(data if data is not None and message is not None and message.complete else b"")
        self._found.append(int.from_bytes(digest.digest()))

    def add_read(self, lines: Iterable[Line]) -> None:
        """Add the exchanges among lines of what was written."""
        for line in lines:
            if isinstance(line, Exchange):
                request, response = (
                    None if each is None else each.raw for each in (line.request, line.response)
                )
                self.add(line, (request, response))

    def equal(self, others: Shapes) -> int:
        """The number of exchanges that are in both, and of those that are only here."""
        own, other = sorted(self._found), sorted(others._found)
        at = equal = 0
        for each in own:
            while at < len(other) and other[at] < each:
                at += 1
            if at < len(other) and other[at] == each:
                at += 1
                equal += 1
        return equal

    def __len__(self) -> int:
        return len(self._found)


def _shape(exchange: Exchange) -> tuple[Any, ...]:
    return (
        exchange.kind,
        exchange.api_key,
        exchange.api_version,
        exchange.correlation_id,
        exchange.outcome,
        _message(exchange.request),
        _message(exchange.response),
        sorted({problem.code for problem in exchange.problems}),
    )


def _message(message: WireMessage | None) -> tuple[Any, ...] | None:
    if message is None:
        return None
    shape = message.first_time, message.last_time, message.complete, shape_of(message.body)
    message.forget()
    return shape


def shape_of(value: Any, name: str = "") -> Any:
    """What stays of a body, or of the part of it with that name."""
    if isinstance(value, dict):
        return [(each, shape_of(inner, each)) for each, inner in value.items()]
    if isinstance(value, list):
        return [shape_of(inner, name) for inner in value]
    if isinstance(value, bytes):
        if name in _RECORDS:
            found = batches(value, aligned=name == "records")
            return [
                (each, shape_of(inner, each))
                for batch in found
                for each, inner in batch.items()
                if each not in _OF_BATCHES
            ]
        return name in _OF_ANOTHER_SIZE or len(value)
    if isinstance(value, str):
        return is_address(value) or len(value.encode(errors="replace"))
    return value
