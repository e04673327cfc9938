"""All layouts of the table."""

from __future__ import annotations

from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol import schema
from kinspect.protocol.schema import Layout

_made: dict[None, tuple[Layout, ...]] = {}
schema.MADE.append(_made)


def all_layouts() -> tuple[Layout, ...]:
    """The layouts of the table: requests and responses, records, headers. What fuzzing found counts on the order."""
    if None not in _made:
        _made[None] = (*_layouts(),)
    return _made[None]


def _layouts() -> list[Layout]:
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
    return found
