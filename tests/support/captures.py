"""The captures of the repository."""

from pathlib import Path

import pytest

CAPTURES = Path(__file__).parents[2] / "captures"
FOLDERS = sorted({path.parent for path in CAPTURES.rglob("*.pcap*")})

each_folder = pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda folder: str(folder.relative_to(CAPTURES)), scope="module"
)
"""The tests of a module come one after the other for each folder."""


def captures(folder):
    """The captures in a folder."""
    return sorted(path for path in folder.iterdir() if ".pcap" in path.name)
