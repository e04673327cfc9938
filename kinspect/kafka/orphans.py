"""Responses without their requests: which APIs could they belong to, and are they Kafka's at all?"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from struct import Struct
from typing import NamedTuple

from kinspect.protocol import decode_body, fits, response_header, schema

# Trying every layout is for small answers; a large one fits its own and nothing else, at a price.
TRIED_BYTES = 1024 * 1024
_HEAD = Struct(">ii")
API_VERSIONS = 18
# So many answers in a row, each of which could be Kafka's, are proof enough where the requests are not captured.
PROOF = 3
# How far the correlation ids of two responses in a row may lie apart.
STEP = 16


class Candidate(NamedTuple):
    """An API and a version whose response layout fits."""

    api: str
    key: int
    version: int


@cache
def _layouts() -> tuple[Candidate, ...]:
    return tuple(
        Candidate(api.name, api.key, version)
        for api in schema.apis()
        for version in api.versions
        if schema.layout(api.key, version, "response") is not None
    )


def candidates(raw: bytes) -> list[Candidate]:
    """Every API and version whose response layout fits `raw` (a message without its size) exactly."""
    if len(raw) > TRIED_BYTES:
        return []
    found = []
    for candidate in _layouts():
        header = response_header(raw, 0, len(raw), candidate.key, candidate.version)
        if header and fits(candidate.key, candidate.version, "response", raw, header.body_start, len(raw)):
            found.append(candidate)
    return found


def are_responses(data: bytes) -> bool:
    """Whether a stream seen from a message boundary is Kafka's broker talking, told without any request.

    Either it begins with an answer to ApiVersions, or with `PROOF` messages whose correlation ids ascend and each of
    which fits some layout.
    """
    last = None
    for number, raw in enumerate(_messages(data), 1):
        correlation_id = int.from_bytes(raw[:4], signed=True)
        if last is None and _lists_itself(raw):
            return True
        if last is not None and not 0 < correlation_id - last <= STEP:
            return False
        if not candidates(raw):
            return False
        if number == PROOF:
            return True
        last = correlation_id
    return False


def _messages(data: bytes) -> Iterator[bytes]:
    position = 0
    while position + _HEAD.size <= len(data):
        size, _ = _HEAD.unpack_from(data, position)
        if size < 4 or position + 4 + size > len(data):
            return
        yield data[position + 4 : position + 4 + size]
        position += 4 + size


def _lists_itself(raw: bytes) -> bool:
    """Whether a message is an answer to ApiVersions that lists ApiVersions among its APIs."""
    for version in (0, 1, 3):
        decoded = decode_body(API_VERSIONS, version, "response", raw, 4, len(raw))
        if decoded.complete and not decoded.problems and decoded.body is not None:
            return any(entry["api_key"] == API_VERSIONS for entry in decoded.body["api_keys"])
    return False
