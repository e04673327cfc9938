"""A filter that nothing passes: the closing summary says what could have been asked for."""

import struct
import time

import pytest
from cli.conftest import HEARTBEAT, METADATA, beat, exchange
from support.pcap import Conversation, pcap

from kinspect.filteredvalues import KEPT

FETCH = 1
ID = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.fixture
def made(tmp_path):
    """A capture of what a function lets a conversation say."""

    def make(say):
        talk = Conversation()
        talk.open()
        say(talk)
        path = tmp_path / "made.pcap"
        path.write_bytes(pcap(talk.packets))
        return path

    return make


def instead(result):
    """The line of the summary; no exchange was shown."""
    assert (result.status, result.out) == (0, "")
    found = [line for line in result.err.splitlines() if line.startswith("no exchange")]
    assert len(found) <= 1
    return found[0] if found else None


def listing(names):
    topics = [{"error_code": 0, "name": name, "is_internal": False, "partitions": []} for name in names]
    return {"brokers": [], "controller_id": 1, "topics": topics}


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--topic", "nosuch"], "no exchange passes --topic; topics there are: orders 1"),
        (
            ["--topic", "Orders,order"],
            "no exchange passes --topic; did you mean orders? topics there are: orders 1",
        ),
        (["--topic", ID], "no exchange passes --topic; topics there are: orders 1"),
        (
            ["--group", "IDLRS,none,work"],
            "no exchange passes --group; did you mean idlers? did you mean workers?"
            " groups there are: workers 2, idlers 1",
        ),
        (
            ["--client-id", "app-?x"],
            "no exchange passes --client-id; did you mean app-2, app-1? client ids there are: app-1 4, app-2 1",
        ),
        (
            ["--api", "Produce"],
            "no exchange passes --api; APIs there are: Heartbeat 3, Metadata 1, SaslAuthenticate 1",
        ),
        (
            ["--api", "Heartbeat", "--topic", "orders"],
            "no exchange that passes --api passes --topic; there are no topics",
        ),
        (
            ["--api", "Heartbeat", "--client-id", "app-2", "--group", "workers"],
            "no exchange that passes --api, --client-id passes --group; groups there are: idlers 1",
        ),
        (["--client-id", "!app-*"], "no exchange passes --client-id; client ids there are: app-1 4, app-2 1"),
        (["--port", "1"], "no exchange passes --port; ports there are: 40000 5, 9092 5"),
        (["--host", "10.0.0.2"], "no exchange passes --host; addresses there are: 10.0.0.1 5, 10.0.0.9 5"),
        (
            ["--client-host", "10.0.0.9"],
            "no exchange passes --client-host; clients' addresses there are: 10.0.0.1 5",
        ),
        (
            ["--port", "9092", "--broker-host", "10.0.0.1"],
            "no exchange that passes --port passes --broker-host; brokers' addresses there are: 10.0.0.9 5",
        ),
        (
            ["--min-latency", "1h"],
            "no exchange passes --min-latency; the longest latency (or wait) is 0.200ms",
        ),
        (
            ["--min-service", "1h"],
            "no exchange passes --min-service; the longest service time (or wait) is 0.200ms",
        ),
        (["--min-size", "1M"], "no exchange passes --min-size; the largest request or response is 33B"),
        (["--wait", "queued"], "no exchange passes --wait; causes there are: broker 4"),
        (["--role", "producer"], "no exchange passes --role; roles there are: consumer 4"),
        (["--principal", "alice"], "no exchange passes --principal; there are no principals"),
        (["--software", "librdkafka"], "no exchange passes --software; there are no names of software"),
        (
            ["--error", "corrupt_message"],
            "no exchange passes --error; errors there are: REBALANCE_IN_PROGRESS 1",
        ),
        (["--api", "Sasl*", "--errors-only"], "no exchange that passes --api passes --errors-only"),
        (["--topic", "orders", "--errors-only"], "no exchange that passes --topic passes --errors-only"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--format", "none"], ["--jobs", "2"]], ids=" ".join)
def test_what_there_is(kinspect, capture, options, line, more):
    assert instead(kinspect("read", *options, *more, capture)) == line


@pytest.mark.parametrize(
    "options", [["--topic", "orders"], ["--topic", "orders,nosuch"], [], ["--limit", "1"]]
)
def test_nothing_is_said_where_something_passed(kinspect, capture, options):
    result = kinspect("read", *options, capture)
    assert "no exchange" not in result.err
    assert kinspect("read", "-q", "--topic", "nosuch", capture).err == ""


def test_many_topics_the_frequent_ones_first(kinspect, made):
    def say(talk):
        for number in range(1, 61):
            names = [f"t{n:02}" for n in range(60) if n < number]
            exchange(talk, number, METADATA, 1, {"topics": None}, listing(names))

    shown = ", ".join(f"t{n:02} {60 - n}" for n in range(20))
    path = made(say)
    for asked, meant in (("nosuch", ""), ("!t*", ""), ("t59-", "did you mean t59? ")):
        line = instead(kinspect("read", "--topic", asked, path))
        assert line == f"no exchange passes --topic; {meant}topics there are: {shown} and 40 more topics"


def test_so_many_topics_that_some_are_forgotten(kinspect, made):
    names = [f"t{number:04}" for number in range(2 * KEPT)]
    path = made(lambda talk: exchange(talk, 1, METADATA, 1, {"topics": None}, listing(names)))
    line = instead(kinspect("read", "--topic", "nosuch", path))
    assert line.endswith(f" and at least {KEPT // 2 - 20} more topics")


SPAN = "the capture is from 2023-11-14T22:13:20.000000000Z to 2023-11-14T22:13:20.002000000Z"
LOCAL = "2023-11-15 03:58:20.000000000 to 2023-11-15 03:58:20.002000000"


@pytest.fixture
def in_kathmandu(monkeypatch):
    """A zone that is 5:45 before UTC."""
    monkeypatch.setenv("TZ", "NPT-5:45")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_kathmandu")
@pytest.mark.parametrize(
    ("options", "passes"),
    [
        (["--since", "22:14"], " passes --since"),
        (["--until", "2023-11-14 22:13:20"], " passes --until"),
        (["--since", "+1h"], " passes --since"),
        (["--api", "Heartbeat", "--until", "+0s"], " that passes --api passes --until"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--format", "none"], ["--jobs", "2"]], ids=" ".join)
def test_the_time_of_the_capture(kinspect, capture, options, passes, more):
    line = instead(kinspect("read", *options, *more, capture))
    assert line == f"no exchange{passes}; {SPAN} (local time: {LOCAL})"
    assert instead(kinspect("read", "--utc", *options, *more, capture)) == f"no exchange{passes}; {SPAN}"


def untimed(frames):
    """pcapng of Simple Packet Blocks, which have no time."""

    def block(kind, body):
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    head = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1), struct.pack("<HHI", 1, 0, 0)
    packets = (struct.pack("<I", len(frame)) + frame + bytes(-len(frame) % 4) for frame in frames)
    return block(0x0A0D0D0A, head[0]) + block(1, head[1]) + b"".join(block(3, packet) for packet in packets)


def test_packets_without_a_time(kinspect, packets, tmp_path):
    path = tmp_path / "made.pcapng"
    path.write_bytes(untimed(packet.data for packet in packets))
    line = instead(kinspect("read", "--since", "2023-11-14 22:13:20", path))
    assert line == "no exchange passes --since"


def test_what_a_capture_says_is_escaped_and_bounded(kinspect, made):
    names = ["\x1b[2J\x9b\u202e\n", "x" * 3000]
    path = made(lambda talk: exchange(talk, 1, METADATA, 1, {"topics": None}, listing(names)))
    line = instead(kinspect("read", "--topic", "nosuch", path))
    assert "\\x1b[2J\\x9b\\u202e\\x0a 1" in line
    assert not set(line) & {"\x1b", "\x9b", "\u202e"}
    assert len(line) < 400


def fetch_by_id(talk):
    topics = [{"topic_id": ID, "partitions": []}]
    request = {"max_wait_ms": 1, "min_bytes": 1, "max_bytes": 9, "topics": topics}
    response = {"error_code": 0, "responses": [{"topic_id": ID, "partitions": []}]}
    exchange(talk, 1, FETCH, 13, request, response)


def test_topics_that_are_ids_alone(kinspect, made, tmp_path):
    path = made(fetch_by_id)
    line = instead(kinspect("read", "--topic", "nosuch", path))
    assert line == (
        f"no exchange passes --topic; topic ids without a name (see --topic-names) there are: {ID} 1"
    )
    names = tmp_path / "names"
    names.write_text(f"{ID} orders\n")
    line = instead(kinspect("read", "--topic", "nosuch", "--topic-names", names, path))
    assert line == "no exchange passes --topic; topics there are: orders 1"
    both = made(
        lambda talk: (fetch_by_id(talk), exchange(talk, 2, METADATA, 1, {"topics": None}, listing(["a"])))
    )
    line = instead(kinspect("read", "--topic", "nosuch", both))
    assert "topics there are: a 1; topic ids" in line


def test_a_capture_without_exchanges(kinspect, made):
    path = made(lambda talk: talk.client_sends(b"GET / HTTP/1.1\r\n\r\n"))
    assert instead(kinspect("read", "--topic", "nosuch", path)) is None


def test_an_exchange_without_a_client_id(kinspect, made):
    path = made(lambda talk: exchange(talk, 1, HEARTBEAT, 4, beat("g"), {"error_code": 0}, client_id=None))
    line = instead(kinspect("read", "--client-id", "x", path))
    assert line == "no exchange passes --client-id; there are no client ids"
