"""A broker's own account of the requests it handled: its request log, with header, bodies and connection of each.

Requests until a client has authenticated (ApiVersions, SaslHandshake, SaslAuthenticate) are not in it.
"""

from __future__ import annotations

import json
import re
from typing import Any

_COMPLETED = "Completed request:"
_GONE = re.compile(r"\(channelId=(\S+)\) disconnected|no open connection, connection id (\S+)")
_CONNECTION = re.compile(r".*:(\d+)-.*:(\d+)(?:-\d+)+")


class RequestLog:
    """Requests in a broker's log that came in at some of its ports.

    `entries` has them as lines of a `.truth.jsonl` (captures/README.md): `port` is the client's, `resp` is null where
    the client was gone before its answer was sent. Of records the log has only sizes, and those are left out.
    `connected` has the ids of clients with connections that the broker has not seen end: more requests may come.
    """

    def __init__(self, text: str, ports: tuple[int, ...]) -> None:
        self.entries: list[dict[str, Any]] = []
        clients: dict[str, str] = {}
        closed: set[str] = set()
        for line in text.splitlines():
            if gone := _GONE.search(line):
                closed.add(gone[1] or gone[2])
            at = line.find(_COMPLETED)
            if at < 0:
                continue
            told = json.loads(line[at + len(_COMPLETED) :])
            ends = _CONNECTION.fullmatch(told["connection"])
            if ends is not None and int(ends[1]) in ports and not told["isForwarded"]:
                clients[told["connection"]] = told["requestHeader"]["clientId"]
                self.entries.append(_entry(told, int(ends[2]), told["connection"] not in closed))
        self.connected = {client for connection, client in clients.items() if connection not in closed}


def _entry(told: dict[str, Any], port: int, answered: bool) -> dict[str, Any]:
    header = told["requestHeader"]
    return {
        "api": header["requestApiKey"],
        "name": "".join(word.capitalize() for word in header["requestApiKeyName"].split("_")),
        "version": header["requestApiVersion"],
        "corr": header["correlationId"],
        "client_id": header["clientId"],
        "port": port,
        "req": _without_sizes(told["request"]),
        "resp": _without_sizes(told["response"]) if answered else None,
    }


def _without_sizes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_sizes(part) for key, part in value.items() if not key.endswith("SizeInBytes")}
    return [_without_sizes(part) for part in value] if isinstance(value, list) else value
