"""Lines without bodies, with bodies as text, without nulls: nothing else changes, and a path has one type."""

import json
from pathlib import Path

import contract
import pytest
from jsonschema_rs import Draft202012Validator
from support.decoded import keylog_beside
from support.schemas import strict

from kinspect.api import read
from kinspect.errors import CaptureError, KinspectError
from kinspect.kafka.view.view import View

ROOT = Path(__file__).parents[2]
CAPTURES = [*sorted((ROOT / "captures").rglob("*.pcap*")), *sorted((ROOT / "tests").rglob("trust/*.pcap*"))]
SOME = [*CAPTURES[::6], ROOT / "captures/variants/loss_one.pcap.gz"]
"""With one that has gaps, whichever captures are added."""
SIDES = ("request", "response")
EVERYTHING = ["--emit", "exchange,connection,gap,summary", "-q"]


def lines(result):
    return [json.loads(line) for line in result.out.splitlines()]


def read_all(path):
    keylog = keylog_beside(path)
    try:
        yield from read(path, keylog=keylog if keylog.exists() else b"")
    except CaptureError:
        return


def without_bodies(line):
    return {
        **line,
        **{
            side: line[side] and {key: value for key, value in line[side].items() if key != "body"}
            for side in SIDES
        },
    }


def types(value, path, found):
    """Notes the JSON type of each path below the value; null is no type, a list is what it holds."""
    if isinstance(value, dict):
        found.setdefault(path, set()).add("object")
        for key, item in value.items():
            types(item, f"{path}.{key}", found)
    elif isinstance(value, list):
        for item in value:
            types(item, path, found)
    elif value is not None:
        kind = "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value)
        found.setdefault(path, set()).add(kind)


@pytest.mark.big
@pytest.mark.parametrize("paths", [SOME, pytest.param(CAPTURES, marks=pytest.mark.big)], ids=["some", "all"])
def test_a_path_has_one_type(paths):
    texts, nones, found = View(body="text"), View(body="none"), {}
    count = 0
    for path in paths:
        for exchange in read_all(path):
            whole, text, none = (json.loads(json.dumps(v.exchange(exchange))) for v in (View(), texts, nones))
            count += 1
            assert none == without_bodies(whole)
            assert without_bodies(text) == none
            for side in SIDES:
                if whole[side] is not None:
                    shown = text[side]["body"]
                    assert (None if shown is None else json.loads(shown)) == whole[side]["body"]
            types(text, "", found)
            types(none, "", found)
    assert count > 50 * len(paths)
    assert [path for path, kinds in found.items() if len(kinds) > 1] == []


def test_lines_of_all_types_have_one_type_a_path(kinspect):
    found = {}
    for path in SOME:
        for line in lines(kinspect("read", path, *EVERYTHING, "--body", "none")):
            types(line, line["type"], found)
    assert {path for path in found if "." not in path} > {"exchange", "connection", "summary"}
    assert [path for path, kinds in found.items() if len(kinds) > 1] == []


def test_no_nulls(kinspect):
    path = ROOT / "captures" / "4.4.0" / "errors_java.pcap.gz"
    whole, few = (lines(kinspect("read", path, *EVERYTHING, *more)) for more in ([], ["--no-nulls"]))

    def left(value):
        if isinstance(value, dict):
            kept = {
                key: item if key == "body" else left(item) for key, item in value.items() if item is not None
            }
            return {key: item for key, item in kept.items() if key == "body" or item not in (None, [], {})}
        return [left(item) for item in value] if isinstance(value, list) else value

    assert few == [left(line) for line in whole]
    assert any(None in line["request"]["body"].values() for line in few if line["type"] == "exchange")
    assert any(line != short for line, short in zip(whole, few, strict=True))
    assert few[-1]["kernel_drops"] == 0 if whole[-1]["kernel_drops"] == 0 else "kernel_drops" not in few[-1]


def test_no_nulls_have_their_schema(kinspect):
    validators = {name: Draft202012Validator(strict(f"{name}-no-nulls")) for name in contract.LINES}
    seen = set()
    for path in SOME:
        for line in lines(kinspect("read", path, *EVERYTHING, "--no-nulls")):
            validators[line["type"]].validate(line)
            seen.add(line["type"])
            refused = ({**line, "schema_version": None}, {**line, "event_id": []}, {"type": line["type"]})
            assert not any(map(validators[line["type"]].is_valid, refused))
    assert seen == {"exchange", "connection", "gap", "summary"}


def test_with_fields(kinspect):
    path = ROOT / "captures" / "4.4.0" / "nano.pcap"
    asked = "api,client.principal,request.body.topics.name"

    def shown(*options):
        return lines(kinspect("read", path, "-q", "--api", "Metadata", "--fields", asked, *options))

    plain, text, few = shown(), shown("--body", "text"), shown("--no-nulls")
    assert plain
    for line, as_text, short in zip(plain, text, few, strict=True):
        assert json.loads(as_text["request"]["body"]) == line["request"]["body"]
        assert short == {"api": "Metadata", "request": line["request"]}
        assert line["client"] == {"principal": None}
    found = kinspect("read", path, "--fields", asked, "--body", "none")
    assert (found.status, found.out) == (2, "")
    assert "request.body" in found.err
    whole = lines(kinspect("read", path, "-q", "--fields", "request", "--body", "none"))
    assert all("body" not in line["request"] and line["request"]["size"] for line in whole)


def test_with_processes(kinspect):
    path = ROOT / "captures" / "4.4.0" / "groups_classic.pcap.gz"
    options = [*EVERYTHING, "--body", "text", "--no-nulls"]
    assert kinspect("read", path, *options, "--jobs", 2).out == kinspect("read", path, *options).out


def test_text_is_harmless_once_it_is_read(exchanges):
    (exchange,) = exchanges((12, 0, {"group_id": "g\x9b\u202e", "generation_id": 1, "member_id": "m"}, None))
    shown = exchange.to_dict(View(body="text"))["request"]["body"]
    assert shown.isprintable()
    assert json.loads(shown)["group_id"] == "g\x9b\u202e"


def test_python():
    path = ROOT / "captures" / "4.4.0" / "nano.pcap"
    for exchange in read(path, body="none"):
        assert "body" not in exchange.to_dict()["request"]
        assert exchange.request.body is not None
    with pytest.raises(KinspectError, match="body"):
        read(path, body="xml")
