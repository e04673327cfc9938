"""Clients that break on a release, with the versions and record formats that are why: a row for each client id and
client address."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike, fspath
from os.path import exists
from typing import Any, NamedTuple

from kinspect.analysis.answer import Answer, ResultContext, Row
from kinspect.analysis.client import Client, client_key, newest_versions
from kinspect.analysis.record import GREATEST, Record, later
from kinspect.answers.celltexts import ERROR, NOTE, listed, plain, reading, software
from kinspect.answers.definition import Definition, Key, OwnOption
from kinspect.errors import KinspectError
from kinspect.kafka.bodysummary import error_counts
from kinspect.kafka.connection.roles import CLUSTER
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.pair import ANSWERED
from kinspect.output.columns import Column
from kinspect.protocol import schema
from kinspect.protocol.apikeys import API_VERSIONS, FETCH, METADATA, PRODUCE
from kinspect.protocol.schema import VersionRange

UNSUPPORTED_VERSION = 35
BREAKS, OK, UNKNOWN = "breaks", "ok", "unknown"
CONVERTS, REFUSES = "converts", "refuses"
FORMATS = {
    # Fetch 2 and 3 take format 1 at most (KIP-31, KIP-32), versions before them format 0.
    FETCH: (0, 0, 1, 1),
    # Produce 2 has format 0 or 1, versions before it format 0, later ones format 2 (KIP-98).
    PRODUCE: (0, 0, 1),
}
"""Newest record format (`magic`) of each version of an API; of later versions `NEWEST_FORMAT`."""
NEWEST_FORMAT = 2
_VERDICTS = (BREAKS, UNKNOWN, OK)


class OfferedRanges(NamedTuple):
    """What brokers of a capture offer. `name`: that of the capture; `ranges`: as those of a release."""

    name: str
    ranges: dict[int, VersionRange]


Use = tuple[int, int, str, int]
"""API key, version, and the broker's address and port."""


@dataclass(slots=True)
class _Client(Client):
    """Requests of a client that matter for the release, and how it chooses its versions. `hidden`: requests of which it
    was cut off whether a broker sent them."""

    asked: int = 0
    hidden: int = 0
    uses: dict[Use, int] = field(default_factory=dict)


@dataclass(slots=True)
class _BrokerVersions(Record):
    """Newest versions that a broker offered, by API key."""

    newest: tuple[Any, Any] | None = field(default=None, metadata=GREATEST)


class Upgrade(Answer):
    """Accumulator of the rows. `to`: a release, the newest if None, or what brokers of a capture offer. Raises
    KinspectError for an unknown release."""

    def __init__(self, to: str | OfferedRanges | None = None) -> None:
        super().__init__()
        releases = schema.releases()
        newest = [*releases][-1]
        target = to if isinstance(to, OfferedRanges) else _release(newest if to is None else to)
        self._to = target.name
        self._ranges = target.ranges
        self._newest_ranges = releases[newest]
        produce = self._ranges.get(PRODUCE)
        self._own_format = NEWEST_FORMAT if produce is None else _format(PRODUCE, produce.high)
        self._clients = self.records(_Client)
        self._brokers = self.records(_BrokerVersions)

    def add(self, exchange: Exchange) -> None:
        client = self._clients.of(*client_key(exchange))
        if client is None:
            return
        if exchange.role is None and exchange.request is not None and not exchange.request.complete:
            # What was cut off may show that it is a broker.
            client.gaps += 1
            client.hidden += 1
            return
        client.note(exchange)
        api_key, version = exchange.api_key, exchange.api_version
        if exchange.request is None or api_key is None or version is None or version < 0:
            return
        if api_key == API_VERSIONS:
            client.asked += 1
            self._add_broker(exchange)
        elif self._matters(api_key, version, exchange):
            ends = exchange.connection
            self.count(client.uses, (api_key, version, ends.broker_ip, ends.broker_port))

    def _matters(self, api_key: int, version: int, exchange: Exchange) -> bool:
        """True for a version that the release does not have, or whose records it has to convert. What is newer than the
        release counts only if the broker had it."""
        spoken = self._ranges.get(api_key)
        if spoken is not None and version <= spoken.high:
            return version < spoken.low or _format(api_key, version) < self._own_format
        return (
            exchange.outcome == ANSWERED
            and schema.api_name(api_key) is not None
            and UNSUPPORTED_VERSION not in error_counts(exchange)
        )

    def _add_broker(self, exchange: Exchange) -> None:
        newest = newest_versions(exchange)
        ends = exchange.connection
        broker = self._brokers.of(ends.broker_ip, ends.broker_port)
        if broker is not None and newest is not None:
            broker.newest = later(broker.newest, exchange.key, tuple(newest.items()))

    # ------------------------------------------------------------------ the whole

    def result(self, context: ResultContext) -> list[Row]:
        newest = {
            address: dict(broker.newest[1]) for address, broker in self._brokers.items() if broker.newest
        }
        # Requests whose client id was cut off may be those of any client there.
        nameless = {
            ip for (client_id, ip), client in self._clients.items() if client_id is None and client.gaps
        }
        rows = [
            self._row(
                client_id, client_ip, client, newest, client.is_whole(context) and client_ip not in nameless
            )
            for (client_id, client_ip), client in self._clients.items()
            if client.role not in CLUSTER and (client.requests or not client.hidden)
        ]
        return sorted(rows, key=_place)

    def _row(
        self, client_id: str | None, client_ip: str, client: _Client, newest: dict[Any, Any], is_whole: bool
    ) -> Row:
        # Without an ApiVersions request it does not negotiate, if none may be missing.
        negotiates = True if client.asked else False if is_whole else None
        breaks: dict[int, dict[int, int]] = {}
        formats: dict[tuple[int, int], int] = {}
        certain = False
        for (api_key, version, *broker), requests in client.uses.items():
            spoken = self._ranges.get(api_key)
            has = newest.get(tuple(broker), {}).get(api_key)
            sure = self._is_sure(api_key, version, negotiates, has)
            if spoken is not None and version > spoken.high and negotiates:
                continue
            if spoken is None or not spoken.low <= version <= spoken.high:
                versions = breaks.setdefault(api_key, {})
                versions[version] = versions.get(version, 0) + requests
                certain = certain or sure
            if spoken is not None and _format(api_key, version) < self._own_format and sure:
                kept = api_key, version
                formats[kept] = formats.get(kept, 0) + requests
        known = OK if client.requests and is_whole else UNKNOWN
        return {
            "client_id": client_id,
            "client_ip": client_ip,
            **client.software_columns,
            "to": self._to,
            "verdict": BREAKS if certain else UNKNOWN if breaks else known,
            "breaks": [
                {
                    "api": schema.api_name(api_key) or str(api_key),
                    "used": sorted(versions),
                    "supported": [*self._ranges[api_key][:2]] if api_key in self._ranges else [],
                    "requests": sum(versions.values()),
                    "negotiates": negotiates,
                }
                for api_key, versions in sorted(breaks.items())
            ],
            "down_conversion": [
                {
                    "api": schema.api_name(api_key),
                    "version": version,
                    "format": _format(api_key, version),
                    "requests": requests,
                    "release": REFUSES if version < self._ranges[api_key].low else CONVERTS,
                }
                for (api_key, version), requests in sorted(formats.items())
            ],
            "requests": client.requests,
        }

    def _is_sure(self, api_key: int, version: int, negotiates: bool | None, has: int | None) -> bool:
        """True if the client will use this version with the release too. `has`: the newest version of the broker it was
        sent to."""
        spoken = self._ranges.get(api_key)
        if spoken is None and api_key not in self._newest_ranges:
            # No release will have it any more.
            return True
        if spoken is not None and version <= spoken.high and has is not None and version < has:
            # It had the choice of a newer one.
            return True
        return negotiates is False


def _release(name: str) -> OfferedRanges:
    release = schema.release(name)
    if release is None:
        raise KinspectError(
            f"there is no release {name!r}, and no such capture: see `kinspect schema releases`"
        )
    return OfferedRanges(name.removeprefix("v"), schema.releases()[release])


def _target(
    to: str | PathLike[str] | None, answer: Callable[[str, str], dict[str, Any]]
) -> str | OfferedRanges | None:
    """What brokers offer in the capture of that name, if there is one and no such release. Raises KinspectError."""
    if to is None or schema.release(fspath(to)) is not None or not exists(to):
        return None if to is None else fspath(to)
    found = answer("brokers", fspath(to))
    offered = [_offered(row) for row in found["rows"] if row["ranges"]]
    # Clients do not ask controllers.
    offered = [each for each in offered if METADATA in each] or offered
    if not offered:
        lacks = found["capture"]["incomplete"][:1]
        raise KinspectError(": ".join([fspath(to), "no broker tells its versions there", *lacks]))
    ranges = {
        key: VersionRange(
            max(each[key].low for each in offered), min(each[key].high for each in offered), False
        )
        for key in sorted(set.intersection(*map(set, offered)))
    }
    return OfferedRanges(fspath(to), {key: each for key, each in ranges.items() if each.low <= each.high})


def _offered(broker: Row) -> dict[int, VersionRange]:
    """The versions that a broker offers; none that its release refuses: see `releases`."""
    keys = {name: key for key, name in schema.api_names().items()}
    spoken = [schema.releases()[name] for name in broker["releases"] if name in schema.releases()][:1]
    found = {}
    for name, (low, high) in broker["ranges"].items():
        key = keys[name] if name in keys else int(name)
        found[key] = VersionRange(max([low, *(each[key].low for each in spoken)]), high, False)
    return found


def _place(row: Row) -> tuple[Any, ...]:
    """The order of rows: those that break first."""
    names = row["client_id"] or "", row["client_ip"], row["client_id"] is None
    return _VERDICTS.index(row["verdict"]), -len(row["breaks"]), -row["requests"], *names


def _format(api_key: int, version: int) -> int:
    """The newest record format of a version."""
    formats = FORMATS.get(api_key, ())
    return formats[version] if version < len(formats) else NEWEST_FORMAT


def _used(found: Row) -> str:
    used = "".join(f" {version}" for version in found["used"])
    supported = "-".join(map(str, found["supported"])) or "none"
    return f"{found['api']}{used} (has {supported})"


def _formats(conversions: list[Row]) -> str:
    return listed([f"{found['release']} {found['api']} {found['version']}" for found in conversions], 2)


_UNKNOWN = {
    True: "unknown beside UNSUPPORTED: the client may have newer versions, too, and use those with the release.",
    False: "unknown with nothing UNSUPPORTED: not all that the client sent is in the capture.",
}
"""What the verdict says, by whether there is anything that the release does not have."""


def _more(file: str, rows: list[Row]) -> str:
    first = rows[0]
    return reading(file, first["client_id"], first["breaks"][0]["api"] if first["breaks"] else None)


ANSWER = Definition(
    Upgrade,
    help="Which client breaks on a release, and why.",
    page="u",
    page_help="clients that a release breaks",
    columns=(
        Key("client_id", "text", "", "CLIENT ID", opens="client-id"),
        Key("client_ip", "text", "", "ADDRESS", plain, rank=3, opens="client-host"),
        Key("software_name", "text"),
        Key("software_version", "text"),
        Column("SOFTWARE", software, rank=2, least=24),
        Key("to", "text", "The release or capture", "TO", plain, rank=4),
        Key(
            "verdict",
            "text",
            "breaks, unknown or ok",
            "VERDICT",
            plain,
            style=lambda row: {BREAKS: ERROR, UNKNOWN: NOTE}.get(row["verdict"], ""),
        ),
        Key(
            "breaks",
            "broken_apis",
            "APIs and versions that the release does not have",
            "UNSUPPORTED",
            lambda breaks: listed([*map(_used, breaks)], 4),
            least=40,
        ),
        Key(
            "down_conversion",
            "conversions",
            "Record formats that the release converts or refuses",
            "RECORDS",
            _formats,
            rank=1,
        ),
        Key("requests", "long", "", "REQUESTS", rank=5),
    ),
    order="VERDICT, CLIENT ID, ADDRESS, SOFTWARE, TO, REQUESTS, UNSUPPORTED, RECORDS",
    options={
        "to": OwnOption(
            "The release (4.1, 3.9.2), or a capture of brokers that clients move to; else the newest known release.",
            "RELEASE|CAPTURE",
            schema.releases,
            _target,
        )
    },
    structs={
        "broken_api": "api text, used ints, supported ints, requests long, negotiates bool",
        "conversion": "api text, version int, format int, requests long, release text",
    },
    failures={BREAKS: lambda row: row["verdict"] == BREAKS},
    nothing="no client was seen",
    more=_more,
    notes=lambda rows, _: [
        *dict.fromkeys(_UNKNOWN[bool(row["breaks"])] for row in rows if row["verdict"] == UNKNOWN)
    ],
)
