"""The exchange: a request with its response, as `kinspect.read` gives it."""

from __future__ import annotations

from typing import Any

from kinspect.kafka import bodysummary
from kinspect.kafka.fields import envelope
from kinspect.kafka.view import view
from kinspect.kafka.wire import eventid, wait
from kinspect.kafka.wire.fetched import TopicRef
from kinspect.kafka.wire.pair import Pair
from kinspect.model import Problem
from kinspect.protocol.apikeys import ENVELOPE


class Exchange(Pair):
    """A request with its response (see `Pair`), the names and counts in their bodies, and the JSON line."""

    __slots__ = ()

    @property
    def event_id(self) -> str:
        """Id of the exchange, the same in every run over its packets: a hash of connection, direction and stream offset
        of its earliest message, as 32 hex digits."""
        return eventid.exchange_id(self)

    @property
    def latency_ms(self) -> float | None:
        """`latency_ns` in milliseconds, None like it."""
        return view.milliseconds(self.latency_ns)

    @property
    def wait(self) -> str | None:
        """The cause of its wait, by `kinspect.kafka.wire.wait`: `broker`, `long_poll`, `group_wait`, `queued`,
        `throttled` or `retransmitted`; None if its time is not known."""
        return wait.wait(self, self.service_ns, self.latency_ns)

    @property
    def summary(self) -> bodysummary.BodySummary:
        """Topics, partitions, groups, records and errors of both bodies; computed once."""
        return bodysummary.summary_of(self)

    @property
    def session_topics(self) -> list[TopicRef]:
        """Topics that its fetch session stands for (`fetched`), by name, None if no earlier response named it, and by
        id, None if requests have the name; empty for all other exchanges."""
        if self.fetched is None:
            return []
        names = self.connection.names
        return [
            (name if topic_id is None else names.name(topic_id, self.key), topic_id)
            for name, topic_id in self.fetched.partitions
        ]

    @property
    def inner_api_key(self) -> int | None:
        """The API of the request inside an Envelope; None if that could not be read, and for all other exchanges."""
        inner = self.summary.inner(bodysummary.REQUEST_DATA) if self.api_key == ENVELOPE else None
        return None if inner is None else inner.header.api_key

    @property
    def inner_principal(self) -> str | None:
        """Name of the principal whose request is inside an Envelope; None like `inner_api_key`."""
        body = self.request.facts().body if self.api_key == ENVELOPE and self.request is not None else None
        forwarded = None if body is None else envelope.principal(body.get("request_principal"))
        return None if forwarded is None else str(forwarded["name"])

    @property
    def request_read(self) -> bool | None:
        """True if the request's body could be read to its end; None if there is no request."""
        return None if self.request is None else self.request.decode().complete

    @property
    def response_read(self) -> bool | None:
        """True if the response's body could be read to its end; None if there is no response."""
        return None if self.response is None else self.response.decode().complete

    @property
    def failed(self) -> bool:
        """True if its response has an error code or refuses a login, or it has a problem."""
        return bool(self.problems or self.summary.error_codes or self.summary.refusal)

    @property
    def problems(self) -> list[Problem]:
        """Problems of both messages and of their pairing; computed once. docs/output.md explains the codes."""
        return bodysummary.problems_of(self)

    def to_dict(self, options: view.View | None = None) -> dict[str, Any]:
        """Object of the JSON line, with the keys that docs/output.md explains. `options`: records, payload, secrets and
        fields as for `kinspect read`; None: those given to `kinspect.read`. The caller may change it, but for bodies,
        which share parts with the decoded ones."""
        shown: view.View = options or self.view or view.DEFAULT
        line = shown.exchange(self)
        for end in ("client", "broker"):
            if end in line:
                line[end] = line[end].copy()
        return line
