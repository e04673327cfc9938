"""Definitions that a user gives: what they decode, and that no file does harm."""

import json
import random
import subprocess
import sys
from contextlib import suppress

import pytest
from support import fork
from support.captures import CAPTURES
from support.fork import KEY, REQUEST, RESPONSE, TEXT

from kinspect import answer as answer_of
from kinspect import read as read_capture
from kinspect import records_of
from kinspect.errors import KinspectError
from kinspect.protocol import (
    compiler,
    decode_body,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    schema,
)
from kinspect.protocol.overlay import MOST_BYTES, read_definitions
from kinspect.protocol.primitives import DECODE_FAILURES
from kinspect.protocol.versions import format_versions


@pytest.fixture
def read(tmp_path):
    def read(text):
        path = tmp_path / "definitions.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_definitions(str(path))

    return read


# ---------------------------------------------------------------------- what they decode


def as_json(item, valid):
    """A field of the table as Kafka's sources have it."""
    found = {"name": item.name, "type": item.type, "versions": format_versions(item.versions & valid, valid)}
    for name, versions in (("nullableVersions", item.nullable), ("taggedVersions", item.tagged)):
        if versions & valid:
            found[name] = format_versions(versions & valid, valid)
    options = {
        "tag": item.tag if item.tagged & valid else None,
        "default": item.default,
        "entityType": item.entity,
    }
    found |= {name: value for name, value in options.items() if value is not None}
    if not item.compact:
        found["flexibleVersions"] = "none"
    if item.fields:
        found["fields"] = [as_json(each, valid) for each in item.fields if each.versions & valid]
    return found


def shape(fields):
    return [
        (
            each.name,
            each.type,
            each.array,
            each.nullable,
            each.tag,
            each.default,
            each.compact,
            shape(each.fields),
        )
        for each in fields
    ]


def definitions_of(release):
    """Those of the APIs of a release."""
    entries = []
    for key, spoken in schema.releases()[release].items():
        api = schema.api(key)
        valid = frozenset(each for each in api.versions if spoken.low <= each <= spoken.high)
        entries += [
            {
                "apiKey": key,
                "type": message.kind,
                "name": message.name,
                "validVersions": f"{min(valid)}-{max(valid)}",
                "flexibleVersions": format_versions(message.flexible & valid, valid),
                "fields": [as_json(each, valid) for each in message.fields if each.versions & valid],
            }
            for message in (api.request, api.response)
        ]
    # Some fields are there in versions apart from each other, which Kafka's notation has no words for.
    entries = [
        each for each in entries if "," not in json.dumps([*versions_of(each["fields"])]).replace('", "', "")
    ]
    return json.dumps(
        [each for each in entries if sum(other["apiKey"] == each["apiKey"] for other in entries) == 2]
    )


@pytest.mark.parametrize("release", ["0.10.2.0", "2.8.0", "4.4.0"])
def test_definitions_of_a_release_give_the_layouts_of_the_table(read, release):
    found = read(definitions_of(release))
    assert len(found) > 0.9 * len(schema.releases()[release])
    for key, api in found.items():
        for message in (api.request, api.response):
            for version in message.versions:
                (own,) = schema.message_layouts(message, version, key, message.kind)
                known = schema.layout(key, version, message.kind)
                assert (own.flexible, shape(own.fields)) == (known.flexible, shape(known.fields)), (
                    key,
                    version,
                )


def test_with_definitions_of_a_release_messages_are_read_and_written_byte_for_byte(read, vectors):
    found = read(definitions_of("2.8.0"))
    there = [
        each
        for each in vectors
        if not each.variant and each.api_key in found and each.version in found[each.api_key].request.versions
    ]
    there = there[::4]  # a layout takes its time to compile
    assert len(there) > 150
    told = [both_ways(each) for each in there]
    try:
        schema.lay_over(found)
        for vector, known in zip(there, told, strict=True):
            own = both_ways(vector)
            assert own == known, str(vector)
            assert own[1] == vector.frame
    finally:
        schema.lay_over({})


@pytest.mark.parametrize(
    ("answer", "renamed"),
    [("brokers", "MinVersion"), ("settings", "MinVersion"), ("settings", "NodeId")],
)
def test_what_definitions_call_otherwise_ends_in_a_result_or_one_error(read, answer, renamed):
    found = read(definitions_of("4.4.0").replace(f'"{renamed}"', '"Renamed"'))
    try:
        schema.lay_over(found)
        assert all(each.api for each in read_capture(CAPTURES / "4.4.0/nano.pcap"))
        with suppress(KinspectError):
            assert "rows" in answer_of(answer, CAPTURES / "4.4.0/nano.pcap")
    finally:
        schema.lay_over({})


def test_records_that_definitions_call_otherwise_end_in_one_error(read):
    found = read(definitions_of("4.4.0").replace('"ProducerId"', '"Renamed"'))
    try:
        schema.lay_over(found)
        with pytest.raises(
            KinspectError, match=r"^InitProducerId is defined otherwise than records need: KeyError"
        ):
            [*records_of(CAPTURES / "4.4.0/txn_java.pcap.gz")]
    finally:
        schema.lay_over({})


def both_ways(vector):
    """A vector's message, and its bytes written again."""
    if vector.direction == "request":
        message = decode_request(vector.frame)
        return message, encode_request(message)
    message = decode_response(vector.frame, vector.api_key, vector.version)
    return message, encode_response(message)


def versions_of(fields):
    for each in fields:
        yield from (each[name] for name in ("versions", "nullableVersions", "taggedVersions") if name in each)
        yield from versions_of(each.get("fields", ()))


def kinspect(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "kinspect", *map(str, arguments)], check=False, capture_output=True, text=True
    )
    assert "Traceback" not in done.stderr
    return done


def test_messages_of_a_fork_decode_with_its_definitions_alone(tmp_path):
    folder = tmp_path / "definitions" / "message"
    folder.mkdir(parents=True)
    for entry in (REQUEST, RESPONSE):
        (folder / f"{entry['name']}.json").write_text(json.dumps(entry))
    path = tmp_path / "fork.pcap"
    path.write_bytes(fork.capture())
    (line,) = kinspect("read", "--schema", folder.parent, path, "-q").stdout.splitlines()
    line = json.loads(line)
    assert (line["api"], line["api_version"], line["problems"]) == ("UpdateLicense", 1, [])
    assert line["request"]["body"] == {"license": "ab", "nodes": [{"node_id": 5}], "epoch": 9}
    assert line["response"]["body"] == {"error_code": 0, "throttle_time_ms": 0}
    (line,) = kinspect("read", "--decode-as", 9092, path, "-q").stdout.splitlines()
    line = json.loads(line)
    assert (line["api"], line["api_key"], line["request"]["body"], line["response"]["body"]) == (
        None,
        KEY,
        None,
        None,
    )
    assert {problem["code"] for problem in line["problems"]} == {"unknown_api"}
    told = kinspect("latency", "--schema", folder.parent, path, "--format", "table").stdout
    assert told.splitlines()[-1].startswith(f"next: kinspect read {path} ")
    assert told.splitlines()[-1].endswith(f" --schema {folder.parent}")
    text = kinspect("schema", "UpdateLicense", "--schema", folder.parent).stdout
    assert [line.split()[-3:] for line in text.splitlines()[2:]] == [
        ["--schema", "+request.nodes", "+request.epoch"]
    ]


def test_definitions_are_an_input_that_is_not_overwritten(tmp_path):
    path = tmp_path / "definitions.json"
    path.write_text(TEXT)
    done = kinspect("read", CAPTURES / "4.4.0/nano.pcap", "--schema", path, "-o", path, "--force")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, f"Error: {path}: is one of the inputs")
    assert path.read_text() == TEXT


def test_python_takes_definitions_once(tmp_path):
    for name, text in (("one", TEXT), ("other", TEXT.replace("License", "Licence"))):
        (tmp_path / f"{name}.json").write_text(text)
    code = """if True:
        import sys, kinspect
        one, other, capture = sys.argv[1:]
        for _ in range(2):
            print(kinspect.protocol.Message(517, 0, 1, {}).api, len([*kinspect.read(capture, schema=one)]) > 0)
        try:
            kinspect.answer("brokers", capture, schema=other)
        except kinspect.KinspectError as error:
            print(error)
    """
    paths = tmp_path / "one.json", tmp_path / "other.json", CAPTURES / "4.4.0/nano.pcap"
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, paths)], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [
        "None True",
        "UpdateLicense True",
        "a process takes message definitions once, before it decodes anything",
    ]


def test_what_is_laid_over_next_is_all_there_is(read):
    """As in a process that decodes for one run after the other."""
    body = b"\3ab" + b"\1" + b"\0"
    found = []
    try:
        for text in (TEXT, TEXT.replace("License", "Licence"), None, TEXT):
            schema.lay_over({} if text is None else read(text))
            found.append((schema.api_name(KEY), decode_body(KEY, 1, "request", body, 0, len(body)).body))
    finally:
        schema.lay_over({})
    told = {"nodes": []}
    first = "UpdateLicense", {"license": "ab", **told}
    assert found == [first, ("UpdateLicence", {"licence": "ab", **told}), (None, None), first]


def test_records_that_older_definitions_call_bytes_are_records(read):
    text = definitions_of("0.10.2.0")
    assert '"type": "records"' in text
    assert read(text.replace('"type": "records"', '"type": "bytes"')) == read(text)


def test_a_field_of_kafkas_has_its_type(read):
    text = definitions_of("4.4.0").replace('"NodeId", "type": "int32"', '"NodeId", "type": "string"')
    with pytest.raises(KinspectError, match="NodeId: string, but Kafka's is int32"):
        read(text)


# ---------------------------------------------------------------------- what is refused


def changed(old, new):
    assert TEXT.count(old) >= 1
    return TEXT.replace(old, new, 1)


def line_of(text, part):
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "at", "said"),
    [
        ('"type": "string"', '"type": "text"', '"License"', "there is no type 'text'"),
        ('"type": "[]Node"', '"type": "[]Knot"', '"Nodes"', "there is no struct Knot"),
        ('"versions": "0+"', '"versions": "0 to 9"', '"License"', "versions: '0 to 9'"),
        ('"validVersions": "0-1"', '"validVersions": "0-999"', '"UpdateLicenseRequest"', "a version above"),
        ('"tag": 0', '"tag": -1', '"Epoch"', "no tag: -1"),
        ('"Epoch"', '"License"', "", "two fields of a struct have the name license"),
        ('"default": "-1"', '"default": "x"', '"Epoch"', "invalid literal"),
        (f'"apiKey": {KEY}', '"apiKey": "a"', '"UpdateLicenseRequest"', "no apiKey"),
        ("[", "[[", "", "no JSON"),
        ('"type": "int32"', '"type": "[]Node"', '"NodeId"', "nested more than"),
        ('"UpdateLicenseResponse"', '"import os"', "", "no name of a message"),
        ('"type": "string"', '"type": "[]records"', '"License"', "there is no type"),
        ('"ErrorCode"', '"MaxWaitMs"', '"MaxWaitMs"', "is no int16"),
        (
            '"about": "A text."',
            '"entityType": "topicName", "type": "int8"',
            '"License"',
            "a topicName is no int8",
        ),
        ("UpdateLicenseRequest", "EnvelopeRequest", '"EnvelopeRequest"', "has another apiKey"),
    ],
)
def test_an_error_names_the_file_and_the_line(read, old, new, at, said):
    text = changed(old, new)
    with pytest.raises(KinspectError) as error:
        read(text)
    message = str(error.value)
    assert said in message
    assert "definitions.json:" in message
    assert not at or f":{line_of(text, at)}: " in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"\xff", "not UTF-8"),
        (b" " * (MOST_BYTES + 1), "longer than"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "no definition"),
        (json.dumps(REQUEST), "has no response beside it"),
        ("[1]", "no message definition"),
    ],
)
def test_a_file_without_definitions_is_refused(read, text, said):
    with pytest.raises(KinspectError, match=said):
        read(text)


def test_structs_that_double_each_other_are_too_many_fields(read):
    structs = [
        {"name": f"S{n}", "fields": [{"name": side, "type": f"S{n + 1}", "versions": "0+"} for side in "ab"]}
        for n in range(15)
    ]
    structs.append({"name": "S15", "fields": [{"name": "x", "type": "int8", "versions": "0+"}]})
    first = {"name": "f", "type": "S0", "versions": "0+"}
    with pytest.raises(KinspectError, match="more than 2,000 fields"):
        read(json.dumps([{**REQUEST, "fields": [first], "commonStructs": structs}, RESPONSE]))


PIECES = [
    '"',
    "{",
    "}",
    "[",
    "]",
    "0",
    "-1",
    "99999999999",
    "null",
    "true",
    '"none"',
    '"0+"',
    '"[]Node"',
    '"fields"',
    "1e9",
]


@pytest.mark.parametrize("seed", range(4))
def test_mutated_definitions_are_read_or_refused(read, seed):
    rng = random.Random(seed)
    taken = 0
    for _ in range(100):
        text = TEXT
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(text))
            words = [*PIECES, text[rng.randrange(len(text)) :][: rng.randrange(60)]]
            text = text[:at] + rng.choice(words) + text[at + rng.randrange(12) :]
        found = {}
        with suppress(KinspectError):
            found = read(text)
        taken += bool(found)
        for key, api in found.items():
            for message in (api.request, api.response):
                for version in message.versions:
                    (layout,) = schema.message_layouts(message, version, key, message.kind)
                    data = rng.randbytes(60)
                    with suppress(DECODE_FAILURES):
                        compiler.decoder(layout)(data, 0, len(data))
    assert taken
