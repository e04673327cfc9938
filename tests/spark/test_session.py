"""Sessions of `kinspect pipeline`, and what sessions of a caller must be."""

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from kinspect.errors import KinspectError
from kinspect.spark.sparksession import tries_of

pytestmark = pytest.mark.tools

TIMEOUT = """
from kinspect.spark.sparksession import open_session

spark = open_session("local[1]", {"spark.driver.host": "127.0.0.1"}, False)
receiver = spark._jvm.org.apache.spark.HeartbeatReceiver(spark.sparkContext._jsc.sc())
timeout = receiver.getClass().getDeclaredField("executorTimeoutMs")
timeout.setAccessible(True)
print(timeout.get(receiver))
spark.stop()
"""
DAY_MS = 86_400_000


def test_a_pause_does_not_cost_the_executor_of_a_local_session():
    """As of a machine that sleeps: Spark cannot take such an executor back."""
    done = subprocess.run([sys.executable, "-c", TIMEOUT], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) > 365 * DAY_MS


def test_how_often_a_task_is_tried_is_what_spark_does(spark):
    assert tries_of(spark) == spark.sparkContext._jsc.sc().taskScheduler().maxTaskFailures() == 1


@pytest.mark.parametrize(
    ("master", "settings", "tries"),
    [
        ("local", {"spark.task.maxFailures": "9"}, 1),
        ("local[*]", {}, 1),
        ("local[2,4]", {}, 4),
        ("local[*, 3]", {}, 3),
        ("local-cluster[2,1,1024]", {}, 4),
        ("spark://host:7077", {}, 4),
        ("k8s://https://host", {"spark.task.maxFailures": "8"}, 8),
    ],
)
def test_how_often_a_task_is_tried_is_said_by_the_master_and_the_settings(master, settings, tries):
    context = SimpleNamespace(master=master, getConf=lambda: settings)
    assert tries_of(SimpleNamespace(sparkContext=context)) == tries


CAPTURE = Path(__file__).parents[2] / "captures/4.4.0/nano.pcap"
CALLS = """
import sys
from pyspark.sql import SparkSession
import kinspect.spark

capture, folder, point, *more = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "1").getOrCreate()
if more:
    try:
        kinspect.spark.read(spark, capture)
    except kinspect.KinspectError as error:
        print(error)
    sys.exit()
rows = kinspect.spark.read(spark, capture).count()
frame = kinspect.spark.stream(spark, folder, settle=0.0)
writer = frame.writeStream.format("memory").queryName("streamed").trigger(availableNow=True)
writer.option("checkpointLocation", point).start().awaitTermination()
print(rows, spark.sql("select * from streamed").count())
"""


def other_python(folder):
    """A folder whose `python3` has nothing but its own library."""
    folder.mkdir()
    (folder / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    (folder / "python3").chmod(0o755)
    return folder


def called(tmp_path, environment, *more):
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.copy(CAPTURE, folder)
    arguments = [str(CAPTURE), str(folder), str(tmp_path / "point"), *more]
    kept = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
    done = subprocess.run(
        [sys.executable, "-c", CALLS, *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_tasks_on_this_machine_run_the_python_that_calls(tmp_path):
    """As `.venv/bin/python script.py` does where the environment is not active: `python3` is another one."""
    path = f"{other_python(tmp_path / 'bin')}:{os.environ['PATH']}"
    assert called(tmp_path, {"PATH": path}) == ["4 4"]


def test_a_python_that_cannot_run_tasks_is_one_line(tmp_path):
    (line,) = called(tmp_path, {"PYSPARK_PYTHON": str(other_python(tmp_path / "bin") / "python3")}, "fails")
    assert line.startswith("Spark's tasks run another Python than this one (No module named ")
    assert "let PYSPARK_PYTHON name one that has kinspect" in line


@pytest.mark.parametrize("name", ["read", "answer", "stream"])
def test_a_session_of_spark_connect_is_one_line(name):
    call = getattr(import_module("kinspect.spark"), name)
    with pytest.raises(
        KinspectError, match="needs a session of this process, with its JVM, not one of Spark Connect"
    ):
        call(object(), str(CAPTURE), "topics" if name == "answer" else "exchanges")
