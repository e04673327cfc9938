"""docs/cookbook.md: each statement gives the answer that stands there, in DuckDB and in Spark SQL.

PYTHONPATH=tests .venv/bin/python tests/spark/test_cookbook.py TABLES    # writes the answers anew
"""

import sys
from importlib import import_module
from pathlib import Path

import pytest
from support.questions import answer_anew, questions, shown

from kinspect.tables.tablenames import answer_table

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/cookbook.md"
CAPTURES = ROOT / "captures/2.8.2"
ANSWERS = ("topics", "groups", "errors")
VIEWS = (
    *("exchanges", "batches", "connections", "errors", "client_versions"),
    *map(answer_table, ANSWERS),
)


def by_duckdb(out):
    duckdb = import_module("duckdb").connect()
    duckdb.execute("set timezone = 'UTC'")
    for view in VIEWS:
        duckdb.execute(f"create view {view} as from '{out}/{view}/**/*.parquet'")

    def answer(statement):
        found = duckdb.execute(statement)
        return shown([column[0] for column in found.description], found.fetchall())

    return answer


@pytest.fixture(scope="module")
def out(spark, tmp_path_factory):
    job = import_module("kinspect.spark.job")
    out = tmp_path_factory.mktemp("cookbook")
    paths = [str(path) for path in sorted(CAPTURES.glob("*.pcap*"))]
    job.run(spark, job.Job(paths, str(out), job.Request(answers=ANSWERS)), lambda _: None)
    return out


def test_there_are_enough_of_them():
    assert len(questions(PAGE)) >= 15
    assert all(len(answer) >= 2 for _, _, answer in questions(PAGE))


def test_in_duckdb(out):
    answer = by_duckdb(out)
    for title, statement, lines in questions(PAGE):
        assert answer(statement) == lines, title


def test_in_spark(spark, out):
    session = import_module("kinspect.spark.sparksession").own_session(spark)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for view in VIEWS:
        session.read.parquet(str(out / view)).createOrReplaceTempView(view)
    for title, statement, lines in questions(PAGE):
        found = session.sql(statement)
        assert shown(found.columns, found.collect()) == lines, title


if __name__ == "__main__":
    answer_anew(PAGE, by_duckdb(sys.argv[1]))
