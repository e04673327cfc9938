"""Apache Kafka from Maven Central, kept in build/: the jars of a release, the Java clients compiled against them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build"

RELEASE = os.environ.get("KAFKA_VERSION") or "4.4.0"
"""Release to run where none is named: the newest, and it runs on Java 17."""

OLDEST = (3, 5)
"""First release in which a KRaft broker can be formatted with SCRAM users."""


class BrokerError(Exception):
    """A missing program or a failure, in a line for the user."""


def program(name: str, package: str) -> str:
    """Path of a program; raises BrokerError with its Debian package if it is not found."""
    found = shutil.which(name)
    if found is None:
        raise BrokerError(f"needs the program {name} (package {package})")
    return found


def classpath(release: str) -> str:
    """Class path to run a broker or clients of that release; downloads the jars the first time."""
    jars = BUILD / "kafka" / _checked(release) / "jars"
    if not jars.exists():
        half = jars.with_name("jars-incomplete")
        shutil.rmtree(half, ignore_errors=True)
        _download(release, half)
        half.rename(jars)
    return f"{jars}/*"


def java_clients(release: str) -> str:
    """Class path of the compiled clients/Clients.java, with that of the release."""
    jars = classpath(release)
    classes = BUILD / "kafka" / release / "classes"
    source, compiled = HERE / "clients" / "Clients.java", classes / "Clients.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        javac = program("javac", "openjdk-17-jdk-headless")
        _run(
            [javac, "-Xlint:all,-processing,-classfile", "-cp", jars, "-d", str(classes), str(source)],
            "javac failed",
        )
    return f"{classes}:{jars}"


def _checked(release: str) -> str:
    numbers = re.fullmatch(r"(\d+)\.(\d+)\.\d+", release)
    if numbers is None:
        raise BrokerError(f"{release}: not a release of Apache Kafka, such as {RELEASE}")
    if (int(numbers[1]), int(numbers[2])) < OLDEST:
        raise BrokerError(f"{release}: too old, releases from 3.5.0 on can be started")
    return release


def _download(release: str, folder: Path) -> None:
    maven = program("mvn", "maven")
    settings = [
        f"-Dmaven.repo.local={BUILD / 'maven'}",
        f"-Dkafka.version={release}",
        f"-DoutputDirectory={folder}",
    ]
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    _run(
        [maven, "-q", "-B", "-f", str(HERE / "pom.xml"), *settings, *goal],
        f"Kafka {release} was not downloaded",
    )


def _run(command: list[str], failure: str) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise BrokerError(f"{failure}: {(done.stdout + done.stderr).strip()}")
