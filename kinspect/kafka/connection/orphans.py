"""Responses without their requests: the APIs whose layouts fit, and the proof that the stream is Kafka's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice
from struct import Struct
from typing import Final, NamedTuple

from kinspect.kafka.connection.recognise import fits_a_broker
from kinspect.model import RESPONSE
from kinspect.protocol import decode_body, fits, response_header, schema
from kinspect.protocol.apikeys import API_VERSIONS

# Largest response for which every layout is tried: larger ones cost too much.
TRIED_BYTES: Final = 256 * 1024
_HEAD: Final = Struct(">ii")
# APIs that a client calls once or twice, whose answers prove nothing: a row of them is another protocol's.
CALLED_ONCE: Final = schema.apis_with("begins")
# Bytes of a message that are checked for implausible values.
CHECKED_BYTES: Final = 4096
# Number of possible Kafka answers in a row that prove a stream without captured requests, and the bytes other than zero
# that they must hold beside their correlation ids: short ones, and zeros, fit many layouts.
PROOFS: Final = ((3, 60), (5, 40))
# ZooKeeper's replies begin so (zookeeper.jute, ReplyHeader): xid, zxid, err. Its ids ascend as Kafka's do.
_REPLY: Final = Struct(">iqi")
_LEAST_ZOOKEEPER_ERROR: Final = -128
MOST_MESSAGES: Final = 32
# Largest difference between the correlation ids of two responses in a row.
STEP: Final = 16


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
        if schema.layout(api.key, version, RESPONSE) is not None
    )


def fitting_versions(raw: bytes) -> Iterator[Candidate]:
    """Every API and version whose response layout fits `raw` (a message without its size) exactly."""
    if len(raw) > TRIED_BYTES:
        return
    for candidate in _layouts():
        header = response_header(raw, 0, len(raw), candidate.key, candidate.version)
        if header and fits(candidate.key, candidate.version, RESPONSE, raw, header.body_start, len(raw)):
            yield candidate


def are_responses(data: bytes) -> bool:
    """True if a stream seen from a message boundary is a Kafka broker's, judged without requests.

    It must begin with an answer to ApiVersions, or with `PROOFS` messages with ascending correlation ids, each of which
    fits a layout and has only error codes of Kafka.
    """
    messages = _ascending(data)
    if messages and _lists_itself(messages[0]):
        return True
    if not _is_enough(messages) or _are_zookeepers(messages):
        return False
    telling: list[bytes] = []
    for raw in messages:
        sensible = (candidate.key for candidate in fitting_versions(raw) if _makes_sense(candidate, raw))
        first = next(sensible, None)
        if first is None:
            return False
        if first not in CALLED_ONCE or any(key not in CALLED_ONCE for key in sensible):
            telling.append(raw)
            if _is_enough(telling):
                return True
    return False


def _is_enough(messages: list[bytes]) -> bool:
    told = sum(len(raw) - 4 - raw.count(0, 4) for raw in messages)
    return any(len(messages) >= count and told >= least for count, least in PROOFS)


def _are_zookeepers(messages: list[bytes]) -> bool:
    """True if all messages read like ZooKeeper's replies: a transaction id that never falls, an error of its own, and
    nothing or zeros behind it: the first bytes of a length or of an id. In Metadata a host's length stands there."""
    last = 1
    for raw in messages:
        if len(raw) < _REPLY.size:
            return False
        _, transaction, error = _REPLY.unpack_from(raw)
        behind = raw[_REPLY.size : _REPLY.size + 2]
        if transaction < last or not _LEAST_ZOOKEEPER_ERROR <= error <= 0 or any(behind):
            return False
        last = transaction
    return True


def _ascending(data: bytes) -> list[bytes]:
    """The first whole messages of a stream, at most `MOST_MESSAGES`; none if their correlation ids do not ascend."""
    found: list[bytes] = []
    last = None
    for raw in islice(_messages(data), MOST_MESSAGES):
        correlation_id = int.from_bytes(raw[:4], signed=True)
        if last is not None and not 0 < correlation_id - last <= STEP:
            return []
        found.append(raw)
        last = correlation_id
    return found


def _makes_sense(candidate: Candidate, raw: bytes) -> bool:
    """True if a message that fits a layout has only values that a broker would send (no boolean is 2)."""
    from kinspect.protocol.interpreter import interpret

    _, key, version = candidate
    header = response_header(raw, 0, len(raw), key, version)
    if header is None or not fits_a_broker(key, version, raw, header.body_start, len(raw)):
        return False
    layout = schema.layout(key, version, RESPONSE)
    assert layout is not None
    spans = interpret(layout, raw[:CHECKED_BYTES], header.body_start, len(raw), spans=True).spans
    return all(raw[span.start] <= 1 for span in spans if span.type == "bool")


def _messages(data: bytes) -> Iterator[bytes]:
    position = 0
    while position + _HEAD.size <= len(data):
        size, _ = _HEAD.unpack_from(data, position)
        if size < 4 or position + 4 + size > len(data):
            return
        yield data[position + 4 : position + 4 + size]
        position += 4 + size


def _lists_itself(raw: bytes) -> bool:
    """True if a message is an answer to ApiVersions that lists ApiVersions among its APIs."""
    for version in (0, 1, 3):
        decoded = decode_body(API_VERSIONS, version, RESPONSE, raw, 4, len(raw))
        if decoded.complete and not decoded.problems and decoded.body is not None:
            return decoded.body["error_code"] in schema.errors() and any(
                entry["api_key"] == API_VERSIONS and 0 <= entry["min_version"] <= entry["max_version"]
                for entry in decoded.body["api_keys"]
            )
    return False
