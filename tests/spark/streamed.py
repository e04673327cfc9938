"""A stream without Spark: what the engine does between source, state and tables is done with dicts.

Between two micro-batches everything goes through bytes and JSON, as it does when the driver is killed after each.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from pyspark.sql import Row
from pyspark.sql.streaming.datasource import ReadAllAvailable

from kinspect.errors import UnreadableError
from kinspect.kafka.view.view import View
from kinspect.model import Caps
from kinspect.spark.streaming.processor import Shard, unpacked
from kinspect.spark.streaming.query import BatchSummaries
from kinspect.spark.streaming.streamsource import SHARD_ROWS, StreamOptions, StreamReader
from kinspect.tables.request import Request
from kinspect.tables.taggedrows import SUMMARY

TABLES = ("exchanges", "connections")


class MapState:
    """State of a shard, by key. `calls`: each is a round trip to the JVM; a listing has one for some of its entries."""

    calls = 0

    def __init__(self, kept):
        self._kept = kept

    def exists(self):
        return bool(self._kept)

    def containsKey(self, key):  # noqa: N802
        MapState.calls += 1
        return key in self._kept

    def getValue(self, key):  # noqa: N802
        MapState.calls += 1
        return self._kept.get(key)

    def updateValue(self, key, value):  # noqa: N802
        MapState.calls += 1
        self._kept[key] = value

    def removeKey(self, key):  # noqa: N802
        MapState.calls += 1
        del self._kept[key]

    def keys(self):
        MapState.calls += len(self._kept)
        return iter([*self._kept])

    def iterator(self):
        MapState.calls += len(self._kept)
        return iter([*self._kept.items()])


class ValueState:
    def __init__(self, kept):
        self._kept = kept

    def exists(self):
        return bool(self._kept)

    def get(self):
        return self._kept["value"]

    def update(self, value):
        self._kept["value"] = value


class Handle:
    def __init__(self, kept):
        self._kept = kept

    def getMapState(self, name, key, value):  # noqa: N802
        return MapState(self._kept.setdefault(name, {}))

    def getValueState(self, name, schema):  # noqa: N802
        return ValueState(self._kept.setdefault(name, {}))


class Streamed:
    """A stream of a folder; `rows` has what its tables hold."""

    def __init__(self, folder, *, shards=3, caps=None, view=None, settle=0.0, told="", keylog=None, **more):
        self.watch = StreamOptions(
            str(folder),
            settle,
            shards=shards,
            caps=caps or Caps(),
            told=str(told),
            keylog=keylog or "",
            **more,
        )
        self.request = Request(
            TABLES, view=view or View(), caps=caps or Caps(), late_secrets=keylog is not None
        )
        self.offset = StreamReader(self.watch).initialOffset()
        self.kept = [{} for _ in range(shards)]
        self.rows = {name: [] for name in TABLES}
        self.unread = []
        self._told = []
        self._tell()

    def _tell(self):
        """Writes the learned names, as `StreamOutput.copy_told` does."""
        if self.watch.told:
            Path(self.watch.told).write_text(json.dumps(self._told))

    def look(self, reader=None):
        """The next offset, as it is written down."""
        reader = reader or StreamReader(self.watch)
        return json.loads(json.dumps(reader.latestOffset(self.offset, ReadAllAvailable())))

    def batch(self, reader=None, end=None):
        """A micro-batch; whether there was one."""
        reader = reader or StreamReader(self.watch)
        end = end or self.look(reader)
        if end == self.offset:
            return False
        shares = [[] for _ in range(self.watch.shards)]
        for task in reversed(reader.partitions(self.offset, end)):
            for found in self._tried(reader, pickle.loads(pickle.dumps(task))):
                assert found.schema.equals(SHARD_ROWS)
                for row in found.to_pylist():
                    shares[row["shard"]].append(Row(**row))
        pieces = []
        for shard, rows in enumerate(shares):
            processor = Shard(self.request)
            processor.init(Handle(self.kept[shard]))
            pieces += [row.piece for row in processor.handleInputRows((shard,), iter(rows), None)]
        summaries = []
        for piece in pieces:
            for name, made in unpacked([_column(piece)]):
                found = summaries if name == SUMMARY else self.rows[name]
                found += made.to_pylist()
        self.summaries = summaries
        found = self.found = BatchSummaries(summaries)
        self.unread += found.unread
        if self.watch.told:
            self._told = [*self._told[-1:], (found.number, found.told)]
            self._tell()
        self.offset = end
        return True

    def _tried(self, reader, task):
        """Batches of a task, which is tried again as by Spark."""
        for attempt in range(self.watch.tries):
            context = SimpleNamespace(attemptNumber=lambda attempt=attempt: attempt)
            with patch("kinspect.spark.scan.TaskContext.get", lambda context=context: context):
                try:
                    return list(reader.read(task))
                except UnreadableError:
                    assert attempt + 1 < self.watch.tries, "a task failed for good"
        raise AssertionError("no try")

    def drain(self):
        """As `--drain` does. Out: the rows of each table in the order of completion."""
        self.watch = StreamOptions(**{**_fields(self.watch), "drain": True})
        reader = StreamReader(self.watch)
        reader.prepareForTriggerAvailableNow()
        while self.batch(reader):
            pass
        return {name: sorted(rows, key=lambda row: row["completion"]) for name, rows in self.rows.items()}


def _fields(watch):
    return {name: getattr(watch, name) for name in StreamOptions.__slots__}


def _column(piece):
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([pa.array([piece], pa.binary())], ["piece"])
