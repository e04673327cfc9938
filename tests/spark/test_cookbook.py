"""docs/cookbook.md: each statement gives the answer that stands there, in DuckDB and in Spark SQL.

.venv/bin/python tests/spark/test_cookbook.py TABLES    # writes the answers anew
"""

import re
import sys
from decimal import Decimal
from importlib import import_module
from pathlib import Path

import pytest

from kinspect.tables.names import answer_table

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/cookbook.md"
CAPTURES = ROOT / "captures/2.8.2"
QUESTION = re.compile(r"## ([^\n]+)\n\n```sql\n(.+?)```\n((?:\n\|[^\n]*)*\n?)", re.DOTALL)
ANSWERS = ("topics", "groups", "errors")
VIEWS = (
    *("exchanges", "batches", "connections", "errors", "client_versions"),
    *map(answer_table, ANSWERS),
)


def questions():
    """Title, statement, and the lines of the answer."""
    return [
        (title, statement, [line for line in answer.splitlines() if line])
        for title, statement, answer in QUESTION.findall(PAGE.read_text("utf-8"))
    ]


def shown(names, rows):
    """An answer as lines of the page."""
    table = [[*names], ["---"] * len(names), *([_text(value) for value in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in table]


def _text(value):
    if value is None:
        return "–"
    if isinstance(value, float | Decimal):
        return f"{float(value):.3f}".rstrip("0").rstrip(".")
    return value.strftime("%Y-%m-%d %H:%M") if hasattr(value, "strftime") else str(value)


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
    assert len(questions()) >= 15
    assert all(len(answer) >= 2 for _, _, answer in questions())


def test_in_duckdb(out):
    answer = by_duckdb(out)
    for title, statement, lines in questions():
        assert answer(statement) == lines, title


def test_in_spark(spark, out):
    session = import_module("kinspect.spark.session").own_session(spark)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for view in VIEWS:
        session.read.parquet(str(out / view)).createOrReplaceTempView(view)
    for title, statement, lines in questions():
        found = session.sql(statement)
        assert shown(found.columns, found.collect()) == lines, title


def main(out):
    answer = by_duckdb(out)

    def with_answer(found):
        title, statement, _ = found.groups()
        return f"## {title}\n\n```sql\n{statement}```\n\n" + "\n".join(answer(statement)) + "\n"

    PAGE.write_text(QUESTION.sub(with_answer, PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
