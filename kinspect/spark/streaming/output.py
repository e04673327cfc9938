"""The folder of a stream's tables: the rows of each micro-batch once, whatever is killed when.

A micro-batch is written into a folder of its own. A mark in it, made once all is written, says that it counts; then its
files are moved among those of earlier ones by a rename each. What is interrupted before the mark is nothing, and made
again; what is interrupted behind it is finished at the next start.

Aggregates of a date are made anew of all its exchanges, and take the same way, but that they replace those of the date.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kinspect.errors import KinspectError
from kinspect.spark.commit import STREAM, Staged
from kinspect.spark.request import Request
from kinspect.tables.aggregates import QUERIES
from kinspect.tables.names import EXCHANGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADD_UP_SECONDS = 3600.0
"""So long the aggregates of a date may be without rows that came since."""
_SETTINGS, _STATE, _STAGED, _CHECKPOINT = "settings.json", "state-", "staged", "checkpoint"
_DECIDED = "decided.json"
_BEGIN: dict[str, Any] = {"step": -1, "batch": -1, "told": [], "sums": {}, "changed": [], "added_up": 0.0}
_OLD = ("carry-", "decided-", "attempt-")


class StreamOutput(Staged):
    """The folder `--out` of a stream."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        """Finishes what an interrupted stream left. Raises KinspectError for the folder of another job, or version."""
        super().__init__(spark, path, STREAM, _STAGED, one_file=True)
        names = self.names(STREAM)
        if any(name.startswith(_OLD) for name in names):
            raise KinspectError(
                f"{path}: a stream of kinspect 0.1 left its state there; drain it with 0.1 first,"
                " then choose another --out"
            )
        if not self.exists(STREAM) and self.names():
            raise KinspectError(
                f"{path}: is not empty and not of a stream; give the stream a folder of its own"
            )
        # State and shuffled packets hold payload and TLS secrets.
        self.make(STREAM, private=True)
        self.checkpoint = self.address(STREAM, _CHECKPOINT)
        """Where Spark keeps its own."""
        self.settings: dict[str, Any] = self._read(_SETTINGS) or {}
        """What the stream was begun with; empty if it begins."""
        states = sorted(name for name in names if name.startswith(_STATE))
        self._state: dict[str, Any] = self._read(states[-1]) if states else _BEGIN
        self._finish()
        # Spark numbers micro-batches by its checkpoint: with another one, new ones have the numbers of old ones.
        begun = [int(name) for name in self.names(STREAM, _CHECKPOINT, "offsets") if name.isdigit()]
        if max(begun, default=-1) < self._state["batch"]:
            lost = f"{STREAM}/{_CHECKPOINT} was deleted, or is older than the tables"
            raise KinspectError(f"{path}: {lost}; put it back, or choose another --out")

    @property
    def sums(self) -> dict[str, Any]:
        """What all micro-batches added up to."""
        return dict(self._state["sums"])

    def keep(self, settings: dict[str, Any]) -> None:
        """Notes what the stream was begun with."""
        self.settings = settings
        self._write(settings, _SETTINGS)

    def has(self, batch: int) -> bool:
        """Whether a micro-batch is in the tables."""
        return bool(batch <= self._state["batch"])

    def copy_told(self, path: Path) -> None:
        """Puts where the source finds it what lines told in the last two micro-batches: the last may be made again."""
        path.write_text(json.dumps(self._state["told"]))

    def decide(self, batch: int, number: int, told: list[Any], sums: dict[str, Any]) -> None:
        """The micro-batch counts, and is put in place. `number`: the source's; `told`: what lines told in it."""
        changed = sorted({*self._state["changed"], *self._days(EXCHANGES)})
        lately = [*self._state["told"][-1:], (number, told)]
        self._decide(batch=batch, told=lately, sums=sums, changed=changed)

    @property
    def is_behind(self) -> bool:
        """Whether it is time to add up, also by a clock that was put back."""
        return not 0.0 <= time.time() - self._state["added_up"] < ADD_UP_SECONDS

    def add_up(self, request: Request) -> None:
        """Makes the aggregates of the dates whose exchanges changed since that was done."""
        days = [day for day in self._state["changed"] if self.exists(EXCHANGES, day)]
        if days:
            self.discard()
            self.write_sums(request, *days)
            self._decide(changed=[], added_up=time.time())

    def _decide(self, **changes: Any) -> None:
        """What is staged counts, and what changes in the state with it."""
        self.check()
        self.make(STREAM, _STAGED)
        self._write({**self._state, "step": self._state["step"] + 1, **changes}, _STAGED, _DECIDED)
        self._finish()

    def _finish(self) -> None:
        """Puts in place what was staged and counts, and takes away what does not."""
        state = self._read(_STAGED, _DECIDED)
        if state is not None:
            for name in self.names(STREAM, _STAGED, folders=True):
                for day in self._days(name):
                    if name in QUERIES:
                        self._replace(name, day)
                    else:
                        self._add(name, day, state["batch"])
            own = f"{_STATE}{state['step']:010}.json"
            self._write(state, own)
            for name in self.names(STREAM):
                if name.startswith(_STATE) and name < own:
                    self.delete(STREAM, name)
            self._state = state
        self.discard()

    def _add(self, name: str, day: str, batch: int) -> None:
        """Puts the files of a day among those that are there."""
        self.make(name, day)
        for file in self.names(STREAM, _STAGED, name, day):
            target = (name, day, f"batch-{batch:010}-{file}")
            # What is there was put there by a process that went on meanwhile: it must not be taken away.
            if file.endswith(".parquet") and not self.exists(*target):
                self.move((STREAM, _STAGED, name, day, file), target)

    def _read(self, *names: str) -> Any:
        return json.loads(self.text(STREAM, *names)) if self.exists(STREAM, *names) else None

    def _write(self, value: Any, *names: str) -> None:
        self.put_text(json.dumps(value), STREAM, *names)
