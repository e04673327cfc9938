"""Tasks that write the rows of tables as files, and tell of them, without Spark."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kinspect.errors import KinspectError
from kinspect.spark.storage import Target
from kinspect.tables.arrowcolumns import COMMENTS
from kinspect.tables.request import Request

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures/2.8.2"
PATHS = [CAPTURES / name for name in ("console-none.pcap", "console-zstd.pcap")]
TABLES = ("exchanges", "batches", "connections")
SPARK_COLUMNS = b"org.apache.spark.sql.parquet.row.metadata"


def contents(found):
    return sorted((row["completion"], str({**row, "run_id": None})) for row in found)


def test_files_that_tasks_tell_of_have_the_rows_once_whatever_other_tries_left(local, tmp_path):
    tries = [local.written(PATHS, Request(TABLES), Target(None, str(tmp_path))) for _ in range(2)]
    names = [{(file.table, file.folder, file.name) for file in files} for files in tries]
    assert not names[0] & names[1]
    assert len([*tmp_path.rglob("*.parquet")]) == len(names[0]) + len(names[1])
    for table in TABLES:
        made = []
        for file in tries[1]:
            if file.table == table:
                path = tmp_path / table / file.folder / file.name
                assert path.stat().st_size == file.size
                rows = pq.ParquetFile(path).read().to_pylist()
                assert len(rows) == file.rows
                columns = json.loads(pq.read_metadata(path).metadata[SPARK_COLUMNS])["fields"]
                comments = {column["name"]: column["metadata"].get("comment") for column in columns}
                assert comments["timestamp_ns"] == COMMENTS["timestamp_ns"]
                times = [row["timestamp_ns"] for row in rows]
                assert times == sorted(times)
                made += rows
        expected = [{name: row[name] for name in row if name != "date"} for row in local.rows(PATHS, table)]
        assert contents(made) == contents(expected) != []


def test_what_cannot_be_written_is_one_line(local, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(KinspectError, match=r"file/out: cannot be written: ") as told:
        local.captures(PATHS).written(Request(TABLES), Target(None, f"{tmp_path}/file/out"))
    assert len(str(told.value).splitlines()) == 1
