"""An answer is one module: the one made up here is found by everything that shows answers."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kinspect.tui.keybindings import PAGE_KEYS

CAPTURE = Path(__file__).parents[2] / "captures" / "4.4.0" / "errors_java.pcap.gz"

MODULE = """
from dataclasses import dataclass
from kinspect.analysis.answer import Answer
from kinspect.analysis.record import Record
from kinspect.answers.definition import Definition, Key, OwnOption

@dataclass(slots=True)
class Sizes(Record):
    requests: int = 0
    bytes: int = 0

class MadeUp(Answer):
    def __init__(self, least=None):
        super().__init__()
        self._least = int(least or 0)
        self._sizes = self.records(Sizes)

    def add(self, exchange):
        sizes = self._sizes.of(exchange.api)
        sizes.requests += 1
        sizes.bytes += exchange.request.size if exchange.request else 0

    def result(self, context):
        kept = sorted((key, sizes) for key, sizes in self._sizes.items() if sizes.requests >= self._least)
        return [{"api": api, "sent": {"requests": own.requests, "bytes": own.bytes}} for (api,), own in kept]

ANSWER = Definition(
    MadeUp,
    help="Made up: what is sent, by API.",
    page="Z",
    page_help="what was made up",
    columns=(
        Key("api", "text", "Name of the API", "API", opens="api"),
        Key("sent", "sent", "What was sent", "SENT", lambda sent: f"{sent['requests']} requests"),
    ),
    order="SENT, API",
    options={"least": OwnOption("Least number of requests.", "NUMBER", lambda: ["10", "20"])},
    structs={"sent": "requests long, bytes long"},
    failures={"any": bool},
    nothing="nothing was made up",
    more=lambda file, rows: f"kinspect read {file} --api {rows[0]['api']}",
)
"""
SCRIPT = """
import json, os, sys
import kinspect.answers
kinspect.answers.__path__.append(sys.argv[1])
for command in json.loads(sys.argv[2]):
    print("\\0")
    if isinstance(command, str):
        os.environ.update(_KINSPECT_COMPLETE="bash_complete", COMP_WORDS=command, COMP_CWORD=str(command.count(" ")))
        command = []
    from kinspect.cli import main
    status = main(command)
    print("\\0", status, sep="")
"""
SHOWN = """
import json, sys
import kinspect, kinspect.answers
kinspect.answers.__path__.append(sys.argv[1])
from array import array
from kinspect.output import Style
from kinspect.tables.answertables import table_of
from kinspect.tui.index.answerlines import AnswerLines
from kinspect.tui.index.captures import index
from kinspect.tui.index.counting import count, query_for
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.rowfilter import row_filter
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store
from kinspect.tui.keybindings import ON_LIVE, PAGES
from kinspect.tui.live.livepage import OPENED

store = Store(Inputs([sys.argv[2]]), Spool())
index(store.inputs, store.spool, store.add)
query = query_for(store, OPENED["Z"], array("I", range(store.count)), store.count)
page = count(store.inputs, store.spool, query, lambda _: None).found
lines = AnswerLines(page, Style())
lines.fit(80)
table = table_of("madeup")
found = kinspect.answer("madeup", sys.argv[2])
made = table.rows(found["rows"], "run", None, None)
print(json.dumps({
    "python": found["rows"],
    "page": page["rows"],
    "head": lines.head()[0].plain,
    "filter": row_filter("madeup", page["rows"][0], store.nameless),
    "keys": [[key.key, key.does, key.action] for key in PAGES if "madeup" in key.action],
    "live": ON_LIVE[0].key,
    "table": [{key: row[key] for key in ("api", "sent")} for row in made.to_pylist()],
    "comment": table.comments["sent"],
}))
"""
COMMANDS = {
    "help": ["--help"],
    "help of it": ["madeup", "--help"],
    "table": ["madeup", "--format", "table", "-q", str(CAPTURE)],
    "json": ["madeup", "--format", "json", "-q", str(CAPTURE)],
    "processes": ["madeup", "--format", "json", "-q", "--jobs", "2", str(CAPTURE)],
    "option": ["madeup", "--format", "jsonl", "-q", "--least", "10", "--fail-on", "any", str(CAPTURE)],
    "csv": ["madeup", "--format", "csv", "-q", str(CAPTURE)],
    "its name": "kinspect made",
    "live": "kinspect live --answer topics,made",
    "pipeline": "kinspect pipeline run --answers made",
    "its values": "kinspect madeup --least 2",
}
"""Commands, and lines to complete."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("answers")
    (path / "madeupanswer.py").write_text(MODULE)
    return str(path)


@pytest.fixture(scope="module")
def outputs(folder):
    """Statuses and outputs of the commands, of one process."""
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, folder, json.dumps([*COMMANDS.values()])],
        capture_output=True,
        text=True,
        check=True,
    )
    texts = run.stdout.split("\0\n")[1:]
    parts = [text.removesuffix("\n").rpartition("\0") for text in texts]
    return {name: (int(status), out) for name, (out, _, status) in zip(COMMANDS, parts, strict=True)}


@pytest.fixture(scope="module")
def rows(outputs):
    return json.loads(outputs["json"][1])["rows"]


def test_it_is_a_command(outputs, rows):
    assert "  madeup        Made up: what is sent, by API.\n" in outputs["help"][1]
    assert "--least NUMBER" in outputs["help of it"][1]
    assert rows
    head, *lines = outputs["table"][1].splitlines()
    assert head.split() == ["SENT", "API"]
    assert lines[: len(rows)] == [
        f"{row['sent']['requests']} requests".ljust(13) + row["api"] for row in rows
    ]
    assert lines[-1].startswith("next: kinspect read ")
    assert json.loads(outputs["processes"][1])["rows"] == rows
    assert [*csv.DictReader(io.StringIO(outputs["csv"][1]))] == [
        {"api": row["api"], **{f"sent.{name}": str(value) for name, value in row["sent"].items()}}
        for row in rows
    ]


def test_it_has_options_of_its_own(outputs, rows):
    status, out = outputs["option"]
    many = [row for row in rows if row["sent"]["requests"] >= 10]
    assert [json.loads(line) for line in out.splitlines()] == many
    assert len(many) < len(rows)
    assert status == 4


@pytest.mark.parametrize(
    ("typed", "word"),
    [("its name", "madeup"), ("live", "topics,madeup"), ("pipeline", "madeup"), ("its values", "20")],
)
def test_it_is_completed(outputs, typed, word):
    assert outputs[typed][1] == f"plain,{word}\n"


def test_it_is_a_page_a_table_and_an_answer_in_python(folder, rows):
    command = [sys.executable, "-c", SHOWN, folder, str(CAPTURE)]
    shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert shown["python"] == shown["page"] == shown["table"] == rows
    assert shown["head"].split() == ["SENT", "API"]
    assert shown["filter"] == {"api": rows[0]["api"]}
    assert shown["keys"] == [["Z", "madeup: what was made up", "page('madeup')"]]
    assert shown["live"] == " ".join(["1 … 9", "Z", *(page for page in PAGE_KEYS.values() if page.isalpha())])
    assert shown["comment"] == "What was sent"
