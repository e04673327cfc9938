"""Fresh environments, and kinspect in them as its users install it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from console_blocks import ROOT

SCRIPTS = Path(sys.executable).parent
# What is installed must be found, and not the clone.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KINSPECT"))},
    "PATH": f"{SCRIPTS}:{os.environ['PATH']}",
}
CAPTURE = ROOT / "captures" / "4.4.0" / "errors_java.pcap.gz"


def run(*command, cwd, check=True, env=None):
    """What a command did, which must end with 0 if it is to be checked. `env`: variables beside the usual ones."""
    words = [str(word) for word in command]
    environment = {**ENVIRONMENT, **(env or {})}
    result = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert not check or result.returncode == 0, result.stderr or result.stdout
    return result


def sources(folder):
    """A copy of the clone without what git leaves out: nothing of an earlier build."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT).stdout
    for name in filter(None, listed.split("\0")):
        if name.startswith(("captures/", "tests/")) or not (ROOT / name).is_file():
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return folder


class Fresh:
    """An environment of a Python with nothing but what is installed into it."""

    def __init__(self, python, folder):
        self.folder = folder
        run(python, "-m", "venv", "--without-pip", folder, cwd=folder.parent)

    def install(self, package, extras=""):
        """Install a wheel or sdist of kinspect, with extras as `[explore]`, and what they need: as wheels, so that no
        compiler is needed."""
        is_source = package.suffix == ".gz"
        uv = ("uv", "pip", "install", "--quiet", "--python", self.folder / "bin" / "python")
        wheels = ("--only-binary", ":all:", "--no-binary", "kinspect" if is_source else ":none:")
        run(*uv, *wheels, f"{package}{extras}", cwd=self.folder, env={"KINSPECT_COMPILE": "0"})

    def run(self, *arguments):
        return run(self.folder / "bin" / "python", *arguments, cwd=self.folder)

    def kinspect(self, *arguments, check=True):
        return run(self.folder / "bin" / "kinspect", *arguments, cwd=self.folder, check=check)

    def packages(self):
        """Names, in their normal form, and versions of what is installed."""
        script = (
            "from importlib.metadata import distributions\nfor d in distributions(): print(d.name, d.version)"
        )
        lines = (line.split() for line in self.run("-c", script).stdout.splitlines())
        return {(normal(name), version) for name, version in lines}


def normal(name):
    """The form in which names of packages compare."""
    return re.sub(r"[-_.]+", "-", name).lower()
