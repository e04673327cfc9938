"""Checks of the JSON lines against the records that clients logged: topic, partition, offset, key and value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from support.lines import Line, body, records_of
from support.manifest import Row

Stored = tuple[str, int, int, str | None, str | None]


def ledger(row: Row, lines: list[Line]) -> Iterator[str]:
    """All of it, none more: what the brokers took and gave, the codecs, the offsets committed."""
    facts = row.facts
    if "delivered" in facts:
        told = Counter(tuple(record) for record in facts["delivered"])
        taken = Counter(_taken(lines))
        yield from _differences("produced", told, taken)
        given = set(_given(lines))
        received = Counter(tuple(record) for record in facts.get("received", []))
        yield from _differences("received", received, received & Counter(given))
        strange = given - told.keys()
        if strange:
            yield f"fetched, but produced by nobody: {sorted(strange)[:3]}"
    for topic, codec in facts.get("compression_of", {}).items():
        for api, side in (("Produce", "request"), ("Fetch", "response")):
            seen = {batch["compression"] for t, batch in _batches(lines, api, side) if t == topic}
            if seen != {codec}:
                yield f"{api} of {topic}: codecs {seen}, not {codec}"
    if "last_committed" in facts:
        wanted = {(topic, partition): offset for topic, partition, offset in facts["last_committed"]}
        committed = dict(_committed(lines))
        if committed != wanted:
            yield f"committed {committed}, not {wanted}"


def _differences(what: str, told: Counter[Any], seen: Counter[Any]) -> Iterator[str]:
    if told != seen:
        yield f"{what}: {(told - seen).total()} not seen, as {sorted(told - seen)[:3]}"
        yield f"{what}: {(seen - told).total()} that no client told of, as {sorted(seen - told)[:3]}"


def _taken(lines: list[Line]) -> Iterator[Stored]:
    """Records of Produce requests, at the offsets that the responses tell; those refused are left out."""
    for line in lines:
        if line["api"] != "Produce" or line["outcome"] != "answered":
            continue
        bases = {
            (topic["name"] or topic["topic_id"], part["index"]): part["base_offset"]
            for topic in _named(body(line, "response")["responses"])
            for part in topic["partition_responses"]
            if part["error_code"] == 0
        }
        seen: Counter[tuple[str, int]] = Counter()
        for stored, _, record in records_of(line, "request"):
            place = (stored.topic, stored.partition)
            if place in bases:
                yield *place, bases[place] + seen[place], record["key"], record["value"]
                seen[place] += 1


def _named(topics: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for topic in topics:
        yield topic | {"name": topic.get("topic_name_resolved") or topic.get("name")}


def _given(lines: list[Line]) -> Iterator[Stored]:
    for line in lines:
        if line["api"] == "Fetch":
            for stored, _, record in records_of(line, "response"):
                yield stored.topic, stored.partition, record["offset"], record["key"], record["value"]


def _batches(lines: list[Line], api: str, side: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in lines:
        if line["api"] == api:
            for stored, batch, _ in records_of(line, side):
                yield stored.topic, batch


def _committed(lines: list[Line]) -> Iterator[tuple[tuple[str, int], int]]:
    """The last offset of each partition that a group committed, alone or in a transaction."""
    for line in lines:
        if line["api"] in {"OffsetCommit", "TxnOffsetCommit"} and not line["error_count"]:
            for topic in _named(body(line, "request")["topics"]):
                for part in topic["partitions"]:
                    yield (
                        (topic["name"] or topic["topic_id"], part["partition_index"]),
                        part["committed_offset"],
                    )
