"""Run by test_lost.py: jobs whose shuffled packets are lost before they are decoded.

Prints an object: of each run the rows written or the error, and the files of the tables before and after it.
"""

import os
import sys
from pathlib import Path
from shutil import copy

import orjson
from pyspark.sql import SparkSession

from kinspect.errors import KinspectError
from kinspect.spark import job

CUT = 2_000
"""Bytes that are left of a capture that became shorter."""

capture, folder = map(Path, sys.argv[1:])
shuffled = folder / "shuffled"
settings = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.local.dir": str(shuffled),
}
builder = SparkSession.builder.master("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")


def lose():
    lost = [*shuffled.rglob("shuffle_*")]
    assert lost
    for path in lost:
        # Spark takes away what nobody needs any more, at any moment.
        path.unlink(missing_ok=True)


def contents(out):
    """Names and sizes of all files of the tables."""
    return {str(path.relative_to(out)): path.stat().st_size for path in out.rglob("*") if path.is_file()}


def run(name, change):
    """Run twice; what is shuffled is lost in the second run, and `change` done to the capture."""
    path, out = folder / name / "cap.pcap", folder / name / "out"
    path.parent.mkdir()
    copy(capture, path)
    asked = job.Job([str(path)], str(out), job.Request(("exchanges",)))
    job.run(spark, asked, lambda _: None)
    before = contents(out)

    def step(text):
        if text == "decoding exchanges":
            lose()
            change(path)

    try:
        told = {"rows": job.run(spark, asked, step).rows}
    except KinspectError as error:
        told = {"error": str(error)}
    return {**told, "before": before, "after": contents(out)}


changes = {"same": lambda path: None, "gone": Path.unlink, "shorter": lambda path: os.truncate(path, CUT)}
sys.stdout.buffer.write(orjson.dumps({name: run(name, change) for name, change in changes.items()}))
sys.stdout.flush()
spark.stop()
