"""`read --jobs`: what several processes print is what one prints, whatever happens to them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli.conftest import exchange
from support.pcap import Conversation, pcap
from support.shares import one_in
from support.waiting import wait_until

from kinspect import jobs
from kinspect.capture import open_timeline
from kinspect.cli.readcommand import process_count
from kinspect.formats import FORMATS
from kinspect.jobs.linemerge import CHANGED

CAPTURES = sorted(str(path) for path in Path("captures").rglob("*.pcap*"))
NEWEST = [path for path in CAPTURES if "/4.4.0/" in path]
KEYLOG = "captures/tls/go.keys.log"

SMALL = """
import functools, os, sys
from kinspect import cli, jobs
from kinspect.capture import source
from kinspect.cli import interrupt, outfile, readcommand, readrun, rowsink
from kinspect.jobs import workerlink, worker

# Of a small capture many chunks of several blocks.
worker.CHUNK_BYTES = jobs.CHUNK_BYTES = 4096
interrupt.PATIENCE_SECONDS = {patience}
readcommand.open_timeline = functools.partial(readcommand.open_timeline, block_size=1024)
rowsink.open_timeline = readcommand.open_timeline

fork = os.fork
forks = 0

def told():
    global forks
    forks += 1
    pid = fork()
    if pid:
        print("forked", pid, file=sys.stderr, flush=True)
    else:
        {in_child}
    return pid

os.fork = told
sys.exit(cli.main())
"""
"""The command with small chunks; it tells the processes it forks. `forks`: which one a forked process is."""


def small(*arguments, in_child="pass", patience=60):
    """The command line of `SMALL`; `in_child` is done first in each forked process. `patience`: seconds that a SIGTERM
    leaves for the end."""
    return [sys.executable, "-c", SMALL.format(in_child=in_child, patience=patience), *map(str, arguments)]


def outcome(command, output):
    """Result of a command: its status, the content of its file `output` and its messages."""
    command = [*command, "-o", output, "--force"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in result.stderr.splitlines() if not line.startswith("forked")]
    written = output.read_bytes() if output.exists() else b""
    return SimpleNamespace(status=result.returncode, written=written, said=said)


ALL_TYPES = ["--emit", "exchange,connection,gap,summary"]
WITH_PAYLOAD = ["--records", "--payload", "text"]
TIGHT = [
    "--max-records-bytes",
    "1KiB",
    "--max-records",
    "5",
    "--max-body-bytes",
    "20KiB",
    "--max-in-flight",
    "1",
]


@pytest.mark.parametrize(
    ("program", "every"),
    [(small(), 64), pytest.param([sys.executable, "-m", "kinspect"], 1, marks=pytest.mark.big)],
    ids=["some", "every"],
)
@pytest.mark.parametrize(
    ("captures", "options"),
    [
        (CAPTURES, [*ALL_TYPES, *WITH_PAYLOAD, "--keylog", KEYLOG]),
        pytest.param(NEWEST, [*ALL_TYPES, *WITH_PAYLOAD, *TIGHT], marks=pytest.mark.big),
        (NEWEST, [*ALL_TYPES, "--topic", "pc-*", "--min-latency", "1", "--since", "+10s"]),
        (NEWEST, ["--fields", "api_key,correlation_id,request.frames"]),
        pytest.param(NEWEST, ["--emit", "connection", "--port", "19092"], marks=pytest.mark.big),
        (NEWEST, ["--topic", "nobody-has-it"]),
        pytest.param(NEWEST, ["--format", "none"], marks=pytest.mark.big),
    ],
    ids=["all", "caps", "filters", "fields", "connections", "nothing", "none"],
)
def test_several_processes_print_what_one_prints(tmp_path, captures, options, program, every):
    asked = [*program, "read", *captures[:: every if captures is CAPTURES else min(every, 8)], *options]
    alone = outcome(asked, tmp_path / "1")
    assert alone.status in (0, 1, 3)  # some are cut off, or are no captures
    assert any("exchanges" in line for line in alone.said)
    if options[-1] not in ("none", "nobody-has-it"):
        assert len(alone.written) > 2_000
    for count in ("2", "3", "8") if captures is CAPTURES else ("3",):
        assert outcome([*asked, "--jobs", count], tmp_path / count) == alone


ALL_RECORDS = ["--control", "--payload", "text"]


@pytest.mark.parametrize(
    ("program", "every"),
    [(small(), 64), pytest.param([sys.executable, "-m", "kinspect"], 1, marks=pytest.mark.big)],
    ids=["some", "every"],
)
@pytest.mark.parametrize(
    "options",
    one_in(
        5,
        [
            [*ALL_RECORDS, "--once", "--format", "csv"],
            [*ALL_RECORDS, "--keylog", KEYLOG],
            ["--committed", "--payload", "auto"],
            ["--key", "!re:^k[0-4]", "--direction", "consume", "--format", "table", "--utc"],
            ["--once", "--payload", "text", "--format", "kcat"],
        ],
    ),
    ids=["once", "all", "committed", "filters", "kcat"],
)
def test_several_processes_find_the_records_that_one_finds(tmp_path, options, program, every):
    transactions = [path for path in CAPTURES if "txn_" in path or "cluster_kraft" in path]
    asked = [
        *program,
        "records",
        *(CAPTURES if every == 1 else transactions[::4] + CAPTURES[::every]),
        *options,
    ]
    alone = outcome(asked, tmp_path / "1")
    assert alone.status in (0, 1, 3)
    assert len(alone.written) > 300
    assert outcome([*asked, "--jobs", "3"], tmp_path / "3") == alone


def test_what_there_is_of_records_is_told_by_all_processes(tmp_path):
    path = next(path for path in NEWEST if "txn_java" in path)
    asked = [*small(), "records", path, "--topic", "pc-tx"]
    alone = outcome(asked, tmp_path / "1")
    assert any("no record passes --topic" in line for line in alone.said)
    assert outcome([*asked, "--jobs", "3"], tmp_path / "3") == alone


def test_clocks_are_estimated_once(tmp_path):
    opened = f"""
from kinspect.capture import timeline
def open_input(path):
    os.write(log, b"%d\\n" % os.getpid())
    return source.open_source(path)
log = os.open({str(tmp_path / "opened")!r}, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
readcommand.open_timeline = functools.partial(readcommand.open_timeline, open_input=open_input)
os.fork = told
"""
    *python, program = small()
    command = [*python, program.replace("\nos.fork = told\n", opened), "read", *NEWEST[:3], "--jobs", "2"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    workers = re.findall(r"forked (\d+)", result.stderr)
    times = Counter((tmp_path / "opened").read_text().split())
    # Each worker looks once at each capture's first time, and reads what the first process opened.
    assert [times.pop(worker) for worker in workers] == [3, 3]
    assert [*times.values()] == [6]


@pytest.mark.big
@pytest.mark.parametrize("connections", ["one", "many"])
def test_small_chunks(big_capture, many_capture, tmp_path, connections):
    asked = ["read", {"one": big_capture, "many": many_capture}[connections], *ALL_TYPES]
    alone = outcome(small(*asked), tmp_path / "1")
    assert len(alone.written.splitlines()) == 2001 + (1 if connections == "one" else 16)
    for count in ("2", "5", "8"):
        assert outcome(small(*asked, "--jobs", count), tmp_path / count) == alone, count


@pytest.mark.big
def test_lines_wait_for_those_of_a_process_that_begins_late(many_capture, tmp_path):
    asked = ["read", many_capture]
    late = small(*asked, "--jobs", "3", in_child="forks == 2 and __import__('time').sleep(0.5)")
    assert outcome(late, tmp_path / "3") == outcome(small(*asked), tmp_path / "1")


def tight(ring_bytes):
    """`SMALL` where nearly every line fills what a process sends at once, and so much memory is for it."""
    return SMALL.replace("= 4096", f"= 65536; worker.TEXT_BYTES = 1000; workerlink.RING_BYTES = {ring_bytes}")


@pytest.mark.big
def test_output_beyond_what_is_held(many_capture, tmp_path):
    """Also lines that are larger than it."""
    asked = ["read", many_capture, *ALL_TYPES]
    alone = outcome(small(*asked), tmp_path / "1")
    for ring_bytes in (100, 4000, 50_001):
        program = tight(ring_bytes).format(in_child="pass", patience=60)
        command = [sys.executable, "-c", program, *asked, "--jobs", "3"]
        assert outcome(command, tmp_path / "3") == alone, ring_bytes


@pytest.mark.big
@pytest.mark.parametrize("ring_bytes", [1000, 50_001])
def test_a_reader_that_takes_its_time(many_capture, ring_bytes):
    program = tight(ring_bytes).format(in_child="pass", patience=60)
    command = [sys.executable, "-c", program, "read", many_capture, "-q"]
    alone = subprocess.run(command, capture_output=True, check=True).stdout
    process = subprocess.Popen([*command, "--jobs", "3"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    taken = b""
    while more := process.stdout.read1(100_000):
        taken += more
        time.sleep(0.01)
    process.stdout.close()
    assert process.wait() == 0
    assert taken == alone


@pytest.mark.big
def test_a_window_that_bytes_make_shorter(big_capture, tmp_path):
    """Lines go ahead where too much waits, and come late where others had to wait: at the same places."""
    program = SMALL.replace(
        "forks = 0", "forks = 0\nfrom kinspect.kafka.wire import lineorder; lineorder.WINDOW_BYTES = 8000"
    )
    captures = CAPTURES[::9]
    asked = [
        sys.executable,
        "-c",
        program.format(in_child="pass", patience=60),
        "read",
        *captures,
        *ALL_TYPES,
    ]
    alone = outcome(asked, tmp_path / "1")
    assert json.loads(alone.written.splitlines()[-1])["late_lines"] > 0
    for count in ("2", "3"):
        assert outcome([*asked, "--jobs", count], tmp_path / count) == alone


@pytest.mark.big
def test_names_told_on_a_connection_of_another_process(tmp_path):
    topic_id = "AAECAwQFBgcICQoLDA0ODw"
    told = {"error_code": 0, "name": "orders", "topic_id": topic_id, "is_internal": False, "partitions": []}
    answer = {"brokers": [], "cluster_id": None, "controller_id": 1, "topics": [told]}
    asked = {
        "replica_id": -1,
        "max_wait_ms": 1,
        "min_bytes": 1,
        "topics": [{"topic_id": topic_id, "partitions": []}],
    }
    talks = [Conversation(client=("10.0.0.1", 40000 + number)) for number in range(9)]
    for talk in talks:
        talk.open()
    time_us = max(talk.time_us for talk in talks)
    for number, talk in enumerate(talks):
        talk.time_us = time_us
        if number == 4:
            exchange(talk, number, 3, 12, {"topics": None}, answer)
        else:
            exchange(talk, number, 1, 13, asked, {"session_id": 0, "responses": []})
        time_us = talk.time_us
    path = tmp_path / "names.pcap"
    packets = [packet for talk in talks for packet in talk.packets]
    path.write_bytes(pcap(sorted(packets, key=lambda packet: packet.time_us)))
    alone = outcome(small("read", path, *ALL_TYPES), tmp_path / "1")
    topics = [json.loads(line).get("topics") for line in alone.written.splitlines()[:9]]
    assert topics == [[topic_id]] * 4 + [["orders"]] * 5
    assert json.loads(alone.written.splitlines()[-1])["unresolved_topic_ids"] == 1
    for count in ("2", "3", "8"):
        assert outcome(small("read", path, *ALL_TYPES, "--jobs", count), tmp_path / count) == alone


# ---------------------------------------------------------------------- how many


@pytest.mark.parametrize(
    ("asked", "options", "expected"),
    [
        (1, {}, 1),
        (3, {}, 3),
        (64, {}, 5),
        (3, {"limit": 5}, 1),
        (3, {"format": "table"}, 1),
        (3, {"format": "detail"}, 1),
        (3, {"format": "none"}, 3),
        (3, {"input": "-"}, 1),
        (3, {"input": "/dev/null"}, 1),
        (3, {"processors": 2}, 3),
        (0, {"processors": 2}, 2),
        (0, {"processors": 64}, 5),
        (None, {"processors": 64}, 1),
        (None, {"processors": 2, "large": 1000}, 2),
        (None, {"processors": 1, "large": 1000}, 1),
        (None, {"processors": 2, "large": 1000, "limit": 5}, 1),
        (3, {"fork": False}, 1),
    ],
)
def test_process_count(tmp_path, monkeypatch, asked, options, expected):
    path = tmp_path / "x"
    path.write_bytes(bytes(4 * jobs.CHUNK_BYTES))
    monkeypatch.setattr(jobs, "_processors", lambda: options["processors"])
    monkeypatch.setattr(jobs, "LARGE", options.get("large", jobs.LARGE))
    if not options.get("fork", True):
        monkeypatch.delattr(os, "fork")
    wanted = SimpleNamespace(
        stops_at=options.get("limit"), format=FORMATS[options.get("format", "jsonl")], sort=None, otlp=None
    )
    assert process_count(asked, wanted, open_timeline([options.get("input", str(path))])) == expected


def test_process_count_has_a_most(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(bytes(20 * jobs.CHUNK_BYTES))
    monkeypatch.setattr(jobs, "_processors", lambda: 64)
    wanted = SimpleNamespace(stops_at=None, format=FORMATS["jsonl"], sort=None, otlp=None)
    assert process_count(0, wanted, open_timeline([path])) == jobs.USEFUL


@pytest.mark.parametrize(
    "options",
    one_in(3, [["--limit", "7"], ["--format", "table", "--until", "+20ms"], ["--format", "detail"]]),
)
def test_one_process_where_lines_depend_on_each_other(big_capture, tmp_path, options):
    asked = ["read", big_capture, *options]
    alone = outcome(small(*asked), tmp_path / "1")
    assert outcome(small(*asked, "--jobs", "3"), tmp_path / "3") == alone
    result = subprocess.run(small(*asked, "--jobs", "3"), capture_output=True, check=True)
    assert b"forked" not in result.stderr


def test_standard_input_is_read_by_one_process(big_capture):
    command = small("read", "-", "--jobs", "3", "-q")
    result = subprocess.run(command, input=big_capture.read_bytes(), capture_output=True, check=True)
    assert len(result.stdout.splitlines()) == 2000
    assert result.stderr == b""


@pytest.mark.parametrize("arguments", [["read", "--jobs", "-1"], ["live", "-i", "lo", "--jobs", "2"]])
def test_usage(kinspect, capture, arguments):
    assert kinspect(*arguments, *([capture] if arguments[0] == "read" else [])).status == 2


@pytest.mark.big
def test_inputs_that_cannot_be_read(big_capture, tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(big_capture.read_bytes()[:-5])
    asked = ["read", "/nowhere/x.pcap", cut]
    alone = outcome(small(*asked), tmp_path / "1")
    assert alone.status == 3
    assert outcome(small(*asked, "--jobs", "3"), tmp_path / "3") == alone
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "no.pcap").write_bytes(b"\0" * 30_000)
    assert outcome(small("read", tmp_path / "no.pcap", "--jobs", "3"), precious).status == 1
    assert precious.read_text() == "precious"


# ---------------------------------------------------------------------- what happens to processes


def start(command, **options):
    """Begins a command whose output nobody reads yet; tells the process and those it forked, when its output is
    there: the reading then stands still, since a pipe holds less than there is."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **options
    )
    forked = [int(process.stderr.readline().split()[1]) for _ in range(int(command[-1]))]
    first = process.stdout.readline()
    assert json.loads(first)["correlation_id"] == 1
    return process, forked


def end(process):
    """Lets it go on to its end, and tells the numbers of the exchanges and what it said."""
    # To the end of the pipe: until the last process has closed it.
    lines = [json.loads(line) for line in process.stdout.readlines()]
    said = process.stderr.read().decode().splitlines()
    process.wait()
    process.stdout.close()
    process.stderr.close()
    return [line["correlation_id"] for line in lines], said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("receiver", ["all", "first"])
def test_a_signal_stops_all_at_the_same_place(many_capture, number, receiver):
    process, _ = start(small("read", many_capture, "--jobs", "3"))
    if receiver == "all":
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    numbers, said = end(process)
    assert process.returncode == 128 + number
    assert numbers == list(range(2, len(numbers) + 2))
    assert len(numbers) < 1900
    assert said[-1] == f"stopped by {'Ctrl-C' if number == signal.SIGINT else 'SIGTERM'}"
    # An exchange in flight where the reading stopped is among them.
    told = re.compile(rf"{len(numbers) + 1:,} exchanges(, 1 unanswered)?")
    assert any(map(told.fullmatch, said))


def has_taken_its_signals(process):
    """None is pending, and it waits again."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return "\nShdPnd:\t0000000000000000\n" in status and "\nState:\tS" in status


def test_a_second_ctrl_c_is_not_held_back(many_capture):
    process, _ = start(small("read", many_capture, "--jobs", "3"))
    os.killpg(process.pid, signal.SIGINT)
    # Two signals at once are one.
    wait_until(lambda: has_taken_its_signals(process))
    os.killpg(process.pid, signal.SIGINT)
    # The last line may be cut: this one asks for no order.
    out, err = process.communicate()
    assert process.returncode == 130
    assert len(out.splitlines()) < 1900
    assert err.endswith(b"stopped by Ctrl-C: --jobs had no time to end in order, the output is cut\n")


def test_a_sigterm_ends_it_though_nobody_takes_the_output(many_capture):
    process, _ = start(small("read", many_capture, "--jobs", "3", patience=0.1))
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    assert process.stderr.read().endswith(
        b"stopped by SIGTERM: --jobs had no time to end in order, the output is cut\n"
    )
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("place", [0, 1])
def test_a_process_that_is_killed(many_capture, place):
    process, forked = start(small("read", many_capture, "--jobs", "3"))
    os.kill(forked[place], signal.SIGKILL)
    numbers, said = end(process)
    assert process.returncode == 1
    assert numbers == list(range(2, len(numbers) + 2))
    how = "was ended by SIGKILL, as when memory runs out; the output is not complete"
    assert said == [f"kinspect: process {place + 1} of --jobs {how}"]


def test_none_is_left_when_the_first_is_killed(many_capture):
    process, _ = start(small("read", many_capture, "--jobs", "3"))
    process.kill()
    # What it was writing may be cut.
    process.stdout.read()
    _, said = end(process)
    assert said == []


@pytest.mark.parametrize("count", ["2", "3"])
def test_a_reader_that_leaves(many_capture, count):
    command = small("read", many_capture, "--jobs", count)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline()
    process.stdout.close()
    said = process.stderr.readlines()
    process.stderr.close()
    assert process.wait() == 0
    assert len(said) == int(count)


def test_a_full_disk_is_one_line(many_capture):
    command = small("read", many_capture, "-q", "-o", "/dev/full", "--jobs", "2")
    result = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    assert result.returncode == 1
    assert result.stderr.splitlines()[2:] == [b"kinspect: cannot write the output: No space left on device"]


@pytest.mark.parametrize(
    ("in_child", "said"),
    [
        ("readrun.ReadRun.feed = lambda *_: 1 / 0", "internal error: ZeroDivisionError('division by zero')"),
        (
            "readrun.ReadRun.feed = lambda *_: outfile.check_overwrite(outfile.__file__, False, ())",
            "exists; give --force to overwrite it",
        ),
    ],
)
def test_a_process_that_fails(many_capture, tmp_path, in_child, said):
    result = outcome(small("read", many_capture, "--jobs", "3", in_child=in_child), tmp_path / "out")
    assert result.status == 1
    assert len(result.said) == 1
    assert said in result.said[0]


@pytest.mark.parametrize("reads", [5, 380])
def test_captures_that_change(many_capture, tmp_path, reads):
    """A process that finds less in the captures than another one does."""
    cut = (
        "read_on = source.FileSource.read;"
        "last = forks == 2;"
        "source.FileSource.read = lambda self, size: "
        f"read_on(self, size) if self.position < {reads} * 1024 or not last else b''"
    )
    result = outcome(small("read", many_capture, "--jobs", "2", in_child=cut), tmp_path / "out")
    assert result.status == 1
    assert result.said == [f"kinspect: {CHANGED}"]
