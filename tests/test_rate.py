"""The rate of packets changes no line: a capture in a thousandth of its time, and many copies of it at once, read as it
does alone. Where the kernel drops packets of a high rate, lines are missing or tell so; none is false."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from itertools import cycle
from typing import Any

import orjson
import pytest
from support.islands import ALL, CAPTURES, OPTIONS
from support.packets import Packet, blocks, moved, packets
from support.shares import one_in

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.model import Caps
from kinspect.pipeline import Inspector

VIEW = View()
dumps = orjson.dumps
# Keys that tell a time or are made from one.
TIMES = frozenset(
    {
        *(
            "timestamp",
            "completed_at",
            "event_id",
            "connection_id",
            "latency_ms",
            "service_ms",
            "max_wait_ms",
        ),
        *("wait", "duration_ms", "idle_before_end_ms", "idle_before_ms", "frames"),
    }
)
# Their packets are told apart by time alone: the copies of mirrors, and retransmissions, as of most in connect/
BY_TIME = ("retrans", "twice", "connect/")
CAPTURED = [name for name in ALL if not any(word in name for word in BY_TIME)]
BEGINS = {"whole": 0.0, "from 30 %": 0.3, "from 55 %": 0.55}
BEGUN = [*zip(CAPTURED, cycle(BEGINS))]
"""Each capture from one of its places: all of each would take minutes."""


def untimed(value: Any) -> Any:
    """A line without what tells a time. A body tells none of the capture's."""
    if isinstance(value, dict):
        return {
            key: item if key == "body" else untimed(item) for key, item in value.items() if key not in TIMES
        }
    if isinstance(value, list):
        return [*map(untimed, value)]
    return re.sub(r"\d+ ns", "… ns", value) if isinstance(value, str) else value


def topic_names(taken: Iterable[Packet]) -> dict[str, str]:
    """The names of topics that the packets tell, by id."""
    inspector = Inspector(emit=frozenset({"exchange"}))
    for block in blocks(taken):
        inspector.feed(block)
    for _ in inspector.finish():
        pass
    names, _ = inspector.names.take_new()
    return {topic_id: name for topic_id, name, _ in names}


def read(
    taken: Iterable[Packet], caps: Caps | None = None, names: dict[str, str] | None = None
) -> tuple[list[dict], dict]:
    """The lines of packets, in an order of their own, and the summary. `names`: those of topics, by id."""
    inspector = Inspector(**(OPTIONS | {"files": ["one"]}), caps=caps or Caps(), names=names)
    lines = [line for block in blocks(taken) for line in inspector.feed(block)]
    lines += inspector.finish()
    shown = [untimed(VIEW.exchange(line) if isinstance(line, Exchange) else line.to_dict()) for line in lines]
    return sorted(shown, key=dumps), inspector.summary()


def from_the(part: float, name: str) -> list[Packet]:
    """The packets of a capture without the first ones."""
    whole = packets(CAPTURES / name)
    return [*whole[int(part * len(whole)) :]]


def faster(taken: list[Packet], times: int) -> list[Packet]:
    """The packets in a fraction of their time."""
    known = [packet.time for packet in taken if packet.time is not None]
    first = known[0] if known else 0
    return [
        packet if packet.time is None else packet._replace(time=first + (packet.time - first) // times)
        for packet in taken
    ]


@pytest.mark.parametrize("begun", one_in(20, BEGUN), ids=" ".join)
def test_a_thousandth_of_the_time(begun):
    name, begin = begun
    taken = from_the(BEGINS[begin], name)
    lines, _ = read(taken)
    quick, summary = read(faster(taken, 1000))
    assert quick == lines
    assert summary["late_packets"] == 0
    assert not summary["caps_hit"]


COPIES = 12


FRAME = re.compile(rb'"(first|last|first_frame|last_frame|frame)":\d+')


def placeless(lines: Iterable[dict]) -> list[bytes]:
    """Lines without the numbers of their frames."""
    return sorted(FRAME.sub(rb'"\1":0', dumps(line)) for line in lines)


@pytest.mark.parametrize("begun", one_in(65, BEGUN), ids=" ".join)
def test_many_copies_at_once(begun):
    name, begin = begun
    taken = faster(from_the(BEGINS[begin], name), 1000)
    copies = [[moved(packet, number) for packet in taken] for number in range(COPIES)]
    # A run's connections share these: what one tells, another one may be too early for.
    names = topic_names(taken)
    lines, summary = read((packet for each in zip(*copies, strict=True) for packet in each), names=names)
    lines = [line for line in lines if "client" in line]  # those of connections tell of gaps too
    for copy in copies[::11]:
        alone = [line for line in read(copy, names=names)[0] if "client" in line]
        hosts = {line["client"]["ip"] for line in alone}
        assert placeless(line for line in lines if line["client"]["ip"] in hosts) == placeless(alone)
    assert summary["late_packets"] == 0
    assert not summary["caps_hit"]


FLAGS = {"uncertain_pairing", "negative_latency"}


def told(lines: Iterable[dict]) -> tuple[set[bytes], set[bytes]]:
    """The whole messages that lines tell, and which response each request has, unless they flag it as doubtful."""
    messages, pairs = set(), set()
    for line in lines:
        codes = {problem["code"] for problem in line.get("problems", ())}
        if line["type"] != "exchange" or codes & FLAGS:
            continue
        of = [line["client"]["ip"], line["client"]["port"], line["broker"]["port"], line["correlation_id"]]
        whole = [
            dumps([*of, side, line["api"], line["api_version"], line[side]["size"], line[side]["body"]])
            for side in ("request", "response")
            if line["api"] and line[side] and line[side]["complete"]
        ]
        messages.update(whole)
        if len(whole) == 2:
            pairs.add(b"".join(whole))
    return messages, pairs


DROPS = {"short runs": (20, 3), "long runs": (3, 40)}


@pytest.mark.parametrize("drops", DROPS)
@pytest.mark.parametrize("name", one_in(24, CAPTURED))
def test_no_line_near_dropped_packets_is_false(name, drops):
    taken = from_the(0.0, name)
    names = topic_names(taken)
    messages, pairs = told(read(taken, names=names)[0])
    runs, longest = DROPS[drops]
    rng = random.Random(name)
    gone: set[int] = set()
    for _ in range(runs):
        first = rng.randrange(len(taken) + 1)
        gone.update(range(first, first + rng.randint(1, longest)))
    found, found_pairs = told(
        read((packet for at, packet in enumerate(taken) if at not in gone), names=names)[0]
    )
    assert found <= messages
    assert found_pairs <= pairs
