"""docs/recipes/duckdb: all lines are read, sums are right, and each statement gives the answer that stands there.

PYTHONPATH=tests:tools .venv/bin/python tests/recipes/test_duckdb.py LINES    # writes the answers anew
"""

import sys
from importlib import import_module

import pytest
from recipes.programs import RECIPES
from recipes.sums import FIGURES, rows, sums
from support.questions import answer_anew, questions, shown

pytestmark = pytest.mark.tools

PAGE = RECIPES / "duckdb.md"


def connect():
    database = import_module("duckdb").connect()
    database.execute("set timezone = 'UTC'")
    database.execute((RECIPES / "duckdb/kinspect.sql").read_text("utf-8"))
    return database


def answerer(path):
    """Answers statements from the lines of a file."""
    database = connect()
    database.execute(f"create table exchanges as from kafka_lines('{path}')")

    def answer(statement):
        found = database.execute(statement)
        return shown([column[0] for column in found.description], found.fetchall())

    return answer


@pytest.mark.parametrize("body", ["json", "text", "none"])
def test_all_lines_are_read(lines_of, body):
    path = lines_of("--body", body)
    database = connect()
    database.execute(f"create table every as from kafka_lines('{path}')")
    assert database.execute("select count(*) from every").fetchone() == (path.read_bytes().count(b"\n"),)
    database.execute("create table exchanges as select distinct on (event_id, timestamp) * from every")
    figures = FIGURES.format(nanoseconds="epoch_ns")
    assert database.execute(f"select {figures} from exchanges").fetchone() == sums(
        rows(path, "event_id", "timestamp")
    )


def test_the_answers_of_the_page(lines_of_page):
    answer = answerer(lines_of_page("--body", "text"))
    asked = questions(PAGE)
    assert len(asked) == 4
    for question in asked:
        assert answer(question.statement) == question.answer, question.title


if __name__ == "__main__":
    answer_anew(PAGE, answerer(sys.argv[1]))
