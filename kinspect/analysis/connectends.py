"""How connections end that fail: the problem that a connection's packets prove, or one that others to the same port
must explain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from kinspect.kafka.bodysummary import error_counts
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.metadata import cluster_metadata, ip_text, may_have_metadata, node_structs
from kinspect.kafka.view.view import epoch_ns
from kinspect.kafka.wire.pair import ANSWERED, SASL_TOKEN, UNANSWERED
from kinspect.model import FULL_SIZED, NS_PER_MS, NS_PER_SECOND, REQUEST, drop_oldest
from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    FIND_COORDINATOR,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)

Line = dict[str, Any]
_Port = tuple[str | None, int]
ApiUse = tuple[int | None, int | None]
"""API key and version."""

SEVERE, WARNING, NOTE = SEVERITIES = ("error", "warning", "note")
WAITED_NS = 3 * NS_PER_SECOND
"""For how long a single SYN must have had no answer; hosts send it again after one second."""
IDLE_MS = 1_000.0
"""Silence from which on the end of a connection is one of an idle connection."""
REFUSED_LEAST = 2
"""Connections that must have ended so before a version is considered refused, or a login expected."""
RESENT_LEAST = 4
"""How often a segment must have been sent in all to be lost for good."""
_CLOSED = frozenset({"closed", "reset"})
_LOGIN_APIS = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})
GREETINGS = frozenset({API_VERSIONS, *_LOGIN_APIS})
"""What a broker answers before a login."""
_NODE_APIS = frozenset({METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER})
_TOO_LARGE = "packets_too_large"
NO_ANSWER = "no_answer"
NO_RESPONSE, HELLO_CLOSED, NO_LOGIN = "unanswered", "hello_closed", "login_expected"
"""Ends that other connections must explain: see `explained`."""
_KAFKA, _PLAIN, _TLS, _HALVED, _TOLD, _UNNAMED = "kafka", "plain", "tls", "halved", "told", "unnamed"
"""What connections to a port were, see `explained`, that a broker told it, and that it served who had not logged in."""


@dataclass(slots=True)
class ConnectionTalk:
    """The exchanges of an open connection: how many, how many of them answered, whether one beyond greetings was, the
    first one without an answer, and whether its login is under way or was refused."""

    exchanges: int = 0
    answered: int = 0
    served: bool = False
    lost: ApiUse | None = None
    lost_at: int | None = None
    in_login: bool = False
    refused: bool = False

    def note(self, exchange: Exchange) -> None:
        """Take its next exchange."""
        self.exchanges += 1
        self._note_login(exchange)
        if exchange.outcome == ANSWERED:
            self.answered += 1
            self.served = self.served or exchange.api_key not in GREETINGS
        elif exchange.outcome == UNANSWERED and exchange.outcome_reason in _CLOSED and self.lost is None:
            self.lost = exchange.api_key, exchange.api_version
            self.lost_at = exchange.timestamp

    def _note_login(self, exchange: Exchange) -> None:
        if exchange.api_key in _LOGIN_APIS or exchange.kind == SASL_TOKEN:
            self.in_login = True
            self.refused = (
                self.refused or exchange.summary.refusal is not None or bool(error_counts(exchange))
            )
        elif exchange.outcome == ANSWERED and exchange.api_key != API_VERSIONS:
            self.in_login = False


class OpenConnections:
    """What was exchanged on the connections that are open, `most` of them; of more the oldest is forgotten."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._talks: dict[str, ConnectionTalk] = {}

    def note(self, exchange: Exchange) -> tuple[bool, bool]:
        """Take an exchange. Returns whether it is the first one of its connection, and whether another one was
        forgotten for that."""
        connection = exchange.connection.connection_id
        talk = self._talks.get(connection)
        is_first, forgets = talk is None, False
        if talk is None:
            talk = self._talks[connection] = ConnectionTalk()
            forgets = drop_oldest(self._talks, self._most)
        talk.note(exchange)
        return is_first, forgets

    def ended(self, line: Line) -> ConnectionEnd | None:
        """How a connection failed, by its line; None if it did not, or if that is not known."""
        talk = self._talks.pop(line["connection_id"], None) or ConnectionTalk()
        return _ended(line, talk) if talk.exchanges >= line["exchanges"] else None


class ConnectionEnd(NamedTuple):
    """`problem`: a name, or `NO_RESPONSE` with its API and version in `use`, or `HELLO_CLOSED`; `words`: facts of
    it."""

    problem: str
    severity: str
    words: dict[str, Any] | None = None
    use: ApiUse | None = None


def is_one_sided(line: Line) -> bool:
    """True if a client went on to send where no packet of the broker was captured."""
    client = line["client"]
    return not line["broker"]["packets"] and client["bytes"] > 0 and client["packets"] > (line["syns"] or 0)


def speaks_kafka(line: Line) -> bool:
    """True if a connection's own line shows that Kafka is spoken at its broker's port, or `--decode-as` says so."""
    return bool(line["decode_as"] or (line["kind"] == "kafka" and line["tls_handshake"] is None))


def explained(problem: str, is_plain: bool, is_tls: bool, is_halved: bool, is_refused: bool) -> str | None:
    """The name of a problem, as others to the same port explain it; None if there is none for certain. `is_plain`,
    `is_tls`: such connections came about; `is_halved`: of some the broker's packets were not captured; `is_refused`:
    the API and version were never answered, twice; or nothing was without a login."""
    if problem == NO_ANSWER and is_halved:
        return None
    if problem == NO_LOGIN:
        return problem if is_refused else None
    if problem == HELLO_CLOSED:
        return "tls_not_expected" if is_plain else "tls_failed" if is_tls else None
    if problem == NO_RESPONSE:
        if is_tls and not is_plain:
            return "tls_expected"
        return "version_refused" if is_plain and is_refused else "closed_early"
    return problem


class ConnectionFailures:
    """Problems of connections as they end, by what was known then; notes are none. `most`: number of open connections,
    of ports, and of clients' failures of a kind, that are remembered."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = OpenConnections(most)
        # What is known of ports by address: those of names have none. The one heard of last stands last.
        self._ports: dict[_Port, set[str | ApiUse]] = {}
        # How many connections of a client ended so, and how many of them were counted.
        self._alike: dict[tuple[str, _Port, str, ApiUse | None], tuple[int, int]] = {}

    def add(self, exchange: Exchange) -> None:
        """Take an exchange."""
        ends = exchange.connection
        if ends.connection_id:
            self._open.note(exchange)
        if exchange.outcome == ANSWERED:
            key, version = exchange.api_key, exchange.api_version
            facts: set[str | ApiUse] = {_KAFKA if ends.tls else _PLAIN}
            if exchange.principal is None and key not in GREETINGS:
                facts.add(_UNNAMED)
            # Those that are known alone, of which there are few.
            if key is not None and version is not None and schema.layout(key, version, REQUEST) is not None:
                facts.add((key, version))
            self._know((ends.broker_ip, ends.broker_port), facts)
            for host, number in nodes_told(exchange):
                self._know((ip_text(host), number), {_TOLD})

    def problem(self, line: Line) -> tuple[str, int] | None:
        """The problem of a connection that ended, and how many had it that were not counted before; None for none."""
        broker = line["broker"]
        port = broker["ip"], broker["port"]
        if line["tls_handshake"] == "done":
            self._know(port, {_TLS})
        if is_one_sided(line):
            self._know(port, {_HALVED})
        end, known = self._open.ended(line), self._ports.get(port, set())
        if (
            end is None
            or end.severity == NOTE
            or not (speaks_kafka(line) or known & {_KAFKA, _PLAIN, _TOLD} or (None, port[1]) in self._ports)
        ):
            return None
        place = line["client"]["ip"], port, end.problem, end.use
        times, counted = self._alike.pop(place, (0, 0))
        times, is_served = times + 1, (_UNNAMED if end.problem == NO_LOGIN else end.use) in known
        refuses = times >= REFUSED_LEAST and not is_served
        found = explained(end.problem, _PLAIN in known, _TLS in known, _HALVED in known, refuses)
        if found == "closed_early":
            found = None
        self._alike[place] = times, counted if found is None else times
        drop_oldest(self._alike, self._most)
        return None if found is None else (found, times - counted)

    def _know(self, port: _Port, facts: set[str | ApiUse]) -> None:
        self._ports[port] = self._ports.pop(port, set()) | facts
        drop_oldest(self._ports, self._most)


def nodes_told(exchange: Exchange) -> Iterator[tuple[str, int]]:
    """Hosts and ports of nodes that a response tells."""
    key, version = exchange.api_key, exchange.api_version
    if exchange.outcome != ANSWERED or key is None or version is None or not may_have_metadata(key, version):
        return
    if key in _NODE_APIS:
        structs = [struct for struct, node_id in node_structs(exchange.response) if node_id >= 0]
        found = [(struct.get("host"), struct.get("port")) for struct in structs]
    else:
        found = [(ip, port) for ip, port, _ in cluster_metadata(exchange).nodes]
    for host, number in dict.fromkeys(found):
        if isinstance(host, str) and host and isinstance(number, int):
            yield host, number


def _ended(line: Line, talk: ConnectionTalk) -> ConnectionEnd | None:
    """How a connection failed that its line proves to have; None for none. That packets were too large is only a note
    if it went on, and not how it ended if something else is."""
    too_large = [error for error in line["icmp"] if error["error"] == _TOO_LARGE]
    found = None if too_large and line["unacknowledged"] else _failed(line, talk)
    if found is None and too_large:
        severity = SEVERE if line["unacknowledged"] else NOTE
        return ConnectionEnd("unreachable", severity, {"code": _TOO_LARGE, "mtu": too_large[-1]["mtu"]})
    return found


def _failed(line: Line, talk: ConnectionTalk) -> ConnectionEnd | None:
    """As `_ended`, without what says that packets were too large."""
    client, broker, ended_by = line["client"], line["broker"], line["ended_by"]
    last, asked = line["unacknowledged"], line["handshake_seen"] and line["syns"] is not None
    is_over = line["end_reason"] in ("fin", "reset")
    errors = [error for error in line["icmp"] if error["error"] != _TOO_LARGE]
    if errors and (not broker["packets"] or (last and not is_over)):
        return ConnectionEnd("unreachable", SEVERE, {"code": errors[0]["error"]})
    if line["refused"]:
        return ConnectionEnd("refused", SEVERE)
    if asked and not broker["packets"] and client["packets"] == line["syns"]:
        waited = lasted(line)
        is_sure = line["syns"] > 1 or (waited is not None and waited >= WAITED_NS)
        return ConnectionEnd(NO_ANSWER, SEVERE) if is_sure else None
    if not broker["packets"] or not client["packets"]:
        return None
    if last and last["times"] >= RESENT_LEAST:
        words = {"sender": last["sender"], "times": last["times"], "bytes": last["bytes"]}
        none_passed = last["full_sized_acknowledged"] is False
        if last["bytes"] >= FULL_SIZED and last["idle_before_ms"] < IDLE_MS and none_passed:
            return ConnectionEnd("large_packets_lost", SEVERE, words)
        if last["sender"] == "client" and last["idle_before_ms"] >= IDLE_MS and talk.answered:
            return ConnectionEnd("closed_idle", WARNING, {"idle_ms": last["idle_before_ms"]})
    if not asked:
        return None
    if line["first_bytes"] == "tls" and line["tls_handshake"] not in (None, "done"):
        return _tls(line, is_over)
    if line["first_bytes"] not in (None, "kafka", "tls"):
        return ConnectionEnd("not_kafka", WARNING, {"protocol": line["first_bytes"]})
    if not is_over or line["gaps"]:
        return None
    if line["kind"] == "other":
        return ConnectionEnd("not_kafka", NOTE) if ended_by == "broker" and not broker["bytes"] else None
    if line["kind"] == "empty":
        return ConnectionEnd("closed_early", NOTE)
    if line["kind"] != "kafka":
        return None
    if line["first_bytes"] == "kafka" and line["answered_with"] not in (None, "kafka"):
        if line["answered_with"] == "tls":
            return ConnectionEnd("tls_expected", SEVERE)
        return ConnectionEnd("not_kafka", SEVERE, {"protocol": line["answered_with"], "sender": "broker"})
    if talk.in_login and (talk.refused or (talk.lost is not None and ended_by == "broker")):
        return ConnectionEnd("login_refused", SEVERE)
    if talk.answered:
        is_refused = ended_by == "broker" and talk.lost is not None and not (talk.served or talk.in_login)
        unserved = ConnectionEnd(NO_LOGIN, SEVERE, {}, talk.lost) if is_refused else None
        return _idle(line, talk) or unserved
    if talk.lost is not None and ended_by == "broker" and line["first_bytes"] == "kafka":
        return ConnectionEnd(NO_RESPONSE, SEVERE, {}, talk.lost)
    return ConnectionEnd("closed_early", NOTE)


def _tls(line: Line, is_over: bool) -> ConnectionEnd | None:
    """The problem of a connection whose TLS handshake did not come to its end."""
    stage, answered_with = line["tls_handshake"], line["answered_with"]
    words = {"stage": stage, "server_name": line["server_name"]}
    if answered_with not in ("tls", None):
        return ConnectionEnd("tls_not_expected", SEVERE, {"protocol": answered_with, **words})
    alerts = [alert for alert in line["tls_alerts"] if alert["description"] != "close_notify"]
    if alerts:
        first = alerts[0]
        return ConnectionEnd(
            "tls_failed", SEVERE, {"sender": first["sender"], "alert": first["description"], **words}
        )
    if not is_over or stage == "protected":
        return None
    if stage == "client_hello":
        silent = line["ended_by"] == "broker" and not line["broker"]["bytes"]
        return ConnectionEnd(HELLO_CLOSED, SEVERE, words) if silent else None
    return ConnectionEnd("tls_failed", SEVERE, {"sender": line["ended_by"], **words})


def _idle(line: Line, talk: ConnectionTalk) -> ConnectionEnd | None:
    """The problem of a connection in use that the broker, or somebody in its place, ended after a silence."""
    silence, end = line["idle_before_end_ms"], line["completed_at"]
    if line["ended_by"] != "broker" or silence is None or silence < IDLE_MS:
        return None
    if talk.lost is None:
        return ConnectionEnd(
            "closed_idle", WARNING if line["end_reason"] == "reset" else NOTE, {"idle_ms": silence}
        )
    if talk.lost_at is None or end is None or epoch_ns(end) - talk.lost_at > IDLE_MS * NS_PER_MS:
        return None  # the broker held the request
    return ConnectionEnd("closed_idle", WARNING, {"idle_ms": silence})


def lasted(line: Line) -> int | None:
    """For how long a connection was looked at, in nanoseconds."""
    begin, end = line["timestamp"], line["completed_at"]
    return None if begin is None or end is None else epoch_ns(end) - epoch_ns(begin)
