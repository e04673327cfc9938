"""`format("kinspect")`: found by Spark by itself, split, filtered."""

import struct
from pathlib import Path

import pytest
from traffic import pcapng

from kinspect import link
from kinspect.capture import open_timeline
from kinspect.model import Caps, Counts

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
PLAIN = CAPTURES / "4.4.0/platformatic.pcap"


def packets(path):
    """Time and bytes of each packet."""
    return [
        (time, block.data[start:end])
        for block in open_timeline([str(path)])
        for time, start, end in zip(block.times, block.starts, block.ends, strict=True)
    ]


@pytest.mark.parametrize("kind", ["pcap", "pcapng", "pcapng, big-endian"])
def test_packets_of_a_split_capture(spark, tmp_path, kind):
    path = PLAIN
    if kind != "pcap":
        path = tmp_path / "made.pcapng"
        path.write_bytes(pcapng(packets(PLAIN), ">" if "big" in kind else "<"))
    frame = spark.read.format("kinspect").option("splitBytes", 2_000).load(str(path))
    rows = frame.orderBy("split", "number").collect()
    assert [(row["timestamp_ns"], bytes(row["data"])) for row in rows] == packets(PLAIN)
    assert len({row["split"] for row in rows}) > 3
    assert [row["number"] for row in rows if row["split"] == 1] == list(
        range(1, 1 + sum(row["split"] == 1 for row in rows))
    )


def test_segments_and_options(spark):
    counts = Counts()
    dissector = link.Dissector(Caps(), counts)
    expected = [
        (row[1], row[2], row[5][row[6] : row[7]])
        for block in open_timeline([str(PLAIN)])
        for row in dissector.segments(block)
    ]
    reader = spark.read.format("kinspect").option("table", "segments")
    rows = reader.load(str(PLAIN)).orderBy("number").collect()
    assert [(row["timestamp_ns"], row["seq"], bytes(row["payload"])) for row in rows] == expected
    some = (
        reader.option("fields", "destination_port, seq")
        .option("port", rows[0]["source_port"])
        .load(str(PLAIN))
    )
    assert some.columns == ["destination_port", "seq"]
    asked = [row for row in rows if rows[0]["source_port"] in (row["source_port"], row["destination_port"])]
    assert some.count() == len(asked) < len(rows)


def test_globs_and_compressed_captures(spark):
    frame = (
        spark.read.format("kinspect").option("fields", "file,number").load(str(CAPTURES / "4.4.0/t*.pcap*"))
    )
    names = {Path(row["file"]).name for row in frame.collect()}
    assert names == {path.name for path in (CAPTURES / "4.4.0").glob("t*.pcap*")}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"table": "records"}, "it is one of packets, segments"),
        ({"fields": "nope"}, "no column 'nope'"),
        ({"splitbytes": "64M"}, "is a number of bytes"),
        ({"topic": "x"}, "unknown option 'topic'"),
        ({"port": "9092"}, "packets cannot be filtered by port"),
    ],
)
def test_wrong_options_are_told(spark, options, words):
    with pytest.raises(Exception, match=words):
        spark.read.format("kinspect").options(**options).load(str(PLAIN)).count()


def test_a_boundary_that_is_none_stops_the_scan(spark, tmp_path):
    """A packet that holds a whole pcap: its records look like the file's own."""
    inner = PLAIN.read_bytes()[24:] * 8
    head = PLAIN.read_bytes()[:24]
    path = tmp_path / "nested.pcap"
    record = struct.pack("<IIII", 1_700_000_000, 0, len(inner), len(inner)) + inner
    path.write_bytes(head + record * 3)
    reader = spark.read.format("kinspect")
    with pytest.raises(Exception, match="cannot be read in parts"):
        reader.option("splitBytes", 50_000).load(str(path)).count()
    assert reader.option("splitBytes", 0).load(str(path)).count() == 3
