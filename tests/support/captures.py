"""The captures of the repository."""

from pathlib import Path

import pytest

CAPTURES = Path(__file__).parents[2] / "captures"
FEW = {"0.10.2.2", "4.1.2", "4.3.1", "tls"}
"""Folders that `make test` reads; the others are read by `make test-all`."""
FOLDERS = sorted({path.parent for path in CAPTURES.rglob("*.pcap*")})


def each_of(folders):
    """The tests of a module come one after the other for each folder."""
    marked = [
        pytest.param(folder, id=folder.name, marks=[] if folder.name in FEW else pytest.mark.big)
        for folder in folders
    ]
    return pytest.mark.parametrize("folder", marked, scope="module")


each_folder = each_of(FOLDERS)


def captures(folder):
    """The captures in a folder."""
    return sorted(path for path in folder.iterdir() if ".pcap" in path.name)
