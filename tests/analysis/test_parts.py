"""What an answer says of a part of a capture never contradicts what it says of the whole, and says what is missing.

`HOLDS` tells which answers are free of contradictions; whoever mends one says so there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.answered import Objects, objects
from support.decoded import keylog_beside
from support.packets import Packet, blocks, packets
from support.reading import directions, ends
from support.shares import one_in
from support.weaker import (
    NAMELESS,
    Part,
    Rows,
    anything,
    at_end,
    by_name,
    count,
    counts,
    each,
    fact,
    first,
    flag,
    last,
    names,
    place,
    so_far,
    within,
)

from kinspect.analysis.expected import EXPECTED
from kinspect.answers import answers
from kinspect.answers.settingsanswer import FLAGS, MEASURED, TOLD
from kinspect.errors import KinspectError
from kinspect.kafka.connection.roles import stronger
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.link import segments
from kinspect.model import SYN, Counts

CAPTURES = Path(__file__).parents[2] / "captures"
ALL = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap*"))

HOLDS = dict.fromkeys(answers(), True)
"""Whether an answer never contradicts the whole; of the others it is known that they do. All say that something is
missing."""
COMPLETE = "complete"

EXCEPTED = {
    # Its packets have each other's times: what ends comes before it begins.
    ("transactions", "variants/reorder_far.pcap.gz"),
    # How often a segment was sent again: one that is lost of those leaves no gap.
    *(("connect", name) for name in ALL if "black-hole" in name or "forgotten" in name),
    # The part has only the second sending of a request, as its connection ended.
    ("errors", "3.9.2/sasl_plain.pcap.gz"),
    *((answer, "connect/small-mtu_librdkafka.pcap.gz") for answer in ("settings", "topics", "clients")),
    # Of a segment that was sent again one sending is lost: that leaves no gap.
    ("latency", "connect/small-mtu_librdkafka.pcap.gz"),
    # Each request has a client id of its own: another one is a member's first.
    ("groups", "0.10.2.2/sweep-C-groups.pcap"),
    ("groups", "2.8.2/sweep-C-groups.pcap.gz"),
    # The same members, ids and all, twice: those of the second time joined then.
    ("groups", "variants/twice.pcap.gz"),
    # A packet behind its connection's end, which alone begins one.
    ("clients", "3.9.2/sasl_plain.pcap.gz"),
    # Connections have several client ids, but one role and software, and answers alone are taken for the last one's.
    *((answer, name) for answer in ("clients", "upgrade", "settings") for name in ALL if "/sweep-" in name),
    ("clients", "0.8.2.2/highlevel-consumer-kafka-offsets.pcap.gz"),
    ("clients", "0.10.0.1/old-scala-clients.pcap.gz"),
}
"""Answers about parts of captures that contradict the whole all the same."""

ID_LENGTH = 22
CLIENT = {"client_id": (), "client_ip": ()}
SOFTWARE = {"software_name": fact, "software_version": fact}
TIMES = {"first": first, "last": last}


def quantiles(now: Any, was: list[Any], part: Part) -> bool:
    """In their order, and none above the greatest of all: which of them the part has is not told by the whole's."""
    found = [value for value in now.values() if value is not None]
    greatest = [each["max"] for each in was if each["max"] is not None]
    return found == sorted(found) and (not found or found[-1] <= max(greatest, default=-1))


def waits(now: Any, was: list[Any], part: Part) -> bool:
    """No larger, or of requests whose second copy the part may lack: then nothing tells that they were sent again."""
    again = sum(each["retransmitted"] or 0 for each in was)
    more = [max((times or 0) - sum(each[cause] or 0 for each in was), 0) for cause, times in now.items()]
    return sum(more) <= again


def expected(now: Any, was: list[Any], part: Part) -> bool:
    """All of fewer occurrences may be expected, whose reasons are compared."""
    return now is not False or False in was


def reasons(now: Any, was: list[Any], part: Part) -> bool:
    """How many occurrences are expected, for whatever reason but that the part lacks the answer."""
    own = sum(times for name, times in now.items() if name not in EXPECTED.values())
    return own <= sum(sum(each.values()) for each in was)


def topics(now: Any, was: list[Any], part: Part) -> bool:
    """Names of topics, or ids whose name the part does not tell."""
    return names([name for name in now if len(name) != ID_LENGTH], was, part)


def role(now: Any, was: list[Any], part: Part) -> bool:
    """It is the strongest one: a part shows no stronger one than the whole."""
    return now is None or any(stronger(each, now) == each for each in was)


def guess(now: Any, was: list[Any], part: Part) -> bool:
    """What fits to some of its requests; to all of them nothing may, but not something else."""
    return None in was or fact(now, was, part)


def leads(now: Any, was: list[Any], part: Part) -> bool:
    """No partition more, but of topics whose name the part does not tell."""
    return now is None or names([name for name in now if not NAMELESS.match(name)], was, part)


def number_of(now: Any, was: list[Any], part: Part) -> bool:
    """No larger; of addresses the whole may not know whether they are one node's, of fewer of them the part may."""
    return None in was or count(now, was, part)


def measured(now: Any, was: list[Any], part: Part) -> bool:
    """Not known, or quantiles; none where the whole has none."""
    return now is None or quantiles(now, [each or {"max": None} for each in was], part)


COMPARED = {
    "summary": Rows(
        {"finding": ()},
        {"severity": fact, "count": number_of, "text": anything, "command": anything, "advice": anything},
        # The lag is that to the last commit and the last record that were seen, whichever these are.
        says_lack=lambda row: row["finding"] in ("one_sided", "lag"),
        # Errors may pass yet.
        is_so_far=lambda row: row["finding"] in ("errors", "transactions_open"),
    ),
    "topics": Rows(
        {"topic": ("topic_id",), "direction": (), **CLIENT},
        {
            **SOFTWARE,
            **TIMES,
            "topic_id": fact,
            "principal": fact,
            "groups": names,
            "transactional_ids": names,
            "partitions": count,
            "requests": count,
            "batches": count,
            "records": count,
            "delivered": count,
            "bytes": count,
            "codecs": counts,
            "acks": counts,
            "errors": counts,
            "incomplete": anything,
        },
    ),
    "compression": Rows(
        {"topic": ("topic_id",), "direction": (), **CLIENT},
        {
            "topic_id": fact,
            "codecs": counts,
            "batches": count,
            "bytes": count,
            "expanded_bytes": count,
            "ratio": anything,
            "saved_bytes": anything,
            "unexpanded": count,
            "incomplete": anything,
        },
    ),
    "settings": Rows(
        {**CLIENT, "role": ()},
        {
            **SOFTWARE,
            **dict.fromkeys(TOLD, counts),
            # One that none of fewer requests shows.
            **dict.fromkeys(FLAGS, flag(False)),
            **dict.fromkeys(MEASURED, measured),
            "empty_fetches": anything,
            "findings": each(finding=fact, evidence=anything, advice=fact),
        },
    ),
    "delivery": Rows(
        {"topic": ("topic_id",), **CLIENT},
        {
            "topic_id": fact,
            "groups": names,
            "partitions": count,
            "records": count,
            "delay_ms": quantiles,
            "produce_ms": quantiles,
            "wait_ms": quantiles,
            "two_clocks": fact,
            "not_delivered": at_end(count),
            "again": count,
            "slowest": place,
            "untimed": anything,
            "unplaced": anything,
            "let_go": anything,
            "incomplete": anything,
        },
    ),
    "clients": Rows(
        CLIENT,
        {
            **SOFTWARE,
            **TIMES,
            "connections": count,
            "role": role,
            "principal": fact,
            "sasl_mechanisms": names,
            "tls": fact,
            "software_inferred": guess,
            "requests": count,
            "bytes_sent": count,
            "bytes_received": count,
            "apis": by_name(within(requests=count, versions=counts, errors=counts, per_second=anything)),
            "storms": each(api=fact, per_second=last, threshold=fact, addresses=last, at=anything),
            "resets": count,
        },
    ),
    "groups": Rows(
        {"group": ()},
        {
            "kind": fact,
            "protocol": fact,
            "coordinator": fact,
            "members": each(
                member_id=fact,
                instance_id=fact,
                client_id=fact,
                client_ip=fact,
                joined=fact,
                left=fact,
                left_how=fact,
                left_reason=fact,
                partitions=at_end(fact),
            ),
            "rebalances": each(
                generation=fact,
                started=fact,
                ended=fact,
                trigger=flag("unknown"),
                by=fact,
                reason=fact,
                members=fact,
                cooperative=fact,
                stopped_ms=by_name(fact),
                unowned_ms=by_name(fact),
                assigned=by_name(names),
                revoked=by_name(names),
            ),
            "deliveries": by_name(
                within(
                    acquired=count,
                    accepted=count,
                    released=count,
                    rejected=count,
                    again=count,
                    delivery_count_max=last,
                    unacknowledged=at_end(count),
                )
            ),
            "topics": names,
            "committed": by_name(
                within(
                    # An administrator may set it back.
                    offset=at_end(last),
                    at=last,
                    by=at_end(fact),
                    high_watermark=last,
                    lag=anything,
                    # That its client reads for another group too may be in the whole alone.
                    fetched=at_end(lambda now, was, part: None in was or last(now, was, part)),
                    fetched_lag=anything,
                    lag_at_begin=anything,
                    lag_at_end=anything,
                    progress=at_end(count),
                )
            ),
            "errors": counts,
        },
    ),
    "latency": Rows(
        {"api": ()},
        {
            "count": count,
            "service_ms": quantiles,
            "latency_ms": quantiles,
            "waits": waits,
            "slow": count,
            "slowest": place,
        },
    ),
    "errors": Rows(
        {"api": (), "error": (), **CLIENT},
        {
            **TIMES,
            "code": fact,
            "retriable": fact,
            "expected": expected,
            "expected_reasons": reasons,
            "count": count,
            "topics": topics,
            "groups": names,
            "principals": names,
            "transactional_ids": names,
            # Of requests without an answer they are texts made of the reasons.
            "meaning": anything,
            "advice": anything,
        },
        # That the capture lacks the answer.
        says_lack=lambda row: bool(row["expected_reasons"].keys() & {*EXPECTED.values()}),
    ),
    "brokers": Rows(
        {"node_id": (), "address": ("advertised",)},
        {
            "advertised": fact,
            "rack": fact,
            "cluster_id": fact,
            "mode": fact,
            "releases": anything,
            "dialect": flag("unknown"),
            "dialect_known_by": anything,
            "ranges": by_name(fact),
            "controller": within(node_id=anything, at=last, known_by=anything),
            "leads": at_end(leads),
            "leader_changes": each(at=first, partition=fact, to=fact, epoch=fact, **{"from": fact}),
            "requests": count,
            "errors": counts,
        },
    ),
    "auth": Rows(
        {**CLIENT, "mechanism": (), "principal": ()},
        {
            **TIMES,
            "succeeded": count,
            "failed": count,
            "probably_failed": count,
            "reasons": counts,
            "tls": fact,
        },
    ),
    "connect": Rows(
        {"problem": (), "client_ip": (), "broker": ()},
        {
            **TIMES,
            "severity": anything,
            "client_id": anything,
            "told_by": anything,
            "told_as": fact,
            "count": count,
            "detail": anything,
            "frames": place,
            "meaning": fact,
            "advice": fact,
        },
        # What is not answered so far may be yet; what other connections tell may come.
        is_so_far=lambda row: True,
    ),
    "transactions": Rows(
        {"transactional_id": ()},
        {
            # Those of its last requests.
            "client_id": anything,
            "producer_id": anything,
            "epochs": names,
            "transactions": each(
                began=fact,
                ended=fact,
                duration_ms=fact,
                outcome=so_far("open"),
                fenced_by=fact,
                epoch=fact,
                partitions=names,
                records=count,
                bytes=count,
                groups=names,
            ),
            "errors": counts,
        },
    ),
    "upgrade": Rows(
        CLIENT,
        {
            **SOFTWARE,
            "to": fact,
            "verdict": so_far("ok", kind=flag("unknown")),
            "breaks": each(api=fact, used=names, supported=fact, requests=count, negotiates=fact),
            "down_conversion": each(api=fact, version=fact, format=fact, requests=count, release=fact),
            "requests": count,
        },
        # A broker's client begins with ApiVersions, as any does.
        is_so_far=lambda row: row["requests"] == 1,
        # That it may be a broker, or break.
        says_lack=lambda row: row["verdict"] == "unknown" and not row["breaks"],
    ),
}


class Sent(NamedTuple):
    """What a packet carries: `sender`, the ends of its connection, its own first; `is_syn`; `size` of its payload."""

    sender: bytes
    is_syn: bool
    size: int


def sent(taken: list[Packet]) -> list[Sent | None]:
    """What each packet carries; None without TCP."""
    found: list[Sent | None] = [None] * len(taken)
    for block in blocks(taken):
        for key, _, _, _, flags, _, start, end, missing, frame, _ in segments(block, Counts()):
            found[frame - 1] = Sent(key, bool(flags & SYN), end - start + missing)
    return found


def one_side(taken: list[Packet], exchanges: list[Exchange], side: int) -> list[Packet]:
    """Without the packets of one side of each Kafka connection."""
    dropped = {directions(ends(exchange))[side] for exchange in exchanges}
    return [
        packet
        for packet, each in zip(taken, sent(taken), strict=True)
        if each is None or each.sender not in dropped
    ]


def begins_within(taken: list[Packet], at: int) -> bool:
    """True if the data of a connection goes on behind that packet; of those that ended before, nobody knows."""
    before: set[bytes] = set()
    for number, segment in enumerate(sent(taken)):
        if segment is None:
            continue
        half = len(segment.sender) // 2
        both = min(segment.sender, segment.sender[half:] + segment.sender[:half])
        if segment.is_syn:
            before.discard(both)
        elif segment.size and number >= at and both in before:
            return True
        elif segment.size and number < at:
            before.add(both)
    return False


def holes(taken: list[Packet]) -> set[int]:
    """One packet of a hundred, of those that carry payload with more behind it: what is lost at the end of a connection
    nobody knows."""
    last: dict[bytes, int] = {}
    found = []
    for number, segment in enumerate(sent(taken)):
        if segment is not None and segment.size:
            if segment.sender in last:
                found.append(last[segment.sender])
            last[segment.sender] = number
    return {*random.Random(len(taken)).sample(found, min(len(found), max(1, len(taken) // 100)))}


def parts_of(
    taken: list[Packet], whole: Objects, exchanges: list[Exchange]
) -> Iterator[tuple[str, Part, list[Packet], dict[str, Any]]]:
    """Parts of a capture: name, what it is, packets, options."""
    size = len(taken)
    for percent in (30, 55):
        at = size * percent // 100
        yield f"without the first {percent} %", Part(lacks=begins_within(taken, at)), taken[at:], {}
    yield "to the middle", Part(ends_early=True, lacks=False), taken[: size // 2], {}
    for side, name in enumerate(("client", "broker")):
        yield f"without the {name}s", Part(), one_side(taken, exchanges, side), {}
    cut = [
        packet._replace(data=packet.data[:96], cut=packet.cut + max(0, len(packet.data) - 96))
        for packet in taken
    ]
    yield "96 bytes a packet", Part(), cut, {}
    lost = holes(taken)
    yield "1 % lost", Part(), [packet for number, packet in enumerate(taken) if number not in lost], {}
    clients = Counter(row["client_id"] for row in whole["clients"]["rows"] if row["client_id"])
    topics = [row["topic"] for row in whole["topics"]["rows"] if row["topic"]]
    times = [packet.time for packet in taken if packet.time is not None]
    if clients:
        yield "--client-id", Part(), taken, {"client_id": glob_of(min(clients))}
    if topics:
        yield "--topic", Part(), taken, {"topic": glob_of(topics[0])}
    if times:
        since = min(times) + (max(times) - min(times)) * 2 // 5
        yield "--since", Part(), taken, {"since": f"{since // 10**9}.{since % 10**9:09}"}
    if len(exchanges) > 1:
        yield "--limit", Part(ends_early=True), taken, {"limit": len(exchanges) // 2}


def glob_of(name: str) -> str:
    """The pattern that matches a name alone."""
    return "".join(f"[{character}]" if character in "*?[!" else character for character in name)


def contradictions(name: str) -> Iterator[tuple[str, str]]:
    """The answers that say more of a part of the capture than of the whole, and what they say."""
    path = CAPTURES / name
    beside = keylog_beside(path)
    keylog = beside.read_bytes() if beside.exists() else b""
    try:
        taken = [*packets(path)]
    except KinspectError:
        return
    if not taken:
        return
    whole, exchanges = objects(taken, keylog)
    for title, part, some, options in parts_of(taken, whole, exchanges):
        found, _ = objects(some, keylog, **options)
        for answer, told in found.items():
            was = whole[answer]
            for text in COMPARED[answer].contradictions(told["rows"], was["rows"], part):
                yield answer, f"{title}: {text}"
            if (
                part.lacks
                and not COMPARED[answer].are_same(told["rows"], was["rows"])
                and told["capture"]["complete"]
            ):
                yield answer, f"{title}: {COMPLETE}"


def test_each_answer_is_compared():
    assert COMPARED.keys() == answers().keys()


@pytest.mark.parametrize("name", one_in(40, ALL))
def test_a_part_says_no_more_than_the_whole(name: str) -> None:
    found = [
        f"{answer}, {text}"
        for answer, text in contradictions(name)
        if (HOLDS[answer] or text.endswith(f": {COMPLETE}")) and (answer, name) not in EXCEPTED
    ]
    assert not found, "\n".join(found[:20])


ROWS = Rows(
    {"name": ("id",), "of": ()},
    {
        "name": fact,
        "id": fact,
        "of": fact,
        "count": count,
        "last": last,
        "ends": each(at=fact, how=so_far("open")),
    },
)
WHOLE = [
    {
        "name": "a",
        "id": "1",
        "of": "x",
        "count": 3,
        "last": "10:00",
        "ends": [{"at": "09:00", "how": "left"}],
    },
    {"name": "a", "id": "1", "of": "y", "count": 2, "last": "11:00", "ends": []},
]


@pytest.mark.parametrize(
    ("row", "says_more"),
    [
        ({}, []),
        ({"count": 1, "last": None, "ends": []}, []),
        ({"name": "1", "id": None}, []),
        ({"of": None, "count": 5, "last": "11:00"}, []),
        ({"of": None, "count": 6}, ["count"]),
        ({"name": "b"}, ["no such row"]),
        ({"last": "10:30"}, ["last"]),
        ({"ends": [{"at": "09:00", "how": None}]}, []),
        ({"ends": [{"at": "08:00", "how": "left"}]}, ["ends"]),
        ({"ends": [{"at": None, "how": "open"}]}, ["ends"]),
        ({"ends": [{"at": "09:00", "how": None}, {"at": None, "how": "left"}]}, ["ends"]),
    ],
)
def test_what_says_more(row: dict[str, Any], says_more: list[str]) -> None:
    found = [*ROWS.contradictions([{**WHOLE[0], **row}], WHOLE, Part())]
    assert [text.split(": ")[1] for text in found] == says_more


def test_what_the_whole_does_not_know_no_part_counts() -> None:
    whole = [{**row, "count": None} for row in WHOLE]
    assert [*ROWS.contradictions([WHOLE[0]], whole, Part())]


def test_what_is_open_at_an_early_end_may_end_later() -> None:
    now = [{**WHOLE[0], "ends": [{"at": None, "how": "open"}]}]
    assert not [*ROWS.contradictions(now, WHOLE, Part(ends_early=True))]
