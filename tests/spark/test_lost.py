"""Shuffled packets that are lost, as with the executor that had them: captures are read again.

In a process of its own: a local session gives its one executor up for it, and cannot take it back. Heartbeats fail from
then on, and large results are lost.
"""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from lines import lines

pytestmark = pytest.mark.tools

CAPTURE = Path(__file__).parents[2] / "captures/2.8.2/console-zstd.pcap"
CHANGES = ("gone", "shorter")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What the runs told, by what became of the capture meanwhile."""
    script = Path(__file__).with_name("lost_job.py")
    done = subprocess.run(
        [sys.executable, script, CAPTURE, tmp_path_factory.mktemp("lost")],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    return orjson.loads(done.stdout)


def test_a_capture_that_is_read_again_as_it_was_changes_nothing(runs):
    assert runs["same"]["rows"] == {"exchanges": len(lines([CAPTURE]))}


@pytest.mark.parametrize("change", CHANGES)
def test_a_capture_that_changed_when_it_has_to_be_read_again_stops_the_job(runs, change):
    error = runs[change]["error"]
    assert "cap.pcap: had changed when Spark read it again" in error
    assert "run again" in error


@pytest.mark.parametrize("change", CHANGES)
def test_tables_stay_as_they_were_where_a_job_stops(runs, change):
    assert runs[change]["after"] == runs[change]["before"]
    assert runs[change]["before"]
