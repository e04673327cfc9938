"""`kinspect pipeline`: captures to tables, on Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from kinspect.cli import complain, topicnames
from kinspect.cli.options import (
    FILTER_NAMES,
    FILTERS,
    INPUT,
    LIMITS,
    Sectioned,
    make_caps,
    make_filter,
    make_view,
    options,
    usage,
)
from kinspect.errors import CaptureError, KinspectError, TruncatedCaptureError
from kinspect.spark import session

TABLES = ("exchanges", "batches", "records", "connections")
DEFAULT_TABLES = "exchanges,batches,connections"
UNREADABLE, CUT = 1, 3


@click.group()
def pipeline() -> None:
    """Decode many captures into Parquet tables, on Apache Spark.

    It needs Java 17 or newer and the extra: pip install 'kinspect[spark]'.
    """


@pipeline.command(cls=Sectioned)
@click.argument("captures", metavar="CAPTURE...", nargs=-1, required=True)
@click.option("--out", metavar="DIR", required=True, help="Where the tables go: a folder or a URL.")
@click.option(
    "--tables",
    default=DEFAULT_TABLES,
    show_default=True,
    metavar="NAMES",
    help=f"Which of {', '.join(TABLES)}.",
)
@click.option("--master", metavar="URL", help="The Spark master.  [default: local[*]]")
@click.option(
    "--way",
    type=click.Choice(["fast", "plain"]),
    default="fast",
    show_default=True,
    help="fast: decode packets where they are read; plain: sort them by connection first. The rows are the same.",
)
@click.option("--conf", multiple=True, metavar="K=V", help="A setting of Spark; repeatable.")
@click.option(
    "--payload",
    type=click.Choice(["none", "text", "base64", "hex"]),
    default="none",
    help="Keep records' keys and values; none: their sizes only.",
)
@click.option("--show-secrets", is_flag=True, help="Keep passwords, tokens and the like.")
@click.option("-q", "--quiet", is_flag=True, help="No summary.")
@click.option("--progress/--no-progress", default=None, help="Show how far the job is.")
@options(FILTERS, INPUT, LIMITS)
def run(captures: tuple[str, ...], **values: Any) -> int:
    """Decode captures into Parquet tables, a folder each, with a folder for each date (UTC) and API in it.

    CAPTURE is a path, a glob or a URL that every executor can read. Dates that the captures tell of are replaced as
    a whole in the tables that are there; other dates stay as they are. With exchanges come latency_by_minute,
    topic_clients, client_versions and errors.
    """
    tables = _tables(values["tables"])
    settings = dict(_setting(text) for text in values["conf"])
    make_filter(values)
    keylog = usage(lambda: _bytes(values["keylog"])) if values["keylog"] else b""
    names = usage(lambda: topicnames.load(values["topic_names"])) if values["topic_names"] else {}
    session.check()
    from kinspect.spark.job import Job
    from kinspect.spark.job import run as run_job

    job = Job(
        captures=captures,
        out=values["out"],
        tables=tables,
        caps=make_caps(values),
        view=make_view({**values, "fields": (), "records": False, "int64": "number"}),
        filter={name: values[name] for name in FILTER_NAMES if values[name]},
        keylog=keylog,
        names=names,
        kafka_ports=frozenset(values["decode_as"]),
        way=values["way"],
    )
    progress = sys.stderr.isatty() if values["progress"] is None else values["progress"]
    spark = session.open_session(values["master"], settings, progress)
    try:
        result = run_job(spark, job, _step if progress else lambda _: None)
    finally:
        spark.stop()
    for error in result.errors:
        complain(str(error))
    if not values["quiet"]:
        for line in _summary(result):
            click.echo(line, err=True)
    return max(map(_status, result.errors), default=0)


def _tables(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip()))
    unknown = [name for name in names if name not in TABLES]
    if unknown or not names:
        raise click.UsageError(
            f"--tables: {unknown[0] if unknown else text!r} is not one of {', '.join(TABLES)}"
        )
    return names


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--conf: {text!r} is not a setting, as spark.executor.memory=4g is")
    return name, value


def _bytes(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KinspectError(f"{path}: {error.strerror or error}") from None


def _step(text: str) -> None:
    click.echo(f"kinspect: {text}", err=True)


def _summary(result: Any) -> list[str]:
    """What was read and written, as lines."""
    summary = result.summary
    kinds = summary["connections"]
    lines = [
        f"{len(summary['files']):,} captures, {summary['packets']:,} packets, {sum(kinds.values()):,} connections"
        f" ({kinds['kafka']:,} Kafka), {summary['exchanges']:,} exchanges, {summary['gaps']:,} gaps"
    ]
    lines += [
        f"  {name}: {result.rows[name]:,} rows, dates {', '.join(dates) or 'none'}"
        for name, dates in result.dates.items()
        if name in result.rows
    ]
    lines += [f"  cap {cap}: hit {hits:,} times" for cap, hits in summary["caps_hit"].items()]
    return lines


def _status(error: CaptureError) -> int:
    return CUT if isinstance(error, TruncatedCaptureError) else UNREADABLE
