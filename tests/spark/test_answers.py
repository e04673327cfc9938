"""Answers in a session: `kinspect.spark.answer`, and tables by `kinspect pipeline run --answers`."""

from importlib import import_module
from pathlib import Path

import pytest
from lines import answer as wanted
from lines import plain

import kinspect
from kinspect.answers import answers
from kinspect.errors import KinspectError

pytestmark = pytest.mark.tools

CAPTURES = Path(__file__).parents[2] / "captures"
TXN = CAPTURES / "4.4.0/txn_java.pcap.gz"

each_answer = pytest.mark.parametrize("name", answers())


@pytest.fixture(scope="module")
def answer():
    return import_module("kinspect.spark").answer


@each_answer
def test_the_object_is_that_of_kinspect_answer(spark, answer, name):
    paths = sorted((CAPTURES / "2.8.2").glob("*.pcap*"))
    assert answer(spark, paths, name, partitions=5) == wanted(name, paths)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("latency", {"by": "client,minute"}),
        ("latency", {"slow": "5ms"}),
        ("upgrade", {"to": "4.0"}),
        ("topics", {"filter": {"topic": "pc-tx*"}}),
    ],
)
def test_options_and_filters(spark, answer, name, options):
    found = answer(spark, str(TXN), name, partitions=3, **options)
    assert found == wanted(name, [TXN], **options)
    assert found["rows"]


def test_secrets(spark, answer):
    keylog, path = (CAPTURES / "tls" / name for name in ("tls13.keys.log", "tls13.pcap.gz"))
    found = answer(spark, path, "clients", keylog=keylog)
    assert found == wanted("clients", [path], keylog=keylog)
    assert any(row["tls"] for row in found["rows"])


def test_names_given_beforehand(spark, answer):
    path = CAPTURES / "4.4.0/platformatic.pcap"
    ids = [row["topic_id"] for row in kinspect.answer("topics", path)["rows"] if row["topic_id"]]
    names = {topic_id: f"given-{number}" for number, topic_id in enumerate(sorted(set(ids)))}
    found = answer(spark, path, "topics", topic_names=names)
    assert found == wanted("topics", [path], topic_names=names)


def test_a_capture_that_ends_early_is_told_and_counted(spark, answer, tmp_path):
    run = import_module("kinspect.spark.batch")
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((CAPTURES / "2.8.2/console-zstd.pcap").read_bytes()[:-10])
    with pytest.warns(run.CaptureWarning, match="ends in the middle of packet") as told:
        found = answer(spark, cut, "topics")
    assert told[0].filename == __file__
    assert found["rows"]


def test_an_answer_that_there_is_not(spark, answer):
    with pytest.raises(KinspectError, match="there is no answer 'nope'; there are summary, topics,"):
        answer(spark, str(TXN), "nope")


# ---------------------------------------------------------------------- tables


@pytest.fixture(scope="module")
def job():
    return import_module("kinspect.spark.job")


def run(spark, job, out, paths, tables, *answers):
    request = job.Request(tables, answers=answers, capture_point="east")
    return job.run(spark, job.Job([*map(str, paths)], str(out), request), lambda _: None)


def rows_in(out, name):
    """The rows of an answer's table as they lie there, in their order."""
    parquet = import_module("pyarrow.parquet")
    rows = [
        row
        for path in sorted((out / name).rglob("*.parquet"))
        for row in parquet.ParquetFile(path).read().to_pylist(maps_as_pydicts="strict")
    ]
    return [plain(row) for row in sorted(rows, key=lambda row: row["place"])]


@pytest.mark.parametrize("asked", [(), ("exchanges",)], ids=["alone", "with a table"])
def test_a_table_for_each_answer(spark, job, tmp_path, monkeypatch, asked):
    batch = import_module("kinspect.spark.batch")
    decoding, decodes = batch.decoding, []
    monkeypatch.setattr(batch, "decoding", lambda *given: decodes.append(given) or decoding(*given))
    result = run(spark, job, tmp_path, [TXN], asked, *answers())
    for name in answers():
        found = kinspect.answer(name, TXN)["rows"]
        rows = rows_in(tmp_path, f"answer_{name}")
        assert [{key: row[key] for key in found[0]} for row in rows] == found if found else not rows
        assert result.rows[f"answer_{name}"] == len(found)
        assert {row["capture_point"] for row in rows} <= {"east"}
    assert len(decodes) == 1
    aggregates = {"latency_by_minute", "topic_clients", "client_versions", "errors"} if asked else set()
    with_rows = {f"answer_{name}" for name in answers() if kinspect.answer(name, TXN)["rows"]}
    assert {path.name for path in tmp_path.iterdir()} == with_rows | {*asked} | aggregates


def test_an_answer_is_replaced_and_other_tables_stay(spark, job, tmp_path):
    """At the date of the first packet: rows of other dates stay, and an answer without rows has none any more."""
    old = tmp_path / "answer_topics/date=2020-01-01"
    old.mkdir(parents=True)
    (old / "part-0.parquet").write_bytes(b"left alone")
    for _ in range(2):
        result = run(spark, job, tmp_path, [TXN], (), "topics", "groups")
        assert result.dates["answer_topics"] == ["2026-11-21"]
    before = sorted((tmp_path / "answer_groups").rglob("*.parquet"))
    assert len(before) == 1
    other = CAPTURES / "2.8.2/sasl-plain.pcap"
    run(spark, job, tmp_path, [other], (), "topics")
    assert [path.name for path in (tmp_path / "answer_topics").iterdir() if any(path.iterdir())] == [
        old.name
    ] + ["date=2026-11-21"] * bool(kinspect.answer("topics", other)["rows"])
    assert sorted((tmp_path / "answer_groups").rglob("*.parquet")) == before


def test_sql_reads_what_has_open_keys(spark, job, tmp_path):
    """In Spark and in DuckDB alike."""
    run(spark, job, tmp_path, [TXN], (), "clients")
    statement = (
        "select client_id, apis['Fetch'].requests as fetches from clients"
        " where apis['Fetch'].requests > 0 order by client_id"
    )
    found = [
        (row["client_id"], row["apis"]["Fetch"]["requests"])
        for row in kinspect.answer("clients", TXN)["rows"]
        if "Fetch" in row["apis"]
    ]
    spark.read.parquet(str(tmp_path / "answer_clients")).createOrReplaceTempView("clients")
    assert [tuple(row) for row in spark.sql(statement).collect()] == sorted(found)
    duckdb = import_module("duckdb")
    duckdb.sql(f"create view clients as from '{tmp_path}/answer_clients/**/*.parquet'")
    assert duckdb.sql(statement).fetchall() == sorted(found) != []


def test_columns_have_comments(spark, job, tmp_path):
    run(spark, job, tmp_path, [TXN], (), "topics")
    fields = {
        field.name: field.metadata.get("comment")
        for field in spark.read.parquet(str(tmp_path / "answer_topics")).schema
    }
    assert fields["batches"] == "Batches on the wire, with rejected ones and retries"
    assert fields["first_ns"] == "When the first request began, nanoseconds since the epoch"
    assert fields["first"] == "first_ns in microseconds"
