"""Load on the loopback interface: nothing is dropped, and every exchange that was counted is told.

`docs/live.md` has the numbers that `-s` shows.
"""

import json
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from kinspect.capture import open_timeline

from .loopback import free_port

pytestmark = [pytest.mark.tools, pytest.mark.big, pytest.mark.usefixtures("root")]

LOAD = str(Path(__file__).with_name("load.py"))
SECONDS = 10
CONNECTIONS = 20
LARGE, SMALL = 16_000, 200
"""Bytes of records in a message."""


def loaded(live, tmp_path, rate, size, options=()):
    """Counts of the load generator, outcome and correlation id of the lines of its port, and the summary."""
    port, out = free_port(), tmp_path / "out.jsonl"
    chosen = ("--port", port, "--emit", "exchange,summary", "-o", out, *options)
    with live("-i", "lo", *chosen) as running:
        command = [sys.executable, LOAD, *map(str, (port, SECONDS, rate, size, CONNECTIONS))]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        _, err = running.end()
        assert running.process.returncode == 0
    counted = json.loads(done.stdout)
    told = []
    with out.open("rb") as file:
        for line in map(orjson.loads, file):
            told.append((line.get("outcome"), line.get("correlation_id")))
    told.pop()
    print(f"\n{rate or 'all'} of {size}: {counted}\n{err}")
    return counted, told, line


@pytest.mark.parametrize(
    ("rate", "size"),
    [(5000, SMALL), (20_000_000 / LARGE, LARGE)],
    ids=["5000-a-second", "20-MB-a-second"],
)
def test_nothing_is_dropped(live, tmp_path, rate, size):
    saved = tmp_path / "saved.pcapng"
    counted, told, summary = loaded(live, tmp_path, rate, size, ["-w", saved])
    # The generator may have to share its core with others: then it does not come up to the rate.
    assert counted["exchanges"] > rate
    assert (summary["kernel_drops"], summary["queue_drops"]) == (0, 0)
    assert {outcome for outcome, _ in told} == {"answered"}
    assert sorted(number for _, number in told) == list(range(counted["exchanges"]))
    assert sum(map(len, open_timeline([saved]))) == summary["packets"]


@pytest.mark.parametrize("size", [SMALL, LARGE])
def test_as_much_as_a_core_allows(live, tmp_path, size):
    # Saved, it would be tens of gigabytes.
    counted, told, summary = loaded(live, tmp_path, 0, size)
    found = {number for outcome, number in told if outcome == "answered"}
    assert found <= set(range(counted["exchanges"]))
    if len(found) < counted["exchanges"]:
        assert summary["kernel_drops"] + summary["queue_drops"] > 0
