"""What the connections of a benchmark's captures say."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import messages
from messages import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_VERSIONS,
    BROKER,
    CLIENT,
    END_TXN,
    FETCH,
    FIND_COORDINATOR,
    GROUP,
    HEARTBEAT,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    LIST_OFFSETS,
    LZ4,
    METADATA,
    NO_CODEC,
    OFFSET_COMMIT,
    OFFSET_FETCH,
    PACK,
    PRODUCE,
    SYNC_GROUP,
    TXN_OFFSET_COMMIT,
    Client,
    Part,
    Said,
    batch,
    exchange,
    fetch,
    heartbeat,
    produce,
)

Talk = list[list[Said]]
"""Turns of a connection, between which others speak."""
BATCH = 100
"""Records of a batch; what `tshark -T ek` takes grows with the square of what a message holds."""
SEED = 19
"""Of `mixed` and `tls`, beside the number of the connection."""
BENCH = {PRODUCE: 7, FETCH: 10, HEARTBEAT: 2}
"""The versions of `bulk` and `chatty`, which tshark 4.0 decodes to the last field."""
RELEASES = ("librdkafka 1.9", "Kafka 2.4", "Kafka 3.1", "Kafka 4.1")
# tshark 4.0 decodes the first two columns, what is flexible in them too, to the last field, but for subscriptions and
# assignments of the first. Of the others it knows some, such as Heartbeat.
VERSIONS = {
    PRODUCE: (7, 8, 9, 13),
    FETCH: (11, 11, 13, 18),
    LIST_OFFSETS: (2, 5, 7, 10),
    METADATA: (4, 9, 12, 13),
    OFFSET_COMMIT: (7, 8, 8, 9),
    OFFSET_FETCH: (7, 6, 8, 9),
    FIND_COORDINATOR: (2, 3, 4, 6),
    JOIN_GROUP: (5, 6, 7, 9),
    HEARTBEAT: (3, 4, 4, 4),
    SYNC_GROUP: (3, 4, 5, 5),
    API_VERSIONS: (3, 3, 3, 4),
    INIT_PRODUCER_ID: (1, 2, 3, 5),
    ADD_PARTITIONS_TO_TXN: (0, 1, 3, 3),
    ADD_OFFSETS_TO_TXN: (0, 1, 3, 4),
    END_TXN: (1, 1, 3, 5),
    TXN_OFFSET_COMMIT: (3, 2, 3, 5),
}
TOPICS = ("audit", "clicks", "orders", "payments", "returns.v2", "stock-levels", "user_sessions")
WORDS = (
    "alpha",
    "bravo",
    "charlie",
    "delta",
    "echo",
    "foxtrot",
    "golf",
    "hotel",
    "india",
    "juliett",
    "kilo",
    "lima",
)
ERRORS = {
    PRODUCE: 6, FETCH: 6, LIST_OFFSETS: 6, METADATA: 3, OFFSET_COMMIT: 27, FIND_COORDINATOR: 15, HEARTBEAT: 27,
    INIT_PRODUCER_ID: 14, ADD_PARTITIONS_TO_TXN: 51,
}  # fmt: skip
"""Error code that an API's broker answers with now and then."""
ERROR_SHARE = 0.03
TURNS = 10


def order(chance: random.Random) -> bytes:
    """A value of 200 bytes, text that lz4 makes about half as long."""
    text = (
        f'{{"order":{chance.randrange(10**9)},"customer":"c{chance.randrange(10**5):05d}","price":'
        f'{chance.randrange(10_000) / 100:.2f},"token":"{chance.getrandbits(320):080x}","city":"Berlin","status":'
        f'"shipped","currency":"EUR","note":"leave with the neighbour'
    )
    return text.encode().ljust(198)[:198] + b'"}'


def bulk(connection: int) -> Talk:
    """Producing and fetching 1,000 records in batches of `BATCH`, half of them in lz4."""
    chance, client = random.Random(connection), Client(f"bench-{connection}", BENCH)

    def part(batches: int, codec: int) -> list[Part]:
        found = b"".join(batch([order(chance) for _ in range(BATCH)], codec) for _ in range(batches))
        return [Part("orders", 0, found, batches * BATCH)]

    said = []
    for codec in (NO_CODEC, LZ4):
        said += produce(client, part(1, codec)) + fetch(client, [Part("orders", 0)], part(4, codec))
    return [said]


def chatty(connection: int) -> Talk:
    """Eight messages, each in a packet of its own."""
    chance, client = random.Random(connection), Client(f"bench-{connection}", BENCH)
    beat, nothing = heartbeat(client, f"{client.id}-{connection:08x}"), [Part("orders", 0)]
    three = [Part("orders", 0, batch([order(chance) for _ in range(3)]), 3)]
    return [beat + fetch(client, nothing, nothing) + beat + produce(client, three)]


class Speaker(NamedTuple):
    """A connection of `mixed` or `tls`, and the partitions that it is about."""

    chance: random.Random
    client: Client
    parts: list[Part]

    @classmethod
    def of(cls, connection: int, release: int, each: int) -> Speaker:
        """A client of a release, and `each` partitions of two topics."""
        chance = random.Random(SEED << 16 | connection)
        versions = {key: columns[release] for key, columns in VERSIONS.items()}
        client = Client(f"{RELEASES[release].lower().replace(' ', '-')}-{connection}", versions)
        return cls(
            chance, client, [Part(name, i) for name in sorted(chance.sample(TOPICS, 2)) for i in range(each)]
        )

    def error(self, key: int) -> int:
        return ERRORS[key] if self.chance.random() < ERROR_SHARE else 0

    def filled(self, part: Part, sizes: list[int], codec: int, producer_id: int = -1) -> Part:
        """The partition with a batch of each of these numbers of records, of some ten to two hundred bytes."""
        chance, found = self.chance, b""
        for size in sizes:
            texts = (" ".join(chance.choices(WORDS, k=chance.randrange(1, 30))) for _ in range(size))
            values = [f'{{"id":{chance.getrandbits(40)},"text":"{text}"}}'.encode() for text in texts]
            found += batch(values, codec, producer_id)
        return part._replace(records=found, count=sum(sizes))

    def hello(self) -> list[Said]:
        names = list(dict.fromkeys(part.topic for part in self.parts))
        told = messages.metadata(self.chance, self.client, names, self.error(METADATA))
        return messages.api_versions(self.client) + told

    def produced(self, part: Part, producer_id: int = -1, transactional_id: str | None = None) -> list[Said]:
        """Produce of some records."""
        size, codec = self.chance.randrange(1, 8), self.chance.choice(list(PACK))
        filled = self.filled(part, [size], codec, producer_id)
        return produce(self.client, [filled._replace(error=self.error(PRODUCE))], transactional_id)

    def waited_for(self) -> list[Part]:
        """What a Fetch of some time gives: half of the times nothing."""
        if self.chance.random() < 0.5:
            return []
        part = self.chance.choice(self.parts)
        if error := self.error(FETCH):
            return [part._replace(error=error)]
        return [self.filled(part, [self.chance.randrange(1, 20)], LZ4)]


def pipelined(exchanges: list[list[Said]]) -> list[Said]:
    """All requests, then all responses."""
    return [said[side] for side in (CLIENT, BROKER) for said in exchanges]


def produces(of: Speaker) -> Talk:
    """A producer with up to five requests in flight."""
    turns = [of.hello() + messages.init_producer_id(of.client, None, of.error(INIT_PRODUCER_ID))]
    for _ in range(TURNS):
        number = of.chance.randrange(1, 6)
        turns.append(pipelined([of.produced(of.chance.choice(of.parts)) for _ in range(number)]))
    return turns


def consumes(of: Speaker) -> Talk:
    """A member of a group: it joins, goes on where it was, and fetches in a session. Each turn ends with a Fetch that
    waits."""
    client, parts = of.client, of.parts
    member, session_id = f"{client.id}-{of.chance.getrandbits(64):016x}", of.chance.getrandbits(31)
    said = (
        of.hello()
        + messages.find_coordinator(client, GROUP, 0, of.error(FIND_COORDINATOR))
        + messages.join_group(client, member, parts)
        + messages.sync_group(client, member, parts)
        + messages.offset_fetch(client, parts)
        + messages.list_offsets(client, parts, of.error(LIST_OFFSETS))
    )
    turns = []
    for epoch in range(TURNS):
        found = of.waited_for()
        asked, told = fetch(client, [] if epoch else parts, found, (session_id, epoch))
        turns.append([*said, asked])
        said = [told, *heartbeat(client, member, of.error(HEARTBEAT))]
        if found:
            said += messages.offset_commit(client, member, parts, of.error(OFFSET_COMMIT))
    return [*turns, said]


def transacts(of: Speaker) -> Talk:
    """A transactional producer: a transaction a turn."""
    client, name, producer_id = of.client, f"tx-{of.client.id}", of.chance.randrange(1_000, 9_000)
    asks = {"transactional_id": name, "producer_id": producer_id, "producer_epoch": 0, "group_id": GROUP}
    coordinator = messages.find_coordinator(client, name, 1, of.error(FIND_COORDINATOR))
    turns = [of.hello() + coordinator + messages.init_producer_id(client, name, of.error(INIT_PRODUCER_ID))]
    for _ in range(TURNS):
        some = sorted(of.chance.sample(of.parts, 2))
        turns.append(
            messages.add_partitions_to_txn(client, asks, some, of.error(ADD_PARTITIONS_TO_TXN))
            + pipelined([of.produced(part, producer_id, name) for part in some])
            + exchange(client, ADD_OFFSETS_TO_TXN, asks, {})
            + messages.txn_offset_commit(client, asks, some)
            + exchange(client, END_TXN, {**asks, "committed": of.chance.random() < 0.9}, asks)
        )
    return turns


ROLES = (produces, consumes, consumes, transacts)


def mixed(connection: int) -> Talk:
    """A producer, a member of a group or a transactional producer, of one of `RELEASES`, from its first request on."""
    role = ROLES[connection // len(RELEASES) % len(ROLES)]
    return role(Speaker.of(connection, connection % len(RELEASES), 2))


def tls(connection: int) -> Talk:
    """Producing 400 and fetching 1,200 records in batches of `BATCH`, by clients of Kafka 2.4 and 4.1."""
    of = Speaker.of(connection, connection % 2 * 2 + 1, 1)

    def filled(batches: int) -> list[Part]:
        codec = of.chance.choice(list(PACK))
        return [of.filled(part, [BATCH] * batches, codec) for part in of.parts]

    return [
        of.hello(),
        pipelined([produce(of.client, filled(1)) for _ in range(2)]),
        *(fetch(of.client, of.parts, filled(2), (7, epoch)) for epoch in range(3)),
    ]


class Profile(NamedTuple):
    """What a connection says, how many connections there are, and bytes of the capture. `beside`: connections whose
    turns alternate; `pause_us`: time between these turns."""

    talk: Callable[[int], Talk]
    connections: int
    size: int
    beside: int = 1
    pause_us: int = 0
    tls: bool = False


PROFILES = {
    "bulk": Profile(bulk, 10, 49_000_000),
    "chatty": Profile(chatty, 1_000, 9_340_000),
    "mixed": Profile(mixed, 360, 12_000_000, beside=60, pause_us=500_000),
    "tls": Profile(tls, 24, 25_000_000, beside=6, pause_us=2_000, tls=True),
}
