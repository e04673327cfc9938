"""A capture of an interface while a test runs: `kinspect live --save` in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from kinspect.errors import KinspectError

BEGUN: Final = b"capturing on"
END_SECONDS: Final = 60
"""Time in which it must have written what it captured."""


class LiveWire:
    """Captures into a file until it is told to end. Raises KinspectError where it may not, or cannot."""

    def __init__(self, path: Path, interface: str, packet_filter: str | None) -> None:
        self.path = path
        command = [sys.executable, "-m", "kinspect", "live", "--iface", interface, "--save", str(path)]
        command += ["--format", "none"] + (["--bpf", packet_filter] if packet_filter else [])
        self._process: subprocess.Popen[bytes] | None = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert self._process.stderr is not None
        first = self._process.stderr.readline()
        if BEGUN not in first:
            self._process.kill()
            told = first + self._process.communicate()[1]
            self._process = None
            raise KinspectError(told.decode(errors="replace").strip().removeprefix("kinspect: "))

    def end(self) -> None:
        """Let the file have all that was captured by now. Raises KinspectError if the capture had ended, or failed."""
        process, self._process = self._process, None
        if process is None:
            return
        ended_before = process.poll() is not None
        process.send_signal(signal.SIGINT)
        try:
            _, told = process.communicate(timeout=END_SECONDS)
        finally:
            with suppress(ProcessLookupError):
                process.kill()
        if ended_before or process.returncode not in (0, 128 + signal.SIGINT):
            said = told.decode(errors="replace").strip().replace("\n", "; ")
            raise KinspectError(f"{self.path}: the capture ended before the test did: {said}")
