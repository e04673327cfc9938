"""The rows of a stream are those of one run over all its files, whatever a micro-batch has."""

import gzip
import json
import os
import random
import struct
import time
from pathlib import Path

import pytest
from lines import line_of, lines
from support.decoded import keylog_beside
from support.pcap import Packet, pcap
from traffic import conversation, pcapng, rotated, spread

from kinspect.errors import StateError
from kinspect.kafka.view import View
from kinspect.model import Caps

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
KINDS = (("exchange", "exchanges"), ("connection", "connections"))


@pytest.fixture
def streamed():
    from streamed import Streamed

    return Streamed


def same(found, paths, **more):
    for kind, table in KINDS:
        made = [_without_names(line_of(row, kind)) for row in found[table]]
        assert made == [*map(_without_names, lines(paths, kind, view=View(), **more))]


def _without_names(line):
    """What other connections tell of topic ids and nodes counts from the next micro-batch on."""
    text = json.dumps({**line, "topics": None, "partitions": None})
    shown = json.loads(text.replace(', "topic_name_resolved": "orders"', ""))
    shown["broker"].pop("node_id", None)
    return shown


def put(path, folder):
    """A file of another folder comes into this one."""
    there = folder / path.name
    there.write_bytes(path.read_bytes())
    return there


@pytest.mark.parametrize("seed", range(12))
def test_files_that_come_one_by_one(streamed, tmp_path, seed):
    apart, folder = tmp_path / "apart", tmp_path / "in"
    apart.mkdir()
    folder.mkdir()
    rng = random.Random(seed)
    packets = [packet for port in range(8) for packet in spread(rng, conversation(rng, 40_000 + port))]
    packets.sort(key=lambda packet: packet.time_us)
    whole = apart / "whole.pcap"
    whole.write_bytes(pcap(packets))
    stream = streamed(folder, told=tmp_path / "told.json")
    paths = []
    for path in rotated(whole, apart, 7):
        paths.append(put(path, folder))
        stream.batch()
    found = stream.drain()
    assert not stream.unread
    same(found, paths)
    assert not any(kept.get("islands") or kept.get("due") or kept.get("waiting") for kept in stream.kept)


def split_by_host(packets):
    """What two hosts captured: one direction each."""
    shares = [[], []]
    for packet in packets:
        shares[packet.data[26:30] > packet.data[30:34]].append(packet)
    return shares


def many(seed, connections=8):
    rng = random.Random(seed)
    found = [packet for port in range(connections) for packet in conversation(rng, 40_000 + port)]
    start = 1_700_000_000_000_000
    return [Packet(start + number * 20_000, packet.data) for number, packet in enumerate(found)]


def aged(path, seconds=3600.0):
    """As if nobody had written to the file for so long."""
    os.utime(path, (time.time() - seconds,) * 2)
    return path


def written(path, packets, age=3600.0):
    path.write_bytes(pcap(packets))
    return aged(path, age)


def test_packets_wait_for_a_file_that_is_still_written(streamed, tmp_path):
    """Two hosts, of which one is behind: what it may bring comes before what waits."""
    east, west = split_by_host(many(3))
    half = len(east) // 2
    stream = streamed(tmp_path, settle=60.0)
    paths = [written(tmp_path / "east1.pcap", east[:half])]
    late = next(at for at, packet in enumerate(west) if packet.time_us > east[half // 3].time_us)
    paths.append(written(tmp_path / "west1.pcap", west[:late]))
    paths.append(written(tmp_path / "west2.pcap", west[late:], age=0.0))
    assert stream.batch()
    assert stream.offset["until"] == west[late].time_us * 1000
    assert any(kept.get("waiting") for kept in stream.kept)
    completed = len(stream.rows["exchanges"])
    assert not stream.batch()
    paths.append(written(tmp_path / "east2.pcap", east[half:]))
    os.utime(paths[2], (time.time() - 3600,) * 2)
    assert stream.batch()
    assert stream.offset["until"] is None
    assert len(stream.rows["exchanges"]) > completed
    assert not any(kept.get("waiting") for kept in stream.kept)
    numbers = {taken[2]: taken[4] for taken in stream.offset["files"]}
    same(stream.drain(), sorted(paths, key=lambda path: numbers[str(path)]))


def test_connections_that_are_silent_end_while_the_stream_goes_on(streamed, tmp_path):
    caps = Caps(idle_timeout_ns=2_000_000_000)
    stream = streamed(tmp_path, caps=caps)
    paths = []
    for number in range(5):
        packets = [
            Packet(1_700_000_000_000_000 + number * 1_500_000 + at, packet.data)
            for port in range(2)
            for at, packet in enumerate(conversation(random.Random(number), 41_000 + 10 * number + port)[:-1])
        ]
        paths.append(written(tmp_path / f"cap{number}.pcap", sorted(packets)))
        assert stream.batch()
    ended = [row["end_reason"] for row in stream.rows["connections"]]
    assert ended.count("idle") >= 2
    assert len(stream.kept) == 3
    found = stream.drain()
    same(found, paths, caps=caps)


def test_a_ring_uses_its_names_again_and_compresses_in_place(streamed, tmp_path):
    import gzip

    apart, folder = tmp_path / "apart", tmp_path / "in"
    apart.mkdir()
    folder.mkdir()
    whole = written(apart / "whole.pcap", many(5))
    stream = streamed(folder)
    for number, path in enumerate(rotated(whole, apart, 8)):
        ring = folder / f"ring{number % 3}.pcap"
        for old in (ring, folder / f"{ring.name}.gz"):
            old.unlink(missing_ok=True)
        ring.write_bytes(path.read_bytes())
        assert stream.batch()
        assert not stream.batch()
        if number % 2:
            (folder / f"{ring.name}.gz").write_bytes(gzip.compress(ring.read_bytes()))
            ring.unlink()
            assert not stream.batch()
        assert len(stream.offset["files"]) <= 3
    found = stream.drain()
    expected = lines([whole], "connection", view=View())
    assert [line_of(row, "connection") for row in found["connections"]] == expected
    assert len(found["exchanges"]) == len(lines([whole]))


def test_a_file_that_grows_is_gone_on_with(streamed, tmp_path):
    packets = many(6)
    data = pcap(packets)
    path = tmp_path / "cap.pcap"
    stream = streamed(tmp_path)
    for size in (len(data) // 3, len(data) // 2 + 5, len(data)):
        path.write_bytes(data[:size])
        assert stream.batch()
    same(stream.drain(), [path])


def test_what_is_no_capture_or_another_one_by_now_is_told(streamed, tmp_path):
    (tmp_path / "notes.txt").write_bytes(b"this is no capture, and says so by its first bytes")
    path = written(tmp_path / "cap.pcap", many(6)[:50])
    stream = streamed(tmp_path)
    end = stream.look()
    written(path, many(6)[50:])
    stream.batch(end=end)
    assert sorted(unread.error.args[0].partition(": ")[2][:15] for unread in stream.unread) == [
        "not a capture (",
        "was overwritten",
    ]
    assert stream.batch()  # it is another file
    same(stream.drain(), [path])


def test_a_micro_batch_made_again_takes_the_same(streamed, tmp_path):
    """Also when other files have come since."""
    import copy

    packets = many(7)
    third = len(packets) // 3
    written(tmp_path / "cap1.pcap", packets[:third])
    stream = streamed(tmp_path)
    assert stream.batch()
    written(tmp_path / "cap2.pcap", packets[third : 2 * third])
    before = copy.deepcopy((stream.kept, stream.rows, stream.offset))
    end = stream.look()
    stream.batch(end=end)
    once = copy.deepcopy((stream.kept, stream.rows, stream.offset))
    stream.kept, stream.rows, stream.offset = before
    written(tmp_path / "cap3.pcap", packets[2 * third :])
    stream.batch(end=end)
    assert (stream.kept, stream.rows, stream.offset) == once
    same(stream.drain(), [tmp_path / f"cap{number}.pcap" for number in (1, 2, 3)])


def test_offsets_are_bounded(streamed, tmp_path, monkeypatch):
    """Of many files that stay, only the newest are known one by one; none is taken twice."""
    from kinspect.spark.streaming import source

    monkeypatch.setattr(source, "FILES_KEPT", 4)
    packets = many(8)
    stream = streamed(tmp_path)
    paths = []
    for number in range(10):
        share = packets[number * len(packets) // 10 : (number + 1) * len(packets) // 10]
        paths.append(written(tmp_path / f"cap{number}.pcap", share))
        assert stream.batch()
        assert len(stream.offset["files"]) <= 4
    same(stream.drain(), paths)


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_secrets_that_come_later(streamed, tmp_path, batches):
    """A key log that is written while the stream runs, so many micro-batches behind the packets it is for."""
    found = [path for path in sorted((CAPTURES / "tls").glob("*.pcap*")) if keylog_beside(path).exists()]
    path = found[0]
    folder = tmp_path / "in"
    folder.mkdir()
    keylog = tmp_path / "keys.log"
    keylog.write_bytes(b"")
    stream = streamed(folder, keylog=keylog)
    there = put(path, folder)
    for _ in range(batches):
        stream.batch()
    secrets = keylog_beside(path).read_bytes()
    keylog.write_bytes(secrets)
    stream.batch()
    rows = stream.drain()["exchanges"]
    expected = lines([there], view=View(), keylog=secrets)
    told = ("api", "connection_id", "correlation_id", "outcome", "latency_ms", "client")
    assert [[row[name] for name in told] for row in rows] == [
        [line[name] for name in told] for line in expected
    ]
    assert rows


def test_secrets_that_come_while_packets_wait_for_a_file(streamed, tmp_path):
    """What they let be read of packets before those is told, though nothing goes on."""
    folder, apart = tmp_path / "in", tmp_path / "apart"
    folder.mkdir()
    apart.mkdir()
    path = CAPTURES / "tls/tls13.pcap.gz"
    whole = apart / "whole.pcap"
    whole.write_bytes(gzip.decompress(path.read_bytes()))
    first, *others = rotated(whole, apart, 12)
    second = apart / "ring20.pcap"
    second.write_bytes(whole.read_bytes()[:24] + b"".join(other.read_bytes()[24:] for other in others))
    seconds, micros = struct.unpack_from("<II", second.read_bytes(), 24)
    keylog = tmp_path / "keys.log"
    keylog.write_bytes(b"")
    stream = streamed(folder, settle=60.0, keylog=keylog)
    aged(put(first, folder))
    assert stream.batch()
    secrets = keylog_beside(path).read_bytes()
    keylog.write_bytes(secrets)
    unfinished = Packet(seconds * 1_000_000 + micros - 1, many(1)[0].data)
    written(folder / "open.pcap", [unfinished], age=0.0)
    aged(put(second, folder))
    assert stream.batch()
    assert any(kept.get("waiting") for kept in stream.kept)
    aged(folder / "open.pcap")
    expected = lines([*folder.iterdir()], view=View(), keylog=secrets)
    assert len(stream.drain()["exchanges"]) == len(expected) > 10


def test_packets_without_a_time_go_with_those_before(streamed, tmp_path):
    path = tmp_path / "cap.pcapng"
    packets = [(packet.time_us * 1000, packet.data) for packet in many(9)]
    path.write_bytes(pcapng(packets))
    stream = streamed(tmp_path)
    assert stream.batch()
    same(stream.drain(), [path])


def test_damaged_state_is_one_clear_error(streamed, tmp_path):
    packets = many(4)
    half = len(packets) // 2
    written(tmp_path / "cap1.pcap", packets[:half])
    stream = streamed(tmp_path)
    assert stream.batch()
    islands = [kept["islands"] for kept in stream.kept if kept.get("islands")]
    assert islands
    for states in islands:
        for island, (state,) in states.items():
            states[island] = (state[:-1] + bytes([state[-1] ^ 1]),)
    written(tmp_path / "cap2.pcap", packets[half:])
    with pytest.raises(StateError, match="the carried state") as raised:
        stream.drain()
    assert "\n" not in str(raised.value)
