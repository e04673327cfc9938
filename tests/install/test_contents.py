"""Contents of the wheel."""

import tomllib
from pathlib import Path

from kinspect import __version__

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kinspect"
BUILT = {".py", ".pyc", ".so", ".c"}


def test_the_project_file_has_the_version_that_runs():
    """Programs read it there without installing anything, as those that write bills of materials."""
    assert tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"] == __version__


def test_files_that_are_no_modules_are_named_in_the_project_file():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["kinspect"]
    named = {path for pattern in patterns for path in PACKAGE.glob(pattern) if path.is_file()}
    there = {path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in BUILT}
    assert there - named == set()
    assert {path.suffix for path in named} >= {".txt", ".tcss", ".properties"}
