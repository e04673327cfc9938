"""Apache Kafka from Maven Central, kept in build/: the jars of a release, the Java clients compiled against them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import central
from central import BUILD, ToolError, program

from kinspect.protocol import schema

HERE = Path(__file__).parent

RELEASE = os.environ.get("KAFKA_VERSION") or [*schema.releases()][-1]
"""Release to run where none is named: the newest that the table has."""

OLDEST = (3, 5)
"""First release in which a KRaft broker can be formatted with SCRAM users."""

SCALA_2_13 = (2, 4)
"""First release that is built for Scala 2.13; those before it are for 2.11."""


def classpath(release: str) -> str:
    """Class path to run a broker or clients of that release; downloads the jars the first time."""
    if _number(release) < OLDEST:
        raise ToolError(f"{release}: too old, releases from 3.5.0 on can be started")
    return jars(release)


def jars(release: str) -> str:
    """Class path with the jars of any release; downloads them the first time."""
    scala = "2.13" if _number(release) >= SCALA_2_13 else "2.11"
    return central.classpath(
        f"Kafka {release}",
        HERE / "pom.xml",
        BUILD / "kafka" / release / "jars",
        **{"kafka.version": release, "scala.version": scala},
    )


def java_clients(release: str) -> str:
    """Class path of the compiled clients/Clients.java, with that of the release."""
    path = classpath(release)
    classes = BUILD / "kafka" / release / "classes"
    source, compiled = HERE / "clients" / "Clients.java", classes / "Clients.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        javac = program("javac", "openjdk-17-jdk-headless")
        central.run(
            [javac, "-Xlint:all,-processing,-classfile", "-cp", path, "-d", str(classes), str(source)],
            "javac failed",
        )
    return f"{classes}:{path}"


def _number(release: str) -> tuple[int, int]:
    numbers = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+){1,2}", release)
    if numbers is None:
        raise ToolError(f"{release}: not a release of Apache Kafka, such as {RELEASE}")
    return int(numbers[1]), int(numbers[2])
