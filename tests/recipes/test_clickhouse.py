"""docs/recipes/clickhouse: all lines are taken, none twice, and each statement gives the answer that stands there.

PYTHONPATH=tests:tools .venv/bin/python tests/recipes/test_clickhouse.py LINES    # writes the answers anew
"""

import json
import sys
from contextlib import closing
from importlib import import_module

import pytest
from recipes.programs import RECIPES
from recipes.sums import FIGURES, rows, sums
from support.questions import answer_anew, questions, shown

pytestmark = pytest.mark.tools

PAGE = RECIPES / "clickhouse.md"
CREATE, INSERT = (
    (RECIPES / "clickhouse" / name).read_text("utf-8") for name in ("kinspect.sql", "insert.sql")
)


class Server:
    """ClickHouse in this process, with the recipe's table."""

    def __init__(self):
        self._session = import_module("chdb.session").Session()
        self._session.query(f"create database d; use d; {CREATE}")

    def insert(self, path):
        """What the client does with the statement and the file at its standard input."""
        assert INSERT.startswith("INSERT INTO kafka_exchanges\n")
        self._session.query(INSERT.replace("\n", f"\nFROM INFILE '{path}' ", 1))

    def ask(self, statement):
        """Names of columns, and rows."""
        found = self._session.query(statement, "JSONCompactEachRowWithNames")
        names, *values = map(json.loads, str(found).splitlines())
        return names, values

    def answer(self, statement):
        return shown(*self.ask(statement))

    def close(self):
        self._session.close()


@pytest.fixture
def server():
    with closing(Server()) as started:
        yield started


@pytest.mark.parametrize("body", ["json", "text", "none"])
def test_all_lines_are_taken_and_none_twice(lines_of, server, body):
    path = lines_of("--body", body)
    figures = FIGURES.format(nanoseconds="toUnixTimestamp64Nano")
    for _ in range(2):
        server.insert(path)
        _, (found,) = server.ask(f"select {figures} from kafka_exchanges final")
        assert tuple(found) == sums(rows(path, "event_id", "timestamp"))


def test_the_answers_of_the_page(lines_of_page, server):
    server.insert(lines_of_page("--body", "text"))
    asked = questions(PAGE)
    assert len(asked) == 4
    for question in asked:
        assert server.answer(question.statement) == question.answer, question.title


def main(path):
    with closing(Server()) as started:
        started.insert(path)
        answer_anew(PAGE, started.answer)


if __name__ == "__main__":
    main(sys.argv[1])
