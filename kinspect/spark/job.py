"""`kinspect pipeline run`: captures to Parquet tables and aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kinspect.errors import CaptureError, KinspectError
from kinspect.kafka.view import View
from kinspect.model import Caps
from kinspect.spark.aggregates import QUERIES, aggregate
from kinspect.spark.ahead import Meter
from kinspect.spark.asked import Asked
from kinspect.spark.commit import Output
from kinspect.spark.failure import raised_in_task
from kinspect.spark.folders import BY_DATE, from_folders, into_folders
from kinspect.spark.log import is_stream
from kinspect.spark.run import FAST, Run
from kinspect.spark.storage import check_out
from kinspect.spark.tables import EXCHANGES, RECORDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_TABLES = (EXCHANGES, "batches", "connections")

Watch = Callable[[Meter | None], AbstractContextManager[None]]


@dataclass(slots=True)
class Job:
    """What to do. The aggregates come with the table `exchanges`; the rest is as for `kinspect.spark.read`."""

    captures: Sequence[str]
    out: str
    tables: Sequence[str] = DEFAULT_TABLES
    caps: Caps = field(default_factory=Caps)
    view: View = field(default_factory=View)
    filter: dict[str, Any] = field(default_factory=dict)
    keylog: bytes = b""
    names: dict[str, str] = field(default_factory=dict)
    kafka_ports: frozenset[int] = frozenset()
    way: str = FAST


@dataclass(slots=True)
class Result:
    """What was done: the `summary` line's object, rows and dates of each table, and what could not be read."""

    summary: dict[str, Any]
    rows: dict[str, int]
    dates: dict[str, list[str]]
    errors: list[CaptureError]


def run(
    spark: SparkSession, job: Job, step: Callable[[str], None], watch: Watch = lambda _: nullcontext()
) -> Result:
    """Does the job. Nothing changes in the folder before all tables are written.

    `step` is told what is being done, `watch` is given what can be asked how far it is, while it is done.
    """
    check_out(job.out)
    if is_stream(spark, job.out):
        raise KinspectError(f"{job.out}: a stream writes its tables there; give the job a folder of its own")
    output = Output(spark, job.out)
    step("looking at the captures")
    captures = Run(spark, job.captures, caps=job.caps, kept=True, watched=True, way=job.way)
    rows: dict[str, int] = {}
    try:
        for name in job.tables:
            step(f"decoding {name}")
            table = captures.table(
                Asked(
                    name,
                    view=view_of(name, job.view),
                    chosen=job.filter,
                    keylog=job.keylog,
                    names=job.names,
                    kafka_ports=job.kafka_ports,
                )
            )
            dated, by = into_folders(table)
            with watch(captures.reading):
                output.write(name, dated, by)
            captures.check()
            written = spark.read.schema(dated.schema).parquet(output.staged(name))
            rows[name] = written.count()
            if name == EXCHANGES:
                for query in QUERIES:
                    step(f"adding up {query}")
                    output.write(query, aggregate(query, from_folders(written)), BY_DATE)
    except BaseException as error:
        output.abandon()
        ours = raised_in_task(error)
        if ours is not None:
            raise ours from error
        raise
    finally:
        captures.close()
    step("putting the tables in place")
    dates = output.commit(captures.dates)
    return Result(captures.summary(), rows, dates, captures.errors)


def view_of(name: str, view: View) -> View:
    """The view for a table: that of records shows records."""
    if name != RECORDS or view.records:
        return view
    return View(records=True, payload=view.payload, show_secrets=view.show_secrets, int64=view.int64)
