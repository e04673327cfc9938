"""Arrow schemas as Spark's."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StructField, StructType

from kinspect.tables.columns import COMMENTS


def spark_schema(schema: pa.Schema) -> StructType:
    """The same columns, all of which may be null, with comments."""
    return StructType(
        [
            StructField(
                field.name,
                from_arrow_type(field.type),
                metadata={"comment": COMMENTS[field.name]} if field.name in COMMENTS else None,
            )
            for field in schema
        ]
    )
