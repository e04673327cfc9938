"""`--max-line`: no line is longer, each is JSON, and what goes first is what the documentation says."""

import json
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect.jsontext import escape_json
from kinspect.kafka.view.forms import no_nulls, text_bodies
from kinspect.kafka.view.view import View
from kinspect.output.ecs import BOOLEAN, DATE, IP, KEPT, KEYS, KEYWORD, LONG, TEXT, EcsTexts
from kinspect.output.jsonl import text
from kinspect.output.linelimit import LEAST_LINE, LEAST_TEXT, MARK, WHOLE, FittedText
from kinspect.protocol import schema as apis

ROOT = Path(__file__).parents[2]
TYPES = ("exchange", "connection", "gap", "summary")
LIMIT = 5000
LONGEST = {"ip": 39, "community_id": 30, "connection_id": 2 * len("[]:65535") + 2 * 39 + len("-@") + 20}
"""Characters of texts with no pattern of their own."""


def schema(name):
    return json.loads((ROOT / "docs" / "schema" / f"{name}.schema.json").read_text())


SCHEMAS = {name: schema(name) for name in TYPES}


def resolved(node, whole):
    while "$ref" in node:
        node = whole["$defs"][node["$ref"].rpartition("/")[2]]
    return node


def options_of(node):
    """The types that a value may have."""
    found = node.get("type", [])
    return [found] if isinstance(found, str) else found


# ---------------------------------------------------------------------- the smallest limit


def largest(node, whole, key=""):
    """Bytes that a value has at most when all was cut that can be."""
    node = resolved(node, whole)
    if "oneOf" in node:
        return max(largest(each, whole, key) for each in node["oneOf"])
    if "const" in node or "enum" in node:
        return max(len(json.dumps(each)) for each in node.get("enum", [node.get("const")]))
    if key == "body":
        return len("null")
    sizes = {
        "integer": 20,
        "number": 24,
        "boolean": 5,
        "null": 4,
        "array": 2,
        "string": 2 + (LONGEST.get(key, 35) if key in WHOLE else LEAST_TEXT),
    }
    return max(members(node, whole) if kind == "object" else sizes[kind] for kind in options_of(node))


def members(node, whole):
    parts = [len(json.dumps(key)) + 1 + largest(each, whole, key) for key, each in node["properties"].items()]
    return sum(parts) + len(parts) - 1 + len("{}")


def test_the_smallest_limit_is_enough_for_each_type():
    sizes = {name: members(whole, whole) + 1 for name, whole in SCHEMAS.items()}
    assert max(sizes.values()) <= LEAST_LINE, sizes


ECS_SIZES = {
    DATE: 32,
    KEYWORD: 2 + LEAST_TEXT,
    TEXT: 2 + LEAST_TEXT,
    LONG: 20,
    BOOLEAN: 5,
    IP: 2 + LONGEST["ip"],
}
"""Bytes that a value of ECS has at most when all was cut that can be."""
ECS_LISTS = {
    *(
        "event.category",
        "event.type",
        "related.ip",
        "related.user",
        "kinspect.topic.name",
        "kinspect.topic.id",
    ),
    *("kinspect.partition", "kinspect.group.id", "kinspect.transactional_id", "kinspect.error.codes"),
    *("kinspect.error.names", "kinspect.problem.codes"),
}


def largest_ecs(kind):
    """Bytes that a line of ECS has at most when all was cut that can be."""
    line = {}
    for key in KEYS:
        gone = key.path in ECS_LISTS or key.type == KEPT or key.path.endswith(".body")
        if gone or (key.lines and kind not in key.lines):
            continue
        *above, name = key.path.split(".")
        node = line
        for step in above:
            node = node.setdefault(step, {})
        node[name] = "x" * ((LONGEST[name] if name == "connection_id" else ECS_SIZES[key.type]) - 2)
    return len(text(line)) + 2


def test_the_smallest_limit_is_enough_for_each_type_of_ecs():
    sizes = {kind: largest_ecs(kind) for kind in (*TYPES, "stats")}
    assert max(sizes.values()) <= LEAST_LINE, sizes
    assert max(sizes.values()) > LEAST_LINE * 0.8, f"a smaller limit would do: {sizes}"


def test_what_is_told_by_words_is_not_cut():
    names = [api.name for api in apis.apis()] + ["SaslToken"]
    assert max(map(len, names)) <= LEAST_TEXT
    words = [
        word
        for whole in SCHEMAS.values()
        for node in whole["properties"].values()
        for word in node.get("enum", [])
        if word is not None
    ]
    assert max(map(len, words)) <= LEAST_TEXT
    assert LONGEST["ip"] <= LEAST_TEXT


# ---------------------------------------------------------------------- any line

integers = st.integers(-(2**63), 2**63 - 1)
texts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    st.integers(0, 3000).flatmap(
        lambda n: st.sampled_from(["a" * n, "\x00" * n, "\U000e0001" * n, "é\u202e" * n])
    ),
)
bodies = st.recursive(
    st.none() | st.booleans() | integers | texts,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5),
    max_leaves=20,
)


def values(node, whole, key=""):
    node = resolved(node, whole)
    if "oneOf" in node:
        return st.one_of([values(each, whole, key) for each in node["oneOf"]])
    if "const" in node:
        return st.just(node["const"])
    if "enum" in node:
        return st.sampled_from(node["enum"])
    if key == "body":
        return st.none() | st.dictionaries(texts, bodies, max_size=4)
    made = []
    for kind in options_of(node):
        if kind == "object":
            made.append(
                st.fixed_dictionaries({k: values(n, whole, k) for k, n in node["properties"].items()})
            )
        elif kind == "array":
            made.append(st.lists(values(node["items"], whole), max_size=30))
        elif kind == "string" and key in WHOLE:
            made.append(st.just("x" * LONGEST.get(key, 32)))
        elif kind == "string" and key == "ip":
            made.append(st.just("f" * LONGEST["ip"]))
        else:
            made.append(
                {"integer": integers, "number": st.floats(allow_nan=False, allow_infinity=False)}.get(
                    kind, {"boolean": st.booleans(), "null": st.none(), "string": texts}.get(kind)
                )
            )
    return st.one_of(made)


LINES = st.one_of([values(whole, whole) for whole in SCHEMAS.values()])


def paths(value, path=()):
    """The values of a line that are neither objects nor lists, by their paths; lists are one value."""
    if isinstance(value, dict) and (not path or path[-1] != "body"):
        for key, item in value.items():
            yield from paths(item, (*path, key))
    else:
        yield path, value


@pytest.mark.big
@given(LINES, st.integers(LEAST_LINE, 4 * LEAST_LINE), st.booleans(), st.booleans())
def test_no_line_is_longer(line, limit, nulls, as_text):
    if as_text:
        text_bodies(line)
    line["line_truncated"] = False
    before = orjson.dumps(line)
    whole = text(line)
    fitted = FittedText(limit, nulls, text)(line)
    assert orjson.dumps(line) == before
    assert len(fitted) <= limit
    assert fitted.endswith(b"}\n")
    found = orjson.loads(fitted)
    if len(whole) <= limit:
        assert fitted == whole
        return
    assert found["line_truncated"] is True
    lost_text = lost_list = lost_body = False
    of_found = dict(paths(found))
    for path, value in paths(line):
        if path == ("line_truncated",):
            continue
        cut = of_found.get(path)
        if cut == value or (not nulls and path not in of_found and not value and value not in (0, False, "")):
            continue
        if path[-1] == "body":
            assert cut is None
            lost_body = True
        elif isinstance(value, list):
            assert (cut or []) == ([no_nulls(v) if isinstance(v, dict) and not nulls else v for v in value])[
                : len(cut or [])
            ]
            lost_list = True
        else:
            assert isinstance(value, str)
            assert path[-1] not in WHOLE
            assert cut.endswith(MARK)
            assert value.startswith(cut[:-1])
            assert (
                len(orjson.dumps(value)) - 2 > LEAST_TEXT
                or len(escape_json(orjson.dumps(value))) - 2 > LEAST_TEXT
            )
            lost_text = True
    # Each goes only where what goes before it was not enough.
    shown = [v for p, v in paths(found) if p[-1] == "body"]
    assert not (lost_list or lost_text) or not any(shown)
    assert not lost_text or not any(isinstance(v, list) and v for _, v in paths(found))
    assert lost_text or lost_list or lost_body


def test_the_order():
    line = {
        "type": "exchange",
        "event_id": "0" * 32,
        "client": {"id": "c" * 300},
        "topics": ["t" * 100] * 10,
        "partitions": ["p" * 100] * 40,
        "request": {"size": 1, "body": {"a": "r" * 3000}},
        "response": {"size": 2, "body": {"a": "b" * 2000}, "errors": [{"path": "e" * 100}] * 20},
        "line_truncated": False,
    }

    def fitted(limit):
        return json.loads(FittedText(limit, True, text)(line))

    size = len(text(line))
    assert fitted(size) == line
    first = fitted(size - 1)
    assert first == {**line, "request": {"size": 1, "body": None}, "line_truncated": True}
    both = fitted(size - 2000)
    assert both["request"]["body"] is both["response"]["body"] is None or size - 2000 >= len(text(first))
    lists = fitted(4300)
    assert (lists["request"]["body"], lists["response"]["body"]) == (None, None)
    assert lists["topics"] == line["topics"]
    assert lists["response"]["errors"] == line["response"]["errors"]
    assert 0 < len(lists["partitions"]) < 40
    assert 4300 - 103 <= len(text(lists)) <= 4300


def test_a_cut_text_is_marked_and_others_stay():
    line = {"type": "gap", "client": {"id": "é" * 4000, "principal": "u" * 50}, "line_truncated": False}
    found = json.loads(FittedText(LEAST_LINE, True, text)(line))
    assert found["client"]["principal"] == "u" * 50
    assert found["client"]["id"].endswith("é…")
    assert LEAST_LINE - 2 <= len(text(found)) <= LEAST_LINE


# ---------------------------------------------------------------------- the command


@pytest.mark.parametrize("name", ["4.4.0/errors_java.pcap.gz", "4.4.0/nano.pcap", "4.4.0/lossin.pcap.gz"])
def test_lines_of_captures(kinspect, name):
    everything = ["--emit", "exchange,connection,gap,summary", "-q"]
    path = ROOT / "captures" / name
    whole = kinspect("read", path, *everything).out.splitlines(keepends=True)
    for options in (
        [],
        ["--no-nulls"],
        ["--body", "text"],
        ["--jobs", "2"],
        ["--fields", "api,request.body"],
    ):
        plain = kinspect("read", path, *everything, *options).out.encode().splitlines(keepends=True)
        cut = (
            kinspect("read", path, *everything, *options, "--max-line", str(LEAST_LINE))
            .out.encode()
            .splitlines(keepends=True)
        )
        assert len(plain) == len(cut) == len(whole)
        for before, after in zip(plain, cut, strict=True):
            assert len(after) <= LEAST_LINE
            assert (before == after) == (len(before) <= LEAST_LINE)
            if before != after:
                assert json.loads(after)["line_truncated"] is True


@pytest.mark.parametrize("name", ["4.4.0/errors_java.pcap.gz", "4.4.0/nano.pcap"])
def test_lines_of_ecs(kinspect, name):
    everything = ["--format", "ecs", "--body", "text", "--emit", "exchange,connection,gap,summary", "-q"]
    path = ROOT / "captures" / name
    plain, cut = (
        kinspect("read", path, *everything, *more).out.encode().splitlines(keepends=True)
        for more in ([], ["--max-line", LEAST_LINE])
    )
    assert len(plain) == len(cut)
    assert any(len(line) > LEAST_LINE for line in plain)
    for before, after in zip(plain, cut, strict=True):
        assert len(after) <= LEAST_LINE
        assert (before == after) == (len(before) <= LEAST_LINE)
        if before == after:
            continue
        whole, found = json.loads(before), json.loads(after)
        assert (whole["kinspect"]["line_truncated"], found["kinspect"]["line_truncated"]) == (False, True)
        lost = {p for p, _ in ecs_paths(whole)} - {p for p, _ in ecs_paths(found)}
        # Nothing but bodies had to go.
        assert lost
        assert lost <= {("kinspect", side, "body") for side in ("request", "response")} | {
            ("event", "original")
        }


def ecs_paths(value, path=()):
    """The values of a line of ECS by their paths, bodies too."""
    if not isinstance(value, dict):
        yield path, value
        return
    for key, item in value.items():
        yield from ecs_paths(item, (*path, key))


def test_lists_and_texts_of_ecs_are_cut_too():
    line = json.loads(
        (ROOT / "docs" / "schema" / "connection.schema.json").read_text()
    )  # its keys: each line has all of them
    line = dict.fromkeys(line["properties"]) | {
        "type": "connection",
        "client": {"ip": "::1", "port": 1, "id": "\x1b" * 5000, "principal": "u" * 3000}
        | dict.fromkeys(("software_name", "software_version", "name", "process")),
        "broker": {"ip": "::2", "port": 2},
        "connection_id": "c" * 100,
        "exchanges": 3,
        "line_truncated": False,
    }
    found = EcsTexts(View(max_line=LEAST_LINE)).line(line)
    assert len(found) <= LEAST_LINE
    shown = json.loads(found)
    assert shown["kinspect"]["line_truncated"] is True
    assert shown["kinspect"]["connection_id"] == "c" * 100
    assert shown["client"]["ip"] == "::1"
    assert shown["user"]["name"].endswith(MARK)
    assert shown["kinspect"]["client"]["id"].endswith(MARK)
    # Lists go before texts: an empty one is absent.
    assert "related" not in shown


def test_too_small_a_limit(kinspect):
    found = kinspect("read", ROOT / "captures" / "4.4.0" / "nano.pcap", "--max-line", LEAST_LINE - 1)
    assert found.status == 2
    assert f"must be {LEAST_LINE} bytes at least" in found.err
