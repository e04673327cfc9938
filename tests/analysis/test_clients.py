"""Clients: rows equal plain sums over the lines of `kinspect read`; storms, resets and guesses at software."""

from collections import Counter, defaultdict
from functools import partial

import pytest
from support.captures import CAPTURES, each_folder
from support.pcap import START_US, Conversation, framed, pcap

from kinspect.analysis.software import LIMITS, inferred
from kinspect.protocol import Message, encode_request, encode_response, schema

SECOND_US = 1_000_000
METADATA, HEARTBEAT, API_VERSIONS, ENVELOPE = 3, 12, 18, 58


@pytest.fixture
def rows(answer_rows):
    return partial(answer_rows, "clients")


# ---------------------------------------------------------------------- all captures


class Sums:
    """What a client did, added up from lines."""

    def __init__(self):
        self.counts = Counter()
        self.versions = defaultdict(Counter)
        self.errors = defaultdict(Counter)
        self.connections = set()
        self.times = []
        self.last = {}
        self.mechanisms = set()

    def add(self, line):
        request, response = line["request"], line["response"]
        self.connections.add(line["connection_id"])
        if line["request"] is not None:
            self.times.append(line["timestamp"])
        self.counts["received"] += response["size"] if response else 0
        for key in ("principal", "software_name", "software_version"):
            if line["client"][key]:
                self.last[key] = line["client"][key]
        if request is None:
            return
        self.counts["requests"] += 1
        self.counts["sent"] += request["size"]
        self.called(line["api"] or str(line["api_key"]), line["api_version"])
        if line["api"] == "SaslHandshake" and request["body"]:
            self.mechanisms.add(request["body"]["mechanism"])
        for error in response["errors"] if response else []:
            # What an Envelope holds is the client's: its own request is in these captures.
            if not error["path"].startswith("response_data_decoded"):
                self.errors[line["api"]][error["name"]] += 1

    def called(self, api, version):
        self.versions[api][str(version)] += 1


def sums(lines):
    found = defaultdict(Sums)
    for line in lines:
        if line["type"] == "exchange":
            found[line["client"]["id"], line["client"]["ip"]].add(line)
    return found


STORMS = {
    "settings_librdkafka-anew-anew": ["InitProducerId"],
    "churn_librdkafka-client": ["Metadata", "ApiVersions"],
}
"""Storms of the captures."""


@each_folder
def test_rows_are_plain_sums_over_the_lines(every_line, rows, folder):
    for capture in sorted(path for path in folder.iterdir() if ".pcap" in path.name):
        told = every_line(capture)
        expected = sums(told)
        found = {(row["client_id"], row["client_ip"]): row for row in rows(capture)}
        assert found.keys() == expected.keys(), capture
        resets = {
            line["connection_id"]
            for line in told
            if line["type"] == "connection" and line["end_reason"] == "reset"
        }
        for key, row in found.items():
            client = expected[key]
            assert [row["requests"], row["bytes_sent"], row["bytes_received"]] == [
                client.counts[name] for name in ("requests", "sent", "received")
            ], (capture, key)
            assert {
                name: api["versions"] or {"None": api["requests"]} for name, api in row["apis"].items()
            } == client.versions, (capture, key)
            assert {name: api["errors"] for name, api in row["apis"].items() if api["errors"]} == {
                name: errors for name, errors in client.errors.items() if errors
            }, (capture, key)
            assert row["connections"] == len(client.connections)
            assert row["resets"] == len(client.connections & resets)
            assert client.mechanisms <= {*row["sasl_mechanisms"]}
            assert [row["first"], row["last"]] == [
                min(client.times, default=None),
                max(client.times, default=None),
            ]
            for name in ("principal", "software_name", "software_version"):
                assert row[name] == client.last.get(name), (capture, key)
            assert [storm["api"] for storm in row["storms"]] == STORMS.get(row["client_id"], [])


@pytest.mark.parametrize(
    ("capture", "client_id", "software"),
    [
        ("4.4.0/kafkajs.pcap.gz", "pc-kafkajs", "kafkajs"),
        ("4.4.0/kafkago.pcap.gz", "pc-kafkago", "kafka-go"),
        ("4.4.0/groups_classic.pcap.gz", "pc-ak-1", "aiokafka"),
        ("3.6.2/groups_classic.pcap.gz", "pg-kp-1", "kafka-python"),
        # Named by the client itself: nothing to guess.
        ("4.4.0/groups_classic.pcap.gz", "pc-jv-1", None),
        # All its versions are the newest of its broker too, so it may be anything.
        ("2.0.1/console-snappy.pcap", "c-quay-c", None),
        # Versions that were configured for an old broker.
        ("2.8.2/kafkapython-av082.pcap", "c-canyon-kc", None),
    ],
)
def test_software_of_the_manifest(rows, capture, client_id, software):
    (row,) = [row for row in rows(CAPTURES / capture) if row["client_id"] == client_id]
    assert row["software_inferred"] == software


def test_tls_and_login(rows):
    found = rows(
        "--keylog", CAPTURES / "tls/sasl_ssl_tls12.keys.log", CAPTURES / "tls/sasl_ssl_tls12.pcap.gz"
    )
    assert {(row["tls"], tuple(row["sasl_mechanisms"]), row["principal"]) for row in found} == {
        (True, ("SCRAM-SHA-256",), "alice")
    }


# ---------------------------------------------------------------------- conversations


def request(api_key, version, body, client_id="c"):
    return framed(encode_request(Message(api_key, version, 1, body, client_id)))


def response(api_key, version, body):
    return framed(encode_response(Message(api_key, version, 1, body, direction="response")))


METADATA_REQUEST = request(METADATA, 1, {"topics": []})
METADATA_RESPONSE = response(METADATA, 1, {})
HEARTBEAT_REQUEST = request(HEARTBEAT, 0, {"group_id": "g", "generation_id": 1, "member_id": "m"})


def repeated(times, step_us, port=40000, begin_us=START_US, address="10.0.0.1"):
    """A client that asks for metadata again and again."""
    conversation = Conversation(client=(address, port), time_us=begin_us)
    conversation.open()
    for number in range(times):
        conversation.time_us = begin_us + SECOND_US + number * step_us
        conversation.client_sends(METADATA_REQUEST)
        conversation.broker_sends(METADATA_RESPONSE)
    conversation.close()
    return conversation.packets


@pytest.fixture
def made(rows, tmp_path):
    def made(packets):
        path = tmp_path / "made.pcap"
        path.write_bytes(pcap(sorted(packets)))
        return rows(path)

    return made


def test_a_storm_has_its_rate_and_the_threshold(made):
    (row,) = made(repeated(200, SECOND_US // 10))
    (storm,) = row["storms"]
    assert (storm["api"], storm["per_second"], storm["threshold"]) == ("Metadata", 10.0, 3.0)
    assert row["first"] <= storm["at"] <= row["last"]
    assert row["apis"]["Metadata"]["per_second"] == pytest.approx(200 / 19.9, abs=0.01)


def test_a_client_that_asks_now_and_then_is_no_storm(made):
    (row,) = made(repeated(100, SECOND_US))
    assert row["storms"] == []


def test_a_storm_over_many_connections_is_one(made):
    packets = [
        packet
        for number in range(60)
        for packet in repeated(1, 1, port=41000 + number, begin_us=START_US + number * SECOND_US // 10)
    ]
    (row,) = made(packets)
    assert row["connections"] == 60
    assert [storm["api"] for storm in row["storms"]] == ["Metadata"]


@pytest.mark.parametrize(("pods", "seconds_apart", "storms"), [(5, 1, 5), (2, 1, 0), (20, 4, 0)])
def test_a_storm_over_many_addresses_is_one_of_the_client_id(made, pods, seconds_apart, storms):
    """Where each asks once a second; not where they are few, nor where many ask now and then."""
    packets = [
        packet
        for number in range(pods)
        for packet in repeated(30, seconds_apart * SECOND_US, address=f"10.0.1.{number}")
    ]
    found = [storm for row in made(packets) for storm in row["storms"]]
    assert [(storm["api"], storm["per_second"], storm["addresses"]) for storm in found] == [
        ("Metadata", 5.0, 5)
    ] * storms


def test_a_reset_connection_counts_for_its_clients(made):
    conversation = Conversation()
    conversation.open()
    conversation.client_sends(METADATA_REQUEST)
    conversation.broker_sends(METADATA_RESPONSE)
    conversation.client_sends(request(METADATA, 1, {"topics": []}, "other"))
    conversation.reset()
    found = made([*conversation.packets, *repeated(2, SECOND_US, port=40001)])
    assert {row["client_id"]: (row["connections"], row["resets"]) for row in found} == {
        "c": (2, 1),
        "other": (1, 1),
    }


def test_the_role_is_the_strongest_of_all_connections(made):
    conversation = Conversation(client=("10.0.0.1", 40001))
    conversation.open()
    conversation.client_sends(HEARTBEAT_REQUEST)
    conversation.close()
    (row,) = made([*repeated(3, SECOND_US), *conversation.packets])
    assert row["role"] == "consumer"


@pytest.mark.parametrize(
    ("options", "roles"),
    [
        ((), {"1": "broker", "pc-cladm": "admin", "pc-clc": "consumer"}),
        (("--api", "CreateTopics,Metadata"), {"1": None, "pc-cladm": None, "pc-clc": "consumer"}),
        (("--client-id", "pc-cladm"), {"pc-cladm": "admin"}),
    ],
    ids=" ".join,
)
def test_who_may_be_a_broker_is_no_admin(rows, options, roles):
    found = {
        row["client_id"]: row["role"] for row in rows(*options, CAPTURES / "4.4.0/cluster_kraft.pcap.gz")
    }
    assert {client: found[client] for client in roles} == roles


def test_an_unknown_api_goes_by_its_key(made):
    conversation = Conversation()
    conversation.open()
    conversation.client_sends(METADATA_REQUEST)
    conversation.broker_sends(METADATA_RESPONSE)
    conversation.client_sends(framed(b"\x27\x0f\0\0\0\0\0\x07\0\x01c"))
    conversation.close()
    (row,) = made(conversation.packets)
    assert row["apis"]["9999"]["versions"] == {"0": 1}


def test_answers_alone_are_received_and_no_requests(made):
    body = {"brokers": [{"node_id": 1, "host": "kafka-1.example.org", "port": 9092, "rack": None}]}
    conversation = Conversation()
    conversation.open()
    for number in range(10):
        conversation.client_sends(framed(encode_request(Message(METADATA, 1, number, {"topics": []}, "c"))))
        answer = encode_response(Message(METADATA, 1, number, body, direction="response"))
        conversation.broker_sends(framed(answer))
    conversation.close()
    answers = [packet for packet in conversation.packets if packet.data[26:30] == bytes([10, 0, 0, 9])]
    (row,) = made(answers)
    assert (row["client_id"], row["requests"], row["bytes_sent"], row["apis"]) == (None, 0, 0, {})
    assert row["bytes_received"] == 10 * len(answer)


def test_filters_leave_connections_of_others_out(rows):
    capture = CAPTURES / "4.4.0/groups_classic.pcap.gz"
    (row,) = rows("--client-id", "pc-ak-1", capture)
    assert row == next(row for row in rows(capture) if row["client_id"] == "pc-ak-1")


# ---------------------------------------------------------------------- guesses


def newest(release):
    ranges = schema.releases()[schema.release(release)]
    return tuple(ranges[key].high if key in ranges else None for key in LIMITS)


def used(text):
    return {
        schema.api(name).key: {*map(int, versions.split(","))}
        for name, versions in (part.split(":") for part in text.split())
    }


JAVA_2_0 = "ApiVersions:2 Metadata:6 Produce:6"


@pytest.mark.parametrize(
    ("broker", "versions", "software"),
    [
        ("2.8", JAVA_2_0, "apache-kafka-java 2.0"),
        ("2.8", "ApiVersions:0,2 Metadata:7 Produce:7", "apache-kafka-java 2.1..2.2"),
        ("4.4", "ApiVersions:2 Metadata:8 Produce:7 Fetch:11 JoinGroup:5", "apache-kafka-java 2.3"),
        # The broker has nothing newer, so the client may.
        ("2.0", JAVA_2_0, None),
        # A combination that nobody has.
        ("2.8", "ApiVersions:2 Metadata:6 Produce:3", None),
        # kafka-python or aiokafka.
        ("3.6", "ApiVersions:0 Metadata:0 Produce:7", None),
        # An API that no software of the table has.
        ("4.4", "ApiVersions:2 Metadata:6 Produce:7 ShareFetch:1", None),
        ("4.4", "ApiVersions:2", None),
    ],
)
def test_a_guess_needs_versions_below_the_brokers(broker, versions, software):
    assert inferred(used(versions), {newest(broker)}) == software


def test_no_guess_where_brokers_differ_or_told_nothing():
    assert inferred(used(JAVA_2_0), {newest("2.8"), newest("3.0")}) is None
    assert inferred(used(JAVA_2_0), set()) is None
