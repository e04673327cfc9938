"""Rows are the lines that `kinspect read` prints, whichever task has which connection and whichever split a packet."""

import random
import struct
from importlib import import_module
from pathlib import Path

import orjson
import pytest
from lines import WHOLE, line_of, lines
from support.decoded import keylog_beside
from support.pcap import Packet, pcap
from traffic import captures, conversation, moving, pcapng, rotated, spread

from kinspect import records_of
from kinspect.model import Caps
from kinspect.tables.arrowcolumns import RECORD_FACTS

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
TRUST = Path(__file__).parents[1] / "captures" / "trust"
FOLDERS = [*sorted({path.parent for path in CAPTURES.rglob("*.pcap*")}), TRUST]
KINDS = (("exchange", "exchanges"), ("connection", "connections"))


def comparable(found):
    return sorted(orjson.dumps(line, option=orjson.OPT_SORT_KEYS) for line in found)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_captures_of_a_folder_as_one_timeline(local, folder):
    # Packets that come again a second later are copies for a run, which looks for them in all files, not for an island.
    paths = [path for path in sorted(folder.glob("*.pcap*")) if "twice" not in path.name]
    keylog = b"".join(path.read_bytes() for path in map(keylog_beside, paths) if path.exists())
    for kind, table in KINDS:
        rows = local.rows(paths, table, view=WHOLE, split_bytes=2_000, keylog=keylog)
        made = [line_of(row, kind) for row in rows]
        assert comparable(made) == comparable(lines(paths, kind, keylog=keylog))


@pytest.mark.parametrize("name", ["2.8.2/console-zstd.pcap", "0.10.2.2/ipv6.pcap", "2.0.1/adminclient.pcap"])
def test_a_capture_cut_into_twenty_files(local, tmp_path, name):
    whole = lines([CAPTURES / name])
    paths = rotated(CAPTURES / name, tmp_path, 20)
    made = [line_of(row) for row in local.rows(paths, view=WHOLE)]
    assert made == lines(paths)
    assert len(made) == len(whole) > 0


@pytest.mark.parametrize("seed", range(40))
def test_what_connections_have_in_common(local, tmp_path, seed):
    """Silence that ends connections, ports used again, loss, clocks, topic ids and APIs told elsewhere."""
    paths = captures(random.Random(seed), tmp_path)
    for kind, table in KINDS:
        rows = local.rows(paths, table, partitions=4, view=WHOLE, split_bytes=5_000)
        assert comparable(line_of(row, kind) for row in rows) == comparable(lines(paths, kind))


@pytest.mark.parametrize("seed", range(3))
def test_node_ids_that_change(local, tmp_path, seed):
    """Each connection is told another one than the others, in turns, and tasks have some of the connections."""
    path = moving(random.Random(seed), tmp_path)
    made = [line_of(row) for row in local.rows([path], partitions=4, view=WHOLE, split_bytes=2_000)]
    assert made == lines([path])
    assert {line["broker"]["node_id"] for line in made} == {None, 1, 2}


def test_each_island_is_in_one_task(local, tmp_path):
    """The tests above would not see a task that has all connections: here each has some."""
    path = tmp_path / "many.pcap"
    rng = random.Random(7)
    packets = [packet for port in range(20) for packet in spread(rng, conversation(rng, 50_000 + port))]
    path.write_bytes(pcap(sorted(packets, key=lambda packet: packet.time_us)))
    parts = local.captures([path], partitions=4)._dealt.partitions
    islands = [{row["island"] for row in rows if row["island"]} for rows in parts]
    assert all(islands)
    assert sum(map(len, islands)) == len(set().union(*islands)) == 20


def test_copies_are_known_as_far_back_as_the_whole_run_knows_them(local, tmp_path):
    """An acknowledgment comes again in time, but behind more packets than are looked back at."""
    few = conversation(random.Random(1), 40_000)
    time = few[-1].time_us
    busy = [packet for port in range(60) for packet in conversation(random.Random(port), 41_000 + port)]
    between = [Packet(time + number, packet.data) for number, packet in enumerate(busy[:400])]
    path = tmp_path / "copies.pcap"
    path.write_bytes(pcap([*few, *between, Packet(time + 500, few[-1].data)]))
    assert len(between) == 400
    for partitions in (1, 6):
        rows = local.rows([path], "connections", partitions=partitions, view=WHOLE)
        made = [line_of(row, "connection") for row in rows]
        assert comparable(made) == comparable(lines([path], "connection"))


def test_caps_come_to_tasks(local, tmp_path):
    paths = captures(random.Random(3), tmp_path)
    caps = Caps(idle_timeout_ns=1_000_000_000)
    made = [line_of(row, "connection") for row in local.rows(paths, "connections", view=WHOLE, caps=caps)]
    assert comparable(made) == comparable(lines(paths, "connection", caps=caps))
    assert "idle" in {line["end_reason"] for line in made}


def test_lines_of_which_too_many_bytes_wait(local, monkeypatch):
    """They are released with the chunk in which they come, before those that they wait for."""
    path = CAPTURES / "2.8.2/console-zstd.pcap"
    expected = lines([path])
    monkeypatch.setattr("kinspect.kafka.wire.lineorder.WINDOW_BYTES", 1000)
    assert [line_of(row) for row in local.rows([path], view=WHOLE)] == expected


@pytest.mark.parametrize(
    "fields", [["api", "request.body.topics.name"], ["timestamp", "client.id", "problems.code"]]
)
def test_fields(local, fields):
    path = CAPTURES / "4.3.1/telemetry.pcap.gz"
    view = type(WHOLE)(fields=fields)
    rows = local.rows([path], view=view, fields=tuple(fields))
    expected = lines([path], view=view)
    assert rows
    for row, line in zip(rows, expected, strict=True):
        del row["completion"]
        if "timestamp_ns" in row:
            del row["timestamp_ns"], row["timestamp"], line["timestamp"]
        if row.get("request"):
            row["request"]["body"] = orjson.loads(row["request"]["body"] or b"null")
        assert row == line


def test_filter(local):
    path = CAPTURES / "4.3.1/telemetry.pcap.gz"
    kept = [line_of(row) for row in local.rows([path], view=WHOLE, chosen={"api": ["fetch", "Produce"]})]
    assert kept == [line for line in lines([path]) if line["api"] in ("Fetch", "Produce")]
    assert kept


def found_batches(line, side):
    """The batches of a message's body, in order, found in another way than the tables do."""
    stack, found = [line[side]["body"] if line[side] else None], []
    while stack:
        value = stack.pop()
        if isinstance(value, dict) and "partial_bytes" in value:
            found += value["batches"]
        elif isinstance(value, dict | list):
            stack += reversed(list(value.values() if isinstance(value, dict) else value))
    return found


def test_exchanges_are_told_apart_and_the_same_wherever_they_are_cut(local, tmp_path):
    path = CAPTURES / "2.8.2/console-zstd.pcap"
    whole = [row["exchange_id"] for row in local.rows([path])]
    assert [row["exchange_id"] for row in local.rows(rotated(path, tmp_path, 5))] == whole
    assert len({*whole}) == len(whole) > 10


@pytest.mark.parametrize("table", ["batches", "records"])
def test_batches_and_records(local, table):
    paths = [CAPTURES / "4.3.1/telemetry.pcap.gz", *sorted((CAPTURES / "2.8.2").glob("console*.pcap"))]
    expected = []
    for line in lines(paths):
        for side in ("request", "response"):
            for batch in found_batches(line, side):
                parts = batch["records"] if table == "records" else [batch]
                expected += [(line["connection_id"], line["correlation_id"], side, part) for part in parts]
    rows = local.rows(paths, table, view=WHOLE)
    assert len(rows) == len(expected) > 30
    for row, (connection, correlation_id, side, part) in zip(rows, expected, strict=True):
        assert row["exchange_id"]
        assert (row["connection_id"], row["correlation_id"], row["side"]) == (
            connection,
            correlation_id,
            side,
        )
        assert row["topic"]
        assert row["partition"] is not None
        for name in row.keys() & part.keys():
            assert row[name] == part[name], name
    if table == "records":
        for row, told in zip(rows, records_of(paths, payload="text", control=True), strict=True):
            assert row["log_offset"] == told["offset"]
            assert {name: told[name] for name in RECORD_FACTS if row[name] is not None} == {
                name: row[name] for name in RECORD_FACTS if row[name] is not None
            }
            assert row["direction"] in ("produce", "consume")
    assert rows[0].keys() >= {"base_offset", "magic"} if table == "batches" else {"offset", "value_size"}


@pytest.fixture
def packets():
    """Times in nanoseconds and bytes of some connections' packets."""
    talks = [conversation(random.Random(port), 40_000 + port) for port in range(12)]
    return [(packet.time_us * 1000 + 7, packet.data) for talk in talks for packet in talk]


def same(local, path, split_bytes=3_000):
    """Scans a capture in splits and compares. Out: how often it had to be read on where a split did not begin."""
    found = local.captures([path], split_bytes=split_bytes)
    rows = local.rows([path], view=WHOLE, found=found)
    assert comparable(map(line_of, rows)) == comparable(lines([path]))
    assert rows
    return sum(bool(split.stops) or split.begin not in (None, 0) for split in found._splits)


def test_a_pcapng_file_with_a_second_section_in_its_middle(local, tmp_path, packets):
    """Packets behind it are read as the second section says."""
    half = len(packets) // 2
    path = tmp_path / "two.pcapng"
    path.write_bytes(pcapng(packets[:half]) + pcapng(packets[half:], resolution=6))
    same(local, path)
    found = local.captures([path], split_bytes=3_000)
    assert [len(chain) for chain in found._chains] == [2]


def test_a_boundary_that_is_none_is_not_used(local, tmp_path, packets):
    """A packet that holds a pcap: its records look like the file's own. It costs one more task."""
    half = len(packets) // 2
    inner = pcap([Packet(time // 1000, data) for time, data in packets])[24:]
    path = tmp_path / "nested.pcap"
    found = [Packet(time // 1000, data) for time, data in packets]
    path.write_bytes(pcap([*found[:half], Packet(found[half].time_us, inner), *found[half:]]))
    assert same(local, path) == 1
    assert local.captures([path], split_bytes=3_000)._counts.packets == len(packets) + 1


@pytest.mark.parametrize("many", [1, 3])
def test_damage_costs_no_task(local, tmp_path, packets, many):
    """A record that cannot be one: what is behind it is not read, as `kinspect read` does not."""
    path = tmp_path / "damaged.pcap"
    data = bytearray(pcap([Packet(time // 1000, data) for time, data in packets]))
    at = 24
    for number in range(len(packets)):
        if number * 4 >= len(packets) and many:
            data[at + 8 : at + 12] = b"\xff\xff\xff\x7f"
            many -= 1
        at += 16 + len(packets[number][1])
    path.write_bytes(data)
    assert same(local, path) == 0
    (error,) = local.captures([path], split_bytes=3_000).errors
    assert "the file is damaged" in str(error)


def fragments(packet, number):
    """An IPv4 packet in Ethernet, in fragments of 16 bytes of payload."""
    frame, payload = bytearray(packet.data[:34]), packet.data[34:]
    for at in range(0, len(payload), 16):
        part = payload[at : at + 16]
        more = 0x2000 if at + 16 < len(payload) else 0
        frame[16:22] = struct.pack(">HHH", 20 + len(part), number, more | at // 8)
        yield bytes(frame) + part


def test_fragments_in_different_splits_and_files_are_put_together(local, tmp_path):
    packets = []
    for port in range(6):
        packets += spread(random.Random(port), conversation(random.Random(port), 40_000 + port))
    packets.sort(key=lambda packet: packet.time_us)
    cut = []
    for number, packet in enumerate(packets):
        parts = fragments(packet, number) if number % 3 == 0 else [packet.data]
        cut += [Packet(packet.time_us + late, data) for late, data in enumerate(parts)]
    cut.sort(key=lambda packet: packet.time_us)
    paths = [tmp_path / "one.pcap", tmp_path / "two.pcap"]
    for share, path in enumerate(paths):
        path.write_bytes(pcap(cut[share::2]))
    found = local.captures(paths, split_bytes=3_000)
    assert len(found._splits) > 4
    assert found._counts.fragments > 20
    for kind, table in KINDS:
        rows = local.rows(paths, table, view=WHOLE, split_bytes=3_000, partitions=4)
        assert comparable(line_of(row, kind) for row in rows) == comparable(lines(paths, kind))


@pytest.mark.parametrize(
    ("size", "share"),
    [(0, 64 << 20), (1 << 40, 64 << 20), (10 << 40, 549_755_814), (1 << 50, 56_294_995_343)],
)
def test_no_run_has_more_tasks_than_the_driver_can_note(size, share):
    assert import_module("kinspect.spark.batch").share_of(size) == share
    assert -(-size // share) <= 20_000
