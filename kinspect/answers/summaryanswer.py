"""What is in a capture, what is wrong, and where to look next: findings from the other answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from kinspect import state
from kinspect.analysis.answer import Answer, ResultContext, Row
from kinspect.analysis.connectends import NOTE, SEVERE, SEVERITIES, WARNING
from kinspect.analysis.expected import EXPECTED
from kinspect.analysis.grouprows import SHARE
from kinspect.analysis.histogram import Histogram
from kinspect.analysis.record import Record
from kinspect.answers import celltexts
from kinspect.answers.authanswer import Auth
from kinspect.answers.brokersanswer import Brokers
from kinspect.answers.clientsanswer import Clients, ClientUse
from kinspect.answers.connectanswer import PROBLEMS, STYLES, Connect
from kinspect.answers.definition import Definition, Key
from kinspect.answers.errorsanswer import UNANSWERED, Errors
from kinspect.answers.groupsanswer import Groups
from kinspect.answers.latencyanswer import SLOW_NS, Latency
from kinspect.answers.topicsanswer import topics_in
from kinspect.answers.transactionsanswer import Transactions
from kinspect.answers.upgradeanswer import Upgrade
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.pair import KAFKA, TOKEN_NAME
from kinspect.model import NS_PER_MS
from kinspect.protocol import schema
from kinspect.protocol.apikeys import FETCH, PRODUCE, SHARE_FETCH
from kinspect.wording import counted

NAMED = 3
"""Names in a finding's text."""
INT64_MOST = (1 << 63) - 1
"""Greatest number that JSON readers and tables hold: offsets may be made up."""

LOGIN_APIS = {TOKEN_NAME, *map(schema.api_name, schema.apis_with("begins", "login"))}
"""What a login consists of, as rows name it."""
UNKNOWN_API = "unknown API"

Rows = dict[str, list[Row]]


@dataclass(slots=True)
class _Size(Record):
    """Requests and bytes of a topic."""

    requests: int = 0
    bytes: int = 0


class _Topics(Answer):
    """Topics that are produced to or fetched from; no finding says who does, nor what is in a session."""

    def __init__(self) -> None:
        super().__init__()
        self._sizes = self.records(_Size)

    def add(self, exchange: Exchange) -> None:
        found = _RECORDS.get(exchange.api_key)
        if found is None or exchange.request is None:
            return
        topics, partitions, answered = found
        named = topics_in(exchange.request.facts().body, topics, partitions)
        if answered is not None and exchange.response is not None:
            named |= topics_in(exchange.response.facts().body, answered, partitions)
        for topic, parts in named.items():
            size = self._sizes.of(*topic)
            if size is not None:
                size.requests += 1
                for part in parts:
                    size.bytes += len(part.get("records") or b"")

    def result(self, context: ResultContext) -> list[Row]:
        sizes: dict[str, _Size] = {}
        named = set()
        for (name, topic_id), size in self._sizes.items():
            name = name or (context.topic(topic_id) if topic_id else None)
            topic = name or topic_id
            # A name that was cut off names nothing.
            if topic is not None:
                sizes.setdefault(topic, _Size()).merge(size)
            named.add(name)
        return [
            {"topic": topic, "is_named": topic in named}
            for topic, _ in sorted(sizes.items(), key=_size_place)
        ]


_RECORDS: dict[int | None, tuple[str, str, str | None]] = {
    PRODUCE: ("topic_data", "partition_data", None),
    FETCH: ("topics", "partitions", "responses"),
    SHARE_FETCH: ("topics", "partitions", "responses"),
}
"""Requests that move records: the keys of their topics, of a topic's partitions, and of topics in the answer."""


def _size_place(found: tuple[str, _Size]) -> tuple[Any, ...]:
    """The order of topics: the largest first."""
    topic, size = found
    return -size.bytes, -size.requests, topic


class _Clients(Clients):
    """Clients with their storms; no finding counts versions and errors of APIs."""

    def _add_request(self, client: ClientUse, exchange: Exchange, time: int | None) -> None:
        self._add_storm(client, exchange.api_key, time)


class _Latency(Latency):
    """Causes of waits; no finding has percentiles."""

    def measure(self, histogram: Histogram, value: int) -> None:
        pass


SIDES = ("client", "broker")
"""Sides of a connection."""


@dataclass(slots=True)
class _ConnectionSides(Record):
    """Connections, and those without a packet of one side."""

    connections: int = 0
    missing: dict[str, int] = field(default_factory=dict)


class _Sides(Answer):
    """Connections of which the capture has one side."""

    lines = frozenset({"connection"})

    def __init__(self) -> None:
        super().__init__()
        self._seen = self.records(_ConnectionSides)

    def add(self, exchange: Exchange) -> None:
        """Its connection's line says so."""

    def add_connection(self, line: dict[str, Any]) -> None:
        seen = self._seen.of()
        if seen is not None and line["kind"] == KAFKA:
            seen.connections += 1
            for side in SIDES:
                if not line[side]["packets"]:
                    self.count(seen.missing, side)

    def result(self, context: ResultContext) -> list[Row]:
        return [{"connections": seen.connections, "missing": seen.missing} for _, seen in self._seen.items()]


PARTS: dict[str, type[Answer]] = {
    "connect": Connect,
    "topics": _Topics,
    "clients": _Clients,
    "groups": Groups,
    "latency": _Latency,
    "errors": Errors,
    "brokers": Brokers,
    "auth": Auth,
    "transactions": Transactions,
    "upgrade": Upgrade,
    "sides": _Sides,
}
"""The answers that findings are taken from."""


@dataclass(slots=True, frozen=True)
class Finding:
    """Something to be known. `count`: None if that is not known; `command`: the answer that shows it, with its
    options; `advice`: what to do, of the first few."""

    finding: str
    severity: str
    count: int | None
    text: str
    command: str
    advice: list[str] = field(default_factory=list)


class Summary(Answer):
    """Accumulator of all parts."""

    lines = frozenset({"exchange", "connection"})

    def __init__(self) -> None:
        super().__init__()
        self._answers = {name: part() for name, part in PARTS.items()}

    def add(self, exchange: Exchange) -> None:
        # Decoded whole once: each answer takes its fields from that.
        for message in (exchange.request, exchange.response):
            if message is not None:
                message.decode()
        for answer in self._answers.values():
            answer.add(exchange)

    def add_carried(self, exchange: Exchange) -> None:
        for answer in self._answers.values():
            answer.add_carried(exchange)

    def add_connection(self, line: dict[str, Any]) -> None:
        for answer in self._answers.values():
            answer.add_connection(line)

    def merge(self, other: Self) -> None:
        super().merge(other)
        for name, answer in self._answers.items():
            answer.merge(other._answers[name])

    def to_bytes(self) -> bytes:
        parts = {name: answer.to_bytes() for name, answer in self._answers.items()}
        return state.to_bytes([super().to_bytes(), parts])

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        own, parts = state.from_bytes(data)
        summary = super().from_bytes(own)
        for name, part in parts.items():
            summary._answers[name] = type(summary._answers[name]).from_bytes(part)
        return summary

    def result(self, context: ResultContext) -> list[Row]:
        self.left_out = sum(answer.left_out for answer in self._answers.values())
        rows = {name: answer.result(context) for name, answer in self._answers.items()}
        self.unproven = [line for answer in self._answers.values() for line in answer.unproven]
        if context.options:
            # Whether a login was refused, what was left out may show: then that is no finding of its own.
            rows["errors"] = [row for row in rows["errors"] if not _is_unanswered_login(row)]
        found = [finding for find in _FINDERS for finding in find(rows) if finding.count != 0]
        found.sort(key=lambda finding: SEVERITIES.index(finding.severity))
        return [asdict(finding) for finding in found]


def _listed(names: Iterable[str | None]) -> str:
    """The first names, and how many there are more."""
    distinct = list(dict.fromkeys(name for name in names if name is not None))
    more = f" and {len(distinct) - NAMED:,} more" if len(distinct) > NAMED else ""
    return ", ".join(distinct[:NAMED]) + more


def _advice(texts: Iterable[str]) -> list[str]:
    """The first of these texts, each once."""
    return list(dict.fromkeys(texts))[:NAMED]


def _contents(rows: Rows) -> Iterator[Finding]:
    """What there is."""
    # A node has a row for each listener, and one that was never asked anything may have one, or that is no broker.
    strange = {
        row["broker"] for row in rows["connect"] if row["detail"]["sender"] and row["detail"]["protocol"]
    }
    asked = [row for row in rows["brokers"] if row["requests"] and row["address"] not in strange]
    count, addresses = _nodes(asked)
    releases = _listed(celltexts.releases_text(row["releases"]) for row in asked if row["releases"])
    text = f"{_listed(addresses)}{f': {releases}' if releases else ''}"
    yield Finding("brokers", NOTE, count, text, "brokers")
    for name, key in (("clients", "client_id"), ("groups", "group"), ("topics", "topic")):
        # A client has a row for each address.
        names = list(dict.fromkeys(row[key] for row in rows[name] if row[key] is not None))
        # An id without a name may be that of a topic that is named elsewhere.
        nameless = {row[key] for row in rows[name] if not row.get("is_named", True)}
        count = max(len(nameless), len(names) - len(nameless))
        first = sorted(names, key=nameless.__contains__)[:count]
        yield Finding(name, NOTE, count, _listed(map(celltexts.known, first)), name)


def _nodes(asked: list[Row]) -> tuple[int | None, list[str]]:
    """The number of nodes that were asked, and an address of each. Addresses whose node is not known may be those of
    one."""
    has_clusters = any(row["cluster_id"] for row in asked)
    nodes: dict[Any, str] = {}
    others: list[str] = []
    for row in asked:
        if row["node_id"] is None or (has_clusters and row["cluster_id"] is None):
            others.append(row["address"])
        else:
            nodes.setdefault((row["cluster_id"], row["node_id"]), row["address"])
    is_known = not others or len(asked) == 1
    return len(asked if others else nodes) if is_known else None, [*nodes.values(), *others]


def _connects(rows: Rows) -> Iterator[Finding]:
    """Why clients cannot connect; logins have a finding of their own."""
    for problem in PROBLEMS:
        chosen = [row for row in rows["connect"] if row["problem"] == problem and row["severity"] != NOTE]
        if chosen and problem != "login_refused":
            who = _listed(
                f"{row['client_id'] or row['client_ip']} to {row['told_as'] or row['broker']}"
                for row in chosen
            )
            severity = min((row["severity"] for row in chosen), key=SEVERITIES.index)
            count, advice = sum(row["count"] for row in chosen), _advice(row["advice"] for row in chosen)
            yield Finding(problem, severity, count, who, "connect", advice)


def _failures(rows: Rows) -> Iterator[Finding]:
    refused = [row for row in rows["auth"] if row["failed"] or row["probably_failed"]]
    count = sum(row["failed"] + row["probably_failed"] for row in refused)
    who = _listed(row["principal"] or row["client_id"] or row["client_ip"] for row in refused)
    yield Finding("logins_refused", SEVERE, count, who, "auth")
    # A login that was refused is one finding.
    clients = {(row["client_id"], row["client_ip"]) for row in refused}
    unexpected = [row for row in rows["errors"] if row["expected"] is False and not _is_refusal(row, clients)]
    for name, severity in (("unanswered", SEVERE), ("errors", WARNING)):
        chosen = [row for row in unexpected if (row["error"] == UNANSWERED) == (name == "unanswered")]
        text = _listed(f"{row['api'] or UNKNOWN_API} {row['error']}" for row in chosen)
        advice = _advice(f"{row['error']}: {row['meaning']} {row['advice']}" for row in chosen)
        yield Finding(name, severity, sum(map(_times, chosen)), text, "errors", advice)


def _times(row: Row) -> int:
    """How often an error was there, but for answers that the capture lacks."""
    reasons: dict[str, int] = row["expected_reasons"]
    return int(row["count"]) - sum(reasons.get(reason, 0) for reason in EXPECTED.values())


def _is_unanswered_login(row: Row) -> bool:
    return row["api"] in LOGIN_APIS and row["error"] == UNANSWERED


def _is_refusal(row: Row, refused: set[tuple[Any, Any]]) -> bool:
    """True for an error by which the broker refused a login. `refused`: clients with such logins."""
    return row["api"] in LOGIN_APIS and (row["client_id"], row["client_ip"]) in refused


def _groups(rows: Rows) -> Iterator[Finding]:
    # Members of share groups come and go without taking anything from each other.
    moved = [row for row in rows["groups"] if len(row["rebalances"]) > 1 and row["kind"] != SHARE]
    text = _listed(f"{row['group']} {len(row['rebalances'])}×" for row in moved)
    yield Finding("rebalances", WARNING, sum(len(row["rebalances"]) for row in moved), text, "groups")
    behind = [
        (row["group"], partition, committed["lag"])
        for row in rows["groups"]
        for partition, committed in row["committed"].items()
        if committed["lag"]
    ]
    text = _listed(f"{group} {partition} {lag:,}" for group, partition, lag in behind)
    yield Finding("lag", NOTE, min(sum(lag for _, _, lag in behind), INT64_MOST), text, "groups")


def _transactions(rows: Rows) -> Iterator[Finding]:
    for outcome, severity in (
        ("fenced", SEVERE),
        ("timed_out", SEVERE),
        ("aborted", WARNING),
        ("open", NOTE),
    ):
        ids = [
            row["transactional_id"]
            for row in rows["transactions"]
            for transaction in row["transactions"]
            if transaction["outcome"] == outcome
        ]
        yield Finding(f"transactions_{outcome}", severity, len(ids), _listed(ids), "transactions")


def _speed(rows: Rows) -> Iterator[Finding]:
    slow = sorted((row for row in rows["latency"] if row["slow"]), key=lambda row: -row["slow"])
    text = _listed(f"{row['api']} {row['slow']:,} of {row['count']:,}" for row in slow)
    count = sum(row["slow"] for row in slow)
    yield Finding("slow", WARNING, count, text, f"latency --slow {SLOW_NS // NS_PER_MS}")
    throttled = [row for row in rows["latency"] if row["waits"]["throttled"]]
    count = sum(row["waits"]["throttled"] for row in throttled)
    yield Finding("throttled", WARNING, count, _listed(row["api"] for row in throttled), "latency")
    storms = {
        f"{row['client_id'] or row['client_ip']} {storm['api']}": None
        for row in rows["clients"]
        for storm in row["storms"]
    }
    text = _listed(storms)
    yield Finding("storms", WARNING, len(storms), text, "clients")


def _one_sided(rows: Rows) -> Iterator[Finding]:
    for row in rows["sides"]:
        missing = [
            f"{row['missing'][side]:,} without the {side}'s" for side in SIDES if side in row["missing"]
        ]
        text = f"{' and '.join(missing)} packets, of {counted(row['connections'], 'connection')}"
        yield Finding("one_sided", WARNING, sum(row["missing"].values()), text, "read --emit connection")


def _brokers(rows: Rows) -> Iterator[Finding]:
    moved = sorted({change["partition"] for row in rows["brokers"] for change in row["leader_changes"]})
    yield Finding("leader_changes", WARNING, len(moved), _listed(moved), "brokers")
    breaking = [row for row in rows["upgrade"] if row["verdict"] == "breaks"]
    text = _listed(row["client_id"] or row["client_ip"] for row in breaking)
    yield Finding("breaks_on_upgrade", WARNING, len(breaking), text, "upgrade")


_FINDERS: tuple[Callable[[Rows], Iterator[Finding]], ...] = (
    _connects,
    _one_sided,
    _failures,
    _groups,
    _transactions,
    _speed,
    _brokers,
    _contents,
)


_WORDS = {
    "lag": "lag in records",
    "one_sided": "one-sided connections",
    "slow": "slow exchanges",
    "throttled": "throttled exchanges",
    "unanswered": "unanswered requests",
}
"""Findings whose names alone do not say what is counted."""
CONTENTS = frozenset({"brokers", "clients", "groups", "topics"})
"""Findings that say what there is."""


def _next(file: str, rows: list[Row]) -> str:
    worst = next((row for row in rows if row["finding"] not in CONTENTS), rows[0])
    name, *options = worst["command"].split()
    return " ".join(["kinspect", name, file, *options])


ANSWER = Definition(
    Summary,
    help="What is in a capture, what is wrong, and where to look next.",
    page="1",
    page_help="what is wrong, and where to look next",
    columns=(
        Key(
            "finding",
            "text",
            "Name of the finding",
            "FINDING",
            lambda name: _WORDS.get(name) or name.replace("_", " "),
            style=lambda row: STYLES.get(row["severity"], ""),
        ),
        Key("severity", "text", "error, warning or note"),
        Key("count", "long", "How many there are", "COUNT"),
        Key("text", "text", "The first few by name, and how many more there are", "WHICH", str),
        Key("command", "text", "The command that shows them", "SHOWN BY", str),
        Key("advice", "texts", "What to do, of the first few"),
    ),
    nothing="no Kafka traffic",
    more=_next,
    leads=lambda row: row["finding"] in CONTENTS,
    leads_to=lambda row: str(row["command"]).split()[0],
    spans=True,
)
