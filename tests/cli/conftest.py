"""Captures to read and ways to run the command in a process of its own."""

import subprocess
import sys

import pytest
from support.pcap import Conversation, framed, pcap

from kinspect.protocol import Message, encode_request, encode_response

METADATA, HEARTBEAT, SASL_AUTHENTICATE = 3, 12, 36
SECRET = b"\0alice\0hunter2"


def exchange(talk, number, key, version, request, response, client_id="app-1"):
    """A request and its response, if there is one, on a connection."""
    talk.client_sends(framed(encode_request(Message(key, version, number, request, client_id))))
    if response is not None:
        talk.broker_sends(framed(encode_response(Message(key, version, number, response))))


def beat(group):
    return {"group_id": group, "generation_id": 1, "member_id": "m"}


def conversation():
    """Five exchanges: Metadata, three Heartbeats (the second with an error, the third unanswered) and, before the
    last, a SASL login."""
    talk = Conversation()
    talk.open()
    topics = [{"error_code": 0, "name": "orders", "is_internal": False, "partitions": []}]
    exchange(talk, 1, METADATA, 1, {"topics": None}, {"brokers": [], "controller_id": 1, "topics": topics})
    exchange(talk, 2, HEARTBEAT, 4, beat("workers"), {"error_code": 0})
    exchange(talk, 3, HEARTBEAT, 4, beat("idlers"), {"error_code": 27}, client_id="app-2")
    exchange(talk, 4, SASL_AUTHENTICATE, 1, {"auth_bytes": SECRET}, {"error_code": 0})
    exchange(talk, 5, HEARTBEAT, 4, beat("workers"), None)
    return talk


@pytest.fixture
def packets():
    """The packets of `conversation`."""
    return conversation().packets


@pytest.fixture
def capture(packets, tmp_path):
    """A capture of `conversation`."""
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(packets))
    return path


@pytest.fixture(scope="session")
def big_capture(tmp_path_factory):
    """A capture of many exchanges: more output than a pipe holds."""
    talk = Conversation()
    talk.open()
    for number in range(1, 2001):
        exchange(talk, number, HEARTBEAT, 4, beat("workers"), {"error_code": 0})
    path = tmp_path_factory.mktemp("big") / "big.pcap"
    path.write_bytes(pcap(talk.packets))
    return path


@pytest.fixture(scope="session")
def many_capture(tmp_path_factory):
    """A capture of as many exchanges on 16 connections in turn; the correlation ids ascend over all of them."""
    talks = [Conversation(client=(f"10.0.0.{number}", 40000 + number)) for number in range(20, 36)]
    for talk in talks:
        talk.open()
    time_us = max(talk.time_us for talk in talks)
    for number in range(1, 2001):
        talk = talks[number % len(talks)]
        talk.time_us = time_us
        exchange(talk, number, HEARTBEAT, 4, beat("workers"), {"error_code": 0})
        time_us = talk.time_us
    path = tmp_path_factory.mktemp("many") / "many.pcap"
    packets = [packet for talk in talks for packet in talk.packets]
    path.write_bytes(pcap(sorted(packets, key=lambda packet: packet.time_us)))
    return path


@pytest.fixture
def command():
    """The command line of a process of its own."""
    return [sys.executable, "-m", "kinspect"]


@pytest.fixture
def process(command):
    """Runs the command in a process of its own."""

    def run(*arguments, **options):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.run([*command, *map(str, arguments)], check=False, **streams)

    return run
