"""An OpenTelemetry Collector, built with Go and kept in build/."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from central import BUILD
from recipes.programs import program

BUILDER = "go.opentelemetry.io/collector/cmd/builder@v0.149.0"
FOLDER = BUILD / "collector"


def collector():
    """Path of the program; minutes the first time. Needs Go 1.25 or newer."""
    found = FOLDER / "collector"
    if not found.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        _run(program("go", "golang-go, 1.25 or newer"), "install", BUILDER)
        _run(FOLDER / "builder", "--config", Path(__file__).with_name("builder.yaml"))
    return found


def _run(*command):
    environment = {**os.environ, "GOBIN": str(FOLDER)}
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=FOLDER, env=environment)
    if done.returncode:
        pytest.fail(f"{command[0]}: {done.stdout}{done.stderr}")
