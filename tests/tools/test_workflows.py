"""The files in .github, checked by the schemas that there are for them; no workflow runs here."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from console_blocks import ROOT

pytestmark = pytest.mark.tools

FILES = ROOT / ".github"
KINDS = {
    "workflows/*.yml": "vendor.github-workflows",
    "ISSUE_TEMPLATE/[!c]*.yml": "vendor.github-issue-forms",
    "ISSUE_TEMPLATE/config.yml": "vendor.github-issue-config",
}


def program(name):
    path = Path(sys.executable).with_name(name)
    if not path.exists():
        pytest.fail(f"needs the program {name} (pip install '.[package]')")
    return path


def checked(schema, *files):
    command = [program("check-jsonschema"), "--builtin-schema", schema, *files]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("pattern", KINDS)
def test_they_have_the_form_that_is_asked_for(pattern):
    done = checked(KINDS[pattern], *FILES.glob(pattern))
    assert done.returncode == 0, done.stdout


def test_a_mistake_would_be_found(tmp_path):
    wrong = tmp_path / "wheels.yml"
    wrong.write_text((FILES / "workflows" / "wheels.yml").read_text("utf-8").replace("runs-on", "runs-in"))
    assert checked("vendor.github-workflows", wrong).returncode != 0


def test_what_workflows_run_is_there():
    texts = [path.read_text("utf-8") for path in FILES.glob("workflows/*.yml")]
    targets = {
        name for text in texts for call in re.findall(r"run: make (.+)", text) for name in call.split()
    }
    assert targets > {"test"}
    subprocess.run(["make", "--dry-run", *targets], cwd=ROOT, capture_output=True, check=True)


def test_wheels_are_made_for_every_python_that_is_supported():
    command = [
        program("cibuildwheel"),
        "--platform",
        "linux",
        "--archs",
        "x86_64",
        "--print-build-identifiers",
    ]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = int(project["requires-python"].removeprefix(">=3."))
    matrix = re.findall(r"3\.(\d+)", (FILES / "workflows" / "test.yml").read_text("utf-8"))
    pythons = {oldest, *map(int, matrix)}
    assert pythons == {*range(oldest, max(pythons) + 1)}
    assert set(told.split()) == {f"cp3{minor}-manylinux_x86_64" for minor in pythons}
