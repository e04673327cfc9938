"""Limit on the bytes held over all connections: the oldest are released, and that is counted."""

from support.pcap import framed

from kinspect.kafka.connection.kafkaconnection import KafkaConnection
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.holdings import EXCHANGE_BYTES, Holdings
from kinspect.kafka.exchange.ledger import Ledger
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import LineNumbering
from kinspect.model import NO_EVIDENCE, Caps, Counts
from kinspect.protocol import Message, encode_request, encode_response

CLIENT, BROKER = 0, 1


class Wire:
    """The connection as the reassembly describes it."""

    syn = CLIENT
    start_time = 0
    packets = bytes = (1, 1)
    conflicts = (0, 0)
    handshake = stepped_at = None
    evidence = NO_EVIDENCE

    def __init__(self, port):
        self.addresses = ((b"\x0a\0\0\1", port), (b"\x0a\0\0\2", 9092))


class Run:
    """Connections that share what they may hold."""

    def __init__(self, total):
        self.counts = Counts()
        emit = frozenset({"exchange"})
        caps = Caps(total_bytes=total)
        self.ledger = Ledger(caps, self.counts, LearnedNames(), emit, frozenset(), False, ["x"])
        self.frame = 0

    def open(self, port):
        return KafkaConnection(Wire(port), LineNumbering(0), self.ledger)

    def send(self, connection, direction, data):
        self.frame += 1
        connection.data(direction, self.frame, self.frame, data, 0, len(data))

    def close(self, *connections):
        for connection in connections:
            self.frame += 1
            connection.closed(self.frame, self.frame, "fin")
        return [line for line in self.ledger.rest() if isinstance(line, Exchange)]


def beat(number, group="g"):
    body = {"group_id": group, "generation_id": 1, "member_id": "m"}
    return framed(encode_request(Message(12, 0, number, body, "client")))


def answer(number):
    return framed(encode_response(Message(12, 0, number, {"error_code": 0})))


def test_the_newest_is_never_let_go_of():
    counts = Counts()
    holdings = Holdings(100, counts)
    gone = []

    class Owner:
        def make_room(self, key):
            gone.append(key)

    owner = Owner()
    holdings.hold("a", owner, 60)
    holdings.hold("b", owner, 30)
    holdings.hold("a", owner, 60)
    assert gone == ["b"]
    holdings.hold("a", owner, 600)
    assert gone == ["b"]
    holdings.hold("c", owner, 1)
    assert gone == ["b", "a"]
    assert holdings.bytes == 1
    assert counts.caps_hit == {"total_bytes": 2}
    holdings.release("c")
    holdings.release("a")
    assert holdings.bytes == 0


def test_nothing_is_held_once_all_is_answered_and_closed():
    run = Run(1 << 20)
    connection = run.open(1)
    for number in range(50):
        request, response = beat(number), answer(number)
        run.send(connection, CLIENT, request[:7])
        run.send(connection, CLIENT, request[7:])
        run.send(connection, BROKER, response[:9])
        run.send(connection, BROKER, response[9:])
    run.send(connection, CLIENT, beat(99)[:20])
    exchanges = run.close(connection)
    assert [e.outcome for e in exchanges] == ["answered"] * 50 + ["unanswered"]
    assert run.ledger.holdings.bytes == 0
    assert run.counts.caps_hit == {}


def test_a_request_in_flight_loses_its_body_and_is_answered_all_the_same():
    run = Run(3 * EXCHANGE_BYTES)
    first, second = run.open(1), run.open(2)
    run.send(first, CLIENT, beat(1, "g" * 3_000))
    run.send(second, CLIENT, beat(2))
    run.send(first, BROKER, answer(1))
    (exchange,) = run.ledger.rest()
    assert exchange.outcome == "answered"
    assert (exchange.client_id, exchange.request.raw, exchange.request.complete) == ("client", None, False)
    line = exchange.to_dict()
    assert line["request"]["body"] is None
    assert line["response"]["body"] == {"error_code": 0}
    assert [p["code"] for p in line["problems"]] == ["cap"]
    assert run.counts.caps_hit == {"total_bytes": 1}


def test_more_requests_than_fit_are_given_up_the_oldest_first():
    run = Run(10 * EXCHANGE_BYTES)
    connection = run.open(1)
    for number in range(100):
        run.send(connection, CLIENT, beat(number))
    given_up = [e for e in run.ledger.rest() if isinstance(e, Exchange)]
    assert [e.correlation_id for e in given_up] == list(range(len(given_up)))
    assert {(e.outcome, e.outcome_reason) for e in given_up} == {("unanswered", "cap")}
    assert len(given_up) > 80
    assert run.ledger.holdings.bytes <= 10 * EXCHANGE_BYTES
    assert len(given_up) + len(run.close(connection)) == 100


def test_an_unfinished_message_keeps_its_header():
    run = Run(20_000)
    first, second = run.open(1), run.open(2)
    for connection in (first, second):
        run.send(connection, CLIENT, beat(1))
        run.send(connection, BROKER, answer(1))
    long = beat(2, "g" * 30_000)
    run.send(first, CLIENT, long[:15_000])
    run.send(second, CLIENT, long[:15_000])
    run.send(first, CLIENT, long[15_000:])
    run.send(first, BROKER, answer(2))
    exchanges = run.close(first, second)
    exchange = next(e for e in exchanges if e.correlation_id == 2 and e.outcome == "answered")
    assert exchange.client_id == "client"
    assert not exchange.request.complete
    assert [p.code for p in exchange.problems] == ["cap"]


def test_what_is_not_recognised_yet_must_tell_or_go():
    run = Run(20_000)
    connections = [run.open(port) for port in range(30)]
    for connection in connections:
        run.send(connection, CLIENT, beat(1, "g" * 3_000)[:1_500])
    assert run.ledger.holdings.bytes <= 20_000
    assert run.counts.caps_hit["total_bytes"] > 20
    assert {e.client_id for e in run.close(*connections)} == {"client"}
