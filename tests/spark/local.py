"""Stand-in for a Spark session, with the parts that the engine needs: lists take the place of shuffles."""

from __future__ import annotations

import pickle
import re
from types import SimpleNamespace
from zlib import crc32

import pyarrow as pa
from pyspark.cloudpickle import dumps

from kinspect.kafka.view.view import View
from kinspect.spark.batch import Captures
from kinspect.spark.shuffle import ROWS
from kinspect.spark.writepass import WRITTEN, files_of
from kinspect.tables.request import Request
from kinspect.tables.tablenames import EXCHANGES

BATCH_ROWS = 7


ACCUMULATORS = []


class Accumulator:
    """Spark's accumulator; tasks add to the same one as the driver."""

    def __init__(self, value, param):
        self.value = value
        self._param = param
        ACCUMULATORS.append(self)

    def __reduce__(self):
        return known, (ACCUMULATORS.index(self),)

    def add(self, value):
        self.value = self._param.addInPlace(self.value, value)


def known(number):
    return ACCUMULATORS[number]


class Frame:
    """A DataFrame: partitions of rows."""

    def __init__(self, schema, partitions):
        self.schema = schema
        self.partitions = partitions

    def mapInArrow(self, task, schema):  # noqa: N802
        made, found = [], ROWS
        for rows in reversed(self.partitions):
            batches = [
                pa.RecordBatch.from_pylist(rows[at : at + BATCH_ROWS], self.schema)
                for at in range(0, len(rows), BATCH_ROWS)
            ]
            # As it arrives in another process, as a value of its own.
            own = list(pickle.loads(dumps(task))(iter(batches)))
            found = own[0].schema if own else found
            made.append([row for batch in own for row in batch.to_pylist()])
        return Frame(found, made[::-1])

    def repartition(self, count, column):
        parts = [[] for _ in range(count)]
        for rows in self.partitions:
            for row in rows:
                key = row[column]
                parts[crc32(key.encode() if isinstance(key, str) else key) % count].append(row)
        return Frame(self.schema, parts)

    def sortWithinPartitions(self, *columns):  # noqa: N802
        def place(row):
            return tuple(row[column] for column in columns)

        return Frame(self.schema, [sorted(rows, key=place) for rows in self.partitions])

    def where(self, text):
        name, value = re.fullmatch(r"(\w+) (?:= (\d+)|is not null)", text).groups()
        keeps = (
            (lambda row: row[name] is not None) if value is None else (lambda row: row[name] == int(value))
        )
        return Frame(self.schema, [[row for row in rows if keeps(row)] for rows in self.partitions])

    def select(self, name):
        if name.endswith(".*"):
            kind = self.schema.field(name.removesuffix(".*"))
            inner = pa.schema(list(kind.type))
            return Frame(inner, [[row[kind.name] for row in rows] for rows in self.partitions])
        return Frame(self.schema, [[(row[name],) for row in rows] for rows in self.partitions])

    def unionAll(self, other):  # noqa: N802
        return Frame(self.schema, self.partitions + other.partitions)

    def collect(self):
        return [
            tuple(row.values()) if isinstance(row, dict) else row for rows in self.partitions for row in rows
        ]

    def count(self):
        return len(self.collect())


def session():
    """Stand-in for a Spark session, with the parts that are used."""
    context = SimpleNamespace(defaultParallelism=2, accumulator=Accumulator, master="local")

    def numbers(begin, end, step, parts):
        return Frame(
            pa.schema([("id", pa.int64())]), [[{"id": number}] for number in range(begin, end, step)]
        )

    made = SimpleNamespace(
        sparkContext=context, range=numbers, conf=SimpleNamespace(set=lambda name, value: None)
    )
    made.newSession = lambda: made
    return made


def captures(paths, **more):
    """Captures, scanned."""
    return Captures(session(), [str(path) for path in paths], **{"partitions": 3, **more})


def written(paths, request, target):
    """The files that tasks write."""
    return files_of(captures(paths).written(request, target).select(WRITTEN).collect())


def rows(paths, table=EXCHANGES, *, view=None, fields=None, chosen=None, names=None, found=None, **more):
    """The rows of a table, in the order of completion."""
    request = Request((table,), fields, view or View(), chosen or {}, names or {})
    decoded = (found or captures(paths, **more)).decoded(request)
    made = [row[table] for part in decoded.partitions for row in part if row[table] is not None]
    return sorted(made, key=lambda row: row["completion"])
