"""A Spark session for all tests of a process. Tests marked `tools` need the extra `spark` and Java: `make test-all`."""

import os
import sys
from importlib import import_module
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# As in a session of the command, of all JVMs that tests start: to compile for long takes longer than they run.
os.environ |= dict.fromkeys(
    ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"), "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
)
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def local():
    """The module `local`, which runs a job's tasks without Spark."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kinspect.spark.batch.shuffled_once", lambda spark, frame: frame)
        yield import_module("local")


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session on `local[2]`; what it shuffles lies in its `spark.local.dir`."""
    sql = import_module("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = sql.SparkSession.builder.master("local[2]")
    folder = str(tmp_path_factory.mktemp("spark"))
    # Hundreds of jobs share the session.
    own = {"spark.local.dir": folder, "spark.driver.memory": "2g", "spark.ui.enabled": "false"}
    own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    for name, value in {**SETTINGS, **own}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
