"""`kinspect.spark.read` in a session: the same rows as `kinspect read`."""

import os
from importlib import import_module
from pathlib import Path

import pytest
from lines import WHOLE, line_of, lines
from traffic import rotated

from kinspect.errors import KinspectError

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
ALL = sorted(str(path) for path in CAPTURES.rglob("*.pcap*"))


@pytest.fixture(scope="module")
def read():
    return import_module("kinspect.spark").read


def collected(frame, kind="exchange"):
    return [line_of(row.asDict(True), kind) for row in frame.orderBy("completion").collect()]


@pytest.mark.filterwarnings("ignore::kinspect.spark.batch.CaptureWarning")
def test_all_captures(spark, read):
    made = collected(read(spark, ALL, records=True, payload="text", partitions=5))
    assert made == lines(ALL)
    assert len(made) > 5_000


def test_in_a_session_that_does_not_execute_adaptively(spark, read):
    """It would leave the shuffle for later, and what the scan tells with it."""
    own = spark.newSession()
    own.conf.set("spark.sql.adaptive.enabled", "false")
    path = CAPTURES / "2.8.2/console-zstd.pcap"
    frame = read(own, str(path), records=True, payload="text")
    frame.createTempView("exchanges")
    assert collected(own.sql("SELECT * FROM exchanges")) == lines([path])


def test_connections(spark, read):
    frame = read(spark, str(CAPTURES / "4.4.0/*.pcap*"), "connections", partitions=3)
    paths = sorted((CAPTURES / "4.4.0").glob("*.pcap*"))
    assert collected(frame, "connection") == lines(paths, "connection")


def test_a_capture_cut_into_twenty_files(spark, read, tmp_path):
    paths = rotated(CAPTURES / "2.8.2/console-zstd.pcap", tmp_path, 20)
    frame = read(spark, f"file://{tmp_path}/ring*.pcap", records=True, payload="text", split_bytes=2_000)
    made = collected(frame)
    for line in made:
        for side in ("request", "response"):
            if line[side]:
                line[side]["frames"]["file"] = line[side]["frames"]["file"].removeprefix("file://")
    assert made == lines(paths, view=WHOLE)


def test_what_cannot_be_read_is_told(spark, read, tmp_path):
    run = import_module("kinspect.spark.batch")
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((CAPTURES / "2.8.2/console-zstd.pcap").read_bytes()[:-10])
    with pytest.warns(run.CaptureWarning) as told:
        frame = read(spark, [str(cut), str(tmp_path / "missing.pcap")], records=True, payload="text")
    assert [
        "ends in the middle of packet" in str(told[0].message),
        "no such file" in str(told[1].message),
    ] == [True] * 2
    assert collected(frame) == lines([cut])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"table": "topics"}, "it is one of exchanges"),
        ({"table": "batches", "fields": ["nope"]}, "no column 'nope'"),
        ({"fields": ["nope"]}, "unknown field 'nope'"),
        ({"filter": {"api": ["nope"]}}, "there is no API"),
        ({"filter": {"topc": ["x"]}}, "there is no filter topc; there are api, topic, "),
        ({"payload": "nope"}, "payload cannot be 'nope'"),
    ],
)
def test_wrong_arguments_are_told(spark, read, arguments, words):
    with pytest.raises(KinspectError, match=words):
        read(spark, str(CAPTURES / "4.3.1/*"), **arguments)


def test_one_value_of_a_filter_needs_no_list(spark, read):
    path = str(CAPTURES / "4.3.1/telemetry.pcap.gz")
    one, listed = (read(spark, path, filter={"api": value}) for value in ("Fetch", ["Fetch"]))
    assert one.count() == listed.count() > 0


def test_a_name_that_is_no_text(spark, read, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.pcap")
    Path(path).write_bytes((CAPTURES / "2.8.2/console-zstd.pcap").read_bytes())
    rows = read(spark, path, fields=["request.frames.file"]).collect()
    assert {row["request"]["frames"]["file"] for row in rows} == {f"{tmp_path}/bad\ufffd.pcap"}


def test_a_glob_without_files_is_told(spark, read):
    with pytest.raises(KinspectError, match="no file has such a name"):
        read(spark, "/nonexistent/*.pcap")


def test_paths_need_not_be_text(spark, read):
    paths = sorted((CAPTURES / "2.8.2").glob("console*.pcap"))
    whole = {"records": True, "payload": "text"}
    assert collected(read(spark, paths, **whole)) == lines(paths)
    assert collected(read(spark, paths[0], **whole)) == lines(paths[:1])


@pytest.mark.parametrize("given", [bytes, str, Path])
def test_secrets_are_bytes_or_a_file(spark, read, given):
    keylog, path = (CAPTURES / "tls" / name for name in ("tls13.keys.log", "tls13.pcap.gz"))
    secrets = keylog.read_bytes() if given is bytes else given(keylog)
    frame = read(spark, path, records=True, payload="text", keylog=secrets)
    found = lines([path], keylog=keylog.read_bytes())
    assert collected(frame) == found
    assert any(line["api"] == "Metadata" for line in found)


def test_the_folder_of_a_stream_need_not_be_text(spark, tmp_path):
    stream = import_module("kinspect.spark").stream
    # What the session has registered, one that is made of it cannot register again.
    for session in (spark, spark.newSession()):
        frame = stream(session, tmp_path, keylog=tmp_path / "keys.log")
        assert frame.isStreaming
        assert "exchange_id" in frame.columns
