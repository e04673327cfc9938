"""A Spark session for the command line, and what has to be installed for one."""

from __future__ import annotations

import os
import re
import subprocess
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
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
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
    """The major version of the Java that Spark would start; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else which("java")
    if program is None:
        return None
    try:
        told = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return None
    version = _VERSION.search(told.stderr + told.stdout)
    return int(version[1]) if version else None


def open_session(master: str | None, settings: Mapping[str, str], progress: bool) -> SparkSession:
    """A session of its own. `master`: `local[*]` unless it or the surroundings (`spark-submit`) say otherwise."""
    from pyspark.sql import SparkSession

    if master is None or master.startswith("local"):
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
    for name, value in {**defaults, **settings}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
