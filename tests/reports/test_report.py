"""`kinspect report`: a page that stands alone, has what the answers have, and runs nothing that a capture says."""

import gzip
import json
import re
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path

import html5lib
import pytest
from support.shares import one_in

from kinspect.analysis.answer import ResultContext
from kinspect.analysis.overtime import SLOTS_MOST, OverTime
from kinspect.answers import answers
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.output import Style
from kinspect.reports.page import page

CAPTURES = Path(__file__).parents[2] / "captures"
TXN = CAPTURES / "4.1.2" / "txn_java.pcap.gz"
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg onload=alert(3)>{{7*7}}\x1b[31m"
)


class Elements(HTMLParser):
    """Elements of a page, with their attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


@lru_cache(maxsize=4)
def tree_of(text):
    """The elements of a page; do not change them."""
    return html5lib.parse(text, namespaceHTMLElements=False)


def cells(text, section):
    """The rows of a section's table, as texts of cells."""
    found = tree_of(text).find(f".//section[@id='{section}']")
    return [["".join(cell.itertext()) for cell in row] for row in found.iter("tr")]


@pytest.fixture
def written(kinspect, tmp_path):
    def write(*arguments):
        out = tmp_path / "report.html"
        made = kinspect("report", *arguments, "-o", out, "-q", "--utc", "--force")
        assert made.status == 0, made.err
        return out.read_text("utf-8")

    return write


def rows(kinspect, answer, *arguments):
    return json.loads(kinspect(answer, *arguments, "--format", "json", "-q").out)["rows"]


def test_the_page_is_valid_and_asks_nothing_of_a_network(written):
    text = written(TXN)
    html5lib.HTMLParser(strict=True).parse(text)
    elements = Elements(text).found
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for tag, attributes in elements:
        assert tag not in {"link", "iframe", "object", "embed", "base", "form", "img"}
        for name in ("href", "src", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")
        named = {*attributes.get("aria-labelledby", "").split()}
        assert named <= {*ids}
    assert not re.search(r"https?:|@import|url\((?!#)", text)
    assert "default-src 'none'" in text


def test_it_has_the_rows_of_each_answer(written, kinspect):
    text = written(TXN)
    for name, made in answers().items():
        found = made.ordered(rows(kinspect, name, TXN))
        section = "findings" if name == "summary" else f"answer-{name}"
        assert len(cells(text, section)[1:]) == len(found), name
    slots = cells(text, "plots")[1:]
    sums = [sum(int(row[column].replace(",", "")) for row in slots) for column in (1, 3)]
    lines = [json.loads(line) for line in kinspect("read", TXN, "--format", "jsonl", "-q").out.splitlines()]
    messages = [line[side] for line in lines for side in ("request", "response") if line[side] is not None]
    assert sums == [len(lines), sum(message["size"] for message in messages)]


@pytest.mark.big
def test_the_matrix_has_the_records_of_topics(written, kinspect):
    clients, *topics = cells(written(TXN), "matrix")
    found = {
        (topic, client): text
        for topic, *each in topics
        for client, text in zip(clients[1:], each, strict=True)
    }
    for row in rows(kinspect, "topics", TXN):
        assert f"{row['records']} {row['direction']}d" in found[row["topic"], row["client_id"]]


@pytest.mark.big
def test_several_processes_and_filters_make_the_same_page_as_one(written):
    plain = written(TXN)
    assert written(TXN, "--jobs", "2") == plain
    assert "Produce" in plain
    assert "only what passes" not in plain
    asked = written(TXN, "--client-id", "<b>*", "--api", "Produce", "--min-latency", "1ms", "--no-twins")
    told = ("--api Produce", "--client-id &lt;b&gt;*", "--min-latency 1ms", "--no-twins")
    assert all(f"<code>{text}</code>" in asked for text in told)
    assert "nothing passes the filter" in written(TXN, "--client-id", "nobody")


@pytest.mark.parametrize("name", one_in(3, ["not-kafka", "tls", "settings"]))
def test_captures_of_all_kinds_have_a_page(written, name):
    found = sorted((CAPTURES / name).rglob("*.pcap*"))[0]
    html5lib.HTMLParser(strict=True).parse(written(found))


@pytest.mark.big
def test_a_filter_that_passes_nothing_is_no_capture_without_kafka(written, kinspect, tmp_path):
    told = kinspect("report", TXN, "--client-id", "nobody", "-o", tmp_path / "told.html").err
    assert told.startswith("kinspect: no exchange passes --client-id; client ids there are: ")
    text = written(TXN, "--client-id", "nobody")
    assert "<p>nothing passes the filter</p>" in text
    assert "no Kafka" not in text


@pytest.mark.big
def test_a_redacted_page_has_no_name_of_the_capture(written, kinspect):
    errors = CAPTURES / "4.4.0" / "errors_java.pcap.gz"
    plain, redacted = written(errors), written(errors, "--redact")
    found = rows(kinspect, "topics", errors)
    names = {row[key] for row in found for key in ("topic", "client_id")} - {None}
    assert names
    for name in {*names, errors.name}:
        assert name in plain
        assert name not in redacted
    for section in ("findings", "answer-topics", "answer-errors", "answer-groups"):
        assert len(cells(redacted, section)) == len(cells(plain, section)), section
    assert "2 connections under way at the start" in redacted
    # Folders are this machine's.
    assert "redacted.pcapng" in redacted
    assert "/redacted.pcapng" not in redacted
    assert str(errors.parent) not in plain
    chosen = written(errors, "--redact", "--client-id", sorted(names - {row["topic"] for row in found})[0])
    assert "connections in which no exchange passes --client-id" in chosen
    assert len(cells(chosen, "answer-clients")) < len(cells(plain, "answer-clients"))


@pytest.mark.big
def test_a_page_that_cannot_be_redacted_is_not_written(kinspect, tmp_path):
    out = tmp_path / "report.html"
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(gzip.decompress(TXN.read_bytes())[:-5])
    made = kinspect("report", damaged, "--redact", "-o", out, "-q")
    assert made.status == kinspect("report", damaged, "-o", "-", "-q").status != 0
    assert "kinspect report" in out.read_text("utf-8")
    assert [each.name for each in tmp_path.iterdir() if each.is_dir()] == []
    assert kinspect("report", tmp_path / "none", "--redact", "-o", tmp_path / "no.html").status == 1
    assert not (tmp_path / "no.html").exists()


def test_hostile_names_are_texts(kinspect):
    found = [json.loads(kinspect(name, TXN, "--format", "json", "-q").out) for name in answers()]
    for each in found:
        if each["answer"] in ("topics", "summary", "clients"):
            each["rows"] = [
                {**row, **{key: HOSTILE for key in ("topic", "client_id", "text", "command") if key in row}}
                for row in each["rows"]
            ]
        each["capture"] = {**each["capture"], "files": [HOSTILE], "incomplete": [HOSTILE]}
    text = page(found, [], Style(utc=True), "1")
    html5lib.HTMLParser(strict=True).parse(text)
    assert HOSTILE.split("\x1b", maxsplit=1)[0] not in text
    assert "\x1b" not in text
    assert "{{7*7}}" in text
    elements = Elements(text).found
    assert [tag for tag, _ in elements].count("script") == 1
    assert not [name for _, attributes in elements for name in attributes if name.startswith("on")]


@pytest.mark.big
def test_what_would_be_overwritten_or_is_not_asked_for_is_told(kinspect, tmp_path):
    assert "-o FILE says" in kinspect("report", TXN).err
    out = tmp_path / "report.html"
    out.write_text("mine")
    assert kinspect("report", TXN, "-o", out).status == 2
    assert kinspect("report", tmp_path / "none", "-o", out, "--force").status == 1
    assert out.read_text() == "mine"
    assert kinspect("report", TXN, "-o", "-", "-q").out.startswith("<!doctype html>")


def connection(begin, end):
    line = {"kind": "kafka", "timestamp": f"2026-01-01T00:{begin}.000000000Z"}
    return {**line, "completed_at": f"2026-01-01T00:{end}.000000000Z"}


def test_slots_become_longer_and_merge_in_any_order():
    spans = [("00:00", "00:01"), ("00:30", "59:00"), ("10:00", "40:00"), ("58:00", "59:59")]

    def counted(lines):
        found = OverTime()
        for line in lines:
            found.add_connection(connection(*line))
        return found

    whole = counted(spans).result(ResultContext(LearnedNames()))
    assert SLOTS_MOST / 2 <= len(whole) <= SLOTS_MOST
    assert max(row["connections"] for row in whole) == 2
    for first in (spans[:1], spans[1:], spans[2:]):
        rest = [span for span in spans if span not in first]
        for one, other in ((first, rest), (rest, first)):
            merged = OverTime.from_bytes(counted(one).to_bytes())
            merged.merge(OverTime.from_bytes(counted(other).to_bytes()))
            assert merged.result(ResultContext(LearnedNames())) == whole
