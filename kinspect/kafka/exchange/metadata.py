"""Cluster metadata: names of topic ids (KIP-516) in requests and responses, addresses of nodes in responses."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kinspect.kafka.fields.entities import HOST, PORT, TOPIC_ID, is_node_id, is_topic_id, is_topic_name
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.pair import Pair
from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol import schema
from kinspect.protocol.fieldpaths import FieldPaths, field_paths
from kinspect.protocol.primitives import ZERO_UUID
from kinspect.protocol.schema import Field

LARGE: Final = 256 * 1024
"""Bytes above which a decoded body is not held until its line is written: others may wait with it."""
ENDPOINT: Final = ["node_id", HOST, PORT, "rack"]
LISTENERS: Final = "listeners"
LONGEST_IP: Final = 64
"""Characters beyond which a host is no IP address, not even one with a zone. A capture's hosts may be as long as
its messages, and those looked at last are kept."""
_SHORTEST_WITH_ENDPOINT: Final = 20
_ADDRESS_ENDS: Final = b"0123456789abcdefABCDEF:"


class ClusterMetadata(NamedTuple):
    """Cluster metadata in one exchange: topic ids with their names in the response; IP addresses and ports with the
    node there; and `asked`, topic ids with their names in a controller's request."""

    names: Sequence[tuple[str, str]]
    nodes: Sequence[tuple[str, int, int]]
    asked: Sequence[tuple[str, str]]


NO_METADATA: Final = ClusterMetadata((), (), ())


class _MetadataPaths(NamedTuple):
    """Paths of names beside topic ids in a response, and of node ids beside addresses. `last`: the nodes are its last
    tagged field, which few responses have (KIP-951). `asked`: paths of names in a controller's request."""

    names: FieldPaths
    nodes: FieldPaths
    last: bool
    asked: FieldPaths


def may_have_metadata(api_key: int, api_version: int) -> bool:
    """True if messages of this API and version may have topic names beside topic ids, or addresses of nodes."""
    return _metadata_paths(api_key, api_version) is not None


def cluster_metadata(exchange: Pair) -> ClusterMetadata:
    """The names and nodes in the exchange's messages, as far as they could be read."""
    request, response = exchange.request, exchange.response
    message = response or request
    if message is None or message.api_key is None or message.api_version is None:
        return NO_METADATA
    paths = _metadata_paths(message.api_key, message.api_version)
    if paths is None:
        return NO_METADATA
    asked = _names(_body(request), paths.asked) if request is not None and paths.asked else ()
    if response is None or (paths.last and not _may_end_in_endpoint(response.raw or b"")):
        return ClusterMetadata((), (), asked)
    body = _body(response)
    return ClusterMetadata(_names(body, paths.names), _nodes(body, paths.nodes), asked)


def node_structs(message: WireMessage | None) -> Iterator[tuple[dict[str, Any], int]]:
    """Each struct of a message that has a node's id beside its address or its listeners, and the id."""
    if message is None or message.api_key is None or message.api_version is None:
        return
    layout = schema.layout(message.api_key, message.api_version, message.direction)
    paths = field_paths(layout, is_node_id, is_address)
    if paths:
        for _, struct, name in paths.walk(message.facts().body or {}):
            yield struct, struct[name]


def _body(message: WireMessage) -> dict[str, Any]:
    """What could be read of a message; a large one is not kept decoded."""
    body = message.facts().body or {}
    if message.size > LARGE:
        message.forget()
    return body


def _names(body: dict[str, Any], paths: FieldPaths) -> list[tuple[str, str]]:
    return [
        (topic_id, struct[name])
        for _, struct, name in paths.walk(body)
        if struct[name] and (topic_id := struct.get(TOPIC_ID, ZERO_UUID)) != ZERO_UUID
    ]


def _nodes(body: dict[str, Any], paths: FieldPaths) -> list[tuple[str, int, int]]:
    return [
        (ip, port, struct[name])
        for _, struct, name in paths.walk(body)
        # Clients number bootstrap brokers downwards from -1; a coordinator that is missing is -1 too.
        if struct[name] >= 0
        for ip, port in _addresses(struct)
    ]


def _addresses(struct: dict[str, Any]) -> Iterator[tuple[str, int]]:
    """IP addresses and ports in a node's struct or its listeners'; hosts given by name are left out."""
    listeners = struct.get(LISTENERS)
    for end in (struct, *(listeners if isinstance(listeners, list) else ())):
        host = end.get(HOST) if isinstance(end, dict) else None
        ip = ip_text(host) if isinstance(host, str) else None
        if ip is not None and isinstance(end.get(PORT), int):
            yield ip, end[PORT]


def ip_text(host: str) -> str | None:
    """An IP address in the form that connections have; None for a host name."""
    return _ip_text(host) if len(host) <= LONGEST_IP else None


@lru_cache(maxsize=4096)
def _ip_text(host: str) -> str | None:
    if ":" not in host:
        return host if _is_ipv4(host) else None
    from ipaddress import ip_address

    try:
        return str(ip_address(host))
    except ValueError:
        return None


def _is_ipv4(host: str) -> bool:
    """True for four numbers of a byte, none with a leading zero: what `ipaddress` takes for an IPv4 address."""
    octets = host.split(".")
    return len(octets) == 4 and all(
        octet.isascii()
        and octet.isdigit()
        and len(octet) <= 3
        and str(int(octet)) == octet
        and int(octet) < 256
        for octet in octets
    )


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
    # A controller gives names in its requests, too (KIP-516). What a client asks for may be wrong.
    has_names = schema.trait("sender", api_key) == "controller"
    request = schema.layout(api_key, api_version, REQUEST) if has_names else None
    names, asked = [field_paths(each, is_topic_name, is_topic_id) for each in (layout, request)]
    nodes = field_paths(layout, is_node_id, is_address)
    last = not names and bool(layout.fields) and _is_tagged_endpoint(layout.fields[-1])
    return _MetadataPaths(names, nodes, last, asked) if names or nodes or asked else None


def _is_tagged_endpoint(field: Field) -> bool:
    return field.tag is not None and [below.name for below in field.fields] == ENDPOINT


def is_address(field: Field) -> bool:
    """True for a host, and for listeners with theirs."""
    return field.name == HOST or (field.name == LISTENERS and any(map(is_address, field.fields)))
