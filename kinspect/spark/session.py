"""A Spark session for the command line, and what has to be installed for one."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from kinspect.errors import KinspectError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA = 17
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
# What a Java that does not say its version is taken for: Spark will say what it thinks of it.
_UNKNOWN = OLDEST_JAVA
_PACKAGES = ("pyspark", "pandas", "pyarrow")


def check() -> None:
    """Raises KinspectError, one line that says what to install, if Spark cannot run here."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        raise KinspectError(
            f"the pipeline needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed:"
            " pip install 'kinspect[spark]'"
        )
    found = java_version()
    if found is None or found < OLDEST_JAVA:
        there = "there is none" if found is None else f"found {found}"
        raise KinspectError(
            f"the pipeline needs Java {OLDEST_JAVA} or later, {there}: install one, or let JAVA_HOME name it"
        )


def java_version() -> int | None:
    """The major version of the Java that Spark would start, by the file `release` beside it; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    program = which(str(Path(home, "bin", "java")) if home else "java")
    if program is None:
        return None
    try:
        told = Path(program).resolve().parents[1].joinpath("release").read_text("utf-8", "replace")
    except OSError:
        return _UNKNOWN
    version = _VERSION.search(told)
    return int(version[1]) if version else _UNKNOWN


def cores_here(master: str | None) -> int | None:
    """How many cores of this machine `open_session(master, ...)` takes; None if others do the work."""
    asked = (master or os.environ.get("MASTER", "local[*]")).partition(",")[0]
    if asked == "local":
        return 1
    if not asked.startswith("local["):
        return None
    number = asked.removeprefix("local[").rstrip("]")
    return int(number) if number.isdecimal() else os.cpu_count() or 1


def open_session(master: str | None, settings: Mapping[str, str], progress: bool) -> SparkSession:
    """A session of its own. `master`: `local[*]` unless it or the surroundings (`spark-submit`) say otherwise."""
    from pyspark.sql import SparkSession

    local = master.startswith("local") if master is not None else "MASTER" not in os.environ
    if master is None or local:
        # Tasks of a local master are this Python, whatever `python3` is.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kinspect")
    if master is not None or "MASTER" not in os.environ:
        builder = builder.master(master or "local[*]")
    defaults = {
        "spark.ui.showConsoleProgress": str(progress).lower(),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.ui.enabled": "false",
    }
    if local:
        # Packets are decoded by Python. What is left to the JVM is so little that its second compiler takes more than
        # all the rest, and collecting garbage beside it more than collecting it now and then.
        log = Path(__file__).with_name("log4j2.properties").as_uri()
        defaults["spark.driver.extraJavaOptions"] = (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile={log}"
        )
    for name, value in {**defaults, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
