"""Accumulated exchanges: what is counted, under which name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pcap import Conversation, framed, pcap

import kinspect
from kinspect.analysis.frequent import NAMES_KEPT
from kinspect.analysis.recenttraffic import SLOT_NS, RecentTraffic
from kinspect.analysis.traffic import NAME_SHOWN, Fault, Traffic
from kinspect.protocol import Message, encode_request, encode_response

CAPTURES = Path(__file__).parents[2] / "captures" / "4.4.0"
SECOND = 1_000_000_000
EXCHANGES = [*kinspect.read(CAPTURES / "errors_java.pcap.gz"), *kinspect.read(CAPTURES / "share.pcap.gz")]


def traffic(exchanges):
    made = Traffic()
    for exchange in exchanges:
        made.add(exchange)
    return made


def test_what_a_capture_holds():
    """Against its lines, added up here."""
    lines = [exchange.to_dict() for exchange in EXCHANGES]
    result = traffic(EXCHANGES).result(1000)
    assert result.exchanges == len(lines)
    assert result.connections == len({line["connection_id"] for line in lines})
    for api in result.apis:
        of_api = [line for line in lines if line["api"] == api.name]
        assert api.exchanges == len(of_api)
        assert api.failed == sum(
            bool(line["error_codes"] or line["problems"]) or line["outcome"] == "unanswered"
            for line in of_api
        )
        for spread, key in ((api.service, "service_ms"), (api.latency, "latency_ms")):
            times = [line[key] for line in of_api if line[key] is not None]
            assert spread.greatest == (round(max(times) * 1e6) if times else None)
    assert sum(api.exchanges for api in result.apis) == len(lines)
    errors = [
        (line["api"], name)
        for line in lines
        for name in line["error_names"]
        for _ in range(line["error_count"])
    ]
    named = {tuple(fault): times for fault, times in result.faults.names if not fault.what.startswith("un")}
    assert named == {fault: errors.count(fault) for fault in errors}
    ids = [line["client"]["id"] for line in lines]
    assert dict(result.clients.names) == {name: ids.count(name) for name in ids}
    groups = [group for exchange in EXCHANGES for group in exchange.summary.groups]
    assert dict(result.groups.names) == {name: groups.count(name) for name in groups}
    moved = sum(line["record_bytes"] for line in lines if line["api"] in ("Produce", "Fetch", "ShareFetch"))
    assert sum(size for _, size in result.topics.names) == moved > 0
    assert {name for name, _ in result.topics.names} <= {topic for line in lines for topic in line["topics"]}


@given(st.integers(0, len(EXCHANGES)))
def test_merged_is_added_together(at):
    merged = traffic(EXCHANGES[:at])
    merged.merge(traffic(EXCHANGES[at:]))
    assert merged.result(1000) == traffic(EXCHANGES).result(1000)


def conversation(tmp_path, *messages):
    """Exchanges of (client id, api key, version, request body, response body)."""
    talk = Conversation()
    talk.open()
    for number, (client, key, version, request, response) in enumerate(messages, 1):
        talk.client_sends(framed(encode_request(Message(key, version, number, request, client))))
        if response is not None:
            talk.broker_sends(framed(encode_response(Message(key, version, number, response))))
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(talk.packets))
    return [*kinspect.read(path)]


def beat(group="g", client="app"):
    return client, 12, 4, {"group_id": group, "generation_id": 1, "member_id": "m"}, {"error_code": 27}


def test_long_names_are_cut(tmp_path):
    result = traffic(conversation(tmp_path, beat("g" * 2000, "c" * 200))).result(9)
    assert result.groups.names == [("g" * (NAME_SHOWN - 1) + "…", 1)]
    assert result.clients.names == [("c" * (NAME_SHOWN - 1) + "…", 1)]


def test_no_client_id(tmp_path):
    result = traffic(conversation(tmp_path, beat(client=None))).result(9)
    assert result.clients.names == [("no id, 10.0.0.1", 1)]


def test_names_and_faults_are_bounded(tmp_path):
    messages = [beat(f"group-{number}", f"client-{number}") for number in range(3 * NAMES_KEPT)]
    made = traffic(conversation(tmp_path, *messages))
    result = made.result(9)
    assert result.exchanges == result.failed == 3 * NAMES_KEPT
    assert result.names.clients <= 2 * NAMES_KEPT
    assert result.names.groups <= 2 * NAMES_KEPT
    assert result.clients.missed > 0
    assert result.faults.names == [(Fault("Heartbeat", "REBALANCE_IN_PROGRESS"), 3 * NAMES_KEPT)]


@pytest.mark.parametrize(
    ("capture", "fault"),
    [
        ("groups_classic.pcap.gz", Fault("Metadata", "unanswered (reset)")),
        ("groups_classic.pcap.gz", Fault("Heartbeat", "REBALANCE_IN_PROGRESS")),
        ("snap96.pcap", Fault("Produce", "problem truncated_capture")),
    ],
)
def test_faults(capture, fault):
    assert fault in dict(traffic(kinspect.read(CAPTURES / capture)).result(99).faults.names)


def test_the_last_minute_and_all():
    recent = RecentTraffic(0)
    for second in range(100):
        recent.at(second * SECOND).add(EXCHANGES[0])
        whole, seconds = recent.whole(second * SECOND)
        assert (whole.result(0).exchanges, seconds) == (second + 1, second)
        minute, seconds = recent.minute(second * SECOND)
        assert minute.result(0).exchanges == min(second + 1, 61 + second % 10)
        assert seconds == min(second, 60 + second % 10)
    minute, seconds = recent.minute(99 * SECOND + 8 * SLOT_NS)
    assert minute.result(0).exchanges == 0
    assert recent.whole(999 * SECOND)[0].result(0).exchanges == 100
