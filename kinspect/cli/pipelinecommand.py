"""`kinspect pipeline`: captures to tables, on Spark."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

from kinspect.answers import answers
from kinspect.capture.keylogfile import KeyLogFile
from kinspect.cli import complain, topicnames
from kinspect.cli.completions import files, folders, one_of, words
from kinspect.cli.interrupt import ENDED_BY_SIGNAL, SIGNALS, Interrupt
from kinspect.cli.options import (
    FILTER_OPTIONS,
    INPUT,
    LIMITS,
    LINES_ALONE,
    Sectioned,
    given_hosts,
    make_caps,
    make_filter,
    make_view,
    options,
    payload_option,
    usage,
)
from kinspect.cli.progress import INTERVAL_SECONDS, wanted
from kinspect.cli.schemaoption import SCHEMA
from kinspect.cli.types import DURATION, Duration, Number
from kinspect.errors import CaptureError, KinspectError
from kinspect.extras import need
from kinspect.filters.filterdefinitions import FILTERS
from kinspect.model import NS_PER_SECOND
from kinspect.output.escape import printable
from kinspect.output.runsummary import summary_text
from kinspect.output.tally import Tally
from kinspect.spark import sparksession
from kinspect.tables.tablenames import DEFAULT_TABLES, DELTA, PARQUET, TABLES
from kinspect.wording import counted

if TYPE_CHECKING:
    from kinspect.tables.request import Request

AnySparkSession: TypeAlias = Any
"""A SparkSession; its package is loaded only where it is used."""
T = TypeVar("T")
NONE = "none"
LOSSES = {
    "kernel_drops": "packets that were dropped before they were captured",
    "late_packets": "packets that came later than others that were taken before",
}


@click.group()
def pipeline() -> None:
    """Decode many captures into Parquet tables, on Apache Spark.

    It needs Java 17 or newer and the extra: pip install 'kinspect[spark]'.
    """


def refused(option: str, why: str) -> Callable[[Any], Any]:
    """An option that there was in version 0.1, or that another command has: it is refused in one line."""

    def refuse(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(f"{option} {why}")

    return click.option(option, hidden=True, expose_value=False, callback=refuse)


TABLES_OUT = (
    click.option(
        "--out",
        metavar="DIR",
        required=True,
        shell_complete=folders,
        help="Where the tables go: a folder or a URL; s3:// with --table-format delta.",
    ),
    click.option(
        "--tables",
        default=",".join(DEFAULT_TABLES),
        show_default=True,
        metavar="NAMES",
        shell_complete=one_of(*TABLES),
        help=f"Which of {', '.join(TABLES)}.",
    ),
    click.option(
        "--table-format",
        type=click.Choice([PARQUET, DELTA]),
        default=PARQUET,
        show_default=True,
        help="delta: tables of Delta Lake, which others may read meanwhile.",
    ),
)
SPARK = (
    click.option("--master", metavar="URL", help="The Spark master.  [default: local[*]]"),
    click.option("--capture-point", metavar="NAME", help="Where it was captured: a column of all tables."),
    click.option("--conf", multiple=True, metavar="K=V", help="A setting of Spark; repeatable."),
    payload_option("Keep records' keys and values; none: their sizes only."),
    click.option("--show-secrets", is_flag=True, help="Keep passwords, tokens and the like."),
    click.option("-q", "--quiet", is_flag=True, help="No summary."),
    click.option("--progress/--no-progress", default=None, help="Show how far the job is."),
)


@pipeline.command(cls=Sectioned)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True, shell_complete=files)
@options(TABLES_OUT, SPARK, FILTER_OPTIONS, INPUT, SCHEMA, LIMITS)
@click.option(
    "--answers",
    metavar="NAMES",
    shell_complete=words(answers),
    help=f"Answers as tables too (alone: --tables {NONE}). Which of {', '.join(answers())}.",
)
@click.option(
    "--skip-unreadable",
    is_flag=True,
    help="Go on without inputs that cannot be read; else nothing is written then.",
)
@refused("--way", "is gone: there is one way, the fastest for one machine and for a cluster")
def run(captures: tuple[str, ...], **values: Any) -> int:
    """Decode captures into Parquet tables, a folder each, with a folder for each date (UTC) in it.

    CAPTURE is a path, a glob or a URL that every executor can read. Dates of the captures are replaced as a whole
    in the tables that are written; other dates stay as they are. With exchanges come latency_by_minute,
    topic_clients, client_versions and errors. An answer is the table answer_NAME, at the date of the first packet.
    """
    asked = () if values["answers"] is None else _chosen("--answers", values["answers"], answers())
    tables = () if asked and values["tables"] == NONE else _chosen("--tables", values["tables"], TABLES)
    settings = dict(_setting(text) for text in values["conf"])
    make_filter(values)
    keylog = usage(lambda: KeyLogFile(values["keylog"]).more()) if values["keylog"] else b""
    names = usage(lambda: topicnames.load_topic_names(values["topic_names"])) if values["topic_names"] else {}
    sparksession.check()
    from kinspect.spark.job import Job
    from kinspect.spark.job import run as run_job
    from kinspect.spark.storage import check_out, expand, shown

    check_out(values["out"], values["table_format"])
    files = expand(list(captures))
    master = _master(values["master"], "local[*]")
    if sparksession.is_local(master) and not values["skip_unreadable"]:
        _check_there(files)
    job = Job(
        captures=captures,
        out=values["out"],
        request=_request(tables, names, values, answers=asked),
        keylog=keylog,
        skip_unreadable=values["skip_unreadable"],
        table_format=values["table_format"],
    )
    progress = wanted(values["progress"])
    step = _step if progress and not values["quiet"] else lambda _: None
    with _session(master, settings, progress, step) as spark, Interrupt() as interrupt:
        result = _unless(interrupt, spark, lambda: run_job(spark, job, step))
    if result is None:
        assert interrupt.received
        complain(f"stopped by {SIGNALS[interrupt.received]}: {shown(job.out)} is as it was")
        return ENDED_BY_SIGNAL + interrupt.received
    for error in result.errors:
        complain(str(error))
    if not values["quiet"]:
        click.echo(_summary(result), nl=False, err=True)
    return max((error.status for error in result.errors), default=0)


@pipeline.command(cls=Sectioned)
@click.argument("folder", metavar="DIR", shell_complete=folders)
@options(TABLES_OUT)
@click.option(
    "--settle",
    type=Duration(zero=True),
    default="60s",
    show_default=True,
    metavar="TIME",
    help="A capture that was not written for so long is complete, also without a newer one.",
)
@click.option(
    "--drain",
    is_flag=True,
    help="Decode what is there, flush what is open as at the end of a capture, and end.",
)
@click.option(
    "--interval",
    type=DURATION,
    default="2s",
    show_default=True,
    metavar="TIME",
    help="How long to wait before the folder is looked at again.",
)
@click.option(
    "--shards",
    type=Number(1, 4096),
    default=16,
    show_default=True,
    metavar="N",
    help="How many parts connections are dealt to; a folder of tables keeps the number it began with.",
)
@click.option(
    "--checkpoint",
    metavar="DIR",
    shell_complete=folders,
    help="Where open connections are kept if --out is in an object store: a folder of their own.",
)
@options(SPARK, FILTER_OPTIONS, INPUT, SCHEMA, LIMITS)
@refused("--strands", "is gone: say --shards")
@refused("--answers", "is of `pipeline run`: an answer is about a run that is over")
def stream(folder: str, **values: Any) -> int:
    """Decode the captures of a rotating folder into Parquet tables, as they become complete.

    DIR is a folder of rotating captures (tcpdump -G, -C, -W), or its URL. Open connections are carried from one batch
    to the next, and over restarts, even if the process is killed. It ends with Ctrl-C.
    The tables that come with exchanges are made anew once an hour, and by --drain.
    """
    tables = _chosen("--tables", values["tables"], TABLES)
    settings = dict(_setting(text) for text in values["conf"])
    make_filter(values)
    if values["keylog"]:
        usage(lambda: KeyLogFile(values["keylog"]))
    names = usage(lambda: topicnames.load_topic_names(values["topic_names"])) if values["topic_names"] else {}
    sparksession.check()
    from kinspect.spark.storage import check_checkpoint, check_out, everywhere, listing, shown
    from kinspect.spark.streaming.query import Stream
    from kinspect.spark.streaming.streamsource import StreamOptions

    check_out(values["out"], values["table_format"])
    check_checkpoint(values["out"], values["checkpoint"])
    listing(folder)
    request = _request(tables, names, values, late_secrets=values["keylog"] is not None)
    watch = StreamOptions(
        folder=everywhere(folder),
        settle=values["settle"] / NS_PER_SECOND,
        interval=values["interval"] / NS_PER_SECOND,
        shards=values["shards"],
        keylog=values["keylog"] or "",
        caps=request.caps,
    )
    progress = wanted(values["progress"])
    step = _step if progress and not values["quiet"] else lambda _: None
    # Failed reads are tried again.
    master = _master(values["master"], "local[*,4]")
    with _session(master, settings, progress, step) as spark, Interrupt() as interrupt, _lost_with(interrupt):
        running = Stream(
            spark,
            watch,
            values["out"],
            request,
            complain,
            values["table_format"],
            values["checkpoint"],
        )
        step(f"watching {shown(folder)}")
        rows = dict.fromkeys(tables, 0)
        # A wait for the JVM must not be interrupted: each is a short one.
        with closing(running.batches(values["drain"])) as batches:
            for batch in batches:
                if batch is not None:
                    rows = {name: count + batch.rows.get(name, 0) for name, count in rows.items()}
                    step(_batch_line(batch))
                if interrupt.received:
                    break
    if not values["quiet"]:
        for line in _stream_summary(running.summary(), rows):
            click.echo(line, err=True)
    if interrupt.received:
        return ENDED_BY_SIGNAL + interrupt.received
    return running.status


@pipeline.command()
@click.argument("folder", metavar="DIR", shell_complete=folders)
@click.option(
    "--keep",
    type=DURATION,
    default="168h",
    show_default=True,
    metavar="TIME",
    help="Versions since so long ago can still be read; in whole hours, upwards.",
)
@click.option("--dry-run", is_flag=True, help="Print what would go, and delete nothing.")
def vacuum(folder: str, keep: int, dry_run: bool) -> None:
    """Delete files that tables need no more: what runs replaced in Delta Lake, and what killed ones left.

    DIR is the folder --out of runs or of a stream, on a disk or s3://, that nobody writes to meanwhile. It prints a
    path below DIR a line.
    """
    if "://" in folder:
        need(DELTA, "pipeline vacuum")
        from kinspect.spark.objectfolder import ObjectFolder
        from kinspect.spark.storage import check_out, is_object_store, shown

        if not is_object_store(folder):
            raise KinspectError(f"{shown(folder)}: is no folder on a disk or in s3://, which vacuum takes")
        check_out(folder, DELTA)
        found = ObjectFolder(folder).vacuum(keep, dry_run)
    else:
        from kinspect.tables.vacuum import vacuum as delete_old

        found = delete_old(folder, keep, dry_run)
    for path in found:
        click.echo(printable(path))


def _batch_line(batch: Any) -> str:
    """A line about a batch."""
    rows = ", ".join(f"{count:,} {name}" for name, count in batch.rows.items())
    captures, packets = counted(batch.captures, "capture"), counted(batch.packets, "packet")
    return f"batch {batch.number}: {captures}, {packets}, {rows}"


def _stream_summary(summary: dict[str, Any], rows: dict[str, int]) -> list[str]:
    """Lines on the input since the stream began, and on the rows written by this run."""
    kinds = summary.get("connections", {})
    captures, packets, exchanges, gaps = (
        counted(summary.get(f"{thing}s", 0), thing) for thing in ("capture", "packet", "exchange", "gap")
    )
    closed = f"{counted(sum(kinds.values()), 'connection')} closed ({kinds.get('kafka', 0):,} Kafka)"
    lines = [f"since it began: {captures}, {packets}, {closed}, {exchanges}, {gaps}"]
    lines += [f"  {name}: {counted(count, 'row')} written now" for name, count in rows.items()]
    lines += [f"  {text}: {summary[key]:,}" for key, text in LOSSES.items() if summary.get(key)]
    lines += [
        f"  cap {cap}: hit {counted(hits, 'time')}"
        for cap, hits in sorted(summary.get("caps_hit", {}).items())
    ]
    return lines


def _request(tables: tuple[str, ...], names: dict[str, str], values: dict[str, Any], **more: Any) -> Request:
    """The request that the options make. Raises KinspectError for options that make no sense."""
    from kinspect.tables.request import Request

    return Request(
        tables,
        view=make_view({**values, **LINES_ALONE, "records": False, "int64": "number"}),
        chosen={name: values[name] for name in FILTERS if values[name]},
        names=names,
        kafka_ports=frozenset(values["decode_as"]),
        hosts=given_hosts(values),
        caps=make_caps(values),
        capture_point=values["capture_point"],
        **more,
    )


def _master(given: str | None, local: str) -> str | None:
    """The master that is asked for; None: the one that spark-submit gave."""
    return given or (None if "MASTER" in os.environ else local)


def _check_there(paths: list[str]) -> None:
    """Raise CaptureError for a path that names nothing. On a cluster only its hosts know."""
    from kinspect.spark.storage import is_url, shown

    for path in paths:
        if not is_url(path) and not os.path.exists(path):
            raise CaptureError(f"{shown(path)}: no such file")


def _chosen(option: str, text: str, known: Collection[str]) -> tuple[str, ...]:
    """The names that an option has, separated by commas."""
    names = tuple(dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip()))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise click.UsageError(
            f"{option}: {unknown[0] if unknown else text!r} is not one of {', '.join(known)}"
        )
    return names


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--conf: {text!r} is not a setting, as spark.executor.memory=4g is")
    return name, value


@contextmanager
def _session(
    master: str | None, settings: dict[str, str], bar: bool, step: Callable[[str], None]
) -> Iterator[AnySparkSession]:
    """A session in which errors of Spark become errors of kinspect."""
    # kinspect reports an interruption itself; PySpark would log its place too.
    logging.getLogger().addHandler(logging.NullHandler())
    step("starting Spark")
    spark = None
    try:
        spark = sparksession.open_session(master, settings, bar)
        yield spark
    except Exception as error:
        from kinspect.spark.failure import raised_by_spark

        known = raised_by_spark(error)
        if known is None:
            raise
        raise known from error
    finally:
        if spark is not None:
            # It may have ended already.
            with suppress(Exception):
                spark.stop()


@contextmanager
def _lost_with(interrupt: Interrupt) -> Iterator[None]:
    """Context in which a JVM that a signal ended, as one to all processes of a service does, is no error."""
    try:
        yield
    except KinspectError:
        raise
    except Exception:
        if not interrupt.received:
            raise


def _unless(interrupt: Interrupt, spark: AnySparkSession, work: Callable[[], T]) -> T | None:
    """The result of `work`; None if a signal ended it. A KinspectError of `work` is raised also after a signal."""
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            failed.append(error)

    # A wait for the JVM must not be interrupted.
    thread = Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(INTERVAL_SECONDS)
        if interrupt.received:
            with _lost_with(interrupt):
                spark.sparkContext.cancelAllJobs()
    if failed and (not interrupt.received or isinstance(failed[0], KinspectError)):
        raise failed[0]
    return done[0] if done else None


def _step(text: str) -> None:
    click.echo(f"kinspect: {text}", err=True)


def _summary(result: Any) -> str:
    """The closing summary: input read and rows written."""
    unread = sum(error.unread for error in result.errors)
    tally = Tally(unread=unread, unknown=result.summary["unknown_to_filters"])
    rows = [
        f"  {name}: {counted(result.rows[name], 'row')}, dates {', '.join(dates) or 'none'}\n"
        for name, dates in result.dates.items()
        if name in result.rows
    ]
    rows += [f"  {name}: no room for {count:,} more\n" for name, count in result.left_out.items() if count]
    return summary_text(result.summary, tally) + "".join(rows)
