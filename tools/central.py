"""Java programs from Maven Central, kept in build/, and the programs of the system that tests start."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

BUILD = Path(__file__).parents[1] / "build"


class ToolError(Exception):
    """A missing program or a failure, in a line for the user."""


def program(name: str, package: str) -> str:
    """Path of a program; raises ToolError with its Debian package if it is not found."""
    found = shutil.which(name)
    if found is None:
        raise ToolError(f"needs the program {name} (package {package})")
    return found


def classpath(what: str, pom: Path, folder: Path, **properties: str) -> str:
    """Class path of `what` a pom.xml with these properties asks for: jars in `folder`, downloaded the first time."""
    if not folder.exists():
        half = folder.with_name(f"{folder.name}-incomplete")
        shutil.rmtree(half, ignore_errors=True)
        _download(what, pom, half, properties)
        half.rename(folder)
    return f"{folder}/*"


def _download(what: str, pom: Path, folder: Path, properties: dict[str, str]) -> None:
    maven(
        what,
        pom,
        "dependency:copy-dependencies",
        **{"includeScope": "runtime", "outputDirectory": folder, **properties},
    )


def maven(what: str, pom: Path, *goal: str, **properties: str | Path) -> None:
    """Run a goal for `what` a pom.xml with these properties asks for; raises ToolError if it fails."""
    settings = {"maven.repo.local": BUILD / "maven", **properties}
    defined = [f"-D{name}={value}" for name, value in settings.items()]
    run(
        [program("mvn", "maven"), "-q", "-B", "-f", str(pom), *defined, *goal],
        f"{what} was not downloaded",
    )


def run(command: list[str], failure: str) -> None:
    """Run a command to its end; raises ToolError, with `failure` and what it printed, if it fails."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ToolError(f"{failure}: {(done.stdout + done.stderr).strip()}")
