"""One request and its response as the session paired them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any, ClassVar, Self

from kinspect.kafka.wire.ends import Ends
from kinspect.kafka.wire.message import WireMessage
from kinspect.kafka.wire.order import UNPLACED
from kinspect.model import Problem
from kinspect.protocol import schema
from kinspect.state import fields, fill

ANSWERED, UNANSWERED, NO_RESPONSE, ORPHAN = "answered", "unanswered", "no_response", "orphan"
KAFKA, SASL_TOKEN = "kafka", "sasl_token"
TOKEN_NAME = "SaslToken"
"""Name shown as the API of a raw SASL token."""


class Pair:
    """A request and the response paired with it, or one of them alone.

    `kind` is `kafka` or `sasl_token`; `outcome` and `outcome_reason` are the words of the JSON lines. `api_key`,
    `api_version` and `correlation_id` are None where no Kafka header was seen. `key` is its place in the order of
    lines, `order` numbers the exchanges of a run from 1 in that order. `request`, `response`: the messages, None where
    there is none.
    """

    STATE: ClassVar = (
        *("kind", "api_key", "api_version", "correlation_id", "client_id", "in_flight"),
        *("latency_known", "plain_answer", "doubt"),
    )
    __slots__ = (
        *STATE,
        *("api_candidates", "completed_at", "connection", "found_problems", "key", "mechanism"),
        *("noted", "order", "outcome", "outcome_reason", "previous_response_end", "principal"),
        *("request", "response", "role", "software_name", "software_version", "summarised", "view"),
    )

    def __init__(self, connection: Ends, kind: str) -> None:
        self.connection = connection
        self.kind = kind
        self.api_key: int | None = None
        self.api_version: int | None = None
        self.correlation_id: int | None = None
        self.client_id: str | None = None
        self.request: WireMessage | None = None
        self.response: WireMessage | None = None
        self.outcome = UNANSWERED
        self.outcome_reason: str | None = None
        self.api_candidates: tuple[str, ...] = ()
        self.key = UNPLACED
        self.order = 0
        self.completed_at: int | None = None
        self.in_flight = 0
        self.previous_response_end: int | None = None
        self.latency_known = True
        # The response's header is known to be its correlation id alone; else that must be looked up.
        self.plain_answer = False
        # For a Produce whose acks could not be read, so that an answer may not be due: the outcome's reason.
        self.doubt: str | None = None
        self.noted: tuple[Problem, ...] = ()
        # Facts about the client that the session knew when the exchange completed.
        self.role: str | None = None
        self.principal: str | None = None
        self.mechanism: str | None = None
        self.software_name: str | None = None
        self.software_version: str | None = None
        # Kept by `kafka.summary` for the next call.
        self.summarised: object = None
        self.found_problems: list[Problem] | None = None
        # The options of `Exchange.to_dict`, if other than the default.
        self.view: Any = None

    def state(self) -> list[Any]:
        """State for `from_state` of an exchange that is not complete, as plain values."""
        messages = [message and message.state() for message in (self.request, self.response)]
        return [fields(self, self.STATE), messages, [astuple(problem) for problem in self.noted]]

    @classmethod
    def from_state(cls, state: Sequence[Any], ends: Ends) -> Self:
        own, (request, response), noted = state
        pair = cls(ends, KAFKA)
        fill(pair, cls.STATE, own)
        pair.request = request and WireMessage.from_state(request, ends)
        pair.response = response and WireMessage.from_state(response, ends)
        pair.noted = tuple(Problem(*problem) for problem in noted)
        return pair

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.api} v{self.api_version} #{self.correlation_id} {self.outcome}>"

    @property
    def api(self) -> str | None:
        """The API's name, None for an unknown key."""
        if self.api_key is None:
            return TOKEN_NAME if self.kind == SASL_TOKEN else None
        return schema.api_name(self.api_key)

    @property
    def node_id(self) -> int | None:
        """The broker's node id, if an earlier response told it for the broker's address; else None."""
        ends = self.connection
        return ends.names.node_id(ends.broker_ip, ends.broker_port, self.key)

    @property
    def timestamp(self) -> int | None:
        """Time of the first byte of the earliest message present, nanoseconds since the epoch."""
        first = self.request.first_time if self.request is not None else None
        second = self.response.first_time if self.response is not None else None
        if first is None or second is None:
            return first if second is None else second
        return min(first, second)

    @property
    def latency_ns(self) -> int | None:
        """Nanoseconds from the request's last byte to the response's first; None if unanswered or a gap touched one."""
        return self._since(None)

    @property
    def service_ns(self) -> int | None:
        """`latency_ns`, but from the previous response's last byte if that came later: the broker answers the
        requests of a connection one after the other, so a client's own pipelining is not its fault."""
        return self._since(self.previous_response_end)

    def _since(self, earliest: int | None) -> int | None:
        request, response = self.request, self.response
        if request is None or response is None or not self.latency_known or self.outcome != ANSWERED:
            return None
        begin, end = request.last_time, response.first_time
        if begin is None or end is None:
            return None
        return end - (begin if earliest is None else max(begin, earliest))
