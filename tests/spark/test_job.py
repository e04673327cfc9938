"""`kinspect pipeline run`: tables that are all there or not at all, the same when run again."""

import os
from importlib import import_module
from pathlib import Path

import pytest
from lines import lines

from kinspect.capture import open_timeline
from kinspect.errors import KinspectError
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
    old = out / "exchanges/date=2020-01-01/api=Fetch"
    old.mkdir(parents=True)
    (old / "part-0.parquet").write_bytes(b"left alone")
    job.run(spark, job.Job([str(CAPTURE)], str(out), ("exchanges", "records", "connections")), lambda _: None)
    return out


def tables(out):
    return {path.name for path in out.iterdir()}


def contents(out, without=("2020-01-01",)):
    """Every table's rows by date and API, as text without order."""
    parquet = import_module("pyarrow.parquet")
    found = {}
    for path in sorted(out.rglob("*.parquet")):
        folder = str(path.parent.relative_to(out))
        if not any(date in folder for date in without):
            found.setdefault(folder, []).extend(map(str, parquet.ParquetFile(path).read().to_pylist()))
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
        f"exchanges/date={line['timestamp'][:10]}/api={line['api']}" for line in expected
    }


@pytest.mark.parametrize("way", ["ahead", "relay", "plain"])
@pytest.mark.parametrize("name", ["4.3.1/telemetry.pcap.gz", "2.8.2/console-zstd.pcap"])
def test_the_summary_is_that_of_read(spark, name, way):
    """Also what is only known when rows are made: topic ids without a name."""
    path = str(CAPTURE.parents[1] / name)
    inspector = Inspector(files=[path])
    for block in open_timeline([path]):
        for line in inspector.feed(block):
            line.to_dict()
    for line in inspector.finish():
        line.to_dict()
    module = import_module("kinspect.spark.run")
    run = module.Run(spark, [path], split_bytes=3_000, way=way)
    run.table(module.Asked("exchanges")).collect()
    run.close()
    assert run.summary() == inspector.summary()


def test_run_again_it_is_the_same_and_other_dates_stay(made, spark, job):
    before = contents(made)
    job.run(
        spark, job.Job([str(CAPTURE)], str(made), ("exchanges", "records", "connections")), lambda _: None
    )
    assert contents(made) == before
    assert (made / "exchanges/date=2020-01-01/api=Fetch/part-0.parquet").read_bytes() == b"left alone"


@pytest.mark.parametrize("way", ["ahead", "relay"])
def test_a_date_of_which_there_are_no_rows_now_has_none_any_more(spark, job, tmp_path, way):
    old = tmp_path / "exchanges/date=2020-01-01/api=Fetch"
    old.mkdir(parents=True)
    (old / "part-0.parquet").write_bytes(b"left alone")
    for chosen in ({}, {"topic": ["none-of-them"]}):
        captures = job.Job([str(CAPTURE)], str(tmp_path), ("exchanges",), filter=chosen, way=way)
        result = job.run(spark, captures, lambda _: None)
        assert bool(contents(tmp_path)) == bool(result.rows["exchanges"]) == (not chosen)
    assert [path.name for path in (tmp_path / "exchanges").iterdir() if path.is_dir()] == ["date=2020-01-01"]
    assert [*(tmp_path / "errors").glob("date=*")] == []


def test_pandas_reads_exchanges_of_apis_without_a_name(spark, job, tmp_path):
    pandas = import_module("pandas")
    path = str(CAPTURE.parents[1] / "4.4.0/raw.pcap.gz")
    job.run(spark, job.Job([path], str(tmp_path), ("exchanges",)), lambda _: None)
    apis = [line["api"] for line in lines([path])]
    assert None in apis
    assert sorted(pandas.read_parquet(tmp_path / "exchanges")["api"]) == sorted(
        api or "unknown" for api in apis
    )


def test_a_failed_run_leaves_nothing(spark, job, tmp_path, monkeypatch):
    def fails(name, exchanges):
        raise RuntimeError("disk full")

    monkeypatch.setattr(job, "aggregate", fails)
    with pytest.raises(RuntimeError, match="disk full"):
        job.run(spark, job.Job([str(CAPTURE)], str(tmp_path), ("exchanges",)), lambda _: None)
    assert tables(tmp_path) == set()


@pytest.mark.parametrize("way", ["ahead", "relay", "plain"])
@pytest.mark.parametrize("size", [None, 2_000])
def test_a_capture_that_goes_or_shrinks_meanwhile_is_one_clear_error(spark, job, tmp_path, way, size):
    path = tmp_path / "cap.pcap"
    path.write_bytes((CAPTURE.parents[1] / "2.8.2/console-zstd.pcap").read_bytes())

    def step(text):
        if text == "decoding exchanges" and size is None:
            path.unlink()
        elif text == "decoding exchanges":
            os.truncate(path, size)

    with pytest.raises(KinspectError) as raised:
        job.run(spark, job.Job([str(path)], str(tmp_path / "out"), ("exchanges",), way=way), step)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists() or tables(tmp_path / "out") == set()


@pytest.mark.parametrize("way", ["ahead", "relay", "plain"])
def test_of_a_capture_that_is_still_written_it_takes_what_was_there(spark, job, tmp_path, way):
    whole = (CAPTURE.parents[1] / "2.8.2/console-zstd.pcap").read_bytes()
    path = tmp_path / "cap.pcap"
    path.write_bytes(whole[:8_000])
    expected = lines([path])

    def step(text):
        if text == "decoding exchanges":
            path.write_bytes(whole)

    result = job.run(spark, job.Job([str(path)], str(tmp_path / "out"), ("exchanges",), way=way), step)
    assert result.rows == {"exchanges": len(expected)}
    assert ["ends in the middle of packet" in str(error) for error in result.errors] == [True]
    assert len(expected) < len(lines([path]))


def test_a_run_that_was_killed_while_it_put_tables_in_place_is_finished_by_the_next(spark, tmp_path):
    commit = import_module("kinspect.spark.commit")
    output = commit.Output(spark, str(tmp_path))
    frame = spark.createDataFrame([("2026-11-21", 1), ("2026-11-22", 2)], "date string, n int")
    for name in ("one", "two"):
        output.write(name, frame, ("date",))
    replaced = []

    def killed(day, table):
        if replaced:
            raise KeyboardInterrupt
        replaced.append(commit.Output._replace(output, day, table))

    output._replace = killed
    with pytest.raises(KeyboardInterrupt):
        output.commit([])
    assert "_staging" in tables(tmp_path)
    commit.Output(spark, str(tmp_path))
    assert tables(tmp_path) == {"one", "two"}
    assert sorted(contents(tmp_path)) == [
        f"{name}/date={date}" for name in ("one", "two") for date in ("2026-11-21", "2026-11-22")
    ]


def test_a_run_that_was_killed_before_leaves_nothing_to_the_next(spark, tmp_path):
    commit = import_module("kinspect.spark.commit")
    output = commit.Output(spark, str(tmp_path))
    output.write("one", spark.createDataFrame([("2026-11-21", 1)], "date string, n int"), ("date",))
    commit.Output(spark, str(tmp_path))
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
    assert {
        f"records/date={day}/api={api}" for day, api in zip(frame["date"], frame["api"], strict=True)
    } == set(rows)
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
