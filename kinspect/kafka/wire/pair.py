"""One request and its response as the session paired them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from kinspect.kafka.wire.endpoints import Endpoints
from kinspect.kafka.wire.fetched import Fetched
from kinspect.kafka.wire.lineorder import UNPLACED
from kinspect.kafka.wire.message import WireMessage
from kinspect.model import Problem
from kinspect.protocol import schema
from kinspect.state import fields, fill

ANSWERED: Final = "answered"
UNANSWERED: Final = "unanswered"
NO_RESPONSE: Final = "no_response"
ORPHAN: Final = "orphan"
KAFKA: Final = "kafka"
SASL_TOKEN: Final = "sasl_token"
OUTCOMES: Final = (ANSWERED, UNANSWERED, NO_RESPONSE, ORPHAN)
REASONS: Final = ("capture_end", "closed", "reset", "gap", "one_sided", "cap", "idle", "acks_unknown")
KINDS: Final = (KAFKA, SASL_TOKEN)
UNCERTAIN: Final = "uncertain_pairing"
TOKEN_NAME: Final = "SaslToken"
"""Name shown as the API of a raw SASL token."""


class Pair:
    """A request and the response paired with it, or one of them alone.

    `request`, `response`: the messages, None for a missing one. `connection`: the ends of its connection. `kind`:
    `kafka` or `sasl_token`; `outcome` (`answered`, `unanswered`, `no_response`, `orphan`) and `outcome_reason` are the
    words of the JSON lines. `api_key`, `api_version` and `correlation_id` are None where no Kafka header was seen; then
    `api_candidates` are the names of APIs that fit. `completed_at`: ns since the epoch. `in_flight`: requests of the
    connection that waited when this one was sent; `queue_known` is False if others may have, or none of these. `role`,
    `principal`, `mechanism`, `software_name`, `software_version`: those of the client, as far as known. `client_name`,
    `broker_name`, `client_process`: see `kinspect.kafka.wire.hostnames`. `key`: place in the order of lines; `order`:
    number among the run's exchanges, from 1.
    """

    STATE: ClassVar = """
        kind api_key api_version correlation_id client_id in_flight latency_known plain_answer doubt
        queue_known retransmitted
    """.split()
    COMPLETED: ClassVar = """
        after_gap api_candidates completed_at fetched key mechanism noted order outcome outcome_reason
        previous_response_end principal request response role service_known software_name software_version
        throttled view client_name broker_name client_process
    """.split()
    __slots__ = (*STATE, *COMPLETED, "connection", "counted_errors", "found_problems", "summarised")

    def __init__(self, connection: Endpoints, kind: str) -> None:
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
        self.queue_known = True
        self.previous_response_end: int | None = None
        # No response may have been missed that came between its request and its own response.
        self.service_known = True
        self.latency_known = True
        # True if the response's header is known to be a correlation id alone.
        self.plain_answer = False
        # Reason of the outcome of a Produce whose acks could not be read: a response may not be due.
        self.doubt: str | None = None
        # A part of the request was sent again while it was in flight; not known of encrypted connections.
        self.retransmitted = False
        # The response, or the one before it on the connection, carried a throttle time.
        self.throttled = False
        self.noted: tuple[Problem, ...] = ()
        # What a fetch session stands for, as its request need not name it.
        self.fetched: Fetched | None = None
        # Others before it may be missing: the connection's begin was not seen, or bytes were lost since the last one.
        self.after_gap = False
        # Properties of the client, as known when the exchange completed.
        self.role: str | None = None
        self.principal: str | None = None
        self.mechanism: str | None = None
        self.software_name: str | None = None
        self.software_version: str | None = None
        self.client_name: str | None = None
        self.broker_name: str | None = None
        self.client_process: str | None = None
        # Cached by `kafka.bodysummary`.
        self.summarised: object = None
        self.found_problems: list[Problem] | None = None
        self.counted_errors: dict[int, int] | None = None
        # The options of `Exchange.to_dict`, if other than the default.
        self.view: Any = None

    def state(self) -> list[Any]:
        """State for `from_state` of an exchange that is not complete, as plain values."""
        messages = [message and message.state() for message in (self.request, self.response)]
        return [fields(self, self.STATE), messages, [tuple(problem) for problem in self.noted]]

    @classmethod
    def from_state(cls, state: Sequence[Any], ends: Endpoints) -> Self:
        own, (request, response), noted = state
        pair = cls(ends, KAFKA)
        fill(pair, cls.STATE, own)
        pair.request = request and WireMessage.from_state(request, ends)
        pair.response = response and WireMessage.from_state(response, ends)
        pair.noted = tuple(Problem(*problem) for problem in noted)
        return pair

    def copy(self) -> Self:
        """The same messages, with nothing kept of what was made of their bodies."""
        pair = type(self)(self.connection, self.kind)
        for name in (*self.STATE, *self.COMPLETED):
            setattr(pair, name, getattr(self, name))
        return pair

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.api} v{self.api_version} #{self.correlation_id} {self.outcome}>"

    @property
    def api(self) -> str | None:
        """Name of the API, as `Produce`; `SaslToken` for a raw SASL token, None for an unknown key."""
        if self.api_key is None:
            return TOKEN_NAME if self.kind == SASL_TOKEN else None
        return schema.api_name(self.api_key)

    @property
    def node_id(self) -> int | None:
        """Node id of the broker, if an earlier response reported it for the broker's address; else None."""
        ends = self.connection
        return ends.names.node_id(ends.broker_ip, ends.broker_port, self.key)

    @property
    def is_uncertain(self) -> bool:
        """True if the response may be that to another request."""
        return any(problem.code == UNCERTAIN for problem in self.noted)

    @property
    def timestamp(self) -> int | None:
        """Time of the first byte of the earliest message present, in ns since the epoch; None without packet times."""
        first = self.request.first_time if self.request is not None else None
        second = self.response.first_time if self.response is not None else None
        if first is None or second is None:
            return first if second is None else second
        return min(first, second)

    def spans(self, time: int) -> bool:
        """True if the request was sent before that time and the response, both present, came at it or later."""
        request, response = self.request, self.response
        begin = None if request is None else request.last_time
        end = None if response is None else response.first_time
        return begin is not None and end is not None and begin < time <= end

    @property
    def largest_message(self) -> int:
        """The greater `size` of its messages."""
        return max([message.size for message in (self.request, self.response) if message is not None])

    @property
    def latency_ns(self) -> int | None:
        """Nanoseconds from the request's last byte to the response's first; None if unanswered, if a gap touched either
        message, if the capture's clock was set meanwhile, and without packet times."""
        return self._since(None)

    @property
    def service_ns(self) -> int | None:
        """Like `latency_ns`, but from the last byte of the connection's previous response if that came later. A broker
        answers the requests of a connection one by one, so this leaves out the wait behind a client's own pipeline.
        None too where such a response may have been missed."""
        return self._since(self.previous_response_end) if self.service_known else None

    @property
    def waited_ns(self) -> int | None:
        """Nanoseconds from an unanswered request's last byte to the end of the wait for its answer; None for all
        others, and without packet times."""
        sent = self.request.last_time if self.request is not None else None
        if self.outcome != UNANSWERED or sent is None or self.completed_at is None:
            return None
        return self.completed_at - sent

    def _since(self, earliest: int | None) -> int | None:
        request, response = self.request, self.response
        if request is None or response is None or not self.latency_known or self.outcome != ANSWERED:
            return None
        begin, end = request.last_time, response.first_time
        if begin is None or end is None:
            return None
        return end - (begin if earliest is None else max(begin, earliest))
