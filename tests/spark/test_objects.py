"""Captures in an object store: an S3-compatible server on the loopback interface."""

import json
from importlib import import_module
from pathlib import Path

import cbor2
import pytest
from lines import lines
from objectstore import object_store

from kinspect.capture import open_timeline
from kinspect.kafka.view.view import View

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures/2.8.2"
REPORT = 3
NAMES = ("console-none.pcap", "console-zstd.pcap")


@pytest.fixture(scope="module")
def bucket():
    """The URL of the captures in a bucket."""
    with object_store() as store:
        store.system.create_dir("captures")
        for name in NAMES:
            with store.system.open_output_stream(f"captures/day/{name}") as stream:
                stream.write((CAPTURES / name).read_bytes())
        yield store.url("captures/day/{}")


def test_rows_of_captures_in_a_bucket(spark, bucket):
    read = import_module("kinspect.spark").read
    paths = [bucket.format(name) for name in NAMES]
    frame = read(spark, paths, fields=["connection_id", "correlation_id", "topics"], split_bytes=2_000)
    made = [(row[0], row[1], row[2]) for row in frame.orderBy("completion").collect()]
    expected = lines([CAPTURES / name for name in NAMES], view=View())
    assert made == [(line["connection_id"], line["correlation_id"], line["topics"]) for line in expected]


def test_a_scan_of_captures_in_a_bucket(spark, bucket):
    frame = spark.read.format("kinspect").option("splitBytes", 2_000).load(bucket.format(NAMES[0]))
    plain = spark.read.format("kinspect").load(str(CAPTURES / NAMES[0]))
    columns = ("timestamp_ns", "wire_length", "data")
    assert sorted(frame.select(*columns).collect()) == sorted(plain.select(*columns).collect())


def test_a_glob_and_names_without_secrets(spark, bucket):
    frame = spark.read.format("kinspect").option("fields", "file").load(bucket.format("console-*.pcap"))
    assert {row["file"] for row in frame.collect()} == {f"s3://captures/day/{name}" for name in NAMES}


def test_a_folder_in_a_bucket(bucket):
    folder = import_module("kinspect.spark.streaming.watchedfolder").WatchedFolder(bucket.format(""))
    found = folder.look()
    assert {capture.path for capture in found} == {bucket.format(name) for name in NAMES}
    assert all(capture.first is not None and not capture.error for capture in found)


def test_an_offset_has_neither_folder_nor_secrets(bucket):
    """So a folder is the same one with other secrets and settings, and a checkpoint holds none."""
    source = import_module("kinspect.spark.streaming.streamsource")
    limits = import_module("pyspark.sql.streaming.datasource")
    reader = source.StreamReader(source.StreamOptions(bucket.format(""), settle=0.0))
    offset = reader.latestOffset(reader.initialOffset(), limits.ReadAllAvailable())
    text = json.dumps(offset)
    assert not any(part in text for part in ("test", "secret", "captures", "endpoint", "://"))
    other = source.StreamReader(
        source.StreamOptions(bucket.format("") + "&allow_bucket_creation=true", settle=0.0)
    )
    assert other.latestOffset(json.loads(text), limits.ReadAllAvailable()) == json.loads(text)
    control, *tasks = other.partitions(reader.initialOffset(), json.loads(text))
    assert sorted(control.value["files"].values()) == [f"s3://captures/day/{name}" for name in NAMES]
    reports = [
        cbor2.loads(row["heads"])["report"]
        for task in tasks
        for batch in other.read(task)
        for row in batch.to_pylist()
        if row["kind"] == REPORT and row["shard"] == 0
    ]
    counts = [cbor2.loads(report)["counts"]["packets"] for report in reports]
    assert sum(counts) == sum(map(len, open_timeline([str(CAPTURES / name) for name in NAMES])))


def test_what_is_not_there_is_told(spark, bucket):
    frame = spark.read.format("kinspect").load(bucket.format("missing.pcap"))
    with pytest.raises(Exception, match=r"s3://captures/day/missing\.pcap: no such file"):
        frame.count()
