"""Packets decoded to exchanges, and two decodings held against each other."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.lines import ConnectionLine, Gap
from kinspect.kafka.exchange.metadata import cluster_metadata
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.message import WireMessage
from kinspect.model import Caps
from kinspect.pipeline import Inspector
from support.books import balanced
from support.lines import Line
from support.packets import Packet, Streams, blocks, holes, packets

WHOLE = View(records=True, payload="text")
EVERYTHING = frozenset({"exchange", "connection", "gap"})

TIMES = frozenset({"timestamp", "completed_at", "connection_id", "event_id"})
LATENCIES = frozenset({"latency_ms", "service_ms", "duration_ms", "in_flight", "wait"})
PLACES = frozenset({"file", "first", "last", "packets"})
OWN_OF_PACKETS = TIMES | LATENCIES | PLACES
"""Keys that depend on the packets rather than on the bytes they carry."""
OF_PACKETS = frozenset({"negative_latency", "conflict"})
"""Problems that do."""

Ends = tuple[str, int, str, int]


def without(value: Any, keys: frozenset[str]) -> Any:
    """A line, or what is in it, without some keys."""
    if isinstance(value, dict):
        return {key: without(entry, keys) for key, entry in value.items() if key not in keys}
    return [without(entry, keys) for entry in value] if isinstance(value, list) else value


def texts(lines: Iterable[Line], left_out: frozenset[str] = frozenset()) -> list[str]:
    """The lines as JSON, without some keys."""
    return [json.dumps(without(line, left_out), sort_keys=True) for line in lines]


def bytes_alone(
    lines: Iterable[Line], left_out: frozenset[str] = frozenset(), problems: frozenset[str] = OF_PACKETS
) -> Counter[str]:
    """The lines without what depends on the packets, some problems included, and without some more keys."""
    return Counter(
        json.dumps(
            without(line, OWN_OF_PACKETS | {"problem_count"} | left_out)
            | {"problems": [p for p in line["problems"] if p["code"] not in problems]},
            sort_keys=True,
        )
        for line in lines
    )


@dataclass(frozen=True)
class Reading:
    """Result of reading packets."""

    packets: tuple[Packet, ...]
    exchanges: list[Exchange]
    connections: list[ConnectionLine]
    gaps: list[Gap]
    summary: dict[str, Any]

    @cached_property
    def lines(self) -> list[Line]:
        """The exchanges with their records and payloads as text."""
        return [WHOLE.exchange(exchange) for exchange in self.exchanges]

    @cached_property
    def streams(self) -> Streams:
        return Streams(self.packets)

    def origins(self, message: WireMessage) -> tuple[int, int]:
        """The first and last frame of a message in the capture its packets come from."""
        return tuple(self.packets[frame - 1].origin for frame in (message.first_frame, message.last_frame))  # type: ignore[return-value]


def read(taken: Iterable[Packet], keylog: bytes = b"", caps: Caps | None = None) -> Reading:
    """Decode packets."""
    taken = tuple(taken)
    inspector = Inspector(files=["capture"], emit=EVERYTHING, caps=caps)
    inspector.add_secrets(keylog)
    found = [line for block in blocks(taken) for line in inspector.feed(block)] + [*inspector.finish()]
    return Reading(
        taken,
        [line for line in found if isinstance(line, Exchange)],
        [line for line in found if isinstance(line, ConnectionLine)],
        [line for line in found if isinstance(line, Gap)],
        balanced(inspector.summary()),
    )


@lru_cache(maxsize=8)
def clean(path: Path) -> Reading:
    """A capture as it is."""
    return read(packets(path))


# ---------------------------------------------------------------------- less than the whole


def ends(exchange: Exchange) -> Ends:
    """Client and broker."""
    connection = exchange.connection
    return connection.client_ip, connection.client_port, connection.broker_ip, connection.broker_port


def directions(of: Ends) -> tuple[bytes, bytes]:
    """The client's and the broker's direction, as `Streams` knows them."""
    addresses = [ip_address(of[0]).packed, ip_address(of[2]).packed]
    ports = [of[1].to_bytes(2, "big"), of[3].to_bytes(2, "big")]
    return b"".join(addresses + ports), b"".join(addresses[::-1] + ports[::-1])


@dataclass
class Comparison:
    """Two decodings of the same traffic: the second is of what a capture in the field would hold of it.

    `wrong`: what the second says and the first does not. `survivors`: the first's exchanges whose packets are
    all there and whole; `decoded`: how many of them the second has as the first does. `pairs`: the exchanges of the
    second with those of the first they are.
    """

    wrong: list[str]
    survivors: int
    decoded: int
    missed: list[str]
    pairs: list[tuple[Exchange, Line, Exchange, Line]]

    @property
    def share(self) -> float:
        """The part of the survivors that was decoded."""
        return self.decoded / self.survivors if self.survivors else 1.0


def compare(whole: Reading, part: Reading) -> Comparison:
    """Hold a decoding of part of the packets of `whole` (each with its origin) against that of all."""
    comparison = Comparison([], 0, 0, [], [])
    wrong = comparison.wrong
    known = _Known(whole)
    found: dict[int, tuple[Exchange, Line]] = {}
    for exchange, line in zip(part.exchanges, part.lines, strict=True):
        match = known.take(exchange, part)
        if match is None:
            wrong.append(f"{exchange} of {line['connection_id']} is none of the original's")
            continue
        index, original, told = match
        if exchange.outcome != "orphan" or original.outcome == "orphan":
            found[index] = exchange, line
        comparison.pairs.append((exchange, line, original, told))
        said = known.said[ends(exchange)]
        wrong += [
            f"{exchange} of {line['connection_id']}: {text}" for text in _contradictions(line, told, said)
        ]
        for side in ("request", "response"):
            was, now = getattr(original, side), getattr(exchange, side)
            if now is not None and was is not None and not _begins_with(was, now):
                wrong.append(f"{exchange} of {line['connection_id']}: other bytes in its {side}")
    there = {packet.origin for packet in part.packets if not packet.cut}
    handshakes: dict[Ends, set[int]] = defaultdict(set)
    for exchange in whole.exchanges:
        if exchange.api == "SaslHandshake":
            handshakes[ends(exchange)] |= _own(whole, exchange)
    for index, (original, told) in enumerate(zip(whole.exchanges, whole.lines, strict=True)):
        if original.outcome not in {"answered", "no_response"} or not _own(whole, original) <= there:
            continue
        # What tokens without a header are, the handshake alone tells.
        if original.kind == "sasl_token" and not handshakes[ends(original)] <= there:
            continue
        comparison.survivors += 1
        got = found.get(index)
        if got is not None and _same(whole, original, told, part, *got):
            comparison.decoded += 1
        else:
            comparison.missed.append(f"{original} of {told['connection_id']}, now {got and got[0]}")
    return comparison


class _Known:
    """The exchanges of the whole, to be found by what another reading has of them; each once."""

    def __init__(self, whole: Reading) -> None:
        self.requests: dict[Any, list[int]] = defaultdict(list)
        self.responses: dict[Any, list[int]] = defaultdict(list)
        self.said: dict[Ends, set[tuple[str, Any]]] = defaultdict(set)
        """Properties of client and broker in the lines of each connection."""
        self.whole = whole
        # Of brokers, exchanges on any connection tell.
        nodes = defaultdict(set)
        for exchange in whole.exchanges:
            for ip, port, node_id in cluster_metadata(exchange).nodes:
                nodes[ip, port].add(("node_id", node_id))
        for exchange, line in zip(whole.exchanges, whole.lines, strict=True):
            broker = line["broker"]["ip"], line["broker"]["port"]
            self.said[ends(exchange)].update({*line["client"].items(), *nodes[broker]})
        for index, exchange in enumerate(whole.exchanges):
            if exchange.request is not None:
                self.requests[ends(exchange), exchange.kind, exchange.correlation_id].append(index)
            if exchange.response is not None:
                self.responses[ends(exchange), exchange.kind, exchange.correlation_id].append(index)

    def take(self, exchange: Exchange, part: Reading) -> tuple[int, Exchange, Line] | None:
        side, table = ("response", self.responses) if exchange.request is None else ("request", self.requests)
        message = getattr(exchange, side)
        candidates = table[ends(exchange), exchange.kind, exchange.correlation_id]
        place = part.origins(message)
        best = None
        for index in candidates:
            other = getattr(self.whole.exchanges[index], side)
            if _begins_with(other, message):
                if self.whole.origins(other)[0] == place[0]:
                    best = index
                    break
                best = index if best is None else best
        if best is None:
            return None
        candidates.remove(best)
        return best, self.whole.exchanges[best], self.whole.lines[best]


def _begins_with(was: WireMessage, now: WireMessage) -> bool:
    """True if `now` can be `was`, or the captured part of it."""
    if was.size != now.size or was.raw is None or now.raw is None:
        return was.size == now.size and now.raw is None
    return was.raw == now.raw if was.complete and now.complete else was.raw.startswith(now.raw)


def _own(whole: Reading, exchange: Exchange) -> set[int]:
    """The frames that carry an exchange."""
    own: set[int] = set()
    for message, key in zip((exchange.request, exchange.response), directions(ends(exchange)), strict=True):
        if message is not None:
            own.update(whole.streams.between(key, *whole.origins(message)))
    return own


# ---------------------------------------------------------------------- values

SAID_BEFORE = frozenset({"principal", "software_name", "software_version", "node_id"})
"""Keys that a line learns from others of its connection, and that may differ if those are missing."""
OF_NEIGHBOURS = (
    frozenset({"role", "service_ms", "in_flight", "wait", "topics", "partitions"})
    | {"topic_name_resolved", "topic_records"}
    | PLACES
)
"""Keys that depend on other lines or on the place in the file; names are compared on their own."""


def _same(
    whole: Reading, original: Exchange, told: Line, part: Reading, exchange: Exchange, line: Line
) -> bool:
    """True if an exchange was decoded as in the complete capture."""
    keys = OF_NEIGHBOURS | SAID_BEFORE | {"connection_id", "event_id"}
    if without(told, keys) != without(line, keys):
        return False
    messages = (original.request, exchange.request), (original.response, exchange.response)
    return all(
        was is now is None or (was and now and whole.origins(was) == part.origins(now))
        for was, now in messages
    )


HEADS = ("kind", "api", "api_key", "api_version", "correlation_id", "tls", "max_wait_ms", "throttle_time_ms")
COUNTS = ("record_count", "record_bytes", "error_count")
LISTS = ("topics", "partitions", "groups", "transactional_ids", "error_codes", "error_names")


def _contradictions(line: Line, told: Line, said: set[tuple[str, Any]]) -> Iterator[str]:
    """Contradictions of a line to the line of the same exchange with all its packets."""
    if line["outcome"] == "orphan":
        yield from _of_an_orphan(line, told)
    else:
        yield from _differences({key: line[key] for key in HEADS}, told, "")
        if line["outcome"] in {"answered", "no_response"} and line["outcome"] != told["outcome"]:
            yield f"{line['outcome']}, not {told['outcome']}"
    header_cut = line["kind"] != "kafka" or line["request"] is None or not line["request"]["complete"]
    may_differ = SAID_BEFORE | ({"id"} if header_cut else set())
    for end in ("client", "broker"):
        for key, value in without(line[end], frozenset({"role"})).items():
            may_be = {(key, told[end][key]), *(said | {(key, None)} if key in may_differ else ())}
            if (key, value) not in may_be:
                yield f"{end}.{key} is {value!r}, not {told[end][key]!r}"
    for key in COUNTS:
        if line[key] not in {None, told[key]}:
            yield f"{key} is {line[key]}, not {told[key]}"
    there = all(line[side] is not None or told[side] is None for side in ("request", "response"))
    for key in LISTS:
        if there and len(line[key]) < len(told[key]) and not line["truncated_lists"]:
            yield f"{key}: {line[key]} for {told[key]} without truncated_lists"
        strange = set(line[key]) - set(told[key])
        if key in {"topics", "partitions"} and told["topic_ids"]:
            strange = {text for text in strange if not text.startswith(tuple(told["topic_ids"]))}
        if strange:
            yield f"{key}: {sorted(strange)} not in {told[key]}"
    for side in ("request", "response"):
        now, was = line[side], told[side]
        if now is None:
            continue
        if was is None:
            yield f"a {side} that is not there"
            continue
        if now["complete"] and not was["complete"]:
            yield f"{side} complete"
        yield from _differences(now["body"], was["body"], side)
        if now["complete"] and now["body"] is not None:
            yield from _differences(was["body"], now["body"], f"{side}, the other way,")


def _of_an_orphan(line: Line, told: Line) -> Iterator[str]:
    if line["correlation_id"] != told["correlation_id"]:
        yield f"correlation id {line['correlation_id']}, not {told['correlation_id']}"
    if told["api"] is not None:
        if line["response"]["inferred"] and (line["api"], line["api_version"]) != (
            told["api"],
            told["api_version"],
        ):
            yield f"taken for {line['api']} v{line['api_version']}, is {told['api']} v{told['api_version']}"
        if not line["response"]["inferred"] and line["api"] is not None:
            yield f"{line['api']} without a reason"
        whole = line["response"]["complete"] and told["response"]["complete"]
        if (
            whole
            and line["api"] is None
            and not told["problems"]
            and told["api"] not in line["api_candidates"]
        ):
            yield f"{told['api']} is not among {line['api_candidates']}"


def _differences(now: Any, was: Any, path: str) -> Iterator[str]:
    """Values in `now` that `was` lacks. Values that were cut short have fewer keys, entries and batches."""
    if isinstance(now, dict) and isinstance(was, dict):
        for key, value in now.items():
            if key in {"topic_name_resolved", "partial_bytes"} or _hidden(now, key) or _hidden(was, key):
                continue
            if key not in was:
                yield f"{path}.{key} is not there"
            else:
                yield from _differences(value, was[key], f"{path}.{key}")
    elif isinstance(now, list) and isinstance(was, list):
        if len(now) > len(was):
            yield f"{path}: {len(now)} entries, not {len(was)}"
        for index, (one, other) in enumerate(zip(now, was, strict=False)):
            yield from _differences(one, other, f"{path}[{index}]")
    elif now is not None and (now != was or type(now) is not type(was)):
        yield f"{path} is {now!r}, not {was!r}"


def _hidden(struct: dict[str, Any], key: str) -> bool:
    """True if a value is left out as a possible secret, or stands for one that is."""
    name = key.removesuffix("_size").removesuffix("_decoded")
    return struct.get(name, "") is None and f"{name}_size" in struct


# ---------------------------------------------------------------------- gaps


def gap_complaints(whole: Reading, part: Reading) -> Iterator[str]:
    """Gaps that were not reported, or reported larger than they are.

    At least the lost bytes between bytes that are there must be told; those before the first or after the last can be
    known of the other side's acknowledgments.
    """
    there = {packet.origin for packet in part.packets}
    told: Counter[tuple[str, str]] = Counter()
    for gap in part.gaps:
        if gap.cause == "capture_loss":
            told[gap.connection_id.rsplit("@", 1)[0], gap.direction] += gap.bytes
    seen = {
        (ends(exchange), exchange.connection.connection_id.rsplit("@", 1)[0]) for exchange in part.exchanges
    }
    for of, name in sorted(seen):
        for key, direction in zip(directions(of), ("client", "broker"), strict=True):
            if key in whole.streams.reused:
                continue
            before, after = whole.streams.spans(key), whole.streams.spans(key, there)
            lost = sum(b - a for a, b in before) - sum(b - a for a, b in after)
            # A FIN takes a number too; if it is lost, its acknowledgment cannot be told from that of a byte.
            least, most = max(0, holes(after) - holes(before)), lost + holes(before) + 1
            if not least <= told[name, direction] <= most:
                yield f"{name} {direction}: gaps of {told[name, direction]} bytes, of {least} to {most} lost"
