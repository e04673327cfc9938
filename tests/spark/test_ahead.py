"""The way of one machine: parts, and what is told of them."""

import os
import random
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from lines import WHOLE, line_of, lines
from traffic import captures

from kinspect.errors import KinspectError
from kinspect.model import Caps

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
CAPTURE = str(CAPTURES / "2.8.2/console-zstd.pcap")


@pytest.fixture(scope="module")
def ahead():
    return import_module("kinspect.spark.ahead")


@pytest.fixture(scope="module")
def run():
    return import_module("kinspect.spark.run")


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_tasks_are_done_at_the_same_time(ahead, count):
    size = 1_000_000
    ends = ahead.parts_of(size, count)
    begins = [0, *ends[:-1]]
    work = [begin * ahead.PAIRING + min(end, size) - begin for begin, end in zip(begins, ends, strict=True)]
    assert len(ends) == count
    assert max(work) - min(work) < 10
    assert max(work) <= size


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("seed", range(5))
def test_wherever_parts_end(local, tmp_path, seed, parts):
    """Also more of them than there are blocks."""
    paths = captures(random.Random(seed), tmp_path)
    for kind, table in (("exchange", "exchanges"), ("connection", "connections")):
        rows = local.rows(paths, table, partitions=parts, view=WHOLE, way="ahead")
        assert [line_of(row, kind) for row in rows] == lines(paths, kind)


def test_a_capture_that_changes_between_tasks_is_told(spark, ahead, run, tmp_path, monkeypatch):
    made = run.Run(spark, [CAPTURE], partitions=2, way="ahead")
    frame = made.table(run.Asked("exchanges"))
    frame.collect()
    made.check()
    told = made._tables._told.value
    told[1].before += 1
    with pytest.raises(KinspectError, match="changed while they were read"):
        made.check()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "Ahead"),
        ({"partitions": 9}, "Indexed"),
        ({"way": "relay"}, "Indexed"),
        ({"way": "ahead"}, "Ahead"),
    ],
)
def test_one_machine_goes_ahead(spark, run, settings, expected):
    made = run.Run(spark, [CAPTURE], **settings)
    assert type(made._tables).__name__ == expected
    made.close()


@pytest.mark.parametrize("way", ["ahead", "relay"])
def test_what_cannot_be_read_twice_is_refused(spark, run, tmp_path, way):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(KinspectError, match="cannot be read twice"):
        run.Run(spark, [str(tmp_path / "pipe")], way=way)


def test_caps_that_any_task_hits_are_counted(spark, run):
    """Those of pairing once, those of decoding by the task that decodes."""
    paths = sorted(str(path) for path in (CAPTURES / "4.4.0").glob("*.pcap*"))
    hit = []
    for count in (1, 4):
        made = run.Run(spark, paths, partitions=count, way="ahead", caps=Caps(records=10))
        made.table(run.Asked("records", view=WHOLE)).collect()
        hit.append(made.summary()["caps_hit"])
    assert hit[0] == hit[1]
    assert hit[0]["records"] > 3


def test_how_far_tasks_are(ahead):
    meter = ahead.Meter([600, 1 << 62], 1000)
    meter.begin()
    assert (meter.bytes_read, meter.bytes_total) == (0, 1000)
    ahead._Note(meter.path, 0)(600)
    second = ahead._Note(meter.path, 1)
    second(200)
    second(900)  # Too soon to be told.
    assert meter.bytes_read == 1000 * (600 + 200) // (600 + 1000)
    meter.close()
    ahead._Note(meter.path, 0)(600)
    assert not os.path.exists(meter.path)


def test_the_command_says_what_it_does_and_spark_nothing(tmp_path):
    command = [
        Path(sys.executable).with_name("kinspect"),
        "pipeline",
        "run",
        CAPTURE,
        "--out",
        tmp_path / "out",
    ]
    done = subprocess.run(
        [*command, "--master", "local[2]", "--progress"], capture_output=True, text=True, check=True
    )
    said = [line for line in done.stderr.splitlines() if "incubator" not in line]
    assert done.stdout == ""
    assert said[:2] == ["kinspect: looking at the captures", "kinspect: decoding exchanges"]
    assert "93 packets, 6 connections (6 Kafka), 20 exchanges" in done.stderr
    assert [line for line in said if "Spark" in line or "WARN" in line or "log" in line] == []
