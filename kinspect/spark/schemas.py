"""Arrow schemas as Spark's."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructType

from kinspect.tables.arrowcolumns import COMMENTS
from kinspect.tables.tablenames import TABLES

ROW_METADATA = "org.apache.spark.sql.parquet.row.metadata"
"""Key of a Parquet file's metadata in which Spark has its schema of the columns."""


def spark_schema(schema: pa.Schema, comments: Mapping[str, str] = COMMENTS) -> StructType:
    """Spark's schema of the same columns, all nullable, with comments by name, also in the structs of tables."""
    found = StructType()
    for field in schema:
        comment = {"comment": comments[field.name]} if field.name in comments else None
        is_table = field.name in TABLES and pa.types.is_struct(field.type)
        kind = spark_schema(field.type) if is_table else from_arrow_type(field.type)
        found.add(field.name, kind, metadata=comment)
    return found


def file_metadata(schema: pa.Schema, comments: Mapping[str, str] = COMMENTS) -> dict[str, str]:
    """Metadata of a Parquet file of such columns, from which Spark has their comments."""
    return {ROW_METADATA: spark_schema(schema, comments).json()}
