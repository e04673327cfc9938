"""A client, that is a client id at an address: what its exchanges say of it, and its connections."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Generic, TypeVar

from kinspect.analysis.answer import Answer, RecordStore, ResultContext
from kinspect.analysis.record import GREATEST, TimedRecord, later
from kinspect.filters.filterdefinitions import CLIENTS, END, cutting_more
from kinspect.kafka.connection.roles import ADMIN, stronger
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.model import drop_oldest

CONNECTIONS_KEPT = 100_000
"""Largest number of open connections, each counted once for each client on it."""
ENDED_KEPT = 4096

_RANGES = frozenset({"error_code", "api_keys.api_key", "api_keys.max_version"})

ClientKey = tuple[str | None, str]
"""Client id and address."""


def client_key(exchange: Exchange) -> ClientKey:
    """The client of an exchange."""
    return exchange.client_id, exchange.connection.client_ip


def newest_versions(exchange: Exchange) -> dict[int, int] | None:
    """The newest version of each API that the broker has, from an answer to ApiVersions; None if it does not say."""
    decoded = exchange.response.decode(_RANGES) if exchange.response is not None else None
    if decoded is None or not decoded.complete or decoded.body is None or decoded.body["error_code"] != 0:
        return None
    return {struct["api_key"]: struct["max_version"] for struct in decoded.body["api_keys"] or ()}


@dataclass(slots=True)
class Client(TimedRecord):
    """Record of a client. `gaps`: how often others of its exchanges may be missing before one."""

    requests: int = 0
    gaps: int = 0
    roles: dict[str, int] = field(default_factory=dict)
    software: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)
    principal: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)

    def note(self, exchange: Exchange) -> None:
        """Count an exchange; answers without their request are none, and do not show when it began."""
        self.requests += exchange.request is not None
        self.gaps += exchange.after_gap
        role = exchange.role
        if role is not None:
            self.roles[role] = self.roles.get(role, 0) + 1
        name, version = exchange.software_name, exchange.software_version
        if name or version:
            self.software = later(self.software, exchange.key, (name, version))
        if exchange.principal is not None:
            self.principal = later(self.principal, exchange.key, exchange.principal)
        if exchange.request is not None:
            self.note_time(exchange.timestamp)

    def role_within(self, context: ResultContext) -> str | None:
        """Its role; None for `admin` where exchanges of it were left out: brokers send such requests too."""
        return None if self.role == ADMIN and cutting_more(context.options, CLIENTS, END) else self.role

    @property
    def role(self) -> str | None:
        """The strongest of its roles that were seen; among equals that of most exchanges."""
        most_first = sorted(self.roles, key=lambda role: (-self.roles[role], role))
        return reduce(stronger, most_first, None)

    def is_whole(self, context: ResultContext) -> bool:
        """True if no exchange of it is known to be missing, up to the end."""
        return not (self.gaps or cutting_more(context.options, CLIENTS, END))

    @property
    def software_columns(self) -> dict[str, str | None]:
        """The columns of the software that it named last."""
        name, version = self.software[1] if self.software else (None, None)
        return {"software_name": name, "software_version": version}


C = TypeVar("C", bound=Client)


class Connections(Generic[C]):
    """Clients by connection. `clients`: the answer's records of them.

    Of too many open connections the one that began first is forgotten, and counted in the answer's `left_out`: it is
    taken for a new one if it goes on. An ended one is known for a while: exchanges whose packets came late stand behind
    its line."""

    def __init__(self, answer: Answer, clients: RecordStore[C]) -> None:
        self._answer = answer
        self._clients = clients
        self._open: dict[str, set[ClientKey]] = {}
        self._held = 0
        self._ended: dict[str, tuple[set[ClientKey], bool]] = {}

    def heard(self, exchange: Exchange) -> tuple[C | None, bool]:
        """The record of an exchange's client, if there is room for it, with the exchange noted; and True for the
        client's first exchange on the connection."""
        key = client_key(exchange)
        client = self._clients.of(*key)
        if client is None:
            return None, False
        client.note(exchange)
        return client, self.is_new(exchange.connection.connection_id, key)

    def is_new(self, connection_id: str, client: ClientKey) -> bool:
        """True for the client's first exchange on the connection; one that was not seen has no id."""
        if not connection_id:
            return False
        ended = self._ended.get(connection_id)
        clients = self._open.setdefault(connection_id, set()) if ended is None else ended[0]
        if client in clients:
            return False
        clients.add(client)
        if ended is None:
            self._held += 1
            if self._held > CONNECTIONS_KEPT:
                self._close(next(iter(self._open)))
                self._answer.left_out += 1
        return True

    def end(self, connection_id: str, fact: bool) -> list[C]:
        """Note that a connection ended, with a `fact` of its line; return the clients on it."""
        clients = self._close(connection_id)
        self._ended[connection_id] = clients, fact
        drop_oldest(self._ended, ENDED_KEPT)
        return [client for key in clients if (client := self._clients.of(*key)) is not None]

    def fact(self, connection_id: str) -> bool:
        """The fact known at the connection's end; False before that."""
        ended = self._ended.get(connection_id)
        return ended is not None and ended[1]

    def _close(self, connection_id: str) -> set[ClientKey]:
        clients = self._open.pop(connection_id, set())
        self._held -= len(clients)
        return clients
