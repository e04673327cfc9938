"""The whole way from blocks to lines: what must not change the result, and what it must never do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from support.pcap import Conversation, Packet, framed, pcap

from kinspect.capture import open_timeline, slice_block
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.model import FRAME_MASK, Block, Counts
from kinspect.pipeline import Inspector, Line
from kinspect.protocol import Message, encode_request, encode_response

CAPTURES = Path(__file__).parent.parent / "captures"
VIEW = View(records=True, payload="text")
EVERYTHING = frozenset({"exchange", "connection", "gap"})

CLEAN = ["4.4.0/txn_librdkafka.pcap.gz", "4.4.0/groups_classic.pcap.gz", "0.8.2.2/pykafka-group-offsets.pcap"]
ODD = ["variants/reorder.pcap.gz", "variants/twice.pcap.gz", "4.4.0/lossout.pcap.gz", "4.4.0/raw.pcap.gz"]

HEARTBEAT = 12
BEAT = {"group_id": "workers", "generation_id": 1, "member_id": "m"}
HOLED, WHOLE = 40000, 40001


def blocks(name: str) -> list[Block]:
    return list(open_timeline([str(CAPTURES / name)]))


def read(packets: list[Block]) -> list[bytes]:
    """Every line the packets give, as JSON."""
    inspector = Inspector(files=["capture"], emit=EVERYTHING)
    lines = [line for block in packets for line in inspector.feed(block)] + [*inspector.finish()]
    return [
        orjson.dumps(VIEW.exchange(line) if isinstance(line, Exchange) else line.to_dict()) for line in lines
    ]


def pieces(packets: list[Block], sizes: Iterator[int]) -> list[Block]:
    """The same packets in blocks of other sizes."""
    cut = []
    for block in packets:
        at = 0
        while at < len(block):
            size = next(sizes)
            cut.append(slice_block(block, at, min(at + size, len(block))))
            at += size
    return cut


def without(packets: list[Block], lost: set[int]) -> list[Block]:
    """The packets but for the frames `lost`."""
    kept = []
    for block in pieces(packets, iter(lambda: 1, 0)):
        if block.first_frame & FRAME_MASK not in lost:
            kept.append(block)
    return kept


@pytest.mark.parametrize("name", CLEAN + ODD)
def test_how_packets_are_cut_into_blocks_changes_nothing(name: str) -> None:
    packets = blocks(name)
    whole = read(packets)
    assert read(pieces(packets, iter(lambda: 1, 0))) == whole
    rng = random.Random(name)
    assert read(pieces(packets, iter(lambda: rng.randint(1, 40), 0))) == whole


@pytest.mark.parametrize("name", CLEAN)
def test_how_packets_are_cut_into_blocks_changes_nothing_with_loss(name: str) -> None:
    packets = blocks(name)
    frames = range(1, sum(map(len, packets)) + 1)
    lost = set(random.Random(name).sample(frames, len(frames) // 50))
    left = without(packets, lost)
    rng = random.Random(name)
    assert read(pieces(left, iter(lambda: rng.randint(1, 40), 0))) == read(left)


def test_what_is_complete_does_not_wait_for_a_hole_if_nothing_comes(tmp_path: Path) -> None:
    holed, whole = (Conversation(client=("10.0.0.1", port)) for port in (HOLED, WHOLE))
    for talk, numbers in ((holed, (7, 8)), (whole, (9,))):
        talk.open()
        for number in numbers:
            talk.client_sends(framed(encode_request(Message(HEARTBEAT, 4, number, BEAT, "app"))))
        for number in numbers:
            talk.broker_sends(framed(encode_response(Message(HEARTBEAT, 4, number, {"error_code": 0}))))
    *before, late, _, behind, _ = holed.packets
    inspector = Inspector(files=["lo"])

    def ports(lines: list[Line]) -> list[int]:
        return [line.to_dict()["client"]["port"] for line in lines]

    def fed(packets: list[Packet], first: int) -> list[int]:
        path = tmp_path / "some.pcap"
        path.write_bytes(pcap(packets))
        (block,) = open_timeline([str(path)])
        block.first_frame = first
        return ports(inspector.feed(block))

    assert fed([*before, behind, *whole.packets], 1) == []
    assert ports(inspector.idle()) == [WHOLE]
    assert inspector.idle() == []
    assert fed([late], 100) == []
    assert ports(inspector.idle()) == [HOLED, HOLED]
    assert [*inspector.finish()] == []


def test_time_that_passes_without_packets_ends_what_was_reset(tmp_path: Path) -> None:
    talk = Conversation()
    talk.open()
    talk.client_sends(framed(encode_request(Message(HEARTBEAT, 4, 7, BEAT, "app"))))
    talk.reset()
    path = tmp_path / "some.pcap"
    path.write_bytes(pcap(talk.packets))
    inspector = Inspector(files=["lo"])
    (block,) = open_timeline([str(path)])
    last = block.last_time
    assert last is not None
    assert [*inspector.feed(block), *inspector.idle(last)] == []
    (line,) = inspector.idle(last + 60_000_000_000)
    assert line.to_dict()["outcome_reason"] == "reset"
    assert [*inspector.finish()] == []


@pytest.mark.parametrize("drops", [0, 3, None])
def test_counts_as_a_dict_keep_a_zero_that_is_known(drops: int | None) -> None:
    assert Counts(**Counts(packets=2, kernel_drops=drops).to_dict()) == Counts(packets=2, kernel_drops=drops)


def test_key_logs_found_meanwhile_are_added():
    inspector = Inspector()
    one, other = (b"CLIENT_RANDOM %s %s\n" % (each * 32, b"22" * 48) for each in (b"11", b"33"))
    found = [one]
    inspector.add_found(found)
    assert inspector.add_secrets(one) == 0
    found.append(other)
    inspector.add_found(found)
    assert inspector.add_secrets(other) == 0
