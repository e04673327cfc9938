"""Who authenticated how, who failed and why: a row for each client id, client address, mechanism and principal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kinspect.analysis.answer import Answer, ResultContext, Row
from kinspect.analysis.client import client_key
from kinspect.analysis.record import GREATEST, TimedRecord, later
from kinspect.answers.celltexts import ERROR, NOTE, counted, plain
from kinspect.answers.definition import Clock, Definition, Key
from kinspect.errors import shortened
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.pair import ANSWERED, SASL_TOKEN, UNANSWERED
from kinspect.model import drop_oldest
from kinspect.protocol import schema
from kinspect.protocol.apikeys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE

LOGINS_KEPT = 30_000
"""Largest number of connections with a login under way; the oldest is forgotten."""
LOGIN_APIS = "Sasl*"
"""The filter of logins, by API."""
RIGHT_AFTER_NS = 5_000_000_000
"""Time after a token within which its connection's end is the broker's refusal: clients wait longer for an answer."""

# Tokens of the client with which a login is done: RFC 4616, RFC 5802, RFC 7628. Of other mechanisms it is known when
# the client goes on.
_TOKENS = {"PLAIN": 1, "SCRAM-SHA-256": 2, "SCRAM-SHA-512": 2, "OAUTHBEARER": 1}
_CLOSED = frozenset({"closed", "reset"})
_HANDSHAKE = frozenset({"mechanism"})
_ERROR = frozenset({"error_code", "error_message"})

Client = tuple[str | None, str, str | None, str | None]
"""Client id, address, mechanism, principal."""


@dataclass(slots=True)
class _Logins(TimedRecord):
    """Logins of one client."""

    succeeded: int = 0
    failed: int = 0
    probably_failed: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    tls: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)


@dataclass(slots=True)
class _Login:
    """A login on a connection: its tokens so far, and whether its end is known. `doubtful`: an answer that may have
    refused it was not captured."""

    client: Client
    tokens: int = 0
    decided: bool = False
    doubtful: bool = False


class Auth(Answer):
    """Accumulator of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self._clients = self.records(_Logins)
        # By connection; the one begun last stands last.
        self._logins: dict[str, _Login] = {}

    def add(self, exchange: Exchange) -> None:
        if exchange.api_key == SASL_HANDSHAKE:
            self._add_handshake(exchange)
        elif exchange.api_key == SASL_AUTHENTICATE or exchange.kind == SASL_TOKEN:
            self._add_token(exchange)
        elif self._logins and exchange.outcome == ANSWERED and exchange.api_key != API_VERSIONS:
            # Brokers answer nothing else before the login is done, but with errors after they refused it.
            login = self._logins.pop(exchange.connection.connection_id, None)
            if login is not None and login.tokens and not login.decided and not login.doubtful:
                self._count(login, "succeeded")

    def _add_handshake(self, exchange: Exchange) -> None:
        if exchange.request is None:
            return
        mechanism = (exchange.request.facts(_HANDSHAKE).body or {}).get("mechanism")
        login = self._begin(exchange, (*_client(exchange)[:2], mechanism, None))
        if _error_code(exchange):
            self._touch(exchange, login.client)
            self._fail(login, _error(exchange))
            del self._logins[exchange.connection.connection_id]

    def _add_token(self, exchange: Exchange) -> None:
        if exchange.request is None:
            return
        login = self._logins.get(exchange.connection.connection_id)
        if login is None:
            login = self._begin(exchange, _client(exchange))
        login.client = _client(exchange)
        login.tokens += 1
        self._touch(exchange, login.client)
        is_cut = exchange.response is not None and not exchange.response.complete
        login.doubtful |= exchange.outcome == UNANSWERED or is_cut
        refusal = exchange.summary.refusal
        if login.decided:
            return
        if refusal is not None or _error_code(exchange):
            self._fail(login, refusal or _error(exchange))
        elif _was_closed_on(exchange):
            self._count(login, "probably_failed")
        elif (
            exchange.outcome == ANSWERED
            and not login.doubtful
            and login.tokens == _TOKENS.get(login.client[2] or "")
        ):
            self._count(login, "succeeded")

    def _begin(self, exchange: Exchange, client: Client) -> _Login:
        connection = exchange.connection.connection_id
        self._logins.pop(connection, None)
        login = self._logins[connection] = _Login(client)
        self.left_out += drop_oldest(self._logins, LOGINS_KEPT)
        return login

    def _fail(self, login: _Login, reason: str | None) -> None:
        client = self._count(login, "failed")
        if client is not None and reason is not None:
            self.count(client.reasons, reason)

    def _count(self, login: _Login, how: str) -> _Logins | None:
        login.decided = True
        client = self._clients.of(*login.client)
        if client is not None:
            setattr(client, how, getattr(client, how) + 1)
        return client

    def _touch(self, exchange: Exchange, client: Client) -> _Logins | None:
        found = self._clients.of(*client)
        if found is not None:
            found.note_time(exchange.timestamp)
            found.tls = later(found.tls, exchange.key, exchange.connection.tls)
        return found

    def result(self, context: ResultContext) -> list[Row]:
        rows = [_row(client, logins) for client, logins in self._clients.items()]
        return sorted(rows, key=_place)


def _client(exchange: Exchange) -> Client:
    return *client_key(exchange), exchange.mechanism, exchange.principal


def _answer(exchange: Exchange) -> dict[str, Any]:
    """Error code and message of the answer, as far as it was captured."""
    if exchange.response is None or exchange.kind == SASL_TOKEN:
        return {}
    return exchange.response.facts(_ERROR).body or {}


def _error_code(exchange: Exchange) -> int | None:
    """The error code of the answer; None if it was not captured, or is a raw token."""
    return _answer(exchange).get("error_code")


def _error(exchange: Exchange) -> str | None:
    """The broker's words for its refusal; if it has none, the name of its error code. None if they were cut off."""
    assert exchange.response is not None
    body = _answer(exchange)
    name = schema.error_name(body["error_code"], exchange.api_key) if exchange.response.complete else None
    text = body.get("error_message") or name
    return None if text is None else shortened(text)


def _was_closed_on(exchange: Exchange) -> bool:
    """True for a raw token that the broker answered by closing: before 1.0 it has no other way (KIP-152)."""
    if (
        exchange.kind != SASL_TOKEN
        or exchange.outcome != UNANSWERED
        or exchange.outcome_reason not in _CLOSED
    ):
        return False
    assert exchange.request is not None
    sent, closed = exchange.request.last_time, exchange.completed_at
    return sent is None or closed is None or closed - sent <= RIGHT_AFTER_NS


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: those that failed most first."""
    names = tuple(row[key] or "" for key in ("client_id", "client_ip", "mechanism", "principal"))
    return -row["failed"] - row["probably_failed"], -row["succeeded"], *names


def _row(client: tuple[Any, ...], logins: _Logins) -> Row:
    client_id, client_ip, mechanism, principal = client
    return {
        "client_id": client_id,
        "client_ip": client_ip,
        "principal": principal,
        "mechanism": mechanism,
        "succeeded": logins.succeeded,
        "failed": logins.failed,
        "probably_failed": logins.probably_failed,
        "reasons": dict(sorted(logins.reasons.items())),
        "tls": logins.tls[1] if logins.tls else None,
        **logins.times,
    }


def _some(count: int) -> str:
    """A number; nothing for 0."""
    return f"{count:,}" if count else ""


def _details(row: Row, _: Clock) -> list[str]:
    lines = [f"{counted(count, 'time')}: {reason}" for reason, count in row["reasons"].items()]
    if row["probably_failed"]:
        times = counted(row["probably_failed"], "time")
        lines.append(f"{times}: the broker closed the connection right after the token")
    return lines


def _next(file: str, rows: list[Row]) -> str:
    refused = rows[0]["failed"] or rows[0]["probably_failed"]
    return f"kinspect read {file} --api '{LOGIN_APIS}'" + " --errors-only" * bool(refused)


ANSWER = Definition(
    Auth,
    help="Who authenticated how, who failed, and why.",
    page="8",
    page_help="logins",
    columns=(
        Key("client_id", "text", "", "CLIENT ID", opens="client-id"),
        Key("client_ip", "text", "", "ADDRESS", plain, rank=2, opens="client-host"),
        Key("principal", "text", "User name in its tokens", "PRINCIPAL"),
        Key(
            "mechanism",
            "text",
            "Mechanism that it asked for",
            "MECHANISM",
            rank=1,
            opens=lambda _: [("api", LOGIN_APIS)],
        ),
        Key("succeeded", "long", "Logins", "SUCCEEDED", _some),
        Key("failed", "long", "Logins that the broker refused", "FAILED", _some, style=ERROR),
        Key(
            "probably_failed",
            "long",
            "Raw tokens after which the broker closed the connection",
            "PROBABLY FAILED",
            _some,
            style=NOTE,
        ),
        Key("reasons", "counts", "Reasons of failed logins"),
        Key(
            "tls",
            "bool",
            "Whether the connection was TLS that was decrypted",
            "TLS",
            lambda tls: "yes" if tls else "no",
            rank=3,
        ),
        Key("first", "time", "When the first of its tokens began"),
        Key("last", "time", "When the last of its tokens began"),
    ),
    order="FAILED, PROBABLY FAILED, SUCCEEDED, CLIENT ID, ADDRESS, MECHANISM, PRINCIPAL, TLS",
    identity="client_id principal mechanism",
    addresses="client_ip",
    compared="failed tls",
    nothing="no client authenticated by SASL",
    more=_next,
    details=_details,
)
