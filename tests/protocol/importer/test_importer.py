"""The importer on small jars and checkouts made here."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kinspect.protocol import compiler, schema, tabletext
from kinspect.protocol.importer.__main__ import main
from kinspect.protocol.importer.definitions import convert, parse_json, strip_comments
from kinspect.protocol.importer.mergedefinitions import message_shape
from kinspect.protocol.importer.sources import SourceError, read_sources


def field(name: str, kind: str, versions: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, "about": "see http://example.com", **more}


def request(versions: str, fields: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    head = {"apiKey": 7, "type": "request", "name": "SampleRequest", "listeners": ["controller", "broker"]}
    return {**head, "validVersions": versions, "flexibleVersions": "2+", "fields": fields, **more}


def response(versions: str, fields: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    fields = fields if fields is not None else [field("ErrorCode", "int16", "0+")]
    head = {"apiKey": 7, "type": "response", "name": "SampleResponse"}
    return {**head, "validVersions": versions, "flexibleVersions": "2+", "fields": fields, **more}


def make_jar(path: Path, *definitions: dict[str, Any], folder: str = "common/message") -> str:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0")
        for entry in definitions:
            text = "// A licence.\n" + json.dumps(entry, indent=1).replace("{", "{ // why\n", 1)
            jar.writestr(f"{folder}/{entry['name']}.json", text)
    return str(path)


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "table"


def run(out: Path, *sources: str, check: bool = False) -> int:
    return main([*sources, "--out", str(out), *(["--check"] if check else [])])


def read_api(out: Path) -> tabletext.ApiFile:
    return tabletext.read_api((out / "07_sample.txt").read_text("utf-8"))


ITEMS = [field("Name", "string", "0+"), field("Size", "int32", "0+", default="-1")]
OLD = [
    field("Group", "string", "0+"),
    field("Gone", "int8", "0"),
    field("Items", "[]Item", "0+", fields=ITEMS),
]
NEW = [
    field("GroupId", "string", "0+", entityType="groupId"),
    field(
        "Items",
        "[]Item",
        "0+",
        fields=[*ITEMS, field("Port", "uint16", "3+", default="0x10")],
        nullableVersions="3+",
    ),
    field("Rack", "string", "2+", taggedVersions="2+", tag="0", nullableVersions="2+", default="null"),
]


def test_releases_are_united_field_by_field(tmp_path, out, capsys):
    first = make_jar(tmp_path / "kafka-clients-1.0.0.jar", request("0-2", OLD), response("0-2"))
    second = make_jar(tmp_path / "kafka-clients-2.0.1.jar", request("1-3", NEW), response("1-3"))
    assert run(out, second, first) == 0
    api = read_api(out)
    assert api.request.versions == {0, 1, 2, 3}
    assert api.attributes["since"] == "0=1.0 1=1.0 2=1.0 3=2.0"
    assert api.attributes["listeners"] == "broker controller"
    assert api.attributes["removed"] == "0=2.0"
    assert [item.name for item in api.request.fields] == ["GroupId", "Gone", "Items", "Rack"]
    assert api.request.fields[0].versions == {0, 1, 2, 3}
    for release, fields, versions in (("old", OLD, "0-2"), ("new", NEW, "1-3")):
        definition = convert(request(versions, fields))
        assert definition is not None
        for version in definition.versions:
            assert message_shape(api.request, version) == message_shape(definition, version), release
    assert (out / "releases.txt").read_text("utf-8").splitlines()[1:] == ["1.0.0 7:0-2", "2.0.1 7:1-3"]
    capsys.readouterr()
    assert run(out, first, second, check=True) == 0
    assert run(out, check=True) == 0
    assert capsys.readouterr().out == ""


def test_an_import_that_drops_apis_and_versions_says_so_and_keeps_them(tmp_path, out, capsys):
    other = {"name": "OtherRequest", "apiKey": 8}, {"name": "OtherResponse", "apiKey": 8}
    first = make_jar(
        tmp_path / "a-1.0.0.jar",
        *(request("0-2", OLD), response("0-2")),
        *(request("0-3", OLD, latestVersionUnstable=True, **other[0]), response("0-3", **other[1])),
    )
    second = make_jar(tmp_path / "a-1.1.0.jar", request("1-2", OLD), response("1-2"))
    assert run(out, first) == 0
    assert "leaves out" not in capsys.readouterr().out
    kept = (out / "08_other.txt").read_text("utf-8")
    told = [
        "1.1.0 leaves out 7 Sample 0 of 1.0.0",
        "1.1.0 leaves out 8 Other 0-3 of 1.0.0",
        "The table keeps their layouts. If the release still speaks them, a source is missing.",
    ]
    assert run(out, second, check=True) == 1
    assert capsys.readouterr().out.splitlines()[:3] == told
    assert run(out, second) == 0
    assert capsys.readouterr().out.splitlines()[:3] == told
    assert (out / "08_other.txt").read_text("utf-8") == kept
    assert read_api(out).request.versions == {0, 1, 2}
    assert read_api(out).attributes["removed"] == "0=1.1"
    # A release is compared with itself if it is there, else with the one before it.
    assert run(out, first) == 0
    assert run(out, second) == 0
    assert capsys.readouterr().out == ""


def test_a_new_api_has_a_row_of_traits_that_are_to_be_told(tmp_path, out, capsys):
    jar = make_jar(tmp_path / "a-9.0.0.jar", request("0", OLD, apiKey=999), response("0", apiKey=999))
    assert run(out, jar) == 0
    assert "traits.txt is to tell what 999 Sample is.\n" in capsys.readouterr().out
    names, row = [
        line.split() for line in (out / "traits.txt").read_text("utf-8").splitlines() if line[0] != "#"
    ]
    assert dict(zip(names, row, strict=True)) == dict.fromkeys(names, "?") | {"key": "999", "api": "Sample"}


def test_a_removed_api_is_told_once(tmp_path, out, capsys):
    jars = [
        make_jar(tmp_path / f"a-{release}.jar", request(versions, OLD), response(versions), *more)
        for release, versions, more in (
            ("1.0.0", "0-1", ()),
            (
                "2.0.0",
                "none",
                (request("0", OLD, apiKey=9, name="NewRequest"), response("0", apiKey=9, name="NewResponse")),
            ),
            (
                "2.1.0",
                "none",
                (request("0", OLD, apiKey=9, name="NewRequest"), response("0", apiKey=9, name="NewResponse")),
            ),
        )
    ]
    assert run(out, *jars) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "leaves out" in line]
    assert told == ["2.0.0 leaves out 7 Sample 0-1 of 1.0.0"]


def test_an_older_release_changes_nothing_that_is_known(tmp_path, out):
    first = make_jar(tmp_path / "kafka-clients-1.0.0.jar", request("0-2", OLD), response("0-2"))
    second = make_jar(tmp_path / "kafka-clients-2.0.1.jar", request("1-3", NEW), response("1-3"))
    assert run(out, second) == 0
    assert run(out, first) == 0
    api = read_api(out)
    assert [item.name for item in api.request.fields] == ["GroupId", "Gone", "Items", "Rack"]
    assert api.request.versions == {0, 1, 2, 3}


def test_another_order_of_fields_that_no_version_has_together_changes_nothing(tmp_path, out):
    name, old, new = field("Name", "string", "0+"), field("Old", "int8", "0-1"), field("New", "int8", "2+")
    last = field("Last", "int8", "2+")
    first = make_jar(tmp_path / "a-1.0.0.jar", request("0-2", [name, old, new]), response("0-2"))
    second = make_jar(tmp_path / "a-1.1.0.jar", request("0-2", [name, new, old]), response("0-2"))
    third = make_jar(tmp_path / "a-1.2.0.jar", request("0-2", [name, new, old, last]), response("0-2"))
    assert run(out, first) == 0
    before = (out / "07_sample.txt").read_text("utf-8")
    assert run(out, second) == 0
    assert (out / "07_sample.txt").read_text("utf-8") == before
    assert run(out, third) == 2  # other bytes in version 2


def test_a_new_field_stands_behind_the_one_it_follows(tmp_path, out):
    name, old, new = field("Name", "string", "0+"), field("Old", "int8", "0-1"), field("New", "int8", "2+")
    newest = field("Newest", "int8", "3+")
    first = make_jar(tmp_path / "a-1.0.0.jar", request("0-2", [name, old, new]), response("0-2"))
    second = make_jar(tmp_path / "a-1.1.0.jar", request("0-3", [name, newest, new, old]), response("0-3"))
    assert run(out, first, second) == 0
    assert [item.name for item in read_api(out).request.fields] == ["Name", "Newest", "Old", "New"]


def test_a_version_of_two_shapes_stops_the_import(tmp_path, out, capsys):
    first = make_jar(tmp_path / "a-1.0.0.jar", request("0", OLD), response("0"))
    changed = [field("Group", "bytes", "0+"), *OLD[1:]]
    second = make_jar(tmp_path / "a-1.1.0.jar", request("0", changed), response("0"))
    assert run(out, first) == 0
    before = read_api(out)
    assert run(out, second) == 2
    message = capsys.readouterr().err
    assert "SampleRequest version 0 differs" in message
    assert "string int8 [(string int32)]" in message
    assert "bytes int8 [(string int32)]" in message
    assert read_api(out) == before


def test_a_recorded_variant_is_accepted(tmp_path, out):
    jar = make_jar(tmp_path / "a-1.1.0.jar", request("0-1", OLD), response("0-1"))
    early = make_jar(tmp_path / "a-1.0.0.jar", request("0", [field("Group", "string", "0+")]), response("0"))
    assert run(out, jar) == 0
    path = out / "07_sample.txt"
    variant = "variant 0 of 1.0.0..1.0.2\n  flexible: no\n  Group string 0+\n\nresponse\n"
    path.write_text(path.read_text("utf-8").replace("\nresponse\n", variant, 1), "utf-8")
    before = read_api(out).request
    assert before.variants[0].label == "1.0"
    assert run(out, early) == 0
    assert run(out, jar) == 0
    assert read_api(out).request == before


def test_tags_and_nulls_of_one_version_are_added_up(tmp_path, out):
    plain = [field("Name", "string", "2+")]
    richer = [
        field("Name", "string", "2+", nullableVersions="2+"),
        field("Kind", "int8", "2+", taggedVersions="2+", tag=1),
    ]
    for first, second in ((plain, richer), (richer, plain)):
        shutil.rmtree(out, ignore_errors=True)
        jars = [
            make_jar(tmp_path / f"a-1.{minor}.0.jar", request("2", fields), response("2"))
            for minor, fields in enumerate((first, second))
        ]
        assert run(out, *jars) == 0
        name, kind = read_api(out).request.fields
        assert (name.nullable, kind.tagged, kind.tag) == ({2}, {2}, 1)


def test_unstable_deprecated_and_retired_versions(tmp_path, out):
    fields = [field("Name", "string", "0+")]
    jars = [
        make_jar(tmp_path / f"a-{release}.jar", request(versions, fields, **more), response(versions))
        for release, versions, more in (
            ("1.0.0", "0-1", {"latestVersionUnstable": True}),
            ("1.0.1", "0-1", {"latestVersionUnstable": True}),
            ("1.1.0", "0-1", {"deprecatedVersions": "0"}),
            ("2.0.0", "none", {}),
        )
    ]
    assert run(out, *jars) == 0
    attributes = read_api(out).attributes
    assert attributes["since"] == "0=1.0 1=1.1"
    assert attributes["unstable"] == "1=1.0.0..1.0.1"
    assert attributes["deprecated"] == "0=1.1"
    assert attributes["removed"] == "0-1=2.0"
    assert "1.0.1 7:0-1u" in (out / "releases.txt").read_text("utf-8")


def test_a_renamed_api_has_one_file(tmp_path, out):
    old = make_jar(tmp_path / "a-1.0.0.jar", request("0", OLD), response("0"))
    new = make_jar(
        tmp_path / "a-1.1.0.jar",
        request("0", OLD, name="BetterRequest"),
        response("0", name="BetterResponse"),
    )
    assert run(out, old) == 0
    assert run(out, new, check=True) == 1
    assert run(out, new) == 0
    assert [path.name for path in out.glob("0*.txt")] == ["07_better.txt"]
    assert "old-names: Sample\n" in (out / "07_better.txt").read_text("utf-8")


def test_a_checkout_with_records_and_shared_structs(tmp_path, out):
    (tmp_path / "kafka").mkdir()
    (tmp_path / "kafka" / "gradle.properties").write_text("group=org.apache.kafka\nversion=3.5.0\n")
    pair = {"name": "Pair", "versions": "0+", "fields": [field("Left", "int32", "0+")]}
    definitions = {
        "clients": [
            request("0", [field("Pairs", "[]Pair", "0+")], commonStructs=[pair]),
            response("0"),
        ],
        "group-coordinator": [
            # Before 4.1 the version of a key was its record type.
            {
                "type": "data",
                "name": "ThingKey",
                "validVersions": "0-4",
                "flexibleVersions": "none",
                "fields": [field("group", "string", "0+"), field("old", "int8", "0-3")],
            },
            {
                "type": "data",
                "name": "ThingValue",
                "validVersions": "0",
                "flexibleVersions": "0+",
                "fields": [field("tagged", "int64", "0+", taggedVersions="0+", tag=0, default=-1)],
            },
        ],
        "metadata": [
            {
                "apiKey": 30,
                "type": "metadata",
                "name": "NewRecord",
                "validVersions": "0",
                "flexibleVersions": "0+",
                "fields": [],
            }
        ],
    }
    for module, entries in definitions.items():
        folder = tmp_path / "kafka" / module / "src/main/resources/common/message"
        folder.mkdir(parents=True)
        for entry in entries:
            (folder / f"{entry['name']}.json").write_text("// text\n" + json.dumps(entry), "utf-8")
    assert run(out, str(tmp_path / "kafka")) == 0
    assert [part.name for part in read_api(out).request.fields[0].fields] == ["Left"]
    key, value = tabletext.read_messages((out / "records/group.txt").read_text("utf-8"))
    assert (key.versions, key.attributes["record-type"], value.attributes["record-type"]) == ({0}, "4", "4")
    assert [item.name for item in key.fields] == ["group"]
    (record,) = tabletext.read_messages((out / "records/metadata.txt").read_text("utf-8"))
    assert record.attributes["record-type"] == "30"


def test_all_jars_of_a_release_are_one_source(tmp_path, out):
    record = {"type": "data", "validVersions": "0", "flexibleVersions": "none", "fields": []}
    jars = [
        make_jar(tmp_path / "kafka-clients-1.0.0.jar", request("0", OLD), response("0")),
        make_jar(tmp_path / "kafka-metadata-1.0.0.jar", {**record, "name": "A"}, folder="common/metadata"),
        make_jar(tmp_path / "kafka-server-1.0.0.jar"),
        make_jar(tmp_path / "kafka-storage-1.0.0.jar", {**record, "name": "B"}, folder="message"),
    ]
    assert run(out, *jars) == 0
    assert read_api(out).request.versions == {0}
    assert sorted(path.name for path in out.glob("records/*")) == ["metadata.txt", "storage.txt"]


def test_a_json_union_brings_its_history(tmp_path, out):
    union = tmp_path / "union"
    (union / "records").mkdir(parents=True)
    entry = {
        **request("0-1", OLD),
        "enum": "SAMPLE",
        "since": {"0": "1.0", "1": "1.1"},
        "oldNames": ["OldRequest"],
    }
    early = {
        **request("0", [field("Group", "string", "0")]),
        "version": 0,
        "class": "wire",
        "in": "0.9.0.0..0.9.0.0",
        "flexible": False,
    }
    parts = {
        "messages.json": [entry, response("0-1")],
        "variants.json": [early, {**early, "class": "tagged"}],
        "errors.json": [
            {"code": 3, "name": "BAD", "retriable": True, "since": "1.0", "oldNames": {"WORSE": "1.0"}}
        ],
        "releases.json": {"1.0.0": {"7": "0-0"}, "1.1.0": {"7": "0-1u"}},
        "headers.json": {"headers": [], "exceptions": []},
    }
    for name, part in parts.items():
        (union / name).write_text(json.dumps(part), "utf-8")
    assert run(out, str(union)) == 0
    api = read_api(out)
    assert (api.attributes["old-names"], api.attributes["since"]) == ("Old", "0=1.0 1=1.1")
    assert [variant.label for variant in api.request.variants] == ["0.9.0"]
    assert "3 BAD retriable since=1.0 old=WORSE:1.0\n" in (out / "errors.txt").read_text("utf-8")
    assert run(out, str(union), check=True) == 0


def test_the_table_is_what_its_own_definitions_give(tmp_path, capsys):
    assert main(["--check"]) == 0
    copy = tmp_path / "table"
    shutil.copytree(schema.TABLE, copy)
    assert run(copy) == 0
    assert capsys.readouterr().out == ""


def test_every_release_of_the_table_merges_into_it_unchanged(tmp_path, capsys):
    """A jar made from the table's own newest layouts brings nothing new."""
    copy = tmp_path / "table"
    shutil.copytree(schema.TABLE, copy)
    newest = list(schema.releases())[-1]
    definitions = []
    for api in schema.apis():
        spoken = schema.releases()[newest].get(api.key)
        if spoken is None:
            continue
        for message in (api.request, api.response):
            entry = as_json(message, spoken.low, spoken.high)
            definitions.append({**entry, "apiKey": api.key, "latestVersionUnstable": spoken.unstable})
            if message.kind == "request":
                definitions[-1]["listeners"] = list(api.listeners)
    jar = make_jar(tmp_path / f"kafka-clients-{newest}.jar", *definitions)
    run(copy, jar, check=True)
    assert capsys.readouterr().out == ""


def as_json(message: tabletext.MessageDefinition, low: int, high: int) -> dict[str, Any]:
    versions = frozenset(range(low, high + 1))

    def text(chosen: frozenset[int]) -> str:
        return ",".join(str(version) for version in sorted(chosen & versions)) or "none"

    def field_json(item: tabletext.FieldDefinition) -> dict[str, Any]:
        entry = {
            "name": item.name,
            "type": item.type,
            "versions": text(item.versions),
            "nullableVersions": text(item.nullable),
            "taggedVersions": text(item.tagged),
            "default": item.default,
            "entityType": item.entity,
            "fields": [field_json(part) for part in item.fields if part.versions & versions],
        }
        return entry if item.tag is None else {**entry, "tag": item.tag}

    return {
        "type": message.kind,
        "name": message.name,
        "validVersions": text(message.versions),
        "flexibleVersions": text(message.flexible),
        "fields": [field_json(item) for item in message.fields if item.versions & versions],
    }


def test_comments_are_stripped_outside_of_text():
    text = '/* "a" \n */ { // why\n "about": "see http://x \\" /* y" /**/ } // end'
    assert parse_json(text) == {"about": 'see http://x " /* y'}
    assert strip_comments(text).count("\n") == text.count("\n")
    assert strip_comments("1 /* open \n") == "1 \n"
    assert len(strip_comments("/* " * 300_000)) == 0, "no end is looked for again and again"


@pytest.mark.parametrize("name", ["missing.jar", "broken-1.0.0.jar", "empty-1.0.0.jar", "nothing"])
def test_sources_that_cannot_be_read(tmp_path, name):
    (tmp_path / "broken-1.0.0.jar").write_bytes(b"PK no")
    make_jar(tmp_path / "empty-1.0.0.jar")
    with pytest.raises(SourceError):
        read_sources([str(tmp_path / name)])


def test_a_release_must_be_known(tmp_path):
    jar = make_jar(tmp_path / "kafka.jar", request("0", OLD))
    with pytest.raises(SourceError, match="RELEASE=PATH"):
        read_sources([jar])
    (source,) = read_sources([f"1.2.0={jar}"])
    assert source.release == "1.2.0"


def test_what_is_imported_can_be_compiled(tmp_path, out):
    jar = make_jar(tmp_path / "a-2.0.0.jar", request("1-3", NEW), response("1-3"))
    assert run(out, jar) == 0
    request_message = read_api(out).request
    (layout,) = schema.message_layouts(request_message, 3, 7, "request")
    raw = compiler.encoder(layout)({"group_id": "g", "items": [{"name": "n"}]})
    body, _ = compiler.decoder(layout)(raw, 0, len(raw))
    assert body == {"group_id": "g", "items": [{"name": "n", "size": -1, "port": 16}]}
