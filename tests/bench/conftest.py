"""Makes the scripts importable, and captures small and apart from those that `make bench` keeps."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import captures


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setattr(captures, "DIRECTORY", tmp_path)
    captures.made.cache_clear()
    yield
    captures.made.cache_clear()
