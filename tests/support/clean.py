"""The captures that mutations are made of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from support.manifest import load

CAPTURES = Path(__file__).parents[2] / "captures"


def more_folders() -> list[Path]:
    """Folders of captures besides the repository's, by `KINSPECT_CAPTURES`."""
    more = os.environ.get("KINSPECT_CAPTURES")
    return [Path(more)] if more else []


def clean_captures(*names: str) -> list[Any]:
    """Captures of the repository, and all of the other folders that were not changed or cut themselves."""
    paths = [(name, CAPTURES / name) for name in names]
    for folder in more_folders():
        paths += [
            (row.file, row.path)
            for row in load(folder)
            if row.is_kafka and not row.original and "made_of" not in row.facts and not row.is_partial
        ]
    return [pytest.param(path, id=name) for name, path in paths]
