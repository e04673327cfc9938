"""`make sbom`: what kinspect brings along, as CycloneDX: a file for the base, and one for each extra.

    tools/sbom.py FOLDER

Each is of an environment made for it, with what pip chooses today on this Python. It needs `pip install '.[package]'`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from kinspect import __version__
from kinspect.extras import EXTRAS

PROJECT = str(Path(__file__).parents[1] / "pyproject.toml")


def write(extra: str | None, folder: Path) -> Path:
    """The file of an extra, with the base; None: of the base alone."""
    target = folder / f"kinspect-{__version__}{f'-{extra}' if extra else ''}.cdx.json"
    asked = ("--extra", extra) if extra else ()
    with tempfile.TemporaryDirectory() as made:
        python = Path(made, "environment", "bin", "python")
        _run("uv", "venv", "--quiet", "--python", sys.executable, str(python.parents[1]))
        _run("uv", "pip", "install", "--quiet", "--python", str(python), "--requirements", PROJECT, *asked)
        told = ("--pyproject", PROJECT, "--output-reproducible", "--output-file", str(target))
        _run("cyclonedx-py", "environment", *told, str(python))
    return target


def _run(program: str, *arguments: str) -> None:
    subprocess.run([Path(sys.executable).with_name(program), *arguments], check=True)


if __name__ == "__main__":
    to = Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    for extra in (None, *EXTRAS):
        print(write(extra, to))
