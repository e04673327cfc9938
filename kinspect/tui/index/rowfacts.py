"""What may be read of an exchange, as its row has it: `kinspect.facts.Facts`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kinspect.kafka.wire.fetched import Fetched, TopicRef
from kinspect.kafka.wire.pair import OUTCOMES, SASL_TOKEN, TOKEN_NAME, UNANSWERED
from kinspect.protocol import schema
from kinspect.tui.index import row
from kinspect.tui.index.row import RowValues
from kinspect.tui.index.texts import UNKEPT, Texts


class UnkeptError(Exception):
    """A name is asked for that was not kept."""


class RowEnds(NamedTuple):
    client_ip: str
    client_port: int
    broker_ip: str
    broker_port: int
    handshake: tuple[int, int, int] | None


class RowFacts:
    """The facts of a row. Its texts are looked up when they are asked for."""

    __slots__ = ("_texts", "_values")

    def __init__(self, texts: Texts, values: RowValues) -> None:
        self._texts = texts
        self._values = values

    def _flag(self, bit: int) -> bool:
        return bool(self._values[row.FLAGS] & bit)

    def _whole(self, column: int) -> list[Any]:
        """A text of which nothing is known where it was not kept."""
        number = self._values[column]
        if number == UNKEPT:
            raise UnkeptError
        text: list[Any] = self._texts[number]
        return text

    def _listed(self, column: int, place: int) -> list[Any]:
        """A list in a text; empty where it was not kept: then `request_read` is no more true."""
        text = self._texts[self._values[column]]
        return [] if text is None else text[place]

    @property
    def kind(self) -> str:
        return row.kind_of(self._values[row.FLAGS])

    @property
    def api(self) -> str | None:
        if self.kind == SASL_TOKEN:
            return TOKEN_NAME
        key = self.api_key
        return None if key is None else schema.api_name(key)

    @property
    def api_key(self) -> int | None:
        return self._values[row.API] if self._flag(row.HAS_API) else None

    @property
    def correlation_id(self) -> int | None:
        return self._values[row.CORRELATION] if self._flag(row.HAS_CORRELATION) else None

    @property
    def client_id(self) -> str | None:
        return self._client(0)

    @property
    def role(self) -> str | None:
        return self._client(1)

    @property
    def principal(self) -> str | None:
        return self._client(2)

    @property
    def software_name(self) -> str | None:
        return self._client(4)

    @property
    def software_version(self) -> str | None:
        return self._client(5)

    @property
    def client_name(self) -> str | None:
        return self._client(6)

    @property
    def broker_name(self) -> str | None:
        return self._client(7)

    @property
    def client_process(self) -> str | None:
        return self._client(8)

    def _client(self, place: int) -> str | None:
        found: str | None = self._whole(row.CLIENT)[place]
        return found

    @property
    def inner_api_key(self) -> int | None:
        return self._inner[0]

    @property
    def inner_principal(self) -> str | None:
        return self._inner[1]

    @property
    def _inner(self) -> tuple[int | None, str | None]:
        key, principal = self._listed(row.SUBJECT, row.INNER) or (None, None)
        return key, principal

    @property
    def connection(self) -> RowEnds:
        client_ip, client_port, broker_ip, broker_port, *_, syns = self._whole(row.CONNECTION)
        handshake = None if syns is None else tuple(syns)
        return RowEnds(client_ip, client_port, broker_ip, broker_port, handshake)

    @property
    def summary(self) -> RowFacts:
        """Itself: the names are texts of the same row."""
        return self

    @property
    def topics(self) -> Sequence[str]:
        return self._listed(row.SUBJECT, row.TOPICS)

    @property
    def topic_ids(self) -> Sequence[str]:
        return self._listed(row.SUBJECT, row.TOPIC_IDS)

    @property
    def unresolved_topic_ids(self) -> Sequence[str]:
        return self._listed(row.SUBJECT, row.UNRESOLVED)

    @property
    def groups(self) -> Sequence[str]:
        return self._listed(row.SUBJECT, row.GROUPS)

    @property
    def error_codes(self) -> Sequence[int]:
        return self._listed(row.FAULT, 0)

    @property
    def session_topics(self) -> Sequence[TopicRef]:
        session = self._texts[self._values[row.SESSION]]
        return [] if session is None else [(name, topic_id) for name, topic_id in session[0]]

    @property
    def fetched(self) -> Fetched | None:
        session = self._texts[self._values[row.SESSION]]
        return None if session is None else Fetched.from_state(session[1:])

    @property
    def failed(self) -> bool:
        return self._flag(row.FAILED)

    @property
    def request_read(self) -> bool | None:
        return self._read(row.REQUEST_AT)

    @property
    def response_read(self) -> bool | None:
        return self._read(row.RESPONSE_AT)

    def _read(self, place: int) -> bool | None:
        bits = self._values[row.FLAGS] >> place
        if not bits & row.PRESENT:
            return None
        return bool(bits & row.READ) and not self._flag(row.CUT)

    @property
    def largest_message(self) -> int:
        return max(self._values[row.REQUEST_BYTES], self._values[row.RESPONSE_BYTES])

    @property
    def outcome(self) -> str:
        return OUTCOMES[self._values[row.FLAGS] & 3]

    @property
    def outcome_reason(self) -> str | None:
        return row.reason_of(self._values[row.FLAGS])

    @property
    def wait(self) -> str | None:
        return row.wait_of(self._values[row.FLAGS])

    @property
    def timestamp(self) -> int | None:
        return row.timestamp_of(self._values)

    @property
    def latency_ns(self) -> int | None:
        return row.latency_of(self._values)

    @property
    def service_ns(self) -> int | None:
        return row.service_of(self._values)

    @property
    def waited_ns(self) -> int | None:
        values = self._values
        sent, ended = values[row.REQUEST_LAST], values[row.COMPLETED_AT]
        if self.outcome != UNANSWERED or row.NONE in (sent, ended):
            return None
        return ended - sent
