"""The relay: what is handed from split to split, and what is not."""

import random
from importlib import import_module

import pytest
from lines import WHOLE, line_of, lines
from support.pcap import Conversation, Packet, pcap
from traffic import HEARTBEAT, conversation, exchange

from kinspect.model import Caps
from kinspect.tcp.recent import LOOK_BACK

pytestmark = pytest.mark.tools


@pytest.fixture
def routes():
    return import_module("kinspect.spark.routes")


@pytest.fixture
def group():
    return import_module("kinspect.spark.index").Group


def long_talk(port, beats, size):
    """A connection of many exchanges, each with a request of about `size` bytes."""
    talk = Conversation(client=("10.0.0.1", port), broker=("10.0.0.9", 9092))
    talk.open()
    for number in range(beats):
        asked = {"group_id": "g", "generation_id": 1, "member_id": "m" * size}
        exchange(talk, number, HEARTBEAT, 0, asked, {"error_code": 0}, "app")
    talk.close()
    return talk.packets


def woven(talks):
    """The packets of connections that go on at the same time."""
    times = sorted(packet.time_us for talk in talks for packet in talk)
    turns = sorted(
        (at / len(talk), number, packet.data)
        for number, talk in enumerate(talks)
        for at, packet in enumerate(talk)
    )
    return [Packet(time, data) for time, (_, _, data) in zip(times, turns, strict=True)]


@pytest.mark.parametrize(
    ("splits", "moving", "whole"),
    [
        ([[(b"a", 0, 9)], [(b"b", 10, 19)]], {}, {}),
        ([[(b"a", 0, 9)], [(b"a", 10, 19)], [(b"a", 20, 29)]], {b"a": [0, 1, 2]}, {}),
        ([[(b"a", 0, 9)], [(b"b", 10, 19)], [(b"a", 20, 29)]], {b"a": [0, 2]}, {}),
        ([[(b"a", 20, 29)], [(b"a", 0, 9)]], {b"a": [1, 0]}, {}),
        # Two captures at the same time: only what both saw has to be read as a whole.
        (
            [[(b"a", 0, 9), (b"b", 1, 8)], [(b"b", 2, 7)], [(b"a", 11, 19)]],
            {b"a": [0, 2]},
            {b"b": [0, 1]},
        ),
        # It does not lie in both at once, but the splits do: neither begins where the other ends.
        ([[(b"a", 0, 3), (b"b", 4, 9)], [(b"c", 5, 6), (b"a", 7, 8)]], {}, {b"a": [0, 1]}),
    ],
)
def test_who_goes_from_split_to_split(routes, group, splits, moving, whole):
    found = routes.Routes([[group(*one, 1) for one in split] for split in splits])
    assert found.moving == moving
    assert found.whole == whole


def test_parts_share_the_connections(routes, group):
    splits = [[group(bytes([n]), at * 100 + n, at * 100 + n + 1, n + 1) for n in range(9)] for at in range(3)]
    splits[1].append(group(b"own", 199, 199, 1))
    found = routes.Routes(splits)
    parts = [routes.Part.unpack(part.pack()) for part in found.relays(2)]
    relays, own = parts[:2], parts[2:]
    assert [part.splits for part in parts] == [[0, 1, 2], [0, 1, 2], [1]]
    assert sorted(ends for part in relays for ends in part.groups) == [bytes([n]) for n in range(9)]
    assert {tuple(legs) for part in relays for legs in part.groups.values()} == {(1, 2)}
    assert own[0].skipped == {bytes([n]) for n in range(9)}
    # The heavy ones are not all with one of them.
    assert abs(sum(n + 1 for n in range(9) if bytes([n]) in relays[0].groups) - 45 / 2) < 2
    decoding = [routes.Part.unpack(part.pack()) for part in found.decoding(2)]
    assert [set(part.onward.values()) for part in decoding] == [{1}, {2}, set()]


def test_payloads_stay_where_they_are_read(local, tmp_path):
    path = tmp_path / "long.pcap"
    path.write_bytes(pcap(woven([long_talk(40_000 + n, 1_000, 1_000) for n in range(3)])))
    found = local.look([path], 1_000_000, Caps())
    moves = local.moved(found, 2)
    assert len(found.splits) == 4
    assert {row["split"] for row in moves} == {1, 2, 3}
    # The packets before each split that may be looked back at are most of it.
    assert sum(len(row["what"]) for row in moves) < 3 * (LOOK_BACK * 1_200 + 3 * 10_000)
    for way in ("relay", "plain"):
        rows = local.rows([path], view=WHOLE, split_bytes=1_000_000, way=way)
        assert [line_of(row) for row in rows] == lines([path])
    assert len(rows) == 3_000


def test_messages_longer_than_a_split(local, tmp_path):
    path = tmp_path / "large.pcap"
    path.write_bytes(pcap(woven([long_talk(40_000 + n, 3, 30_000) for n in range(2)])))
    for way in ("relay", "plain"):
        rows = local.rows([path], view=WHOLE, split_bytes=8_000, way=way)
        assert [line_of(row) for row in rows] == lines([path])
    assert len(rows) == 6


@pytest.mark.parametrize("seed", range(8))
def test_a_tunnel_more_or_less_and_ports_used_again(local, tmp_path, seed):
    """The same ends in two VLANs, and one after the other: what is handed on are the connections between two ends."""
    rng = random.Random(seed)
    talks = [conversation(random.Random(100 * seed + n), 40_000 + n % 3) for n in range(6)]
    talks[0] = [tagged(packet, 7) for packet in talks[0]]
    talks[1] = [tagged(packet, rng.choice((7, 8))) for packet in talks[1]]
    path = tmp_path / "vlans.pcap"
    path.write_bytes(pcap(woven(talks)))
    for kind, table in (("exchange", "exchanges"), ("connection", "connections")):
        for way in ("relay", "plain"):
            rows = local.rows([path], table, view=WHOLE, split_bytes=2_000, way=way)
            assert [line_of(row, kind) for row in rows] == lines([path], kind)


def tagged(packet, vlan):
    data = packet.data
    return Packet(packet.time_us, data[:12] + b"\x81\x00" + vlan.to_bytes(2) + data[12:])
