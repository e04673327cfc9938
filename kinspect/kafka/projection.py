"""Projections (`--fields api,request.body.topics.name`): dotted paths, through arrays, to what is shown and decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kinspect.kafka import secrets
from kinspect.kafka.meaning import TOPIC_ID

Tree = dict[str, "Tree"]
"""Names to what is asked for below them; an empty tree asks for everything."""

DECODED, SIZE = "_decoded", "_size"
# What is shown below these is not fields of the body: the whole field is decoded for it.
_OPAQUE = frozenset({"records", "unaligned_records"})

# How a field is shown can depend on others: in its own struct or in one around it. They are decoded along.
_CONTEXT = frozenset(
    {
        # the topic, for its id's name and for what its records hold
        "name",
        "topic",
        "topic_name",
        TOPIC_ID,
        # whether a config is a secret
        *secrets.CONFIG_NAME_FIELDS,
        "config_type",
        "is_sensitive",
        # whose protocol the group members' bytes follow
        "protocol_type",
    }
)


def parse(paths: Iterable[str]) -> Tree:
    """The tree of the asked paths. Asking for a field and for something below it asks for the whole field."""
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


def restrict(value: Any, tree: Tree) -> Any:
    """What `tree` asks of a JSON value: dicts lose other keys, lists are gone through, the order stays."""
    if not tree:
        return value
    if isinstance(value, dict):
        return {name: restrict(item, tree[name]) for name, item in value.items() if name in tree}
    if isinstance(value, list):
        return [restrict(item, tree) for item in value]
    return value


def body_paths(tree: Tree) -> frozenset[str]:
    """The body fields to decode for what `tree` asks of a body."""
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
