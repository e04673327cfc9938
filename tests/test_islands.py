"""A connection is an island: other traffic, dealing and carrying change none of its lines, byte for byte."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.islands import ALL, CAPTURES, OPTIONS, Lines, Shared, cut, read, shown
from support.packets import Packet, blocks, packets
from support.pcap import Conversation, framed
from support.shares import one_in

from kinspect import state
from kinspect.capture import slice_block
from kinspect.errors import StateError
from kinspect.link import Dissector
from kinspect.model import Block, Caps, Counts
from kinspect.pipeline import Inspector
from kinspect.protocol import Message, encode_request
from kinspect.tcp.flowkeys import pair
from kinspect.tcp.runclock import ISLANDS
from kinspect.tls.handshake import MessageReader

SECOND = 1_000_000_000

# What all parts of a run count, as each of them scans all of it.
SCANNED = ("files", "packets", "bytes", "tcp_segments", "payload_bytes", "packets_without_tcp", "fragments")
SCANNED += ("overlapping_fragments", "late_packets", "late_lines", "unresolved_topic_ids")


def added(summaries: list[dict]) -> dict:
    """The counts of parts, added up; what each of them scanned, once."""
    total: dict = {}
    for summary in summaries:
        for key, value in summary.items():
            if key in SCANNED or not isinstance(value, int | dict):
                total[key] = value
            elif isinstance(value, dict):
                of_key = total.setdefault(key, {})
                for name, count in value.items():
                    of_key[name] = of_key.get(name, 0) + count
            else:
                total[key] = total.get(key, 0) + value
    return {
        key: value
        for key, value in total.items()
        if key not in ("schema_version", "late_lines", "unresolved_topic_ids")
    }


@pytest.mark.parametrize("name", one_in(12, ALL))
def test_dealt_to_any_number_of_parts(name):
    blocks, secrets = read(name)
    shared = Shared(blocks, secrets)
    whole, inspector = shared.part(blocks)
    for count in (2, 3, 8):
        parts = [
            shared.part(blocks, takes=lambda pair, number=number, count=count: crc32(pair) % count == number)
            for number in range(count)
        ]
        assert sorted(line for lines, _ in parts for line in lines) == whole
        summary = added([part.summary() for _, part in parts])
        assert summary == added([inspector.summary()])


def islands_of(blocks: list[Block]) -> dict[int, bytes]:
    """The island of each frame that has a TCP segment."""
    dissector = Dissector(Caps(), Counts())
    return {segment[9]: pair(segment[0]) for block in blocks for segment in dissector.segments(block)}


def retimed(blocks: list[Block], time: Callable[[int, int | None], int | None]) -> list[Block]:
    """The packets with other times, one a block."""
    packets = [slice_block(block, at, at + 1) for block in blocks for at in range(len(block))]
    for packet in packets:
        packet.times = [time(packet.first_frame, packet.times[0])]
    return packets


@pytest.mark.big
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(ALL), st.randoms(use_true_random=False))
def test_other_traffic_changes_nothing(name, rng):
    """Some connections alone have the same lines as in the whole, whatever the times of the others are."""
    blocks, secrets = read(name)
    islands = islands_of(blocks)
    pairs = sorted(set(islands.values()))
    chosen = {each for each in pairs if rng.random() < 0.5}
    others = [each for each in pairs if each not in chosen]
    # The run's clock is what eight say.
    wrong = set(rng.sample(others, min(len(others), ISLANDS - 1)))
    share = rng.choice([0, 0.01, 0.5, 1])
    far = [offset * SECOND for offset in (-(10**9), -3600, -2, 2, 3600, 10**9)]

    def time(frame: int, own: int | None) -> int | None:
        is_wrong = islands.get(frame) in wrong and rng.random() < share
        return max(0, own + rng.choice(far)) if own is not None and is_wrong else own

    mixed = retimed(blocks, time)
    shared = Shared(mixed, secrets)
    in_the_whole, inspector = shared.part(mixed, takes=lambda pair: pair in chosen)
    alone, _ = shared.part([packet for packet in mixed if islands.get(packet.first_frame) in {None, *chosen}])
    assert alone == in_the_whole
    if share == 0:
        assert inspector.counts.late_packets == 0


@pytest.mark.parametrize("silent_s", [2, 3, pytest.param(70, marks=pytest.mark.big)])
def test_the_run_clock_does_early_what_is_due_anyway(silent_s):
    """A reset that waits for earlier packets has ended its connection before the next one's begin, whether other
    islands told how far the run has got or not."""
    request = framed(encode_request(Message(3, 1, 7, {"topics": [{"name": "a"}]}, "client")))
    first = Conversation()
    first.client_sends(request)
    first.reset()
    second = Conversation(sequences=(10**9, 2 * 10**9), time_us=first.time_us + silent_s * 10**6)
    second.open()
    second.client_sends(request)
    syn, syn_ack, ack, data, answer = second.packets
    order = data, syn, syn_ack, ack, answer
    again = [packet._replace(time_us=own.time_us) for packet, own in zip(order, second.packets, strict=True)]
    others = [Conversation(client=(f"10.0.1.{number}", 40000)) for number in range(ISLANDS)]
    for number in range(50 * silent_s):
        for other in others:
            other.time_us = first.time_us + number * 20_000
            other.client_sends(b"x")
    mixed = sorted(
        [*first.packets, *again, *(each for other in others for each in other.packets)], key=itemgetter(0)
    )
    packets = [
        slice_block(block, at, at + 1)
        for block in blocks(Packet(packet.time_us * 1000, packet.data) for packet in mixed)
        for at in range(len(block))
    ]
    islands = islands_of(packets)
    island = islands[1]
    shared = Shared(packets)
    in_the_whole, inspector = shared.part(packets, takes=lambda pair: pair == island)
    assert inspector.counts.late_packets == 0
    alone, _ = shared.part([packet for packet in packets if islands[packet.first_frame] == island])
    assert alone == in_the_whole


def carried(inspector: Inspector, shared: Shared) -> tuple[Lines, Inspector]:
    """The lines that were complete, and an inspector that goes on."""
    lines = shown(inspector.idle())
    following = shared.begin()
    islands = [*inspector.suspend()]
    for _, data in islands:
        following.resume(data)
    assert [*following.suspend()] == islands
    following = shared.begin()
    for _, data in islands:
        following.resume(data)
    return lines, following


@pytest.mark.parametrize("name", one_in(12, ALL))
def test_cut_anywhere_and_carried(name):
    blocks, secrets = read(name)
    shared = Shared(blocks, secrets)
    whole, _ = shared.part(blocks)
    packets = sum(map(len, blocks))
    rng = random.Random(name)
    for packet in sorted({0, packets, *(rng.randrange(packets + 1) for _ in range(4))}):
        before, after = cut(blocks, packet)
        # Fragments belong to no island: they are put together before packets are.
        scan, one = shared.begin(), shared.begin()
        lines = [line for block in before for line in shown(one.feed_segments(scan.segments(block)))]
        more, other = carried(one, shared)
        lines += more
        lines += [line for block in after for line in shown(other.feed_segments(scan.segments(block)))]
        lines += shown(other.finish(shared.end))
        assert sorted(lines) == whole, packet
        summary = added([one.summary(), other.summary()])
        for key in (
            "exchanges",
            "connections",
            "gap_bytes",
            "message_bytes",
            "undecoded_bytes",
            "repeated_bytes",
        ):
            assert summary[key] == shared.summary[key], (packet, key)


@pytest.mark.parametrize("seed", one_in(4, range(4)))
def test_carried_where_times_are_wrong(seed):
    """The state has all last packets: the time of the next one decides with which it is compared."""
    rng = random.Random(seed)
    whole_capture = packets(CAPTURES / "variants/reorder.pcap.gz")[:200]
    taken = []
    for number, packet in enumerate(whole_capture):
        wrong = rng.choice([-3600, -2, 2, 3600]) * SECOND if rng.random() < 0.2 else 0
        taken.append(packet._replace(time=packet.time + wrong))
        if rng.random() < 0.4:
            taken.append(whole_capture[max(0, number - rng.randrange(12))])
    all_blocks = [*blocks(taken)]
    shared = Shared(all_blocks)
    whole, _ = shared.part(all_blocks)
    for packet in range(10, len(taken), 20):
        before, after = cut(all_blocks, packet)
        one = shared.begin()
        lines = [line for block in before for line in shown(one.feed(block))]
        more, other = carried(one, shared)
        lines += more + [line for block in after for line in shown(other.feed(block))]
        assert sorted(lines + shown(other.finish(shared.end))) == whole, packet
        both = added([one.summary(), other.summary()])
        for key in ("duplicate_packets", "repeated_bytes", "conflicting_bytes", "retransmitted_bytes"):
            assert both[key] == shared.summary[key], (packet, key)


@pytest.mark.parametrize(
    "name", one_in(3, ["tls/tls13.pcap.gz", "variants/reorder.pcap.gz", "4.4.0/lossout.pcap.gz"])
)
def test_carried_after_every_packet(name):
    blocks, secrets = read(name)
    shared = Shared(blocks, secrets)
    whole, _ = shared.part(blocks)
    inspector, lines = shared.begin(), []
    packets = [slice_block(block, at, at + 1) for block in blocks for at in range(len(block))]
    for number, packet in enumerate(packets):
        if number < 250 or number % 50 == 0:
            more, inspector = carried(inspector, shared)
            lines += more
        lines += shown(inspector.feed(packet))
    assert sorted(lines + shown(inspector.finish(shared.end))) == whole


@pytest.mark.parametrize("packet", [8, 15, 20])
def test_secrets_that_come_where_an_island_is_taken_back(packet):
    """Data that waited for them is read, although they are not new there."""
    all_blocks, secrets = read("tls/tls13.pcap.gz")
    shared = Shared(all_blocks, secrets)
    before, after = cut(all_blocks, packet)
    waits, following = Inspector(**OPTIONS), shared.begin()
    waits.expect_secrets()
    assert [line for block in before for line in waits.feed(block)] + waits.idle() == []
    for _, data in waits.suspend():
        following.resume(data)
    lines = [line for block in after for line in shown(following.feed(block))]
    assert sorted(lines + shown(following.finish(shared.end))) == shared.part(all_blocks)[0]


def test_another_process_goes_on(tmp_path):
    name = "4.4.0/txn_librdkafka.pcap.gz"
    blocks, _ = read(name)
    shared = Shared(blocks)
    whole, _ = shared.part(blocks)
    packet = sum(map(len, blocks)) // 3
    one = shared.begin()
    lines = [line for block in cut(blocks, packet)[0] for line in shown(one.feed(block))] + shown(one.idle())
    for number, (_, data) in enumerate(one.suspend()):
        Path(tmp_path, str(number)).write_bytes(data)
    program = f"""
import sys, pathlib
sys.path.insert(0, {str(Path(__file__).parent)!r})
from support import islands as t
blocks, _ = t.read({name!r})
shared = t.Shared(blocks)
inspector = shared.begin()
for path in pathlib.Path({str(tmp_path)!r}).iterdir():
    inspector.resume(path.read_bytes())
lines = [line for block in t.cut(blocks, {packet})[1] for line in t.shown(inspector.feed(block))]
for key, line in lines + t.shown(inspector.finish(shared.end)):
    print(key, line)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    found = [f"{key} {line}" for key, line in lines] + run.stdout.splitlines()
    assert sorted(found) == sorted(f"{key} {line}" for key, line in whole)


@pytest.fixture(scope="module")
def islands() -> list[bytes]:
    blocks, _ = read("4.4.0/txn_librdkafka.pcap.gz")
    inspector = Inspector(**OPTIONS)
    for block in cut(blocks, 100)[0]:
        inspector.feed(block)
    return [data for _, data in inspector.suspend()]


def test_another_version_is_one_clear_error(islands, monkeypatch):
    monkeypatch.setattr(state, "VERSION", state.VERSION + 1)
    with pytest.raises(StateError, match="another version of kinspect"):
        Inspector(**OPTIONS).resume(islands[0])


def test_damage_is_one_clear_error(islands):
    rng = random.Random(1)
    for data in islands:
        for _ in range(50):
            at = rng.randrange(len(data))
            damaged = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
            for wrong in (damaged, data[:at]):
                with pytest.raises(StateError):
                    Inspector(**OPTIONS).resume(wrong)


def test_bytes_that_somebody_made_up_are_an_error_or_a_state(islands):
    """The checksum keeps nobody from writing other values: nothing is run, and nothing else is raised."""
    head = state.HEAD.size
    rng = random.Random(2)
    refused = 0
    for data in islands:
        for _ in range(100):
            body = bytearray(data[head:])
            body[rng.randrange(len(body))] = rng.randrange(256)
            try:
                Inspector(**OPTIONS).resume(
                    state.HEAD.pack(state.MAGIC, state.VERSION, crc32(body)) + bytes(body)
                )
            except StateError:
                refused += 1
    assert refused > 50


@pytest.mark.big
def test_made_up_bytes_that_are_taken_raise_nothing_else_later():
    name = "4.4.0/txn_librdkafka.pcap.gz"
    blocks, _ = read(name)
    before, after = cut(blocks, 100)
    inspector = Inspector(**OPTIONS)
    for block in before:
        for at in range(len(block)):
            if at % 23 != 7:  # so that others wait
                inspector.feed(slice_block(block, at, at + 1))
    rng = random.Random(3)
    taken = 0
    for _, data in inspector.suspend():
        values = state.from_bytes(data)
        for _ in range(60):
            taker = Inspector(**OPTIONS)
            try:
                taker.resume(state.to_bytes(another(values, rng)))
                taken += 1
                for block in after:
                    taker.feed(block)
                for _ in taker.finish():
                    pass
            except StateError:
                continue
    assert taken > 50


def another(values, rng: random.Random):
    """Plain values with another value somewhere."""
    if isinstance(values, tuple) and values:
        at = rng.randrange(len(values))
        return [*values[:at], another(values[at], rng), *values[at + 1 :]]
    return rng.choice(
        (None, 0, -1, 5, 1 << 31, 1 << 62, "x", b"", b"abcdef", True, [], [1, 2], [[0, 1, b"x"]])
    )


@pytest.mark.parametrize(
    "body",
    [
        # Lists that refer to one another: each twice as large as the one before it.
        b"\x98\x29\xd8\x1c\x82\0\0"
        + b"".join(b"\xd8\x1c\x82" + b"\xd8\x1d\x18%c" % n * 2 for n in range(40)),
        # One that holds itself; a mail.
        b"\xd8\x1c\x81\xd8\x1d\0",
        b"\xd8\x24\x60",
    ],
)
def test_values_that_others_refer_to_are_an_error(body):
    with pytest.raises(StateError):
        state.from_bytes(state.HEAD.pack(state.MAGIC, state.VERSION, crc32(body)) + body)


def test_a_field_of_another_kind_is_an_error():
    """A number where bytes should be would be a buffer of that size."""
    with pytest.raises(TypeError, match=r"MessageReader\._pending is no bytearray"):
        state.fill(MessageReader(), ("_pending",), (10**12,))
