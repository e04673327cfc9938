"""Exchanges as the pipeline hands them on, from messages encoded for the test."""

from io import BytesIO, TextIOWrapper

import pytest
from support.pcap import Conversation, framed, pcap

from kinspect.api import read
from kinspect.protocol import Message, encode_request, encode_response


@pytest.fixture
def exchanges(tmp_path):
    """A function that gives the exchanges of (api_key, api_version, request body, response body) tuples; without
    a response body there is no response."""

    def make(*messages, client_id="app-1"):
        talk = Conversation()
        talk.open()
        for number, (key, version, request, response) in enumerate(messages, 1):
            talk.client_sends(framed(encode_request(Message(key, version, number, request, client_id))))
            if response is not None:
                answer = Message(key, version, number, response)
                talk.broker_sends(framed(encode_response(answer)))
        path = tmp_path / "made.pcap"
        path.write_bytes(pcap(talk.packets))
        return list(read(path))

    return make


@pytest.fixture
def stream():
    """A text stream over bytes, as standard output is."""
    return TextIOWrapper(BytesIO(), encoding="utf-8")
