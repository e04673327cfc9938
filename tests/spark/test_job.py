"""`kinspect pipeline run`: tables that are all there or not at all, the same when run again."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from datetime import date
from importlib import import_module
from pathlib import Path

import pytest
from lines import lines
from support.books import balanced
from support.packets import packets
from traffic import pcapng

from kinspect.capture import open_timeline
from kinspect.errors import CaptureError, KinspectError
from kinspect.pipeline import Inspector

pytestmark = pytest.mark.tools

CAPTURE = Path(__file__).parents[2] / "captures/4.3.1/telemetry.pcap.gz"
AGGREGATES = {"latency_by_minute", "topic_clients", "client_versions", "errors"}


@pytest.fixture(scope="module")
def job():
    return import_module("kinspect.spark.job")


@pytest.fixture(scope="module")
def made(spark, job, tmp_path_factory):
    """The tables of a capture, beside those of another date that was there before."""
    out = tmp_path_factory.mktemp("out")
    old = out / "exchanges/date=2020-01-01"
    old.mkdir(parents=True)
    (old / "part-0.parquet").write_bytes(b"left alone")
    job.run(
        spark,
        job.Job([str(CAPTURE)], str(out), job.Request(("exchanges", "records", "connections"))),
        lambda _: None,
    )
    return out


def tables(out):
    return {path.name for path in out.iterdir()}


def contents(out, without=("2020-01-01",)):
    """Every table's rows by date, as text without order, but for what names the run."""
    parquet = import_module("pyarrow.parquet")
    found = {}
    for path in sorted(out.rglob("*.parquet")):
        folder = str(path.parent.relative_to(out))
        if not any(date in folder for date in without):
            rows = parquet.ParquetFile(path).read().to_pylist()
            found.setdefault(folder, []).extend(str({**row, "run_id": None}) for row in rows)
    return {folder: sorted(rows) for folder, rows in found.items()}


def test_rows_are_those_of_read(made):
    expected = lines([CAPTURE])
    found = contents(made)
    count = {
        name: sum(len(rows) for folder, rows in found.items() if folder.startswith(name))
        for name in tables(made)
    }
    assert tables(made) == {"exchanges", "records", "connections"} | AGGREGATES
    assert count["exchanges"] == len(expected)
    assert {folder for folder in found if folder.startswith("exchanges")} == {
        f"exchanges/date={line['timestamp'][:10]}" for line in expected
    }


@pytest.mark.parametrize("name", ["4.3.1/telemetry.pcap.gz", "2.8.2/console-zstd.pcap"])
def test_the_summary_is_that_of_read(spark, name):
    """Also what is only known when rows are made: topic ids without a name."""
    path = str(CAPTURE.parents[1] / name)
    inspector = Inspector(files=[path])
    for block in open_timeline([path]):
        for line in inspector.feed(block):
            line.to_dict()
    for line in inspector.finish():
        line.to_dict()
    module = import_module("kinspect.spark.batch")
    captures = module.Captures(spark, [path], split_bytes=3_000)
    summary, _ = captures.summary(captures.decoded(module.Request(("exchanges",))))
    assert summary.pop("unknown_to_filters") == {}
    assert balanced(summary) == inspector.summary()


def test_run_again_it_is_the_same_and_other_dates_stay(made, spark, job):
    before = contents(made)
    job.run(
        spark,
        job.Job([str(CAPTURE)], str(made), job.Request(("exchanges", "records", "connections"))),
        lambda _: None,
    )
    assert contents(made) == before
    assert (made / "exchanges/date=2020-01-01/part-0.parquet").read_bytes() == b"left alone"


def test_a_date_of_which_there_are_no_rows_now_has_none_any_more(spark, job, tmp_path):
    old = tmp_path / "exchanges/date=2020-01-01"
    old.mkdir(parents=True)
    (old / "part-0.parquet").write_bytes(b"left alone")
    for chosen in ({}, {"topic": ["none-of-them"]}):
        captures = job.Job([str(CAPTURE)], str(tmp_path), job.Request(("exchanges",), chosen=chosen))
        result = job.run(spark, captures, lambda _: None)
        assert bool(contents(tmp_path)) == bool(result.rows["exchanges"]) == (not chosen)
    assert [path.name for path in (tmp_path / "exchanges").iterdir() if path.is_dir()] == ["date=2020-01-01"]
    # A folder without files would break who reads all tables.
    assert not (tmp_path / "errors").exists()


def test_a_failed_run_leaves_nothing(spark, job, tmp_path, monkeypatch):
    def fails(self, request):
        raise RuntimeError("disk full")

    monkeypatch.setattr("kinspect.spark.commit.StagingFolder.write_sums", fails)
    with pytest.raises(RuntimeError, match="disk full"):
        job.run(spark, job.Job([str(CAPTURE)], str(tmp_path), job.Request(("exchanges",))), lambda _: None)
    assert tables(tmp_path) == set()


@pytest.mark.parametrize("size", [None, 2_000])
def test_a_capture_that_goes_or_shrinks_once_it_was_read_changes_nothing(spark, job, tmp_path, size):
    path = tmp_path / "cap.pcap"
    path.write_bytes((CAPTURE.parents[1] / "2.8.2/console-zstd.pcap").read_bytes())
    expected = len(lines([path]))

    def step(text):
        if text == "decoding exchanges" and size is None:
            path.unlink()
        elif text == "decoding exchanges":
            os.truncate(path, size)

    result = job.run(spark, job.Job([str(path)], str(tmp_path / "out"), job.Request(("exchanges",))), step)
    assert result.rows == {"exchanges": expected}


def unreadable(tmp_path):
    """A capture, and one that is not there."""
    good = tmp_path / "good.pcap"
    good.write_bytes((CAPTURE.parents[1] / "2.8.2/console-zstd.pcap").read_bytes())
    return [str(good), str(tmp_path / "missing.pcap")]


def test_an_input_that_cannot_be_read_stops_the_job_before_anything_is_replaced(spark, job, tmp_path):
    out = tmp_path / "out"
    paths = unreadable(tmp_path)
    job.run(spark, job.Job(paths[:1], str(out), job.Request(("exchanges",))), lambda _: None)
    before = contents(out)
    with pytest.raises(CaptureError, match=r"missing\.pcap: no such file; nothing was written"):
        job.run(spark, job.Job(paths, str(out), job.Request(("exchanges",))), lambda _: None)
    assert contents(out) == before
    assert "_staging" not in tables(out)


def test_what_was_not_read_is_a_table(spark, job, tmp_path):
    out = tmp_path / "out"
    paths = unreadable(tmp_path)
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(Path(paths[0]).read_bytes()[:-10])
    settings = job.Job(
        [*paths, str(cut)],
        str(out),
        job.Request(("connections",), capture_point="east"),
        skip_unreadable=True,
    )
    result = job.run(spark, settings, lambda _: None)
    duckdb = import_module("duckdb")
    rows = duckdb.sql(
        f"select file, error, unread, message, capture_point, date from '{out}/problems/**/*.parquet' order by file"
    ).fetchall()
    assert [row[:3] for row in rows] == [
        (str(cut), "TruncatedCapture", False),
        (paths[1], "Unreadable", True),
    ]
    assert [row[3] for row in rows] == [str(error) for error in sorted(result.errors, key=str)]
    assert {row[4] for row in rows} == {"east"}
    assert {str(row[5]) for row in rows} == {result.dates["connections"][0]}
    job.run(spark, job.Job(paths[:1], str(out), job.Request(("connections",))), lambda _: None)
    assert [*(out / "problems").glob("date=*")] == []


def test_dates_are_utc_in_any_session(spark, job, tmp_path):
    """Also where a day begins nine hours earlier, and run again from a session elsewhere."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        path = CAPTURE.parents[1] / "2.8.2/console-zstd.pcap"
        job.run(spark, job.Job([str(path)], str(tmp_path), job.Request(("exchanges",))), lambda _: None)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    before = contents(tmp_path)
    assert {folder for folder in before if folder.startswith("exchanges")} == {
        f"exchanges/date={line['timestamp'][:10]}" for line in lines([path])
    }
    job.run(spark, job.Job([str(path)], str(tmp_path), job.Request(("exchanges",))), lambda _: None)
    assert contents(tmp_path) == before
    parquet = import_module("pyarrow.parquet")
    file = next((tmp_path / "exchanges").rglob("*.parquet"))
    assert str(parquet.read_schema(file).field("timestamp").type) == "timestamp[us, tz=UTC]"


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ("date=2020-01-01/api=Fetch", r"has tables of kinspect 0\.1"),
        ("_delta_log", "exchanges is a table of the format delta; choose another --out"),
    ],
)
def test_tables_of_version_0_1_or_another_format_are_refused(spark, job, tmp_path, there, words):
    (tmp_path / "exchanges" / there).mkdir(parents=True)
    with pytest.raises(KinspectError, match=words):
        job.run(spark, job.Job([str(CAPTURE)], str(tmp_path), job.Request(("exchanges",))), lambda _: None)


def test_tables_are_joined_by_exchange_id(made):
    duckdb = import_module("duckdb")
    exchanges, records = (f"'{made}/{name}/date=2026*/*.parquet'" for name in ("exchanges", "records"))
    total, ids = duckdb.sql(f"select count(*), count(distinct exchange_id) from {exchanges}").fetchall()[0]
    assert total == ids > 0
    joined = duckdb.sql(
        f"select count(*), sum((e.api = r.api)::int) from {records} r join {exchanges} e using (exchange_id)"
    ).fetchall()[0]
    assert joined == (duckdb.sql(f"select count(*) from {records}").fetchall()[0][0],) * 2
    assert joined[0] > 0


def test_of_a_capture_that_is_still_written_it_takes_what_was_there(spark, job, tmp_path):
    whole = (CAPTURE.parents[1] / "2.8.2/console-zstd.pcap").read_bytes()
    path = tmp_path / "cap.pcap"
    path.write_bytes(whole[:8_000])
    expected = lines([path])

    def step(text):
        if text == "decoding exchanges":
            path.write_bytes(whole)

    result = job.run(spark, job.Job([str(path)], str(tmp_path / "out"), job.Request(("exchanges",))), step)
    assert result.rows == {"exchanges": len(expected)}
    assert ["ends in the middle of packet" in str(error) for error in result.errors] == [True]
    assert len(expected) < len(lines([path]))


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (KeyboardInterrupt("stop"), KeyboardInterrupt, "stop"),
        (OSError("disk full"), KinspectError, "not all is in place, run again to finish: disk full"),
    ],
    ids=["killed", "failed"],
)
def test_a_run_that_ends_while_it_puts_tables_in_place_is_finished_by_the_next(
    spark, job, made, tmp_path, monkeypatch, error, raised, words
):
    folder_class = import_module("kinspect.spark.folder").Folder
    whole, moved = folder_class.move, []

    def move(output, source, target):
        if len(moved) == 2:
            raise error
        whole(output, source, target)
        moved.append(target[0])

    settings = job.Job([str(CAPTURE)], str(tmp_path), job.Request(("exchanges", "records", "connections")))
    monkeypatch.setattr(folder_class, "move", move)
    with pytest.raises(raised, match=words):
        job.run(spark, settings, lambda _: None)
    monkeypatch.undo()
    assert {*moved, "_staging"} <= tables(tmp_path) != tables(made)
    import_module("kinspect.spark.commit").JobOutput(spark, str(tmp_path)).close()
    assert tables(tmp_path) == tables(made)
    assert contents(tmp_path) == contents(made)


@pytest.fixture
def marked(spark, tmp_path, monkeypatch):
    """The folder of a run that was killed once it was marked: two dates of several files each, over other rows."""
    out = tmp_path / "marked"
    days = [date(2026, 11, 20), date(2026, 11, 21)]
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    spark.conf.set("spark.sql.shuffle.partitions", "6")
    try:
        for numbers in (range(-2, 0), range(40)):
            output = import_module("kinspect.spark.commit").JobOutput(spark, str(out))
            rows = [(str(days[number % 2]), number) for number in numbers]
            output.write("one", spark.createDataFrame(rows, "date string, timestamp_ns int"))
            if numbers[0] == 0:
                monkeypatch.setattr(output.folder, "finish", killed)
            with suppress(KeyboardInterrupt):
                output.replace(days, ())
            output.close()
    finally:
        spark.conf.unset("spark.sql.adaptive.coalescePartitions.enabled")
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert numbers_of(out) == [-2, -1]
    return out


def killed(*_):
    raise KeyboardInterrupt


def numbers_of(out):
    parquet = import_module("pyarrow.parquet")
    files = (parquet.ParquetFile(path) for path in (out / "one").rglob("*.parquet"))
    return sorted(row["timestamp_ns"] for file in files for row in file.read().to_pylist())


def interrupted(marked, out, copied, deleted):
    """A copy of `marked` in which files of a date were moved, as far as that."""
    shutil.copytree(marked, out)
    (staged,) = out.glob("_staging/**/one/date=2026-11-20")
    files = sorted(staged.glob("*.parquet"))
    assert len(files) > 1
    for path in files[:copied]:
        shutil.copy(path, out / "one/date=2026-11-20")
    for path in files[:deleted]:
        path.unlink()
    return len(files)


def test_a_move_that_was_no_single_step_loses_no_row(spark, marked, tmp_path):
    """As of a store that copies a file and then deletes it, killed at each step."""
    commit = import_module("kinspect.spark.commit")
    files = interrupted(marked, tmp_path / "whole", 0, 0)
    for copied, deleted in [(step, 0) for step in range(files + 1)] + [
        (files, step + 1) for step in range(files)
    ]:
        out = tmp_path / f"{copied}-{deleted}"
        interrupted(marked, out, copied, deleted)
        commit.JobOutput(spark, str(out)).close()
        assert numbers_of(out) == [*range(40)]
        assert tables(out) == {"one"}


def test_of_a_move_whose_rows_are_gone_nothing_is_deleted(spark, marked, tmp_path):
    commit = import_module("kinspect.spark.commit")
    out = tmp_path / "out"
    interrupted(marked, out, 0, 1)
    before = {path.name: path.read_bytes() for path in out.rglob("*.parquet") if "11-20" in str(path)}
    with pytest.raises(
        KinspectError, match=r"date=2026-11-20/part-.*: is gone or was changed before it was put in"
    ):
        commit.JobOutput(spark, str(out))
    assert before.items() <= {path.name: path.read_bytes() for path in out.rglob("*.parquet")}.items()


def test_a_store_that_cannot_rename_in_one_step_is_refused(spark, job, monkeypatch):
    """By its URL, and where Spark's configuration names it."""
    for url in ("s3a://bucket/tables", "s3://bucket/tables", "gs://bucket/tables", "http://host/tables"):
        with pytest.raises(KinspectError, match=f"^{url}: {url.partition(':')[0]} is no store for tables"):
            job.run(spark, job.Job([str(CAPTURE)], url), lambda _: None)
    with pytest.raises(KinspectError, match="http is no store for tables of the format parquet"):
        import_module("kinspect.spark.folder").Folder(spark, "http://host/tables")
    with pytest.raises(
        KinspectError,
        match=r"hdfs://host/t: hdfs is no store for tables of the format delta, which need a disk or s3://",
    ):
        job.run(spark, job.Job([str(CAPTURE)], "hdfs://host/t", table_format="delta"), lambda _: None)


def test_a_text_is_replaced_in_one_step(spark, tmp_path, monkeypatch):
    """Whatever is killed: at no moment it is not there."""
    folder = import_module("kinspect.spark.folder").Folder(spark, str(tmp_path))
    folder.put_text("old", "text.json")
    for name in ("delete", "move"):
        monkeypatch.setattr(folder, name, killed)
    folder.put_text("new", "text.json")
    assert folder.text("text.json") == "new"
    assert folder.names() == ["text.json"]


def test_what_is_in_place_does_not_count_twice(spark, tmp_path, monkeypatch):
    """Killed while what was staged is taken away, which takes its time: other formats have it still."""
    commit = import_module("kinspect.spark.commit")
    output = commit.JobOutput(spark, str(tmp_path))
    output.write("one", spark.createDataFrame([("2026-11-21", 1)], "date string, n int"))
    monkeypatch.setattr(output, "discard", killed)
    with pytest.raises(KeyboardInterrupt):
        output.replace([], ())
    assert not [*tmp_path.rglob("_WRITTEN")]


@pytest.mark.parametrize("table", ["exchanges", "topic_clients"])
def test_rows_that_were_written_elsewhere_are_missed(spark, job, tmp_path, table):
    """As on an executor whose disk is another, or where another run took them away."""
    path = tmp_path / "cut.pcap"
    path.write_bytes((CAPTURE.parents[1] / "2.8.2/console-zstd.pcap").read_bytes()[:-10])
    out = tmp_path / "out"
    settings = job.Job([str(path)], str(out), job.Request(("exchanges", "connections")))
    job.run(spark, settings, lambda _: None)
    before = contents(out)

    def step(text):
        if text == "putting the tables in place":
            next((out / "_staging").glob(f"*/{table}/**/*.parquet")).unlink()

    with pytest.raises(
        KinspectError, match=rf"out: has 0 rows of {table} where \d+ were written; all executors"
    ):
        job.run(spark, settings, step)
    assert contents(out) == before
    assert "_staging" not in tables(out)


def test_rows_that_the_decoders_told_of_are_missed(spark, job, tmp_path, monkeypatch):
    batch = import_module("kinspect.spark.batch")
    summary = batch.Captures.summary
    monkeypatch.setattr(
        batch.Captures, "summary", lambda *given: (summary(*given)[0], {"exchanges": 1_000_000})
    )
    with pytest.raises(KinspectError, match=r"has \d+ rows of exchanges where 1,000,000 were written"):
        job.run(spark, job.Job([str(CAPTURE)], str(tmp_path), job.Request(("exchanges",))), lambda _: None)
    assert tables(tmp_path) == set()


def test_a_run_beside_another_one_is_refused_and_changes_nothing(spark, job, made, tmp_path):
    settings = job.Job([str(CAPTURE)], str(tmp_path), job.Request(("exchanges", "records", "connections")))

    def step(text):
        if text == "adding up":
            with pytest.raises(
                KinspectError,
                match=rf"{tmp_path}: another run writes there; .* \(process {os.getpid()} on .*\)$",
            ):
                job.run(spark, settings, lambda _: None)

    job.run(spark, settings, step)
    assert contents(tmp_path) == contents(made)
    assert tables(tmp_path) == tables(made)


def test_a_run_that_was_killed_keeps_nobody_out(spark, job, tmp_path):
    """With what it holds, its tasks that go on, and their files."""
    program = """
import sys, time
from pathlib import Path
from kinspect.tables.lock import FileLock
held = FileLock(Path(sys.argv[1], "_staging/_LOCK"), "held")
print("held", flush=True)
time.sleep(1000)
"""
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        zombie = tmp_path / "_staging/0123/exchanges/_temporary"
        zombie.mkdir(parents=True)
        settings = job.Job([str(CAPTURE)], str(tmp_path), job.Request(("exchanges",)))
        with pytest.raises(KinspectError, match=rf"another run writes there; .*process {process.pid} on"):
            job.run(spark, settings, lambda _: None)
        process.kill()
        process.wait()
        assert zombie.exists()
    job.run(spark, settings, lambda _: None)
    assert tables(tmp_path) == {"exchanges", *AGGREGATES}


def test_rows_without_a_date_are_replaced_as_dates_are(spark, job, tmp_path):
    path = tmp_path / "cap.pcapng"
    found = packets(CAPTURE.parents[1] / "2.8.2/console-zstd.pcap")
    path.write_bytes(pcapng([(None, packet.data) for packet in found]))
    out = tmp_path / "out"
    null = "date=__HIVE_DEFAULT_PARTITION__"
    for chosen in ({}, {}, {"topic": ["none-of-them"]}):
        settings = job.Job([str(path)], str(out), job.Request(("exchanges", "connections"), chosen=chosen))
        result = job.run(spark, settings, lambda _: None)
        found = contents(out)
        assert {Path(folder).name for folder in found} <= {null}
        assert len(found.get(f"exchanges/{null}", [])) == result.rows["exchanges"]
        assert bool(result.rows["exchanges"]) == (not chosen)
        assert f"latency_by_minute/{null}" in found or chosen
    timed = job.Job([str(CAPTURE)], str(out), job.Request(("exchanges", "connections")))
    job.run(spark, settings, lambda _: None)
    before = contents(out)
    job.run(spark, timed, lambda _: None)
    assert before.items() <= contents(out).items()


def test_a_run_that_was_killed_before_leaves_nothing_to_the_next(spark, tmp_path):
    commit = import_module("kinspect.spark.commit")
    output = commit.JobOutput(spark, str(tmp_path))
    output.write("one", spark.createDataFrame([("2026-11-21", 1)], "date string, n int"))
    output.folder.unlock()
    commit.JobOutput(spark, str(tmp_path)).close()
    assert tables(tmp_path) == set()


def test_duckdb_and_pandas_read_it_as_it_lies_there(made):
    duckdb, pandas = import_module("duckdb"), import_module("pandas")
    files = f"'{made}/exchanges/date=2026*/**/*.parquet'"
    total, first = duckdb.sql(
        f"select count(*), min(timestamp_ns) from read_parquet({files}, hive_partitioning=true)"
    ).fetchall()[0]
    assert total == len(lines([CAPTURE]))
    frame = pandas.read_parquet(made / "records")
    rows = [line for line in contents(made) if line.startswith("records")]
    assert {f"records/date={day}" for day in frame["date"]} == set(rows)
    assert len(frame) == sum(len(contents(made)[folder]) for folder in rows) > 0
    assert frame["timestamp_ns"].min() >= first


def test_latencies_add_up(made):
    duckdb = import_module("duckdb")
    files = f"'{made}/latency_by_minute/**/*.parquet'"
    rows = duckdb.sql(f"select api, sum(exchanges) from {files} group by api").fetchall()
    counted = {}
    for line in lines([CAPTURE]):
        counted[line["api"]] = counted.get(line["api"], 0) + 1
    assert dict(rows) == counted
