"""The versions that a broker offers on a connection, by its answer to ApiVersions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from kinspect.kafka.wire.message import WireMessage
from kinspect.model import RESPONSE
from kinspect.protocol import decode_body
from kinspect.protocol.apikeys import API_VERSIONS

Ranges = Mapping[int, Sequence[int]]
"""The least and the greatest version of each API, by key."""
OFFER_BYTES: Final = 8192
"""Most bytes of an answer that is looked at; Apache's have some 600. Its ranges are kept as long as the connection."""
_RANGES: Final = frozenset({"error_code", "api_keys.api_key", "api_keys.min_version", "api_keys.max_version"})


def offered(answer: WireMessage) -> Ranges | None:
    """What an answer to ApiVersions offers; None if it is an error, too large, or could not be read to its end."""
    if (
        answer.raw is None
        or answer.api_version is None
        or not answer.complete
        or len(answer.raw) > OFFER_BYTES
    ):
        return None
    return _offered(answer.raw[answer.body_start :], answer.api_version)


@lru_cache(maxsize=64)
def _offered(body: bytes, version: int) -> Ranges | None:
    decoded = decode_body(API_VERSIONS, version, RESPONSE, body, 0, len(body), _RANGES)
    found = decoded.body
    if found is None or not decoded.complete or decoded.problems or found.get("error_code"):
        return None
    keys = found.get("api_keys") or ()
    try:
        return {each["api_key"]: (each["min_version"], each["max_version"]) for each in keys}
    except KeyError:  # a user's definition lacks one
        return None


def is_outside(ranges: Ranges, api_key: int, version: int) -> bool:
    """True for a version that the broker does not offer. Nobody knows before ApiVersions what that may be asked in."""
    if not ranges or api_key == API_VERSIONS:
        return False
    low, high = ranges.get(api_key, (0, -1))
    return not low <= version <= high
