"""`--format parquet`: the rows of `kinspect pipeline run`, without Spark. They are the lines of `kinspect read`."""

import errno
import itertools
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
from datetime import date
from importlib import import_module
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lines import line_of, lines
from support.captures import each_folder
from support.decoded import keylog_beside
from support.pcap import Conversation, framed, pcap
from support.waiting import wait_until

from kinspect import read, records_of
from kinspect.errors import KinspectError
from kinspect.kafka.view.view import View, iso_time
from kinspect.protocol import Message, encode_request, encode_response
from kinspect.tables.arrowcolumns import schema_of
from kinspect.tables.builder import TableBuilder
from kinspect.tables.lock import FileLock
from kinspect.tables.openfolder import TableFolder
from kinspect.tables.parquet import OPEN_FILES, PartFiles, opening_below
from kinspect.tables.rows import open_tables
from kinspect.tables.tablenames import RECORD_ROWS

CAPTURES = Path(__file__).parents[2] / "captures"
NANO = CAPTURES / "4.4.0/nano.pcap"
KINSPECT = [sys.executable, "-m", "kinspect", "read"]
TABLES = ("exchanges", "batches", "connections", "records")
OWN = {"run_id": None}
DAY_US = 86_400_000_000


def comparable(found):
    return sorted(orjson.dumps(line, option=orjson.OPT_SORT_KEYS) for line in found)


def files(out, table):
    return sorted((out / table).glob("date=*/*.parquet"))


def rows(out, table):
    """The rows of a table in the order of completion, each with the date of its folder."""
    found = []
    for path in files(out, table):
        day = path.parent.name.removeprefix("date=")
        for row in pq.ParquetFile(path).read().to_pylist():
            assert "date" not in row
            found.append({**row, "date": None if day.startswith("__") else date.fromisoformat(day)})
    return sorted(found, key=lambda row: row.get("completion") or b"")


@each_folder
def test_rows_are_the_lines_of_read(kinspect, folder, tmp_path):
    paths = sorted(folder.glob("*.pcap*"))
    keylog = b"".join(path.read_bytes() for path in map(keylog_beside, paths) if path.exists())
    secrets = tmp_path / "keylog"
    secrets.write_bytes(keylog)
    given = ["--keylog", secrets] if keylog else []
    found = kinspect(
        "read", "--format", "parquet", "-o", tmp_path / "out", "--payload", "text", *given, *paths
    )
    assert found.out == ""
    for kind, table in (("exchange", "exchanges"), ("connection", "connections")):
        made = rows(tmp_path / "out", table)
        expected = lines(paths, kind, keylog=keylog)
        assert comparable(map(lambda row, kind=kind: line_of(row, kind), made)) == comparable(expected)
        assert [row["date"] and row["date"].isoformat() for row in made] == [
            line["timestamp"] and line["timestamp"][:10] for line in (line_of(row, kind) for row in made)
        ]
        assert f"{table}: {len(made):,} rows, dates " in found.err
        assert len({row["run_id"] for row in made}) <= 1


def test_records_have_what_their_exchange_shows_of_transactions(kinspect, tmp_path):
    path = CAPTURES / "4.4.0/txn_java.pcap.gz"
    kinspect("read", "--format", "parquet", "-o", tmp_path / "out", "--tables", "records", path)
    made, told = rows(tmp_path / "out", "records"), [*records_of(path, control=True)]
    assert len(made) == len(told)
    assert {row["transaction"] for row in made} == {"none", "committed", "aborted", None}
    for row, other in zip(made, told, strict=True):
        assert row["transaction"] in (other["transaction"], None)
        assert (row["log_offset"], row["control"]) == (other["offset"], other["control"])
        assert f"{row['record_timestamp']:%FT%T.%f}000Z" == other["record_timestamp"]


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (CAPTURES / "4.1.2/txn_java.pcap.gz", {"payload": "text", "control": True}),
        (CAPTURES / "2.8.2/console-zstd.pcap", {}),
        pytest.param(
            Path(__file__).parents[1] / "payloads/data/orders.pcap",
            {"payload": "auto", "schema_registry": "tests/payloads/data/schemas.jsonl"},
            marks=pytest.mark.big,
        ),
    ],
)
def test_rows_of_records_are_those_of_the_command(kinspect, tmp_path, path, options):
    words = [f"--{name.replace('_', '-')}" for name in options]
    given = [x for pair in zip(words, options.values(), strict=True) for x in pair if x is not True]
    found = kinspect("records", path, "--format", "parquet", "-o", tmp_path / "out", *given)
    made, told = rows(tmp_path / "out", "record_rows"), [*records_of(path, **options)]
    assert len(made) == len(told) > 5
    assert f"record_rows: {len(told)} rows, dates {told[0]['timestamp'][:10]}" in found.err
    for row, other in zip(made, told, strict=True):
        shown = {name: row[name] for name in other}
        shown["timestamp"] = iso_time(row["timestamp_ns"])
        shown["record_timestamp"] = f"{row['record_timestamp']:%FT%T.%f}000Z"
        for name in ("key", "value"):
            if row[f"{name}_encoding"] in ("json", "avro", "protobuf"):
                shown[name] = orjson.loads(row[name])
        for header in shown["headers"]:
            if header["value_encoding"] == "json":
                header["value"] = orjson.loads(header["value"])
        assert shown == other
        assert str(row["date"]) == other["timestamp"][:10]


def test_headers_may_be_numbers():
    row = next(iter(records_of(CAPTURES / "4.1.2/txn_java.pcap.gz", payload="json")))
    row["headers"] = [{"key": "retries", "value": 3, "value_encoding": "json"}]
    builder = TableBuilder(open_tables((RECORD_ROWS,), None, View()), "run", None)
    assert [*builder.add_rows([row])] == []
    ((_, made),) = builder.rest()
    assert made.to_pylist()[0]["headers"][0]["value"] == "3"


@pytest.mark.parametrize("payload", ["none", "text"])
def test_tables_of_an_exchange_share_its_line(payload):
    made = []

    class Counted(View):
        def exchange(self, exchange):
            made.append(exchange)
            return super().exchange(exchange)

    def rows_of(*names):
        made.clear()
        builder = TableBuilder(open_tables(names, None, Counted(payload=payload)), "run", None)
        found = [*builder.add(exchanges), *builder.rest()]
        return {name: rows.to_pylist() for name, rows in found}

    exchanges = [*read(CAPTURES / "4.1.2/txn_java.pcap.gz")]
    names = TABLES[:2] if payload == "none" else TABLES
    alone = {}
    for name in names:
        alone.update(rows_of(name))
    assert rows_of(*names) == alone
    assert made == exchanges


def test_records_are_a_table_of_their_own(kinspect, tmp_path):
    for wrong, words in (
        ([], "--format parquet writes tables: say where with -o DIR"),
        (["-o", tmp_path / "x", "--split", "topic"], "the column topic parts rows"),
        (["-o", NANO], "is no folder"),
    ):
        found = kinspect("records", NANO, "--format", "parquet", *wrong)
        assert found.status == 2
        assert words in found.err
    kinspect("records", NANO, "--format", "parquet", "-o", tmp_path / "out")
    assert (
        "has tables already" in kinspect("records", NANO, "--format", "parquet", "-o", tmp_path / "out").err
    )
    found = kinspect("records", NANO, "--format", "parquet", "-o", tmp_path / "out", "--force", "--limit", 3)
    assert len(rows(tmp_path / "out", "record_rows")) == 3
    assert "stopped at --limit 3" in found.err


@pytest.mark.big
def test_several_processes_write_the_same_rows(tmp_path):
    paths = [str(path) for path in sorted((CAPTURES / "4.4.0").glob("*.pcap*"))]
    told = []
    for jobs in ("1", "3"):
        out = tmp_path / jobs
        found = subprocess.run(
            [*KINSPECT, "--format", "parquet", "-o", out, "--records", "--jobs", jobs, *paths],
            capture_output=True,
            check=True,
        )
        told.append(found.stderr)
        assert {path.name for path in out.iterdir()} == {*TABLES}
    assert told[0] == told[1]
    assert len(files(tmp_path / "3", "exchanges")) > 1
    for table in TABLES:
        alone, shared = [[{**row, **OWN} for row in rows(tmp_path / jobs, table)] for jobs in ("1", "3")]
        assert len(alone) > 10
        assert sorted(map(str, alone)) == sorted(map(str, shared))


@pytest.mark.tools
@pytest.mark.parametrize("name", ["4.3.1/telemetry.pcap.gz", "2.8.2/console-zstd.pcap", "tls/go.pcap.gz"])
def test_tables_are_those_of_a_job_on_spark(spark, kinspect, name, tmp_path):
    job = import_module("kinspect.spark.job")
    path = CAPTURES / name
    request = job.Request(TABLES, view=View(payload="text"))
    job.run(spark, job.Job([str(path)], str(tmp_path / "spark"), request), lambda _: None)
    kinspect("read", "--format", "parquet", "-o", tmp_path / "own", "--records", "--payload", "text", path)
    for table in TABLES:
        assert files(tmp_path / "own", table) or not files(tmp_path / "spark", table)
        if not files(tmp_path / "spark", table):
            continue
        theirs, own = [rows(tmp_path / made, table) for made in ("spark", "own")]
        assert [{**row, **OWN} for row in theirs] == [{**row, **OWN} for row in own]
        schemas = [
            plain(spark.read.parquet(str(tmp_path / made / table)).schema) for made in ("spark", "own")
        ]
        assert schemas[0] == schemas[1]


def plain(schema):
    """A schema of Spark without comments."""
    text = schema.json()
    found = orjson.loads(text)
    for field in found["fields"]:
        field["metadata"] = {}
    return found


@pytest.mark.tools
def test_duckdb_and_pandas_read_them(kinspect, tmp_path):
    kinspect("read", "--format", "parquet", "-o", tmp_path / "out", NANO)
    duckdb = import_module("duckdb")
    query = f"select api, date, request.body from '{tmp_path}/out/exchanges/**/*.parquet' order by completion"
    found = duckdb.sql(query).fetchall()
    expected = lines([NANO], view=View())
    assert [(api, str(day)) for api, day, _ in found] == [
        (line["api"], line["timestamp"][:10]) for line in expected
    ]
    assert [orjson.loads(body) for *_, body in found] == [line["request"]["body"] for line in expected]
    pandas = import_module("pandas")
    assert len(pandas.read_parquet(tmp_path / "out/exchanges")) == len(expected)


def test_which_tables(kinspect, tmp_path):
    def made(name, *options):
        kinspect("read", "--format", "parquet", "-o", tmp_path / name, *options, NANO)
        return {path.name for path in (tmp_path / name).iterdir()}

    assert made("default") == {"exchanges", "batches", "connections"}
    assert made("records", "--records") == {*TABLES}
    assert made("chosen", "--tables", "connections,records") == {"connections", "records"}


def test_filters_and_limits_hold(kinspect, tmp_path):
    kinspect("read", "--format", "parquet", "-o", tmp_path / "some", "--api", "Produce", NANO)
    assert {row["api"] for row in rows(tmp_path / "some", "exchanges")} == {"Produce"}
    kinspect("read", "--format", "parquet", "-o", tmp_path / "two", "--limit", "2", NANO)
    assert [row["api"] for row in rows(tmp_path / "two", "exchanges")] == [
        line["api"] for line in lines([NANO])
    ][:2]


def test_only_its_owner_may_read_them(kinspect, tmp_path):
    kinspect("read", "--format", "parquet", "-o", tmp_path / "out", NANO)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").rglob("*.parquet")} == {0o600}


def test_tables_are_never_mixed(kinspect, tmp_path):
    out = tmp_path / "out"
    assert kinspect("read", "--format", "parquet", "-o", out, "--records", NANO).status == 0
    before = sorted(out.rglob("*"))
    again = kinspect("read", "--format", "parquet", "-o", out, NANO)
    assert (again.status, sorted(out.rglob("*"))) == (2, before)
    assert f"-o: {out}: has tables already; give --force to replace them all" in again.err
    path = CAPTURES / "2.8.2/console-zstd.pcap"
    assert kinspect("read", "--format", "parquet", "-o", out, "--force", path).status == 0
    assert not any(path in before for path in out.rglob("*.parquet"))
    assert not (out / "records").exists()
    assert comparable(map(line_of, rows(out, "exchanges"))) == comparable(lines([path], view=View()))


def test_tables_go_once_those_in_their_place_stand(kinspect, tmp_path, monkeypatch):
    out = tmp_path / "out"
    kinspect("read", "--format", "parquet", "-o", out, NANO)
    before = {*out.rglob("*.parquet")}

    unlink = os.unlink

    def refuse(path, **more):
        if str(path).endswith(".parquet"):
            raise OSError("no right to delete")
        unlink(path, **more)

    # As if the run ended there.
    monkeypatch.setattr(os, "unlink", refuse)
    assert kinspect("read", "--format", "parquet", "-o", out, "--force", NANO).status != 0
    assert before < {*out.rglob("*.parquet")} - {*(out / "_staging").rglob("*")}


@pytest.mark.parametrize("again", [True, False], ids=["tried again", "next run"])
@pytest.mark.parametrize("fails", ["move", "delete"])
def test_what_failed_while_it_was_put_in_place_is_finished(tmp_path, monkeypatch, fails, again):
    """As on a full disk: no new file goes with the old ones, and the manifest stays until all is done."""
    day = tmp_path / "exchanges" / "date=2026-11-21"
    day.mkdir(parents=True)
    for number in range(2):
        (day / f"old{number}").touch()
    folder = TableFolder(str(tmp_path), replace=True)
    staged = Path(folder.address(*folder.staged_in, "exchanges", day.name))
    staged.mkdir(parents=True)
    for number in range(2):
        (staged / f"new{number}").touch()
    work, steps = getattr(folder, fails), itertools.count(1)

    def full(*given):
        if next(steps) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        work(*given)

    monkeypatch.setattr(folder, fails, full)
    with pytest.raises(OSError, match="No space"):
        folder.put()
    if again:
        folder.put()
    folder.discard()
    if not again:
        TableFolder(str(tmp_path), replace=True).discard()
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["new0", "new1"]


def test_killed_at_any_step_of_the_commit_all_is_there_or_nothing(tmp_path, monkeypatch):
    """What was killed behind the manifest, the next run finishes, also one that is refused."""

    def fill(out, rows):
        folder = TableFolder(str(out), replace=True)
        for table in rows:
            (out / "_staging" / folder.staged_in[-1] / table / "date=2026-11-21").mkdir(parents=True)
            for number in range(2):
                (
                    out / "_staging" / folder.staged_in[-1] / table / f"date=2026-11-21/{rows[table]}{number}"
                ).touch()
        folder.put()
        folder.discard()

    def killed(work):
        def step(*given, **more):
            for moment in (lambda: None, lambda: work(*given, **more)):
                moment()
                steps[0] -= 1
                if steps[0] == 0:
                    raise KeyboardInterrupt

        return step

    class Lock(FileLock):
        def __init__(self, *given):
            held.append(self)
            super().__init__(*given)

    held = []
    monkeypatch.setattr("kinspect.tables.openfolder.FileLock", Lock)
    steps, first = [0], tmp_path / "first"
    old, new = {"exchanges": "a", "records": "b"}, {"connections": "c", "exchanges": "d"}
    fill(first, old)
    for name in ("make", "put_text", "move", "delete"):
        monkeypatch.setattr(TableFolder, name, killed(getattr(TableFolder, name)))
    ended = set()
    for at in itertools.count(1):
        out = tmp_path / str(at)
        shutil.copytree(first, out)
        steps[0] = at
        try:
            fill(out, new)
        except KeyboardInterrupt:
            held[-1].release()
            with pytest.raises(KinspectError, match="has tables already"):
                TableFolder(str(out), replace=False)
        found = {(path.parts[-3], path.name[0]) for path in out.rglob("*") if path.is_file()}
        assert not (out / "_staging").exists()
        assert found in ({*old.items()}, {*new.items()})
        ended.add(frozenset(found))
        if steps[0] > 0:
            break
    assert (at > 20, len(ended)) == (True, 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        # Those of kinspect 0.2, of its streams, and of a version between.
        ("_WRITTEN", ""),
        ("decided.json", "{}"),
        ("own/decided.json", '{"step": 3, "files": {}}'),
        ("own/_WRITTEN", '{"exchanges": {"date=2026-11-21": {"new": 0}}}'),
        ("own/_WRITTEN", '{"version": 2, "format": "parquet"}'),
        ("own/_WRITTEN", "\0"),
        ("own/_WRITTEN", "[]"),
    ],
)
def test_a_manifest_of_another_version_deletes_nothing(kinspect, tmp_path, name, text):
    own = tmp_path / "_staging/own/exchanges/date=2026-11-21"
    own.mkdir(parents=True)
    (own / "new").touch()
    (tmp_path / "_staging" / name).write_text(text)
    before = {*tmp_path.rglob("*")}
    found = kinspect("read", "--format", "parquet", "-o", tmp_path, "--force", NANO)
    assert (found.status, found.out) == (2, "")
    assert found.err.endswith(
        f"Error: {tmp_path}/_staging/{name}: was left by another version of kinspect, before all was in place; run that"
        " version again, or choose another folder\n"
    )
    assert {*tmp_path.rglob("*")} - before <= {tmp_path / "_staging/_LOCK"}


@pytest.mark.parametrize("fails", [False, True])
def test_descriptors_are_given_back(tmp_path, fails):
    before = os.listdir("/proc/self/fd")
    if fails:
        (tmp_path / "notes.txt").touch()
        with pytest.raises(KinspectError, match=r"has notes\.txt, which is no table"):
            TableFolder(str(tmp_path), replace=True)
    else:
        folder = TableFolder(str(tmp_path), replace=True)
        folder.put()
        folder.discard()
        folder.discard()
    assert os.listdir("/proc/self/fd") == before


def test_a_run_beside_another_one_is_refused(kinspect, tmp_path):
    """And not once it was killed, whatever it left."""
    out = tmp_path / "out"
    with subprocess.Popen(
        [*KINSPECT, "--format", "parquet", "-o", str(out), "-"], stdin=subprocess.PIPE
    ) as process:
        wait_until(lambda: (out / "_staging/_LOCK").exists() and (out / "_staging/_LOCK").stat().st_size)
        beside = kinspect("read", "--format", "parquet", "-o", out, NANO)
        assert beside.status == 2
        assert f"-o: {out}: another run writes there; " in beside.err
        assert f"(process {process.pid} on " in beside.err
        process.kill()
    (out / "_staging/exchanges").mkdir()
    assert kinspect("read", "--format", "parquet", "-o", out, NANO).status == 0
    assert sorted(path.name for path in out.iterdir()) == ["batches", "connections", "exchanges"]


def test_what_is_no_table_is_never_deleted(kinspect, tmp_path):
    (tmp_path / "out/exchanges").mkdir(parents=True)
    (tmp_path / "out/exchanges/notes.txt").write_text("mine")
    found = kinspect("read", "--format", "parquet", "-o", tmp_path / "out", "--force", NANO)
    assert found.status == 2
    assert "has exchanges, which is no table" in found.err
    assert (tmp_path / "out/exchanges/notes.txt").read_text() == "mine"
    file = tmp_path / "file"
    file.write_text("mine")
    found = kinspect("read", "--format", "parquet", "-o", file, "--force", NANO)
    assert (found.status, file.read_text()) == (2, "mine")


def test_nothing_read_leaves_the_folder_as_it_is(kinspect, tmp_path):
    out, missing = tmp_path / "out", tmp_path / "missing.pcap"
    assert kinspect("read", "--format", "parquet", "-o", out, missing).status == 1
    assert not out.exists()
    kinspect("read", "--format", "parquet", "-o", out, NANO)
    before = sorted(out.rglob("*"))
    assert kinspect("read", "--format", "parquet", "-o", out, "--force", missing).status == 1
    assert sorted(out.rglob("*")) == before


def test_what_could_not_be_read_is_a_table(kinspect, tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(NANO.read_bytes()[:-10])
    missing = tmp_path / "missing.pcap"
    found = kinspect("read", "--format", "parquet", "-o", tmp_path / "out", cut, missing)
    assert found.status == 3
    told = rows(tmp_path / "out", "problems")
    assert {(row["file"], row["error"], row["unread"]) for row in told} == {
        (str(cut), "TruncatedCapture", False),
        (str(missing), "Unreadable", True),
    }
    first = lines([cut])[0]["timestamp"][:10]
    assert {str(row["date"]) for row in told} == {first}
    assert all(row["message"] in found.err for row in told)


@pytest.mark.big
def test_a_full_disk_is_one_line_and_no_table(tmp_path):
    found = subprocess.run(
        [*KINSPECT, "--format", "parquet", "-o", str(tmp_path / "out"), "-q", str(NANO)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        capture_output=True,
        check=False,
        text=True,
    )
    assert found.returncode == 1
    assert found.stderr.startswith("kinspect: cannot write the output: ")
    assert len(found.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


ROLLING = """
import sys
from kinspect import cli
from kinspect.tables import files
files.EVERY_SECONDS = 0.1
sys.exit(cli.main())
"""


def beats(numbers, times_us=None):
    """Packets of Heartbeats, each of which is answered, `times_us` after one another."""
    talk = Conversation()
    talk.open()
    for number in numbers:
        if times_us is not None:
            talk.time_us = times_us * number
        body = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        talk.client_sends(
            framed(encode_request(Message(12, 3, number, body | {"group_instance_id": None}, "c")))
        )
        talk.broker_sends(
            framed(encode_response(Message(12, 3, number, {"throttle_time_ms": 0, "error_code": 0})))
        )
    return talk.packets


@pytest.mark.big
def test_what_comes_through_a_pipe_counts_meanwhile(tmp_path):
    """A signal then leaves complete files, and all that was read."""
    out = tmp_path / "out"
    with subprocess.Popen(
        [sys.executable, "-c", ROLLING, "read", "--format", "parquet", "-o", str(out), "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        data = pcap(beats(range(1, 5_001)))
        for at in range(0, len(data), 2_000):
            # Time passes with packets, and with them alone.
            process.stdin.write(data[at : at + 2_000])
            process.stdin.flush()
            if files(out, "exchanges"):
                break
            time.sleep(0.02)
        early = rows(out, "exchanges")
        assert early
        process.send_signal(signal.SIGINT)
        told = process.stderr.read().decode()
        assert process.wait() == 130, told
    late = rows(out, "exchanges")
    assert late[: len(early)] == early
    assert f"exchanges: {len(late):,} rows" in told
    assert not (out / "_staging").exists()


@pytest.mark.big
def test_many_dates_are_few_open_files(kinspect, tmp_path, monkeypatch):
    """Rows of a date are found in files of its folder, however many dates a capture tells of."""
    path = tmp_path / "dates.pcap"
    path.write_bytes(pcap(beats(range(1, 100), DAY_US)))
    kinspect("read", "--format", "parquet", "-o", tmp_path / "out", path, "--idle-timeout", "1000h")
    made = rows(tmp_path / "out", "exchanges")
    assert comparable(map(line_of, made)) == comparable(lines([path], view=View(), caps=wide()))
    assert len({row["date"] for row in made}) == 99
    assert len(files(tmp_path / "out", "connections")) == 1


def wide():
    from kinspect.model import Caps

    return Caps(idle_timeout_ns=3_600_000 * 10**9)


@pytest.mark.big
def test_files_and_memory_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("kinspect.tables.parquet.HELD_BYTES", 20_000)
    monkeypatch.setattr("kinspect.tables.parquet.FILE_GROUPS", 3)
    schema = schema_of("connections", None)
    made = PartFiles(opening_below(os.open(tmp_path, os.O_RDONLY)), "x")
    before = len(os.listdir("/proc/self/fd"))
    most = 0
    for number in range(1_000):
        # At first few dates, whose files get full; then many.
        day = number % 4 if number < 500 else number * 7 % (3 * OPEN_FILES)
        row = {"connection_id": f"{number}", "date": day}
        made.add("connections", pa.array([row], pa.struct(list(schema))))
        assert sum(made._bytes.values()) <= 20_000
        most = max(most, len(os.listdir("/proc/self/fd")) - before)
    made.close()
    assert OPEN_FILES // 2 < most <= OPEN_FILES + 1
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    found = files(tmp_path, "connections")
    read = [pq.ParquetFile(path) for path in found]
    assert max(each.metadata.num_row_groups for each in read) == 3
    ids = [row["connection_id"] for each in read for row in each.read().to_pylist()]
    assert sorted(map(int, ids)) == [*range(1_000)]
