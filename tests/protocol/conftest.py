"""The reference's messages, and random values for any layout."""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.layouts import all_layouts

from kinspect.protocol.schema import Field, Layout

VECTORS = Path(__file__).parents[1] / "vectors"

_INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


class Vector(NamedTuple):
    api_key: int
    version: int
    direction: str
    correlation_id: int
    client_id: str | None
    frame: bytes
    body: dict[str, Any]
    variant: bool

    def __str__(self) -> str:
        return f"API {self.api_key} v{self.version} {self.direction}"


def _load(name: str) -> Iterator[Vector]:
    with gzip.open(VECTORS / name, "rt", encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            yield Vector(
                entry["api_key"],
                entry["version"],
                entry["direction"],
                entry["correlation_id"],
                entry.get("client_id"),
                bytes.fromhex(entry["frame_hex"]),
                entry["body"],
                entry.get("variant", False),
            )


@pytest.fixture(scope="session")
def vectors() -> list[Vector]:
    return [*_load("messages.jsonl.gz"), *_load("variants.jsonl.gz")]


@pytest.fixture(scope="session")
def layouts() -> tuple[Layout, ...]:
    return all_layouts()


def _random_text(rng: random.Random) -> str:
    return "".join(rng.choice("abc-é日🜚") for _ in range(rng.choice((0, 1, 5, 200))))


def _random_value(field: Field, rng: random.Random, depth: int) -> Any:
    kind = field.type
    if kind in _INTEGERS:
        low, high = _INTEGERS[kind]
        return rng.choice((low, high, 0, rng.randint(low, high)))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.uniform(-1e9, 1e9)
    if kind == "uuid":
        return base64.urlsafe_b64encode(rng.randbytes(16)).decode().rstrip("=")
    if kind == "string":
        return _random_text(rng)
    if kind in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 3, 130)))
    return _random_body(field.fields, field.compact, rng, depth + 1)


def _random_field(field: Field, rng: random.Random, depth: int) -> Any:
    if field.nullable and rng.random() < 0.3:
        return None
    if not field.array:
        return _random_value(field, rng, depth)
    count = rng.choice((0, 1, 3)) if depth < 3 else rng.choice((0, 1))
    if field.type in _INTEGERS and rng.random() < 0.1:
        count = 200
    return [_random_value(field, rng, depth) for _ in range(count)]


def _random_body(fields: tuple[Field, ...], flexible: bool, rng: random.Random, depth: int) -> dict[str, Any]:
    body = {
        field.name: _random_field(field, rng, depth)
        for field in fields
        if field.tag is None or rng.random() < 0.5
    }
    if flexible and rng.random() < 0.1:
        tags = sorted(rng.sample(range(100, 400), rng.choice((1, 3))))
        body["unknown_tagged_fields"] = [{"tag": tag, "bytes": rng.randbytes(tag % 7)} for tag in tags]
    return body


@pytest.fixture(scope="session")
def random_body() -> Callable[[Layout, random.Random], dict[str, Any]]:
    """`random_body(layout, rng)`: a body with a value for each ordinary field and some of the tagged ones."""
    return lambda layout, rng: _random_body(layout.fields, layout.flexible, rng, 0)
