"""What is made up here, a row of a table and its module, is found everywhere: nothing else names the rows."""

import os
import resource
import struct
import subprocess
import sys

import pytest
from support.captures import CAPTURES
from support.shares import one_in

from kinspect.cli.options import LINES_ALONE

# ---------------------------------------------------------------------- an output format

FORMAT = """
import struct, sys, types

from kinspect.formats import BYTES, FORMATS, OutputFormat
from kinspect.sink import EXCHANGE, WrittenLine, PieceSink


class Frames(PieceSink):
    lines = frozenset({EXCHANGE})

    def __init__(self, opening):
        self._out, self._count, self._waiting = opening.stream.buffer, 0, [b"FRAMES"]

    def piece(self, line):
        text = b"\\n" + (line.api or "").encode() + bytes([10, 0, 255])
        return WrittenLine(struct.pack(">I", len(text)) + text)

    def put(self, piece):
        self._count += 1
        self._waiting.append(piece.text)

    def flush(self):
        data, self._waiting = b"".join(self._waiting), []
        self._out.write(data)

    def finish(self):
        self._waiting.append(b"END!" + struct.pack(">I", self._count))
        self.flush()


sys.modules["frames"] = types.ModuleType("frames")
sys.modules["frames"].open_sink = Frames
FORMATS["frames"] = OutputFormat("frames", BYTES, "frames made up by a test")

import functools

from kinspect import jobs
from kinspect.cli import main, readcommand
from kinspect.jobs import worker

# Of a small capture many chunks.
worker.CHUNK_BYTES = jobs.CHUNK_BYTES = 4096
readcommand.open_timeline = functools.partial(readcommand.open_timeline, block_size=1024)
sys.exit(main())
"""
"""The command with a format of bytes: a head, a frame with its size for each exchange, and their number."""
CAPTURE = CAPTURES / "4.4.0" / "controller_single.pcap"
VALUES = {"body": "text", "max_line": "4300", "emit": "exchange", "fields": "api", "tables": "records"}
"""Values of options that take one."""


def framed(*arguments, **more):
    return subprocess.run(
        [sys.executable, "-c", FORMAT, *map(str, arguments)], capture_output=True, check=False, **more
    )


def apis(data):
    """The APIs in the frames of a whole file."""
    head, *frames, end = [data[:6], *_frames(data[6:-8]), data[-8:]]
    assert (head, end) == (b"FRAMES", b"END!" + struct.pack(">I", len(frames)))
    assert all(frame[0] == 10 and frame.endswith(b"\n\0\xff") for frame in frames)
    return [frame[1:-3].decode() for frame in frames]


def _frames(data):
    while data:
        (size,) = struct.unpack_from(">I", data)
        yield data[4 : 4 + size]
        data = data[4 + size :]


def lines_of(capture, *options):
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "kinspect",
            "read",
            capture,
            "-q",
            "--format",
            "jsonl",
            "--fields",
            "api",
            *options,
        ],
        capture_output=True,
        check=True,
        text=True,
    )
    return [line.split('"')[3] for line in found.stdout.splitlines()]


@pytest.mark.parametrize("command", ["read", "live"])
def test_a_format_is_in_the_help(command):
    text = " ".join(framed(command, "--help").stdout.decode().split())
    assert "|frames" in text.replace(" ", "")
    assert "frames: frames made up by a test" in text


@pytest.mark.parametrize("command", ["read", "live"])
def test_a_format_is_completed(command):
    asked = {"_KINSPECT_COMPLETE": "bash_complete", "COMP_WORDS": f"kinspect {command} --format fr"}
    assert framed(env={**os.environ, **asked, "COMP_CWORD": "3"}).stdout.split() == [b"plain,frames"]


@pytest.mark.parametrize(
    "options", [(), ("--limit", "3"), ("--sort", "latency", "--limit", "5"), ("--topic", "none")]
)
def test_a_format_of_bytes_is_whole(options):
    found = framed("read", CAPTURE, "--format", "frames", *options)
    assert found.returncode == 0, found.stderr
    assert apis(found.stdout) == lines_of(CAPTURE, *options)


def test_a_format_of_bytes_is_the_same_by_several_processes(tmp_path):
    path = tmp_path / "frames"
    options = ["read", CAPTURE, "--format", "frames", "-o", path, "--force"]
    written = []
    for jobs in ("1", "2"):
        assert framed(*options, "--jobs", jobs).returncode == 0
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert apis(written[0]) == lines_of(CAPTURE)


@pytest.mark.parametrize("option", one_in(4, [*LINES_ALONE, "append", "tables"]))
def test_a_format_of_bytes_has_no_options_of_lines(option, tmp_path):
    typed = [f"--{option.replace('_', '-')}", *filter(None, [VALUES.get(option)])]
    found = framed("read", CAPTURE, "--format", "frames", "-o", tmp_path / "new", *typed)
    assert found.returncode == 2
    assert f"Error: {typed[0]} is for --format " in found.stderr.decode()
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("room", [1, 7, 40])
def test_a_format_of_bytes_is_cut_nowhere(room, tmp_path):
    path = tmp_path / "frames"
    found = framed(
        "read",
        CAPTURE,
        "--format",
        "frames",
        "-o",
        path,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
    )
    assert found.returncode == 1
    assert b"File too large" in found.stderr
    assert path.stat().st_size == room
