"""Rows of files of tables, read by tasks: in stores that Spark itself does not know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession

from kinspect.spark.decodepass import Task
from kinspect.spark.schemas import spark_schema
from kinspect.spark.storage import Target, system_of
from kinspect.tables.arrowcolumns import DATE


def rows_of(spark: SparkSession, target: Target, paths: list[str], schema: pa.Schema) -> DataFrame:
    """Rows of the files of a table."""
    files = spark.createDataFrame([(path,) for path in paths], "path string").repartition(len(paths))
    return files.mapInArrow(_reading(target, schema), spark_schema(schema))


def _reading(target: Target, schema: pa.Schema) -> Task:
    def task(found: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        system = system_of(target)
        dates = ds.partitioning(pa.schema([(DATE, pa.date32())]), flavor="hive")
        for batch in found:
            for path in batch.column(0).to_pylist():
                file = ds.dataset(
                    [f"{target.path}/{path}"],
                    schema,
                    "parquet",
                    system,
                    dates,
                    partition_base_dir=target.path,
                )
                yield from file.to_batches()

    return task
