"""Lines of `--format request-log`, against what Kafka's own code wrote of the same messages."""

import json
import re
from pathlib import Path

import pytest
from support.manifest import load
from support.requestlog import bodies, parsed

from kinspect.api import read
from kinspect.kafka.view.view import View
from kinspect.output.requestlog import RequestLogTexts, has_line
from kinspect.protocol import Message, encode_request, encode_response, schema
from kinspect.protocol.primitives import ZERO_UUID

CAPTURES = Path(__file__).parents[2] / "captures"
TOLD = [row for row in load(CAPTURES) if row.truth]
METADATA, FETCH, HEARTBEAT, CONTROLLED_SHUTDOWN, CREATE_TOPICS, ENVELOPE = 3, 1, 12, 7, 19, 58


def log(exchange, **options):
    """The line of an exchange, as its parts."""
    assert has_line(exchange)
    return parsed(RequestLogTexts(View(**options)).exchange(exchange).decode())


def told(exchange, **options):
    """The object of the line of an exchange."""
    return log(exchange, **options)[1]


@pytest.mark.parametrize("row", TOLD, ids=lambda row: row.file)
def test_the_bodies_are_those_that_kafka_writes(row):
    ours = {}
    for exchange in read(row.path):
        if has_line(exchange):
            line = told(exchange, show_secrets=True)
            header = line["requestHeader"]
            key = header["requestApiKey"], header["correlationId"]
            ours[*key, exchange.connection.client_port] = ours[*key, None] = line
    for account in row.truth:
        line = ours.get((account["api"], account["corr"], account.get("port")))
        if line is None:
            assert account["resp"] is None  # the client was gone
            continue
        assert line["requestHeader"]["requestApiVersion"] == account["version"]
        assert line["requestHeader"].get("clientId") == account["client_id"]
        assert bodies(line) == bodies({"request": account["req"], "response": account["resp"]})


def test_a_line(exchanges):
    (exchange,) = exchanges(
        (HEARTBEAT, 4, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {"error_code": 27})
    )
    text = RequestLogTexts(View()).exchange(exchange).decode()
    assert text.endswith("} (kafka.request.logger)\n")
    time, line = parsed(text)
    assert time == exchange.to_dict()["timestamp"][:23].replace("T", " ").replace(".", ",")
    assert line == {
        "isForwarded": False,
        "requestHeader": {
            "requestApiKey": HEARTBEAT,
            "requestApiVersion": 4,
            "correlationId": 1,
            "clientId": "app-1",
            "requestApiKeyName": "HEARTBEAT",
        },
        "request": {"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": None},
        "response": {"throttleTimeMs": 0, "errorCode": 27},
        "connection": line["connection"],
        "totalTimeMs": line["totalTimeMs"],
        "throttleTimeMs": 0,
        "securityProtocol": "PLAINTEXT",
        "principal": "User:ANONYMOUS",
        "clientInformation": {"softwareName": "unknown", "softwareVersion": "unknown"},
    }
    ends = exchange.connection
    assert line["connection"] == (
        f"{ends.broker_ip}:{ends.broker_port}-{ends.client_ip}:{ends.client_port}-0-0"
    )
    assert line["totalTimeMs"] >= exchange.latency_ms > 0


def test_records_are_a_size(exchanges):
    body = {"transactional_id": None, "acks": 0, "timeout_ms": 1}
    topics = [{"name": "t", "partition_data": [{"index": 0, "records": b"\0" * 77}]}]
    (exchange,) = exchanges((0, 3, {**body, "topic_data": topics}, None))
    line = told(exchange)
    assert line["request"]["topicData"][0]["partitionData"] == [{"index": 0, "recordsSizeInBytes": 77}]
    # Nothing is due, and nothing is known of its time.
    assert line["response"] is None
    assert "totalTimeMs" not in line


def test_tagged_fields_that_have_their_defaults_are_left_out(exchanges):
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 5, "records": None}
    epoch = {"epoch": 3, "end_offset": 4}
    leader = {"leader_id": -1, "leader_epoch": -1}
    response = {
        "responses": [
            {
                "topic_id": ZERO_UUID,
                "partitions": [{**partition, "diverging_epoch": epoch, "current_leader": leader}],
            }
        ]
    }
    request = {"max_wait_ms": 1, "min_bytes": 1, "topics": [], "forgotten_topics_data": []}
    (exchange,) = exchanges((FETCH, 17, request, response))
    line = told(exchange)
    (shown,) = line["response"]["responses"][0]["partitions"]
    assert shown["divergingEpoch"] == {"epoch": 3, "endOffset": 4}
    assert shown.keys().isdisjoint({"currentLeader", "snapshotId"})
    assert shown["records"] is None
    assert line["request"].keys().isdisjoint({"clusterId", "replicaState"})
    assert "nodeEndpoints" not in line["response"]


def test_every_api_has_kafkas_name():
    names = {api.enum for api in schema.apis()}
    assert names >= {"LIST_OFFSETS", "OFFSET_FOR_LEADER_EPOCH", "DESCRIBE_QUORUM", "CONTROLLED_SHUTDOWN"}
    assert names >= {
        "BROKER_HEARTBEAT",
        "LEADER_AND_ISR",
        "API_VERSIONS",
        "SASL_AUTHENTICATE",
        "ALTER_PARTITION",
    }
    assert all(re.fullmatch("[A-Z_]+", name) for name in names)


def test_a_header_without_a_client_id(exchanges):
    (exchange,) = exchanges(
        (CONTROLLED_SHUTDOWN, 0, {"broker_id": 1}, {"error_code": 0, "remaining_partitions": []})
    )
    assert "clientId" not in told(exchange)["requestHeader"]


@pytest.mark.parametrize(("version", "deprecated"), [(2, True), (3, False), (13, False)])
def test_versions_that_were_deprecated_until_they_were_removed(exchanges, version, deprecated):
    (exchange,) = exchanges((0, version, {"acks": 1, "timeout_ms": 1, "topic_data": []}, {"responses": []}))
    header = told(exchange)["requestHeader"]
    assert header.get("requestApiVersionDeprecated", False) == deprecated


def test_what_no_broker_logs(exchanges):
    beat = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    answered, unanswered = exchanges((HEARTBEAT, 4, beat, {"error_code": 0}), (HEARTBEAT, 4, beat, None))
    assert has_line(answered)
    assert not has_line(unanswered)


def test_what_is_not_written_is_counted(kinspect):
    capture = CAPTURES / "0.11.0.3" / "sasl-scram-sha-256.pcap"
    native = [
        json.loads(line) for line in kinspect("read", "-q", "--format", "jsonl", capture).out.splitlines()
    ]
    missing = [
        line
        for line in native
        if line["outcome"] not in ("answered", "no_response") or line["api_key"] is None
    ]
    assert missing
    for jobs in "12":
        found = kinspect("read", "--format", "request-log", "--jobs", jobs, capture)
        assert len(found.out.splitlines()) == len(native) - len(missing)
        assert f"not written, as a request log has completed requests alone: {len(missing)}\n" in found.err
    first = kinspect("read", "--format", "request-log", "--limit", "3", capture)
    assert len(first.out.splitlines()) == 3


def test_secrets():
    found = read(CAPTURES / "4.4.0" / "sasl_plain.pcap.gz")
    found = [exchange for exchange in found if exchange.api_key == 36 and has_line(exchange)]
    lines = [told(exchange) for exchange in found]
    assert {line["request"]["authBytes"] for line in lines} == {"[hidden]"}
    assert {line["securityProtocol"] for line in lines} == {"SASL_PLAINTEXT"}
    assert "User:alice" in {line["principal"] for line in lines}
    shown = {told(exchange, show_secrets=True)["request"]["authBytes"] for exchange in found}
    assert "[hidden]" not in shown


def test_configs_that_are_secret(exchanges):
    configs = [{"name": "ssl.key.password", "value": "hunter2"}, {"name": "retention.ms", "value": "1"}]
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": configs}
    (exchange,) = exchanges((CREATE_TOPICS, 5, {"topics": [topic], "timeout_ms": 1}, {"topics": []}))
    shown = told(exchange)["request"]["topics"][0]["configs"]
    assert [config["value"] for config in shown] == ["[hidden]", "1"]


def forwarded(exchanges, principal=None):
    """The exchange of an Envelope with a CreateTopics in it."""
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    request = Message(CREATE_TOPICS, 7, 9, {"topics": [topic], "timeout_ms": 1}, "admin")
    answer = Message(CREATE_TOPICS, 7, 9, {"topics": []})
    body = {
        "request_data": encode_request(request),
        "request_principal": principal,
        "client_host_address": b"\x0a\0\0\1",
    }
    (exchange,) = exchanges(
        (ENVELOPE, 0, body, {"response_data": encode_response(answer), "error_code": 0}), client_id="broker"
    )
    return exchange


def test_an_envelope_is_logged_as_the_request_in_it(exchanges):
    line = told(forwarded(exchanges))
    assert line["isForwarded"] is True
    assert line["requestHeader"]["requestApiKeyName"] == "CREATE_TOPICS"
    assert (line["requestHeader"]["clientId"], line["requestHeader"]["correlationId"]) == ("admin", 9)
    assert line["request"]["topics"][0]["name"] == "t"
    assert line["response"] == {"throttleTimeMs": 0, "topics": []}


def test_addresses_are_javas():
    exchange = next(iter(read(CAPTURES / "4.4.0" / "ipv6.pcap")))
    assert told(exchange)["connection"].startswith("0:0:0:0:0:0:0:1:")
