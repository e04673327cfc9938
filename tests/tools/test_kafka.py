"""Requests, responses and how they are paired: kinspect against tshark, over every capture of Kafka."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest
from peer import MESSAGES, Frame, Reading, each

import kinspect
from kinspect.errors import TruncatedCaptureError
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.message import WireMessage
from kinspect.model import FRAME_MASK

pytestmark = pytest.mark.tools

LONE_RESPONSES = {
    "2.8.2/console-none.pcap": 1,
    "4.4.0/sarama.pcap.gz": 5,
}
"""Responses on connections of which nothing else was captured. tshark decodes them because of their port; kinspect
knows a stream that it sees from its middle by its requests."""

NEWEST = {
    0: 8, 1: 11, 2: 5, 3: 9, 4: 4, 5: 2, 6: 6, 7: 3, 8: 8, 9: 7, 10: 3, 11: 7, 12: 4, 13: 4, 14: 5, 15: 5, 16: 3,
    17: 1, 18: 3, 19: 5, 20: 4, 21: 1, 22: 3, 23: 3, 24: 1, 25: 1, 26: 1, 27: 0, 28: 3, 29: 2, 30: 2, 31: 2, 32: 2,
    33: 1, 34: 1, 35: 1, 36: 2, 37: 2, 38: 2, 39: 2, 40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: 0,
}  # fmt: skip
"""The newest version of each API that tshark 4.0 decodes; it may lose the response to a newer one."""

MESSAGE_SET = "reads the attributes of a message in format v0 or v1 twice"
STOPS = "runs out of bytes inside the body"
DERAILS = {
    (0, 0): MESSAGE_SET, (0, 1): MESSAGE_SET, (0, 2): MESSAGE_SET,
    (6, 0): STOPS, (6, 1): STOPS, (6, 2): STOPS, (6, 3): STOPS,
    (19, 0): STOPS, (19, 1): STOPS, (19, 2): STOPS, (19, 3): STOPS, (19, 4): STOPS, (19, 5): STOPS,
    (43, 0): STOPS, (43, 1): STOPS, (43, 2): STOPS,
    (45, 0): STOPS, (46, 0): STOPS,
}  # fmt: skip
"""Requests that tshark 4.0 decodes wrongly, by API key and version: it may lose the response."""

NO_CLIENT_ID = (7, 0)
"""ControlledShutdown v0 has no client id in its header."""


class Request(NamedTuple):
    frame: int
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str


class Response(NamedTuple):
    frame: int
    correlation_id: int


class Pair(NamedTuple):
    response: Response
    request: int
    """The request's last frame."""


def _exchanges(reading: Reading) -> list[Exchange]:
    exchanges = []
    try:
        for exchange in kinspect.read(reading.row.path, decode_as=reading.ports):
            exchanges.append(exchange)
    except TruncatedCaptureError:
        pass  # tshark stops at the same packet
    return exchanges


def _last_frame(message: WireMessage) -> int:
    return message.last_frame & FRAME_MASK


def _our_request(exchange: Exchange) -> Request | None:
    message, key, version = exchange.request, exchange.api_key, exchange.api_version
    if message is None or not message.complete or key is None or version is None:
        return None
    client_id = exchange.client_id
    if client_id is None:
        client_id = "" if (key, version) == NO_CLIENT_ID else "[ Null ]"
    assert exchange.correlation_id is not None
    return Request(_last_frame(message), key, version, exchange.correlation_id, client_id)


def _our_response(exchange: Exchange) -> Response | None:
    message = exchange.response
    if message is None or not message.complete or exchange.correlation_id is None:
        return None
    return Response(_last_frame(message), exchange.correlation_id)


def _tokens(exchanges: list[Exchange]) -> set[int]:
    """Frames of raw SASL tokens: tshark looks for a header in them."""
    sides = (side for x in exchanges if x.kind == "sasl_token" for side in (x.request, x.response))
    return {_last_frame(side) for side in sides if side is not None}


def _messages(reading: Reading, exchanges: list[Exchange], to_broker: bool) -> list[Frame]:
    """The frames in which tshark sees requests, or responses, end."""
    tokens = _tokens(exchanges)
    return [
        frame
        for frame in reading.frames
        if frame.all("kafka.len")
        and (frame.destination[1] in reading.ports) == to_broker
        and frame.number not in tokens
    ]


def _their_requests(frame: Frame) -> list[Request]:
    keys, versions, ids = (
        [int(text) for text in frame.all(name)]
        for name in ("kafka.api_key", "kafka.api_version", "kafka.correlation_id")
    )
    clients = frame.all("kafka.client_id") or [""]
    return [Request(frame.number, *head) for head in zip(keys, versions, ids, clients, strict=True)]


def _their_responses(frame: Frame) -> list[Response]:
    return [Response(frame.number, int(text)) for text in frame.all("kafka.correlation_id")]


@each(MESSAGES)
def test_requests(reading: Reading) -> None:
    """The headers of all requests, whatever tshark makes of the bodies."""
    exchanges = _exchanges(reading)
    ours = Counter(request for x in exchanges if (request := _our_request(x)))
    frames = _messages(reading, exchanges, to_broker=True)
    assert ours == Counter(request for frame in frames for request in _their_requests(frame))


@each(MESSAGES)
def test_responses(reading: Reading) -> None:
    exchanges = _exchanges(reading)
    ours = Counter(response for x in exchanges if (response := _our_response(x)))
    with_requests = {frame.text("tcp.stream") for frame in _messages(reading, exchanges, to_broker=True)}
    theirs, lone = Counter[Response](), 0
    for frame in _messages(reading, exchanges, to_broker=False):
        responses = _their_responses(frame)
        if frame.text("tcp.stream") in with_requests:
            theirs.update(responses)
        else:
            lone += len(responses)
    assert ours == theirs
    assert lone == LONE_RESPONSES.get(reading.row.file, 0)


@each(MESSAGES)
def test_first_frames(reading: Reading) -> None:
    """In which frame a message begins; if several end in one frame tshark does not tell which began where."""
    exchanges = _exchanges(reading)
    ours: dict[int, set[int]] = {}
    for message in (side for x in exchanges for side in (x.request, x.response) if side is not None):
        ours.setdefault(_last_frame(message), set()).add(message.first_frame & FRAME_MASK)
    for to_broker in (True, False):
        for frame in _messages(reading, exchanges, to_broker):
            if len(frame.all("kafka.len")) == 1 and frame.number in ours:
                segments = frame.all("tcp.segment")
                assert ours[frame.number] == {int(segments[0]) if segments else frame.number}


@each(MESSAGES)
def test_pairs(reading: Reading) -> None:
    """Each response is paired with the request that tshark pairs it with, as far as it pairs."""
    exchanges = _exchanges(reading)
    in_flight = Counter(
        (frame.text("tcp.stream"), request.correlation_id)
        for frame in _messages(reading, exchanges, to_broker=True)
        for request in _their_requests(frame)
    )
    theirs, told = set(), set()
    for frame in _messages(reading, exchanges, to_broker=False):
        responses, requests = _their_responses(frame), frame.all("kafka.request_frame")
        for index, response in enumerate(responses):
            # An id used again is matched with its first request. Of several responses in a frame the fields do not
            # tell which one has no request.
            used_again = in_flight[frame.text("tcp.stream"), response.correlation_id] > 1
            if not used_again and len(requests) in (0, len(responses)):
                told.add(response)
                if requests:
                    theirs.add(Pair(response, int(requests[index])))
    ours, decoded = set(), set()
    for exchange in exchanges:
        request, answer = _our_request(exchange), _our_response(exchange)
        if request is None or answer is None or answer not in told:
            continue
        pair, version = Pair(answer, request.frame), (request.api_key, request.api_version)
        ours.add(pair)
        if request.api_version <= NEWEST.get(request.api_key, -1) and version not in DERAILS:
            decoded.add(pair)
    assert theirs <= ours
    assert decoded <= theirs
