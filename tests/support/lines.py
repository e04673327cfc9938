"""Access to the JSON lines of a capture, for the checks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

Line = dict[str, Any]


class RecordSet(NamedTuple):
    """One `records` field of a body and the topic and partition it belongs to."""

    topic: str
    partition: int
    batches: list[dict[str, Any]]


def record_sets(body: Any, topic: str = "", partition: int = -1) -> Iterator[RecordSet]:
    """Every record set in a body, in order."""
    if isinstance(body, list):
        for entry in body:
            yield from record_sets(entry, topic, partition)
    elif isinstance(body, dict):
        if "batches" in body:
            yield RecordSet(topic, partition, body["batches"])
            return
        for key in ("topic_name_resolved", "topic", "name", "topic_id"):
            if isinstance(body.get(key), str):
                topic = body[key]
                break
        for key in ("partition_index", "index", "partition"):
            if isinstance(body.get(key), int):
                partition = body[key]
                break
        for value in body.values():
            yield from record_sets(value, topic, partition)


def body(line: Line, side: str) -> Any:
    """The body of one side, None if there is none."""
    return line[side]["body"] if line[side] is not None else None


def records_of(line: Line, side: str) -> Iterator[tuple[RecordSet, dict[str, Any], dict[str, Any]]]:
    """Record set, batch and record of every data record one side carries; control records are left out."""
    for record_set in record_sets(body(line, side)):
        for batch in record_set.batches:
            if not batch["is_control"]:
                for record in batch["records"]:
                    yield record_set, batch, record


def strings(value: Any) -> Iterator[str]:
    """Every text in a body, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for entry in value:
            yield from strings(entry)
    elif isinstance(value, dict):
        for entry in value.values():
            yield from strings(entry)
