"""All layouts of the table."""

from __future__ import annotations

from functools import cache

from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol import schema
from kinspect.protocol.schema import Layout


@cache
def all_layouts() -> tuple[Layout, ...]:
    """The layouts of the table: requests and responses, records, headers. What fuzzing found counts on the order."""
    found = [
        layout
        for api in schema.apis()
        for version in api.versions
        for direction in (REQUEST, RESPONSE)
        for layout in schema.layouts(api.key, version, direction)
    ]
    for name in schema.record_names():
        message = schema.record(name)
        assert message is not None
        for version in sorted(message.versions):
            found += schema.record_layouts(name, version)
    for direction in (REQUEST, RESPONSE):
        for version in sorted(schema.header_versions(direction)):
            found.append(schema.header_layout(direction, version))
    return tuple(found)
