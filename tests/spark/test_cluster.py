"""A standalone cluster; one of its two workers is killed while the job decodes."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from cluster import Cluster
from lines import lines

from kinspect.kafka.view.view import View

pytestmark = pytest.mark.tools

PATHS = sorted((Path(__file__).parents[2] / "captures/4.4.0").glob("*.pcap*"))
PARTITIONS = 24


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.stop()


def test_a_worker_killed_in_the_middle_of_a_job_changes_nothing(cluster, tmp_path):
    errors = tmp_path / "job.log"
    with (tmp_path / "rows").open("wb") as rows, errors.open("wb") as log:
        job = subprocess.Popen(
            [
                sys.executable,
                Path(__file__).with_name("cluster_job.py"),
                cluster.url,
                str(PARTITIONS),
                *(path.name for path in PATHS),
            ],
            stdout=rows,
            stderr=log,
            # Workers have other working directories.
            cwd=PATHS[0].parent,
            env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        )
    while "DECODING" not in errors.read_text(errors="replace"):
        assert job.poll() is None, errors.read_text(errors="replace")
    cluster.kill(cluster.workers[0])
    assert job.wait() == 0, errors.read_text(errors="replace")
    assert "Lost executor" in errors.read_text(errors="replace")
    expected = [
        [line["api"], line["topics"], (line["response"] or {}).get("body")]
        for line in lines(PATHS, view=View())
    ]
    made = [orjson.loads(line) for line in (tmp_path / "rows").read_bytes().splitlines()]
    assert [[api, topics, body and orjson.loads(body)] for api, topics, body in made] == expected
