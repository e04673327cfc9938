"""Wrong times in one flow move nothing in another."""

import random
from pathlib import Path

import pytest

from kinspect.capture import slice_block
from kinspect.capture.timeline import open_timeline
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.pipeline import Inspector

TRUST = Path(__file__).parent / "trust"
SECOND = 1_000_000_000
FAR = 28 * 3600 * SECOND


def packets():
    """One a block. The seventh is of another flow, and dated 28 hours ahead."""
    (block,) = open_timeline([str(TRUST / "f4.pcap")])
    found = [slice_block(block, at, at + 1) for at in range(len(block))]
    return found[:6] + found[7:], found[6]


def again(packet, time):
    copy = slice_block(packet, 0, 1)
    copy.times = [time]
    return copy


def exchanges(blocks):
    inspector = Inspector(files=["f4.pcap"])
    lines = [line for block in blocks for line in inspector.feed(block)] + [*inspector.finish()]
    return [
        (line.outcome, line.summary.error_names, line.completed_at)
        for line in lines
        if isinstance(line, Exchange)
    ]


@pytest.mark.parametrize("offset", [-FAR, -2 * SECOND, 2 * SECOND, FAR])
@pytest.mark.parametrize("how_many", [1, 50])
def test_wrong_times_of_another_flow(offset, how_many):
    own, wrong = packets()
    rng = random.Random(how_many)
    mixed = list(own)
    for _ in range(how_many):
        at = rng.randrange(len(mixed) + 1)
        mixed.insert(at, again(wrong, own[0].times[0] + offset + rng.randrange(SECOND)))
    found = exchanges(mixed)
    assert found == exchanges(own)
    assert [(outcome, errors) for outcome, errors, _ in found] == [
        ("answered", []),
        ("answered", ["UNKNOWN_MEMBER_ID"]),
        ("answered", []),
    ]
