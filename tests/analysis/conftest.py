"""The two things that tests of answers compare."""

import orjson
import pytest
from support.answered import objects_of
from support.captures import CAPTURES


def of_the_repository(arguments):
    """Whether these are options and a capture that no test changes."""
    return CAPTURES in getattr(arguments[-1], "parents", ())


@pytest.fixture
def lines(kinspect, kept, every_line):
    """The lines of `kinspect read`."""

    def lines(*arguments):
        if len(arguments) == 1 and of_the_repository(arguments):
            return [line for line in every_line(*arguments) if line["type"] == "exchange"]

        def text():
            return kinspect("read", "--format", "jsonl", "-q", *arguments).out

        told = kept.text(text, "lines", *arguments) if of_the_repository(arguments) else text()
        return [orjson.loads(line) for line in told.splitlines()]

    return lines


@pytest.fixture
def answer_rows(kinspect, kept):
    """The rows of an answer; none where nothing could be read. Captures of the repository are read once for all."""

    def rows(name, *arguments):
        if len(arguments) == 1 and of_the_repository(arguments):
            told = kept.text(lambda: rows_of_all_answers(arguments[0]), "answers", *arguments)
            return orjson.loads(told)[name]
        text = kinspect(name, "--format", "json", *arguments).out
        return orjson.loads(text)["rows"] if text else []

    return rows


@pytest.fixture
def all_answers():
    """The rows of each answer by its name, of a capture that is read once."""
    return lambda path: orjson.loads(rows_of_all_answers(path))


def rows_of_all_answers(path):
    """The rows of each answer, of a capture that is read once."""
    return orjson.dumps({name: found["rows"] for name, found in objects_of(path).items()}).decode()
