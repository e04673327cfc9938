"""`--table-format delta`: rows that count by the logs of their tables, once, whatever is killed and who reads."""

import itertools
import json
import threading
from importlib import import_module
from pathlib import Path
from shutil import copytree

import pytest
from staging import stage
from support.packets import packets
from traffic import pcapng

from kinspect.errors import KinspectError

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
CAPTURE = CAPTURES / "4.3.1/telemetry.pcap.gz"
OTHER = CAPTURES / "2.8.2/console-zstd.pcap"
TABLES = ("exchanges", "connections")
SUMS = ("latency_by_minute", "topic_clients", "client_versions", "errors")


@pytest.fixture(scope="module")
def job():
    return import_module("kinspect.spark.job")


def run(spark, job, paths, out, table_format="delta", tables=TABLES, **more):
    settings = job.Job(
        [*map(str, paths)], str(out), job.Request(tables, chosen=more), table_format=table_format
    )
    return job.run(spark, settings, lambda _: None)


def rows(out, version=None):
    """Each table's rows, as text without order, but for what names the run: as DuckDB reads them."""
    duckdb, delta = import_module("duckdb"), import_module("deltalake")
    found = {}
    for log in sorted(out.glob("*/_delta_log")):
        table = delta.DeltaTable(log.parent, version=version and version.get(log.parent.name))
        names = [field.name for field in table.schema().fields if field.name != "run_id"]
        data = table.to_pyarrow_dataset()  # DuckDB finds it by this name.
        made = duckdb.sql(f"select {', '.join(sorted(names))} from data").fetchall()
        assert data is not None
        if made:
            found[log.parent.name] = sorted(map(str, made))
    return found


def plain(out):
    """The same of tables of Parquet."""
    duckdb = import_module("duckdb")
    found = {}
    for table in sorted(out.iterdir()):
        made = duckdb.sql(f"from read_parquet('{table}/**/*.parquet', hive_partitioning = true)")
        names = [name for name in made.columns if name != "run_id"]
        found[table.name] = sorted(map(str, made.select(", ".join(sorted(names))).fetchall()))
    return found


def test_rows_are_those_of_parquet_also_run_again_and_of_dates_that_went(spark, job, tmp_path):
    delta = import_module("deltalake")
    out, null = tmp_path / "delta", tmp_path / "null.pcapng"
    null.write_bytes(pcapng([(None, packet.data) for packet in packets(OTHER)]))
    run(spark, job, [CAPTURE, null], tmp_path / "parquet", "parquet")
    expected = plain(tmp_path / "parquet")
    for _ in range(2):
        result = run(spark, job, [CAPTURE, null], out)
        assert rows(out) == expected
    assert result.dates["exchanges"][-1] == "__HIVE_DEFAULT_PARTITION__"
    table = delta.DeltaTable(out / "exchanges")
    assert (table.version(), table.metadata().partition_columns) == (1, ["date"])
    comment = next(field for field in table.schema().fields if field.name == "latency_ms").metadata["comment"]
    assert comment.startswith("Last byte of the request")
    before = json.loads((out / "_versions.json").read_text())
    assert before == dict.fromkeys((*TABLES, *SUMS), 1)
    run(spark, job, [CAPTURE, null], out, topic=["none-of-them"])
    assert "exchanges" not in rows(out)
    assert rows(out, before) == expected


def test_a_folder_keeps_its_format(spark, job, tmp_path):
    for there, words in (("_delta_log", "delta"), ("metadata", "iceberg"), ("date=2020-01-01", "parquet")):
        (tmp_path / there / "exchanges" / there).mkdir(parents=True)
        with pytest.raises(
            KinspectError, match=f"exchanges is a table of the format {words}; choose another"
        ):
            run(spark, job, [OTHER], tmp_path / there, "delta" if words == "parquet" else "parquet")


class Steps:
    """Ends a run by KeyboardInterrupt before or behind one of the steps of its commit."""

    def __init__(self, monkeypatch, *places):
        self.count, self.at = 0, 0
        for owner, name in places:
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, work):
        def step(*given, **more):
            self._pass()
            made = work(*given, **more)
            self._pass()
            return made

        return step

    def _pass(self):
        self.count += 1
        if self.count == self.at:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def staged(spark, job, tmp_path_factory):
    """The tables of a run, as files that another may stage."""
    out = tmp_path_factory.mktemp("staged")
    run(spark, job, [OTHER], out, "parquet")
    return out


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_killed_at_any_step_of_the_commit_rows_are_there_once(
    spark, job, staged, tmp_path, monkeypatch, table_format
):
    """And before it, none of them are; the run before has others of the same date."""
    commit = import_module("kinspect.spark.commit").JobOutput
    folder_class = import_module("kinspect.spark.folder").Folder
    log = import_module("kinspect.tables.deltalog")
    read = plain if table_format == "parquet" else rows
    expected = plain(staged)
    days = [path.name for path in staged.glob("exchanges/date=*")]

    def write(out, number, tables):
        output = commit(spark, str(out), table_format)
        for folder in staged.glob("*/date=*"):
            if folder.parent.name in tables:
                stage(output, folder.parent.name, folder.name, folder.glob("*.parquet"), number)
        output.replace([day.removeprefix("date=") for day in days], [*expected])
        output.close()

    first = tmp_path / "first"
    write(first, 1, {"exchanges", "errors"})
    steps = Steps(
        monkeypatch,
        *((folder_class, name) for name in ("delete", "move", "make", "put_text")),
        *((log, name) for name in ("commit", "_widen")),
    )
    outcomes = [read(first), expected]
    seen = set()
    for at in itertools.count(1):
        out = tmp_path / str(at)
        copytree(first, out)
        steps.count, steps.at = 0, at
        try:
            write(out, 2, {*expected})
            break
        except KeyboardInterrupt:
            steps.at = 0
        output = commit(spark, str(out), table_format)
        output.close()
        assert not (out / "_staging").exists()
        # All is there, or nothing is.
        seen.add(outcomes.index(read(out)))
    assert (at > 10, seen) == (True, {0, 1})
    assert read(out) == expected


def test_a_reader_never_sees_a_part_of_a_run(spark, job, tmp_path):
    """Of the versions that the folder notes, all tables are of one run; each by itself always is."""
    delta = import_module("deltalake")
    out = tmp_path / "out"
    run(spark, job, [OTHER], out)
    seen, ended = set(), threading.Event()
    wrong = []

    def look():
        while not ended.is_set():
            versions = json.loads((out / "_versions.json").read_text())
            ids = set()
            for name in TABLES:
                found = delta.DeltaTable(out / name, version=versions[name]).to_pyarrow_table(
                    columns=["run_id"]
                )
                ids |= {*found["run_id"].to_pylist()}
                now = delta.DeltaTable(out / name).to_pyarrow_table(columns=["run_id"])["run_id"].to_pylist()
                if len({*now}) != 1 or len(now) != len(found):
                    wrong.append((name, now))
            if len(ids) != 1:
                wrong.append(ids)
            seen.update(ids)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for _ in range(2):
            run(spark, job, [OTHER], out)
    finally:
        ended.set()
        reader.join()
    assert wrong == []
    assert len(seen) > 1


def test_another_writer_of_a_table_is_told_of_in_one_line(spark, job, staged, tmp_path, monkeypatch):
    """One that does not know of the lock: the run is refused, and the next one finishes it."""
    log = import_module("kinspect.tables.deltalog")
    run(spark, job, [OTHER], tmp_path)
    real = log._widen

    def meanwhile(there, *given):
        monkeypatch.setattr(log, "_widen", real)
        there = import_module("deltalake").DeltaTable(there.table_uri)
        there.delete()
        real(there, *given)

    monkeypatch.setattr(log, "_widen", meanwhile)
    with pytest.raises(KinspectError, match=r"not all is in place, run again to finish: .*/\w+: ") as told:
        run(spark, job, [OTHER], tmp_path)
    assert len(str(told.value).splitlines()) == 1
    import_module("kinspect.spark.commit").JobOutput(spark, str(tmp_path), "delta").close()
    assert rows(tmp_path) == plain(staged)


@pytest.mark.parametrize("name", ["a%41", "a b%20c/d"])
def test_a_folder_that_delta_rs_would_not_find_again_is_refused_before_anything_is_read(
    spark, job, tmp_path, name
):
    with pytest.raises(KinspectError, match=r"delta-rs takes %.. in a path for an escaped character; rename"):
        run(spark, job, [OTHER], tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_folder_with_strange_characters(spark, job, staged, tmp_path):
    run(spark, job, [OTHER], tmp_path / "a b%zz+ä#c")
    assert rows(tmp_path / "a b%zz+ä#c") == plain(staged)


def test_a_stream_commits_a_micro_batch_once(spark, staged, tmp_path, monkeypatch):
    """In the log by its number, also if it was killed behind that; aggregates are of the files that count."""
    log = import_module("kinspect.tables.deltalog")
    module = import_module("kinspect.spark.streaming.query")
    folder, out = tmp_path / "captures", tmp_path / "out"
    folder.mkdir()

    def drain(table_format="delta"):
        watch = module.StreamOptions(str(folder), settle=0.0, interval=0.1, shards=2)
        stream = module.Stream(spark, watch, str(out), module.Request(TABLES), table_format=table_format)
        return [*stream.batches(drain=True)]

    def killed(*given):
        commit(*given)
        raise KinspectError("killed")

    (folder / "cap1.pcap").write_bytes(OTHER.read_bytes())
    commit = log.commit
    with monkeypatch.context() as patched:
        patched.setattr(log, "commit", killed)
        with pytest.raises(KinspectError, match="killed"):
            drain()
    with pytest.raises(KinspectError, match="a run with --table-format delta ended before all was in place"):
        drain("parquet")
    drain()
    with pytest.raises(
        KinspectError, match="was begun with the table format delta; a stream keeps its table format"
    ):
        drain("parquet")
    found, expected = rows(out), plain(staged)
    output = import_module("kinspect.spark.commit").StagingFolder(spark, str(out), "delta")
    # Whatever fs.defaultFS is, which may be HDFS.
    assert output.folder.address("exchanges").startswith("file:")
    assert {name: len(found[name]) for name in TABLES} == {name: len(expected[name]) for name in TABLES}
    assert {name: found[name] for name in SUMS} == {name: expected[name] for name in SUMS}
    logs = sorted((out / "exchanges/_delta_log").glob("*.json"))
    lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
    numbers = [line["txn"]["version"] for line in lines if "txn" in line]
    assert numbers == sorted({*numbers})
    assert numbers[0] == 0
