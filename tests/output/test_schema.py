"""JSON lines follow the schemas in docs/schema."""

import json
import re
import subprocess
from itertools import islice
from pathlib import Path

import pytest
from jsonschema_rs import Draft202012Validator, meta

from kinspect.api import read
from kinspect.kafka.view.view import View, source
from kinspect.model import PROBLEM_CODES
from kinspect.output.tally import OPEN_ENDED, Tally
from kinspect.pipeline import Inspector

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "schema"
CAPTURES = [
    path
    for path in sorted((ROOT / "captures").glob("*/*.pcap*"))
    if path.parent.name != "not-kafka" and path.name != "cutfile.pcap"
]
FIELDS = "api,client.id,request.body,response.errors,problems.code,error_names"


def schema(name):
    return json.loads((SCHEMAS / f"{name}.schema.json").read_text())


def validator(name):
    return Draft202012Validator(schema(name))


def without_required(node):
    if isinstance(node, dict):
        return {key: without_required(value) for key, value in node.items() if key != "required"}
    return [without_required(item) for item in node] if isinstance(node, list) else node


@pytest.mark.parametrize("name", sorted(p.name.split(".")[0] for p in SCHEMAS.iterdir()))
def test_the_schemas_are_valid_and_strict(name):
    found = schema(name)
    meta.validate(found)
    assert found["additionalProperties"] is False
    if name != "exchange-fields":
        assert found["required"] == list(found["properties"])


def test_a_line_has_the_schemas_keys_in_their_order():
    assert list(schema("exchange")["properties"]) == list(source().keys)


def test_the_lax_schema_is_the_strict_one_without_required_keys():
    titles = ("$id", "title", "description")
    strict, lax = (
        {k: v for k, v in schema(n).items() if k not in titles} for n in ("exchange", "exchange-fields")
    )
    assert lax == without_required(strict)


def test_problem_codes():
    assert set(schema("exchange")["$defs"]["problem"]["properties"]["code"]["enum"]) == PROBLEM_CODES


@pytest.mark.parametrize("path", CAPTURES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_projected_lines_of_real_captures(path):
    """Whole ones are validated where all captures are read."""
    lax, view = validator("exchange-fields"), View(fields=FIELDS.split(","))
    for exchange in islice(read(path), 20):
        lax.validate(json.loads(json.dumps(view.exchange(exchange))))


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
    counts = {key: value for key, value in new.items() if key in OPEN_ENDED}
    old = {**new, **{key: {each["name"]: each["count"] for each in value} for key, value in counts.items()}}
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
