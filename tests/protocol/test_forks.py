"""Messages of forks, byte by byte, with definitions of their published APIs and without."""

import json
from pathlib import Path
from struct import pack

import pytest
from support.pcap import Conversation, framed, pcap

import kinspect as package
from kinspect.protocol import Message, encode_request, encode_response, schema
from kinspect.protocol.overlay import read_definitions

FORKS = Path(__file__).parent / "forks"
API_VERSIONS, FETCH, METADATA = 18, 1, 3
ID = bytes(range(16))
UUID = "AAECAwQFBgcICQoLDA0ODw"


def head(key, version, number=7):
    return pack(">hhih3sx", key, version, number, 3, b"app")


def text(value):
    return bytes([len(value) + 1]) + value


TALKS = {
    "automq": [
        (
            *("AutomqRegisterNode", 513, 0),
            pack(">iq", 5, 9) + text(b"s3://wal") + b"\2" + text(b"az") + text(b"a") + b"\0\0",
            {"node_id": 5, "node_epoch": 9, "wal_config": "s3://wal", "tags": [{"key": "az", "value": "a"}]},
            bytes(6) + b"\0",
            {"error_code": 0, "throttle_time_ms": 0},
        ),
        (
            *("AutomqGetPartitionSnapshot", 516, 1),
            pack(">iihx", 3, 4, 2),
            {"session_id": 3, "session_epoch": 4, "version": 2},
            pack(">hiii", 0, 0, 3, 5)
            + (b"\2" + ID + b"\2" + pack(">iih", 1, 6, 1) + b"\xff\xff\1" + pack(">qix", 77, 8))
            + (b"\2" + pack(">qqx", 11, 12) + b"\0\0")
            + pack(">qx", 99),
            {
                "error_code": 0,
                "throttle_time_ms": 0,
                "session_id": 3,
                "session_epoch": 5,
                "topics": [
                    {
                        "topic_id": UUID,
                        "partitions": [
                            {
                                "partition_index": 1,
                                "leader_epoch": 6,
                                "operation": 1,
                                "log_metadata": None,
                                "first_unstable_offset": None,
                                "log_end_offset": {"message_offset": 77, "relative_position_in_segment": 8},
                                "stream_metadata": [{"stream_id": 11, "end_offset": 12}],
                            }
                        ],
                    }
                ],
                "confirm_wal_end_offset": 99,
            },
        ),
    ],
    "inkless": [
        (
            *("InitDisklessLog", 500, 0),
            pack(">iq", 2, 40)
            + b"\2"
            + ID
            + b"\2"
            + pack(">iqi", 0, 1000, 7)
            + (b"\2" + pack(">qhiiqqx", 4000, 1, 0, 9, 990, 5) + b"\0\0\0"),
            {
                "broker_id": 2,
                "broker_epoch": 40,
                "topics": [
                    {
                        "topic_id": UUID,
                        "partitions": [
                            {
                                "partition_id": 0,
                                "diskless_start_offset": 1000,
                                "leader_epoch": 7,
                                "producer_states": [
                                    {
                                        "producer_id": 4000,
                                        "producer_epoch": 1,
                                        "base_sequence": 0,
                                        "last_sequence": 9,
                                        "assigned_offset": 990,
                                        "batch_max_timestamp": 5,
                                    }
                                ],
                            }
                        ],
                    }
                ],
            },
            pack(">i", 0) + b"\2" + ID + b"\2" + pack(">ihx", 0, 6) + b"\0\0",
            {
                "throttle_time_ms": 0,
                "topics": [{"topic_id": UUID, "partitions": [{"partition_id": 0, "error_code": 6}]}],
            },
        )
    ],
}
"""Of each fork APIs, versions, and what their requests and responses are: bytes and values."""


@pytest.fixture(params=TALKS)
def fork(request, tmp_path):
    """A fork's name, its talks, and a capture of them behind what its broker offers."""
    talks = TALKS[request.param]
    keys = [(METADATA, 0, 12), (FETCH, 4, 16), *((key, 0, version) for _, key, version, *_ in talks)]
    offer = [{"api_key": key, "min_version": low, "max_version": high} for key, low, high in keys]
    talk = Conversation()
    talk.open()
    talk.client_sends(framed(encode_request(Message(API_VERSIONS, 0, 1, {}, "app"))))
    talk.broker_sends(
        framed(encode_response(Message(API_VERSIONS, 0, 1, {"error_code": 0, "api_keys": offer})))
    )
    for _, key, version, asked, _, answered, _ in talks:
        talk.client_sends(framed(head(key, version) + asked))
        talk.broker_sends(framed(pack(">ix", 7) + answered))
    talk.close()
    path = tmp_path / "fork.pcap"
    path.write_bytes(pcap(talk.packets))
    return request.param, talks, path


@pytest.fixture
def definitions(fork):
    """Lays the fork's definitions over the table as a process of their own does."""
    folder = FORKS / fork[0]
    schema.lay_over(read_definitions(str(folder)))
    yield folder
    schema.lay_over({})


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()][1:]


def broker(kinspect, path, *options):
    (row,) = json.loads(kinspect("brokers", path, "--format", "json", *options).out)["rows"]
    return (row["dialect"], row["dialect_known_by"]), row["ranges"]


def test_with_its_definitions_all_is_read(kinspect, fork, definitions):
    name, talks, path = fork
    # A text `value` beside a `key` may be a config's.
    given = "--schema", definitions
    shown = *given, "--show-secrets"
    wanted = [(api, key, asked, answered, []) for api, key, _, _, asked, _, answered in talks]
    for found in (
        lines(kinspect("read", path, "-q", *shown)),
        [each.to_dict() for each in package.read(path, schema=definitions, show_secrets=True)][1:],
    ):
        assert wanted == [
            (
                *(line["api"], line["api_key"]),
                *(line["request"]["body"], line["response"]["body"], line["problems"]),
            )
            for line in found
        ]
    dialect, ranges = broker(kinspect, path, *given)
    assert dialect == (name, "api_keys")
    for api, key, version, asked, body, answered, answer in talks:
        assert ranges[api] == [0, version]
        assert encode_request(Message(key, version, 7, body, "app")) == head(key, version) + asked
        assert encode_response(Message(key, version, 7, answer)) == pack(">ix", 7) + answered
        told = json.loads(
            kinspect("decode", *shown, "--format", "json", (head(key, version) + asked).hex()).out
        )
        assert (told["api"], told["fit"], told["body"]) == (api, "fits", body)
        fields = kinspect("schema", api, "--version", version, "--response", *given).out.splitlines()[1:]
        assert {line.split()[0] for line in fields if line[:3].strip()} == answer.keys()


def test_without_them_nothing_is_invented(kinspect, fork):
    name, talks, path = fork
    for (_, key, version, asked, *_), line in zip(talks, lines(kinspect("read", path, "-q")), strict=True):
        assert (line["api"], line["api_key"], line["api_version"]) == (None, key, version)
        assert (line["request"]["body"], line["response"]["body"]) == (None, None)
        assert {each["message"] for each in line["problems"]} == {f"no API with key {key} is known"}
        for options in ((), ("--request",)):
            told = kinspect("decode", *options, (head(key, version) + asked).hex())
            said = told.out.splitlines()
            assert said[0].startswith(f"API {key} v{version} request")
            assert f"unknown_api: no API with key {key} is known" in said
            assert (told.status, "body" in said) == (1, False)
    dialect, ranges = broker(kinspect, path)
    assert dialect == (name, "api_keys")
    assert [ranges[str(key)] for _, key, *_ in talks] == [[0, version] for _, _, version, *_ in talks]
    refused = kinspect("schema", talks[0][0])
    assert (refused.status, refused.out, refused.err.count("\n")) == (1, "", 1)
