"""Every cap can be set on the command line, and a run that reached it says so: in the JSON summary and in the text."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
from support.pcap import BROKER, CLIENT, Conversation, Packet, framed, pcap, tcp_frame

from kinspect.cli import main
from kinspect.cli.options import CAPS
from kinspect.model import Caps
from kinspect.protocol import Message, encode_request, encode_response

ROOT = Path(__file__).parents[2]
SECOND = 1_000_000
CAP_NAMES = {field.name for field in fields(Caps)}
ETHERNET_BYTES, IP_BYTES = 14, 20


def beat(number, group="workers"):
    body = {"group_id": group, "generation_id": 1, "member_id": "m"}
    return framed(encode_request(Message(12, 4, number, body, "c")))


def answer(number):
    return framed(encode_response(Message(12, 4, number, {"error_code": 0})))


def talk(port=40000, requests=1, **options):
    """A connection with a request that was answered and others that wait."""
    conversation = Conversation(client=("10.0.0.1", port), **options)
    conversation.open()
    conversation.client_sends(beat(1))
    conversation.broker_sends(answer(1))
    for number in range(2, requests + 1):
        conversation.client_sends(beat(number))
    return conversation


def requests():
    return talk(requests=3).packets


def two_connections():
    return talk(40000).packets + talk(40001, time_us=talk().time_us + SECOND).packets


def long_message():
    conversation = talk()
    conversation.client_sends(beat(2, "g" * 2_000))
    return conversation.packets


def unfinished_messages():
    """Two connections that each wait for the rest of a message."""
    packets = []
    for port in (40000, 40001):
        conversation = talk(port, time_us=talk().time_us + len(packets) * SECOND)
        conversation.client_sends(beat(2, "g" * 9_000)[:8_000])
        packets += conversation.packets
    return packets


def hole(after=4):
    """The broker never acknowledges what was lost, so nobody can tell that it is."""
    conversation = talk(mss=100)
    before = len(conversation.packets)
    for number in range(2, 2 + after):
        conversation.client_sends(beat(number, "g" * 60))
    _, *rest = conversation.packets[before:]
    return conversation.packets[:before] + [packet for packet in rest if sender(packet) == CLIENT]


def sender(packet):
    return (
        CLIENT if packet.data[ETHERNET_BYTES + 12 : ETHERNET_BYTES + 16] == bytes([10, 0, 0, 1]) else BROKER
    )


def fragments(count=3):
    """First fragments of packets; the others are not in the capture."""
    packets = talk().packets
    for number in range(count):
        frame = bytearray(tcp_frame(("10.0.0.1", 40000), ("10.0.0.9", 9092), 1, 1, 0x10, bytes(980)))
        frame[18:22] = number.to_bytes(2) + (0x2000).to_bytes(2)
        packets.append(Packet(packets[-1].time_us + SECOND, bytes(frame)))
    return packets


def late(after):
    """A request comes `after` packets of its connection late."""
    conversation = talk()
    before = len(conversation.packets)
    for number in range(2, 12):
        conversation.client_sends(beat(number))
        conversation.broker_sends(answer(number))
    packets = conversation.packets
    lost = packets.pop(before)
    return in_step([*packets[: before + after], lost, *packets[before + after :]])


def in_step(packets):
    """The packets in this order, a millisecond apart."""
    return [Packet(packets[0].time_us + at * 1_000, packet.data) for at, packet in enumerate(packets)]


def a_late_fragment():
    """The halves of a packet come ten seconds apart."""
    packets = talk().packets
    frame = tcp_frame(("10.0.0.1", 40001), ("10.0.0.9", 9092), 1, 1, 0x10, beat(1))
    payload = frame[ETHERNET_BYTES + IP_BYTES :]
    for offset, flags, part in ((0, 0x2000, payload[:32]), (4, 0, payload[32:])):
        head = bytearray(frame[: ETHERNET_BYTES + IP_BYTES])
        head[16:18] = (IP_BYTES + len(part)).to_bytes(2)
        head[20:22] = (flags | offset).to_bytes(2)
        packets.append(Packet(packets[-1].time_us + 10 * SECOND, bytes(head) + part))
    return packets


def silence():
    conversation = talk(requests=2)
    return conversation.packets + talk(40001, time_us=conversation.time_us + 60 * SECOND).packets


def two_clocks():
    """The broker's packets were captured elsewhere, where the clock is ahead."""
    conversation = Conversation()
    conversation.open()
    for number in range(1, 14):
        conversation.client_sends(beat(number))
        conversation.broker_sends(answer(number))
    packets = conversation.packets
    return in_step([p for p in packets if sender(p) == BROKER] + [p for p in packets if sender(p) == CLIENT])


def compressed():
    return (ROOT / "captures" / "4.4.0" / "codecs_librdkafka.pcap.gz").read_bytes()


HITS = [
    ("message_bytes", "1k", long_message),
    ("buffered_bytes", "100", hole),
    ("buffered_segments", "1", hole),
    ("total_bytes", "100", hole),
    ("total_bytes", "10k", unfinished_messages),
    ("in_flight", "1", requests),
    ("connections", "1", two_connections),
    ("body_bytes", "1k", compressed),
    ("records_bytes", "10", compressed),
    ("records", "1", compressed),
    ("fragment_bytes", "1k", fragments),
    ("fragments", "1", fragments),
]
"""Caps that bound what is held: the option's value, and a capture that reaches it."""

TIMERS = [
    ("idle_timeout_ns", "30s", silence, '"outcome_reason":"capture_end"', '"outcome_reason":"idle"'),
    ("fragment_ns", "1s", a_late_fragment, "2 connections", "packets without TCP: fragment incomplete 2"),
    ("reorder_packets", "2", lambda: late(10), "11 exchanges, 1 problem\n", "1 gap by lost bytes: 32 bytes"),
    (
        "reorder_ns",
        "1ms",
        lambda: late(12),
        "11 exchanges, 1 problem\n",
        "1 gap by lost bytes: 32 bytes",
    ),
    ("skew_ns", "1ms", two_clocks, "13 exchanges, 13 problems\n", "13 unanswered, 13 orphan"),
]
"""Caps on how long is waited: the option's value, a capture, and what is told without it and with it."""


def option(cap):
    return next(f"--{name.replace('_', '-')}" for name, (field, *_) in CAPS.items() if field == cap)


def ids(value):
    return value if value in CAP_NAMES else ""


@pytest.fixture
def read(capfdbinary, tmp_path):
    """Reads a capture with options; gives the JSON lines and the closing summary."""

    def run(source, *options):
        made = source()
        path = tmp_path / "made.pcap"
        path.write_bytes(made if isinstance(made, bytes) else pcap(made))
        capfdbinary.readouterr()
        status = main(["read", str(path), "--emit", "exchange,summary", "--records", *options])
        out, err = capfdbinary.readouterr()
        assert status == 0, err
        return out.decode(), err.decode()

    return run


def test_no_cap_is_left_out():
    assert {cap for cap, *_ in (*HITS, *TIMERS)} == CAP_NAMES


@pytest.mark.parametrize(("cap", "value", "source"), HITS, ids=ids)
def test_a_hit_is_counted_and_told(read, cap, value, source):
    lines, text = read(source)
    assert json.loads(lines.splitlines()[-1])["caps_hit"] == []
    assert "caps hit" not in text
    lines, text = read(source, option(cap), value)
    hit = {each["name"]: each["count"] for each in json.loads(lines.splitlines()[-1])["caps_hit"]}
    assert hit[cap] >= 1
    (told,) = (line for line in text.splitlines() if line.startswith("caps hit: "))
    assert f"{cap} {hit[cap]:,}" in told


@pytest.mark.parametrize(("cap", "value", "source", "without", "given"), TIMERS, ids=ids)
def test_what_was_not_waited_for_is_told(read, cap, value, source, without, given):
    before, after = "".join(read(source)), "".join(read(source, option(cap), value))
    assert without in before
    assert given not in before
    assert given in after
