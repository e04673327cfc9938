"""`kinspect pipeline stream`: every packet once, whatever is killed when, and tables that can be read at any moment."""

import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import pytest
from lines import line_of, lines
from support.pcap import pcap
from traffic import conversation, pcapng, spread

from kinspect.errors import KinspectError, StateError
from kinspect.kafka.view import View

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
KINDS = (("exchange", "exchanges"), ("connection", "connections"))
NANOSECONDS = 1_000_000_000


@pytest.fixture
def module():
    return import_module("kinspect.spark.streaming")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "captures"
    made.mkdir()
    return made


def table(out, name):
    """The rows of a table in the order of completion, as they lie there."""
    parquet = import_module("pyarrow.parquet")
    rows = [
        row
        for path in sorted((out / name).rglob("*.parquet"))
        for row in parquet.ParquetFile(path).read().to_pylist()
    ]
    return sorted(rows, key=lambda row: row["completion"])


def written(out, kind, name):
    """The lines that the rows of a table were made of; `api` is in the name of the folder."""
    found = []
    parquet = import_module("pyarrow.parquet")
    for path in (out / name).rglob("*.parquet"):
        names = dict(part.split("=") for part in path.relative_to(out / name).parts[:-1])
        for row in parquet.ParquetFile(path).read().to_pylist():
            if "api" in names:
                row["api"] = None if names["api"] == "unknown" else names["api"]
            found.append(row)
    return [line_of(row, kind) for row in sorted(found, key=lambda row: row["completion"])]


def without_files(found):
    """Lines without the names of files, which a ring uses again."""
    for line in found:
        for side in ("request", "response"):
            if line.get(side):
                line[side]["frames"].pop("file")
    return found


def keyed(line):
    return sorted(line.items(), key=str)


def packets(seed, connections=8):
    """What some connections at once sent, in order."""
    rng = random.Random(seed)
    found = [
        packet for port in range(connections) for packet in spread(rng, conversation(rng, 40_000 + port))
    ]
    return sorted(found, key=lambda packet: packet.time_us)


def files_of(found, folder, count):
    """The packets cut into files in the order of time."""
    paths = []
    for number in range(count):
        paths.append(folder / f"cap{number:02}.pcap")
        paths[-1].write_bytes(pcap(found[number * len(found) // count : (number + 1) * len(found) // count]))
    return paths


def test_a_ring_that_uses_its_names_again(spark, module, folder, tmp_path):
    """Eight files of which three are there at once, a driver that is begun anew after most of them."""
    apart = tmp_path / "apart"
    apart.mkdir()
    paths = files_of(packets(1), apart, 8)
    settings = module.Settings(str(folder), str(tmp_path / "out"), settle=0.0, interval=0.01, strands=3)
    stream = module.Stream(spark, settings)
    for number, path in enumerate(paths):
        (folder / f"ring{number % 3}.pcap").write_bytes(path.read_bytes())
        if number % 3:
            stream = module.Stream(spark, settings)
        batch = next(stream.batches())
        assert batch.captures == [str(folder / f"ring{number % 3}.pcap")]
        assert next(stream.batches()) is None
    assert [*stream.batches(drain=True)][-1].captures == []
    assert [*stream.batches(drain=True)] == []
    (folder / "ring0.pcap").write_bytes(paths[0].read_bytes())
    assert [*stream.batches(drain=True)] == []  # it was there before
    for kind, name in KINDS:
        expected = without_files(lines(paths, kind, view=View()))
        assert without_files(written(tmp_path / "out", kind, name)) == expected
    summary = stream.summary()
    assert summary["packets"] == len(packets(1))
    assert summary["exchanges"] == len(lines(paths))
    assert not summary["late_packets"]
    assert not summary["lost_packets"]


def stream_of(module, spark, folder, out, tell=lambda _: None, **more):
    options = {"settle": 0.0, "interval": 0.01, "strands": 3, **more}
    return module.Stream(spark, module.Settings(str(folder), str(out), **options), tell)


def test_a_file_that_is_still_written_is_not_touched(spark, module, folder, tmp_path):
    """It may have packets that come before those of complete files: these wait for it."""
    found = packets(2)
    half = len(found) // 2
    shares = [found[:half][::2], found[:half][1::2] + found[half:]]
    paths = [folder / "east1.pcap", folder / "west1.pcap"]
    for path, share in zip(paths, shares, strict=True):
        path.write_bytes(pcap(share))
    (folder / "east2.pcap").write_bytes(pcap(found[-1:]))
    out = tmp_path / "out"
    looks = stream_of(module, spark, folder, out, settle=3600.0).batches()
    assert next(looks) is None  # nobody knows yet whether east1 is written to
    first = next(looks)
    assert first.captures == [str(paths[0])]
    before = sum(packet.time_us < shares[1][0].time_us for packet in shares[0])
    assert 0 < first.packets <= before + 1 < len(shares[0])
    assert next(looks) is None
    for path in (*paths, folder / "east2.pcap"):
        os.utime(path, (time.time() - 3601,) * 2)
    second = next(looks)
    assert set(second.captures) == {*map(str, paths), str(folder / "east2.pcap")}
    assert first.packets + second.packets == len(found) + 1
    stream = stream_of(module, spark, folder, out)
    assert [batch.captures for batch in stream.batches(drain=True)] == [[]]
    assert not stream.summary()["late_packets"]
    for kind, name in KINDS:
        assert written(out, kind, name) == lines([*paths, folder / "east2.pcap"], kind, view=View())


def test_files_that_are_not_what_they_seemed(spark, module, folder, tmp_path, monkeypatch):
    """Overwritten while it was read; no capture; without times; longer than when it was complete; not read in time."""
    found = packets(3)
    path = folder / "cap1.pcap"
    path.write_bytes(pcap(found[:100]))
    (folder / "notes.txt").write_bytes(b"this is no capture, and says so by its first bytes")
    (folder / "simple.pcapng").write_bytes(simple_packets())
    told = []
    stream = stream_of(module, spark, folder, tmp_path / "out", told.append)
    monkeypatch.setattr(module, "first_time", lambda path: 7)
    assert stream._next(stream._folder.look()) is None
    assert [text for text in told if "was overwritten or removed while it was read" in text]
    monkeypatch.undo()
    batch = stream._next(stream._folder.look())
    assert batch.packets == 100
    assert [text for text in told if "notes.txt" in text]
    assert [text for text in told if "packets without a time" in text]
    assert len(stream.errors) == 3
    assert stream._next(stream._folder.look()) is None
    with path.open("ab") as file:
        file.write(pcap(found[100:])[24:])
    batch = stream._next(stream._folder.look())
    assert batch.packets == len(found) - 100
    [*stream.batches(drain=True)]
    for kind, name in KINDS:
        assert written(tmp_path / "out", kind, name) == lines([path], kind, view=View())
    assert stream.summary()["lost_files"] == 1


@pytest.mark.parametrize("end", [KeyboardInterrupt, KinspectError])
def test_what_ends_while_a_batch_is_put_in_place_loses_nothing(
    spark, module, folder, tmp_path, monkeypatch, end
):
    """Ctrl-C, or a rename that fails: the batch is decided, and finished at the next start."""
    paths = files_of(packets(4), folder, 2)
    out = tmp_path / "out"
    stream = stream_of(module, spark, folder, out)
    with monkeypatch.context() as patched:
        patched.setattr(type(stream._log), "_move", lambda *_: (_ for _ in ()).throw(end()))
        with pytest.raises(end):
            stream._next(stream._folder.look())
    [*stream_of(module, spark, folder, out).batches(drain=True)]
    for kind, name in KINDS:
        assert written(out, kind, name) == lines(paths, kind, view=View())


def test_a_file_that_goes_while_a_folder_is_drained_takes_no_other_with_it(
    spark, module, folder, tmp_path, monkeypatch
):
    paths = files_of(packets(4), folder, 3)
    out = tmp_path / "out"
    told = []
    stream = stream_of(module, spark, folder, out, told.append)
    first_time = module.first_time

    def gone(path):
        paths[2].unlink(missing_ok=True)
        return first_time(path)

    monkeypatch.setattr(module, "first_time", gone)
    [*stream.batches(drain=True)]
    assert [text for text in told if f"{paths[2]}: was overwritten or removed while it was read" in text]
    assert stream.summary()["lost_files"] == 1
    for kind, name in KINDS:
        assert written(out, kind, name) == lines(paths[:2], kind, view=View())


@pytest.mark.parametrize(("failures", "whole"), [(2, True), (3, False)])
def test_a_file_that_the_system_fails_to_read_is_tried_again(
    spark, module, folder, tmp_path, monkeypatch, failures, whole
):
    """Some times; then the stream goes on with what can be read of it."""
    found = packets(3)
    path = folder / "cap1.pcap"
    path.write_bytes(pcap(found))
    told = []
    stream = stream_of(module, spark, folder, tmp_path / "out", told.append)
    examine = stream._examine
    looks = []

    def fails(splits):
        looks.append(len(splits))
        for part in examine(splits):
            if len(looks) <= failures and isinstance(part, module.index.Report):
                part.error = "UnreadableError", f"{path}: cannot be read: connection reset", True
                part.packets, part.times, part.carries_tcp = 0, part.times[:0], part.carries_tcp[:0]
            yield part

    monkeypatch.setattr(stream, "_examine", fails)
    drop = module.index.Reports.add
    monkeypatch.setattr(
        module.index.Reports,
        "add",
        lambda self, part: (
            drop(self, part) if len(looks) > failures or isinstance(part, module.index.Report) else None
        ),
    )
    batches = [batch for batch in stream.batches(drain=True) if batch is not None]
    failure = f"{path}: cannot be read: connection reset"
    assert told == [f"{failure}; it is tried again", *([] if whole else [failure])]
    assert list(map(str, stream.errors)) == ([] if whole else [failure])
    assert (sum(batch.packets for batch in batches) == len(found)) == whole


def test_what_waits_for_another_file_is_counted_once(spark, module, folder, tmp_path):
    """Two hosts: a file of one is complete, and all of it comes behind what the other still writes."""
    found = packets(4)
    third = len(found) // 3
    east, late = files_of(found[:third], folder, 1)[0], folder / "east2.pcap"
    east.rename(folder / "east1.pcap")
    late.write_bytes(pcap(found[2 * third :]))
    west = folder / "west1.pcap"
    west.write_bytes(pcap(found[third : 2 * third]))
    out = tmp_path / "out"
    stream = stream_of(module, spark, folder, out)
    captures = [capture._replace(complete=Path(capture.path) != west) for capture in stream._folder.look()]
    assert stream._next(captures).packets == third
    [*stream.batches(drain=True)]
    summary = stream.summary()
    assert (summary["captures"], summary["packets"]) == (3, len(found))


def simple_packets():
    """A pcapng file of one packet that has no time."""
    empty = pcapng([])
    packet = struct.pack("<I", 60) + bytes(60)
    size = struct.pack("<I", len(packet) + 12)
    return empty + struct.pack("<I", 3) + size + packet + size


@pytest.mark.parametrize("strand", [-1, 0])
def test_damage_of_what_is_carried_is_one_clear_error(spark, module, folder, tmp_path, strand):
    found = packets(4)
    paths = files_of(found, folder, 2)
    late = paths.pop().rename(tmp_path / "late.pcap")
    out = tmp_path / "out"
    stream = stream_of(module, spark, folder, out, strands=1)
    assert stream._next(stream._folder.look()).packets
    parquet, arrow = import_module("pyarrow.parquet"), import_module("pyarrow")
    for file in (out / "_stream").rglob("*.parquet"):
        rows = parquet.read_table(file, schema=None).to_pylist()
        for row in rows:
            if row["strand"] == strand:
                row["payload"] = row["payload"][:-1] + bytes([row["payload"][-1] ^ 1])
        if rows:
            (file.parent / f".{file.name}.crc").unlink()
            parquet.write_table(arrow.Table.from_pylist(rows, module.CARRY_ROWS), file)
    late.rename(folder / "late.pcap")
    before = written(out, *KINDS[0])
    with pytest.raises(StateError) as told:
        next(stream_of(module, spark, folder, out, strands=1).batches())
    assert str(told.value) == "the carried state is damaged: its checksum does not fit"
    assert written(out, *KINDS[0]) == before


def test_a_stream_keeps_its_tables(spark, module, folder, tmp_path):
    paths = files_of(packets(4), folder, 1)
    stream = stream_of(module, spark, folder, tmp_path / "out", tables=("connections",))
    [*stream.batches(drain=True)]
    assert written(tmp_path / "out", *KINDS[1]) == lines(paths, "connection", view=View())
    with pytest.raises(KinspectError, match="was begun with the tables connections"):
        stream_of(module, spark, folder, tmp_path / "out")


def test_a_stream_that_goes_on_with_other_options_says_so(spark, module, folder, tmp_path):
    files_of(packets(2), folder, 2)
    told = []
    [
        *stream_of(module, spark, folder, tmp_path / "out", told.append, filter={"api": ["Fetch"]}).batches(
            drain=True
        )
    ]
    stream_of(module, spark, folder, tmp_path / "out", told.append, filter={"api": ["Fetch"], "topic": []})
    assert told == []
    stream_of(module, spark, folder, tmp_path / "out", told.append, view=View(payload="text"))
    assert told == [
        f"{tmp_path}/out: goes on with other --payload, filters; rows that are there stay as they are"
    ]


def test_streaming_dataframes(spark, folder):
    """Two tables of one stream, each read by a query; what is still open is in neither."""
    api = import_module("kinspect.spark")
    paths = files_of(packets(5), folder, 2)
    out = folder.with_name(f"{folder.name}.kinspect")
    options = {"settle": 0.0, "strands": 2}
    queries = []
    for name in ("exchanges", "connections"):
        frame = api.stream(spark, str(folder), name, **options)
        assert frame.isStreaming
        queries.append(
            frame.writeStream.format("memory").queryName(f"{name}_seen").outputMode("append").start()
        )
    running = import_module("kinspect.spark.follow")._RUNNING[str(out)]
    with pytest.raises(KinspectError, match="other settings"):
        api.stream(spark, str(folder), **{**options, "settle": 1.0})
    end = time.monotonic() + 120
    while running._stream.summary().get("packets", 0) < len(packets(5)) and time.monotonic() < end:
        time.sleep(0.1)
    running.stop()
    assert running.failure is None
    seen = {}
    for query, name in zip(queries, ("exchanges", "connections"), strict=True):
        query.processAllAvailable()
        query.stop()
        seen[name] = spark.sql(f"select * from {name}_seen").collect()
    assert len(seen["exchanges"]) == len(table(out, "exchanges")) > 0
    assert {row["api"] for row in seen["exchanges"]} <= {"Metadata", "Heartbeat", None}
    assert all(str(row["date"]) == str(row["timestamp"].date()) for row in seen["exchanges"])
    whole = lines(paths, view=View())
    assert len(seen["exchanges"]) <= len(whole)
    assert len(seen["connections"]) == len(table(out, "connections"))


PROGRAM = "import sys; from kinspect.cli import main; sys.exit(main(sys.argv[1:]))"


class Driver:
    """`kinspect pipeline stream` in a process of its own."""

    def __init__(self, folder, out, *more):
        command = [sys.executable, "-c", PROGRAM, "pipeline", "stream", str(folder), "--out", str(out)]
        options = [
            "--settle",
            "0",
            "--interval",
            "100ms",
            "--strands",
            "3",
            "--master",
            "local[2]",
            "--progress",
        ]
        conf = ["--conf", "spark.driver.memory=1g", "--conf", "spark.sql.shuffle.partitions=2"]
        self.process = subprocess.Popen([*command, *options, *conf, *more], stderr=subprocess.PIPE, text=True)
        self.said = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.said.append(line)
                self._changed.notify_all()

    def wait_for(self, text, times=1, seconds=180):
        with self._changed:
            found = self._changed.wait_for(lambda: sum(text in line for line in self.said) >= times, seconds)
        assert found, "".join(self.said[-30:])

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        return self.end()

    def end(self):
        status = self.process.wait(timeout=300)
        self._reader.join(60)
        return status


def count(out, name):
    duckdb = import_module("duckdb")
    if not any((out / name).rglob("*.parquet")):
        return 0
    return duckdb.sql(f"select count(*) from '{out}/{name}/**/*.parquet'").fetchall()[0][0]


@pytest.mark.parametrize("seed", [1])
def test_killed_twice_it_loses_and_doubles_nothing(folder, tmp_path, seed, local):
    """Between batches and inside them, while captures come; in between the tables can be read as they lie there."""
    rng = random.Random(seed + int(os.environ.get("KINSPECT_SEED", "0")))
    apart = tmp_path / "apart"
    apart.mkdir()
    found = packets(seed, 10)
    paths = files_of(found, apart, 12)
    out = tmp_path / "out"

    def come(some):
        for path in some:
            (folder / path.name).write_bytes(path.read_bytes())
            time.sleep(rng.random() * 0.5)

    here = [folder / path.name for path in paths]
    totals = []
    for share in (paths[:4], paths[4:8]):
        driver = Driver(folder, out)
        come(share[:1])
        driver.wait_for("kinspect: batch ")
        come(share[1:])
        time.sleep(rng.random() * 6)
        driver.kill()
        totals.append(count(out, "exchanges"))
    come(paths[8:])
    driver = Driver(folder, out)
    driver.wait_for("kinspect: batch ")
    assert driver.kill(signal.SIGTERM) == 128 + signal.SIGTERM
    assert [line for line in driver.said if "captures, " in line]
    driver = Driver(folder, out, "--drain")
    assert driver.end() == 0, "".join(driver.said)
    for kind, name in KINDS:
        assert written(out, kind, name) == lines(here, kind, view=View())
    assert len(table(out, "batches")) == len(local.rows(here, "batches"))
    assert totals == sorted(totals)
    assert count(out, "exchanges") == len(lines(here)) >= totals[-1]
    summary = [line for line in driver.said if "12 captures" in line]
    assert summary, driver.said
    assert f"{len(found):,} packets" in summary[0]
