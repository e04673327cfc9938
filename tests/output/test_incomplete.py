"""Why an answer is incomplete is said in one line, in all answers."""

import json
from pathlib import Path

import pytest
from support.pcap import Conversation, framed, pcap

import kinspect
from kinspect.answers import answers
from kinspect.capture import open_timeline
from kinspect.protocol import Message, encode_request, encode_response

CAPTURES = Path(__file__).parents[2] / "captures"

each_answer = pytest.mark.parametrize("name", answers())


def incomplete(name, path, **options):
    capture = kinspect.answer(name, path, **options)["capture"]
    assert capture["complete"] is not bool(capture["incomplete"])
    return capture["incomplete"]


@each_answer
@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("not-kafka/http.pcap.gz", "no Kafka was found: the connections speak something else"),
        ("not-kafka/emptypcap.pcap", "no Kafka was found: there is no packet"),
        (
            "connect/expired_librdkafka.pcap.gz",
            "no Kafka was decoded: the connections are TLS, and the connection ended before the handshake did",
        ),
        ("4.4.0/snap96.pcap", "8 gaps by packets that were cut"),
        ("4.4.0/txn_java.pcap.gz", "2 connections under way at the start"),
    ],
)
def test_the_first_thing_that_is_missing(name, file, words):
    assert incomplete(name, CAPTURES / file)[0].startswith(words)


@each_answer
def test_nothing_decoded_is_the_first_line_of_a_table(kinspect, name):
    first = kinspect(name, "--format", "table", CAPTURES / "not-kafka" / "http.pcap.gz").out.splitlines()[0]
    assert first.startswith("no Kafka was found: ")


@each_answer
@pytest.mark.parametrize(
    ("keylog", "reason"),
    [
        (b"", "no secrets were given"),
        (
            f"CLIENT_RANDOM {'11' * 32} {'22' * 48}\n".encode(),
            "no secrets for this connection in the key log",
        ),
    ],
)
def test_tls_without_its_keys(name, keylog, reason):
    blocks = [*open_timeline([str(CAPTURES / "tls" / "tls12_chacha_dsb.pcapng.gz")])]
    found = incomplete(name, blocks, keylog=keylog)
    assert found[0] == f"no Kafka was decoded: the connections are TLS, and {reason}"


@each_answer
def test_what_a_filter_leaves_out(name):
    found = incomplete(name, CAPTURES / "4.4.0" / "txn_java.pcap.gz", filter={"client_id": "pc-open*"})
    assert found[-1] == "exchanges that --client-id left out"


def whole_talk():
    conversation = Conversation()
    conversation.open()
    for number in range(3):
        asked = Message(12, 4, number, {"group_id": "g", "generation_id": 1, "member_id": "m"}, "c")
        conversation.client_sends(framed(encode_request(asked)))
        answer = {"throttle_time_ms": 0, "error_code": 0}
        conversation.broker_sends(framed(encode_response(Message(12, 4, number, answer))))
    return conversation.packets


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (lambda packets: packets, "1 group under way at the start"),
        (lambda packets: packets[5:], "1 connection and 1 group under way at the start"),
    ],
)
def test_what_was_under_way(tmp_path, kept, words):
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap(kept(whole_talk())))
    assert incomplete("groups", path)[0] == words


@each_answer
def test_a_file_that_cannot_be_read(kinspect, tmp_path, name):
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(b"nothing of the kind")
    shown = kinspect(name, "--format", "json", CAPTURES / "4.4.0" / "kip848.pcap.gz", broken)
    assert shown.status == 1
    assert "broken.pcap: not a capture" in json.loads(shown.out)["capture"]["incomplete"][0]
