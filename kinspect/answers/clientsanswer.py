"""Clients, their software, and what each sends: a row for each client id and client address."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from kinspect.analysis.answer import Answer, RecordStore, ResultContext, Row
from kinspect.analysis.client import Client, Connections, newest_versions
from kinspect.analysis.software import LIMITS, Limits, inferred
from kinspect.analysis.windows import Busiest, Windows
from kinspect.answers.celltexts import ERROR, listed, plain, reading, software
from kinspect.answers.definition import Definition, Key
from kinspect.kafka.bodysummary import error_counts
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import iso_time
from kinspect.kafka.wire.pair import TOKEN_NAME
from kinspect.model import NS_PER_SECOND
from kinspect.output.columns import Column
from kinspect.protocol import schema
from kinspect.protocol.apikeys import API_VERSIONS

STORMS = {api_key: float(often) for api_key, often in schema.traits("storm").items()}
"""Requests a second, over ten seconds, from which on an API is sent far too often.

A well-behaved client sends Metadata when it begins, on an error, and every five minutes (`metadata.max.age.ms`);
ApiVersions once a connection (KIP-35); FindCoordinator when it begins and when a coordinator moves; InitProducerId
once a producer (KIP-98). It waits 100 ms after an error (`retry.backoff.ms`; up to 1 s since KIP-580): ten a second are
a loop without progress. An application that makes a client for each message sends them as often as messages.
"""
SHARE = 5
"""The storm of a client id over many addresses is one of addresses that each send a fifth of the threshold or more: a
client that begins sends less."""

Use = tuple[int | None, int | None]
"""API key and version; None for a raw SASL token."""


@dataclass(slots=True)
class ClientUse(Client):
    """What a client sent and received."""

    connections: int = 0
    resets: int = 0
    encrypted: int = 0
    mechanisms: set[str] = field(default_factory=set)
    bytes_sent: int = 0
    bytes_received: int = 0
    uses: dict[Use, int] = field(default_factory=dict)
    errors: dict[tuple[int | None, int], int] = field(default_factory=dict)
    windows: Windows = field(default_factory=Windows)
    limits: set[Limits] = field(default_factory=set)


class Clients(Answer):
    """Accumulator of the rows."""

    lines = frozenset({"exchange", "connection"})

    def __init__(self) -> None:
        super().__init__()
        self._clients = self.records(ClientUse)
        self._connections = Connections(self, self._clients)

    def add(self, exchange: Exchange) -> None:
        client, is_new = self._connections.heard(exchange)
        if client is None:
            return
        connection = exchange.connection
        if is_new:
            client.connections += 1
            client.resets += self._connections.fact(connection.connection_id)
            client.encrypted += connection.tls
        self.keep(client.mechanisms, exchange.mechanism)
        if exchange.response is not None:
            client.bytes_received += exchange.response.size
        if exchange.request is not None:
            client.bytes_sent += exchange.request.size
            self._add_request(client, exchange, exchange.request.first_time)

    def _add_request(self, client: ClientUse, exchange: Exchange, time: int | None) -> None:
        api_key = exchange.api_key
        self.count(client.uses, (api_key, exchange.api_version))
        for code, times in error_counts(exchange).items():
            self.count(client.errors, (api_key, code), times)
        self._add_storm(client, api_key, time)
        if api_key == API_VERSIONS:
            self.keep(client.limits, _limits(exchange))

    def _add_storm(self, client: ClientUse, api_key: int | None, time: int | None) -> None:
        if api_key in STORMS and time is not None:
            client.windows.add(_name(api_key), time)

    def add_connection(self, line: dict[str, Any]) -> None:
        is_reset = line["end_reason"] == "reset"
        for client in self._connections.end(line["connection_id"], is_reset):
            client.resets += is_reset

    def result(self, context: ResultContext) -> list[Row]:
        rates = {ends: client.windows.busiest() for ends, client in self._clients.items()}
        of_ids = _together(self._clients, rates)
        nobody = _Together()
        rows = [
            _row(
                client_id,
                client_ip,
                client,
                client.role_within(context),
                _storms(rates[client_id, client_ip], of_ids.get(client_id, nobody)),
            )
            for (client_id, client_ip), client in self._clients.items()
        ]
        return sorted(rows, key=_place)


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: storms first, then the client that sends most."""
    names = row["client_id"] or "", row["client_ip"], row["client_id"] is None
    return not row["storms"], -row["requests"], -row["bytes_received"], *names


@dataclass(slots=True)
class _Together:
    """What a client id sends often over all its addresses, and from how many, by API."""

    windows: Windows = field(default_factory=Windows)
    addresses: Counter[str] = field(default_factory=Counter)


def _together(
    clients: RecordStore[ClientUse], rates: dict[tuple[str | None, str], dict[str, Busiest]]
) -> dict[str | None, _Together]:
    found: dict[str | None, _Together] = {}
    for (client_id, client_ip), client in clients.items():
        own = rates[client_id, client_ip]
        often = [name for name, least in THRESHOLDS.items() if _per_second(own, name) >= least / SHARE]
        if client_id and often:
            together = found.setdefault(client_id, _Together())
            together.windows.merge(client.windows.only(often))
            together.addresses.update(often)
    return found


def _row(
    client_id: str | None, client_ip: str, client: ClientUse, role: str | None, storms: list[Row]
) -> Row:
    return {
        "client_id": client_id,
        "client_ip": client_ip,
        "connections": client.connections,
        "role": role,
        "principal": client.principal[1] if client.principal else None,
        "sasl_mechanisms": sorted(client.mechanisms),
        "tls": client.encrypted > 0 if client.connections else None,
        **client.software_columns,
        "software_inferred": None if client.software else inferred(_versions(client), client.limits),
        "requests": client.requests,
        "bytes_sent": client.bytes_sent,
        "bytes_received": client.bytes_received,
        "apis": _apis(client),
        "storms": storms,
        "resets": client.resets,
        **client.times,
    }


def _apis(client: ClientUse) -> dict[str, Row]:
    """Requests by API and version, errors, and the rate; the most frequent API first."""
    counts: dict[int | None, dict[str, int]] = {}
    for (api_key, version), requests in sorted(client.uses.items(), key=_by_number):
        counts.setdefault(api_key, {})["" if version is None else str(version)] = requests
    totals = {api_key: sum(versions.values()) for api_key, versions in counts.items()}
    span = 0 if client.first is None or client.last is None else client.last - client.first
    return {
        _name(api_key): {
            "requests": total,
            "versions": {version: requests for version, requests in counts[api_key].items() if version},
            "errors": {
                schema.error_name(code or 0, key): times
                for (key, code), times in sorted(client.errors.items(), key=_by_number)
                if key == api_key
            },
            "per_second": round(total * NS_PER_SECOND / span, 3) if span >= NS_PER_SECOND else None,
        }
        for api_key, total in sorted(totals.items(), key=lambda item: (-item[1], _name(item[0])))
    }


def _storms(own: dict[str, Busiest], together: _Together) -> list[Row]:
    of_id, found = together.windows.busiest(), []
    for api, threshold in THRESHOLDS.items():
        if _per_second(own, api) >= threshold:
            found.append(_storm(api, own[api], threshold, 1))
        elif _per_second(own, api) >= threshold / SHARE and _per_second(of_id, api) >= threshold:
            found.append(_storm(api, of_id[api], threshold, together.addresses[api]))
    return found


def _per_second(busiest: dict[str, Busiest], api: str) -> float:
    return busiest[api].per_second if api in busiest else 0


def _storm(api: str, found: Busiest, threshold: float, addresses: int) -> Row:
    return {
        "api": api,
        "per_second": round(found.per_second, 3),
        "threshold": threshold,
        "addresses": addresses,
        "at": iso_time(found.begin),
    }


def _versions(client: ClientUse) -> dict[int, set[int]]:
    """The versions used, by API."""
    found: dict[int, set[int]] = {}
    for api_key, version in client.uses:
        if api_key is not None and version is not None:
            found.setdefault(api_key, set()).add(version)
    return found


def _name(api_key: int | None) -> str:
    """The name of an API; its key if it has none."""
    return TOKEN_NAME if api_key is None else schema.api_name(api_key) or str(api_key)


def _by_number(item: tuple[Use, int]) -> tuple[int, int]:
    (api_key, number), _ = item
    return -1 if api_key is None else api_key, -1 if number is None else number


def _limits(exchange: Exchange) -> Limits | None:
    """The newest versions that the broker offered, of the APIs that software is known by."""
    newest = newest_versions(exchange)
    return None if newest is None else tuple(map(newest.get, LIMITS))


THRESHOLDS = {_name(api_key): threshold for api_key, threshold in STORMS.items()}


def _storm_texts(storms: list[Row]) -> str:
    return ", ".join(_storm_text(storm) for storm in storms)


def _storm_text(storm: Row) -> str:
    over = f" over {storm['addresses']:,} addresses" if storm["addresses"] > 1 else ""
    return f"{storm['api']} {storm['per_second']:.1f}/s{over}"


def _login(row: Row) -> str:
    return " ".join(
        filter(None, (row["principal"], ",".join(row["sasl_mechanisms"]), "TLS" if row["tls"] else ""))
    )


def _errors(row: Row) -> str:
    counts: dict[str, int] = {}
    for api in row["apis"].values():
        for name, times in api["errors"].items():
            counts[name] = counts.get(name, 0) + times
    return listed(dict(sorted(counts.items(), key=lambda item: -item[1])), 2)


def _busiest_apis(apis: Row) -> str:
    return listed({name: api["requests"] for name, api in apis.items()}, 4)


def _more(file: str, rows: list[Row]) -> str:
    first = rows[0]
    return reading(file, first["client_id"], first["storms"][0]["api"] if first["storms"] else None)


ANSWER = Definition(
    Clients,
    help="Which clients there are, their software, and what each sends.",
    page="3",
    page_help="software, requests, storms",
    columns=(
        Key("client_id", "text", "", "CLIENT ID", opens="client-id"),
        Key("client_ip", "text", "", "ADDRESS", plain, rank=3, opens="client-host"),
        Key("connections", "long", "Connections on which it sent or received", "CONNS", rank=5),
        Key("role", "text", "Its strongest role", "ROLE", rank=1),
        Key("principal", "text", "User name that the client last logged in as"),
        Key("sasl_mechanisms", "texts", "Mechanisms that it asked for"),
        Key("tls", "bool", "Whether a connection was TLS that was decrypted"),
        Column("LOGIN", _login, rank=7),
        Key("software_name", "text", "As the client named itself"),
        Key("software_version", "text"),
        Key("software_inferred", "text", "A guess, for a client that names no software"),
        Column("SOFTWARE", software, rank=1, least=24),
        Key("requests", "long", "", "REQUESTS"),
        Key("bytes_sent", "long", "", "SENT", rank=6),
        Key("bytes_received", "long", "", "RECEIVED", rank=6),
        Key(
            "apis",
            "api_use_map",
            "By API: requests, versions, errors, requests a second",
            "APIS",
            _busiest_apis,
            rank=8,
        ),
        Column("ERRORS", _errors, rank=2, style=lambda _: ERROR, least=20),
        Key("storms", "storms", "APIs that are sent far too often", "STORMS", _storm_texts, style=ERROR),
        Key("resets", "long", "Connections that a reset ended", "RESETS", rank=4),
        Key("first", "time", "When the first request began"),
        Key("last", "time", "When the last request began"),
    ),
    order="CLIENT ID, ADDRESS, STORMS, ROLE, SOFTWARE, CONNS, RESETS, REQUESTS, SENT, RECEIVED, ERRORS, LOGIN, APIS",
    structs={
        "api_use": "requests long, versions counts, errors counts, per_second double",
        "storm": "api text, per_second double, threshold double, addresses long, at time",
    },
    identity="client_id",
    addresses="client_ip",
    compared="role principal sasl_mechanisms tls software_name software_version apis.versions requests resets",
    nothing="no client was seen",
    more=_more,
)
