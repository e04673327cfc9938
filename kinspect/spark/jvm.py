"""What PySpark has no public way to, each with the reason: no other module uses its private names."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as Classic


def shuffled_once(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """The rows of `frame` in the session `spark`, shuffled by this call and never again.

    Two actions on a DataFrame plan two shuffles; two actions on its RDD read the files of one. The call runs the
    shuffle because the session of `frame` executes adaptively. The public ways, `persist` and `localCheckpoint`, write
    the shuffled rows to disk once more.
    """
    rows = frame._jdf.queryExecution().toRdd()
    return Classic(spark._jsparkSession.internalCreateDataFrame(rows, frame._jdf.schema(), False), spark)


def hadoop(spark: SparkSession) -> tuple[Any, Any]:
    """Hadoop's package of file systems, and the session's settings of them: PySpark itself only reads and writes
    tables there."""
    return spark._jvm.org.apache.hadoop.fs, spark._jsc.hadoopConfiguration()


def atomic_files(spark: SparkSession, root: Any, settings: Any) -> Any:
    """What makes a file of a folder appear at once, and whole, as a stream's checkpoints do: Hadoop has no such call,
    and each file system another way."""
    checkpoints = spark._jvm.org.apache.spark.sql.execution.streaming.checkpointing
    return checkpoints.CheckpointFileManager.create(root, settings)
