"""Captures as Spark DataFrames: `kinspect.spark.read(spark, ["captures/*.pcap"], table="exchanges")`.

Needs the extra `kinspect[spark]` and Java 17 or later. docs/spark.md says how to run it on a cluster.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kinspect.model import Caps

__all__ = ["read", "stream"]


def read(
    spark: SparkSession,
    paths: str | PathLike[str] | Sequence[str | PathLike[str]],
    table: str = "exchanges",
    fields: Collection[str] | None = None,
    filter: Mapping[str, Any] | None = None,
    *,
    records: bool = False,
    payload: str = "none",
    show_secrets: bool = False,
    int64: str = "number",
    keylog: str | PathLike[str] | bytes = b"",
    topic_names: dict[str, str] | None = None,
    decode_as: frozenset[int] = frozenset(),
    caps: Caps | None = None,
    capture_point: str | None = None,
    partitions: int | None = None,
    split_bytes: int | None = None,
) -> DataFrame:
    """The rows of `table` (`exchanges`, `batches`, `records`, `connections`) of one or several captures.

    The rows are the lines `kinspect read` prints for the same captures in the same order of names; sorted by
    the column `completion` they are in its order. Bodies are JSON text; `timestamp_ns` has nanoseconds since the
    epoch, `timestamp` microseconds.

    `paths`: local paths, globs and URLs (`s3://`, `hdfs://`, ...); every executor must be able to read them.
    `fields`: what `--fields` takes for exchanges, column names for the other tables. `filter`: the options of
    `kinspect.filters.Filter` by name: `{"topic": ["orders-*"], "errors_only": True}`. `records`, `payload`,
    `show_secrets`, `int64`: as the options of `kinspect read`. `keylog`: TLS secrets in NSS key log format (their
    bytes, or a file's path). `partitions`: tasks that decode, by default one for 64 MiB, and up to three a core of at
    least 2 MiB each. `split_bytes`: how much of an uncompressed capture a task scans, by default 64 MiB. In runs of
    more than 1.2 TiB both have more: a 20,000th of the run.

    At once the captures are scanned, and, unless `connections` are asked for, decoded for what they tell each other of
    topic ids and nodes; the rows are made when they are used. What was scanned stays on the executors' disks until the
    session ends. For what a lost executor had Spark reads captures again: leave them as they are until then.

    Raises `KinspectError` for options that make no sense, and warns (`CaptureWarning`) of captures that could not be
    read to their end.
    """
    from kinspect.kafka.view.view import View
    from kinspect.spark.batch import Captures, CaptureWarning
    from kinspect.spark.request import Request
    from kinspect.tables.names import EXCHANGES

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
    )
    captures = Captures(
        spark,
        [fspath(path) for path in ([paths] if isinstance(paths, str | PathLike) else paths)],
        caps=caps,
        keylog=keylog if isinstance(keylog, bytes) else Path(keylog).read_bytes(),
        split_bytes=split_bytes,
        partitions=partitions,
    )
    for error in captures.errors:
        warnings.warn(str(error), CaptureWarning, stacklevel=2)
    return captures.decoded(request).where(f"{table} is not null").select(f"{table}.*")


def stream(
    spark: SparkSession,
    folder: str | PathLike[str],
    table: str = "exchanges",
    filter: Mapping[str, Any] | None = None,
    *,
    settle: float = 60.0,
    records: bool = False,
    payload: str = "none",
    show_secrets: bool = False,
    keylog: str | PathLike[str] | None = None,
    topic_names: dict[str, str] | None = None,
    decode_as: frozenset[int] = frozenset(),
    caps: Caps | None = None,
    capture_point: str | None = None,
    shards: int = 16,
) -> DataFrame:
    """The rows of `table` of the captures in a rotating folder, as they become complete: a streaming DataFrame.

    Where a query writes them, how often and from which checkpoint it goes on is the query's; it fails if the stream
    does. Its state lies in RocksDB, which is set for the session, in as many tasks as `spark.sql.shuffle.partitions`.

    `settle`: seconds after which a file that is not written any more is complete. `filter`, `records`, `payload`,
    `show_secrets`, `topic_names`, `decode_as`, `caps`, `capture_point` as for `read`; `keylog`: a file of TLS secrets
    on the driver, read again for each micro-batch. `shards`: how many parts connections are dealt to, once and for all
    of a checkpoint; what one connection tells of topic ids and nodes counts for those of its shard.

    Raises `KinspectError` for options that make no sense.
    """
    from kinspect.kafka.view.view import View
    from kinspect.model import Caps as DefaultCaps
    from kinspect.spark.batch import tries_of
    from kinspect.spark.request import Request
    from kinspect.spark.storage import everywhere
    from kinspect.spark.streaming.query import frame
    from kinspect.spark.streaming.source import Watch

    request = Request(
        (table,),
        view=View(records=records, payload=payload, show_secrets=show_secrets),
        chosen=dict(filter or {}),
        names=topic_names or {},
        kafka_ports=decode_as,
        caps=caps or DefaultCaps(),
        capture_point=capture_point,
        late_secrets=keylog is not None,
    )
    tries, secrets = tries_of(spark), fspath(keylog or "")
    watch = Watch(
        everywhere(fspath(folder)), settle, shards=shards, tries=tries, keylog=secrets, caps=request.caps
    )
    return frame(spark, watch, request).where(f"{table} is not null").select(f"{table}.*")
