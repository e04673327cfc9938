"""`kinspect pipeline run`: captures to tables and aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import SparkSession

from kinspect.errors import CaptureError, UnreadableError
from kinspect.spark.batch import Captures
from kinspect.spark.commit import JobOutput
from kinspect.spark.failure import raised_in_task
from kinspect.spark.sparksession import own_session
from kinspect.spark.storage import check_out
from kinspect.spark.writepass import WRITTEN, files_of
from kinspect.tables.request import Request
from kinspect.tables.tablenames import EXCHANGES, PARQUET, PROBLEMS, answer_table


@dataclass(slots=True)
class Job:
    """Options of a batch job; `keylog`, `split_bytes` as for `kinspect.spark.read`."""

    captures: Sequence[str]
    out: str
    request: Request = field(default_factory=Request)
    keylog: bytes = b""
    skip_unreadable: bool = False
    table_format: str = PARQUET
    split_bytes: int | None = None


@dataclass(slots=True)
class JobResult:
    """Result of a batch job: the `summary` line's object, rows and dates of each table, errors of captures, and how
    often an answer's table had no room for more."""

    summary: dict[str, Any]
    rows: dict[str, int]
    dates: dict[str, list[str]]
    errors: list[CaptureError]
    left_out: dict[str, int]


def run(spark: SparkSession, job: Job, step: Callable[[str], None]) -> JobResult:
    """Runs the job: tables are replaced once all are written, and aggregates come with `exchanges`. `step`: takes the
    name of each step. Raises KinspectError, also for captures that could not be read unless `skip_unreadable`."""
    check_out(job.out, job.table_format)
    spark = own_session(spark)
    output = JobOutput(spark, job.out, job.table_format)
    step("reading the captures")
    try:
        captures = Captures(
            spark, job.captures, caps=job.request.caps, keylog=job.keylog, split_bytes=job.split_bytes
        )
        if not job.skip_unreadable:
            _check_read(captures.errors)
        return _write(captures, job.request, output, step)
    except BaseException as error:
        raise raised_in_task(error) or error from error
    finally:
        # What cannot be taken away now, the next run does.
        with suppress(Exception):
            output.close()


def _check_read(errors: list[CaptureError]) -> None:
    """Raises KinspectError if an input could not be read: its rows would be missing in dates that are replaced."""
    unread = [error for error in errors if error.unread or isinstance(error, UnreadableError)]
    if unread:
        more = f" (and {len(unread) - 1} more)" if unread[1:] else ""
        raise type(unread[0])(f"{unread[0]}{more}; nothing was written, --skip-unreadable goes on without it")


def _write(captures: Captures, request: Request, output: JobOutput, step: Callable[[str], None]) -> JobResult:
    step(f"decoding {', '.join((*request.tables, *request.answers))}")
    told = captures.written(request, output.staging).persist(StorageLevel.DISK_ONLY)
    try:
        summary, rows = captures.summary(told)
        files = files_of(told.select(WRITTEN).collect())
        output.take(files, {name: rows.get(name, 0) for name in request.tables})
        answers = captures.answers(told, request, summary) if request.answers else []
    finally:
        told.unpersist()
    if EXCHANGES in request.tables:
        step("adding up")
        output.write_sums(request)
    day = captures.dates[0] if captures.dates else None
    left_out = {}
    for found in answers:
        name = answer_table(found["answer"])
        step(f"writing {name}")
        rows[name], left_out[name] = output.write_answer(found, request, day), found["capture"]["left_out"]
    output.write_problems(captures.unread, request, day)
    captures.check()
    step("putting the tables in place")
    dates = output.replace(captures.dates, (*request.tables, *map(answer_table, request.answers), PROBLEMS))
    return JobResult(summary, rows, dates, captures.errors, left_out)
