"""`kinspect pipeline stream` on Spark: every packet once, whatever is killed when, and tables that can be read at any
moment."""

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from shutil import copy, copytree, rmtree
from types import SimpleNamespace

import pytest
from lines import line_of, lines
from staging import stage
from support.pcap import pcap
from traffic import conversation, moving, rotated, spread

from kinspect.errors import KinspectError
from kinspect.kafka.view.view import View

pytestmark = pytest.mark.tools

KINDS = (("exchange", "exchanges"), ("connection", "connections"))
DAY_US = 86_400_000_000
SUMS = ("latency_by_minute", "topic_clients", "client_versions", "errors")
CAPTURE = Path(__file__).parents[2] / "captures/0.10.2.2/sweep-B-produce-fetch-offsets.pcap"


@pytest.fixture
def module():
    return import_module("kinspect.spark.streaming.query")


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "captures"
    made.mkdir()
    return made


def table(out, name):
    """The rows of a table in the order of completion, as they lie there."""
    parquet = import_module("pyarrow.parquet")
    rows = [
        row
        for path in sorted((out / name).rglob("*.parquet"))
        for row in parquet.ParquetFile(path).read().to_pylist()
    ]
    return sorted(rows, key=lambda row: row["completion"])


def written(out, kind, name):
    """The lines that the rows of a table were made of."""
    return [line_of(row, kind) for row in table(out, name)]


def packets(seed, connections=8):
    """Packets of some connections at once, in order; each connection reports its own names."""
    rng = random.Random(seed)
    found = [
        packet for port in range(connections) for packet in spread(rng, conversation(rng, 40_000 + port))
    ]
    return sorted(found, key=lambda packet: packet.time_us)


def files_of(found, folder, count):
    """The packets cut into files in the order of time."""
    paths = []
    for number in range(count):
        paths.append(folder / f"cap{number:02}.pcap")
        paths[-1].write_bytes(pcap(found[number * len(found) // count : (number + 1) * len(found) // count]))
    return paths


def stream_of(module, spark, folder, out, tell=lambda _: None, **more):
    watch = module.StreamOptions(str(folder), settle=0.0, interval=0.1, shards=more.pop("shards", 2))
    return module.Stream(spark, watch, str(out), module.Request(**more), tell)


def same(out, paths):
    for kind, name in KINDS:
        made = [_without_names(line) for line in written(out, kind, name)]
        assert made == [*map(_without_names, lines(paths, kind, view=View()))]


def rows_of(out, names=SUMS):
    """Each table's rows by date, without order."""
    parquet = import_module("pyarrow.parquet")
    found = {}
    for name in names:
        for path in (out / name).rglob("*.parquet"):
            rows = parquet.ParquetFile(path).read().to_pylist()
            found.setdefault(f"{name}/{path.parent.name}", []).extend(map(str, rows))
    return {folder: sorted(rows) for folder, rows in found.items()}


def job_of(spark, paths, out, chosen=None):
    """The tables that a run over the files makes."""
    job = import_module("kinspect.spark.job")
    request = job.Request(("exchanges",), chosen=chosen or {})
    job.run(spark, job.Job([*map(str, paths)], str(out), request), lambda _: None)
    return out


def _without_names(line):
    """The line without names, since those of other connections count from the next micro-batch on."""
    for side in ("request", "response"):
        if line.get(side) and line[side]["body"]:
            line[side]["body"].pop("topics", None)
    line["broker"].pop("node_id", None)
    return {name: value for name, value in line.items() if name not in ("topics", "partitions")}


def test_a_stream_goes_on_where_it_was_and_is_drained(spark, module, folder, tmp_path):
    """In between, the process is another one; then it is drained a second time, and goes on after that."""
    apart = tmp_path / "apart"
    apart.mkdir()
    paths = files_of(packets(1), apart, 6)
    out = tmp_path / "out"
    for share in (paths[:2], paths[2:4]):
        taken = 0
        for path in share:
            (folder / path.name).write_bytes(path.read_bytes())
        looks = stream_of(module, spark, folder, out).batches()
        for batch in looks:
            taken += batch.captures if batch else 0
            if taken == 2:
                break
        looks.close()
    for path in paths[4:]:
        (folder / path.name).write_bytes(path.read_bytes())
    stream = stream_of(module, spark, folder, out)
    assert sum(batch.captures for batch in stream.batches(drain=True) if batch) == 2
    same(out, [folder / path.name for path in paths])
    summary = stream.summary()
    assert summary["packets"] == len(packets(1))
    assert summary["captures"] == 6
    assert summary["exchanges"] == len(lines(paths))
    assert [*filter(None, stream_of(module, spark, folder, out).batches(drain=True))] == []
    same(out, [folder / path.name for path in paths])
    assert oct((out / "_stream").stat().st_mode & 0o777) == "0o700"
    assert len([path for path in (out / "_stream").iterdir() if path.name.startswith("state-")]) == 1


def test_what_ends_while_a_micro_batch_is_put_in_place_loses_nothing(
    spark, module, folder, tmp_path, monkeypatch
):
    """A rename that fails: the micro-batch is decided, and finished at the next start."""
    paths = files_of(packets(4), folder, 2)
    out = tmp_path / "out"
    stream = stream_of(module, spark, folder, out)

    def fails(*_):
        raise KinspectError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(type(stream._output.folder), "move", fails)
        with pytest.raises(KinspectError, match="no space left"):
            [*stream.batches(drain=True)]
    [*stream_of(module, spark, folder, out).batches(drain=True)]
    same(out, paths)


def test_aggregates_of_a_drained_stream_are_those_of_a_run(spark, module, folder, tmp_path):
    paths = rotated(CAPTURE, folder, 3)
    [*stream_of(module, spark, folder, tmp_path / "out").batches(drain=True)]
    found = rows_of(tmp_path / "out")
    assert found == rows_of(job_of(spark, paths, tmp_path / "run"))
    assert {name.partition("/")[0] for name in found} == {*SUMS}


def exchanges_of(out, name):
    """Number of exchanges of each date in a table."""
    rows = rows_of(out, (name,)).items()
    each = {folder.partition("/")[2]: len(found) for folder, found in rows}
    if name != "exchanges":
        parquet = import_module("pyarrow.parquet")
        for day in each:
            (path,) = (out / name / day).glob("*.parquet")
            each[day] = sum(parquet.ParquetFile(path).read()["exchanges"].to_pylist())
    return each


def test_aggregates_come_without_a_drain_when_it_is_time(spark, module, folder, tmp_path, monkeypatch):
    """With the second micro-batch, then with one of each hour: of what was there before it, and of the dates whose
    exchanges changed. Connections that are idle by a clock that jumped a day end one micro-batch later."""
    out = tmp_path / "out"
    found = packets(1)
    half = len(found) // 2
    found[half:] = [packet._replace(time_us=packet.time_us + DAY_US) for packet in found[half:]]
    seen, files = [], []
    cuts = [0, half // 3, 2 * half // 3, half, 3 * half // 2, 13 * half // 8, 7 * half // 4, len(found)]
    for number, hour in enumerate((0, 0, 0, 1, 2, 3, 4)):
        clock = SimpleNamespace(time=lambda hour=hour: 1_800_000_000.0 + 3600 * hour)
        monkeypatch.setattr("kinspect.spark.streaming.streamoutput.time", clock)
        (folder / f"cap{number}.pcap").write_bytes(pcap(found[cuts[number] : cuts[number + 1]]))
        one_batch(stream_of(module, spark, folder, out))
        seen.append((exchanges_of(out, "exchanges"), exchanges_of(out, "latency_by_minute")))
        files.append({file for file in (out / "latency_by_minute").rglob("*.parquet")})
    rows, sums = zip(*seen, strict=True)
    assert sums == ({}, rows[0], rows[0], *rows[2:6])
    assert rows[1] != rows[0]
    assert [len(days) for days in sums] == [0, 1, 1, 1, 2, 2, 2]
    assert len(files[4] & files[5]) == 0
    assert len(files[5] & files[6]) == len(files[5] - files[6]) == 1


def begins(out, batch):
    """Begins a micro-batch in the checkpoint, as Spark does."""
    offsets = out / "_stream/checkpoint/offsets"
    offsets.mkdir(parents=True, exist_ok=True)
    (offsets / str(batch)).touch()


def one_batch(stream):
    looks = stream.batches()
    found = next(filter(None, looks))
    looks.close()
    return found


def test_aggregates_that_fail_fail_no_micro_batch_that_counts(spark, module, folder, tmp_path, monkeypatch):
    """They are made before the next one, which is made again when they can be."""
    out = tmp_path / "out"
    paths = files_of(packets(2), tmp_path, 3)

    def fails(*_):
        raise KinspectError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("kinspect.spark.streaming.streamoutput.StreamOutput.write_sums", fails)
        paths[0] = copy(paths[0], folder)
        assert one_batch(stream_of(module, spark, folder, out)).captures == 1
        before = exchanges_of(out, "exchanges")
        paths[1] = copy(paths[1], folder)
        with pytest.raises(KinspectError, match="no space left"):
            one_batch(stream_of(module, spark, folder, out))
        assert exchanges_of(out, "exchanges") == before
    one_batch(stream_of(module, spark, folder, out))
    assert exchanges_of(out, "latency_by_minute") == before != exchanges_of(out, "exchanges")
    paths[2] = copy(paths[2], folder)
    [*stream_of(module, spark, folder, out).batches(drain=True)]
    same(out, paths)
    assert exchanges_of(out, "latency_by_minute") == exchanges_of(out, "exchanges")


def test_a_checkpoint_that_is_behind_the_tables_is_refused(spark, module, folder, tmp_path):
    """One that was deleted, and an older one: new micro-batches would pass for old ones."""
    out = tmp_path / "out"
    checkpoint, older, newer = out / "_stream/checkpoint", tmp_path / "older", tmp_path / "newer"
    paths = files_of(packets(2), tmp_path, 3)
    for number, kept in enumerate((older, newer)):
        paths[number] = copy(paths[number], folder)
        one_batch(stream_of(module, spark, folder, out))
        copytree(checkpoint, kept)
    paths[2] = copy(paths[2], folder)
    words = "out: _stream/checkpoint was deleted, or is older than the tables; put it back, or choose another --out"
    for put_back in (None, older):
        rmtree(checkpoint, ignore_errors=True)
        if put_back:
            copytree(put_back, checkpoint)
        with pytest.raises(KinspectError, match=words):
            stream_of(module, spark, folder, out)
    rmtree(checkpoint)
    copytree(newer, checkpoint)
    [*stream_of(module, spark, folder, out).batches(drain=True)]
    same(out, paths)


def test_what_lines_told_is_kept_for_a_micro_batch_that_is_made_again(spark, tmp_path):
    output = import_module("kinspect.spark.streaming.streamoutput").StreamOutput(spark, str(tmp_path / "out"))
    told = import_module("kinspect.spark.streaming.streamsource")._told
    for batch in range(3):
        output.decide(batch, batch + 1, [f"of {batch + 1}"], {})
    begins(tmp_path / "out", 2)
    output.unlock()
    import_module("kinspect.spark.streaming.streamoutput").StreamOutput(spark, output.folder.path).copy_told(
        tmp_path / "told.json"
    )
    found = [told(str(tmp_path / "told.json"), number) for number in (0, 1, 2, 3)]
    assert found == [[], [], ["of 2"], ["of 3"]]


def test_killed_at_any_step_rows_and_aggregates_are_there_once(spark, folder, tmp_path, monkeypatch):
    """Before and behind each move and removal, of a micro-batch and of the aggregates that it changes."""
    output = import_module("kinspect.spark.streaming.streamoutput").StreamOutput
    folder_class = import_module("kinspect.spark.folder").Folder
    request = import_module("kinspect.tables.request").Request(("exchanges",))
    made = job_of(spark, [CAPTURE], tmp_path / "run")
    (day,) = (path.name for path in (made / "exchanges").glob("date=*"))

    def stage_of(self, name):
        stage(self, name, day, (made / name / day).glob("*.parquet"), self._state["step"])

    def write_sums(self, request, *days):
        assert days == (day,)
        for name in SUMS:
            stage_of(self, name)

    def write(out, batch):
        begins(out, batch)
        begun = output(spark, str(out))
        if not begun.has(batch):
            begun.discard()
            stage_of(begun, "exchanges")
            begun.decide(batch, batch, [], {"captures": batch})
        begun.add_up(request)

    def killed_at(step):
        steps = itertools.count(1)

        def counted(work):
            def change(self, *names, **more):
                if next(steps) == step:
                    raise KeyboardInterrupt
                work(self, *names, **more)

            return change

        return counted

    monkeypatch.setattr(output, "write_sums", write_sums)
    for step in itertools.count(1):
        out = tmp_path / str(step)
        write(out, 0)
        # Other aggregates than those that will be there, so that it is seen which they are.
        for name in SUMS:
            for path in (out / name / day).glob("*.parquet"):
                path.write_bytes(b"of the micro-batch before")
        counted = killed_at(step)
        with monkeypatch.context() as patched:
            for name in ("delete", "move", "make", "put_text"):
                patched.setattr(folder_class, name, counted(getattr(folder_class, name)))
            try:
                write(out, 1)
                ended = True
            except KeyboardInterrupt:
                ended = False
        write(out, 1)
        once = rows_of(made, ("exchanges",))
        assert rows_of(out, ("exchanges",)) == {name: sorted([*rows, *rows]) for name, rows in once.items()}
        assert rows_of(out) == rows_of(made)
        assert [path.name for path in (out / "_stream").glob("state-*")] == ["state-0000000003.json"]
        if ended:
            break
    assert step > 25


def test_names_that_a_connection_tells_count_for_others_from_the_next_micro_batch_on(
    spark, module, folder, tmp_path
):
    paths = rotated(moving(random.Random(1), tmp_path), tmp_path, 2)
    out = tmp_path / "out"
    for share in paths:
        (folder / share.name).write_bytes(share.read_bytes())
        looks = stream_of(module, spark, folder, out).batches()
        next(filter(None, looks))
        looks.close()
    [*stream_of(module, spark, folder, out).batches(drain=True)]
    nodes = [line["broker"]["node_id"] for line in written(out, "exchange", "exchanges")]
    assert None not in nodes[len(nodes) // 2 + 3 :]


def test_a_stream_keeps_its_tables_and_shards(spark, module, folder, tmp_path):
    paths = files_of(packets(4), folder, 1)
    stream = stream_of(module, spark, folder, tmp_path / "out", tables=("connections",))
    [*stream.batches(drain=True)]
    assert written(tmp_path / "out", *KINDS[1]) == lines(paths, "connection", view=View())
    with pytest.raises(KinspectError, match="was begun with the tables connections"):
        stream_of(module, spark, folder, tmp_path / "out")
    with pytest.raises(KinspectError, match="was begun with the shards 2"):
        stream_of(module, spark, folder, tmp_path / "out", tables=("connections",), shards=3)


def test_a_stream_that_goes_on_with_other_options_says_so(spark, module, folder, tmp_path):
    told = []
    for chosen in ({"api": ["Fetch"]}, {"api": ["Fetch"], "topic": []}):
        stream_of(module, spark, folder, tmp_path / "out", told.append, chosen=chosen)
    assert told == []
    stream_of(module, spark, folder, tmp_path / "out", told.append, view=View(payload="text"))
    assert told == [
        f"{tmp_path}/out: goes on with other --payload, filters; rows that are there stay as they are"
    ]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            "_stream/decided-0000000001",
            "a stream of kinspect 0.1 left its state there; drain it with 0.1 first",
        ),
        ("exchanges/date=2020-01-01", "is not empty and not of a stream"),
    ],
)
def test_the_folder_of_another_job_or_version_is_refused(spark, module, folder, tmp_path, made, words):
    (tmp_path / "out" / made).mkdir(parents=True)
    with pytest.raises(KinspectError, match=words):
        stream_of(module, spark, folder, tmp_path / "out")


def test_a_stream_beside_another_one_is_refused(spark, module, folder, tmp_path):
    stream = stream_of(module, spark, folder, tmp_path / "out")
    with pytest.raises(
        KinspectError, match=rf"out: another run writes there; .* \(process {os.getpid()} on "
    ):
        stream_of(module, spark, folder, tmp_path / "out")
    [*stream.batches(drain=True)]
    stream_of(module, spark, folder, tmp_path / "out")


def test_rows_of_a_micro_batch_that_were_written_elsewhere_are_missed(spark, tmp_path):
    output = import_module("kinspect.spark.streaming.streamoutput").StreamOutput(spark, str(tmp_path / "out"))
    rows = spark.createDataFrame([("2026-11-21", 1)], "date string, n int")
    output.write("exchanges", rows)
    next((tmp_path / "out/_stream/staged").glob("*/exchanges/**/*.parquet")).unlink()
    with pytest.raises(KinspectError, match="has 0 rows of exchanges where 1 were written"):
        output.decide(0, 0, [], {})
    assert not output.has(0)
    output.discard()
    output.write("exchanges", rows)
    output.decide(0, 0, [], {})
    assert output.has(0)


def test_what_could_not_be_read_is_told_and_in_a_table(spark, module, folder, tmp_path):
    paths = files_of(packets(4), folder, 1)
    (folder / "notes.txt").write_bytes(b"this is no capture, and says so by its first bytes")
    told = []
    stream = stream_of(module, spark, folder, tmp_path / "out", told.append)
    [*stream.batches(drain=True)]
    assert (len(told), stream.status) == (1, 1)
    assert told[0].startswith(f"{folder}/notes.txt: not a capture")
    (row,) = (
        import_module("duckdb")
        .sql(f"select file, message from '{tmp_path}/out/problems/**/*.parquet'")
        .fetchall()
    )
    assert row == (f"{folder}/notes.txt", told[0])
    same(tmp_path / "out", paths)


def test_a_streaming_dataframe(spark, folder, tmp_path):
    """A query over it, begun again from its checkpoint; it fails when the stream does."""
    api = import_module("kinspect.spark")
    found = packets(5)
    half = len(found) // 2
    paths = files_of(found[:half], folder, 1)

    def run():
        frame = api.stream(spark, str(folder), "exchanges", settle=0.0, shards=2)
        assert frame.isStreaming
        query = (
            frame.select("exchange_id", "api")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        query.awaitTermination()

    run()
    paths.append(folder / "later.pcap")
    paths[-1].write_bytes(pcap(found[half:]))
    run()
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    ids = [row["exchange_id"] for row in rows]
    assert len(ids) == len(set(ids))
    # What is open stays open: nobody drained it.
    assert 0 < len(ids) <= len(lines(paths))
    folder.rename(tmp_path / "gone")
    with pytest.raises(Exception, match="No such file or directory"):
        run()


PROGRAM = "import sys; from kinspect.cli import main; sys.exit(main(sys.argv[1:]))"


class Driver:
    """`kinspect pipeline stream` in a process of its own."""

    def __init__(self, folder, out, *more):
        command = [sys.executable, "-c", PROGRAM, "pipeline", "stream", str(folder), "--out", str(out)]
        options = [
            "--settle",
            "0",
            "--interval",
            "100ms",
            "--shards",
            "2",
            "--master",
            "local[2,4]",
            "--progress",
        ]
        conf = ["--conf", "spark.driver.memory=1g", "--conf", "spark.sql.shuffle.partitions=2"]
        self.process = subprocess.Popen(
            [*command, *options, *conf, *more], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.said = []
        self.ended = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.said.append(line)
                self._changed.notify_all()
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def wait_for(self, text, times=1):
        def there():
            return sum(text in line for line in self.said) >= times

        with self._changed:
            self._changed.wait_for(lambda: there() or self.ended)
            assert there(), "".join(self.said[-30:])

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        return self.end()

    def end(self):
        status = self.process.wait()
        self._reader.join()
        return status


def test_a_signal_to_all_processes_of_a_service_ends_the_stream_as_one_to_itself(folder, tmp_path):
    driver = Driver(folder, tmp_path / "out")
    driver.wait_for("kinspect: watching")
    os.killpg(driver.process.pid, signal.SIGTERM)
    assert driver.end() == 128 + signal.SIGTERM
    assert "error" not in "".join(driver.said)


def count(out, name):
    duckdb = import_module("duckdb")
    if not any((out / name).rglob("*.parquet")):
        return 0
    return duckdb.sql(f"select count(*) from '{out}/{name}/**/*.parquet'").fetchall()[0][0]


@pytest.mark.parametrize("seed", [1])
def test_killed_ten_times_it_loses_and_doubles_nothing(folder, tmp_path, seed):
    """Between micro-batches and inside them, while captures come; in between the tables can be read as they lie."""
    rng = random.Random(seed + int(os.environ.get("KINSPECT_SEED", "0")))
    apart = tmp_path / "apart"
    apart.mkdir()
    kills = int(os.environ.get("KINSPECT_KILLS", "3"))
    found = packets(seed, 10)
    paths = files_of(found, apart, 2 * kills + 2)
    out = tmp_path / "out"
    totals = []
    for number in range(kills):
        driver = Driver(folder, out)
        for path in paths[2 * number : 2 * number + 2]:
            (folder / path.name).write_bytes(path.read_bytes())
            time.sleep(rng.random() * 0.5)
        driver.wait_for("kinspect: watching")
        time.sleep(rng.random() * 12)
        driver.kill()
        totals.append(count(out, "exchanges"))
    for path in paths[2 * kills :]:
        (folder / path.name).write_bytes(path.read_bytes())
    driver = Driver(folder, out)
    driver.wait_for("kinspect: batch ")
    assert driver.kill(signal.SIGTERM) == 128 + signal.SIGTERM
    driver = Driver(folder, out, "--drain")
    assert driver.end() == 0, "".join(driver.said)
    here = [folder / path.name for path in paths]
    same(out, here)
    ids = [row["exchange_id"] for row in table(out, "exchanges")]
    assert len(ids) == len(set(ids)) == len(lines(here)) >= totals[-1]
    assert totals == sorted(totals)
    assert f"{len(found):,} packets" in "".join(driver.said)
    assert exchanges_of(out, "latency_by_minute") == exchanges_of(out, "exchanges")
