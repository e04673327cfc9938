"""Spark sessions, and checks of the installation."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from kinspect.errors import KinspectError, MissingLibraryError
from kinspect.extras import install, need

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_OLDEST_PYSPARK = (4, 2)
_LOCAL = re.compile(r"local(?:\[[^,]+(?:,\s*(\d+)\s*)?\])?")
_PYTHON = "PYSPARK_PYTHON"
"""The variable that names the Python of Spark's tasks; without it they run any `python3`."""
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 * 1024 * 1024),
    "spark.sql.adaptive.enabled": "true",
}
"""Settings of a session that writes tables: dates in UTC, batches that fit a task, and shuffles
that run as soon as their rows are needed."""

OWN_EXECUTOR = {"spark.storage.blockManagerHeartbeatTimeoutMs": "3650d"}
"""Settings of a session whose executor is its own JVM. After a pause of two minutes, as of a machine that sleeps, Spark
would take that executor for lost, and it cannot register again: tasks fail, and the JVM ends with status 56."""


def check() -> None:
    """Raises KinspectError with a line that says what to install, if Spark cannot run here."""
    need("spark", "the pipeline")
    version = tuple(map(int, re.findall(r"\d+", metadata.version("pyspark"))[:2]))
    if version < _OLDEST_PYSPARK:
        raise MissingLibraryError(
            f"the pipeline needs PySpark {'.'.join(map(str, _OLDEST_PYSPARK))} or later, found"
            f" {'.'.join(map(str, version))}: {install('spark')}"
        )
    found = java_version()
    if found is None or found < OLDEST_JAVA:
        there = "there is none" if found is None else f"found {found}"
        raise KinspectError(
            f"the pipeline needs Java {OLDEST_JAVA} or later, {there}: install one, or let JAVA_HOME name it"
        )


def java_version() -> int | None:
    """Major version of the Java that Spark would start, read from its file `release`; `OLDEST_JAVA` if that does not
    say, None without Java."""
    home = os.environ.get("JAVA_HOME")
    program = which(str(Path(home, "bin", "java")) if home else "java")
    if program is None:
        return None
    try:
        told = Path(program).resolve().parents[1].joinpath("release").read_text("utf-8", "replace")
    except OSError:
        return OLDEST_JAVA
    version = _VERSION.search(told)
    return int(version[1]) if version else OLDEST_JAVA


def usable(spark: SparkSession) -> SparkSession:
    """A caller's session, in which tasks on this machine run this Python unless `PYSPARK_PYTHON` says otherwise. Raises
    KinspectError for one of Spark Connect."""
    from pyspark.sql import SparkSession

    if not isinstance(spark, SparkSession):
        raise KinspectError(
            "kinspect.spark needs a session of this process, with its JVM, not one of Spark Connect:"
            " SparkSession.builder.master(...)"
        )
    context = spark.sparkContext
    if is_local(context.master) and _PYTHON not in os.environ:
        context.pythonExec = sys.executable
    return spark


def is_local(master: str | None) -> bool:
    """True if the executor is in this process's JVM."""
    return master is not None and master.startswith("local")


def tries_of(spark: SparkSession) -> int:
    """Number of times that Spark tries a task: one on a local master that names no other."""
    context = spark.sparkContext
    local = _LOCAL.fullmatch(context.master)
    return int(local[1] or 1 if local else context.getConf().get("spark.task.maxFailures", "4"))


def open_session(master: str | None, settings: Mapping[str, str], progress: bool) -> SparkSession:
    """The session of a command. `master`: a Spark master URL; None: that of `spark-submit`."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("kinspect")
    local = is_local(master)
    if master is None or local:
        os.environ.setdefault(_PYTHON, sys.executable)
    if master is not None:
        builder = builder.master(master)
    defaults = {"spark.ui.showConsoleProgress": str(progress).lower(), "spark.ui.enabled": "false"}
    # Decoding is bound by cores long before it is by disks and networks.
    defaults |= {"spark.shuffle.compress": "false", "spark.python.unix.domain.socket.enabled": "true"}
    if local:
        defaults |= OWN_EXECUTOR
        # The JVM has so little to do that its second compiler would take longer than all the rest.
        log = Path(__file__).with_name("log4j2.properties").as_uri()
        defaults["spark.driver.extraJavaOptions"] = (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={log}"
        )
    return usable(builder.config(map={**defaults, **settings}).getOrCreate())


def own_session(spark: SparkSession) -> SparkSession:
    """A new session of the same context with `SETTINGS`. `toDF` of RDDs stays bound to the user's session."""
    from pyspark import RDD

    kept = RDD.toDF
    own = spark.newSession()
    RDD.toDF = kept
    for name, value in SETTINGS.items():
        own.conf.set(name, value)
    return own
