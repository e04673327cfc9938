"""Why clients cannot connect, or do not stay connected: a row for each problem, client address and broker address.

A connection has one problem at most, the first of those that its packets prove. What could be several things is decided
at the end, by what other connections to the same address were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from kinspect.analysis.answer import Answer, ResultContext, Row
from kinspect.analysis.client import CONNECTIONS_KEPT
from kinspect.analysis.histogram import Histogram
from kinspect.analysis.record import GREATEST, LEAST, Record
from kinspect.analysis.windows import Busiest, Windows
from kinspect.answers import celltexts
from kinspect.answers.celltexts import plain
from kinspect.answers.definition import Clock, Definition, Key
from kinspect.kafka.bodysummary import error_counts
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.metadata import cluster_metadata, ip_text, may_have_metadata, node_structs
from kinspect.kafka.view.view import milliseconds
from kinspect.kafka.wire.ends import endpoint
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.kafka.wire.pair import ANSWERED, SASL_TOKEN, UNANSWERED
from kinspect.model import NS_PER_MS, NS_PER_SECOND, drop_oldest
from kinspect.protocol import schema
from kinspect.protocol.apikeys import (
    API_VERSIONS,
    DESCRIBE_CLUSTER,
    FIND_COORDINATOR,
    METADATA,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)

SEVERE, WARNING, NOTE = SEVERITIES = ("error", "warning", "note")
WAITED_NS = 3 * NS_PER_SECOND
"""For how long a single SYN must have had no answer; hosts send it again after one second."""
IDLE_MS = 1_000.0
"""Silence from which on the end of a connection is one of an idle connection."""
RESENT_LEAST = 4
"""How often a segment must have been sent in all to be lost for good."""
FULL_SIZED = 1_000
"""Bytes from which on a segment counts as full-sized: IPv6 carries 1,220 of them anywhere."""
REFUSED_LEAST = 2
"""Connections that must have ended so before a version is considered refused."""
CHURN = 5.0
"""Connections a second, over ten seconds, above which a client connects far too often."""
FRAMES_KEPT = 5

_CLOSED = frozenset({"closed", "reset"})
_LOGIN_APIS = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})
_NODE_APIS = frozenset({METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER})
_TOO_LARGE = "packets_too_large"
# Ends that other connections must explain: see `_explained`.
_UNANSWERED, _HELLO_CLOSED, _CONNECTED = "unanswered", "hello_closed", "connected"


class Meaning(NamedTuple):
    """What a problem means, and what to do."""

    meaning: str
    advice: str


PROBLEMS = {
    "no_answer": Meaning(
        "Nothing answers the SYN: a firewall or router drops it, or no host has the address.",
        "Check that the client can reach this address, and that advertised.listeners tells one that it can.",
    ),
    "refused": Meaning(
        "A reset answers the SYN: the host is there, and nothing listens on the port.",
        "Check that the broker runs, and that advertised.listeners tells the port that it listens on.",
    ),
    "unreachable": Meaning(
        "A router or host says by ICMP that packets do not get there.",
        "Check routes and firewalls to this address; of packets_too_large, the MTU of the path.",
    ),
    "large_packets_lost": Meaning(
        "Small segments pass; full-sized ones are sent again and again and never acknowledged.",
        "Lower the MTU, or let ICMP fragmentation needed pass: tunnels and VPNs carry smaller packets.",
    ),
    "tls_expected": Meaning(
        "The client speaks Kafka in clear to a port that expects TLS.",
        "Set security.protocol of the client to SSL or SASL_SSL, or use the port of the other listener.",
    ),
    "tls_not_expected": Meaning(
        "The client begins TLS on a port that speaks Kafka in clear.",
        "Set security.protocol of the client to PLAINTEXT or SASL_PLAINTEXT, or use the port of the TLS listener.",
    ),
    "tls_failed": Meaning(
        "The TLS handshake failed.",
        "Check the certificates, who trusts whom, the names in them, and the versions and ciphers of both sides.",
    ),
    "not_kafka": Meaning(
        "Something that is not Kafka was sent to Kafka's port.",
        "Find out who asks: a health check or a scanner, or a client with the wrong port.",
    ),
    "version_refused": Meaning(
        "The broker closes the connection on a request of this version, without an answer.",
        "Limit the version that the client uses, or upgrade the one that is older.",
    ),
    "closed_idle": Meaning(
        "The connection was silent for some time, and then it was gone.",
        "Set connections.max.idle.ms of the client below that of the broker and of what lies between them.",
    ),
    "login_refused": Meaning(
        "The connection ended within the login.",
        "See kinspect auth for who was refused, and why.",
    ),
    "closed_early": Meaning(
        "The connection was closed before an answer: health checks do that.",
        "Nothing is to be done if it is a health check.",
    ),
    "churn": Meaning(
        "The client opens connections far too often.",
        "Make one client and keep it, instead of one for each message.",
    ),
}
"""The problems, those that explain most first."""
_DETAIL = """
    syns waited_ms code mtu sender bytes times alert stage server_name protocol api version idle_ms per_second threshold
""".split()


_Use = tuple[int | None, int | None]
"""API key and version."""
_ToldBy = tuple[LineKey, str, str]
"""Who told an address: the key of the line, the address of the broker, and the address as told."""


def _earliest(one: list[Any], other: list[Any]) -> list[Any]:
    return sorted(map(tuple, (*one, *other)))[:FRAMES_KEPT]


@dataclass(slots=True)
class _Ending(Record):
    """Connections that ended alike. `severity`: place in `SEVERITIES`; `words`: what they ended with, by key of the
    detail and value; `idle`: silences before the end; `frames`: start, file, first and last frame, and packets."""

    count: int = 0
    first: str | None = field(default=None, metadata=LEAST)
    last: str | None = field(default=None, metadata=GREATEST)
    severity: int | None = field(default=None, metadata=LEAST)
    syns: int = 0
    times: int = 0
    most_bytes: int | None = field(default=None, metadata=GREATEST)
    waited: int | None = field(default=None, metadata=GREATEST)
    words: dict[tuple[str, Any], int] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    idle: Histogram = field(default_factory=Histogram)
    windows: Windows = field(default_factory=Windows)
    frames: list[Any] | None = field(default=None, metadata={"choose": _earliest})


@dataclass(slots=True)
class _Port(Record):
    """What connections to an address were: answered in clear, TLS that came about, Kafka in any form, told by
    `--decode-as`. `uses`: APIs and versions that were answered."""

    plain: int = 0
    tls: int = 0
    kafka: int = 0
    uses: dict[_Use, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Told(Record):
    """Who first told an address, as host and port."""

    by: _ToldBy | None = field(default=None, metadata=LEAST)


@dataclass(slots=True)
class _Ids(Record):
    """Client ids at an address."""

    ids: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Talk:
    """The exchanges of an open connection: how many, how many of them answered, the first one without an answer, and
    whether its login is under way or was refused."""

    exchanges: int = 0
    answered: int = 0
    lost: _Use | None = None
    lost_at: int | None = None
    in_login: bool = False
    refused: bool = False


class Connect(Answer):
    """Accumulator of the rows."""

    lines = frozenset({"exchange", "connection"})
    row_keys: ClassVar = {"--client-id": ("client_id",), "--client-host": ("client_ip",)}

    def __init__(self) -> None:
        super().__init__()
        self._endings = self.records(_Ending)
        self._ports = self.records(_Port)
        self._told = self.records(_Told)
        self._ids = self.records(_Ids)
        # By connection; the one begun last stands last.
        self._talks: dict[str, _Talk] = {}

    # ------------------------------------------------------------------ exchanges

    def add(self, exchange: Exchange) -> None:
        connection = exchange.connection
        if not connection.connection_id:
            return
        talk = self._talks.get(connection.connection_id)
        if talk is None:
            talk = self._talks[connection.connection_id] = _Talk()
            self.left_out += drop_oldest(self._talks, CONNECTIONS_KEPT)
            ids = self._ids.of(connection.client_ip)
            if ids is not None:
                self.keep(ids.ids, exchange.client_id)
        talk.exchanges += 1
        self._add_login(talk, exchange)
        if exchange.outcome == ANSWERED:
            talk.answered += 1
            self._add_answered(exchange)
        elif exchange.outcome == UNANSWERED and exchange.outcome_reason in _CLOSED and talk.lost is None:
            talk.lost = exchange.api_key, exchange.api_version
            talk.lost_at = exchange.timestamp

    def _add_login(self, talk: _Talk, exchange: Exchange) -> None:
        if exchange.api_key in _LOGIN_APIS or exchange.kind == SASL_TOKEN:
            talk.in_login = True
            talk.refused = (
                talk.refused or exchange.summary.refusal is not None or bool(error_counts(exchange))
            )
        elif exchange.outcome == ANSWERED and exchange.api_key != API_VERSIONS:
            talk.in_login = False

    def _add_answered(self, exchange: Exchange) -> None:
        connection, key, version = exchange.connection, exchange.api_key, exchange.api_version
        port = self._ports.of(connection.broker_ip, connection.broker_port)
        if port is not None:
            port.kafka += 1
            port.plain += not connection.tls
            if key is not None and version is not None:
                self.count(port.uses, (key, version))
        if key is None or version is None or not may_have_metadata(key, version):
            return
        teller = endpoint(connection.broker_ip, connection.broker_port)
        if key in _NODE_APIS:
            found = [
                (struct.get("host"), struct.get("port"))
                for struct, node_id in node_structs(exchange.response)
                if node_id >= 0
            ]
        else:
            found = [(ip, port) for ip, port, _ in cluster_metadata(exchange).nodes]
        for host, number in dict.fromkeys(found):
            if isinstance(host, str) and host and isinstance(number, int):
                told = self._told.of(ip_text(host) or host, number)
                if told is not None:
                    by = exchange.key, teller, endpoint(host, number)
                    told.by = by if told.by is None else min(told.by, by)

    # ------------------------------------------------------------------ connections

    def add_connection(self, line: Row) -> None:
        talk = self._talks.pop(line["connection_id"], None) or _Talk()
        broker = line["broker"]
        port = self._ports.of(broker["ip"], broker["port"])
        if port is not None:
            port.kafka += line["decode_as"] or (line["kind"] == "kafka" and line["tls_handshake"] is None)
            port.tls += line["tls_handshake"] == "done"
        if talk.exchanges < line["exchanges"]:
            return  # the filter left out some of them
        found = _ended(line, talk)
        if found is not None:
            problem, severity, words = found
            self._end(line, problem, severity, words)
        if line["handshake_seen"]:
            self._end(line, _CONNECTED, NOTE, {})

    def _end(self, line: Row, problem: str, severity: str, words: dict[str, Any]) -> None:
        client, broker = line["client"], line["broker"]
        ending = self._endings.of(client["ip"], broker["ip"], broker["port"], problem, words.pop("use", None))
        if ending is None:
            return
        at, frames = line["timestamp"], line["frames"]
        place = SEVERITIES.index(severity)
        ending.count += 1
        ending.severity = place if ending.severity is None else min(ending.severity, place)
        if at is not None:
            ending.first = at if ending.first is None else min(ending.first, at)
            ending.last = at if ending.last is None else max(ending.last, at)
        ending.frames = _earliest(ending.frames or [], [(at or "", *frames.values())])
        if problem == _CONNECTED:
            if at is not None:
                ending.windows.add(_CONNECTED, _nanoseconds(at))
            return
        if client["id"] is not None:
            self.keep(ending.ids, client["id"])
        ending.syns += line["syns"] or 0
        waited = _lasted(line)
        if waited is not None:
            ending.waited = waited if ending.waited is None else max(ending.waited, waited)
        ending.times += words.pop("times", 0)
        size = words.pop("bytes", None)
        if size is not None:
            ending.most_bytes = size if ending.most_bytes is None else max(ending.most_bytes, size)
        idle = words.pop("idle_ms", None)
        if idle is not None:
            ending.idle.add(round(idle * NS_PER_MS))
        for name, value in words.items():
            if value is not None:
                self.count(ending.words, (name, value))

    # ------------------------------------------------------------------ the whole

    def result(self, context: ResultContext) -> list[Row]:
        ports = dict(self._ports.items())
        told: dict[tuple[str, int], _ToldBy] = {}
        # A host that was told by name may have any address.
        named: dict[int, list[_ToldBy]] = {}
        for (host, number), record in self._told.items():
            if record.by is not None:
                told[host, number] = record.by
                if ip_text(host) is None:
                    named.setdefault(number, []).append(record.by)
        together: dict[tuple[str, str, int, str], _Ending] = {}
        uses: dict[tuple[str, str, int, str], _Use] = {}
        for (client_ip, ip, number, ended, use), ending in self._endings.items():
            port, names = ports.get((ip, number)) or _Port(), named.get(number, [])
            if (ip, number) not in told and len(names) == 1:
                told[ip, number] = names[0]
            problem = _explained(ended, use, ending, port)
            if problem is None or not (port.kafka or (ip, number) in told):
                continue
            key = client_ip, ip, number, problem
            together.setdefault(key, _Ending()).merge(ending)
            if use is not None:
                uses.setdefault(key, (use[0], use[1]))
        down = {key[1:3] for key in together if key[3] == "refused"}
        for (_, ip, number, problem), ending in together.items():
            if problem == "closed_idle" and (ip, number) in down:
                ending.severity = SEVERITIES.index(NOTE)  # the broker was stopped
        rows = [
            self._row(*key, ending, told.get((key[1], key[2])), uses.get(key))
            for key, ending in together.items()
        ]
        return sorted(rows, key=_place)

    def _row(
        self,
        client_ip: str,
        ip: str,
        number: int,
        problem: str,
        ending: _Ending,
        told: _ToldBy | None,
        use: _Use | None,
    ) -> Row:
        known = self._ids.of(client_ip)
        ids = ending.ids or (known.ids if known is not None else set())
        severity = SEVERITIES[ending.severity or 0]
        if problem in ("tls_expected", "tls_not_expected", "tls_failed", "version_refused"):
            severity = SEVERE
        elif problem == "closed_early":
            severity = NOTE
        elif problem == "churn":
            severity = WARNING
        return {
            "problem": problem,
            "severity": severity,
            "client_ip": client_ip,
            "client_id": next(iter(ids)) if len(ids) == 1 else None,
            "broker": endpoint(ip, number),
            "told_by": told and told[1],
            "told_as": told and told[2],
            "count": ending.count,
            "first": ending.first,
            "last": ending.last,
            "detail": _detail(problem, ending, use),
            "frames": [
                dict(zip(("file", "first", "last", "packets"), each[1:], strict=True))
                for each in ending.frames or ()
            ],
            **PROBLEMS[problem]._asdict(),
        }


def _explained(ended: str, use: _Use | None, ending: _Ending, port: _Port) -> str | None:
    """The problem of connections that ended so, as others to the same port explain it; None if there is none for
    certain."""
    if ended == _CONNECTED:
        return "churn" if _busiest(ending).per_second > CHURN else None
    if ended == _HELLO_CLOSED:
        return "tls_not_expected" if port.plain else "tls_failed" if port.tls else None
    if ended == _UNANSWERED and use is not None:
        if port.tls and not port.plain:
            return "tls_expected"
        refuses = port.plain and ending.count >= REFUSED_LEAST and (use[0], use[1]) not in port.uses
        return "version_refused" if refuses else "closed_early"
    return ended


def _ended(line: Row, talk: _Talk) -> tuple[str, str, dict[str, Any]] | None:
    """The problem that a connection's line proves, its severity, and words of the detail; None for none."""
    client, broker, ended_by = line["client"], line["broker"], line["ended_by"]
    last, asked = line["unacknowledged"], line["handshake_seen"] and line["syns"] is not None
    is_over = line["end_reason"] in ("fin", "reset")
    errors = [error for error in line["icmp"] if error["error"] != _TOO_LARGE]
    if errors and (not broker["packets"] or (last and not is_over)):
        return "unreachable", SEVERE, {"code": errors[0]["error"]}
    too_large = [error for error in line["icmp"] if error["error"] == _TOO_LARGE]
    if too_large:
        words = {"code": _TOO_LARGE, "mtu": too_large[-1]["mtu"]}
        return "unreachable", SEVERE if last else NOTE, words
    if line["refused"]:
        return "refused", SEVERE, {}
    if asked and not broker["packets"] and client["packets"] == line["syns"]:
        waited = _lasted(line)
        is_sure = line["syns"] > 1 or (waited is not None and waited >= WAITED_NS)
        return ("no_answer", SEVERE, {}) if is_sure else None
    if not broker["packets"] or not client["packets"]:
        return None
    if last and last["times"] >= RESENT_LEAST:
        words = {"sender": last["sender"], "times": last["times"], "bytes": last["bytes"]}
        if last["bytes"] >= FULL_SIZED and last["idle_before_ms"] < IDLE_MS:
            return "large_packets_lost", SEVERE, words
    if last and last["sender"] == "client" and last["idle_before_ms"] >= IDLE_MS and talk.answered:
        return "closed_idle", WARNING, {"idle_ms": last["idle_before_ms"]}
    if not asked:
        return None
    if line["first_bytes"] == "tls" and line["tls_handshake"] not in (None, "done"):
        return _tls(line, is_over)
    if line["first_bytes"] not in (None, "kafka", "tls"):
        return "not_kafka", WARNING, {"protocol": line["first_bytes"]}
    if line["kind"] == "other":
        return ("not_kafka", NOTE, {}) if is_over and ended_by == "broker" and not broker["bytes"] else None
    if line["kind"] == "empty":
        return ("closed_early", NOTE, {}) if is_over else None
    if line["kind"] != "kafka" or not is_over or line["gaps"]:
        return None
    if line["first_bytes"] == "kafka" and line["answered_with"] == "tls":
        return "tls_expected", SEVERE, {}
    if talk.in_login and (talk.refused or (talk.lost is not None and ended_by == "broker")):
        return "login_refused", SEVERE, {}
    if talk.answered:
        return _idle(line, talk)
    if talk.lost is not None and ended_by == "broker" and line["first_bytes"] == "kafka":
        return _UNANSWERED, SEVERE, {"use": talk.lost}
    return "closed_early", NOTE, {}


def _tls(line: Row, is_over: bool) -> tuple[str, str, dict[str, Any]] | None:
    """The problem of a connection whose TLS handshake did not come to its end."""
    stage, answered_with = line["tls_handshake"], line["answered_with"]
    words = {"stage": stage, "server_name": line["server_name"]}
    if answered_with not in ("tls", None):
        return "tls_not_expected", SEVERE, {"protocol": answered_with, **words}
    alerts = [alert for alert in line["tls_alerts"] if alert["description"] != "close_notify"]
    if alerts:
        first = alerts[0]
        return "tls_failed", SEVERE, {"sender": first["sender"], "alert": first["description"], **words}
    if not is_over or stage == "protected":
        return None
    if stage == "client_hello":
        silent = line["ended_by"] == "broker" and not line["broker"]["bytes"]
        return (_HELLO_CLOSED, SEVERE, words) if silent else None
    return "tls_failed", SEVERE, {"sender": line["ended_by"], **words}


def _idle(line: Row, talk: _Talk) -> tuple[str, str, dict[str, Any]] | None:
    """The problem of a connection in use that the broker, or somebody in its place, ended after a silence."""
    silence, end = line["idle_before_end_ms"], line["completed_at"]
    if line["ended_by"] != "broker" or silence is None or silence < IDLE_MS:
        return None
    if talk.lost is None:
        return "closed_idle", WARNING if line["end_reason"] == "reset" else NOTE, {"idle_ms": silence}
    if talk.lost_at is None or end is None or _nanoseconds(end) - talk.lost_at > IDLE_MS * NS_PER_MS:
        return None  # the broker held the request
    return "closed_idle", WARNING, {"idle_ms": silence}


def _nanoseconds(text: str) -> int:
    """A time of a line in nanoseconds since the epoch."""
    whole, _, rest = text.rstrip("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * NS_PER_SECOND + int(rest)


def _lasted(line: Row) -> int | None:
    """For how long a connection was looked at, in nanoseconds."""
    begin, end = line["timestamp"], line["completed_at"]
    return None if begin is None or end is None else _nanoseconds(end) - _nanoseconds(begin)


def _busiest(ending: _Ending) -> Busiest:
    return ending.windows.busiest().get(_CONNECTED, Busiest(0, 0.0))


def _detail(problem: str, ending: _Ending, use: _Use | None) -> Row:
    """Facts on a row; null what does not apply."""
    found: Row = dict.fromkeys(_DETAIL)
    for (name, value), _ in sorted(ending.words.items(), key=lambda item: item[1]):
        found[name] = value
    if problem in ("no_answer", "refused", "unreachable"):
        found["syns"] = ending.syns
    if problem == "no_answer":
        found["waited_ms"] = milliseconds(ending.waited)
    elif problem == "large_packets_lost":
        found["bytes"], found["times"] = ending.most_bytes, ending.times
    elif problem == "closed_idle":
        found["idle_ms"] = milliseconds(ending.idle.result().median)
    elif problem == "churn":
        found["per_second"], found["threshold"] = round(_busiest(ending).per_second, 3), CHURN
    elif problem == "version_refused" and use is not None:
        key, version = use
        found["api"] = None if key is None else schema.api_name(key) or str(key)
        found["version"] = version
    return found


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: the worst first."""
    order = SEVERITIES.index(row["severity"]), [*PROBLEMS].index(row["problem"])
    return *order, -row["count"], row["client_ip"], row["broker"]


# ---------------------------------------------------------------------- on a terminal


def _facts(detail: Row) -> Iterator[str]:
    for name, value in detail.items():
        if value is not None:
            if name.endswith("_ms"):
                yield f"{name[:-3]} {celltexts.lasting(value)}"
            else:
                yield f"{name.replace('_', ' ')} {value:,}" if isinstance(value, int | float) else str(value)


def _details(row: Row, clock: Clock) -> list[str]:
    return [row["meaning"], row["advice"]]


_STYLES = {SEVERE: celltexts.ERROR, WARNING: celltexts.NOTE}

ANSWER = Definition(
    Connect,
    help="Why clients cannot connect, or do not stay connected.",
    page="k",
    about="why clients cannot connect",
    columns=(
        Key(
            "problem",
            "text",
            "What went wrong",
            "PROBLEM",
            lambda problem: problem.replace("_", " "),
            style=lambda row: _STYLES.get(row["severity"], ""),
        ),
        Key("severity", "text", "error, warning or note"),
        Key("client_ip", "text", "", "ADDRESS", plain, rank=1, opens="client-host"),
        Key("client_id", "text", "The one seen at this address", "CLIENT ID", plain, rank=2),
        Key("broker", "text", "Address and port that it connected to", "BROKER"),
        Key("told_by", "text", "Address of the broker that told it"),
        Key("told_as", "text", "Host and port as told", "TOLD AS", plain, rank=3),
        Key("count", "long", "Connections", "COUNT"),
        Key("first", "time", "When the first of them began"),
        Key("last", "time", "When the last of them began"),
        Key(
            "detail",
            "connect_detail",
            "Facts by problem; null what does not apply",
            "DETAIL",
            lambda detail: ", ".join(_facts(detail)),
            rank=4,
            least=24,
        ),
        Key("frames", "connect_places", "The first five connections: first and last packet"),
        Key("meaning", "text", "What it means"),
        Key("advice", "text", "What to do"),
    ),
    structs={
        "connect_detail": """syns long, waited_ms double, code text, mtu long, sender text, bytes long, times long,
            alert text, stage text, server_name text, protocol text, api text, version int, idle_ms double,
            per_second double, threshold double""",
        "connect_place": "file text, first long, last long, packets long",
    },
    failures={SEVERE: lambda row: row["severity"] == SEVERE},
    nothing="no connection failed",
    more=lambda file, rows: f"kinspect read {file} --emit connection",
    details=_details,
)
