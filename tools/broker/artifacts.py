"""Apache Kafka from Maven Central, kept in build/: the jars of a release, the Java clients compiled against them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import central
from central import BUILD, ToolError, program

HERE = Path(__file__).parent

RELEASE = os.environ.get("KAFKA_VERSION") or "4.4.0"
"""Release to run where none is named: the newest, and it runs on Java 17."""

OLDEST = (3, 5)
"""First release in which a KRaft broker can be formatted with SCRAM users."""


def classpath(release: str) -> str:
    """Class path to run a broker or clients of that release; downloads the jars the first time."""
    jars = BUILD / "kafka" / _checked(release) / "jars"
    return central.classpath(f"Kafka {release}", HERE / "pom.xml", jars, **{"kafka.version": release})


def java_clients(release: str) -> str:
    """Class path of the compiled clients/Clients.java, with that of the release."""
    jars = classpath(release)
    classes = BUILD / "kafka" / release / "classes"
    source, compiled = HERE / "clients" / "Clients.java", classes / "Clients.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        javac = program("javac", "openjdk-17-jdk-headless")
        central.run(
            [javac, "-Xlint:all,-processing,-classfile", "-cp", jars, "-d", str(classes), str(source)],
            "javac failed",
        )
    return f"{classes}:{jars}"


def _checked(release: str) -> str:
    numbers = re.fullmatch(r"(\d+)\.(\d+)\.\d+", release)
    if numbers is None:
        raise ToolError(f"{release}: not a release of Apache Kafka, such as {RELEASE}")
    if (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise ToolError(f"{release}: too old, releases from 3.5.0 on can be started")
    return release
