"""How the rows of a table lie in folders: by date, and by API."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.functions import coalesce, col, lit, nullif, to_date

BY_DATE = ("date",)
BY_DATE_AND_API = ("date", "api")
UNKNOWN_API = "unknown"
"""The folder of rows whose API has no name: not everything can read the one that Spark makes for null."""


def into_folders(rows: DataFrame) -> tuple[DataFrame, tuple[str, ...]]:
    """Rows with what their folders are named by, and those columns."""
    dated = rows.withColumn("date", to_date("timestamp"))
    if "api" not in rows.columns:
        return dated, BY_DATE
    return dated.withColumn("api", coalesce("api", lit(UNKNOWN_API))), BY_DATE_AND_API


def from_folders(rows: DataFrame) -> DataFrame:
    """The rows as they were, with the column `date`."""
    return rows.withColumn("api", nullif(col("api"), lit(UNKNOWN_API))) if "api" in rows.columns else rows
