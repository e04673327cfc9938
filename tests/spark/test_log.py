"""A batch is in the tables once, or not at all, whatever is interrupted when."""

from importlib import import_module
from pathlib import Path

import pytest

from kinspect.errors import KinspectError

pytestmark = pytest.mark.tools

TABLES = {"one": 2, "two": 1}
"""How many rows a batch has in each."""


@pytest.fixture
def log_of(spark, tmp_path):
    module = import_module("kinspect.spark.log")
    return lambda: module.Log(spark, str(tmp_path / "out"))


def stage(log, number):
    """What a batch writes: two tables of two days, and what it carries."""
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    attempt = log.attempt()
    folder = Path(attempt.folder.removeprefix("file:"))
    for name in ("one/date=2026-11-21", "one/date=2026-11-22", "two/date=2026-11-21", "_carry"):
        (folder / name).mkdir(parents=True)
        parquet.write_table(arrow.table({"n": [number]}), folder / name / "part-0.parquet")
    return attempt


def contents(out, name):
    parquet = import_module("pyarrow.parquet")
    files = sorted((out / name).rglob("*.parquet"))
    return sorted(row["n"] for path in files for row in parquet.ParquetFile(path).read().to_pylist())


class Killed(BaseException):
    """What a kill is here."""


class Interrupted:
    """A file system on which the process is killed at the n-th thing that is changed, before or after the change."""

    CHANGES = ("create", "rename", "delete", "mkdirs")

    def __init__(self, system, left, after):
        self._system = system
        self._left = left
        self._after = after

    def __getattr__(self, name):
        method = getattr(self._system, name)
        if name not in self.CHANGES:
            return method

        def change(*arguments):
            self._left -= 1
            if self._left < 0 and not self._after:
                raise Killed
            done = method(*arguments)
            if self._left < 0:
                raise Killed
            return done

        return change


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_moment_of_putting_it_in_place(spark, log_of, tmp_path, after):
    out = tmp_path / "out"
    log = log_of()
    log.decide(stage(log, 1))
    assert contents(out, "one") == [1, 1]
    batch, kills = 1, 0
    for at in range(40):
        log = log_of()
        attempt = stage(log, batch + 1)
        system, log._system = log._system, Interrupted(log._system, at, after)
        try:
            log.decide(attempt)
        except Killed:
            kills += 1
        else:
            break
        finally:
            log._system = system
        # Never twice, also before anybody starts again.
        for name, rows in TABLES.items():
            found = contents(out, name)
            assert all(found.count(n) == rows for n in range(1, batch + 1))
            assert found.count(batch + 1) <= rows
        log = log_of()
        assert log.batch == batch + (at > 0)
        batch = log.batch
        for name, rows in TABLES.items():
            assert contents(out, name) == sorted([*range(1, batch + 1)] * rows)
        assert [row.n for row in spark.read.parquet(log.carry).collect()] == [batch]
        left = {path.name for path in (out / "_stream").iterdir() if not path.name.startswith(".")}
        assert left == {f"decided-{batch:010}", f"carry-{batch:010}"}
    assert kills > 8


def test_what_was_not_decided_is_nothing(spark, log_of, tmp_path):
    log = log_of()
    stage(log, 1)
    again = log_of()
    assert again.batch == 0
    assert again.carry is None
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"_stream"}
    assert list((tmp_path / "out/_stream").iterdir()) == []


def test_a_decision_that_was_killed_while_it_was_written_is_none(spark, log_of, tmp_path):
    log = log_of()
    log.decide(stage(log, 1))
    (tmp_path / "out/_stream/decided-0000000002").write_bytes(b"")
    again = log_of()
    assert again.batch == 1
    again.decide(stage(again, 2))
    assert contents(tmp_path / "out", "one") == [1, 1, 2, 2]


def test_two_streams_do_not_write_to_one_folder(spark, log_of, tmp_path):
    one, other = log_of(), log_of()
    mine, theirs = stage(one, 1), stage(other, 2)
    one.decide(mine)
    with pytest.raises(KinspectError, match="another stream writes"):
        other.decide(theirs)
    assert contents(tmp_path / "out", "one") == [1, 1]


def test_what_another_stream_took_away_is_not_put_in_place(spark, log_of, tmp_path):
    """One has written its rows, another one starts, and the first goes on to what it carries."""
    log = log_of()
    attempt = log.attempt()
    attempt.write("one", spark.range(3).selectExpr("id", "id as date"), ("date",))
    log_of()
    attempt.write_carry(spark.range(1))
    with pytest.raises(KinspectError, match="another stream writes"):
        log.decide(attempt)
    assert log_of().batch == 0


def test_the_folder_of_another_job_is_refused(spark, log_of, tmp_path):
    (tmp_path / "out/exchanges").mkdir(parents=True)
    with pytest.raises(KinspectError, match="not of a stream"):
        log_of()


def test_a_job_refuses_the_folder_of_a_stream(spark, log_of, tmp_path):
    log_of()
    job = import_module("kinspect.spark.job")
    with pytest.raises(KinspectError, match="a stream writes its tables there"):
        job.run(spark, job.Job(["x.pcap"], str(tmp_path / "out")), lambda _: None)


def test_only_its_owner_may_look_into_what_is_carried(log_of, tmp_path):
    log_of()
    assert (tmp_path / "out/_stream").stat().st_mode & 0o777 == 0o700
