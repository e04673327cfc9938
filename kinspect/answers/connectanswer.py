"""Why clients cannot connect, or do not stay connected: a row for each problem, client address and broker address.

A connection has one problem at most, the first of those that its packets prove. What could be several things is decided
at the end, by what other connections to the same address were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from kinspect import wording
from kinspect.analysis.answer import Answer, RecordStore, ResultContext, Row
from kinspect.analysis.client import CONNECTIONS_KEPT
from kinspect.analysis.connectends import (
    GREETINGS,
    NO_LOGIN,
    NOTE,
    REFUSED_LEAST,
    SEVERE,
    SEVERITIES,
    WARNING,
    ApiUse,
    OpenConnections,
    explained,
    is_one_sided,
    lasted,
    nodes_told,
    speaks_kafka,
)
from kinspect.analysis.histogram import Histogram
from kinspect.analysis.record import GREATEST, LEAST, Record, TimedRecord
from kinspect.analysis.windows import Busiest, Windows
from kinspect.answers import celltexts
from kinspect.answers.celltexts import plain
from kinspect.answers.definition import Definition, Key
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.metadata import ip_text
from kinspect.kafka.view.view import epoch_ns, milliseconds
from kinspect.kafka.wire.endpoints import endpoint
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.kafka.wire.pair import ANSWERED
from kinspect.model import NS_PER_MS
from kinspect.protocol import schema

CHURN = 5.0
"""Connections a second, over ten seconds, above which a client connects far too often."""
FRAMES_KEPT = 5
_CONNECTED = "connected"


class Meaning(NamedTuple):
    """What a problem means, and what to do."""

    meaning: str
    advice: str


_TABLE = """
no_answer
    Nothing answers the SYN: a firewall or router drops it, or no host has the address.
    Check that the client can reach this address, and that advertised.listeners tells one that it can.
refused
    A reset answers the SYN: the host is there, and nothing listens on the port.
    Check that the broker runs, and that advertised.listeners tells the port that it listens on.
unreachable
    A router or host says by ICMP that packets do not get there.
    Check routes and firewalls to this address, and that advertised.listeners tells one that can be reached.
unreachable packets_too_large
    A router says by ICMP that packets are larger than the path carries; the broker is there.
    In a note smaller packets went on: nothing is to be done. Else let this ICMP pass, or lower the sender's MTU.
large_packets_lost
    Small segments pass; full-sized ones are sent again and again and never acknowledged.
    Lower the MTU, or let ICMP fragmentation needed pass: tunnels and VPNs carry smaller packets.
tls_expected
    The client speaks Kafka in clear to a port that expects TLS.
    Set security.protocol of the client to SSL or SASL_SSL, or use the port of the other listener.
tls_not_expected
    The client begins TLS on a port that speaks Kafka in clear.
    Set security.protocol of the client to PLAINTEXT or SASL_PLAINTEXT, or use the port of the TLS listener.
tls_failed
    The TLS handshake failed.
    Check the certificates, who trusts whom, the names in them, and the versions and ciphers of both sides.
tls_failed certificate_expired
    The sender of the alert says that the certificate of the other side has expired.
    Renew that certificate; if it is valid, set the sender's clock.
tls_failed unknown_ca
    The sender of the alert does not know the CA that signed the certificate of the other side.
    Put that CA into the sender's ssl.truststore.location or ssl.ca.location.
tls_failed bad_certificate
    The sender of the alert does not accept the certificate of the other side, often for the name in it.
    Check that it names the host connected to; if the broker sent the alert, that the client has one to show.
tls_failed certificate_unknown
    The sender of the alert does not accept the certificate of the other side; Java does not say why.
    Check that it has not expired, that the sender trusts its CA, and that it names the host connected to.
tls_failed certificate_required
    The broker asks for the client's certificate, and got none.
    Set ssl.keystore.location of the client, or ssl.client.auth=none of the broker.
tls_failed handshake_failure
    The sides have no cipher suite, key or signature algorithm in common.
    Compare ssl.cipher.suites of both, and the key of the broker's certificate with what the client takes.
tls_failed protocol_version
    The sides have no version of TLS in common.
    Set ssl.enabled.protocols of both to TLSv1.2,TLSv1.3, or upgrade the older side.
not_kafka
    Something that is not Kafka was sent to Kafka's port.
    Find out who asks: a health check, a scanner, a client with a wrong port.
not_kafka broker
    A request of Kafka was answered in another protocol: no broker listens at this port.
    Check the port in bootstrap.servers, and that advertised.listeners tells that of a broker.
version_refused
    The broker closes the connection on a request of this version, without an answer.
    Limit the version that the client uses, or upgrade the broker: kinspect brokers shows what it offers.
version_refused client
    The broker closes the connection on a request of this version, which the newest release no longer has.
    The client is too old, or is told to speak as to an old broker: kinspect upgrade shows what it uses.
closed_idle
    The connection was silent for some time, and then it was gone.
    Set connections.max.idle.ms of the client below that of the broker and of what lies between them.
login_refused
    The connection ended within the login.
    Check user, password and mechanism: kinspect auth says who was refused, and why.
closed_early
    The connection was closed before an answer: health checks do that.
    Nothing is to be done if it is a health check.
login_expected
    The broker answers ApiVersions and closes at the next request, as a listener does that wants a login by SASL.
    Set security.protocol of the client to SASL_PLAINTEXT or SASL_SSL and its login, or use another listener's port.
churn
    The client opens connections far too often.
    Make one client and keep it, instead of one for each message.
"""
"""The problems, those that explain most first: what each means, and what to do. A code, alert, sender or older
side behind a name: of that alone."""
_LINES = [line.strip() for line in _TABLE.strip().splitlines()]
_MEANINGS = dict(zip(_LINES[::3], map(Meaning, _LINES[1::3], _LINES[2::3]), strict=True))
PROBLEMS = [name for name in _MEANINGS if " " not in name]
_NEXT = {"login_refused": "auth {}", "version_refused": "upgrade {}", "churn": "clients {}"}
"""Commands that show more of a problem than the connections' lines."""
_OF_ADDRESS = frozenset({"no_answer", "refused", "unreachable", "churn"})
"""Problems before a client can name itself, whose client id is that of its address."""
_DETAIL = """syns long, waited_ms double, code text, mtu long, sender text, bytes long, times long, alert text,
    stage text, server_name text, protocol text, api text, version int, idle_ms double, per_second double,
    threshold double, accepted_within_ms double"""
"""Keys of the detail, with their kinds."""
_DETAIL_KEYS = [key.split()[0] for key in _DETAIL.split(",")]
_SEVERITIES = {"closed_early": NOTE, "churn": WARNING}
"""Severities of problems that other connections explain, where it is not that of the end."""
_Words = tuple[tuple[str, Any], ...]
"""Keys of the detail, with the values that one connection has."""
_RowPlace = tuple[str, str, int, str, ApiUse | None]
"""What rows are by: addresses of client and broker, the broker's port, the problem, and the version refused."""
_ToldBy = tuple[LineKey, str, str]
"""Who told an address: the key of the line, the address of the broker, and the address as told."""


def _earliest(one: list[Any], other: list[Any]) -> list[Any]:
    return sorted(map(tuple, (*one, *other)), key=lambda each: each[:3])[:FRAMES_KEPT]


@dataclass(slots=True)
class _Ending(TimedRecord):
    """Connections that ended alike. `severity`: place in `SEVERITIES`; `sent`: how often what was lost was; `words`:
    what they ended with, keys of the detail and values; `idle`: silences before the end; `frames`: start, file, first
    and last frame, and packets."""

    count: int = 0
    severity: int | None = field(default=None, metadata=LEAST)
    syns: int = 0
    sent: int = 0
    most_bytes: int | None = field(default=None, metadata=GREATEST)
    waited: int | None = field(default=None, metadata=GREATEST)
    words: dict[_Words, int] = field(default_factory=dict)
    ids: set[str] = field(default_factory=set)
    idle: Histogram = field(default_factory=Histogram)
    windows: Windows = field(default_factory=Windows)
    frames: list[Any] | None = field(default=None, metadata={"choose": _earliest})


@dataclass(slots=True)
class _Port(Record):
    """What connections to an address were: answered in clear, TLS that came about, without the broker's packets, Kafka
    in any form. `unnamed`: requests without a login that were served; `uses`: APIs and versions that were answered."""

    plain: int = 0
    tls: int = 0
    halved: int = 0
    kafka: int = 0
    unnamed: int = 0
    uses: dict[ApiUse, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Told(Record):
    """Who first told an address, as host and port."""

    by: _ToldBy | None = field(default=None, metadata=LEAST)


@dataclass(slots=True)
class _Ids(Record):
    """Client ids at an address."""

    ids: set[str] = field(default_factory=set)


class Connect(Answer):
    """Accumulator of the rows."""

    lines = frozenset({"exchange", "connection"})
    row_keys: ClassVar = {"--client-id": ("client_id",), "--client-host": ("client_ip",)}

    def __init__(self) -> None:
        super().__init__()
        self._endings = self.records(_Ending)
        # Those at addresses that are not Kafka's as far as known by then, as of scans, leave the others their room.
        self._strange = self.records(_Ending)
        self._connected = self.records(_Ending)
        self._ports = self.records(_Port)
        self._told = self.records(_Told)
        self._ids = self.records(_Ids)
        self._open = OpenConnections(CONNECTIONS_KEPT)
        # Ports that were told with a name.
        self._named: set[int] = set()

    # ------------------------------------------------------------------ exchanges

    def add(self, exchange: Exchange) -> None:
        if not exchange.connection.connection_id:
            return
        is_first, forgets = self._open.note(exchange)
        self.left_out += forgets
        if is_first and (ids := self._ids.of(exchange.connection.client_ip)) is not None:
            self.keep(ids.ids, exchange.client_id)
        if exchange.outcome == ANSWERED:
            self._add_answered(exchange)

    def _add_answered(self, exchange: Exchange) -> None:
        connection, key, version = exchange.connection, exchange.api_key, exchange.api_version
        port = self._ports.of(connection.broker_ip, connection.broker_port)
        if port is not None:
            port.kafka += 1
            port.plain += not connection.tls
            port.unnamed += exchange.principal is None and key not in GREETINGS
            if key is not None and version is not None:
                self.count(port.uses, (key, version))
        teller = endpoint(connection.broker_ip, connection.broker_port)
        for host, number in nodes_told(exchange):
            ip = ip_text(host)
            if ip is None:
                self._named.add(number)
            told = self._told.of(ip or host, number)
            if told is not None:
                by = exchange.key, teller, endpoint(host, number)
                told.by = by if told.by is None else min(told.by, by)

    # ------------------------------------------------------------------ connections

    def add_connection(self, line: Row) -> None:
        broker = line["broker"]
        kafka = speaks_kafka(line)
        tls, halved = line["tls_handshake"] == "done", is_one_sided(line)
        port = self._ports.of(broker["ip"], broker["port"]) if kafka or tls or halved else None
        if port is not None:
            port.kafka += kafka
            port.tls += tls
            port.halved += halved
        end = self._open.ended(line)
        if end is not None:
            self._end(line, end.problem, end.severity, {**(end.words or {})}, end.use)
        if line["syns"] is not None and broker["packets"] and not line["refused"]:
            self._end(line, _CONNECTED, NOTE, {})

    def _place_of(self, broker: Row, problem: str) -> RecordStore[_Ending]:
        """Where connections that ended so are kept."""
        if problem == _CONNECTED:
            return self._connected
        ip, number = broker["ip"], broker["port"]
        port = self._ports.known(ip, number)
        is_told = number in self._named or self._told.known(ip, number) is not None
        return self._endings if is_told or (port is not None and port.kafka) else self._strange

    def _end(
        self, line: Row, problem: str, severity: str, words: dict[str, Any], use: ApiUse | None = None
    ) -> None:
        client, broker = line["client"], line["broker"]
        ending = self._place_of(broker, problem).of(client["ip"], broker["ip"], broker["port"], problem, use)
        if ending is None:
            return
        # When a connection began is not known if that was not captured.
        at, frames = None if line["syns"] is None else line["timestamp"], line["frames"]
        place = SEVERITIES.index(severity)
        ending.count += 1
        ending.severity = place if ending.severity is None else min(ending.severity, place)
        time = None if at is None else epoch_ns(at)
        ending.note_time(time)
        ending.frames = _earliest(ending.frames or [], [(at or "", *frames.values())])
        if problem == _CONNECTED:
            if time is not None:
                ending.windows.add(_CONNECTED, time)
            return
        if client["id"] is not None:
            self.keep(ending.ids, client["id"])
        ending.syns += line["syns"] or 0
        waited = lasted(line)
        if waited is not None:
            ending.waited = waited if ending.waited is None else max(ending.waited, waited)
        ending.sent += words.pop("times", 0)
        size = words.pop("bytes", None)
        if size is not None:
            ending.most_bytes = size if ending.most_bytes is None else max(ending.most_bytes, size)
        idle = words.pop("idle_ms", None)
        if idle is not None:
            self.measure(ending.idle, round(idle * NS_PER_MS))
        known = tuple((name, value) for name, value in words.items() if value is not None)
        if known:
            self.count(ending.words, known)

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
        endings: dict[tuple[Any, ...], _Ending] = {}
        for store in (self._endings, self._strange, self._connected):
            for place, ending in store.items():
                endings.setdefault(place, _Ending()).merge(ending)
        together: dict[_RowPlace, _Ending] = {}
        strange: dict[_RowPlace, _Ending] = {}
        for (client_ip, ip, number, ended, use), ending in sorted(
            endings.items(), key=lambda item: str(item[0])
        ):
            port, names = ports.get((ip, number)) or _Port(), named.get(number, [])
            if (ip, number) not in told and len(names) == 1:
                told[ip, number] = names[0]
            problem = _explained(ended, use, ending, port)
            if problem is None:
                continue
            of_use = use if problem == "version_refused" else None
            of_kafka = port.kafka or (ip, number) in told
            found = together if of_kafka else strange
            found.setdefault((client_ip, ip, number, problem, of_use), _Ending()).merge(ending)
        down = {key[1:3] for key in together if key[3] == "refused"}
        for (_, ip, number, problem, _), ending in together.items():
            if problem == "closed_idle" and (ip, number) in down:
                ending.severity = SEVERITIES.index(NOTE)  # the broker was stopped
        rows = [self._row(key, ending, told.get(key[1:3])) for key, ending in together.items()]
        self._note_accepted([row for row in rows if row["problem"] == "refused"])
        self.unproven = [*self._failed_tls(strange, context)]
        tried = {*ports, *(key[1:3] for key in endings)}
        numbers = {number for _, number in tried}
        is_tried = any(at in tried if ip_text(at[0]) else at[1] in numbers for at in told)
        if told and not is_tried and not context.options:
            self.unproven.append(
                f"no connection to {wording.listed(sorted(by[2] for by in told.values()))}, as advertised: "
                "the name may not resolve there (advertised.listeners), or the capture lacks it"
            )
        nameless = sum(row["count"] for row in rows if row["client_id"] is None)
        if nameless and not context.chooses("--client-id", ()):
            self.unproven.append(f"{wording.counted(nameless, 'failure')} of which --client-id is not known")
        return sorted(rows, key=_place)

    def _failed_tls(self, strange: dict[_RowPlace, _Ending], context: ResultContext) -> Iterator[str]:
        """A line on TLS handshakes that failed where nothing proves that it was Kafka's."""
        counts: dict[tuple[str, int], int] = {}
        for key, ending in strange.items():
            if key[3] == "tls_failed" and self.is_chosen(self._row(key, ending, None), context.chooses):
                counts[key[1:3]] = counts.get(key[1:3], 0) + ending.count
        if counts:
            addresses = sorted(counts, key=lambda address: (-counts[address], address))
            ports = {number for _, number in addresses}
            yield (
                f"{wording.counted(sum(counts.values()), 'TLS handshake')} failed at "
                f"{wording.listed([endpoint(*address) for address in addresses])} "
                f"(--decode-as {'PORT' if len(ports) > 1 else ports.pop()} if that is Kafka)"
            )

    def _note_accepted(self, refused: list[Row]) -> None:
        """Tell within what time of its last refusal an address accepted a connection."""
        times: dict[str, set[str]] = {}
        for (_, ip, number, *_), ending in self._connected.items():
            times.setdefault(endpoint(ip, number), set()).update(filter(None, ending.times.values()))
        for row in refused:
            later = [time for time in times.get(row["broker"], ()) if time > (row["last"] or time)]
            if later:
                within = epoch_ns(min(later)) - epoch_ns(row["last"])
                row["detail"]["accepted_within_ms"] = milliseconds(within)

    def _row(self, place: _RowPlace, ending: _Ending, told: _ToldBy | None) -> Row:
        client_ip, ip, number, problem, use = place
        known = self._ids.known(client_ip) if problem in _OF_ADDRESS else None
        ids = ending.ids or (known.ids if known is not None else set())
        detail = _detail(problem, ending, use)
        words = detail["code"], detail["alert"], detail["sender"], _older(use)
        found = (_MEANINGS.get(f"{problem} {word}") for word in words)
        meaning = next(filter(None, found), _MEANINGS[problem])
        return {
            "problem": problem,
            "severity": _SEVERITIES.get(problem, SEVERITIES[ending.severity or 0]),
            "client_ip": client_ip,
            "client_id": next(iter(ids)) if len(ids) == 1 else None,
            "broker": endpoint(ip, number),
            "told_by": told and told[1],
            "told_as": told and told[2],
            "count": ending.count,
            **ending.times,
            "detail": detail,
            "frames": [
                dict(zip(("file", "first", "last", "packets"), each[1:], strict=True))
                for each in ending.frames or ()
            ],
            **meaning._asdict(),
        }


def _explained(problem: str, use: ApiUse | None, ending: _Ending, port: _Port) -> str | None:
    if problem == _CONNECTED:
        return "churn" if _busiest(ending).per_second > CHURN else None
    is_served = port.unnamed if problem == NO_LOGIN else use is None or use in port.uses
    refuses = ending.count >= REFUSED_LEAST and not is_served
    return explained(problem, bool(port.plain), bool(port.tls), bool(port.halved), refuses)


def _busiest(ending: _Ending) -> Busiest:
    return ending.windows.busiest().get(_CONNECTED, Busiest(0, 0.0))


def _detail(problem: str, ending: _Ending, use: ApiUse | None) -> Row:
    """Facts on a row; null what does not apply."""
    found: Row = dict.fromkeys(_DETAIL_KEYS)
    if ending.words:
        found.update(max(ending.words.items(), key=lambda item: (item[1], str(item[0])))[0])
    if problem in ("no_answer", "refused", "unreachable"):
        found["syns"] = ending.syns
    if problem == "no_answer":
        found["waited_ms"] = milliseconds(ending.waited)
    elif problem == "large_packets_lost":
        found["bytes"], found["times"] = ending.most_bytes, ending.sent
    elif problem == "closed_idle":
        found["idle_ms"] = milliseconds(ending.idle.result().median)
    elif problem == "churn":
        found["per_second"], found["threshold"] = round(_busiest(ending).per_second, 3), CHURN
    elif problem == "version_refused" and use is not None:
        key, version = use
        found["api"] = None if key is None else schema.api_name(key) or str(key)
        found["version"] = version
    return found


def _older(use: ApiUse | None) -> str | None:
    """The side that is older: the client, if the newest release no longer has what it used."""
    key, version = use or (None, None)
    *_, newest = schema.releases().values()
    return "client" if key in newest and version is not None and version < newest[key].low else None


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: the worst first."""
    order = SEVERITIES.index(row["severity"]), PROBLEMS.index(row["problem"])
    return *order, -row["count"], row["client_ip"], row["broker"]


# ---------------------------------------------------------------------- on a terminal


def _facts(detail: Row) -> Iterator[str]:
    for name, value in detail.items():
        if name.endswith("_ms") and value is not None:
            yield f"{name[:-3].replace('_', ' ')} {celltexts.lasting(value)}"
        elif value is not None:
            yield f"{name.replace('_', ' ')} {celltexts.known(value)}"


def _next(file: str, rows: list[Row]) -> str:
    return "kinspect " + _NEXT.get(rows[0]["problem"], "read {} --emit connection").format(file)


STYLES = {SEVERE: celltexts.ERROR, WARNING: celltexts.NOTE}

ANSWER = Definition(
    Connect,
    help="Why clients cannot connect, or do not stay connected.",
    page="h",
    page_help="why clients cannot connect",
    columns=(
        Key(
            "problem",
            "text",
            "What went wrong",
            "PROBLEM",
            cell=lambda row: f"{row['severity']}: {row['problem'].replace('_', ' ')}",
            style=lambda row: STYLES.get(row["severity"], ""),
            least=25,
        ),
        Key("severity", "text", "error, warning or note"),
        Key("client_ip", "text", "", "ADDRESS", plain, rank=1, opens="client-host"),
        Key("client_id", "text", "That of these connections, or of the address", "CLIENT ID", plain, rank=2),
        Key("broker", "text", "Address and port that it connected to", "BROKER"),
        Key("told_by", "text", "Address of the broker that told it"),
        Key("told_as", "text", "Host and port as told", "ADVERTISED AS", plain, rank=3),
        Key("count", "long", "Connections", "COUNT"),
        Key("first", "time", "When the first of them began"),
        Key("last", "time", "When the last of them began"),
        Key("detail", "connect_detail", "Facts by problem; null what does not apply"),
        Key(
            "frames",
            "connect_places",
            "The first five connections: first and last packet, null for one in another file",
        ),
        Key("meaning", "text", "What it means"),
        Key("advice", "text", "What to do"),
    ),
    structs={"connect_detail": _DETAIL, "connect_place": "file text, first long, last long, packets long"},
    failures={SEVERE: lambda row: row["severity"] == SEVERE},
    identity="problem client_id",
    addresses="client_ip broker",
    compared="severity count",
    troubles=True,
    without_kafka=True,
    nothing="no known problem was seen (for requests without an answer: kinspect errors)",
    more=_next,
    details=lambda row, _: [*filter(None, [", ".join(_facts(row["detail"]))])],
    meaning=lambda row: [row["meaning"], row["advice"]],
    connections=lambda row: row["frames"],
)
