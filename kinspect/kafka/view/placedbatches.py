"""Batches in the JSON of a body, and their places."""

from __future__ import annotations

from typing import Any

from kinspect.kafka.fields.entities import PARTITION_NAMES, TOPIC_ID

Struct = dict[str, Any]
Placed = tuple[Struct, Struct]
"""The place of a batch, and the batch."""

_TOPIC_NAMES = "topic", "name", "topic_name"


def placed_batches(body: Struct | None) -> list[Placed]:
    """The batches in a body, or a struct of one, each with its place: path, topic and partition."""
    found: list[Placed] = []
    if body is not None:
        _place(body, "", {}, found)
    return found


def _place(struct: Struct, path: str, where: Struct, found: list[Placed]) -> None:
    if "batches" in struct and "partial_bytes" in struct:
        found += [
            ({**where, "path": path, "batch": number}, batch)
            for number, batch in enumerate(struct["batches"])
        ]
        return
    below = [(name, value) for name, value in struct.items() if value and isinstance(value, (dict, list))]
    if not below:
        return
    where = {**where, **place_of(struct)}
    for name, value in below:
        at = f"{path}.{name}" if path else name
        if isinstance(value, dict):
            _place(value, at, where, found)
            continue
        for index, item in enumerate(value):
            if isinstance(item, dict):
                _place(item, f"{at}[{index}]", where, found)


def place_of(struct: Struct) -> Struct:
    """Topic and partition, as far as a struct of a body names them."""
    named: Struct = {}
    topic = next((name for key in _TOPIC_NAMES if isinstance(name := struct.get(key), str)), None)
    topic = topic or struct.get("topic_name_resolved")
    if topic is not None:
        named["topic"] = topic
    if isinstance(struct.get(TOPIC_ID), str):
        named["topic_id"] = struct[TOPIC_ID]
    for key in PARTITION_NAMES:
        if isinstance(partition := struct.get(key), int):
            named["partition"] = partition
    return named
