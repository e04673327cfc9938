"""`read --jobs`: what several processes print is what one prints, whatever happens to them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kinspect.capture import open_timeline
from kinspect.cli import jobs

CAPTURES = sorted(str(path) for path in Path("captures").rglob("*.pcap*"))
NEWEST = [path for path in CAPTURES if "/4.4.0/" in path]
KEYLOG = "captures/tls/go.keys.log"

SMALL = """
import functools, os, sys
from kinspect import cli
from kinspect.capture import source
from kinspect.cli import jobs, outfile, read, run

# Of a small capture many chunks of several blocks.
jobs.CHUNK_BYTES = 4096
read.open_timeline = functools.partial(read.open_timeline, block_size=1024)

fork = os.fork

def told():
    pid = fork()
    if pid:
        print("forked", pid, file=sys.stderr, flush=True)
    else:
        {in_child}
    return pid

os.fork = told
sys.exit(cli.main())
"""
"""The command with small chunks; it tells the processes it forks."""


def small(*arguments, in_child="pass"):
    """The command line of `SMALL`; `in_child` is done first in each forked process."""
    return [sys.executable, "-c", SMALL.format(in_child=in_child), *map(str, arguments)]


def outcome(command, output):
    """What a command left: its status, what it wrote to the file `output` and what it said."""
    command = [*command, "-o", output, "--force"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    said = [line for line in result.stderr.splitlines() if not line.startswith("forked")]
    return SimpleNamespace(status=result.returncode, written=output.read_bytes(), said=said)


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
    ("captures", "options"),
    [
        (CAPTURES, [*ALL_TYPES, *WITH_PAYLOAD, "--keylog", KEYLOG]),
        (NEWEST, [*ALL_TYPES, *WITH_PAYLOAD, *TIGHT]),
        (NEWEST, [*ALL_TYPES, "--topic", "pc-*", "--min-latency", "1", "--since", "+10s"]),
        (NEWEST, ["--fields", "api_key,correlation_id,request.frames"]),
        (NEWEST[:12], ["--errors-only", "--format", "detail", "--color", "always"]),
        (NEWEST, ["--format", "none"]),
    ],
    ids=["all", "caps", "filters", "fields", "detail", "none"],
)
def test_several_processes_print_what_one_prints(command, tmp_path, captures, options):
    asked = [*command, "read", *captures, *options]
    alone = outcome(asked, tmp_path / "1")
    assert alone.status in (0, 3)
    assert any("exchanges" in line for line in alone.said)
    if options[-1] != "none":
        assert len(alone.written) > 50_000
    for count in ("2", "3") if captures is CAPTURES else ("3",):
        assert outcome([*asked, "--jobs", count], tmp_path / count) == alone


@pytest.mark.parametrize("count", ["2", "5"])
def test_small_chunks(big_capture, tmp_path, count):
    asked = ["read", big_capture, *ALL_TYPES]
    alone = outcome(small(*asked), tmp_path / "1")
    assert len(alone.written.splitlines()) == 2002
    assert outcome(small(*asked, "--jobs", count), tmp_path / count) == alone


def test_a_process_that_begins_late(big_capture, tmp_path):
    """What the first one has written by then is still there."""
    asked = ["read", big_capture]
    late = small(*asked, "--jobs", "3", in_child="import time; time.sleep(0.5)")
    assert outcome(late, tmp_path / "3") == outcome(small(*asked), tmp_path / "1")


def test_output_beyond_what_is_held(big_capture, tmp_path):
    """A block with more output than a process may hold: it waits for its turn in the middle of it."""
    asked = ["read", big_capture, *ALL_TYPES]
    program = SMALL.replace("1024", "65536").replace("= 4096", "= 65536; jobs.HELD_BYTES = 10_000")
    command = [sys.executable, "-c", program.format(in_child="pass"), *map(str, asked)]
    assert outcome([*command, "--jobs", "3"], tmp_path / "3") == outcome(command, tmp_path / "1")


# ---------------------------------------------------------------------- how many


@pytest.mark.parametrize(
    ("asked", "options", "expected"),
    [
        (1, {}, 1),
        (3, {}, 3),
        (64, {}, 5),
        (3, {"limit": 5}, 1),
        (3, {"format": "table"}, 1),
        (3, {"format": "detail"}, 3),
        (3, {"input": "-"}, 1),
        (3, {"input": "/dev/null"}, 1),
        (3, {"processors": 2}, 3),
        (0, {"processors": 2}, 2),
        (0, {"processors": 64}, 5),
        (3, {"fork": False}, 1),
    ],
)
def test_how_many(tmp_path, monkeypatch, asked, options, expected):
    path = tmp_path / "x"
    path.write_bytes(bytes(4 * jobs.CHUNK_BYTES))
    monkeypatch.setattr(jobs, "_processors", lambda: options["processors"])
    if not options.get("fork", True):
        monkeypatch.delattr(os, "fork")
    wanted = SimpleNamespace(
        values={"limit": options.get("limit")}, format_name=options.get("format", "jsonl")
    )
    assert jobs.processes(asked, wanted, open_timeline([options.get("input", str(path))])) == expected


def test_no_more_than_are_useful(tmp_path, monkeypatch):
    path = tmp_path / "x"
    path.write_bytes(bytes(20 * jobs.CHUNK_BYTES))
    monkeypatch.setattr(jobs, "_processors", lambda: 64)
    wanted = SimpleNamespace(values={"limit": None}, format_name="jsonl")
    assert jobs.processes(0, wanted, open_timeline([path])) == jobs.USEFUL


@pytest.mark.parametrize("options", [["--limit", "7"], ["--format", "table", "--until", "+20ms"]])
def test_one_process_where_lines_depend_on_each_other(big_capture, tmp_path, options):
    asked = ["read", big_capture, *options]
    alone = outcome(small(*asked), tmp_path / "1")
    assert outcome(small(*asked, "--jobs", "3"), tmp_path / "3") == alone
    result = subprocess.run(small(*asked, "--jobs", "3"), capture_output=True, timeout=60, check=True)
    assert b"forked" not in result.stderr


def test_standard_input_is_read_by_one_process(big_capture):
    command = small("read", "-", "--jobs", "3", "-q")
    result = subprocess.run(
        command, input=big_capture.read_bytes(), capture_output=True, timeout=60, check=True
    )
    assert len(result.stdout.splitlines()) == 2000
    assert result.stderr == b""


@pytest.mark.parametrize("arguments", [["read", "--jobs", "-1"], ["live", "-i", "lo", "--jobs", "2"]])
def test_usage(kinspect, capture, arguments):
    assert kinspect(*arguments, *([capture] if arguments[0] == "read" else [])).status == 2


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
    forked = [int(process.stderr.readline().split()[1]) for _ in range(int(command[-1]) - 1)]
    first = process.stdout.readline()
    assert json.loads(first)["correlation_id"] == 1
    return process, forked


def end(process):
    """Lets it go on to its end, and tells the numbers of the exchanges and what it said."""
    # To the end of the pipe: until the last process has closed it.
    lines = [json.loads(line) for line in process.stdout.readlines()]
    said = process.stderr.read().decode().splitlines()
    process.wait(60)
    process.stdout.close()
    process.stderr.close()
    return [line["correlation_id"] for line in lines], said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("receiver", ["all", "first", "forked"])
def test_a_signal_stops_all_at_the_same_place(big_capture, number, receiver):
    process, forked = start(small("read", big_capture, "--jobs", "3"))
    if receiver == "all":
        os.killpg(process.pid, number)
    else:
        os.kill(process.pid if receiver == "first" else forked[0], number)
    numbers, said = end(process)
    assert process.returncode == 128 + number
    assert numbers == list(range(2, len(numbers) + 2))
    assert len(numbers) < 1900
    assert said[-1] == f"stopped by {'Ctrl-C' if number == signal.SIGINT else 'SIGTERM'}"
    # An exchange in flight where the reading stopped is among them.
    assert any(f"{len(numbers) + 1:,} exchanges, {len(numbers) + 1:,} shown" in line for line in said)


def test_a_second_ctrl_c_is_not_held_back(big_capture):
    process, _ = start(small("read", big_capture, "--jobs", "3"))
    for _ in range(2):
        os.killpg(process.pid, signal.SIGINT)
        # Two signals at once are one.
        signal.sigtimedwait([], 0.3)
    numbers, said = end(process)
    assert process.returncode == 130
    assert len(numbers) < 1900
    assert said == []


@pytest.mark.parametrize("place", [0, 1])
def test_a_process_that_is_killed(big_capture, place):
    process, forked = start(small("read", big_capture, "--jobs", "3"))
    os.kill(forked[place], signal.SIGKILL)
    numbers, said = end(process)
    assert process.returncode == 1
    assert numbers == list(range(2, len(numbers) + 2))
    assert said == ["kinspect: a process of --jobs was ended by SIGKILL; the output is not complete"]


def test_none_is_left_when_the_first_is_killed(big_capture):
    process, _ = start(small("read", big_capture, "--jobs", "3"))
    process.kill()
    _, said = end(process)
    assert said == []


@pytest.mark.parametrize("count", ["2", "3"])
@pytest.mark.parametrize("format_name", ["jsonl", "detail"])
def test_a_reader_that_leaves(big_capture, count, format_name):
    command = small("read", big_capture, "--format", format_name, "--jobs", count)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline()
    process.stdout.close()
    said = process.stderr.readlines()
    process.stderr.close()
    assert process.wait(60) == 0
    assert len(said) == int(count) - 1


def test_a_full_disk_is_one_line(big_capture):
    command = small("read", big_capture, "-q", "-o", "/dev/full", "--jobs", "2")
    result = subprocess.run(command, stderr=subprocess.PIPE, timeout=60, check=False)
    assert result.returncode == 1
    assert result.stderr.splitlines()[1:] == [b"kinspect: cannot write the output: No space left on device"]


@pytest.mark.parametrize(
    ("in_child", "said"),
    [
        ("run.Run.take = lambda *_: 1 / 0", "internal error: ZeroDivisionError('division by zero')"),
        (
            "run.Run.take = lambda *_: next(_ for _ in [1] if outfile.check(sys.executable, 0, ()))",
            "exists; give --force to overwrite it",
        ),
    ],
)
def test_a_process_that_fails(big_capture, tmp_path, in_child, said):
    result = outcome(small("read", big_capture, "--jobs", "3", in_child=in_child), tmp_path / "out")
    assert result.status == 1
    assert len(result.said) == 1
    assert said in result.said[0]


@pytest.mark.parametrize("reads", [5, 390])
def test_captures_that_change(big_capture, tmp_path, reads):
    """A process that finds less in the captures than the first one does."""
    cut = (
        "read_on = source.FileSource.read;"
        "source.FileSource.read = lambda self, size: "
        f"read_on(self, size) if self.position < {reads} * 1024 else b''"
    )
    result = outcome(small("read", big_capture, "--jobs", "2", in_child=cut), tmp_path / "out")
    assert result.status == 1
    assert result.said == [f"kinspect: {jobs.CHANGED}"]
