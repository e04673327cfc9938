"""Names of addresses in Kubernetes' objects: pods, services and nodes, as `kubectl get -o json` lists them.

Source: the types Pod, Service and Node of the API `v1`. A pod is `namespace/name`, a service `svc/namespace/name`, and
a node its name. Objects of other kinds, and what is not of the type that the API has, have no names.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from kinspect.kafka.wire.hostnames import HostPort

Object = dict[str, Any]
Named = Iterator[tuple[HostPort, str]]

_OVER = ("Succeeded", "Failed")
"""Phases of pods that ended: others have their addresses."""


def is_object(found: Object) -> bool:
    """True of an object of the API, or a list of some."""
    return isinstance(found.get("items"), list) or "apiVersion" in found


def names_of_objects(found: Object) -> Named:
    """The names in an object of the API, or in a list of some."""
    objects = [each for each in found.get("items", [found]) if isinstance(each, dict)]
    kind = str(found.get("kind", "")).removesuffix("List")
    of_kind: dict[str, list[Object]] = {}
    for each in objects:
        # A list of one kind may leave it out of its objects.
        of_kind.setdefault(str(each.get("kind") or kind), []).append(each)
    pods, services, nodes = (of_kind.get(kind, []) for kind in ("Pod", "Service", "Node"))
    for pod in pods:
        yield from _pod(pod)
    for service in services:
        yield from _service(service, nodes)
    for node in nodes:
        name = _text(node, "metadata", "name")
        yield from _all(((address, None) for address in _node_addresses(node)), name)


def _pod(pod: Object) -> Named:
    name = _qualified(pod)
    if _at(pod, "status", "phase") in _OVER:
        return
    addresses = [*_addresses(pod, "status", "podIPs", each="ip"), _text(pod, "status", "podIP")]
    if not _at(pod, "spec", "hostNetwork"):
        yield from _all(((address, None) for address in addresses), name)
        return
    # It has the node's addresses, and shares them with others.
    for container in _listed(pod, "spec", "containers"):
        for port in _ports(container, "ports", each="containerPort"):
            yield from _all(((address, port) for address in addresses), name)


def _service(service: Object, nodes: list[Object]) -> Named:
    name = _qualified(service)
    name = f"svc/{name}" if name else ""
    own = [_text(service, "spec", "clusterIP"), *map(_string, _listed(service, "spec", "clusterIPs"))]
    outside = map(_string, _listed(service, "spec", "externalIPs"))
    balanced = _addresses(service, "status", "loadBalancer", "ingress", each="ip")
    yield from _all(((address, None) for address in (*own, *outside, *balanced)), name)
    node_ports = _ports(service, "spec", "ports", each="nodePort")
    for address in [address for node in nodes if node_ports for address in _node_addresses(node)]:
        yield from _all(((address, port) for port in node_ports), name)


def _all(ends: Iterator[tuple[str, int | None]], name: str) -> Named:
    """The ends that are addresses (a service may have `None`), with the name."""
    for text, port in ends:
        try:
            if name:
                yield (str(ip_address(text)), port), name
        except ValueError:
            continue


def _node_addresses(node: Object) -> list[str]:
    return _addresses(node, "status", "addresses", each="address")


def _addresses(found: Object, *path: str, each: str) -> list[str]:
    return [_text(entry, each) for entry in _listed(found, *path)]


def _ports(found: Any, *path: str, each: str) -> list[int]:
    ports = [_at(entry, each) for entry in _listed(found, *path)]
    return [port for port in ports if isinstance(port, int) and port in range(1, 1 << 16)]


def _qualified(found: Object) -> str:
    namespace, name = _text(found, "metadata", "namespace") or "default", _text(found, "metadata", "name")
    return f"{namespace}/{name}" if name else ""


def _at(found: Any, *path: str) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _listed(found: Any, *path: str) -> list[Any]:
    value = _at(found, *path)
    return value if isinstance(value, list) else []


def _text(found: Any, *path: str) -> str:
    return _string(_at(found, *path))


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
