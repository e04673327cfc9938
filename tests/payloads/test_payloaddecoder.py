"""Payloads by the schemas of a registry, beside what Confluent's client wrote; and what does not fit."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path

import clients
import pytest
from payloadrows import row_of

import kinspect as kinspect_package
from kinspect import extras
from kinspect.errors import KinspectError
from kinspect.kafka.view.batchrows import KEYS
from kinspect.payloads import payloaddecoder
from kinspect.payloads.payloaddecoder import PayloadDecoder
from kinspect.payloads.payloadforms import PayloadForms
from kinspect.payloads.schemafiles import SchemaFiles

pytestmark = pytest.mark.usefixtures("payload_libraries")

ENCODINGS = {"orders-avro": "avro", "orders-json": "json", "orders-protobuf": "protobuf"}
EXPORT = clients.DATA / "schemas.jsonl"
PROTO_TEXTS = {"customer.proto": clients.PROTO_CUSTOMER, "orders-protobuf-value": clients.PROTO_ORDER}


@pytest.fixture
def show(tmp_path):
    """The rows of payloads: values, or what `row_of` takes; by files of these names, or an export's entries."""
    made = []

    def run(schemas, *payloads):
        path = tmp_path / f"schemas{len(made)}"
        if isinstance(schemas, dict):
            for name, text in schemas.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_text(text if isinstance(text, str) else json.dumps(text))
        else:
            path.write_text("".join(f"{json.dumps(entry)}\n" for entry in schemas))
        made.append(PayloadForms("auto", PayloadDecoder(SchemaFiles(str(path)))))
        rows = [row_of(*(each if isinstance(each, tuple) else (each,))) for each in payloads]
        made[-1].convert(rows)
        return rows

    yield run
    for each in made:
        each.close()


def lines(path: Path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def equal(show, payloads, export):
    rows = show(
        export,
        *(
            (
                b64decode(each["value"]),
                [(name, b64decode(header)) for name, header in each["headers"]],
                None,
                each["topic"],
            )
            for each in payloads
        ),
    )
    assert [row["problem"] for row in rows] == [None] * len(payloads)
    for row, each in zip(rows, payloads, strict=True):
        assert (row["value"], row["value_encoding"]) == (each["json"], ENCODINGS[each["topic"]])
        schema = row["value_schema"]
        assert schema["certain"]
        assert (schema["subject"], schema["version"]) == (f"{each['topic']}-value", 1)
        assert schema["message"] == each["message"]
        assert {schema["id"], schema["guid"]} == {
            known[key] for known in export if known["subject"] == schema["subject"] for key in ("id", "guid")
        }


def test_what_the_client_once_wrote_is_read(show):
    equal(show, lines(clients.DATA / "payloads.jsonl"), lines(EXPORT))


def test_schemas_of_protobuf_as_text_say_the_same(show):
    export = [
        {**entry, "schema": PROTO_TEXTS.get(entry["subject"], entry["schema"])} for entry in lines(EXPORT)
    ]
    equal(show, lines(clients.DATA / "payloads.jsonl"), export)


@pytest.mark.tools
def test_what_the_client_writes_is_read(show):
    equal(show, *clients.written())


def test_files_in_a_folder_are_named_by_ids_and_by_what_imports_them(show):
    folder = {
        "3.avsc": clients.ORDER,
        "shop.Customer.avsc": clients.CUSTOMER,
        "4.json": clients.JSON_ORDER,
        "customer.json": clients.JSON_CUSTOMER,
        "6.proto": clients.PROTO_ORDER,
        "customer.proto": clients.PROTO_CUSTOMER,
        "README.md": "no schema",
    }
    payloads = [each for each in lines(clients.DATA / "payloads.jsonl") if each["way"] == "prefix"]
    rows = show(folder, *(b64decode(each["value"]) for each in payloads))
    assert [row["problem"] for row in rows] == [None] * len(rows)
    assert [row["value"] for row in rows] == [each["json"] for each in payloads]


STRING = {"5.avsc": '"string"'}
PREFIX = b"\0\0\0\0\x05"
PROTO = 'syntax = "proto3"; message M { int32 a = 1; M m = 2; repeated M all = 3; }'
RECURSIVE = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "next", "type": ["null", "R"]}],
}
MANY = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"
"""Avro's count of items: 2 to the power of 62, less 1."""


@pytest.mark.parametrize(
    ("schemas", "data", "problem"),
    [
        (STRING, b"\0\0\0\0\x07\x02a", r"the schema 7 is not in --schema-registry .*, if the bytes name one"),
        (STRING, PREFIX + b"\x04a", "does not fit the schema 5: "),
        (STRING, PREFIX + b"\x02ab", "does not fit the schema 5: 1 bytes are left over"),
        ({"5.avsc": "{"}, PREFIX, "the schema 5 cannot be used: JSONDecodeError"),
        (
            {"5.avsc": '"shop.Nowhere"'},
            PREFIX,
            "the schema 5 cannot be used: the type shop.Nowhere is not known",
        ),
        ({"5.avsc": {"type": "array", "items": "null"}}, PREFIX + MANY, "takes more than|does not fit"),
        ({"5.avsc": RECURSIVE}, PREFIX + b"\x02" * 10**6, "takes more than|does not fit"),
        ({"5.json": "["}, PREFIX + b"{}", "the schema 5 cannot be used: "),
        ({"5.json": {"type": 7}}, PREFIX + b"{}", "the schema 5 cannot be used: "),
        (
            {"5.json": {"$ref": "http://127.0.0.1:1/x"}},
            PREFIX + b"{}",
            "does not fit the schema 5: .*Unresolvable",
        ),
        ({"5.json": {"$ref": "#"}}, PREFIX + b"{}", "takes more than|does not fit the schema 5: Recursion"),
        ({"5.json": {}}, PREFIX + b"{", "does not fit the schema 5: ValueError"),
        ({"5.json": {}}, PREFIX + b"[" * 10**6, "does not fit the schema 5: nested too deeply"),
        (
            {"5.json": {"pattern": "^(a+)+$"}},
            PREFIX + b'"%sb"' % (b"a" * 50),
            "takes more than 0.3 s or 512 MiB",
        ),
        ({"5.proto": "message {"}, PREFIX, "the schema 5 cannot be used: line 1:9: Expected message name"),
        ({"5.proto": 'import "/etc/passwd";'}, PREFIX, "the schema 5 cannot be used: /etc/passwd"),
        ({"5.proto": PROTO}, PREFIX, "does not fit the schema 5: the message's indexes are cut off"),
        (
            {"5.proto": PROTO},
            PREFIX + b"\x02\x02",
            "does not fit the schema 5: there is no message of the indexes",
        ),
        ({"5.proto": PROTO}, PREFIX + b"\x01", "does not fit the schema 5: -1 indexes"),
        ({"5.proto": PROTO}, PREFIX + b"\0\x08", "does not fit the schema 5: DecodeError"),
        ({"5.proto": PROTO}, PREFIX + b"\0" + b"\x13" * 10**6, "does not fit the schema 5: DecodeError"),
        (
            [{"id": 5, "subject": "s", "version": 1, "schema": "x", "schemaType": "THRIFT"}],
            PREFIX,
            "the schema 5 is of an unknown type: THRIFT",
        ),
        (
            [
                {
                    "id": 5,
                    "schema": '"string"',
                    "references": [{"name": "n", "subject": "s", "version": 9}],
                }
            ],
            PREFIX,
            r"the schema 5 cannot be used: its reference n \(s, version 9\) is not there",
        ),
        (
            [
                {
                    "id": 5,
                    "subject": "s",
                    "version": 1,
                    "schema": '"string"',
                    "references": [{"name": "n", "subject": "s", "version": 1}],
                }
            ],
            PREFIX,
            "the schema 5 cannot be used: its references lead back to n",
        ),
    ],
)
def test_what_does_not_fit_is_a_problem_and_shown_as_bytes(monkeypatch, show, schemas, data, problem):
    if problem.startswith("takes"):
        monkeypatch.setattr(payloaddecoder, "SECONDS", 0.3)
    (row,) = show(schemas, data)
    assert row["value_encoding"] in ("base64", "json")
    assert row["value_schema"]["certain"] is False
    assert re.match(f"value: ({problem})", row["problem"]), row["problem"]


def test_json_that_fails_its_schema_is_shown_with_the_problem(show):
    schemas = {"5.json": {"properties": {"a": {"type": "integer"}}}}
    (row,) = show(schemas, PREFIX + b'{"a": "x"}')
    assert (row["value"], row["value_encoding"]) == ({"a": "x"}, "json")
    assert row["problem"] == "value: does not fit its schema at $.a: 'x' is not of type 'integer'"


def test_fields_that_a_message_does_not_have_are_told(show):
    (row,) = show({"5.proto": PROTO}, PREFIX + b"\0\x08\x07\x22\x01x")
    assert row["value"] == {"a": 7, "all": []}
    assert row["problem"] == "value: 3 bytes are of fields that its schema does not have"


def test_a_schema_whose_payloads_take_too_much_is_given_up_and_others_are_decoded(monkeypatch, show):
    monkeypatch.setattr(payloaddecoder, "SECONDS", 0.2)
    monkeypatch.setattr(payloaddecoder, "FAILED_MOST", 1)
    slow = PREFIX + MANY
    rows = show(
        {"5.avsc": {"type": "array", "items": "null"}, "6.avsc": '"string"'},
        *([slow] * 4),
        b"\0\0\0\0\x06\x02a",
    )
    assert rows[-1]["value"] == "a"
    assert all("too many payloads of the schema 5" in row["problem"] for row in rows[:-1])


def test_what_payloads_become_is_bounded(monkeypatch, show):
    nulls = PREFIX + b"\x80\x7d\0"  # 8,000 items of no byte
    schemas = {"5.avsc": {"type": "array", "items": "null"}}
    monkeypatch.setattr(payloaddecoder, "ROOM", 100_000)
    rows = show(schemas, *([nulls] * 100))
    shown = [row["value_encoding"] == "avro" for row in rows]
    assert shown == [True] * 2 + [False] * 98
    assert {row["problem"] for row in rows[2:]} == {
        "value: the payloads of its batch become too many bytes of JSON"
    }
    monkeypatch.setattr(payloaddecoder, "LONGEST", 1000)
    (row,) = show(schemas, nulls)
    assert row["problem"] == "value: becomes more than 1,024 bytes of JSON"


def test_python_has_what_the_command_prints(kinspect):
    options = ["--payload", "auto", "--schema-registry", EXPORT]
    capture = clients.DATA / "orders.pcap"
    printed = kinspect("records", "-q", capture, *options)
    assert (printed.status, printed.err) == (0, "")
    rows = [json.loads(line) for line in printed.out.splitlines()]
    assert [*kinspect_package.records_of(capture, payload="auto", schema_registry=EXPORT)] == rows
    assert [row["value"] for row in rows] == [each["json"] for each in lines(clients.DATA / "payloads.jsonl")]
    with pytest.raises(KinspectError, match="schema_registry is for payload='auto'"):
        kinspect_package.records_of(capture, schema_registry=EXPORT)


@pytest.mark.parametrize(
    ("pattern", "offsets"),
    [
        ('*"town":"Oslo"*', [8, 9]),
        ("re:Å.a.*vip", [0, 1]),
        ('!*"customer"*', [6, 7, 8, 9]),
        ("*Oslo", [8, 9]),  # the bytes are text
    ],
)
def test_filters_match_what_payloads_are_decoded_to(pattern, offsets):
    found = kinspect_package.records_of(
        clients.DATA / "orders.pcap", payload="auto", schema_registry=EXPORT, value=pattern
    )
    assert [(row["offset"], (*row,)) for row in found] == [(offset, KEYS) for offset in offsets]


def test_what_is_not_there_is_one_line(monkeypatch, kinspect, tmp_path):
    capture = clients.DATA / "orders.pcap"
    options = ["records", capture, "--payload", "auto", "--schema-registry"]
    found = kinspect(*options, tmp_path / "none")
    assert (found.status, found.out) == (2, "")
    assert f"{tmp_path}/none: No such file or directory" in found.err
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    found = kinspect(*options, EXPORT)
    assert found.status == 2
    assert found.err.count("\n") == 1
    assert "pip install 'kinspect[payload]'" in found.err


ENTRY = {"id": 5, "subject": "s-value", "version": 2, "schema": '"string"'}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([ENTRY], indent=2),
        json.dumps(ENTRY),
        '{"keytype":"NOOP","magic":0}\tnull\n'
        '{"keytype":"CONFIG","subject":null,"magic":0}\t{"compatibilityLevel":"FULL"}\n'
        f'{{"keytype":"SCHEMA","subject":"s-value","version":2,"magic":1}}\t{json.dumps(ENTRY)}\n'
        '{"keytype":"SCHEMA","subject":"s-value","version":1,"magic":1}\tnull\n',
    ],
    ids=["list", "lines", "topic"],
)
def test_an_export_is_a_list_or_lines_or_the_registrys_topic(tmp_path, text):
    path = tmp_path / "export"
    path.write_text(text)
    schema = SchemaFiles(str(path)).find(5)
    assert (schema.text, schema.subject("t-value"), schema.subjects) == (
        '"string"',
        "s-value",
        {"s-value": 2},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{json.dumps(ENTRY)}\n{{\n", "line 2: is no JSON"),
        (f"{json.dumps(ENTRY)}\n7\n", "line 2: is no schema of a registry"),
        ('{"id": "5", "schema": "x"}', "line 1: is no schema of a registry"),
        ('[{"id": 5, "schema": "x", "guid": "y"}]', "entry 1: is no schema of a registry"),
        ("[{", "is no JSON"),
        ("", "has no schemas"),
        (None, "No such file"),
    ],
)
def test_a_faulty_export_is_refused_with_its_line(tmp_path, text, message):
    path = tmp_path / "export"
    if text is not None:
        path.write_text(text)
    with pytest.raises(KinspectError, match=f"{path}.*{message}"):
        SchemaFiles(str(path))


def test_a_folder_without_schemas_is_refused(tmp_path):
    with pytest.raises(KinspectError, match="has no schemas: files named ID"):
        SchemaFiles(str(tmp_path))
    for name in ("7.avsc", "07.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(KinspectError, match="another file has the schema 7 too"):
        SchemaFiles(str(tmp_path))
