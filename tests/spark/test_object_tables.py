"""`--table-format delta` in an object store: rows that count once, whoever is killed, reads or writes meanwhile."""

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from objectstore import PASSWORD, object_store

from kinspect.errors import KinspectError

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
CAPTURE = CAPTURES / "2.8.2/console-zstd.pcap"
TABLES = ("exchanges", "connections")
SUMS = ("latency_by_minute", "topic_clients", "client_versions", "errors")
DAY = "date=2026-11-21"


@pytest.fixture(scope="module")
def store():
    with object_store() as made:
        made.system.create_dir("tables")
        yield made


@pytest.fixture
def path(store, request):
    """A folder of a test's own, with characters that have a meaning in URLs."""
    return f"tables/{request.node.name}/a b+ä"


def url_of(store, path):
    return store.url(path.replace(" ", "%20").replace("ä", "%C3%A4"))


def table_of(store, path, name, version=None):
    delta = import_module("deltalake")
    return delta.DeltaTable(f"s3://{path}/{name}", version=version, storage_options=store.options)


def names_of(store, path):
    selector = import_module("pyarrow.fs").FileSelector(path)
    return sorted(info.base_name for info in store.system.get_file_info(selector))


def text_of(store, path):
    return json.loads(store.system.open_input_stream(path).readall())


def comparable(table):
    names = sorted({*table.column_names} - {"run_id"})
    return sorted(map(str, table.select(names).to_pylist()))


def run(spark, out, table_format="delta", **chosen):
    job = import_module("kinspect.spark.job")
    request = job.Request(TABLES, chosen=chosen)
    return job.run(spark, job.Job([str(CAPTURE)], out, request, table_format=table_format), lambda _: None)


@pytest.fixture(scope="module")
def on_disk(spark, tmp_path_factory):
    """Each table's rows of a run to a disk."""
    out = tmp_path_factory.mktemp("disk")
    run(spark, str(out))
    delta = import_module("deltalake")
    return {name: comparable(delta.DeltaTable(out / name).to_pyarrow_table()) for name in (*TABLES, *SUMS)}


def rows_of(store, path):
    found = {name: comparable(table_of(store, path, name).to_pyarrow_table()) for name in (*TABLES, *SUMS)}
    return {name: rows for name, rows in found.items() if rows}


def test_rows_are_those_on_a_disk_and_go_with_the_next_run(spark, store, path, on_disk):
    result = run(spark, url_of(store, path))
    assert rows_of(store, path) == on_disk
    assert text_of(store, f"{path}/_versions.json") == dict.fromkeys((*TABLES, *SUMS), 0)
    assert sorted(result.dates) == sorted((*TABLES, *SUMS))
    run(spark, url_of(store, path), topic=["none-of-them"])
    assert "exchanges" not in rows_of(store, path)
    assert names_of(store, path) == sorted(["_finished", "_runs", "_versions.json", *TABLES, *SUMS])


def test_a_stream_counts_a_micro_batch_once_though_it_was_killed(
    spark, store, path, on_disk, tmp_path, monkeypatch
):
    """At its first start, and behind a decision; and a stream with the checkpoint of another is refused."""
    module = import_module("kinspect.spark.streaming.query")
    folder = tmp_path / "captures"
    folder.mkdir()
    (folder / "cap1.pcap").write_bytes(CAPTURE.read_bytes())

    def drain(checkpoint="checkpoint", out=path):
        watch = module.StreamOptions(str(folder), settle=0.0, interval=0.1, shards=2)
        options = {"table_format": "delta", "checkpoint": str(tmp_path / checkpoint)}
        stream = module.Stream(spark, watch, url_of(store, out), module.Request(TABLES), **options)
        return [*stream.batches(drain=True)]

    def killed(*_):
        raise KinspectError("it ends here")

    with monkeypatch.context() as patched:
        patched.setattr(module.Stream, "_go_on", killed)
        with pytest.raises(KinspectError, match="it ends here"):
            drain()
        patched.undo()
        patched.setattr(import_module("kinspect.tables.deltalog"), "commit", killed)
        with pytest.raises(KinspectError, match="it ends here"):
            drain()
    with pytest.raises(KinspectError, match=r"other was deleted, or is older than the tables"):
        drain("other")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/notes.txt").touch()
    with pytest.raises(KinspectError, match="is not empty and no checkpoint of a stream"):
        drain("full")
    drain()
    with pytest.raises(KinspectError, match="checkpoint is the checkpoint of other tables"):
        drain(out=f"{path}/elsewhere")
    found = rows_of(store, path)
    assert {name: len(found[name]) for name in TABLES} == {name: len(on_disk[name]) for name in TABLES}
    assert {name: found[name] for name in SUMS} == {name: on_disk[name] for name in SUMS}


class Runs:
    """Runs that write two small tables of one date, whose rows have the run's number."""

    names = ("one", "two")

    def __init__(self, store, path):
        self.store, self.path = store, path
        self.module = import_module("kinspect.spark.objectfolder")
        self.opening = import_module("kinspect.spark.storage").opening_in

    def begin(self):
        folder = self.module.ObjectFolder(url_of(self.store, self.path))
        folder.stage_in("_staging")
        return folder

    def stage(self, folder, number):
        """Writes files as tasks do; how they are told of."""
        found = {}
        for name in self.names:
            with self.opening(folder.target())(name, DAY, f"{number}.parquet") as out:
                pq.write_table(pa.table({"run": [number] * 2}), out)
            found[name] = {DAY: {f"{number}.parquet": folder.files(name, DAY)[f"{number}.parquet"]}}
        return found

    def write(self, folder, number):
        folder.commit(self.stage(folder, number), {name: [DAY] for name in self.names})

    def rows(self, version=lambda name: None):
        """The numbers of each table's rows; the same of all tables are told once."""
        found = {tuple(self.read(name, version(name))) for name in self.names}
        return found.pop() if len(found) == 1 else found

    def read(self, name, version=None):
        return table_of(self.store, self.path, name, version).to_pyarrow_table()["run"].to_pylist()


@pytest.fixture
def runs(store, path):
    return Runs(store, path)


def told(work, *given):
    """The message of a KinspectError; None if none was raised."""
    try:
        work(*given)
    except KinspectError as error:
        return str(error)
    return None


def test_killed_at_any_step_all_rows_of_a_run_are_there_or_none(runs, monkeypatch):
    """Once, when the next run has begun."""
    log, runlog = import_module("kinspect.tables.deltalog"), import_module("kinspect.tables.runlog")
    steps = {"count": 0, "at": 0}

    def counted(work):
        def step(*given, **more):
            _pass()
            made = work(*given, **more)
            _pass()
            return made

        return step

    def _pass():
        steps["count"] += 1
        if steps["count"] == steps["at"]:
            raise KeyboardInterrupt

    runs.write(runs.begin(), 0)
    places = ((runlog.RunLog, "decide"), (log, "commit"), (runs.module.ObjectFolder, "put_text"))
    for owner, name in places:
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    before, outcomes = 0, []
    for number in itertools.count(1):
        folder = runs.begin()
        steps.update(count=0, at=number)
        try:
            runs.write(folder, number)
            break
        except KeyboardInterrupt:
            steps["at"] = 0
        runs.begin()
        found = runs.rows()
        assert found in ((before, before), (number, number))
        outcomes.append(found == (number, number))
        before = found[0]
    assert outcomes == [False, *[True] * 9]
    assert runs.rows() == (number, number)


def test_of_runs_at_once_one_counts_and_the_others_are_told_of_it_in_one_line(runs):
    runs.write(runs.begin(), 0)
    begun = [runs.begin() for _ in range(3)]
    with ThreadPoolExecutor(2) as pool:
        errors = [*pool.map(partial(told, runs.write), begun[:2], (1, 2))]
    (winner,) = (number for number, error in enumerate(errors, 1) if error is None)
    assert runs.rows() == (winner, winner)
    for error in (errors[2 - winner], told(runs.write, begun[2], 3)):
        assert "/_runs: another run wrote there meanwhile; run again" in error
        assert len(error.splitlines()) == 1
    assert runs.rows() == (winner, winner)


def test_a_run_that_two_finish_counts_once(runs, monkeypatch):
    """Also one that begins its tables, and one that another run has replaced before it went on."""
    for number in (1, 2):
        slow = runs.begin()
        with monkeypatch.context() as patched:
            patched.setattr(slow, "finish", lambda: None)
            runs.write(slow, number)
        with ThreadPoolExecutor(2) as pool:
            [*pool.map(lambda _: runs.begin(), range(2))]
        assert runs.rows() == (number, number)
        slow.finish()
        assert runs.rows() == (number, number)
    manifest = slow._decided()
    runs.write(runs.begin(), 3)
    monkeypatch.setattr(slow, "_decided", lambda: manifest)
    assert "another run has replaced this one meanwhile" in told(slow.finish)
    assert runs.rows() == (3, 3)
    assert text_of(runs.store, f"{runs.path}/_versions.json") == {"one": 2, "two": 2}


def test_a_reader_never_sees_a_part_of_a_run(runs):
    runs.write(runs.begin(), 0)
    ended, seen, wrong = threading.Event(), set(), []

    def look():
        while not ended.is_set():
            versions = text_of(runs.store, f"{runs.path}/_versions.json")
            seen.add(runs.rows(versions.get))
            for name in runs.names:
                now = runs.read(name)
                if len(now) != 2 or len({*now}) != 1:
                    wrong.append(now)

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(look)
        for number in range(1, 4):
            runs.write(runs.begin(), number)
        ended.set()
        reader.result()
    assert (wrong, len(seen) > 1) == ([], True)
    assert seen <= {(number, number) for number in range(4)}


def test_a_run_goes_on_where_somebody_deleted_files_of_the_last(runs):
    runs.write(runs.begin(), 1)
    runs.store.system.delete_file(f"{runs.path}/one/{DAY}/1.parquet")
    runs.store.system.delete_dir(f"{runs.path}/two")
    runs.write(runs.begin(), 2)
    assert runs.rows() == (2, 2)


def test_vacuum_deletes_what_no_version_has_and_refuses_runs_whose_files_it_deletes(runs, kinspect):
    for number in (1, 2):
        runs.write(runs.begin(), number)
    slow = runs.begin()
    staged = runs.stage(slow, 3)
    expected = sorted(f"{name}/{DAY}/{number}.parquet" for name in runs.names for number in (1, 3))
    url = url_of(runs.store, runs.path)
    # Versions of the last hour are kept.
    assert kinspect("pipeline", "vacuum", url, "--keep", "1h").out == ""
    assert "another run wrote there meanwhile" in told(slow.commit, staged, {})
    assert runs.module.ObjectFolder(url).vacuum(0, dry_run=True) == expected
    assert runs.module.ObjectFolder(url).vacuum(0, dry_run=False) == expected
    assert runs.module.ObjectFolder(url).vacuum(0, dry_run=False) == []
    assert names_of(runs.store, f"{runs.path}/one/{DAY}") == ["2.parquet"]
    assert runs.rows() == (2, 2)


def test_what_cannot_be_is_told_in_one_line_without_secrets(runs, kinspect, tmp_path):
    url = url_of(runs.store, runs.path)
    with runs.store.system.open_output_stream(f"{runs.path}/notes.txt") as out:
        out.write(b"of somebody")
    nowhere = runs.store.url("nobody/tables")
    run_of = ("pipeline", "run", CAPTURE, "--table-format", "delta", "--out")
    stream_of = ("pipeline", "stream", tmp_path, "--table-format", "delta", "--out")
    messages = [
        told(runs.begin),
        told(runs.module.ObjectFolder(nowhere).stage_in),
        kinspect("pipeline", "vacuum", url).err,
        kinspect(*run_of, f"{url}&tls_ca_dir_path=x").err,
        told(runs.module.ObjectFolder, url.replace("?", "%2541?")),
        kinspect(*stream_of, url).err,
        kinspect(*stream_of, tmp_path, "--checkpoint", tmp_path).err,
        kinspect("pipeline", "run", CAPTURE, "--out", url).err,
        *(kinspect(*run_of, url.replace("?", f"/{name}?")).err for name in ("..", "%23", "/x", "%3F")),
        kinspect(*stream_of, tmp_path, "--checkpoint", url).err,
        kinspect("pipeline", "vacuum", tmp_path.as_uri()).err,
    ]
    words = [
        "is not empty, and has no log of runs; choose another --out",
        "NoSuchBucket",
        "has no tables",
        "tls_ca_dir_path is no setting of an --out",
        "delta-rs takes %41 in a path",
        "is no place for the checkpoint of a stream; name a folder on a disk by --checkpoint",
        "--checkpoint is for an --out in an object store",
        "s3 is no store for tables of the format parquet, which need a disk or hdfs://",
        *["is no folder as s3://bucket/folder"] * 4,
        "Spark renames files of a checkpoint; name a folder on a disk",
        "is no folder on a disk or in s3://, which vacuum takes",
    ]
    for message, word in zip(messages, words, strict=True):
        assert word in message
        assert len(message.splitlines()) == 1
        assert PASSWORD not in message
        assert "a%2Fsecret" not in message
