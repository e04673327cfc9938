"""Which APIs a response could belong to whose request the capture does not hold."""

from __future__ import annotations

from functools import cache

from kinspect.protocol import fits, response_header, schema

# Trying every layout is for small answers; a large one fits its own and nothing else, at a price.
TRIED_BYTES = 1024 * 1024


@cache
def _layouts() -> tuple[tuple[str, int, int], ...]:
    return tuple(
        (api.name, api.key, version)
        for api in schema.apis()
        for version in api.versions
        if schema.layout(api.key, version, "response") is not None
    )


def api_candidates(raw: bytes) -> tuple[str, ...]:
    """Names of the APIs of which some version's response layout fits `raw` (a message without its size) exactly."""
    if len(raw) > TRIED_BYTES:
        return ()
    names: dict[str, None] = {}
    for name, key, version in _layouts():
        if name in names:
            continue
        header = response_header(raw, 0, len(raw), key, version)
        if header is not None and fits(key, version, "response", raw, header.body_start, len(raw)):
            names[name] = None
    return tuple(names)
