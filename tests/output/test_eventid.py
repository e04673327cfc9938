"""Ids of lines: the same again, and never twice."""

import json
from collections import Counter
from hashlib import blake2b
from pathlib import Path

import pytest
from support.decoded import keylog_beside
from support.pcap import Conversation, framed, pcap
from support.shares import one_in

from kinspect.api import read
from kinspect.kafka.view.view import View
from kinspect.protocol import Message, encode_request, encode_response

CAPTURES = Path(__file__).parents[2] / "captures"
MANY = [path for path in sorted(CAPTURES.glob("*/*.pcap*")) if path.name != "cutfile.pcap"]
EVERYTHING = ["--emit", "exchange,connection,gap,summary", "-q"]


@pytest.fixture
def packets():
    """Those of a connection with six Heartbeats."""
    talk = Conversation()
    talk.open()
    for number in range(6):
        request = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        talk.client_sends(framed(encode_request(Message(12, 0, number, request, "app-1"))))
        talk.broker_sends(framed(encode_response(Message(12, 0, number, {"error_code": 0}))))
    return talk.packets


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def a_hash(text):
    return blake2b(text.encode(), digest_size=16).hexdigest()


@pytest.mark.parametrize("path", one_in(6, MANY), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_two_lines_have_the_same(every_line, path):
    keylog = keylog_beside(path)
    found = every_line(*(["--keylog", keylog] if keylog.exists() else []), path)
    assert found[-1]["type"] == "summary"
    assert [i for i, times in Counter(line["event_id"] for line in found).items() if times > 1] == []


def test_what_they_are_made_of(kinspect, packets, tmp_path):
    path = tmp_path / "holed.pcap"
    path.write_bytes(pcap([*packets[:7], *packets[8:]]))
    found = lines(kinspect("read", path, *EVERYTHING))
    by_type = {kind: [line for line in found if line["type"] == kind] for kind in ("connection", "gap")}
    assert all(by_type.values())
    for line in by_type["connection"]:
        assert line["event_id"] == a_hash(f"connection|{line['connection_id']}")
    for line in by_type["gap"]:
        place = f"{line['connection_id']}|{line['direction']}|{line['offset']}"
        assert line["event_id"] == a_hash(f"gap|{place}")
    for exchange in read(path):
        side = "request" if exchange.request else "response"
        message = getattr(exchange, side)
        place = f"{exchange.connection.connection_id}|{side}|{message.offset}"
        assert exchange.event_id == exchange.to_dict()["event_id"] == a_hash(place)
        assert exchange.to_dict(View(fields=["event_id"])) == {"event_id": exchange.event_id}


def test_a_run_again_has_the_same_and_another_run_another(kinspect):
    path = CAPTURES / "4.4.0" / "nano.pcap"

    def ids(*options):
        return [line["event_id"] for line in lines(kinspect("read", path, *EVERYTHING, *options))]

    first = ids()
    assert ids() == ids("--jobs", "2") == first
    *rest, summary = ids("--api", "Produce", "--records", "--payload", "text")
    assert set(rest) < set(first)
    assert summary not in first
