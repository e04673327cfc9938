"""Every output format keeps the same contract: all of it arrives, secrets stay hidden, nothing is a command to a
terminal, and what goes wrong is one line."""

import io
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.hostile import dangerous, hostile

from kinspect.formats import FOLDER, FORMATS, open_sink
from kinspect.kafka.view.view import View
from kinspect.output import ECS, JSONL, NONE, Opening
from kinspect.protocol import schema

CAPTURES = Path(__file__).parents[2] / "captures"
PLAIN = CAPTURES / "4.4.0" / "sasl_plain.pcap.gz"
PRODUCED = CAPTURES / "4.4.0" / "nano.pcap"
KINSPECT = [sys.executable, "-m", "kinspect", "read"]

STREAMED = [name for name, each in FORMATS.items() if each.writes != FOLDER]
each_format = pytest.mark.parametrize("name", STREAMED)
each_shown = pytest.mark.parametrize("name", [name for name in STREAMED if name != NONE])


PLAINLY = ["--color", "never", "--utc"]


@pytest.fixture
def read(kinspect):
    """Runs `kinspect read` in this process."""
    return lambda name, *arguments: kinspect("read", "--format", name, *PLAINLY, *arguments)


HEADING = {
    "table": r" (APIS) v\d",
    "detail": r"(?m)^#\d+ (APIS) v\d",
    "jsonl": r'"api":"(APIS)"',
    "ecs": r'"action":"(APIS)"',
    "request-log": r'"requestApiKeyName":"(APIS)"',
    "csv": r",(APIS),\d+,",
}
"""A pattern for each format that finds the API of each exchange once, by Kafka's name or that of its enum."""
COMPLETED = ("answered", "no_response")


@each_shown
def test_every_exchange_is_there_in_order(read, name):
    assert name in HEADING, f"where does {name} show an exchange's API? A pattern in HEADING above"
    out = read(name, "-q", PRODUCED).out
    lines = [json.loads(line) for line in read(JSONL, "-q", PRODUCED).out.splitlines()]
    wanted = [
        line["api"] for line in lines if not FORMATS[name].omits_because or line["outcome"] in COMPLETED
    ]
    known = "|".join(sorted({text for api in wanted for text in (api, schema.api(api).enum)}))
    found = re.findall(HEADING[name].replace("APIS", known), out)
    assert [schema.api(api).name for api in found] == wanted


LATE = """
import io, sys
import kinspect
from kinspect.cli.preload import preload
from kinspect.kafka.view.view import View
from kinspect.formats import open_sink
from kinspect.output import Opening

name, capture = sys.argv[1:]
exchanges = list(kinspect.read(capture))
asked = {"explore": False, "records_only": False, "schema_registry": None, "metrics": None, "otlp": None}
preload({**asked, "format_name": name})
before = set(sys.modules)
stream = io.TextIOWrapper(io.BytesIO())
sink = open_sink(name, Opening(stream, View(records=True, payload="text")))
for exchange in exchanges:
    sink.take(exchange)
sink.flush()
print(*sorted(set(sys.modules) - before))
"""


@pytest.mark.big
@each_shown
def test_live_loads_its_modules_before_it_gives_up_its_rights(name):
    found = subprocess.run(
        [sys.executable, "-c", LATE, name, str(PRODUCED)], capture_output=True, check=False, text=True
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == [], "loaded too late: name them in PRELOADS of kinspect/cli/preload.py"


@each_shown
def test_lines_of_other_types_are_taken(name):
    stream = io.TextIOWrapper(io.BytesIO())
    sink = open_sink(name, Opening(stream, View()))
    sink.tell({"type": "gap", "bytes": 1, "direction": "client", "cause": "capture_loss"})
    sink.flush()
    stream.flush()
    assert stream.buffer.getvalue().count(b'"type":"gap"') == (name == JSONL)
    assert stream.buffer.getvalue().count(b'"kinspect.gap"') == (name == ECS)


@pytest.mark.big
@each_format
@pytest.mark.parametrize(
    "capture", [PLAIN, pytest.param(PRODUCED, marks=pytest.mark.big)], ids=lambda path: path.name
)
def test_the_same_again_with_two_processes_and_into_a_file(read, name, capture, tmp_path):
    path = tmp_path / "out"
    alone = read(name, capture)
    assert alone.status == 0
    assert read(name, capture).out == alone.out
    # Another process, which has other hashes too.
    two = subprocess.run(
        [*KINSPECT, "--format", name, *PLAINLY, "--jobs", "2", capture], capture_output=True, check=True
    )
    assert two.stdout.decode() == alone.out
    read(name, "-o", path, capture)
    assert path.read_bytes().decode() == alone.out
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@each_format
def test_nothing_is_a_command_to_a_terminal(read, name, tmp_path):
    path = tmp_path / "evil.pcap"
    path.write_bytes(hostile())
    found = read(name, path)
    assert dangerous(found.out + found.err) == set()


@each_format
def test_an_empty_capture_is_nothing_and_a_summary(read, name, tmp_path):
    path = tmp_path / "empty.pcap"
    path.write_bytes(PRODUCED.read_bytes()[:24])
    found = read(name, path)
    assert found.status == 0
    assert found.err.startswith("0 packets, 0 bytes in 1 file\n")
    assert len(found.out.splitlines()) <= 1


@each_shown
def test_a_full_disk_is_one_line(name):
    with open("/dev/full", "wb") as full:
        found = subprocess.run(
            [*KINSPECT, "--format", name, "-q", str(PRODUCED)],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert found.returncode == 1
    assert b"No space left on device" in found.stderr
    assert len(found.stderr.splitlines()) == 1


@each_shown
def test_who_reads_no_more_ends_it_in_silence(name):
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        found = subprocess.run(
            [*KINSPECT, "--format", name, "-q", str(PRODUCED)],
            stdout=write_end,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(write_end)
    assert b"Traceback" not in found.stderr
