"""The way of one machine: parts, and what is told of them."""

import os
import random
import re
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from lines import WHOLE, line_of, lines
from traffic import captures

from kinspect.capture import open_timeline
from kinspect.cli.interrupt import SIGNALS
from kinspect.errors import KinspectError
from kinspect.model import Caps
from kinspect.pipeline import Inspector, fed

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
CAPTURE = str(CAPTURES / "2.8.2/console-zstd.pcap")


@pytest.fixture(scope="module")
def ahead():
    return import_module("kinspect.spark.ahead")


@pytest.fixture(scope="module")
def run():
    return import_module("kinspect.spark.run")


# Mean bytes of a packet, and seconds for a GiB of pairing alone and of all: docs/scale.md.
@pytest.mark.parametrize(("packet", "pairing", "whole"), [(202, 37, 176), (1475, 2.8, 5.8)])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_tasks_are_done_at_the_same_time(ahead, count, packet, pairing, whole):
    size = 1_000_000
    ends = ahead.parts_of(size, count, ahead.pairing_of(packet))
    begins = [0, *ends[:-1]]
    work = [
        begin * pairing + (min(end, size) - begin) * whole for begin, end in zip(begins, ends, strict=True)
    ]
    assert len(ends) == count
    assert max(work) < min(work) * 1.05


@pytest.mark.parametrize(("packet", "share"), [(0, 0.21), (200, 0.21), (800, 0.337), (9000, 0.48)])
def test_the_share_of_pairing(ahead, packet, share):
    assert ahead.pairing_of(packet) == pytest.approx(share, abs=0.001)


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


@pytest.mark.parametrize(("way", "count"), [("ahead", 1), ("ahead", 4), ("relay", 2), ("plain", 2)])
def test_caps_are_counted_whichever_task_and_table_hits_them(spark, run, way, count):
    """Those of pairing once, those of decoding by who decodes; not again where another table decodes the same."""
    paths = sorted(str(path) for path in (CAPTURES / "4.4.0").glob("*.pcap*"))
    made = run.Run(spark, paths, partitions=count, way=way, caps=Caps(records=10))
    for name in ("connections", "records", "batches", "connections"):
        made.table(run.Asked(name, view=WHOLE)).collect()
    inspector = Inspector(files=paths, caps=Caps(records=10))
    for _, found in fed(inspector, open_timeline(paths)):
        for line in found:
            WHOLE.exchange(line)
    for line in inspector.finish():
        WHOLE.exchange(line)
    assert made.summary()["caps_hit"] == inspector.summary()["caps_hit"]
    assert inspector.summary()["caps_hit"]["records"] > 3


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
    done = subprocess.run(command(tmp_path / "out", CAPTURE), capture_output=True, text=True, check=True)
    said = [line for line in done.stderr.splitlines() if "incubator" not in line]
    assert done.stdout == ""
    assert said[:3] == [f"kinspect: {step}" for step in STEPS]
    read = [Path(sys.executable).with_name("kinspect"), "read", CAPTURE, "--format", "jsonl"]
    told = subprocess.run(read, capture_output=True, text=True, check=True).stderr.splitlines()
    assert set(told[:2]) <= set(said)
    assert [line for line in said if "WARN" in line or "log" in line] == []


STEPS = ("starting Spark", "looking at the captures", "decoding exchanges")


def command(out, *captures):
    kinspect = Path(sys.executable).with_name("kinspect")
    return [kinspect, "pipeline", "run", *captures, "--out", out, "--master", "local[2]", "--progress"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_a_line_and_leaves_what_was_there(tmp_path, number):
    out = tmp_path / "out"
    subprocess.run(command(out, CAPTURE), capture_output=True, check=True)
    before = sorted(out.rglob("*"))
    many = [str(CAPTURES / "4.4.0/txn_librdkafka.pcap.gz")] * 60
    with subprocess.Popen(command(out, *many), stderr=subprocess.PIPE, text=True) as process:
        said = []
        while not said or STEPS[2] not in said[-1]:
            said.append(process.stderr.readline())
            assert said[-1], said
        process.send_signal(number)
        rest = process.stderr.read()
    assert process.returncode == 128 + number
    assert rest.endswith(f"kinspect: stopped by {SIGNALS[number]}: {out} is as it was\n")
    assert "Traceback" not in rest
    assert sorted(out.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--out", "nosuch://x/y"], "Spark: .*No FileSystem for scheme"),
        (["--out", "/proc/nope"], "Spark: "),
        (["--out", f"{CAPTURE}/x"], "is no folder; choose another --out"),
        (["--out", "/tmp/none", "--master", "local[abc]"], "Spark: "),
    ],
)
def test_what_spark_refuses_is_one_line(options, words):
    asked = [Path(sys.executable).with_name("kinspect"), "pipeline", "run", CAPTURE, *options]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "incubator" not in line]
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search(words, said[-1]), done.stderr
    assert len(said) == 1
