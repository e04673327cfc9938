"""JSON with a schema."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin

import orjson
from jsonschema import Draft7Validator
from jsonschema.validators import validator_for
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7

from kinspect.payloads.jsonvalue import json_value, printed
from kinspect.payloads.payloaddecoder import DecodedText, SchemaDecoder


def open_schema(text: str, referenced: dict[str, str], files: dict[str, str]) -> SchemaDecoder:
    """The decoder of a schema."""
    schema = orjson.loads(text)
    kind = validator_for(schema, default=Draft7Validator)
    kind.check_schema(schema)
    base = schema.get("$id", "") if isinstance(schema, dict) else ""
    others = {**files, **referenced}
    resources: list[tuple[str, Any]] = []
    for name, each in others.items():
        if name in referenced or name.endswith(".json"):
            resource = Resource.from_contents(orjson.loads(each), default_specification=DRAFT7)
            resources += [(place, resource) for place in {name, urljoin(base, name)}]
    # A registry of its own fetches nothing.
    validator = kind(schema, registry=Registry().with_resources(resources))

    def decode(data: bytes, rest: bytes | None) -> DecodedText:
        value = json_value(data)
        error = next(iter(validator.iter_errors(value)), None)
        problem = (
            None if error is None else f"does not fit its schema at {error.json_path}: {error.message[:200]}"
        )
        return DecodedText(printed(value), None, problem)

    return decode
