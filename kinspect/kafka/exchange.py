"""One request and its response as the session paired them; bodies are decoded when asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, ClassVar

from kinspect.kafka import summary, view
from kinspect.kafka.order import UNPLACED
from kinspect.model import Caps, Problem
from kinspect.protocol import Decoded, decode_body, schema
from kinspect.state import fields, fill

if TYPE_CHECKING:
    from kinspect.kafka.flow import Ends

ANSWERED, UNANSWERED, NO_RESPONSE, ORPHAN = "answered", "unanswered", "no_response", "orphan"
KAFKA, SASL_TOKEN = "kafka", "sasl_token"
TOKEN_NAME = "SaslToken"
"""Name shown as the API of a raw SASL token."""

DEFAULT_CAPS = Caps()
NOTHING_DECODED = Decoded(None, None, False, ())


class WireMessage:
    """A request or a response as it lay on the wire.

    `raw` holds the message without its 4-byte size, as far as it was captured (None: dropped by a cap);
    `size` is what the 4-byte size announced; `body_start` is where the body begins in `raw`. Times are
    nanoseconds since the epoch (None: the capture has none), `first_frame`/`last_frame` frame references
    (`model.FRAME_BITS`). `complete` is true if every byte is there; `offset` is where the message with its size begins
    in the stream of its direction (in the plaintext, if it is encrypted). `api_key` is None where the layout is not
    known (an orphan response, a raw SASL token): then there is no body. `ends` are those of its connection, with the
    caps that apply and the counts of what they cut; None for a message alone.
    """

    STATE: ClassVar = (
        *("direction", "raw", "size", "body_start", "first_time", "last_time", "first_frame"),
        *("last_frame", "packets", "complete", "offset", "inferred", "api_key", "api_version"),
    )
    __slots__ = (*STATE, "_cut", "_decoded", "_fields", "ends")

    def __init__(
        self,
        direction: str,
        raw: bytes | None,
        size: int,
        body_start: int,
        first_time: int | None,
        last_time: int | None,
        first_frame: int,
        last_frame: int,
        packets: int,
        complete: bool,
        offset: int = 0,
    ) -> None:
        self.direction = direction
        self.raw = raw
        self.size = size
        self.body_start = body_start
        self.first_time = first_time
        self.last_time = last_time
        self.first_frame = first_frame
        self.last_frame = last_frame
        self.packets = packets
        self.complete = complete
        self.offset = offset
        self.inferred = False
        self.ends: Ends | None = None
        self.api_key: int | None = None
        self.api_version: int | None = None
        self._cut = False
        self._decoded: Decoded | None = None
        self._fields: frozenset[str] | None = None

    def state(self) -> list[Any]:
        """State for `from_state`, as plain values."""
        return fields(self, self.STATE)

    @classmethod
    def from_state(cls, state: Sequence[Any], ends: Ends | None) -> WireMessage:
        message = cls(*state[:11])
        message.inferred, message.api_key, message.api_version = state[11:]
        message.ends = ends
        return message

    def decode(self, fields: frozenset[str] | None = None) -> Decoded:
        """The body, whole or only the dotted `fields` asked for; kept for the next call."""
        if self._decoded is not None and (self._fields is None or self._fields == fields):
            return self._decoded
        if self.raw is None or self.api_key is None or self.api_version is None:
            decoded = NOTHING_DECODED
        else:
            decoded = decode_body(
                self.api_key,
                self.api_version,
                self.direction,
                self.raw,
                self.body_start,
                len(self.raw),
                fields,
                0,
                DEFAULT_CAPS.body_bytes if self.ends is None else self.ends.caps.body_bytes,
            )
            if decoded.problems and self.ends is not None and not self._cut:
                self._cut = any(problem.code == "cap" for problem in decoded.problems)
                if self._cut:
                    self.ends.counts.hit("body_bytes")
            if not self.complete:
                # `complete` and the cause of the cut tell it already: that the bytes run out is no second problem.
                problems = tuple(p for p in decoded.problems if p.code != "malformed")
                decoded = decoded._replace(complete=False, problems=problems)
        self._decoded, self._fields = decoded, fields
        return decoded

    def forget(self) -> None:
        """Drop the decoded body; it is decoded again when asked for."""
        self._decoded = None

    @property
    def body(self) -> dict[str, Any] | None:
        """Kafka's fields as plain Python values (`kinspect.protocol`); None if there is no known layout."""
        return self.decode().body


class Exchange:
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
        *("_problems", "_summary", "api_candidates", "completed_at", "connection", "key"),
        *("mechanism", "noted", "order", "outcome", "outcome_reason", "previous_response_end"),
        *("principal", "request", "response", "role", "software_name", "software_version"),
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
        self._summary: summary.Summary | None = None
        self._problems: list[Problem] | None = None

    def state(self) -> list[Any]:
        """State for `from_state` of an exchange that is not complete, as plain values."""
        messages = [message and message.state() for message in (self.request, self.response)]
        return [fields(self, self.STATE), messages, [astuple(problem) for problem in self.noted]]

    @classmethod
    def from_state(cls, state: Sequence[Any], ends: Ends) -> Exchange:
        own, (request, response), noted = state
        exchange = cls(ends, KAFKA)
        fill(exchange, cls.STATE, own)
        exchange.request = request and WireMessage.from_state(request, ends)
        exchange.response = response and WireMessage.from_state(response, ends)
        exchange.noted = tuple(Problem(*problem) for problem in noted)
        return exchange

    def __repr__(self) -> str:
        return f"<Exchange {self.api} v{self.api_version} #{self.correlation_id} {self.outcome}>"

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

    @property
    def latency_ms(self) -> float | None:
        """`latency_ns` in milliseconds."""
        return view.milliseconds(self.latency_ns)

    @property
    def summary(self) -> summary.Summary:
        """Topics, partitions, groups, records and errors of both bodies; computed once."""
        found = self._summary
        if found is None:
            found = self._summary = summary.Summary(self)
        return found

    @property
    def problems(self) -> list[Problem]:
        """All problems of either message and of their pairing; computed once."""
        found = self._problems
        if found is None:
            found = self._problems = summary.problems(self)
        return found

    def to_dict(self, options: view.View | None = None) -> dict[str, Any]:
        """The exchange as the JSON line's object: keys and meanings are in docs/output.md."""
        return (options or view.DEFAULT).exchange(self)
