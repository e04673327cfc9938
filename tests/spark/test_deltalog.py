"""The log of a table of Delta Lake, whose columns grow, and which no commit makes unreadable."""

import json
import os
from importlib import import_module

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kinspect.errors import KinspectError
from kinspect.tables.tablenames import DELTA

OLD = pa.schema(
    [
        ("port", pa.int32()),
        ("client", pa.struct([("ip", pa.string())])),
        ("errors", pa.list_(pa.struct([("code", pa.int32())]))),
        ("by_topic", pa.map_(pa.string(), pa.struct([("count", pa.int64())]))),
        ("latency_ms", pa.float64()),
    ]
)
NEW = pa.schema(
    [
        ("port", pa.int32()),
        ("client", pa.struct([("ip", pa.string()), ("name", pa.string())])),
        ("errors", pa.list_(pa.struct([("code", pa.int32()), ("name", pa.string())]))),
        ("by_topic", pa.map_(pa.string(), pa.struct([("count", pa.int64()), ("bytes", pa.int64())]))),
        ("latency_ms", pa.float64()),
        ("wait", pa.string()),
    ]
)
OLD_ROW = {
    "port": 9092,
    "client": {"ip": "10.0.0.1"},
    "errors": [{"code": 3}],
    "by_topic": [("orders", {"count": 1})],
    "latency_ms": 1.5,
}
NEW_ROW = {
    "port": 9093,
    "client": {"ip": "10.0.0.2", "name": "shop"},
    "errors": [{"code": 4, "name": "four"}],
    "by_topic": [("orders", {"count": 2, "bytes": 20})],
    "latency_ms": 2.5,
    "wait": "broker",
}
OLD_ROW_NOW = {
    **OLD_ROW,
    "client": {"ip": "10.0.0.1", "name": None},
    "errors": [{"code": 3, "name": None}],
    "by_topic": [("orders", {"count": 1, "bytes": None})],
    "wait": None,
}


class Tables:
    """A folder of tables, in which a run of a date and its rows is a call of `commit`."""

    def __init__(self, path):
        module = import_module("kinspect.tables.openfolder")
        path.mkdir()
        self.path = path / "exchanges"
        self.folder = module.OpenFolder(path)
        self.folder.table_format = DELTA

    def commit(self, day, schema, row):
        self.folder.stage_in("_staging")
        self.folder.make(*self.folder.staged_in, "exchanges", f"date={day}")
        (staged,) = self.path.parent.glob(f"_staging/*/exchanges/date={day}")
        pq.write_table(pa.Table.from_pylist([row], schema), staged / f"{staged.parts[-3]}.parquet")
        self.folder.commit(self.folder.staged(), {"exchanges": [f"date={day}"]})

    @property
    def table(self):
        return import_module("deltalake").DeltaTable(self.path)

    def rows(self):
        found = self.table.to_pyarrow_table().sort_by("date").to_pylist()
        return [{name: value for name, value in row.items() if name != "date"} for row in found]


@pytest.fixture
def tables(tmp_path):
    return Tables(tmp_path / "tables")


def test_columns_and_fields_that_a_table_lacks_are_added(tables, monkeypatch):
    """Old rows have null there, and a kinspect without them goes on."""
    tables.commit("2026-01-01", OLD, OLD_ROW)
    comments = import_module("kinspect.tables.arrowcolumns").COMMENTS
    before = comments["latency_ms"]
    monkeypatch.setitem(comments, "latency_ms", "said otherwise now")
    tables.commit("2026-01-02", NEW, NEW_ROW)
    tables.commit("2026-01-03", OLD, OLD_ROW)
    assert tables.rows() == [OLD_ROW_NOW, NEW_ROW, OLD_ROW_NOW]
    told = {field.name: field.metadata.get("comment") for field in tables.table.schema().fields}
    assert (told["latency_ms"], told["wait"]) == (before, comments["wait"])


def test_a_commit_of_the_same_columns_is_one_version(tables):
    for day in ("2026-01-01", "2026-01-01", "2026-01-02"):
        tables.commit(day, NEW, NEW_ROW)
    assert tables.table.version() == 2
    assert tables.rows() == [NEW_ROW, NEW_ROW]


@pytest.mark.parametrize(
    ("name", "kind", "value", "words"),
    [
        ("port", pa.int64(), 1, "port is integer there and long"),
        ("port", pa.string(), "1", "port is integer there and string"),
        ("client", pa.struct([("ip", pa.int32())]), {"ip": 1}, "client.ip is string there and integer"),
        ("client", pa.string(), "shop", "client is struct there and string"),
        ("errors", pa.list_(pa.string()), ["four"], "errors is struct there and string"),
        ("by_topic", pa.map_(pa.string(), pa.int64()), [("orders", 1)], "by_topic is struct there and long"),
    ],
)
def test_a_column_of_another_type_is_refused_in_one_line_and_nothing_counts(tables, name, kind, value, words):
    tables.commit("2026-01-01", OLD, OLD_ROW)
    schema = OLD.set(OLD.get_field_index(name), pa.field(name, kind))
    with pytest.raises(KinspectError, match=f"exchanges: the column {words} in this version of kinspect;"):
        tables.commit("2026-01-02", schema, {**OLD_ROW, name: value})
    tables.commit("2026-01-03", OLD, OLD_ROW)
    assert (tables.table.version(), tables.rows()) == (1, [OLD_ROW, OLD_ROW])


def test_a_manifest_lists_no_files_that_its_log_knows(tables, monkeypatch):
    tables.commit("2026-01-01", OLD, OLD_ROW)
    manifests = []
    put = tables.folder.put_text

    def put_text(text, *names):
        manifests.append((names[-1], text))
        put(text, *names)

    monkeypatch.setattr(tables.folder, "put_text", put_text)
    tables.commit("2026-01-01", OLD, {**OLD_ROW, "port": 1})
    assert [row["port"] for row in tables.rows()] == [1]
    assert '"replaced": {"exchanges": {"date=2026-01-01": []}}' in dict(manifests)["_WRITTEN"]


def vacuum(tables, keep_hours=1, dry_run=False):
    module = import_module("kinspect.tables.vacuum")
    return module.vacuum(str(tables.path.parent), keep_hours * 3600 * 10**9, dry_run)


def aged(tables, hours):
    """As if all that was done so far was done that long ago: the log tells when files were removed."""
    for log in tables.path.glob("_delta_log/*.json"):
        actions = [json.loads(line) for line in log.read_text().splitlines()]
        for action in actions:
            if "remove" in action:
                action["remove"]["deletionTimestamp"] -= hours * 3_600_000
        log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def files(tables):
    return {str(path.relative_to(tables.path.parent)) for path in tables.path.rglob("date=*/*")}


def test_what_no_version_has_any_more_is_deleted(tables):
    """And its checksum, but not that of a file that counts."""
    day = "2026-01-01"
    for port in range(3):
        tables.commit(day, OLD, {**OLD_ROW, "port": port})
        aged(tables, 2)
    tables.commit(day, OLD, OLD_ROW)
    for name in files(tables):
        path = tables.path.parent / name
        path.with_name(f".{path.name}.crc").touch()
    before = files(tables)
    old = vacuum(tables, dry_run=True)
    assert (files(tables), len(old)) == (before, 2)
    assert vacuum(tables) == old
    assert {path for path in before - files(tables) if not path.endswith(".crc")} == {*old}
    assert len(before - files(tables)) == 4
    assert vacuum(tables) == []
    assert tables.rows() == [OLD_ROW]
    last = import_module("deltalake").DeltaTable(tables.path, version=tables.table.version() - 1)
    assert last.to_pyarrow_table()["port"].to_pylist() == [2]


def test_files_without_a_name_in_the_log_may_be_of_versions_that_are_kept(tables):
    """The checkpoints of a log forget after a week what was removed."""
    tables.commit("2026-01-01", OLD, OLD_ROW)
    nameless = tables.path / "date=2026-01-01/nameless.parquet"
    nameless.touch()
    os.utime(nameless, (0, 0))
    assert vacuum(tables, keep_hours=169) == []
    assert nameless.exists()
    assert vacuum(tables, keep_hours=168) == [str(nameless.relative_to(tables.path.parent))]


@pytest.mark.parametrize("above", ["_staging", "_stream/staged"])
def test_what_a_killed_run_left_is_deleted(tables, above):
    tables.commit("2026-01-01", OLD, OLD_ROW)
    left = tables.path.parent / above / "killed/exchanges/date=2026-01-02/part.parquet"
    left.parent.mkdir(parents=True)
    left.touch()
    old = [f"{above}/killed/exchanges/date=2026-01-02/part.parquet"]
    assert vacuum(tables, dry_run=True) == old
    assert left.exists()
    assert vacuum(tables) == old
    assert not left.exists()
    assert tables.rows() == [OLD_ROW]


def test_vacuum_beside_a_run_is_refused(tables):
    tables.commit("2026-01-01", OLD, OLD_ROW)
    lock = import_module("kinspect.tables.lock")
    held = lock.FileLock(tables.path.parent / "_staging" / lock.LOCK, "")
    with pytest.raises(KinspectError, match="a run or stream writes there; wait for its end"):
        vacuum(tables)
    held.release()


def test_vacuum_of_what_has_no_tables_deletes_nothing(kinspect, tmp_path):
    (tmp_path / "_staging/mine").mkdir(parents=True)
    found = kinspect("pipeline", "vacuum", tmp_path)
    assert (found.status, found.err) == (1, f"kinspect: {tmp_path}: has no tables\n")
    assert [*tmp_path.iterdir()] == [tmp_path / "_staging"]
    found = kinspect("pipeline", "vacuum", tmp_path / "nowhere")
    assert (found.status, found.err) == (1, f"kinspect: {tmp_path}/nowhere: No such file or directory\n")


def test_vacuum_prints_what_goes(kinspect, tables):
    tables.commit("2026-01-01", OLD, OLD_ROW)
    tables.commit("2026-01-01", OLD, OLD_ROW)
    aged(tables, 3)
    found = kinspect("pipeline", "vacuum", tables.path.parent, "--keep", "1h", "--dry-run")
    (line,) = found.out.splitlines()
    assert (found.status, found.err, (tables.path.parent / line).exists()) == (0, "", True)
    assert kinspect("pipeline", "vacuum", tables.path.parent).out == ""
    assert kinspect("pipeline", "vacuum", tables.path.parent, "--keep", "90m").out == f"{line}\n"
    assert not (tables.path.parent / line).exists()
