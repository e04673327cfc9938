"""Names of addresses, and the processes there, as they were given or as captures tell them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kinspect.kafka.wire.lineorder import FIRST, LineKey

NAMES_KEPT: Final = 100_000
"""Addresses with a name that captures tell, and as many notes on what is at an address and port."""
TOLD_MOST: Final = 16
"""Notes on one end of connections between the same addresses and ports, which may come one after the other."""

End = tuple[str, int]
"""An address as text, and a port."""
HostPort = tuple[str, int | None]
"""An address as text; with a port, or None for all of its ports."""


class EndNames(NamedTuple):
    """What is known of a connection's ends. `client_process`: `java[4242]`."""

    client_name: str | None = None
    broker_name: str | None = None
    client_process: str | None = None


NO_NAMES: Final = EndNames()


class _EndNote(NamedTuple):
    """What a packet told of one of its ends."""

    key: LineKey
    name: str | None
    process: str | None


class HostNames:
    """Names by address, and names and processes by the ends of connections.

    What was given (`--names`) counts for all lines; what a packet tells, or stands before a packet, for lines that end
    with that packet or later. A name of an address and port stands before one of the address, what was given before
    what was told, and the first name that was told of an address before later ones. Of an end of a connection, the
    latest note counts that belongs to the connection.
    """

    __slots__ = ("_at", "_given", "_notes", "_told", "known")

    def __init__(self, given: Mapping[HostPort, str] | None = None) -> None:
        self._given = dict(given or {})
        self._told: dict[str, tuple[LineKey, str]] = {}
        self._at: dict[tuple[End, End], list[_EndNote]] = {}
        self._notes = 0
        self.known = bool(self._given)
        """True if there is any name or process."""

    def learn(self, ip: str, name: str, key: LineKey) -> None:
        """Learn that an address has a name, for lines from `key` on."""
        learned = self._told.get(ip)
        if key < learned[0] if learned is not None else len(self._told) < NAMES_KEPT:
            self._told[ip] = key, name
            self.known = True

    def learn_end(self, end: End, other: End, name: str | None, process: str | None, key: LineKey) -> None:
        """Learn what is at an end of a connection, for its lines from `key` on. `other`: the other end."""
        told = self._at.get((end, other))
        if told is not None and told[-1][1:] == (name, process):
            return
        if self._notes >= NAMES_KEPT or (told is not None and len(told) >= TOLD_MOST):
            return
        self._notes += 1
        self._at.setdefault((end, other), []).append(_EndNote(key, name, process))
        self.known = True

    def of(self, client: End, broker: End, key: LineKey) -> EndNames:
        """What is known of a connection's ends for its line of `key`."""
        if not self.known:
            return NO_NAMES
        at_client, at_broker = self._noted(client, broker, key), self._noted(broker, client, key)
        names = self._name(client, at_client, key), self._name(broker, at_broker, key)
        return EndNames(*names, at_client.process)

    def _name(self, end: End, noted: _EndNote, key: LineKey) -> str | None:
        ip = end[0]
        given = self._given
        if given:
            name = given.get(end) or given.get((ip, None))
            if name is not None:
                return name
        if noted.name is not None:
            return noted.name
        learned = self._told.get(ip)
        return learned[1] if learned is not None and learned[0] < key else None

    def _noted(self, end: End, other: End, key: LineKey) -> _EndNote:
        """The latest note on an end before the line of `key`, since its connection's first frame."""
        for told in reversed(self._at.get((end, other), ())):
            if told.key < key:
                return told if told.key[1] >= key[2] else _NOTHING
        return _NOTHING


_NOTHING: Final = _EndNote(FIRST, None, None)
