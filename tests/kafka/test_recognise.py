"""Recognition of Kafka by its bytes: all of Kafka's streams, and none of other protocols."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from struct import pack

import pytest
from conversation import (
    BROKER,
    CLIENT,
    MS,
    Conversation,
    Wire,
    heartbeat,
    heartbeat_answer,
    request,
    response,
    sized,
)
from strangers import PROTOCOLS, Maker, lettered, zeros
from support import pcap

import kinspect
from kinspect.kafka.connection.kafkaconnection import KAFKA, OTHER, KafkaConnection
from kinspect.kafka.connection.orphans import are_responses
from kinspect.kafka.connection.recognise import NO, YES, first_request
from kinspect.kafka.exchange.ledger import Ledger
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import LineNumbering
from kinspect.model import Caps, Counts
from kinspect.protocol import Message, decode_request, encode_request, encode_response, schema
from kinspect.protocol.apikeys import FETCH, METADATA, PRODUCE

CAP = Caps().message_bytes
MAKERS = [pytest.param(maker, id=maker.__name__) for maker in PROTOCOLS]
# Payloads, of all protocols together.
SAMPLE, MANY = 7_000, 60_000

# ---------------------------------------------------------------------- other protocols


def _ledger() -> Ledger:
    return Ledger(
        Caps(), Counts(), LearnedNames(), frozenset({"exchange"}), frozenset(), False, ["test.pcap"]
    )


def _pieces(rng: Random, data: bytes) -> Iterator[bytes]:
    """A stream as packets: whole, byte by byte, or cut anywhere."""
    step = rng.choice((len(data),) * 4 + (1 if len(data) < 100 else 50, 64, 1 + rng.randrange(64)))
    at = 0
    while at < len(data):
        size = max(1, rng.choice((step, rng.randrange(1, step + 1))))
        yield data[at : at + size]
        at += size


def _packets(rng: Random, client: bytes, server: bytes) -> list[tuple[int, bytes]]:
    """Packets of both sides, those of either side first, or by turns."""
    sides = [
        [(CLIENT, piece) for piece in _pieces(rng, client)],
        [(BROKER, piece) for piece in _pieces(rng, server)],
    ]
    if rng.random() < 0.3:
        sides.reverse()
    if rng.random() < 0.5:
        return sides[0] + sides[1]
    packets = []
    while sides[0] or sides[1]:
        side = sides[0] if sides[0] and (not sides[1] or rng.random() < 0.6) else sides[1]
        packets.append(side.pop(0))
    return packets


def _taken_for_kafka(rng: Random, ledger: Ledger, client: bytes, server: bytes, holes: bool = True) -> bool:
    """Plays one connection: both sides or one of them, with and without its handshake, cut in any way."""
    seen = rng.choice(((client, server), (client, server), (client, b""), (b"", server)))
    wire = Wire(
        syn=rng.choice((CLIENT, CLIENT, None, None, BROKER if not seen[0] else CLIENT)),
        packets=(int(bool(seen[0])), int(bool(seen[1]))),
        bytes=(len(seen[0]), len(seen[1])),
    )
    connection = KafkaConnection(wire, LineNumbering(0), ledger)
    time = 0
    for time, (direction, data) in enumerate(_packets(rng, *seen), 1):
        connection.data(direction, time * MS, time, data, 0, len(data))
        if holes and rng.random() < 0.01:
            size = rng.randrange(1, 100)
            connection.gap(direction, time * MS, time, size, rng.choice(("capture_loss", "snaplen")))
    if rng.random() < 0.5:
        connection.fin(CLIENT, time * MS, time)
    connection.closed(time * MS, time, rng.choice(("fin", "reset", "capture_end", "idle")))
    return connection.kind == KAFKA


def _play(maker: Maker, count: int) -> None:
    rng = Random(f"{maker.__name__} {count}")
    ledger = _ledger()
    for number in range(count):
        streams = maker(rng)
        # A Kafka header that a hole cuts off in its client id, which these may make, is all that a snap length leaves.
        taken = _taken_for_kafka(rng, ledger, *streams, holes=maker not in (lettered, zeros))
        assert not taken, (maker.__name__, number, streams)
    assert ledger.rest() == []


@pytest.mark.parametrize("maker", MAKERS)
def test_no_other_protocol_is_taken_for_kafka(maker: Maker) -> None:
    _play(maker, SAMPLE // len(PROTOCOLS))


@pytest.mark.big
@pytest.mark.parametrize("maker", MAKERS)
def test_none_of_many_payloads_is_taken_for_kafka(maker: Maker) -> None:
    _play(maker, MANY // len(PROTOCOLS) + 1)


def test_zookeepers_replies_are_no_answers() -> None:
    """Paths and states whose bytes fit layouts of Metadata, Heartbeat and others, behind ids that ascend."""
    state = "000000000000004c" + "00000000000054ce" * 3 + 44 * "00"
    bodies = ["00000000", "00000000" + "00000007" + b"/node-7".hex(), "00000000" + state, "ffffff9b"]
    replies = [bytes.fromhex(f"{xid:08x}{5:08x}{xid:08x}{body}") for xid, body in enumerate(bodies * 3, 1)]
    assert not are_responses(b"".join(map(sized, replies)))


def test_metadata_of_a_broker_0_reads_like_zookeepers_replies_but_for_its_host() -> None:
    body = {
        "throttle_time_ms": 0,
        "brokers": [{"node_id": 0, "host": "broker-0.example.org", "port": 9092, "rack": None}],
        "cluster_id": "3Db5QLSqSZieL3rJBUUegA",
        "controller_id": 0,
        "topics": [],
    }
    answers = [encode_response(Message(METADATA, 4, number, body)) for number in range(5, 13)]
    assert are_responses(b"".join(map(sized, answers)))


def test_partitions_that_no_topic_has_are_no_beginning() -> None:
    """Texts with their lengths, read as a ListOffsets of 21 MB that the capture's end cuts."""
    data = bytes.fromhex("0147b118000200000073f0000008") + b"select 1" + bytes.fromhex("0001000000013270")
    names = b"\0\2db\0\0\0\0\0\4user\0\0\0\x90"
    assert first_request(data + names, CAP, True, False) == YES
    more = b"\0\2db\0\1\0\x08select 1\0\5admin\0\5admin\0\2db\0\1a"
    assert first_request(data + names + more, CAP, True, False) != YES


def test_nor_through_the_whole_of_kinspect(tmp_path: Path) -> None:
    """The same through packets, reassembly and the reader, of all protocols in one capture."""
    rng = Random(2026)
    packets = []
    for number in range(20 * len(PROTOCOLS)):
        client, server = PROTOCOLS[number % len(PROTOCOLS)](rng)
        talk = pcap.Conversation(
            client=("10.0.0.1", 2000 + number),
            broker=("10.0.0.9", rng.choice((9092, 389, 2379))),
            mss=rng.choice((5, 64, 1460)),
            time_us=pcap.START_US + number,
        )
        if rng.random() < 0.5:
            talk.open()
        talk.client_sends(client)
        if rng.random() < 0.7:
            talk.broker_sends(server)
        if rng.random() < 0.5:
            talk.close()
        packets += talk.packets
    capture = tmp_path / "strangers.pcap"
    capture.write_bytes(pcap.pcap(sorted(packets, key=lambda packet: packet.time_us)))
    assert list(kinspect.read(capture)) == []


# ---------------------------------------------------------------------- Kafka's own


CONTROLLED_SHUTDOWN = (7, 0)


@cache
def _vectors() -> list[tuple[int, int, int, bytes]]:
    """API, version, correlation id and frame of each request that Kafka's own code wrote."""
    found = []
    for name in ("messages.jsonl.gz", "variants.jsonl.gz"):
        with gzip.open(Path(__file__).parents[1] / "vectors" / name, "rt") as lines:
            for line in lines:
                entry = json.loads(line)
                if entry["direction"] == "request":
                    frame = bytes.fromhex(entry["frame_hex"])
                    found.append((entry["api_key"], entry["version"], entry["correlation_id"], frame))
    return found


def _sent(api_key: int, frame: bytes) -> bytes:
    """The request with its size; a Produce, whose numbers are random, with numbers that clients send."""
    if api_key != 0:
        return sized(frame)
    message = decode_request(frame)
    message.body |= {"acks": -1, "timeout_ms": 30_000}
    return sized(encode_request(message))


@pytest.mark.parametrize("syn", [CLIENT, None], ids=["opened", "mid-stream"])
@pytest.mark.parametrize("step", [1 << 20, 7], ids=["whole", "in pieces"])
def test_every_request_of_every_version_begins_a_connection(syn: int | None, step: int) -> None:
    """Alone on its connection, unanswered; but for one that has neither client id nor more than four bytes of body, and
    a Produce of nothing that did not open it."""
    assert len({(key, version) for key, version, _, _ in _vectors()}) == len(
        {(api.key, v) for api in schema.apis() for v in api.versions if schema.layout(api.key, v, "request")}
    )
    for key, version, correlation_id, frame in _vectors():
        data = _sent(key, frame)
        talk = Conversation(Wire(syn=syn, packets=(1, 0)))
        talk.client(*(data[at : at + step] for at in range(0, len(data), step)))
        if (key, version) == CONTROLLED_SHUTDOWN:
            talk.broker(response(key, version, correlation_id, {"error_code": 0}))
        elif key == PRODUCE and syn is None:
            talk.broker(response(key, version, correlation_id, {"responses": [], "throttle_time_ms": 0}))
        seen = [(e.api_key, e.api_version, e.correlation_id) for e in talk.close()]
        assert seen == [(key, version, correlation_id)]


def test_a_response_that_reads_like_a_produce_of_nothing_is_none() -> None:
    topic = {"name": "topic-7", "partition_responses": [{"partition_index": 0, "error_code": 0}]}
    answer = response(8, 0, 0, {"responses": [topic]})
    talk = Conversation(Wire(syn=None)).broker(answer).client(heartbeat(1)).broker(heartbeat_answer(1))
    assert [(e.api, e.outcome) for e in talk.close()] == [(None, "orphan"), ("Heartbeat", "answered")]


@pytest.mark.parametrize("side", [CLIENT, BROKER])
@pytest.mark.parametrize("step", [1448, 17_376])
def test_requests_in_the_records_within_which_a_capture_begins_are_none(side: int, step: int) -> None:
    """Records of a mirror hold whole requests, of the same client id or not; the last one of each is cut."""
    inner = b"".join(heartbeat(number) for number in (90, 91)) + heartbeat(92)[:-9]
    tail = (inner + b"\x14\0\x02\x9c") * 400
    talk = Conversation(Wire(syn=None, packets=(9, 9)))
    for at in range(50, len(tail), step):
        talk._send(side, tail[at : at + step])
    for number in range(5, 9):
        talk.client(heartbeat(number)).broker(heartbeat_answer(number))
    assert {(e.correlation_id, e.outcome) for e in talk.close()} <= {(n, "answered") for n in range(5, 9)}
    assert talk.line.exchanges >= 2


def test_a_port_named_by_the_user_is_kafka_whatever_comes() -> None:
    talk = Conversation(kafka_ports=frozenset({9092})).client(
        sized(b"\x03\xe7\0\0\0\0\0\1\0\2\xff\xfe strange")
    )
    assert [exchange.api_key for exchange in talk.close()] == [999]


# ---------------------------------------------------------------------- what one message tells, and what two


def _head(api_key: int, version: int, correlation_id: int, client_id: bytes | None) -> bytes:
    text = b"\xff\xff" if client_id is None else pack(">h", len(client_id)) + client_id
    return pack(">hhi", api_key, version, correlation_id) + text


def _begins(data: bytes) -> str:
    return first_request(data, CAP, final=True, opened=False)


@pytest.mark.parametrize("client_id", [b"\xe2", b"abc\xffdefgh", "caf\ufffd-consumer".encode()])
def test_what_is_no_text_is_no_client_id(client_id: bytes) -> None:
    metadata = _head(3, 0, 1, client_id) + pack(">i", 0)
    assert _begins(sized(metadata)) != YES
    assert _begins(sized(metadata + bytes(100))[:-100]) != YES
    assert _begins(sized(_head(3, 0, 1, b"consumer") + pack(">i", 0))) == YES


def _produce(acks: int, timeout_ms: int) -> bytes:
    topics = [{"name": "t", "partition_data": [{"index": 0, "records": None}]}]
    body = {"acks": acks, "timeout_ms": timeout_ms, "topic_data": topics}
    return sized(encode_request(Message(0, 3, 7, body, "producer-1")))


@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("timeout_ms", [-1, 0, 30_000, 0x7FFFFFFF])
def test_a_produce_has_acks_and_a_timeout(acks: int, timeout_ms: int) -> None:
    assert _begins(_produce(acks, timeout_ms)) == YES


@pytest.mark.parametrize(
    ("acks", "timeout_ms"), [(2, 100), (-2, 100), (11713, 100), (1, -2), (1, 67_633_152 * 2)]
)
def test_what_has_others_is_none_unless_it_is_answered(acks: int, timeout_ms: int) -> None:
    produce = _produce(acks, timeout_ms)
    assert _begins(produce) != YES
    assert Conversation().client(produce).close() == []
    answer = response(0, 3, 7, {"responses": [], "throttle_time_ms": 0})
    assert [e.outcome for e in Conversation().client(produce).broker(answer).close()] == ["answered"]


UNKNOWN_API = sized(_head(999, 0, 5, b"probe"))


@pytest.mark.parametrize("key", [999, 1001, 10_001, 32_767])
@pytest.mark.parametrize("pieces", [1, 7])
def test_an_unknown_api_must_be_answered(key: int, pieces: int) -> None:
    unknown = sized(_head(key, 0, 5, b"probe") + b"body")

    def asked() -> Conversation:
        step = -(-len(unknown) // pieces)
        return Conversation().client(*[unknown[at : at + step] for at in range(0, len(unknown), step)])

    assert asked().close() == []
    assert asked().broker(sized(pack(">i", 6) + b"other")).close() == []
    (exchange,) = asked().broker(sized(pack(">i", 5) + b"own")).close()
    assert (exchange.api, exchange.api_key, exchange.outcome) == (None, key, "answered")


@pytest.mark.parametrize("client_id", [b"", b"abc", b"a b c d", b"probe\0", "prob\u00e9".encode()])
def test_a_large_key_needs_a_plain_client_id(client_id: bytes) -> None:
    talk = Conversation().client(sized(_head(10_001, 0, 5, client_id)))
    assert talk.broker(sized(pack(">i", 5) + b"own")).close() == []
    assert talk.connection.kind == "other"


def test_a_large_key_needs_the_whole_answer() -> None:
    asked = sized(_head(10_001, 0, 5, b"probe"))
    assert Conversation().client(asked).broker(sized(pack(">i", 5) + b"own")[:-1]).close() == []
    assert Conversation().client(asked).fin(BROKER).fin(CLIENT).close() == []


def test_or_be_followed_by_a_request() -> None:
    exchanges = Conversation().client(UNKNOWN_API, heartbeat(6, "probe")).close()
    assert [e.api_key for e in exchanges] == [999, 12]
    assert Conversation().client(UNKNOWN_API, UNKNOWN_API).close() == []


def test_or_refused_as_brokers_refuse_it() -> None:
    (exchange,) = Conversation().client(UNKNOWN_API).fin(BROKER).fin(CLIENT).close()
    assert (exchange.api_key, exchange.outcome_reason) == (999, "closed")
    assert Conversation().client(UNKNOWN_API).fin(CLIENT).fin(BROKER).close() == []
    assert Conversation(Wire(syn=None)).client(UNKNOWN_API).fin(BROKER).close() == []


def test_surplus_bytes_are_zeros() -> None:
    body = _head(18, 0, 1, b"rdkafka")
    assert _begins(sized(body + bytes(4))) == YES
    assert _begins(sized(body + b"\1\2\3\4")) != YES


def test_surplus_bytes_make_no_token_of_a_request_on_a_connection_begun_in_the_middle() -> None:
    surplus = sized(_head(18, 0, 1, b"rdkafka") + bytes(4))
    talk = Conversation(Wire(syn=None)).client(surplus, heartbeat(2, "rdkafka"))
    assert {exchange.api_key for exchange in talk.close()} == {12, 18}


SHORT = request(18, 0, 9, {}, None)


def test_a_request_without_client_id_and_body_needs_more() -> None:
    """Ten bytes that many protocols may send: proof is a second one, the answer, or that the connection began so."""
    assert Conversation(Wire(syn=None)).client(SHORT).close() == []
    assert len(Conversation().client(SHORT).close()) == 1
    assert len(Conversation(Wire(syn=None)).client(SHORT, heartbeat(10, None)).close()) == 2
    answer = response(18, 0, 9, {"error_code": 0, "api_keys": []})
    assert len(Conversation(Wire(syn=None)).client(SHORT).broker(answer).close()) == 1


def test_another_correlation_id_contradicts() -> None:
    talk = Conversation().client(SHORT).broker(heartbeat_answer(8))
    assert talk.connection.kind == "other"


def test_an_error_that_kafka_does_not_have_is_no_answer() -> None:
    assert (
        Conversation(Wire(syn=None)).client(SHORT).broker(response(18, 0, 9, {"error_code": 999})).close()
        == []
    )


def _gssapi(kind: bytes) -> bytes:
    mechanism = bytes.fromhex("06092a864886f712010202")
    token = mechanism + kind + b"t" * 30
    return sized(b"\x60" + bytes((len(token),)) + token)


@pytest.mark.parametrize("step", [1, 14, 100])
def test_a_gssapi_token_is_the_first_of_its_exchange(step: int) -> None:
    first, wrapped = _gssapi(b"\1\0"), _gssapi(b"\2\1")
    pieces = [first[at : at + step] for at in range(0, len(first), step)]
    assert [e.kind for e in Conversation().client(*pieces).close()] == ["sasl_token"]
    assert Conversation().client(wrapped).close() == []


@pytest.mark.parametrize("cut", [30, 40, 60])
def test_the_beginning_of_a_request_is_enough_where_no_more_comes(cut: int) -> None:
    software = {"client_software_name": "librdkafka", "client_software_version": "2.16.0"}
    for data in (request(18, 3, 1, software, "pc-snap"), _produce(1, 1000) + bytes(60)):
        assert first_request(data[: min(cut, len(data) - 1)], CAP, final=True, opened=False) != NO
    assert _begins(request(18, 3, 1, software, "pc-snap")[:30]) == YES


# A snap length of 96 bytes leaves 30 of each packet over IPv4.
SNAPPED = _produce(1, 30_000)[:4] + _head(0, 2, 1, b"cut-p") + pack(">hii", 1, 30_000, 1) + b"\0"
SNAPPED_ANSWER = response(0, 2, 1, {"responses": [{"name": "figval", "partition_responses": [{}]}]})[:30]


def _cut(request: bytes, answer: bytes) -> Conversation:
    return Conversation().client(request).lose(CLIENT, 400).broker(answer).lose(BROKER, 20)


def test_a_short_beginning_is_enough_with_the_beginning_of_an_answer() -> None:
    assert len(SNAPPED) == len(SNAPPED_ANSWER) == 30
    (exchange,) = _cut(SNAPPED, SNAPPED_ANSWER).close()
    assert (exchange.api, exchange.outcome, exchange.client_id) == ("Produce", "answered", "cut-p")


@pytest.mark.parametrize("number", [-1, 0, 0x7FFFFFF8])
def test_with_any_correlation_id(number: int) -> None:
    """SASL's requests have -1 or one near the largest; old clients begin with 0."""
    handshake = pack(">i", 35) + _head(17, 0, number, b"console-producer") + pack(">h", 5)
    answer = response(17, 0, number, {"error_code": 0, "mechanisms": ["PLAIN", "SCRAM-SHA-256"]})[:30]
    assert [e.api for e in _cut(handshake, answer).close()] == ["SaslHandshake"]


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        pytest.param(SNAPPED, b"", id="none"),
        pytest.param(SNAPPED, SNAPPED_ANSWER[:8], id="nothing but a correlation id"),
        pytest.param(SNAPPED, SNAPPED_ANSWER[:4] + pack(">i", 2) + SNAPPED_ANSWER[8:], id="another id"),
        pytest.param(SNAPPED, SNAPPED_ANSWER[:8] + b"\xff" * 22, id="what is no answer"),
        pytest.param(SNAPPED.replace(b"cut-p", b"cut p"), SNAPPED_ANSWER, id="no plain client id"),
        pytest.param(
            SNAPPED.replace(pack(">h", 1) + pack(">i", 30_000), bytes((0, 9)) + pack(">i", 9)),
            SNAPPED_ANSWER,
            id="acks",
        ),
    ],
)
def test_but_both_must_fit(sent: bytes, answer: bytes) -> None:
    assert _cut(sent, answer).close() == []


@pytest.mark.parametrize("count", [1, 2, 3])
def test_answers_alone_must_be_many_and_hold_something(count: int) -> None:
    """A length, a counter and a status are not Kafka's alone."""
    beats = [heartbeat_answer(number) for number in range(count)]
    wire = Wire(packets=(0, 1))
    assert Conversation(wire).broker(*beats).close() == []
    groups = {
        "error_code": 0,
        "groups": [{"group_id": f"group-{n}", "protocol_type": "consumer"} for n in range(3)],
    }
    lists = [response(16, 0, number, groups) for number in range(count)]
    assert len(Conversation(wire).broker(*lists).close()) == (count if count >= 3 else 0)


def produce(correlation_id: int, size: int) -> bytes:
    """A Produce v7 with records of that size, which are no batch."""
    records = Random(correlation_id).randbytes(size)
    partition = {"index": 0, "records": records}
    body = {"acks": 1, "timeout_ms": 1500, "topic_data": [{"name": "orders", "partition_data": [partition]}]}
    return request(PRODUCE, 7, correlation_id, body, "producer-1")


def produced(correlation_id: int) -> bytes:
    partition = {
        "index": 0,
        "error_code": 0,
        "base_offset": 7,
        "log_append_time_ms": -1,
        "log_start_offset": 0,
    }
    body = {"responses": [{"name": "orders", "partition_responses": [partition]}], "throttle_time_ms": 0}
    return response(PRODUCE, 7, correlation_id, body)


@pytest.mark.parametrize("size", [70_000, 300_000, 1_000_000])
@pytest.mark.parametrize("in_flight", [1, 5])
@pytest.mark.parametrize("begun", [0.01, 0.37, 0.5, 0.81, 0.99])
def test_a_connection_begun_within_a_large_request(size: int, in_flight: int, begun: float) -> None:
    """Requests lie next to each other, and their packets know nothing of where they begin: each whole one is found."""
    count = 12
    stream = b"".join(produce(number, size) for number in range(1, count + 1))
    each, at = len(stream) // count, int(len(stream) / count * begun)
    talk, answered = Conversation(Wire(syn=None, packets=(9, 9), bytes=(len(stream), 1))), 0
    while at < len(stream):
        talk.client(stream[at : at + 1448])
        at += 1448
        while answered + in_flight <= at // each:
            answered += 1
            talk.broker(produced(answered))
    found = talk.close()
    assert talk.line.kind == KAFKA
    whole = [one.correlation_id for one in found if one.outcome == "answered"]
    assert whole == [*range(2, answered + 1)]
    assert ("client", "mid_start") in {(gap.direction, gap.cause) for gap in talk.gaps}
    told = talk.connection.books()
    assert sum(told.values()) == len(stream) - int(len(stream) / count * begun) + sum(
        len(produced(number)) for number in range(1, answered + 1)
    )


@pytest.mark.parametrize("step", [1448, 10_000])
@pytest.mark.parametrize("size", [70_000, 300_000])
@pytest.mark.parametrize("lost", [False, True])
def test_answers_come_at_once_behind_small_requests(size: int, step: int, lost: bool) -> None:
    """A large stream without a boundary is not searched at every packet, but before what may be an answer."""
    stream = produce(1, size) + b"".join(produce(number, 100) for number in range(2, 6))
    talk = Conversation() if lost else Conversation(Wire(syn=None, packets=(9, 9)))
    at = 0
    if lost:
        talk.client(produce(0, 100)).broker(produced(0)).lose(CLIENT, 1448)
        at = 1448
    for start in range(at + 700, len(stream), step):
        talk.client(stream[start : start + step])
    talk.broker(b"".join(map(produced, range(1, 6))))
    for number in (6, 7):
        talk.client(produce(number, 100)).broker(produced(number))
    found = talk.close()
    assert {problem.code for one in found for problem in one.problems} == {"malformed_records"}
    answered = [one.correlation_id for one in found if one.outcome == "answered"]
    assert answered == [*([0] if lost else []), 2, 3, 4, 5, 6, 7]
    assert [one.correlation_id for one in found if one.outcome != "answered"] == [1]


@pytest.mark.parametrize("size", [70_000, 300_000, 1_000_000])
@pytest.mark.parametrize("begun", [0.01, 0.5])
def test_a_connection_begun_within_a_large_response(size: int, begun: float) -> None:
    fetch = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1 << 20, "topics": []}
    talk, sent = Conversation(Wire(syn=None, packets=(9, 9))), 0
    for number in range(1, 12):
        partition = {
            "partition_index": 0,
            "error_code": 0,
            "high_watermark": 9,
            "last_stable_offset": 9,
            "log_start_offset": 0,
            "aborted_transactions": None,
            "records": Random(number).randbytes(size),
        }
        body = {"throttle_time_ms": 0, "responses": [{"topic": "orders", "partitions": [partition]}]}
        answer = response(FETCH, 5, number, body)
        for at in range(int(len(answer) * begun) if number == 1 else 0, len(answer), 1448):
            talk.broker(answer[at : at + 1448])
            sent += len(answer[at : at + 1448])
        asked = request(FETCH, 5, number + 1, fetch, "consumer-1")
        talk.client(asked)
        sent += len(asked)
    found = [one.correlation_id for one in talk.close() if one.outcome == "answered"]
    assert talk.line.kind == KAFKA
    assert found == [*range(2, 12)]
    assert sum(talk.connection.books().values()) == sent


def test_of_a_busy_stranger_little_is_held() -> None:
    rng = Random(1)
    talk = Conversation(Wire(syn=None, packets=(9, 0), bytes=(14_480_000, 0)))
    for _ in range(10_000):
        talk.client(rng.randbytes(1448))
        assert talk.ledger.holdings.bytes < 512 * 1024
    assert talk.connection.kind is None
    assert talk.close() == []
    assert talk.line.kind == OTHER
    assert talk.connection.books() == {"other_bytes": 14_480_000}
