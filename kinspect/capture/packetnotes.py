"""What pcapng files tell beside packets of who sends them: names of addresses, and comments as `ptcpdump` writes them.

Sources: draft-ietf-opsawg-pcapng (name resolution blocks, the flags of packets); the comments that ptcpdump writes,
`PID: 4242\\nCmd: /usr/bin/java\\nArgs: ...` and the same of a container and a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from kinspect.model import NAME_MOST

NAMES_READ: Final = 100_000
"""Names of addresses that are read of a file."""
_COMMENT_BYTES: Final = 4096
"""Bytes that are read of the comments of a packet: process and pod stand before arguments and labels."""

_RECORD_ADDRESSES: Final = {1: 4, 2: 16}
"""Bytes of the address by the type of a record: IPv4 and IPv6."""
_COMMENT: Final = 1
_FLAGS: Final = 2
_DIRECTIONS: Final = {1: True, 2: False}
_BEGINNINGS: Final = (b"PID: ", b"PodName: ", b"ContainerName: ")

Note = tuple[bool, str | None, str | None]
"""Whether a packet was received, the name of its sender (or its receiver), and the process."""


def names_of(
    record: Callable[..., tuple[Any, ...]], data: bytes, start: int, end: int
) -> Iterator[tuple[bytes, str]]:
    """Address and first name of each record of a name resolution block. `record`: unpacks type and length."""
    while start + 4 <= end:
        kind, length = record(data, start)
        start += 4
        size = _RECORD_ADDRESSES.get(kind, 0)
        if not kind or start + length > end:
            return
        if size and length > size:
            name = data[start + size : start + min(length, size + NAME_MOST + 1)].partition(b"\0")
            if name[0] and name[1]:
                yield data[start : start + size], name[0].decode(errors="replace")
        start += length + -length % 4


def note_of(options: Iterable[tuple[int, bytes]], big_endian: bool) -> Note | None:
    """What the options of a packet tell of its sender; None if they tell nothing, or do not say whether it was sent or
    received."""
    comments: list[bytes] = []
    inbound = None
    for code, value in options:
        if code == _COMMENT and value.startswith(_BEGINNINGS):
            comments.append(value)
        elif code == _FLAGS and len(value) == 4:
            inbound = _DIRECTIONS.get(value[3 if big_endian else 0] & 3)
    if not comments or inbound is None:
        return None
    name, process = _told(
        b"\n".join([comment[:_COMMENT_BYTES] for comment in comments])[: 3 * _COMMENT_BYTES]
    )
    return None if name is None and process is None else (inbound, name, process)


@lru_cache(maxsize=256)
def _told(comments: bytes) -> tuple[str | None, str | None]:
    """The name and the process in the lines of comments."""
    lines: dict[str, str] = {}
    for line in comments.decode(errors="replace").split("\n"):
        key, found, value = line.partition(": ")
        if found and len(value) <= NAME_MOST:
            lines.setdefault(key, value.strip())
    pod, container, pid = (lines.get(key) or None for key in ("PodName", "ContainerName", "PID"))
    name = container if pod is None else "/".join(filter(None, (lines.get("PodNamespace"), pod)))
    command = lines.get("Cmd", "").rpartition("/")[2]
    return name, f"{command}[{pid}]" if command and pid else None
