"""Cluster metadata in responses: names of topic ids (KIP-516) and addresses of nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple

from kinspect.kafka.fields.entities import HOST, PORT, TOPIC_ID, is_node_id, is_topic_id, is_topic_name
from kinspect.kafka.fields.paths import FieldPaths, field_paths
from kinspect.model import RESPONSE
from kinspect.protocol import schema
from kinspect.protocol.wire import ZERO_UUID

if TYPE_CHECKING:
    from kinspect.kafka.wire.message import WireMessage
    from kinspect.kafka.wire.pair import Pair
    from kinspect.protocol.schema import Field

LARGE = 256 * 1024
"""Bytes above which a decoded body is not held until its line is written: others may wait with it."""
ENDPOINT = ["node_id", HOST, PORT, "rack"]
LISTENERS = "listeners"
_SHORTEST_WITH_ENDPOINT = 20
_ADDRESS_ENDS = b"0123456789abcdefABCDEF:"


class ClusterMetadata(NamedTuple):
    """Cluster metadata in one response: topic ids with their names; IP addresses and ports with the node there."""

    names: Sequence[tuple[str, str]]
    nodes: Sequence[tuple[str, int, int]]


NO_METADATA = ClusterMetadata((), ())


class _MetadataPaths(NamedTuple):
    """Paths of names beside topic ids in a response, and of node ids beside addresses. `last`: the nodes are its last
    tagged field, which few responses have (KIP-951)."""

    names: FieldPaths
    nodes: FieldPaths
    last: bool


def may_have_metadata(api_key: int, api_version: int) -> bool:
    """True if a response of this API and version may have topic names beside topic ids, or addresses of nodes."""
    return _metadata_paths(api_key, api_version) is not None


def cluster_metadata(exchange: Pair) -> ClusterMetadata:
    """The names and nodes in the exchange's response, as far as it could be read."""
    message = exchange.response
    if message is None or message.api_key is None or message.api_version is None:
        return NO_METADATA
    paths = _metadata_paths(message.api_key, message.api_version)
    if paths is None or (paths.last and not _may_end_in_endpoint(message.raw or b"")):
        return NO_METADATA
    found = _read(message, paths)
    if message.size > LARGE:
        message.forget()
    return found


def node_structs(message: WireMessage | None) -> Iterator[tuple[dict[str, Any], int]]:
    """Each struct of a message that has a node's id beside its address or its listeners, and the id."""
    if message is None or message.api_key is None or message.api_version is None:
        return
    paths = _node_paths(message.api_key, message.api_version, message.direction)
    if paths:
        for _, struct, name in paths.walk(message.body or {}):
            yield struct, struct[name]


def _read(message: WireMessage, paths: _MetadataPaths) -> ClusterMetadata:
    body = message.decode().body
    if body is None:
        return NO_METADATA
    names = [
        (topic_id, struct[name])
        for _, struct, name in paths.names.walk(body)
        if struct[name] and (topic_id := struct.get(TOPIC_ID, ZERO_UUID)) != ZERO_UUID
    ]
    nodes = [
        (ip, port, struct[name])
        for _, struct, name in paths.nodes.walk(body)
        # Clients number bootstrap brokers downwards from -1; a coordinator that is missing is -1 too.
        if struct[name] >= 0
        for ip, port in _addresses(struct)
    ]
    return ClusterMetadata(names, nodes)


def _addresses(struct: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """IP addresses and ports in a node's struct or its listeners'; hosts given by name are left out."""
    for end in (struct, *(struct.get(LISTENERS) or ())):
        ip = _ip_text(end.get(HOST) or "")
        if ip is not None and PORT in end:
            yield ip, end[PORT]


@lru_cache(maxsize=4096)
def _ip_text(host: str) -> str | None:
    """An IP address in the form that connections have; None for a host name."""
    try:
        return str(ip_address(host))
    except ValueError:
        return None


def _may_end_in_endpoint(raw: bytes) -> bool:
    """True if a response may end in the endpoint of a node at an IP address: host, port, rack, no tags. This test saves
    the decoding of all other responses, which would cost as much as their pairing.

    Without a rack there is text, a port's two bytes of 0, its other two, and two bytes of 0.
    """
    if raw[-2:] != b"\0\0":
        return len(raw) >= _SHORTEST_WITH_ENDPOINT
    return raw[-6:-4] == b"\0\0" and raw[-7:-6] in _ADDRESS_ENDS


@lru_cache(maxsize=4096)
def _metadata_paths(api_key: int, api_version: int) -> _MetadataPaths | None:
    layout = schema.layout(api_key, api_version, RESPONSE)
    if layout is None:
        return None
    names = field_paths(
        layout.fields,
        lambda field, struct: is_topic_name(field) and not field.array and any(map(is_topic_id, struct)),
    )
    nodes = _node_paths(api_key, api_version, RESPONSE)
    last = not names and bool(layout.fields) and _is_tagged_endpoint(layout.fields[-1])
    return _MetadataPaths(names, nodes, last) if names or nodes else None


@lru_cache(maxsize=4096)
def _node_paths(api_key: int, api_version: int, direction: str) -> FieldPaths:
    layout = schema.layout(api_key, api_version, direction)
    fields = () if layout is None else layout.fields
    return field_paths(fields, lambda field, struct: is_node_id(field) and _has_address(struct))


def _is_tagged_endpoint(field: Field) -> bool:
    return field.tag is not None and [below.name for below in field.fields] == ENDPOINT


def _has_address(struct: Sequence[Field]) -> bool:
    return any(
        field.name == HOST or (field.name == LISTENERS and _has_address(field.fields)) for field in struct
    )
