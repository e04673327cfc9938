"""Actions of exchanges: texts from their messages, beside the keys of a line."""

from __future__ import annotations

from typing import Any, NamedTuple

from kinspect.kafka.bodysummary import REQUEST_DATA
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.fields import entities, resources
from kinspect.kafka.wire.pair import SASL_TOKEN
from kinspect.protocol import schema
from kinspect.protocol.apikeys import END_TXN, JOIN_GROUP, LEAVE_GROUP, SASL_HANDSHAKE
from kinspect.protocol.fieldpaths import field_paths
from kinspect.wording import cut_at

TYPES = {"acl": resources.ACL_TYPES, "config": resources.CONFIG_TYPES}
"""The names of the types of resources, by what a request names them for."""
RESOURCES_SHOWN = 3
WORDS_SHOWN = 60
"""Characters of a name or a text of a broker; a longer reason of a member that joins or leaves is left to the body."""


class Action(NamedTuple):
    """Action of an exchange, not escaped. `refused`: the refusal of a login; `name`: the action or its object;
    `reasons`: texts of clients and brokers about it."""

    refused: str | None
    name: str | None
    reasons: list[str]


NO_ACTION = Action(None, None, [])


def action_of(exchange: Exchange) -> Action:
    """The exchange's action, with a refused login and reasons."""
    return Action(refused(exchange), action_name(exchange), reasons(exchange))


def refused(exchange: Exchange) -> str | None:
    """`login refused (invalid_token)`, where the broker's SASL token says so."""
    refusal = exchange.summary.refusal
    return None if refusal is None else f"login refused ({refusal})"


_EPOCHS = "member_epoch", {0: "join", -1: "leave", -2: "leave (static member)"}
ACTIONS: dict[int | None, tuple[str, dict[Any, str]]] = {
    END_TXN: ("committed", {True: "commit", False: "abort"}),
    **dict.fromkeys(schema.apis_with("member", "epoch"), _EPOCHS),
}
"""By API, the request's field that names the action, and words for its values. Members of groups join and leave with
special epochs (KIP-848); a static member that leaves with -2 comes back under its name."""


def action_name(exchange: Exchange) -> str | None:
    """The API of the request inside an Envelope, the mechanism and user of a login, the resources besides topics of
    configs and ACLs, or else the word of `ACTIONS`. None for other exchanges."""
    inner = exchange.summary.inner(REQUEST_DATA)
    if inner is not None:
        return f"{schema.api_name(inner.header.api_key)} v{inner.header.api_version}"
    if is_login(exchange.kind, exchange.api_key):
        return _login(exchange)
    named_for = schema.trait("resource", exchange.api_key)
    if named_for is not None:
        return _resources(exchange, TYPES[named_for])
    if exchange.api_key not in ACTIONS:
        return None
    field, words = ACTIONS[exchange.api_key]
    return words.get(_request_body(exchange).get(field))


def is_login(kind: str, api_key: int | None) -> bool:
    """True if an exchange of this kind and API is a part of a login."""
    return kind == SASL_TOKEN or schema.trait("begins", api_key) == "login"


def _login(exchange: Exchange) -> str | None:
    # A handshake comes before the user's name: one known by then is that of an earlier login.
    user = None if exchange.api_key == SASL_HANDSHAKE else exchange.principal
    parts = [exchange.mechanism and _shortened(exchange.mechanism), user and f"user {_shortened(user)}"]
    return " ".join(filter(None, parts)) or None


def _resources(exchange: Exchange, types: dict[int, str]) -> str | None:
    layout = None if exchange.request is None else exchange.request.decode().layout
    found = field_paths(layout, resources.is_name).walk(_request_body(exchange))
    structs = [struct for _, struct, _ in found]
    fields = resources.resource_fields(structs[0]) if structs else None
    if fields is None:
        return None
    others = (struct for struct in structs if fields.topic(struct) is None)
    texts = [*dict.fromkeys(_shortened(fields.text(struct, types)) for struct in others)]
    more = f" +{len(texts) - RESOURCES_SHOWN}" if len(texts) > RESOURCES_SHOWN else ""
    return ", ".join(texts[:RESOURCES_SHOWN]) + more or None


def reasons(exchange: Exchange) -> list[str]:
    """Reasons for which members join or leave, the short ones, each once; then the broker's message for its first
    error."""
    members: list[dict[str, Any]] = []
    if exchange.api_key == JOIN_GROUP:
        members = [_request_body(exchange)]
    elif exchange.api_key == LEAVE_GROUP:
        members = _request_body(exchange).get("members", [])
    given = dict.fromkeys(member.get("reason") for member in members)
    message = _error_message(exchange)
    found = [reason for reason in given if reason and len(reason) <= WORDS_SHOWN]
    return [*found, _shortened(message)] if message else found


def _error_message(exchange: Exchange) -> str | None:
    if exchange.response is None or not exchange.summary.error_codes:
        return None
    decoded = exchange.response.facts()
    if decoded.layout is None or decoded.body is None:
        return None
    found = field_paths(decoded.layout, entities.is_error_message).walk(decoded.body)
    return next((struct[name] for _, struct, name in found if struct[name]), None)


def _request_body(exchange: Exchange) -> dict[str, Any]:
    return (exchange.request.facts().body if exchange.request is not None else None) or {}


def _shortened(text: str) -> str:
    return cut_at(text, WORDS_SHOWN)
