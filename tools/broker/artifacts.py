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


def newer(known: str) -> str | None:
    """The newest release on Maven Central if it is newer than a known one; raises ToolError if nobody can be asked."""
    tree = BUILD / "newest.txt"
    central.maven(
        f"Kafka since {known}",
        HERE / "pom.xml",
        "dependency:tree",
        "--update-snapshots",  # what Maven remembers of the releases may be a day old
        **{"includes": "org.apache.kafka:kafka-clients", "outputFile": tree, "kafka.version": f"[{known},)"},
    )
    found = re.findall(r":kafka-clients:jar:([^:]+):", tree.read_text("utf-8"))
    if not found:
        raise ToolError(f"Maven tells of no release of Kafka since {known}")
    return found[0] if _numbers(found[0]) > _numbers(known) else None


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
    return _numbers(release)[:2]


def _numbers(release: str) -> tuple[int, ...]:
    if not re.fullmatch(r"\d+(?:\.\d+){2,3}", release):
        raise ToolError(f"{release}: not a release of Apache Kafka, such as {RELEASE}")
    return tuple(map(int, release.split(".")))
