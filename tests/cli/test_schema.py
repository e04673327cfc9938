import json
import os
import pty
import subprocess
from contextlib import suppress

import pytest

from kinspect.cli.texttable import in_columns


def test_all_apis(kinspect):
    result = kinspect("schema")
    assert result.status == 0
    header, *rows = result.out.splitlines()
    assert header.split() == ["KEY", "NAME", "VERSIONS", "FLEXIBLE", "SINCE", "REMOVED", "RELEASES"]
    assert rows[1].split()[:3] == ["1", "Fetch", "0-18"]
    assert len(rows) == 95


def test_all_apis_as_json(kinspect):
    rows = json.loads(kinspect("schema", "--format", "json").out)
    assert rows[18]["name"] == "ApiVersions"
    assert rows[0]["removed"] == "0-2 in 4.0"


@pytest.mark.parametrize("name", ["Fetch", "fetch", "FETCH", "1"])
def test_the_versions_of_an_api(kinspect, name):
    rows = json.loads(kinspect("schema", name, "--format", "json").out)
    assert [row["version"] for row in rows] == list(range(19))
    assert rows[12]["flexible"]
    assert not rows[11]["flexible"]
    assert "+request.rack_id" in rows[11]["changes"]
    assert "-request.topics.topic" in rows[13]["changes"]


def test_a_layout_shows_both_messages(kinspect):
    text = kinspect("schema", "Fetch", "--version", "13").out
    request, response = text.split("\n\n")
    assert request.startswith("FetchRequest v13 (flexible, header v2)\n")
    assert response.startswith("FetchResponse v13 (flexible, header v1)\n")
    fields = {line.split()[0]: line.split()[1:] for line in request.splitlines()[1:]}
    assert fields["topics"] == ["[]struct"]
    assert fields["topic_id"] == ["uuid"]
    assert fields["cluster_id"] == ["string", "nullable,", "tag", "0,", "default", "null"]


def test_a_layout_lists_fields_below_their_struct_and_tagged_ones_last(kinspect):
    lines = kinspect("schema", "Fetch", "--version", "15", "--request").out.splitlines()
    names = [line[: len(line) - len(line.lstrip())] + line.split()[0] for line in lines]
    topics = names.index("  topics")
    assert names[topics + 1 : topics + 4] == ["    topic_id", "    partitions", "      partition"]
    assert names[-4:] == ["  cluster_id", "  replica_state", "    replica_id", "    replica_epoch"]


def test_a_layout_of_one_direction(kinspect):
    assert "Response" not in kinspect("schema", "Heartbeat", "--version", "4", "--request").out
    assert "Request" not in kinspect("schema", "Heartbeat", "--version", "4", "--response").out


def test_early_access_layouts(kinspect):
    text = kinspect("schema", "ConsumerGroupHeartbeat", "--version", "0", "--request").out
    assert text.count("ConsumerGroupHeartbeatRequest v0") == 2
    assert "early access 3.5" in text


def test_record_messages(kinspect):
    assert "+expire_timestamp" in kinspect("schema", "OffsetCommitValue").out
    assert "OffsetCommitValue v3" in kinspect("schema", "offsetcommitvalue", "--version", "3").out


def test_errors(kinspect):
    rows = json.loads(kinspect("schema", "errors", "--format", "json").out)
    by_code = {row["code"]: row for row in rows}
    assert by_code[3]["name"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert by_code[3]["retriable"]
    assert "UNKNOWN_TOPIC_OR_PARTITION" in kinspect("schema", "errors").out
    assert kinspect("schema", "errors", "27").out.splitlines()[0].split()[:3] == ["CODE", "NAME", "RETRIABLE"]
    assert " no " in kinspect("schema", "errors", "27").out


@pytest.mark.parametrize(
    ("arguments", "codes"),
    [
        (["errors", "3"], [3]),
        (["errors", "--", "-1"], [-1]),
        (["errors", "unknown_topic_or_partition"], [3]),
        (["errors", "UNKNOWN_TOPIC"], [3, 100]),
        (["errors", "UnknownTopicOrPartition"], [3]),
        (["UNKNOWN_TOPIC_OR_PARTITION"], [3]),
        (["notleaderforpartition"], [6]),
    ],
)
def test_an_error_by_its_code_or_name(kinspect, arguments, codes):
    rows = json.loads(kinspect("schema", "--format", "json", *arguments).out)
    assert [row["code"] for row in rows] == codes


def test_headers(kinspect):
    text = kinspect("schema", "RequestHeader").out
    assert [line for line in text.splitlines() if not line.startswith(" ")] == [
        "RequestHeader v0",
        "",
        "RequestHeader v1",
        "",
        "RequestHeader v2 (flexible)",
    ]
    assert kinspect("schema", "responseheader", "--version", "1").out == (
        "ResponseHeader v1 (flexible)\n  correlation_id  int32\n"
    )


def test_releases(kinspect):
    assert "3.7.0" in kinspect("schema", "releases").out
    rows = json.loads(kinspect("schema", "releases", "3.7", "--format", "json").out)
    fetch = {"key": 1, "name": "Fetch", "versions": "0-16", "min_version": 0, "max_version": 16}
    assert fetch | {"newest_unstable": False} in rows
    assert "MIN" not in kinspect("schema", "releases", "3.7").out


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["Fetsch"], "did you mean Fetch"),
        (["OffsetCommitValu"], "did you mean OffsetCommitValue"),
        (["xyzzy"], "see `kinspect schema`"),
        (["Fetch", "--version", "99"], "its versions are 0-18"),
        (["OffsetCommitValue", "--version", "99"], "its versions are 0-4"),
        (["releases", "9.9"], "see `kinspect schema releases`"),
        (["RequestHeadr"], "did you mean RequestHeader"),
        (["RequestHeader", "--version", "3"], "its versions are 0-2"),
        (["UNKNOWN_TOPIC_OR_PARTITON"], "did you mean UNKNOWN_TOPIC_OR_PARTITION"),
        (["errors", "UNKNOWN_TOPIK"], "did you mean UNKNOWN_TOPIC_ID"),
        (["errors", "999"], "see `kinspect schema errors`"),
        (["errors", "xyzzy"], "see `kinspect schema errors`"),
    ],
)
def test_unknown_names_are_one_line_with_a_hint(kinspect, arguments, hint):
    result = kinspect("schema", *arguments)
    assert result.status == 1
    assert result.out == ""
    assert hint in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version", "3"],
        ["--request"],
        ["errors", "--version", "3"],
        ["errors", "3", "--response"],
        ["UNKNOWN_TOPIC_OR_PARTITION", "--request"],
        ["releases", "--version", "3"],
        ["releases", "3.7", "--request"],
        ["RequestHeader", "--response"],
        ["OffsetCommitValue", "--request"],
    ],
)
def test_no_option_is_ignored(kinspect, arguments):
    result = kinspect("schema", *arguments)
    assert result.status == 2
    assert result.out == ""
    assert "is for" in result.err


def test_an_argument_too_many(kinspect):
    assert kinspect("schema", "Fetch", "3.7").status == 2


def test_every_layout_of_every_api_can_be_shown(kinspect):
    for row in json.loads(kinspect("schema", "--format", "json").out):
        assert kinspect("schema", str(row["key"])).status == 0


def test_a_last_column_is_wrapped_where_a_terminal_is_small():
    table = in_columns(["A", "B"], [["long cell", "one two-and-a-half three"], ["x", ""]], 31)
    assert table == ("A          B\nlong cell  one two-and-a-half\n           three\nx\n")
    assert in_columns(["A", "B"], [["x", "one two three"]], 22).count("\n") == 2
    assert in_columns(["A", "B"], [["x", "one two three " * 9]]).count("\n") == 2


def on_a_terminal(command, width, *arguments):
    controller, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(width)}
    subprocess.run([*command, "schema", *arguments], stdout=terminal, env=environment, check=True)
    os.close(terminal)
    shown = b""
    # What closes a terminal is an error to who reads it.
    with os.fdopen(controller, "rb", buffering=0) as screen, suppress(OSError):
        while data := screen.read(65536):
            shown += data
    return shown.decode().splitlines()


def test_on_a_terminal_no_row_of_versions_is_longer(command):
    rows = on_a_terminal(command, 110, "Fetch")
    assert len(rows) > 20
    assert max(map(len, rows)) <= 110


@pytest.mark.parametrize(
    ("width", "header", "left_out"),
    [
        (120, ["KEY", "NAME", "VERSIONS", "FLEXIBLE", "SINCE", "REMOVED", "RELEASES"], ""),
        (80, ["KEY", "NAME", "VERSIONS", "SINCE", "REMOVED"], "RELEASES, FLEXIBLE"),
        (60, ["KEY", "NAME", "VERSIONS"], "RELEASES, FLEXIBLE, SINCE, REMOVED"),
    ],
)
def test_a_narrow_terminal_does_without_columns(command, width, header, left_out):
    found, *rows = on_a_terminal(command, width)
    assert found.split() == header
    assert max(map(len, rows)) <= width
    assert len(rows) == 95 + bool(left_out)
    assert rows[-1].endswith(f"too narrow for {left_out}") == bool(left_out)


def test_a_pipe_has_no_width(process, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    assert b"RELEASES" in process("schema").stdout.splitlines()[0]
