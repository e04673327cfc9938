"""What tests of all workers make once in a run."""

from __future__ import annotations

import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path


class Kept:
    """Texts in a folder that the workers of a run share: what reading captures of the repository gives."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def text(self, make: Callable[[], str], *key: object) -> str:
        """What `make` returns, which is called once for each key, or by each worker that asks meanwhile."""
        path = self._folder / sha256(repr(key).encode()).hexdigest()
        try:
            return path.read_text("utf-8")
        except FileNotFoundError:
            text = make()
            own = path.with_suffix(f".{os.getpid()}")
            own.write_text(text, "utf-8")
            own.replace(path)
            return text
