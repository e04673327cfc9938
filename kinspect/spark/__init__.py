"""Captures as Spark DataFrames, and answers: `kinspect.spark.read(spark, "captures/*/*.pcap", table="exchanges")`.

Needs the extra `kinspect[spark]` and Java 17 or later. docs/spark.md says how to run it on a cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kinspect.filters.filterdefinitions import Filters
    from kinspect.model import Caps
    from kinspect.spark.batch import Captures

__all__ = ["answer", "read", "stream"]

Paths: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]


def read(
    spark: SparkSession,
    paths: Paths,
    table: str = "exchanges",
    fields: Collection[str] | None = None,
    filter: Filters | None = None,
    *,
    records: bool = False,
    payload: str = "none",
    show_secrets: bool = False,
    int64: str = "number",
    keylog: str | PathLike[str] | bytes = b"",
    topic_names: dict[str, str] | None = None,
    names: dict[str, str] | None = None,
    decode_as: frozenset[int] = frozenset(),
    caps: Caps | None = None,
    schema: str | PathLike[str] | None = None,
    capture_point: str | None = None,
    partitions: int | None = None,
    split_bytes: int | None = None,
) -> DataFrame:
    """Rows of a table of one or several captures, as a DataFrame with the columns that docs/spark.md lists.

    The rows are the lines that `kinspect read` prints for the same captures in the same order of names; the column
    `completion` sorts them into its order. Bodies are JSON text; `timestamp_ns` is in nanoseconds since the epoch.

    `paths`: local paths, globs and URLs (`s3://`, `hdfs://`, …) that every executor can read. `table`: `exchanges`,
    `batches`, `records` or `connections`. `fields`: dotted names as for `--fields` for exchanges, column names for the
    other tables. `filter`: filters by name, as `{"topic": ["orders-*"], "errors_only": True}`. `records`, `payload`,
    `show_secrets`, `int64`: the options of `kinspect read`. `keylog`: TLS secrets in NSS key log format (the bytes, or
    a file's path). `topic_names`: topic id to name. `names`: address, or address and port, to name; those in captures
    do not count. `decode_as`: ports whose traffic is Kafka whatever it looks like. `caps`: limits for each connection.
    `schema`: message definitions, a file or a folder on the driver, for the whole process, as for `kinspect.read`.
    `capture_point`: value of the column of that name. `partitions`: number of tasks that decode; default: one for each
    64 MiB, and up to three a core of at least 2 MiB each. `split_bytes`: bytes of an uncompressed capture that a task
    scans; default: 64 MiB. Above 1.2 TiB of captures tasks get more bytes, so that they are 20,000 at most.

    The call scans the captures and, unless `table` is `connections`, decodes them once to learn topic names and node
    ids. Rows are made when they are used. Scanned packets stay on the executors' disks until the session ends. To
    replace those of a lost executor, Spark reads captures again: leave them unchanged until then.

    Tasks on this machine run the Python that calls, unless `PYSPARK_PYTHON` says otherwise.

    Raises `KinspectError` for invalid options, for a glob without matches, for a pipe or device, for a session of Spark
    Connect and for tasks whose Python lacks kinspect; warns (`CaptureWarning`) of each capture that was not read to its
    end.
    """
    from kinspect.api import use_schema
    from kinspect.capture.hostfiles import host_names
    from kinspect.kafka.view.view import View
    from kinspect.spark.sparksession import usable
    from kinspect.tables.request import Request
    from kinspect.tables.tablenames import EXCHANGES

    use_schema(schema)
    request = Request(
        (table,),
        None if fields is None else tuple(fields),
        View(
            records=records,
            payload=payload,
            show_secrets=show_secrets,
            int64=int64,
            fields=fields if table == EXCHANGES else None,
        ),
        dict(filter or {}),
        topic_names or {},
        decode_as,
        capture_point=capture_point,
        hosts=host_names(names or {}),
    )
    captures = _scanned(
        usable(spark), paths, caps=caps, keylog=keylog, split_bytes=split_bytes, partitions=partitions
    )
    return captures.decoded(request).where(f"{table} is not null").select(f"{table}.*")


def answer(
    spark: SparkSession,
    paths: Paths,
    name: str,
    *,
    filter: Filters | None = None,
    keylog: str | PathLike[str] | bytes = b"",
    topic_names: dict[str, str] | None = None,
    names: dict[str, str] | None = None,
    decode_as: frozenset[int] = frozenset(),
    caps: Caps | None = None,
    schema: str | PathLike[str] | None = None,
    partitions: int | None = None,
    split_bytes: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """The object that `kinspect.answer(name, paths, **options)` returns: `answer(spark, "*.pcap", "topics")["rows"]`.

    `name`: one of docs/answers.md; `options`: those of the answer's own. All others are as for `read`.

    The tasks that decode also count; other tasks merge what they counted, and the driver makes the rows of it.

    Raises `KinspectError` as `read` does, for an answer that there is not, and for a capture that changed meanwhile;
    warns (`CaptureWarning`) of each capture that was not read to its end.
    """
    from pyspark import StorageLevel

    from kinspect.api import own_options, use_schema
    from kinspect.capture.hostfiles import host_names
    from kinspect.spark.sparksession import own_session, usable
    from kinspect.tables.request import Request

    use_schema(schema)
    request = Request(
        (),
        chosen=dict(filter or {}),
        names=topic_names or {},
        kafka_ports=decode_as,
        hosts=host_names(names or {}),
        answers=(name,),
        options=own_options(name, options, keylog),
    )
    own = own_session(usable(spark))
    captures = _scanned(own, paths, caps=caps, keylog=keylog, split_bytes=split_bytes, partitions=partitions)
    decoded = captures.decoded(request).persist(StorageLevel.DISK_ONLY)
    try:
        summary, _ = captures.summary(decoded)
        (found,) = captures.answers(decoded, request, summary)
    finally:
        decoded.unpersist()
    captures.check()
    return found


def _scanned(
    spark: SparkSession, paths: Paths, *, keylog: str | PathLike[str] | bytes, **options: Any
) -> Captures:
    """Captures of a caller of this module, scanned; warns of those that were not read to their end."""
    from pyspark.errors import PySparkException

    from kinspect.spark.batch import Captures, CaptureWarning
    from kinspect.spark.failure import raised_in_task

    given = [paths] if isinstance(paths, str | PathLike) else paths
    secrets = keylog if isinstance(keylog, bytes) else Path(keylog).read_bytes()
    try:
        captures = Captures(spark, [fspath(path) for path in given], keylog=secrets, **options)
    except PySparkException as error:
        raise raised_in_task(error) or error from error
    for unread in captures.errors:
        warnings.warn(str(unread), CaptureWarning, stacklevel=3)
    return captures


def stream(
    spark: SparkSession,
    folder: str | PathLike[str],
    table: str = "exchanges",
    filter: Filters | None = None,
    *,
    settle: float = 60.0,
    records: bool = False,
    payload: str = "none",
    show_secrets: bool = False,
    keylog: str | PathLike[str] | None = None,
    topic_names: dict[str, str] | None = None,
    names: dict[str, str] | None = None,
    decode_as: frozenset[int] = frozenset(),
    caps: Caps | None = None,
    schema: str | PathLike[str] | None = None,
    capture_point: str | None = None,
    shards: int = 16,
) -> DataFrame:
    """Rows of a table of the captures in a rotating folder, as files become complete: a streaming DataFrame.

    The query decides on output, trigger and checkpoint, and fails if the stream does. Its state is kept in RocksDB,
    which is set for the session, by `spark.sql.shuffle.partitions` tasks.

    `folder`: a local path or URL. `settle`: seconds without a change after which a file is complete. `shards`: number
    of parts that connections are dealt to, fixed by the checkpoint; topic names and node ids that a connection reports
    count for its shard. `keylog`: path of a key log (TLS secrets in NSS format) on the driver, read again for each
    micro-batch. The other options are those of `read`.

    Raises `KinspectError` for invalid options, and for a session of Spark Connect.
    """
    from kinspect.api import use_schema
    from kinspect.capture.hostfiles import host_names
    from kinspect.kafka.view.view import View
    from kinspect.model import Caps as DefaultCaps
    from kinspect.spark.datasource import CaptureSource
    from kinspect.spark.sparksession import tries_of, usable
    from kinspect.spark.storage import everywhere
    from kinspect.spark.streaming.query import frame
    from kinspect.spark.streaming.streamsource import StreamOptions
    from kinspect.tables.request import Request

    use_schema(schema)
    request = Request(
        (table,),
        view=View(records=records, payload=payload, show_secrets=show_secrets),
        chosen=dict(filter or {}),
        names=topic_names or {},
        kafka_ports=decode_as,
        hosts=host_names(names or {}),
        caps=caps or DefaultCaps(),
        capture_point=capture_point,
        late_secrets=keylog is not None,
    )
    tries, secrets = tries_of(usable(spark)), fspath(keylog or "")
    watch = StreamOptions(
        everywhere(fspath(folder)), settle, shards=shards, tries=tries, keylog=secrets, caps=request.caps
    )
    # Found by its name, it would run the Python that the JVM was started with.
    spark.dataSource.register(CaptureSource)
    return frame(spark, watch, request).where(f"{table} is not null").select(f"{table}.*")
