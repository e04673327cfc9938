"""Why clients cannot connect: what the manifest says of recorded troubles, each problem from made packets, and none
where all is well."""

import pytest
from support.captures import CAPTURES
from support.clean import more_folders
from support.manifest import load
from support.packets import blocks, nanosecond_pcap, packets
from support.segments import ACK, BROKER, CLIENT, FIN, MS, RST, SECOND, TcpConnection, together

import kinspect
from kinspect.analysis.answer import ResultContext
from kinspect.analysis.connectends import ConnectionFailures
from kinspect.analysis.metrics import CONNECT_FAILURES, KafkaMetrics
from kinspect.answers.connectanswer import Connect
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.pipeline import Inspector
from kinspect.protocol import Message, encode_request, encode_response

TROUBLES = [row for row in load(CAPTURES) if "connect" in row.facts]
WELL = [
    "4.4.0/nano.pcap",
    "4.4.0/txn_java.pcap.gz",
    "2.8.2/sasl-plain.pcap",
    "connect/healthy-tls_java.pcap.gz",
    "tls/tls12_chacha_dsb.pcapng.gz",
    "variants/dup.pcap.gz",
]
TROUBLED = {
    "-bad": ["login_refused"],
    "sasl_": ["login_refused"],
    **{part: ["tls_not_expected", "not_kafka"] for part in ("raw.", "_raw_")},
    "sweep-E-admin": ["login_refused", "churn"],
    **{part: ["refused"] for part in ("controller-2brokers", "cluster_", "voter", "kraft-2nodes")},
}
"""What captures have by intention, by parts of their names: logins with wrong passwords, other protocols, a connection
for each request, brokers that are started and stopped."""
METADATA, API_VERSIONS, HANDSHAKE, AUTHENTICATE = 3, 18, 17, 36
HELLO = bytes.fromhex("160301002d010000290303") + bytes(32) + b"\0\0\2\x13\x01\1\0"
SERVER_HELLO = bytes.fromhex("160303002a020000260303") + bytes(32) + b"\0\x13\x01\0"
ALERT = b"\x15\x03\x03\0\2\2"
REPEATED = {"version_refused", "login_expected"}
"""What a client must meet twice."""
KEYS = "told_by told_as count".split()


@pytest.mark.parametrize("row", TROUBLES, ids=lambda row: row.file)
def test_recorded_troubles(row):
    ports = [int(port) for port in row.ports.split(",")]
    rows = kinspect.answer("connect", [row.path], decode_as=ports)["rows"]
    found = {each["problem"]: each["severity"] for each in rows}
    expected = row.facts["connect"]
    assert {
        name: severity for name, severity in found.items() if severity != "note" or name in expected
    } == expected
    assert all(each["frames"] for each in rows)


@pytest.mark.parametrize(
    "row",
    [row for n, row in enumerate(TROUBLES) if n % 3 == 0 or REPEATED & row.facts["connect"].keys()],
    ids=lambda row: row.file,
)
def test_metrics_count_them_as_they_end(row):
    ports = [int(port) for port in row.ports.split(",")]
    metrics = KafkaMetrics()
    emit = frozenset({"exchange", "connection"})
    inspector = Inspector(emit=emit, kafka_ports=frozenset(ports), files=[row.file])
    lines = [line for block in blocks(packets(row.path)) for line in inspector.feed(block)]
    for line in [*lines, *inspector.finish()]:
        (metrics.add if isinstance(line, Exchange) else metrics.add_connection)(line)
    counted = {problem: count for (problem,), count in metrics.result()[CONNECT_FAILURES.name].items()}
    rows = kinspect.answer("connect", [row.path], decode_as=ports)["rows"]
    assert counted == {
        each["problem"]: each["count"]
        for each in rows
        if each["severity"] != "note" and each["problem"] != "churn"
    }


def test_metrics_forget_the_port_of_which_nothing_was_heard_for_longest():
    failures, again = ConnectionFailures(2), later(5, port=1).syn().reset(BROKER)
    for port in (1, 2, 1, 3):
        failures.add(lines_of(in_use(port))[0])
    (refused,) = lines_of(again)
    assert failures.problem(refused.to_dict()) == ("refused", 1)


@pytest.mark.parametrize(
    ("served", "counted"), [([], [None, ("login_expected", 2), ("login_expected", 1)]), ([0], [None] * 3)]
)
def test_metrics_count_a_login_expected_from_the_second_on(served, counted):
    failures, found = ConnectionFailures(9), []
    for number in (*served, 1, 2, 3):
        *exchanges, line = lines_of(closed_at_login(number) if number else in_use(9093))
        for exchange in exchanges:
            failures.add(exchange)
        found.append(failures.problem(line.to_dict()))
    assert found[len(served) :] == counted


def assert_well(path):
    found = {
        row["problem"] for row in kinspect.answer("connect", [path])["rows"] if row["severity"] != "note"
    }
    assert found <= {
        problem for part, problems in TROUBLED.items() if part in path.name for problem in problems
    }


@pytest.mark.parametrize("name", WELL)
def test_no_problem_where_all_is_well(name):
    assert_well(CAPTURES / name)


@pytest.mark.big
def test_no_problem_in_all_captures_where_all_is_well():
    """Those of `KINSPECT_CAPTURES`, too."""
    rows = [row for folder in (CAPTURES, *more_folders()) for row in load(folder)]
    for path in [row.path for row in rows if row.is_kafka and row not in TROUBLES]:
        if "cutfile" not in path.name:
            assert_well(path)


# ---------------------------------------------------------------------- made packets


@pytest.fixture
def told(tmp_path):
    """The rows of connections, beside one that speaks Kafka and tells 10.0.0.9:9093 and the name other:9094."""

    def told(*connections, alone=False, **options):
        path = tmp_path / "made.pcap"
        first = [] if alone else [tells()]
        path.write_bytes(nanosecond_pcap(together(*first, *connections)))
        return kinspect.answer("connect", [path], **options)["rows"]

    return told


def framed(data):
    return len(data).to_bytes(4, "big") + data


def asks(key, version, body, number=1, client="c-1"):
    return framed(encode_request(Message(key, version, number, body, client)))


def answer(key, version, body, number=1):
    return framed(encode_response(Message(key, version, number, body)))


def tells():
    nodes = [(1, "10.0.0.9", 9093), (2, "other", 9094)]
    brokers = [{"node_id": node, "host": host, "port": port} for node, host, port in nodes]
    body = {"brokers": brokers, "topics": []}
    talk = TcpConnection(port=50_000).open().say(CLIENT, asks(METADATA, 0, {"topics": []}))
    return talk.say(BROKER, answer(METADATA, 0, body)).send(CLIENT, FIN | ACK).send(BROKER, FIN | ACK)


@pytest.mark.parametrize("answer", ["connect", "summary"])
@pytest.mark.parametrize(
    ("names", "line"),
    [
        (
            ["expired_librdkafka"],
            "4 TLS handshakes failed at 10.77.2.2:9196 (--decode-as 9196 if that is Kafka)",
        ),
        (
            ["tls-version_java", "foreign_librdkafka"],
            "6 TLS handshakes failed at 10.77.2.2:9197, 10.77.2.2:9199 (--decode-as PORT if that is Kafka)",
        ),
    ],
)
def test_failed_tls_that_nothing_shows_to_be_of_kafka_is_a_line_and_no_row(names, line, answer):
    paths = [next(CAPTURES.glob(f"connect/{name}.pcap*")) for name in names]
    found = kinspect.answer(answer, paths)
    assert not [row for row in found["rows"] if row["severity"] != "note"]
    assert line in found["capture"]["incomplete"]
    if answer == "connect":
        others = kinspect.answer(answer, paths, filter={"client_host": "10.9.9.9"})["capture"]["incomplete"]
        assert "--decode-as" not in "".join(others)


def lines_of(connection):
    inspector = Inspector(emit=frozenset({"exchange", "connection"}))
    return [
        *(each for block in blocks(connection.packets) for each in inspector.feed(block)),
        *inspector.finish(),
    ]


def later(number=0, port=9093, **ends):
    """A connection after the one that tells."""
    return TcpConnection(port=40_000 + number, broker_port=port, **ends).wait((1 + number) * SECOND)


def problem(rows):
    (row,) = rows
    return (
        row["problem"],
        row["severity"],
        {key: value for key, value in row["detail"].items() if value is not None},
    )


def test_no_answer(told):
    rows = told(later().syn(3))
    assert problem(rows) == ("no_answer", "error", {"syns": 3, "waited_ms": 3000.0})
    assert [rows[0][key] for key in KEYS] == ["10.0.0.9:9092", "10.0.0.9:9093", 1]
    assert rows[0]["client_id"] == "c-1"
    assert told(later().syn()) == []
    assert told(later().syn(3).send(CLIENT, ACK)) == [], "the mirror drops what the broker sends"
    other = later(1).syn().send(CLIENT, ACK).say(CLIENT, b"\0\0")
    assert told(later().syn(3), other) == [], "here, too"


def test_a_broker_that_was_told_by_name(told):
    rows = told(later(port=9094, broker="10.7.7.7").syn(2))
    assert [rows[0][key] for key in KEYS] == ["10.0.0.9:9092", "other:9094", 1]


def test_strangers_count_only_as_kafka(told):
    assert told(later(port=7777).syn(3)) == []
    assert problem(told(later(port=7777).syn(3), decode_as=7777))[0] == "no_answer"


def test_refused_again_and_again(told):
    rows = told(*(later(number).syn().send(BROKER, RST | ACK) for number in range(7)))
    assert problem(rows) == ("refused", "error", {"syns": 7})
    assert (rows[0]["count"], len(rows[0]["frames"])) == (7, 5)


def test_refused_until_the_broker_has_started(told):
    first, accepted, last = (later(1).syn().reset(BROKER), later(2), later(3).syn().reset(BROKER))
    accepted.open().fin(CLIENT).fin(BROKER)
    other = later(2, port=9094).open().fin(CLIENT).fin(BROKER)

    def after(*connections):
        (row,) = (row for row in told(*connections) if row["problem"] == "refused")
        assert row["severity"] == "error"
        return row["detail"]["accepted_within_ms"]

    assert (after(first, other), after(first, accepted), after(first, accepted, last)) == (None, 1000.0, None)


def test_unreachable(told):
    assert problem(told(later().syn().icmp(3, 1))) == (
        "unreachable",
        "error",
        {"syns": 1, "code": "host_unreachable"},
    )


def test_packets_too_large(told):
    data = bytes(1448)
    found = later().open().say(CLIENT, data).icmp(3, 4, 1400)
    words = {"syns": 1, "code": "packets_too_large", "mtu": 1400}
    assert problem(told(found.repeat(CLIENT, data, 2))) == ("unreachable", "error", words)
    assert problem(told(found.send(BROKER, ACK))) == ("unreachable", "note", words)
    failed = later().open().say(CLIENT, HELLO).icmp(3, 4, 1400).say(BROKER, ALERT + b"\x28")
    assert problem(told(failed.fin(BROKER).fin(CLIENT)))[0] == "tls_failed"


def test_large_packets_lost(told):
    data = asks(METADATA, 0, {"topics": [{"name": "t" * 200}] * 10})[:1448]
    found = later().open().say(CLIENT, data).repeat(CLIENT, data, 3)
    assert problem(told(found)) == (
        "large_packets_lost",
        "error",
        {"sender": "client", "bytes": 1448, "times": 4},
    )
    assert told(found.send(BROKER, ACK)) == []


def test_a_host_that_dies_loses_no_large_packets(told):
    found, data = later().open(), bytes(1448)
    for _ in range(5):
        found.say(CLIENT, data).send(BROKER, ACK)
    assert told(found.say(CLIENT, data).repeat(CLIENT, data, 5)) == []


def test_tls_expected(told):
    ask = asks(API_VERSIONS, 0, {})
    alert = later().open().say(CLIENT, ask).say(BROKER, ALERT + b"\x0a").fin(BROKER).fin(CLIENT)
    assert problem(told(alert))[:2] == ("tls_expected", "error")
    silent = later(1).open().say(CLIENT, ask).fin(BROKER).fin(CLIENT)
    assert problem(told(silent, tls(later(2))))[:2] == ("tls_expected", "error")


def tls(connection):
    protected = b"\x17\x03\x03\0\x50" + bytes(80)
    connection.open().say(CLIENT, HELLO).say(BROKER, SERVER_HELLO).say(CLIENT, protected).say(
        BROKER, protected
    )
    return connection.fin(CLIENT).fin(BROKER)


def test_tls_not_expected(told):
    closed = later(port=9092).open().say(CLIENT, HELLO).fin(BROKER).fin(CLIENT)
    assert problem(told(closed)) == ("tls_not_expected", "error", {"stage": "client_hello"})
    other = later().open().say(CLIENT, HELLO).say(BROKER, b"HTTP/1.1 400\r\n").fin(BROKER).fin(CLIENT)
    assert problem(told(other)) == (
        "tls_not_expected",
        "error",
        {"stage": "client_hello", "protocol": "http"},
    )


def test_tls_failed(told):
    hello = later().open().say(CLIENT, HELLO)
    refused = hello.say(BROKER, ALERT + b"\x46").fin(BROKER).fin(CLIENT)
    words = {"stage": "client_hello", "sender": "broker", "alert": "protocol_version"}
    assert problem(told(refused)) == ("tls_failed", "error", words)
    unknown = (
        later().open().say(CLIENT, HELLO).say(BROKER, SERVER_HELLO).say(CLIENT, ALERT + b"\x30").fin(CLIENT)
    )
    words = {"stage": "server_hello", "sender": "client", "alert": "unknown_ca"}
    assert problem(told(unknown)) == ("tls_failed", "error", words)
    closed = later(1).open().say(CLIENT, HELLO).say(BROKER, SERVER_HELLO).fin(CLIENT).fin(BROKER)
    found = {"stage": "server_hello", "sender": "client"}
    assert problem(told(closed)) == ("tls_failed", "error", found)
    again = later(2).open().say(CLIENT, HELLO).say(BROKER, SERVER_HELLO).fin(CLIENT).fin(BROKER)
    assert problem(told(refused, closed, again)) == ("tls_failed", "error", found), "of the same connections"


def test_a_scan_leaves_others_their_room():
    failed = later().open().say(CLIENT, HELLO).say(BROKER, ALERT + b"\x46").fin(BROKER).fin(CLIENT)
    scanned = later(1, port=1).syn().reset(BROKER)
    open_port = later(2, port=2).open().fin(CLIENT).fin(BROKER)
    answer = Connect()
    lines = [line for made in (tells(), failed, scanned, open_port) for line in lines_of(made)]
    for part in answer._parts:
        part._most = 20
    answer.add(lines[0])
    told, tls_failed, refused, connected = [line.to_dict() for line in lines[1:]]
    for port in range(10_000, 10_050):
        for line in (refused, connected):
            answer.add_connection({**line, "broker": {**line["broker"], "port": port}})
    answer.add_connection(told)
    answer.add_connection(tls_failed)
    assert [row["problem"] for row in answer.result(ResultContext(LearnedNames()))] == ["tls_failed"]


def test_not_kafka(told):
    http = later().open().say(CLIENT, b"GET / HTTP/1.1\r\n\r\n").fin(BROKER).fin(CLIENT)
    assert problem(told(http)) == ("not_kafka", "warning", {"protocol": "http"})
    probe = later().open().say(CLIENT, b"\xff\xff\xff\xff\xff").fin(BROKER).fin(CLIENT)
    assert problem(told(probe)) == ("not_kafka", "note", {})
    for begin in (b"\xff\xff\xff\xff\xff", b""):
        lacks = (
            later().open().say(CLIENT, begin).say(CLIENT, bytes(30)).send(BROKER, ACK).fin(BROKER).fin(CLIENT)
        )
        del lacks.packets[4]
        assert not told(lacks), "what was lost may be of Kafka"


def test_version_refused(told):
    def refused(number, key=API_VERSIONS):
        ask = asks(key, 1, {"topics": []}) if key == METADATA else asks(key, 0, {})
        return later(number, port=9092).open().say(CLIENT, ask).send(BROKER, RST | ACK)

    rows = told(refused(1), refused(2))
    assert problem(rows) == ("version_refused", "error", {"api": "ApiVersions", "version": 0})
    assert "upgrade the broker" in rows[0]["advice"], "every release has that version"
    assert problem(told(refused(1)))[:2] == ("closed_early", "note")
    rows = told(refused(1), refused(2), *(refused(number, METADATA) for number in range(3, 6)))
    assert [(row["detail"]["api"], row["count"]) for row in rows] == [("Metadata", 3), ("ApiVersions", 2)]


def in_use(port=9092):
    ask = asks(METADATA, 0, {"topics": []})
    reply = answer(METADATA, 0, {"brokers": [], "topics": []})
    return later(port=port).open().say(CLIENT, ask).say(BROKER, reply).send(CLIENT, ACK)


def closed_at_login(number):
    offer = answer(API_VERSIONS, 0, {"error_code": 0, "api_keys": []})
    greeted = later(number).open().say(CLIENT, asks(API_VERSIONS, 0, {})).say(BROKER, offer)
    return greeted.say(CLIENT, asks(METADATA, 0, {"topics": []}, 2)).send(BROKER, RST | ACK)


def test_login_expected(told):
    closed = [closed_at_login(number) for number in (1, 2)]
    assert problem(told(*closed)) == ("login_expected", "error", {})
    assert told(closed[0]) == [], "once, the broker may have been stopped"
    assert told(*closed, in_use(9093)) == [], "others need no login"


def test_closed_idle(told):
    idle = in_use().wait(3 * SECOND)
    assert problem(told(idle.send(BROKER, FIN | ACK).fin(CLIENT))) == (
        "closed_idle",
        "note",
        {"idle_ms": 3002.0},
    )
    request = asks(METADATA, 0, {"topics": [{"name": "t"}]}, 2)
    reset = in_use().wait(3 * SECOND).say(CLIENT, request).send(BROKER, RST | ACK)
    assert problem(told(reset)) == ("closed_idle", "warning", {"idle_ms": 3003.0})
    dropped = in_use().wait(3 * SECOND).say(CLIENT, request).repeat(CLIENT, request, 5)
    assert problem(told(dropped)) == ("closed_idle", "warning", {"idle_ms": 3002.0})
    at_the_end = in_use().wait(3 * SECOND).say(CLIENT, request).repeat(CLIENT, request, 1)
    assert told(at_the_end) == [], "the capture ended before the answer"
    held = in_use().say(CLIENT, request).wait(3 * SECOND).send(BROKER, RST | ACK)
    assert told(held) == [], "the broker held a request"


def test_login_refused(told):
    login = later().open().say(CLIENT, asks(HANDSHAKE, 1, {"mechanism": "PLAIN"}))
    login.say(BROKER, answer(HANDSHAKE, 1, {"error_code": 0, "mechanisms": ["PLAIN"]}))
    login.say(CLIENT, asks(AUTHENTICATE, 0, {"auth_bytes": b"\0u\0p"}, 2)).fin(BROKER).fin(CLIENT)
    assert problem(told(login))[:2] == ("login_refused", "error")


def test_closed_early(told):
    assert problem(told(later().open().fin(CLIENT).fin(BROKER)))[:2] == ("closed_early", "note")


def test_churn(told):
    def many(apart):
        return [
            TcpConnection(port=41_000 + number, broker_port=9093)
            .wait(SECOND + number * apart)
            .open()
            .fin(CLIENT)
            .fin(BROKER)
            for number in range(60)
        ]

    rows = {row["problem"]: row for row in told(*many(100 * MS))}
    assert rows["churn"]["severity"] == "warning"
    assert rows["churn"]["detail"]["threshold"] == 5.0
    assert rows["churn"]["detail"]["per_second"] > 5
    refused = [
        TcpConnection(port=41_000 + number, broker_port=9093)
        .wait(SECOND + number * 100 * MS)
        .syn()
        .reset(BROKER)
        for number in range(60)
    ]
    assert [row["problem"] for row in told(*refused)] == ["refused"]
    assert {row["problem"] for row in told(*many(SECOND))} == {"closed_early"}


def test_captures_that_tell_too_little(told):
    for side in (CLIENT, BROKER):
        found = tls(later())
        found.packets[:] = [packet for packet in found.packets if (packet.data[29] == 1) == (side == CLIENT)]
        assert told(found) == [], "one side"
    late = (
        later().open().say(CLIENT, HELLO).say(BROKER, SERVER_HELLO).say(CLIENT, ALERT + b"\x30").fin(CLIENT)
    )
    del late.packets[:4]
    assert told(late) == [], "it begins within the handshake"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("expired_librdkafka", ["sender client, alert certificate_expired", "Renew that certificate"]),
        (
            "nowhere_librdkafka",
            [
                "no connection to nowhere.invalid:9092, as advertised: the name may not resolve",
                "no known problem was seen (for requests without an answer: kinspect errors)",
            ],
        ),
        (
            "old-versions_librdkafka",
            ["api Produce, version 1", "The client is too old", "next: kinspect upgrade {}"],
        ),
        ("password_java", ["error: login refused", "next: kinspect auth {} --decode-as 9092"]),
        (
            "small-mtu_librdkafka",
            ["note: unreachable", "code packets_too_large, mtu 1,400", "the broker is there"],
        ),
        ("web_java", ["error: not kafka", "A request of Kafka was answered in another protocol"]),
    ],
)
def test_tables(name, shown, kinspect):
    path = next(CAPTURES.glob(f"connect/{name}.pcap*"))
    ports = [("--decode-as", port) for port in ("9092", "9196")]
    text = kinspect("connect", path, *sum(ports, ()), "--format", "table", "--wide").out
    assert not [each for each in shown if each.format(path) not in text]


@pytest.mark.parametrize("name", ["http_curl", "tls-to-plain_java", "health-check_bash"])
def test_the_client_id_is_not_that_of_another_client_at_the_address(name):
    (row,) = kinspect.answer("connect", [next(CAPTURES.glob(f"connect/{name}.pcap*"))])["rows"]
    assert row["client_id"] is None


def test_fail_on_error(kinspect):
    for name, status in (("refused_java", 4), ("http_curl", 0), ("tls-version_java", 0)):
        assert (
            kinspect("connect", next(CAPTURES.glob(f"connect/{name}.pcap*")), "--fail-on", "error").status
            == status
        )


@pytest.mark.parametrize("name", ["refused_java", "http_curl", "healthy_java"])
def test_summary_leads_with_it(name):
    path = next(CAPTURES.glob(f"connect/{name}.pcap*"))
    rows = kinspect.answer("summary", [path])["rows"]
    problems = [row["problem"] for row in kinspect.answer("connect", [path])["rows"]]
    assert [row["finding"] for row in rows if row["command"] == "connect"] == problems
    assert [row["finding"] for row in rows][: len(problems)] == problems


def test_summary_lists_no_broker_that_speaks_something_else():
    found = kinspect.answer("summary", [CAPTURES / "connect" / "web_java.pcap"])
    (brokers,) = (row for row in found["rows"] if row["finding"] == "brokers")
    assert (brokers["count"], brokers["text"]) == (1, "10.77.2.2:9099: 4.4.0")
    assert found["capture"]["incomplete"] == ["1 answer without its request"]
