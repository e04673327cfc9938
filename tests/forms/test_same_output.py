"""The compiled form prints what the interpreted one does, byte by byte, of every capture."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("outputs.py")


def start(**environment):
    command = [sys.executable, str(SCRIPT), str(ROOT / "captures")]
    # Times of the machine's zone are in tables.
    environment = os.environ | {"TZ": "UTC", "COLUMNS": "160"} | environment
    return subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)


def test_both_forms_print_the_same():
    both = start(), start(PYTHONPATH=str(ROOT))
    compiled, interpreted = (json.loads(process.communicate()[0]) for process in both)
    assert (compiled["compiled"], interpreted["compiled"]) == (True, False)
    assert len(compiled["outputs"]) > 400
    different = [
        name for name, digest in interpreted["outputs"].items() if compiled["outputs"][name] != digest
    ]
    assert different == []
    assert compiled["outputs"].keys() == interpreted["outputs"].keys()
