"""Which interface each of the last packets of a live capture came over."""

from __future__ import annotations

import socket
from collections import deque
from struct import Struct

from kinspect.capture.ring import ANY
from kinspect.capture.tpacket import COOKED
from kinspect.model import Block

KEPT = 131_072
"""Number of packets that are remembered: a connection may begin with one that waited for a second."""

# In front of a packet's bytes in its block: interface, time, lengths (pcapng, enhanced packet block).
_NUMBER, _NUMBER_AT = Struct("=I"), -20
# LINKTYPE_LINUX_SLL2: the system's number of the interface.
_SYSTEM_NUMBER, _SYSTEM_NUMBER_AT = Struct(">I"), 4


class Interfaces:
    """The interface of a packet, by its frame; `names`: those that are captured from, in their order."""

    def __init__(self, names: list[str]) -> None:
        self._names = names
        self._only = names[0] if len(names) == 1 and names[0] != ANY else None
        self._recent: deque[tuple[int, list[str | None]]] = deque()
        self._kept = 0
        self._known: dict[int, str | None] = {}

    def add(self, block: Block) -> None:
        """Take the packets of a pcapng section of the capturing process."""
        if self._only is not None or not len(block):
            return
        self._recent.append((block.first_frame, [self._of(block, at) for at in range(len(block))]))
        self._kept += len(block)
        while self._kept > KEPT and len(self._recent) > 1:
            self._kept -= len(self._recent.popleft()[1])

    def of(self, frame: int) -> str | None:
        """The name of the interface; None if it is not known, or not any more."""
        if self._only is not None:
            return self._only
        for first, names in reversed(self._recent):
            if frame >= first:
                return names[frame - first] if frame - first < len(names) else None
        return None

    def _of(self, block: Block, at: int) -> str | None:
        start = block.starts[at]
        name: str = self._names[_NUMBER.unpack_from(block.data, start + _NUMBER_AT)[0]]
        if block.link_types[at] != COOKED or name != ANY:
            return name
        number = _SYSTEM_NUMBER.unpack_from(block.data, start + _SYSTEM_NUMBER_AT)[0]
        if number not in self._known:
            self._known[number] = _name(number)
        return self._known[number]


def _name(number: int) -> str | None:
    try:
        return socket.if_indextoname(number)
    except OSError:
        return None
