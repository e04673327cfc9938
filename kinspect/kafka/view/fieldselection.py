"""Projections (`--fields api,request.body.topics.name`): dotted paths, through arrays, to fields to show and decode."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kinspect.kafka.fields import secrets
from kinspect.kafka.fields.entities import TOPIC_ID
from kinspect.kafka.fields.resources import TYPE_FIELD

Tree = dict[str, "Tree"]
"""Requested names, each with the tree of the names below it; an empty tree requests everything."""

DECODED: Final = "_decoded"
SIZE: Final = "_size"
# Fields below which no fields of the body are shown: they are decoded whole.
_OPAQUE: Final = frozenset({"records", "unaligned_records"})

# Fields, in the same struct or in one around it, on which the form of another depends: they are decoded with it.
_CONTEXT: Final = frozenset(
    {
        # the topic, for its id's name and for the contents of its records
        "name",
        "topic",
        "topic_name",
        TOPIC_ID,
        # the name, marks and resource of a config, which may be a secret
        *secrets.CONFIG_NAME_FIELDS,
        *secrets.CONFIG_MARKS,
        TYPE_FIELD,
        # the protocol of the group members' bytes
        "protocol_type",
        # the codec of pushed metrics
        "compression_type",
    }
)


def parse_paths(paths: Iterable[str]) -> Tree:
    """The tree of the requested paths. A field requested whole and in part is shown whole."""
    tree: Tree = {}
    for path in sorted(paths, key=len):
        node = tree
        names = path.split(".")
        for name in names[:-1]:
            if node.get(name) == {}:
                break
            node = node.setdefault(name, {})
        else:
            node[names[-1]] = {}
    return tree


def project(value: Any, tree: Tree) -> Any:
    """The parts of a JSON value that `tree` requests: dicts lose other keys, also within lists; the order is kept."""
    if not tree:
        return value
    if isinstance(value, dict):
        return {name: project(item, tree[name]) for name, item in value.items() if name in tree}
    if isinstance(value, list):
        return [project(item, tree) for item in value]
    return value


def body_paths(tree: Tree) -> frozenset[str]:
    """The body fields to decode for the parts of a body that `tree` requests."""
    return frozenset(_paths(tree, ""))


def _paths(tree: Tree, prefix: str) -> Iterator[str]:
    for name in _CONTEXT:
        yield prefix + name
    for name, below in tree.items():
        if name.endswith(DECODED):
            yield prefix + name.removesuffix(DECODED)
        elif below and name not in _OPAQUE:
            yield from _paths(below, f"{prefix}{name}.")
        else:
            yield prefix + name
            yield prefix + name.removesuffix(SIZE)
