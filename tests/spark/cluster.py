"""A real cluster on the loopback interface: a master and workers started from the PySpark installation."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path


class Cluster:
    """A master and its workers; each worker is a process group, so that killing it takes its executors along."""

    def __init__(self, folder, workers=2):
        self._folder = folder
        self._environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "PYSPARK_PYTHON": sys.executable,
        }
        self._processes = []
        self.workers = []
        port = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        _, self.url = self._start("master.Master", port, r"Starting Spark master at (spark://\S+)")
        for _ in range(workers):
            options = ["--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", self.url]
            process, _ = self._start("worker.Worker", options, r"(Successfully registered) with master")
            self.workers.append(process)

    def _start(self, name, options, ready):
        home = Path(find_spec("pyspark").origin).parent
        log = self._folder / f"{name}-{len(self._processes)}.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                [home / "bin/spark-class", f"org.apache.spark.deploy.{name}", *options],
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**self._environment, "SPARK_HOME": str(home)},
                start_new_session=True,
            )
        self._processes.append(process)
        while (found := re.search(ready, log.read_text(errors="replace"))) is None:
            if process.poll() is not None:
                raise RuntimeError(f"{name} did not start:\n{log.read_text(errors='replace')}")
            time.sleep(0.1)
        return process, found[1]

    def kill(self, process):
        """Ends a process and all it started, at once."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self):
        for process in self._processes:
            if process.poll() is None:
                self.kill(process)
