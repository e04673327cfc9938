"""Arrow schemas as Spark's."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types

from kinspect.tables.columns import COMMENTS

_SIMPLE: dict[pa.DataType, types.DataType] = {
    pa.string(): types.StringType(),
    pa.binary(): types.BinaryType(),
    pa.bool_(): types.BooleanType(),
    pa.int32(): types.IntegerType(),
    pa.int64(): types.LongType(),
    pa.float64(): types.DoubleType(),
    pa.timestamp("us", tz="UTC"): types.TimestampType(),
    pa.date32(): types.DateType(),
}


def spark_schema(schema: pa.Schema) -> types.StructType:
    """The same columns, all of which may be null, with what they mean beside them."""
    return types.StructType([_field(field) for field in schema])


def _field(field: pa.Field) -> types.StructField:
    comment = COMMENTS.get(field.name)
    metadata = None if comment is None else {"comment": comment}
    return types.StructField(field.name, _type(field.type), metadata=metadata)


def _type(kind: pa.DataType) -> types.DataType:
    if pa.types.is_struct(kind):
        return types.StructType([_field(field) for field in kind])
    if pa.types.is_list(kind):
        return types.ArrayType(_type(kind.value_type))
    return _SIMPLE[kind]
