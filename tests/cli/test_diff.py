"""`kinspect diff`."""

import csv
import gzip
import io
import json
from sys import maxsize

import pytest
from support.captures import CAPTURES
from support.hostile import dangerous, hostile

from kinspect.answers.comparison import differences
from kinspect.answers.differencetable import FEW, _gathered, _values
from kinspect.output.cells import cell

OLD, NEW = CAPTURES / "3.6.2/txn_java.pcap.gz", CAPTURES / "4.1.2/txn_java.pcap.gz"
BRIEF = "--answer", "brokers", "--answer", "latency"


ERRORS = CAPTURES / "4.4.0/errors_java.pcap.gz"


def test_formats_have_the_same_rows(kinspect):
    found = json.loads(kinspect("diff", OLD, NEW, *BRIEF).out)
    assert found["diff"] == ["brokers", "latency"]
    assert found["before"]["files"] != found["after"]["files"]
    rows = found["rows"]
    assert {row["change"] for row in rows} == {"changed", "appeared", "went"}
    lines = kinspect("diff", OLD, NEW, *BRIEF, "--format", "jsonl").out.splitlines()
    assert [json.loads(line) for line in lines] == rows
    cells = [*csv.DictReader(io.StringIO(kinspect("diff", OLD, NEW, *BRIEF, "--format", "csv").out))]
    assert [row["row"] for row in cells] == [str(cell(row["row"])) for row in rows]
    table = kinspect("diff", OLD, NEW, *BRIEF, "--format", "table", "--wide").out
    assert table.splitlines()[-1] == f"next: kinspect brokers {NEW}"
    assert len(table.splitlines()) == len(rows) + 3


def test_exit_status(kinspect):
    def status(*arguments):
        return kinspect("diff", *arguments).status

    assert status(OLD, NEW) == 0
    assert status(OLD, NEW, "--fail-on", "changed") == 4
    assert status(OLD, NEW, *BRIEF, "--fail-on", "moved") == 0
    assert status(OLD, NEW, *BRIEF, "--fail-on", "moved", "--fail-on", "any") == 4
    assert status(NEW, NEW, "--fail-on", "any") == 0
    assert status(NEW, "nowhere.pcap") == 1


@pytest.mark.parametrize(
    "arguments", [("--answer", "summary"), ("--answer", "x"), ("--threshold", "1"), ("--threshold", "nan")]
)
def test_what_makes_no_sense_is_refused(kinspect, arguments):
    found = kinspect("diff", OLD, NEW, *arguments)
    assert (found.status, found.out) == (2, "")
    assert arguments[0] in found.err


def test_filters_are_for_both(kinspect):
    found = json.loads(kinspect("diff", OLD, NEW, "--api", "Metadata", "--answer", "latency").out)
    assert found["rows"] == []
    assert found["before"]["filters"] == found["after"]["filters"] == ["--api"]


def test_a_slip_in_a_filter_is_told(kinspect):
    lines = kinspect("diff", NEW, NEW, "--topic", "txn_java-ot", "--format", "table").out.splitlines()
    assert lines[0] == "nothing was compared"
    assert kinspect("diff", NEW, NEW, "--topic", "txn_java-ot", "--fail-on", "any").status == 1
    assert lines[1].startswith("BEFORE: no exchange passes --topic; did you mean txn_java-out, txn_java-in?")


def test_what_a_capture_may_lack_fails_nothing(kinspect, tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(gzip.decompress(NEW.read_bytes())[:20_000])
    found = kinspect("diff", NEW, cut, "--fail-on", "went")
    rows = json.loads(found.out)["rows"]
    went = [row["caveat"] for row in rows if row["change"] == "went"]
    assert went
    assert None not in went
    assert found.status == 3
    told = f"--fail-on: {len(went)} differences not counted, each with a caveat: {went[0]}"
    assert told in found.err


OTHER = CAPTURES / "not-kafka/postgres.pcap.gz"


@pytest.mark.parametrize("sides", [(OTHER, OTHER), (NEW, OTHER), (OTHER, NEW)])
def test_nothing_to_compare_is_no_success(kinspect, sides):
    lines = kinspect("diff", *sides, "--format", "table", "--fail-on", "any")
    assert lines.out.splitlines()[0] == "nothing was compared"
    assert (lines.status, lines.err) == (1, "")
    found = kinspect("diff", *sides, "--fail-on", "any")
    assert (found.status, json.loads(found.out)["rows"], json.loads(found.out)["compared"]) == (1, [], False)
    side = "BEFORE" if sides[0] == OTHER else "AFTER"
    assert found.err.startswith(f"kinspect: nothing was compared: {side}: no Kafka was found")
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize("sides", [(ERRORS, OTHER), (OTHER, ERRORS)])
def test_a_side_without_kafka_passes_no_test(kinspect, sides):
    """Also if the other one has problems to connect, which are compared."""
    found = kinspect("diff", *sides, "--fail-on", "any")
    assert (found.status, json.loads(found.out)["compared"]) == (1, True)
    assert "--fail-on: not all answers could be compared: " in found.err
    assert kinspect("diff", *sides, "--fail-on", "any", "--answer", "connect").status == 0
    assert kinspect("diff", *sides).status == 0


@pytest.mark.parametrize("whole", [False, True])
def test_problems_to_connect_are_compared_without_any_kafka(kinspect, whole):
    sides = [CAPTURES / "connect" / f"{name}_librdkafka.pcap.gz" for name in ("healthy-tls", "expired")]
    found = kinspect("diff", *sides, "--decode-as", "9196", *(() if whole else ("--answer", "connect")))
    assert (found.status, found.err) == (0, "")
    rows = json.loads(found.out)["rows"]
    assert {(row["answer"], row["change"]) for row in rows} == {("connect", "appeared")}
    assert kinspect("diff", *sides, "--decode-as", "9196", "--answer", "topics").status == 1


WHOLE = CAPTURES / "4.4.0/kip848.pcap.gz"


def part(path, first, last):
    """Packets of WHOLE, by their numbers from 0."""
    capture, at, packets = gzip.decompress(WHOLE.read_bytes()), 24, []
    while at < len(capture):
        end = at + 16 + int.from_bytes(capture[at + 8 : at + 12], "little")
        packets.append(capture[at:end])
        at = end
    path.write_bytes(capture[:24] + b"".join(packets[first:last]))
    return path


@pytest.mark.big
@pytest.mark.parametrize(
    ("first", "last", "why"),
    [
        (0, 300, "it lasts 3,293 ms, the other one 9,165 ms"),
        (0, 400, "it lasts 5,003 ms, the other one 9,165 ms"),
        (300, None, "under way at the start"),
    ],
)
def test_what_a_part_of_a_capture_has_not_did_not_go(kinspect, tmp_path, first, last, why):
    short = part(tmp_path / "part.pcap", first, last)
    for sides in ((WHOLE, short), (short, WHOLE)):
        rows = json.loads(kinspect("diff", *sides).out)["rows"]
        caveats = [row["caveat"] for row in rows if row["change"] in ("appeared", "went")]
        assert len(caveats) > 3
        assert all(why in (caveat or "") for caveat in caveats)
        moved = {row["caveat"] for row in rows if row["change"] == "moved"}
        assert moved <= {why} if last == 300 else moved <= {None}
        assert kinspect("diff", *sides, "--fail-on", "went", "--fail-on", "appeared").status == 0
        table = kinspect("diff", *sides, "--format", "table").out
        told = [
            line for line in table.splitlines() if line.startswith(("BEFORE: ", "AFTER: ")) and why in line
        ]
        assert told or last == 400


def test_names_stand_for_addresses_and_tell_rows(kinspect, tmp_path):
    names = tmp_path / "names"
    names.write_text('{"127.0.0.1:34092": "kafka-1", "127.0.0.1:9092": "kafka-1"}')
    table = kinspect("diff", OLD, NEW, *BRIEF, "--names", names, "--format", "table", "--wide").out
    assert " kafka-1:34092 → kafka-1:9092  advertised " in table


def side(names, counts, seconds=60):
    """The object of `connect`: clients refused so often, by their addresses."""
    rows = [{"problem": "refused", "client_id": "a", "client_ip": ip, "broker": None} for ip in names]
    rows = [{**row, "severity": "error", "count": count} for row, count in zip(rows, counts, strict=True)]
    moments = {
        "from": "2026-01-01T00:00:00Z",
        "until": f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z",
    }
    capture = {**moments, "counted": 9000, "exchanges": 9000, "orphans": 0, "complete": True}
    capture |= {"filters": [], "incomplete": [], "instead": None, "names": names}
    return [{"answer": "connect", "capture": capture, "rows": rows}]


@pytest.mark.parametrize("swapped", [False, True])
def test_hosts_that_swapped_their_addresses_are_told_by_their_names(swapped):
    before = side({"10.0.0.1": ["one"], "10.0.0.2": ["two"]}, (1000, 10))
    after = side({"10.0.0.1": ["two"], "10.0.0.2": ["one"]}, (10, 1000) if swapped else (1000, 10))
    assert len(differences(before, after)) == (0 if swapped else 2)


@pytest.mark.parametrize(
    ("count", "seconds", "sure"),
    [(1, 60, True), (5, 20, False), (500, 20, True), (5, 40, False), (500, 50, True), (1, 55, True)],
)
def test_what_is_often_seen_is_missed_in_a_shorter_capture(count, seconds, sure):
    refused, none = side({"10.0.0.1": []}, (count,)), side({}, (), seconds)
    for before, after in ((refused, none), (none, refused)):
        (row,) = differences(before, after)
        assert (row["caveat"] is None) == sure


def test_wide_cuts_no_names(kinspect):
    table = kinspect("diff", OLD, NEW, *BRIEF, "--format", "table", "--wide").out
    (line,) = [line for line in table.splitlines() if " ranges " in line]
    assert " +" not in line
    assert line.count("AddOffsetsToTxn 0-") == 2
    assert line.count("WriteTxnMarkers") == 2


def test_a_folder_is_one_capture(kinspect, tmp_path):
    for path in (OLD, NEW):
        (tmp_path / path.parent.name).with_suffix(".pcap.gz").write_bytes(path.read_bytes())
    found = json.loads(kinspect("diff", tmp_path, NEW, "--answer", "clients").out)
    assert len(found["before"]["files"]) == 2
    assert {row["change"] for row in found["rows"]} == {"went"}
    (tmp_path / "empty").mkdir()
    assert "has no files that are named as captures" in kinspect("diff", tmp_path / "empty", NEW).err


def test_a_file_keeps_what_cannot_be_compared(kinspect, tmp_path):
    out = tmp_path / "out.json"
    out.write_text("old")
    assert kinspect("diff", OLD, NEW, "-o", out).status == 2
    assert kinspect("diff", OLD, tmp_path / "none", "-o", out, "--force").status == 1
    assert out.read_text() == "old"
    assert kinspect("diff", OLD, NEW, "-o", out, "--force").status == 0
    assert json.loads(out.read_text())["rows"]


def test_nothing_on_a_terminal_is_a_command(kinspect, tmp_path):
    path = tmp_path / "hostile.pcap"
    path.write_bytes(hostile())
    for form in ("table", "json", "jsonl", "csv"):
        for sides in ((path, OLD), (OLD, path)):
            found = kinspect("diff", *sides, "--format", form, "--wide", "--color", "never")
            assert found.status == 0
            assert not dangerous(found.out)


def test_only_captures_of_a_folder_are_read(kinspect, tmp_path):
    folder = tmp_path / "before"
    folder.mkdir()
    (folder / "a.pcap.gz").write_bytes(OLD.read_bytes())
    (folder / "notes.txt").write_text("no capture")
    found = kinspect("diff", folder, NEW, *BRIEF)
    assert found.status == 0
    assert f"{folder}: left out, as not named as captures: 1 file" in found.err
    assert json.loads(found.out)["rows"] == json.loads(kinspect("diff", OLD, NEW, *BRIEF).out)["rows"]


def test_cells_show_where_texts_differ():
    row = {"before": "apache-kafka-java/3.6.2", "after": "apache-kafka-java/4.1.2"}
    assert _values(row, FEW) == ("…3.6.2", "…4.1.2")
    assert _values(row, maxsize) == (row["before"], row["after"])
    longer = {"before": "org.example.authorization", "after": "org.example.authorization.v2"}
    assert _values(longer, FEW) == ("…authorization", "…authorization.v2")
    assert _values({"before": 1_234_567_890_123_000, "after": 1_234_567_890_123_999}, FEW)[1].startswith("1,")


def test_rows_that_are_folded_have_their_counts():
    rows = [
        {"change": "appeared", "answer": "errors", "caveat": None, "column": None, "row": {"error": name}}
        | {"before_count": None, "after_count": count}
        for name, count in (("NOT_COORDINATOR", 1200), ("REBALANCE_IN_PROGRESS", 3))
    ]
    assert _gathered(rows)[0]["names"] == ["NOT_COORDINATOR 1,200", "REBALANCE_IN_PROGRESS 3"]
    assert _gathered(rows[:1]) == rows[:1]
