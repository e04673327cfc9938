"""Batches in the JSON of a body, and their places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kinspect.kafka.fields.entities import PARTITION_NAMES, TOPIC_ID

Struct = dict[str, Any]


def placed_batches(
    value: Any, path: str = "", where: Struct | None = None
) -> Iterator[tuple[Struct, Struct]]:
    """The batches in a body, each with its place: path, topic and partition."""
    where = where or {}
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict | list):
                yield from placed_batches(item, f"{path}[{index}]", where)
    elif isinstance(value, dict):
        if "batches" in value and "partial_bytes" in value:
            for number, batch in enumerate(value["batches"]):
                yield {**where, "path": path, "batch": number}, batch
            return
        where = {**where, **place_of(value)}
        for name, item in value.items():
            if isinstance(item, dict | list):
                yield from placed_batches(item, f"{path}.{name}" if path else name, where)


def place_of(struct: Struct) -> Struct:
    """Topic and partition, as far as a struct of a body names them."""
    named: Struct = {}
    topic = next((struct[n] for n in ("topic", "name", "topic_name") if isinstance(struct.get(n), str)), None)
    topic = topic or struct.get("topic_name_resolved")
    if topic is not None:
        named["topic"] = topic
    if isinstance(struct.get(TOPIC_ID), str):
        named["topic_id"] = struct[TOPIC_ID]
    for name in PARTITION_NAMES:
        if isinstance(struct.get(name), int):
            named["partition"] = struct[name]
    return named
