"""The two things that tests of answers compare."""

import json

import pytest


@pytest.fixture
def lines(kinspect):
    """The lines of `kinspect read`."""

    def lines(*arguments):
        text = kinspect("read", "--format", "jsonl", "-q", *arguments).out
        return [json.loads(line) for line in text.splitlines()]

    return lines


@pytest.fixture
def answer_rows(kinspect):
    """The rows of an answer; none where nothing could be read."""

    def rows(name, *arguments):
        text = kinspect(name, "--format", "json", *arguments).out
        return json.loads(text)["rows"] if text else []

    return rows
