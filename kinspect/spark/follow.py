"""`kinspect.spark.stream`: a stream that a thread of this process makes, and its tables as streaming DataFrames."""

from __future__ import annotations

import os
import threading
import warnings
from typing import TYPE_CHECKING

from pyspark.sql import types

from kinspect.errors import KinspectError
from kinspect.spark.folders import BY_DATE, BY_DATE_AND_API, from_folders
from kinspect.spark.run import CaptureWarning
from kinspect.spark.schemas import spark_schema
from kinspect.spark.storage import is_url
from kinspect.spark.streaming import Settings, Stream
from kinspect.spark.tables import open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RUNNING: dict[str, Follower] = {}
"""By the folder they write to, the streams of this process."""
_COLUMNS = {"date": types.DateType(), "api": types.StringType()}


class Follower:
    """A stream and the thread that makes it."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self.settings = settings
        self.failure: BaseException | None = None
        self._spark = spark
        self._stream = Stream(spark, settings, _warn)
        self._stops = threading.Event()
        self._thread = threading.Thread(
            target=self._follow, name=f"kinspect stream {settings.out}", daemon=True
        )
        self._thread.start()

    def table(self, name: str) -> DataFrame:
        """A table, as it grows."""
        opened = open_table(name, None, self.settings.view)
        written = spark_schema(opened.schema)
        by = BY_DATE_AND_API if "api" in opened.schema.names else BY_DATE
        kept = [field for field in written if field.name not in by]
        schema = types.StructType([*kept, *(types.StructField(column, _COLUMNS[column]) for column in by)])
        return from_folders(self._spark.readStream.schema(schema).parquet(self._stream.make(name)))

    def stop(self) -> None:
        """Ends it after the batch at hand. What it carries stays for the next one."""
        self._stops.set()
        self._thread.join()

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def _follow(self) -> None:
        try:
            for _ in self._stream.batches():
                if self._stops.is_set():
                    return
        except BaseException as error:
            self.failure = error
            if self._spark.sparkContext._jsc is not None:  # else the session was stopped, and this with it
                _warn(f"the stream of {self.settings.folder} ended: {error}")


def follow(spark: SparkSession, settings: Settings) -> Follower:
    """The stream that writes to `settings.out`, begun if there is none in this process.

    Raises KinspectError if one with other settings does.
    """
    place = settings.out if is_url(settings.out) else os.path.abspath(settings.out)
    there = _RUNNING.get(place)
    if there is not None and there.runs:
        if there.settings != settings:
            raise KinspectError(f"{settings.out}: a stream with other settings writes to it")
        return there
    _RUNNING[place] = made = Follower(spark, settings)
    return made


def _warn(text: str) -> None:
    warnings.warn(text, CaptureWarning, stacklevel=2)
