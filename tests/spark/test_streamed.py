"""The rows of a stream are those of one run over all its files, whatever a micro-batch has."""

import copy
import gzip
import itertools
import json
import os
import random
import struct
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import lz4.frame
import pytest
from lines import line_of, lines
from support.decoded import keylog_beside
from support.pcap import Conversation, Packet, pcap
from traffic import conversation, moving, pcapng, rotated, spread

from kinspect.capture import open_timeline
from kinspect.errors import StateError, UnreadableError
from kinspect.kafka.view.view import View
from kinspect.model import Caps

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

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


def same_connections(found, whole):
    """Asserts that the connections are those of a capture, whose packets have other numbers than in the files read."""
    rows = [line_of(row, "connection") for row in found["connections"]]
    placeless = [
        [{**line, "frames": line["frames"]["packets"]} for line in each]
        for each in (rows, lines([whole], "connection", View()))
    ]
    assert placeless[0] == placeless[1]


def _without_names(line):
    """The line without names, since those of other connections count from the next micro-batch on."""
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
    assert not any(kept.get("islands") or kept.get("turns") or kept.get("waiting") for kept in stream.kept)


def split_by_host(packets):
    """Packets by the host that captured them: one direction each."""
    shares = [[], []]
    for packet in packets:
        shares[packet.data[26:30] > packet.data[30:34]].append(packet)
    return shares


def many(seed, connections=8):
    rng = random.Random(seed)
    found = [packet for port in range(connections) for packet in conversation(rng, 40_000 + port)]
    start = 1_700_000_000_000_000
    return [Packet(start + number * 20_000, packet.data) for number, packet in enumerate(found)]


def aged(path, seconds=3600.0, make=None):
    """As if nobody had written to the file for so long."""
    if make is not None:
        path.write_bytes(make)
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
    assert stream.offset["until"] == [west[late].time_us * 1000, "west2.pcap"]
    assert any(kept.get("waiting") for kept in stream.kept)
    completed = len(stream.rows["exchanges"])
    assert not stream.batch()
    paths.append(written(tmp_path / "east2.pcap", east[half:]))
    os.utime(paths[2], (time.time() - 3600,) * 2)
    assert stream.batch()
    assert stream.offset["until"] is None
    assert len(stream.rows["exchanges"]) > completed
    assert not any(kept.get("waiting") for kept in stream.kept)
    numbers = {taken[0]: taken[4] for taken in stream.offset["files"]}
    same(stream.drain(), sorted(paths, key=lambda path: numbers[path.name]))


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
    found = stream.drain()
    same_connections(found, whole)
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


PACKERS = {"gz": gzip.compress, "zst": zstd.compress, "lz4": lz4.frame.compress}


def pack(path, ending="gz"):
    """Compresses a complete file, as `tcpdump -z` does."""
    packed = path.with_name(f"{path.name}.{ending}")
    packed.write_bytes(PACKERS[ending](path.read_bytes()))
    path.unlink()
    return packed


def same_once_unpacked(stream, packed, path, data):
    """Rows tell the name that the capture had."""
    packed.unlink()
    path.write_bytes(data)
    assert not stream.unread
    assert not stream.batch()
    same(stream.drain(), [path])


@pytest.mark.parametrize("ending", PACKERS)
def test_a_file_that_is_compressed_before_it_is_read(streamed, tmp_path, ending):
    path = written(tmp_path / "cap.pcap", many(6))
    data = path.read_bytes()
    stream = streamed(tmp_path)
    end = stream.look()
    packed = pack(path, ending)
    assert stream.batch(end=end)
    assert not stream.batch()
    same_once_unpacked(stream, packed, path, data)


def test_a_file_that_is_compressed_between_listing_and_reading(streamed, tmp_path, monkeypatch):
    path = written(tmp_path / "cap.pcap", many(6))
    data = path.read_bytes()
    stream = streamed(tmp_path)
    end = stream.look()
    module = import_module("kinspect.spark.streaming.watchedfolder")
    listing = module.listing

    def listed(folder):
        found = listing(folder)
        if path.exists():
            pack(path)
        return found

    with monkeypatch.context() as patched:
        patched.setattr(module, "listing", listed)
        assert stream.batch(end=end)
    same_once_unpacked(stream, tmp_path / "cap.pcap.gz", path, data)


def test_a_name_that_is_used_again_while_the_file_before_waits_compressed(streamed, tmp_path):
    packets = many(6)
    path = written(tmp_path / "cap.pcap", packets[:50])
    stream = streamed(tmp_path)
    end = stream.look()
    pack(path)
    written(path, packets[50:])
    assert stream.batch(end=end)
    assert stream.batch()
    assert not stream.batch()
    found = stream.drain()
    assert not stream.unread
    whole = written(tmp_path / "whole", packets)
    same_connections(found, whole)


@pytest.mark.parametrize("tries", [1, 3])
def test_a_file_that_is_compressed_while_it_is_read(streamed, tmp_path, monkeypatch, tries):
    """Once when it is found and not yet opened, if the task is tried again, and once when it is open."""
    path = written(tmp_path / "cap.pcap", many(6, 300))
    data = path.read_bytes()
    module = import_module("kinspect.spark.scan")
    read_split = module.read_split

    def reads(split, report):
        blocks = read_split(split, report)
        if tries == 1:
            yield next(blocks)
        if path.exists():
            pack(path)
        yield from blocks

    monkeypatch.setattr(module, "read_split", reads)
    stream = streamed(tmp_path, tries=tries)
    assert stream.batch()
    same_once_unpacked(stream, tmp_path / "cap.pcap.gz", path, data)


@pytest.mark.parametrize("name", ["cap.pcap", "cap.pcap.gz"])
def test_what_a_file_had_more_when_it_was_compressed_is_told(streamed, tmp_path, name):
    """It went on after it was taken. What is behind that is neither read twice nor lost in silence."""
    data = pcap(many(6))
    path = tmp_path / name
    first, whole = data[: len(data) // 2], data
    if name.endswith("gz"):
        first, whole = gzip.compress(first), gzip.compress(first) + gzip.compress(data[len(first) :])
    path.write_bytes(first)
    stream = streamed(tmp_path)
    assert stream.batch()
    before = len(stream.unread)
    path.write_bytes(whole)
    end = stream.look()
    if not name.endswith("gz"):
        pack(path)
    assert stream.batch(end=end)
    (told,) = stream.unread[before:]
    assert "cap.pcap.gz: went on after it was taken" in str(told.error)
    assert not stream.batch()


def failing(monkeypatch, times, error="Input/output error"):
    """The system fails to read the first bytes of captures so often."""
    module = import_module("kinspect.spark.streaming.watchedfolder")
    open_capture, left = module.open_capture, itertools.count(times, -1)

    def fails(source, *more):
        if next(left) > 0:
            raise UnreadableError(f"{source.name}: {error}")
        return open_capture(source, *more)

    monkeypatch.setattr(module, "open_capture", fails)


def test_a_read_error_is_no_file_that_is_gone(streamed, tmp_path, monkeypatch):
    """The task is tried again. If it fails for good, that is what is told."""
    path = written(tmp_path / "cap1.pcap", many(6)[:100])
    stream = streamed(tmp_path, tries=4)
    end = stream.look()
    with monkeypatch.context() as patched:
        failing(patched, 3)
        assert stream.batch(end=end)
    assert not stream.unread
    written(tmp_path / "cap2.pcap", many(6)[100:])
    end = stream.look()
    with monkeypatch.context() as patched:
        failing(patched, 100)
        assert stream.batch(end=end)
    assert [str(unread.error) for unread in stream.unread] == [f"{tmp_path}/cap2.pcap: Input/output error"]
    same(stream.drain(), [path])


def test_a_read_error_of_the_driver_loses_nothing(streamed, tmp_path, monkeypatch):
    """The file is taken once, by its first packet, when it is read again."""
    path = written(tmp_path / "cap.pcap", many(6))
    stream = streamed(tmp_path)
    with monkeypatch.context() as patched:
        failing(patched, 1)
        end = stream.look()
    assert stream.batch(end=end)
    assert not stream.rows["connections"]
    assert stream.batch()
    assert not stream.unread
    same(stream.drain(), [path])


def test_a_folder_by_another_name_is_the_same_folder(streamed, tmp_path, monkeypatch):
    folder = tmp_path / "captures"
    folder.mkdir()
    written(folder / "a b%41.pcap", many(6))
    stream = streamed(folder)
    assert stream.batch()
    assert "captures" not in json.dumps(stream.offset)
    monkeypatch.chdir(tmp_path)
    for name in ("captures", "captures/", "./captures", f"file://{folder}", f"{folder}/../captures"):
        stream.watch = replace(stream.watch, folder=name)
        assert not stream.batch()
    written(folder / "ä#?.pcap", [Packet(time_us + 1, data) for time_us, data in many(7)])
    stream.watch = replace(stream.watch, folder=f"file://{folder}")
    assert stream.batch()
    stream.watch = replace(stream.watch, folder=str(folder))
    assert not stream.batch()
    assert not stream.unread


def test_a_file_that_one_look_does_not_see_is_not_read_again(streamed, tmp_path):
    packets = many(6)
    third = len(packets) // 3
    folder, apart = tmp_path / "in", tmp_path / "apart"
    folder.mkdir()
    apart.mkdir()
    stream = streamed(folder)
    paths = [written(folder / "cap1.pcap", packets[:third])]
    assert stream.batch()
    paths[0].rename(apart / "cap1.pcap")
    paths.append(written(folder / "cap2.pcap", packets[third : 2 * third]))
    assert stream.batch()
    (apart / "cap1.pcap").rename(paths[0])
    assert not stream.batch()
    paths.append(written(folder / "cap3.pcap", packets[2 * third :]))
    assert stream.batch()
    same(stream.drain(), paths)


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
    """Only the newest of many files are known one by one; none is taken twice."""
    from kinspect.spark.streaming import streamsource

    monkeypatch.setattr(streamsource, "FILES_KEPT", 4)
    packets = many(8)
    stream = streamed(tmp_path)
    paths = []
    for number in range(10):
        share = packets[number * len(packets) // 10 : (number + 1) * len(packets) // 10]
        paths.append(written(tmp_path / f"cap{number}.pcap", share))
        assert stream.batch()
        assert len(stream.offset["files"]) <= 4
    same(stream.drain(), paths)


def test_a_file_that_is_written_for_long_is_not_forgotten(streamed, tmp_path, monkeypatch):
    """Though many newer ones were taken by then; and what is no capture is told once."""
    monkeypatch.setattr(import_module("kinspect.spark.streaming.streamsource"), "FILES_KEPT", 4)
    packets = many(8)
    stream = streamed(tmp_path, settle=60.0)
    aged(tmp_path / "notes.txt", make=b"this is no capture, and says so by its first bytes")
    paths = [written(tmp_path / "long.pcap", packets[:10], age=0.0)]
    for number in range(8):
        share = packets[10 + number * 5 : 15 + number * 5]
        paths.append(written(tmp_path / f"cap{number}x.pcap", share))
        assert stream.batch()
    aged(paths[0])
    assert stream.batch()
    assert stream.offset["numbers"] == len(paths) + 1
    assert len(stream.unread) == 1
    written(tmp_path / "last.pcap", packets[50:])
    assert stream.batch()
    assert len(stream.offset["files"]) <= 4
    assert not stream.batch()


def test_a_file_for_which_packets_wait_too_long_is_told_once(streamed, tmp_path):
    packets = many(8)
    hour = 3_600_000_000
    stream = streamed(tmp_path, settle=60.0)
    written(tmp_path / "broker.pcap", packets[:2], age=0.0)
    told = []
    for number, late in enumerate((0, hour, hour + 1_000_000, 2 * hour)):
        share = [Packet(time_us + late, data) for time_us, data in packets[2 + number : 3 + number]]
        written(tmp_path / f"ring{number}.pcap", share)
        assert stream.batch()
        told.append([str(unread.error) for unread in stream.unread])
    assert told[0] == []
    assert told[1] == told[2] == told[3]
    assert told[3] == [
        f"{tmp_path}/broker.pcap: is still written, and packets wait for it for more than an hour;"
        " let its capture rotate (tcpdump -G), or move it away"
    ]
    aged(tmp_path / "broker.pcap")
    assert stream.batch()
    assert stream.offset["held_by"] == ""


def test_how_much_a_micro_batch_takes(streamed, tmp_path):
    """Compressed files count for what they may have."""
    packets = many(8)
    for number, name in enumerate(("a.pcap", "b.pcap.gz", "c.pcap.zst", "d.pcap", "e.pcap")):
        data = pcap(packets[20 * number : 20 * number + 20])
        (tmp_path / name).write_bytes(PACKERS.get(name.rpartition(".")[2], bytes)(data))
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    stream = streamed(tmp_path)
    reader = import_module("kinspect.spark.streaming.streamsource").StreamReader(stream.watch)
    assert reader.getDefaultReadLimit().max_bytes == 256 * 1024 * 1024
    for limit, count in (
        (1, 1),
        (sizes["a.pcap"] + 8 * sizes["b.pcap.gz"] - 1, 1),
        (sizes["a.pcap"] + 8 * sizes["b.pcap.gz"], 2),
        (sizes["a.pcap"] + 8 * (sizes["b.pcap.gz"] + sizes["c.pcap.zst"]) + sizes["d.pcap"], 4),
    ):
        end = reader.latestOffset(stream.offset, type(reader.getDefaultReadLimit())(limit))
        assert len(end["files"]) == count


def test_a_micro_batch_made_again_hears_the_same(streamed, tmp_path):
    """Names learned in the one before count, although the repeated one learned some too."""
    apart, folder = tmp_path / "apart", tmp_path / "in"
    apart.mkdir()
    folder.mkdir()
    shares = rotated(moving(random.Random(1), apart), apart, 3)
    stream = streamed(folder, told=tmp_path / "told.json")
    put(shares[0], folder)
    assert stream.batch()
    before = copy.deepcopy((stream.kept, stream.rows, stream.offset))
    put(shares[1], folder)
    end = stream.look()
    assert stream.batch(end=end)
    once = copy.deepcopy((stream.kept, stream.rows, stream.offset))
    stream.kept, stream.rows, stream.offset = before
    assert stream.batch(end=end)
    assert (stream.kept, stream.rows, stream.offset) == once
    assert any(row["broker"]["node_id"] is not None for row in stream.rows["exchanges"][-5:])


def test_captures_are_told_by_the_first_shard_and_secrets_by_none(streamed, tmp_path):
    path = CAPTURES / "tls/tls12_chacha_dsb.pcapng.gz"
    put(path, tmp_path)
    stream = streamed(tmp_path)
    assert stream.batch()
    assert sum(b"captures" in summary for summary in stream.summaries) == 1
    assert not any(b"CLIENT_RANDOM" in summary for summary in stream.summaries)
    assert b"CLIENT_RANDOM" in gzip.decompress(path.read_bytes())
    assert stream.found.sums["counts"]["packets"] == sum(map(len, open_timeline([str(path)])))
    assert len(stream.drain()["exchanges"]) == len(lines([path])) > 0


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


def test_of_many_secrets_the_latest_are_kept(streamed, tmp_path, monkeypatch):
    monkeypatch.setattr("kinspect.spark.streaming.processor.SECRETS_KEPT", 50)
    path = CAPTURES / "tls/tls13.pcap.gz"
    keylog = tmp_path / "keys.log"
    keylog.write_text("")
    folder = tmp_path / "in"
    folder.mkdir()
    stream = streamed(folder, keylog=keylog)
    for number, name in enumerate(("2.8.2/console-zstd.pcap", "2.0.1/adminclient.pcap")):
        with keylog.open("a") as out:
            out.writelines(f"CLIENT_RANDOM {number}{line:063x} {line:096x}\n" for line in range(40))
        put(CAPTURES / name, folder)
        assert stream.batch()
    for kept in stream.kept:
        assert sum(len(text.splitlines()) for (text,) in kept["secrets"].values()) == 50
    with keylog.open("ab") as out:
        out.write(keylog_beside(path).read_bytes())
    there = put(path, folder)
    assert stream.batch()
    connections = {line["connection_id"] for line in lines([there], keylog=keylog_beside(path).read_bytes())}
    rows = stream.drain()["exchanges"]
    assert connections
    assert connections <= {row["connection_id"] for row in rows}


def test_secrets_that_come_while_packets_wait_for_a_file(streamed, tmp_path):
    """Packets before those that they decrypt are reported, although nothing else goes on."""
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


def test_a_micro_batch_looks_at_no_open_connection_that_is_silent(streamed, tmp_path):
    from streamed import MapState

    calls = {}
    for many_open in (5, 50):
        folder = tmp_path / str(many_open)
        folder.mkdir()
        talks = [Conversation(client=("10.0.0.1", 40_000 + number)) for number in range(many_open)]
        for talk in talks:
            talk.open()
        written(folder / "cap1.pcap", [packet for talk in talks for packet in talk.packets])
        stream = streamed(folder, shards=1)
        assert stream.batch()
        assert len(stream.kept[0]["islands"]) == many_open
        talks[0].packets.clear()
        talks[0].client_sends(b"x")
        written(folder / "cap2.pcap", talks[0].packets)
        before = MapState.calls
        assert stream.batch()
        calls[many_open] = MapState.calls - before
        assert len(stream.drain()["connections"]) == many_open
        assert not any(stream.kept[0][name] for name in ("islands", "turns", "waiting"))
    assert calls[5] == calls[50]


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
        for island, (state, last) in states.items():
            states[island] = (state[:-1] + bytes([state[-1] ^ 1]), last)
    written(tmp_path / "cap2.pcap", packets[half:])
    with pytest.raises(StateError, match="the carried state") as raised:
        stream.drain()
    assert "\n" not in str(raised.value)
