"""Kafka's own account of what a broker handled: its request log, a line a request with header, bodies and connection.

Requests until a client has authenticated (ApiVersions, SaslHandshake, SaslAuthenticate) are not in it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_COMPLETED = "Completed request:"
_GONE = re.compile(r"\(channelId=(\S+)\) disconnected|no open connection, connection id (\S+)")
_CONNECTION = re.compile(r".*:(\d+)-.*:(\d+)(?:-\d+)+")


def entries(text: str, ports: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Each request that came in at one of those ports, as a line of a `.truth.jsonl` (captures/README.md).

    `port` is the client's. `resp` is null where the client was gone before its answer was sent; of records only their
    sizes are in the log, and those are left out.
    """
    closed = set()
    for line in text.splitlines():
        if gone := _GONE.search(line):
            closed.add(gone[1] or gone[2])
        at = line.find(_COMPLETED)
        if at < 0:
            continue
        told = json.loads(line[at + len(_COMPLETED) :])
        header, connection = told["requestHeader"], told["connection"]
        ends = _CONNECTION.fullmatch(connection)
        if ends is None or told["isForwarded"] or int(ends[1]) not in ports:
            continue
        yield {
            "api": header["requestApiKey"],
            "name": "".join(word.capitalize() for word in header["requestApiKeyName"].split("_")),
            "version": header["requestApiVersion"],
            "corr": header["correlationId"],
            "client_id": header["clientId"],
            "port": int(ends[2]),
            "req": _without_sizes(told["request"]),
            "resp": None if connection in closed else _without_sizes(told["response"]),
        }


def _without_sizes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_sizes(part) for key, part in value.items() if not key.endswith("SizeInBytes")}
    return [_without_sizes(part) for part in value] if isinstance(value, list) else value
