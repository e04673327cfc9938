"""`kinspect pipeline stream`: every packet once, whatever is killed when, and tables that can be read at any moment."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path

import pytest
from lines import line_of, lines
from support.pcap import pcap
from traffic import conversation, spread

from kinspect.kafka.view import View

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
KINDS = (("exchange", "exchanges"), ("connection", "connections"))
NANOSECONDS = 1_000_000_000


@pytest.fixture
def module():
    return import_module("kinspect.spark.stream")


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
                row["api"] = None if names["api"].startswith("__HIVE") else names["api"]
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
    for kind, name in KINDS:
        expected = without_files(lines(paths, kind, view=View()))
        assert without_files(written(tmp_path / "out", kind, name)) == expected
    summary = stream.summary()
    assert summary["packets"] == len(packets(1))
    assert summary["exchanges"] == len(lines(paths))
    assert not summary["late_packets"]
    assert not summary["lost_packets"]


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
