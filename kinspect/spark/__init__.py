"""Captures as Spark DataFrames: `kinspect.spark.read(spark, ["captures/*.pcap"], table="exchanges")`.

Needs the extra `kinspect[spark]` and Java 17 or later. docs/spark.md says how to run it on a cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kinspect.model import Caps

__all__ = ["read", "stream"]


def read(
    spark: SparkSession,
    paths: str | Sequence[str],
    table: str = "exchanges",
    fields: Collection[str] | None = None,
    filter: Mapping[str, Any] | None = None,
    *,
    records: bool = False,
    payload: str = "none",
    show_secrets: bool = False,
    int64: str = "number",
    keylog: bytes = b"",
    topic_names: dict[str, str] | None = None,
    decode_as: frozenset[int] = frozenset(),
    caps: Caps | None = None,
    partitions: int | None = None,
    split_bytes: int | None = None,
    way: str = "fast",
) -> DataFrame:
    """The rows of `table` (`exchanges`, `batches`, `records`, `connections`) of one or several captures.

    The rows are the lines `kinspect read` prints for the same captures in the same order of names; sorted by
    the column `completion` they are in its order. Bodies are JSON text; `timestamp_ns` has nanoseconds since the
    epoch, `timestamp` microseconds.

    `paths`: local paths, globs and URLs (`s3://`, `hdfs://`, ...); every executor must be able to read them.
    `fields`: what `--fields` takes for exchanges, column names for the other tables. `filter`: the options of
    `kinspect.filters.Filter` by name: `{"topic": ["orders-*"], "errors_only": True}`. `records`, `payload`,
    `show_secrets`, `int64`: as the options of `kinspect read`. `keylog`: TLS secrets in NSS key log format.
    `way`: with `ahead` every task pairs what comes before its part of the captures, with `relay` tasks decode the
    splits they read and move what is under way between them, with `plain` all segments go to tasks that have whole
    connections; the rows are the same. `fast` is `ahead` on a local master of at most eight cores, otherwise `relay`.
    `partitions`: tasks that decode, by default one for 64 MiB, with `ahead` no more than there are cores.
    `split_bytes`: how much a task reads of an uncompressed capture (`relay` and `plain`).

    A Spark job (with `relay` and `plain` two) runs at once, the rest when the DataFrame is used. Raises
    `KinspectError` for options that make no sense, and warns (`CaptureWarning`) of captures that could not be read to
    their end. With `ahead`, captures that others write to while the rows are used may lack rows where parts meet;
    `kinspect pipeline run` sees that and says so.
    """
    from kinspect.kafka.view import View
    from kinspect.spark.asked import Asked
    from kinspect.spark.run import Run, warn
    from kinspect.spark.splits import SPLIT_BYTES
    from kinspect.spark.tables import EXCHANGES, RECORDS

    asked = Asked(
        table,
        None if fields is None else tuple(fields),
        View(
            records=records or table == RECORDS,
            payload=payload,
            show_secrets=show_secrets,
            int64=int64,
            fields=fields if table == EXCHANGES else None,
        ),
        dict(filter or {}),
        keylog,
        topic_names or {},
        decode_as,
    )
    run = Run(
        spark,
        [paths] if isinstance(paths, str) else paths,
        caps=caps,
        split_bytes=SPLIT_BYTES if split_bytes is None else split_bytes,
        partitions=partitions,
        way=way,
    )
    warn(run.errors)
    return run.table(asked)


def stream(
    spark: SparkSession,
    folder: str,
    table: str = "exchanges",
    filter: Mapping[str, Any] | None = None,
    *,
    out: str | None = None,
    settle: float = 60.0,
    records: bool = False,
    payload: str = "none",
    show_secrets: bool = False,
    keylog: str | None = None,
    topic_names: dict[str, str] | None = None,
    decode_as: frozenset[int] = frozenset(),
    caps: Caps | None = None,
    strands: int = 16,
) -> DataFrame:
    """The rows of `table` of the captures in a rotating folder, as they become complete: a streaming DataFrame.

    A thread of this process does what `kinspect pipeline stream FOLDER --out OUT` does, and the DataFrame reads what
    it writes there, with the columns `date` and, of all but `connections`, `api` at the end. So rows come once, also
    to a query with a checkpoint that is begun again in another process. Asked again with the same `out`, also for
    another table, it is the same stream; it ends with the process, or with its session.

    `out`: a folder or a URL that Spark writes to; by default beside `folder`, with `.kinspect` behind its name.
    `settle`: seconds after which a file that is not written any more is complete. `filter`, `records`, `payload`,
    `show_secrets`, `topic_names`, `decode_as`, `caps` as for `read`; `keylog`: a file of TLS secrets, read again for
    each batch. `strands`: how many tasks share the connections, once and for all of this `out`.

    Raises `KinspectError` for options that make no sense and for an `out` that holds something else; warns
    (`CaptureWarning`) of captures that could not be read, and if the stream had to end.
    """
    from kinspect.kafka.view import View
    from kinspect.model import Caps as DefaultCaps
    from kinspect.spark.follow import follow
    from kinspect.spark.streaming import Settings
    from kinspect.spark.tables import TABLES, open_table

    view = View(records=records, payload=payload, show_secrets=show_secrets)
    open_table(table, None, view)
    settings = Settings(
        folder=folder,
        out=out or f"{folder.rstrip('/')}.kinspect",
        tables=TABLES,
        settle=settle,
        strands=strands,
        caps=caps or DefaultCaps(),
        view=view,
        filter=dict(filter or {}),
        keylog=keylog,
        names=topic_names or {},
        kafka_ports=decode_as,
    )
    return follow(spark, settings).table(table)
