"""JSON lines follow the schemas in docs/schema."""

import json
import re
import subprocess
from importlib import import_module
from itertools import islice, permutations
from pathlib import Path

import contract
import pytest
from jsonschema_rs import Draft202012Validator, meta
from support.schemas import SCHEMAS, schema, strict
from support.shares import one_in

from kinspect.analysis import telemetryrows
from kinspect.answers import comparison
from kinspect.api import read
from kinspect.checks import wirerule
from kinspect.kafka.view import batchrows
from kinspect.kafka.view.view import LINE_KEYS, SCHEMA_VERSION, View
from kinspect.model import PROBLEM_CODES
from kinspect.output.tally import Tally
from kinspect.pipeline import Inspector

ROOT = Path(__file__).parents[2]
CAPTURES = [
    path
    for path in sorted((ROOT / "captures").glob("*/*.pcap*"))
    if path.parent.name != "not-kafka" and path.name != "cutfile.pcap"
]
NAMES = sorted(path.name.split(".")[0] for path in SCHEMAS.glob("*.json"))
FIELDS = "api,client.id,request.body,response.errors,problems.code,error_names"


ROW_CAPTURES = [
    f"captures/{name}"
    for name in (
        "4.1.2/txn_java.pcap.gz",
        "4.4.0/nano.pcap",
        "4.4.0/share.pcap.gz",
        "0.10.0.1/message-format-downconv.pcap.gz",
    )
]
DIFFERENT = ("captures/2.8.2/controller-2brokers.pcap.gz", "captures/3.9.2/cluster_zk.pcap.gz")
DECODED = ["--schema-registry", "tests/payloads/data/schemas.jsonl"]


def validator(name):
    return Draft202012Validator(strict(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_schemas_are_valid_and_have_a_version(name):
    found = schema(name)
    meta.validate(found)
    kind = next((kind for kind, names in contract.OBJECTS.items() if name in names), None)
    assert found["$id"] == f"urn:kinspect:schema:{name}:{contract.VERSIONS[kind or 'line']}"
    if kind is not None:
        assert found["required"] == list(found["properties"])


@pytest.mark.parametrize("name", NAMES)
def test_lines_of_later_minor_versions_are_valid(name):
    """No object refuses keys that it does not name."""
    assert "additionalProperties" not in json.dumps(schema(name))


def test_major_versions_are_those_of_the_lines():
    majors = {kind: int(version.split(".")[0]) for kind, version in contract.VERSIONS.items()}
    answers = import_module("kinspect.answers.answerobject").SCHEMA_VERSION
    assert majors == {
        "line": SCHEMA_VERSION,
        "row": SCHEMA_VERSION,
        "table": SCHEMA_VERSION,
        "aggregate": SCHEMA_VERSION,
        "difference": answers,
        "rule": 1,
        "answer": answers,
    }


def test_a_key_that_goes_or_changes_its_type_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "ROOT", tmp_path)
    path = tmp_path / "docs" / contract.KEYS
    path.parent.mkdir(parents=True)
    path.write_text(text := contract.keys_file())
    assert contract.keys_file() == text
    for gone in ("line,exchange,nope,string,2.0", "table,exchanges,api,int64,2.0"):
        path.write_text(f"{text}{gone}\n")
        with pytest.raises(SystemExit, match=f"{gone.replace(',', ' ')[:-4]} is gone, or has another type"):
            contract.keys_file()
    new = text.replace("line,exchange,api,null|string,2.0\n", "")
    path.write_text(new)
    monkeypatch.setitem(contract.VERSIONS, "line", "2.1")
    assert contract.keys_file() == text.replace(
        "line,exchange,api,null|string,2.0", "line,exchange,api,null|string,2.1"
    )


def test_a_line_has_the_schemas_keys_in_their_order():
    assert list(schema("exchange")["properties"]) == list(LINE_KEYS)


def test_problem_codes():
    assert set(schema("exchange")["$defs"]["problem"]["properties"]["code"]["enum"]) == PROBLEM_CODES


@pytest.mark.parametrize("path", one_in(6, CAPTURES), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_projected_lines_of_real_captures(path):
    """Whole ones are validated where all captures are read."""
    lax, view = validator("exchange-fields"), View(fields=FIELDS.split(","))
    for exchange in islice(read(path), 20):
        lax.validate(json.loads(json.dumps(view.exchange(exchange))))


@pytest.mark.parametrize(
    ("name", "keys", "command"),
    [
        ("record", batchrows.KEYS, ["records", *ROW_CAPTURES, "--payload", "json", "--control"]),
        pytest.param(
            "record",
            batchrows.KEYS,
            ["records", "tests/payloads/data/orders.pcap", "--payload", "auto", *DECODED],
            marks=pytest.mark.big,
        ),
        ("telemetry", telemetryrows.KEYS, ["telemetry", "captures/4.3.1/telemetry.pcap.gz"]),
        ("rule", wirerule.KEYS, ["check", "captures/3.6.2/txn_java.pcap.gz", "--rules", "docs/rules.toml"]),
        *(("difference", comparison.KEYS, ["diff", *sides]) for sides in permutations(DIFFERENT, 2)),
    ],
)
def test_rows_follow_their_schema(kinspect, name, keys, command):
    assert tuple(schema(name)["properties"]) == keys
    strictly = validator(name)
    rows = kinspect(*command, "-q", "--format", "jsonl").out.splitlines()
    assert len(rows) > 5
    for row in rows:
        strictly.validate(json.loads(row))


def test_what_the_schema_refuses(exchanges):
    (exchange,) = exchanges(
        (12, 0, {"group_id": "g", "generation_id": 1, "member_id": "m"}, {"error_code": 0})
    )
    line = exchange.to_dict()
    strict = validator("exchange")
    assert strict.is_valid(line)
    assert not strict.is_valid({**line, "extra": 1})
    assert not strict.is_valid({key: value for key, value in line.items() if key != "api"})
    assert not strict.is_valid({**line, "topics": None})
    assert not strict.is_valid({**line, "request": {**line["request"], "extra": 1}})
    assert Draft202012Validator(schema("exchange")).is_valid({**line, "extra": 1})


def test_the_summary_of_the_pipeline():
    summary = Tally().completed(Inspector(files=["a.pcap"]).summary())
    validator("summary").validate(summary)
    assert list(summary) == list(schema("summary")["properties"])


@pytest.mark.tools
def test_old_lines_are_read_as_the_page_says():
    """The programs of docs/schema-2.md, with jq."""
    page = (ROOT / "docs" / "schema-2.md").read_text()
    first, second = re.findall(r"```sh\njq (?:-c )?'(.*?)'", page, re.DOTALL)
    summary = Tally().completed(Inspector(files=["a.pcap"]).summary())
    new = {**summary, "caps_hit": [{"name": "a b", "count": 1}, {"name": "c", "count": 2}]}
    changed = json.loads(re.search(r"\.(\[.*?\])", first)[1])
    old = {**new, **{key: {each["name"]: each["count"] for each in new[key]} for key in changed}}
    assert jq(first, {**old, "schema_version": 1}) == new
    assert jq(first, new) == new
    assert jq(first, {"type": "gap", "schema_version": 1}) == {"type": "gap", "schema_version": 1}
    assert jq(second, new) == old["caps_hit"]
    assert jq(second, {"caps_hit": []}) == {}


def jq(program, line):
    found = subprocess.run(
        ["jq", program], input=json.dumps(line), capture_output=True, text=True, check=True
    )
    return json.loads(found.stdout)
