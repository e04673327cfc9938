"""The cause of a wait. Captures and most causes are in `tests/analysis/test_latency.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from exchanges import encoded
from support.layouts import all_layouts
from support.pcap import Conversation, framed, pcap

from kinspect.capture import open_timeline, slice_block
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.wait import carries_throttle
from kinspect.model import RESPONSE
from kinspect.pipeline import Inspector
from kinspect.protocol import Message, encode_request, encode_response

HEARTBEAT = 12
FILES = ["throttled.pcap"]
BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}
THROTTLES = (0, 70, 0, 0, 7, 0)
CAUSES = ["broker", "throttled", "throttled", "broker", "throttled", "throttled"]
ANSWERS = {
    (layout.api_key, layout.version)
    for layout in all_layouts()
    if layout.direction == RESPONSE and layout.api_key is not None
}


@pytest.mark.parametrize("value", [0, 1, 1 << 24, -1])
def test_a_throttle_time_is_found_in_every_response_and_every_part_of_one(value: int) -> None:
    told = set()
    for api_key, version in ANSWERS:
        whole = encoded(RESPONSE, api_key, version, {"throttle_time_ms": value})
        assert whole.raw is not None
        for kept in {*range(12), len(whole.raw) - 1, len(whole.raw)}:
            part = encoded(RESPONSE, api_key, version, {"throttle_time_ms": value})
            part.raw, part.complete = whole.raw[:kept], kept >= len(whole.raw)
            found = carries_throttle(part)
            assert found == bool((part.body or {}).get("throttle_time_ms")), (api_key, version, kept)
            told.add(found)
    assert told == {bool(value), False}


def blocks(folder: Path) -> list:
    """A packet each, of Heartbeats on one connection whose answers carry `THROTTLES`."""
    talk = Conversation()
    talk.open()
    for number, throttle in enumerate(THROTTLES):
        talk.client_sends(framed(encode_request(Message(HEARTBEAT, 2, number, BEAT, "c"))))
        answer = {"throttle_time_ms": throttle, "error_code": 0}
        talk.broker_sends(framed(encode_response(Message(HEARTBEAT, 2, number, answer))))
    path = folder / "throttled.pcap"
    path.write_bytes(pcap(talk.packets))
    return [
        slice_block(block, at, at + 1) for block in open_timeline([str(path)]) for at in range(len(block))
    ]


def read(packets: list, **options: bool) -> list[Exchange]:
    inspector = Inspector(files=FILES, **options)
    lines = [line for packet in packets for line in inspector.feed(packet)]
    return [line for line in [*lines, *inspector.finish()] if isinstance(line, Exchange)]


def test_an_answer_with_a_throttle_time_throttles_its_request_and_the_next_one(tmp_path: Path) -> None:
    found = read(blocks(tmp_path))
    assert [exchange.wait for exchange in found] == CAUSES
    assert [exchange.to_dict()["wait"] for exchange in found] == CAUSES


def test_a_throttle_is_remembered_where_a_connection_is_put_away(tmp_path: Path) -> None:
    packets = blocks(tmp_path)
    for cut in range(1, len(packets)):
        first, second = Inspector(files=FILES), Inspector(files=FILES)
        lines = [line for packet in packets[:cut] for line in first.feed(packet)] + first.idle()
        for _, data in first.suspend():
            second.resume(data)
        lines += [*(line for packet in packets[cut:] for line in second.feed(packet)), *second.finish()]
        assert [exchange.wait for exchange in lines if isinstance(exchange, Exchange)] == CAUSES, cut


def test_nothing_is_looked_at_where_nobody_asks(tmp_path: Path) -> None:
    found = read(blocks(tmp_path), waits=False)
    assert [exchange.throttled for exchange in found] == [False] * len(THROTTLES)
    assert all(exchange.response._decoded is None for exchange in found if exchange.response)
