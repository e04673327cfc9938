"""Rows of `--format csv`, against the JSON lines of the same exchanges."""

import csv
import io
import json

import pytest
from support.captures import CAPTURES

from kinspect.api import read
from kinspect.kafka.view.view import View
from kinspect.output.csvlines import COLUMNS, CsvRows

ERRORS = CAPTURES / "4.4.0" / "errors_java.pcap.gz"
OWN = ("request.body.topics.name", "api", "client.ip")


def rows(text):
    return [*csv.DictReader(io.StringIO(text, newline=""))]


def text_of(value):
    return "" if value is None else json.dumps(value) if isinstance(value, bool) else str(value)


def test_cells_hold_the_values_of_lines(kinspect):
    found = rows(kinspect("read", ERRORS, "-q", "--format", "csv").out)
    lines = [json.loads(line) for line in kinspect("read", ERRORS, "-q").out.splitlines()]
    assert len(found) == len(lines)
    for row, line in zip(found, lines, strict=True):
        assert tuple(row) == COLUMNS
        for path, cell in row.items():
            key, _, below = path.partition(".")
            value = (line[key] or {}).get(below) if below else line[key]
            values = value if isinstance(value, list) else [value]
            assert cell == ";".join(map(text_of, values)), path


@pytest.mark.parametrize("more", [(), ("--jobs", "2")])
def test_fields_are_columns_in_their_order(kinspect, more):
    text = kinspect("read", ERRORS, "-q", "--format", "csv", *more, *("--fields", ",".join(OWN))).out
    assert text.splitlines()[0] == ",".join(OWN)
    assert ("pcerr-missing", "Metadata", "127.0.0.1") in [tuple(row.values()) for row in rows(text)]


def test_what_anybody_may_write_is_no_formula():
    exchange = next(iter(read(ERRORS)))
    exchange.client_id = "=1+1"
    assert CsvRows(View(fields=("client.id", "client"))).exchange(exchange).startswith(b"'=1+1,ip=127.0.0.1;")


def test_a_file_that_is_gone_on_with_keeps_its_columns(kinspect, tmp_path):
    out = tmp_path / "all.csv"
    once = kinspect("read", ERRORS, "-q", "--format", "csv").out
    for _ in range(2):
        assert kinspect("read", ERRORS, "-q", "--format", "csv", "-o", out, "--append").status == 0
    assert out.read_text().splitlines() == [*once.splitlines(), *once.splitlines()[1:]]
    other = kinspect("read", ERRORS, "-q", "--format", "csv", "-o", out, "--append", "--fields", "api")
    assert other.status == 2
    assert "a file of the same columns" in other.err
