"""Fields to decode of a body, as a tree of their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Body = dict[str, Any]

# Fields to decode: None means a whole subtree, a dict the requested names below.
Projection = dict[str, "Projection | None"]


def projection(fields: Iterable[str]) -> Projection:
    """Tree of dotted paths; a shorter path includes the longer ones below it."""
    root: Projection = {}
    for path in sorted(fields):
        node = root
        *parents, last = path.split(".")
        for name in parents:
            below = node.setdefault(name, {})
            if below is None:
                break
            node = below
        else:
            node[last] = None
    return root
