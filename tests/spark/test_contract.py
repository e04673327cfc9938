"""Columns of aggregates, which only Spark knows, are those of `docs/schema/keys.csv`; `make docs` has the others."""

import csv
from importlib import import_module

import contract
import pytest

from kinspect.tables.arrowcolumns import schema_of

pytestmark = pytest.mark.tools


def test_columns_of_aggregates_stay(spark):
    types = import_module("pyspark.sql.pandas.types")
    spark_schema = import_module("kinspect.spark.schemas").spark_schema
    exchanges = spark.createDataFrame([], spark_schema(schema_of("exchanges", None)))
    made = []
    for name, query in import_module("kinspect.tables.aggregates").QUERIES.items():
        rows = spark.sql(query.replace("FROM exchanges", "FROM {exchanges}"), exchanges=exchanges)
        columns = contract.fields(types.to_arrow_schema(rows.schema, timezone="UTC"))
        made += [("aggregate", name, *column) for column in columns]
    with (contract.ROOT / "docs" / contract.KEYS).open(newline="") as file:
        found = [tuple(row[:4]) for row in csv.reader(file) if row[0] == "aggregate"]
    assert made == found
