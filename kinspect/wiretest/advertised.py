"""Addresses that brokers advertise, replaced in the bytes of a connection. No I/O.

Metadata, FindCoordinator and DescribeCluster name brokers, as do DescribeQuorum and, beside errors, Fetch, Produce and
others (KIP-951): each struct of a response with a node's id and its address, or its listeners with theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Final

from kinspect.errors import KinspectError
from kinspect.kafka.exchange.metadata import LISTENERS, is_address
from kinspect.kafka.fields.entities import HOST, PORT, is_node_id
from kinspect.model import RESPONSE, drop_oldest
from kinspect.protocol import decode_response, encode_response, schema
from kinspect.protocol.fieldpaths import FieldPaths, field_paths

Place = tuple[str, int]
"""A host and a port."""
_SIZE: Final = Struct(">i")
_HEAD: Final = Struct(">ihhi")
"""Size, API, version and correlation id: what each request begins with."""
_ANSWER: Final = Struct(">ii")
LARGEST: Final = 64 << 20
"""Bytes of a response that is looked into; a longer one passes as it is."""
LONGEST: Final = 256 << 20
"""Size beyond which a message is none of Kafka's, as the first bytes of other protocols would have it."""
PORT_MOST: Final = 0xFFFF
WAITING_MOST: Final = 10_000
"""Requests whose response may name brokers, and is waited for."""


class AdvertisedAddresses:
    """A connection's bytes on their way: those of requests are looked at, in those of responses brokers are replaced by
    what `replaced` gives for their address. `passed` is called for each response that may name brokers, and is handed
    on as it is."""

    def __init__(self, replaced: Callable[[Place], Place], passed: Callable[[], None] = lambda: None) -> None:
        self._replaced, self._passed = replaced, passed
        self._waiting: dict[int, tuple[int, int]] = {}
        """API and version of requests whose response may name brokers, by their correlation id."""
        self._asked, self._answered = bytearray(), bytearray()
        self._skip_asked = self._skip_answered = 0
        self._is_kafka = True

    def request(self, data: bytes) -> bytes:
        """Take bytes that the client sent; return those to hand on."""
        rest = data
        while self._is_kafka and rest:
            rest = self._request(rest)
        return data

    def response(self, data: bytes) -> bytes:
        """Take bytes that the broker sent, none at the end; return those to hand on: others follow with the next
        ones."""
        handed = bytearray() if data else self._answered[:]
        if not data:
            self._answered.clear()
        while data and self._is_kafka:
            passed, data = data[: self._skip_answered], data[self._skip_answered :]
            self._skip_answered -= len(passed)
            handed += passed
            if data:
                self._answered += data
                data = self._response(handed)
        if not self._is_kafka:
            handed += self._answered + data
            self._answered.clear()
        return bytes(handed)

    def _request(self, data: bytes) -> bytes:
        """Take a part of the bytes; return the rest."""
        passed = min(self._skip_asked, len(data))
        self._skip_asked -= passed
        self._asked += data[passed:]
        if len(self._asked) < _HEAD.size:
            return b""
        rest = bytes(self._asked)
        self._asked.clear()
        size, api_key, version, correlation_id = _HEAD.unpack_from(rest)
        if not 0 <= size <= LONGEST:
            self._is_kafka = False
            return b""
        if _may_name_brokers(api_key, version):
            self._waiting[correlation_id] = api_key, version
            drop_oldest(self._waiting, WAITING_MOST)
        self._skip_asked = _SIZE.size + size
        return rest

    def _response(self, handed: bytearray) -> bytes:
        """Hand on the next response, if it is whole or need not be; return the bytes behind its begin."""
        held = self._answered
        if len(held) < _SIZE.size:
            return b""
        (size,) = _SIZE.unpack_from(held)
        if not 0 <= size <= LONGEST:
            self._is_kafka = False
            return b""
        end = _SIZE.size + size
        # A token of SASL may have no byte, and no other message may follow.
        if len(held) < min(end, _ANSWER.size):
            return b""
        known = size >= _SIZE.size and _ANSWER.unpack_from(held)[1] in self._waiting
        if known and size <= LARGEST:
            if len(held) < end:
                return b""
            frame, rest = bytes(held[_SIZE.size : end]), bytes(held[end:])
            held.clear()
            asked = self._waiting.pop(int.from_bytes(frame[: _SIZE.size], signed=True))
            made = replace_addresses(frame, *asked, self._replaced)
            if made is None:
                self._passed()
            frame = made or frame
            handed += _SIZE.pack(len(frame)) + frame
            return rest
        if known:
            self._passed()
        rest = bytes(held)
        held.clear()
        self._skip_answered = end
        return rest


def replace_addresses(
    frame: bytes, api_key: int, version: int, replaced: Callable[[Place], Place]
) -> bytes | None:
    """A response, without its size, with other addresses of brokers; as it is if it names none; None if that is not to
    be known."""
    try:
        message = decode_response(frame, api_key, version)
        found = False
        for _, node, _ in _nodes(api_key, version).walk(message.body):
            for end in (node, *(node.get(LISTENERS) or ())):
                if end.get(HOST) and 0 < end[PORT] <= PORT_MOST:
                    end[HOST], end[PORT] = replaced((end[HOST], end[PORT]))
                    found = True
        return encode_response(message) if found else frame
    except KinspectError:
        return None


def _may_name_brokers(api_key: int, version: int) -> bool:
    """True if responses have addresses of brokers in this version, or in the last one that is known."""
    api = schema.api(api_key)
    return api is not None and bool(_nodes(api_key, min(version, max(api.versions, default=0))))


@lru_cache(maxsize=1_000)
def _nodes(api_key: int, version: int) -> FieldPaths:
    """The paths of nodes' ids beside their addresses in a response."""
    return field_paths(schema.layout(api_key, version, RESPONSE), is_node_id, is_address)
