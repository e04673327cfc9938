"""The whole way from blocks to lines: what must not change the result, and what it must never do."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from kinspect.capture import open_timeline, slice_block
from kinspect.kafka.exchange import Exchange
from kinspect.kafka.view import View
from kinspect.model import FRAME_MASK, Block
from kinspect.pipeline import Inspector

CAPTURES = Path(__file__).parent.parent / "captures"
VIEW = View(records=True, payload="text")
EVERYTHING = frozenset({"exchange", "connection", "gap"})

CLEAN = ["4.4.0/txn_librdkafka.pcap.gz", "4.4.0/groups_classic.pcap.gz", "0.8.2.2/pykafka-group-offsets.pcap"]
ODD = ["variants/reorder.pcap.gz", "variants/twice.pcap.gz", "4.4.0/lossout.pcap.gz", "4.4.0/raw.pcap.gz"]


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


def exchanges(packets: list[Block]) -> dict[tuple[int, int], Exchange]:
    """The answered exchanges by client port and the request's first frame."""
    inspector = Inspector(files=["capture"])
    found = [line for block in packets for line in inspector.feed(block)] + [*inspector.finish()]
    return {
        (line.connection.client_port, line.request.first_frame): line
        for line in found
        if isinstance(line, Exchange) and line.request is not None
    }


@pytest.mark.parametrize(
    "name",
    [
        *CLEAN,
        "4.4.0/kip848.pcap.gz",
        "2.8.2/sasl-plain.pcap",
        "0.8.2.2/raw-requests.pcap",
        "4.4.0/franz.pcap.gz",
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_loss_costs_what_it_hit_and_makes_nothing_wrong(name: str, seed: int) -> None:
    packets = blocks(name)
    frames = range(1, sum(map(len, packets)) + 1)
    rng = random.Random(f"{name} {seed}")
    lost = {frame for frame in frames if rng.random() < 0.01}
    whole, left = exchanges(packets), exchanges(without(packets, lost))
    survivors = decoded = 0
    for key, before in whole.items():
        after = left.get(key)
        messages = [(before.request, after and after.request), (before.response, after and after.response)]
        for was, now in messages:
            if was is not None and now is not None and was.complete and now.complete:
                assert was.raw == now.raw
        spans = [range(m.first_frame, m.last_frame + 1) for m, _ in messages if m is not None]
        if before.outcome == "answered" and not any(lost.intersection(span) for span in spans):
            survivors += 1
            decoded += after is not None and after.outcome == "answered" and after.api_key == before.api_key
    assert decoded >= 0.95 * survivors
