"""The files in docs/service, checked by the programs that others check theirs with; no service runs here."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kinspect.cli import group

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parents[2]
FILES = ROOT / "docs" / "service"
UNIT = (FILES / "kinspect.service").read_text()
EXPOSURE = 21
"""Tenths: what `systemd-analyze security` gives the unit; of 100, which is a service without any protection."""


def program(name, where):
    """The path of a program beside Python, or of the system."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.fail(f"needs the program {name} ({where})")
    return found


def checked(*command):
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def unit(tmp_path):
    """The unit, of a program that is there."""
    path = tmp_path / "kinspect.service"
    path.write_text(UNIT.replace("/opt/kinspect/bin/kinspect", "/bin/true"))
    return path


def test_systemd_understands_the_unit(unit):
    systemd = program("systemd-analyze", "package systemd")
    assert checked(systemd, "verify", "--man=no", unit) == ""


def test_a_mistake_in_the_unit_would_be_found(unit):
    systemd = program("systemd-analyze", "package systemd")
    unit.write_text(unit.read_text().replace("ProtectHome=yes", "ProtectHome=perhaps"))
    done = subprocess.run([systemd, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert "protect home" in done.stderr


def test_the_unit_is_hardened(unit):
    systemd = program("systemd-analyze", "package systemd")
    told = checked(systemd, "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager", unit)
    assert "Overall exposure level" in told
    less = UNIT.replace("CapabilityBoundingSet=CAP_NET_RAW\n", "")
    unit.write_text(less.replace("/opt/kinspect/bin/kinspect", "/bin/true"))
    command = [systemd, "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager", unit]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_the_containerfile():
    hadolint = program("hadolint", "pip install '.[service-test]'")
    checked(hadolint, "--failure-threshold", "info", FILES / "Containerfile")


def test_the_daemonset():
    yamllint = program("yamllint", "pip install '.[service-test]'")
    validate = program("kubernetes-validate", "pip install '.[service-test]'")
    checked(yamllint, "--strict", FILES / "daemonset.yaml")
    assert "passed" in checked(validate, "--strict", FILES / "daemonset.yaml")


def test_a_mistake_in_the_daemonset_would_be_found(tmp_path):
    validate = program("kubernetes-validate", "pip install '.[service-test]'")
    wrong = tmp_path / "daemonset.yaml"
    wrong.write_text((FILES / "daemonset.yaml").read_text().replace("runAsNonRoot", "runAsNobody"))
    assert subprocess.run([validate, "--strict", wrong], capture_output=True, check=False).returncode != 0


def arguments_of_the_unit():
    (command,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)$", UNIT, re.MULTILINE)
    return shlex.split(command.replace("\\\n", " ").replace(" $OPTIONS", ""))[1:]


def arguments_of_the_daemonset():
    block = (FILES / "daemonset.yaml").read_text().split("args:\n")[1]
    return re.findall(r"^ {12}- (--?.+|live)$", block.split("securityContext")[0], re.MULTILINE)


def arguments_of_the_container():
    (command,) = re.findall(r"^CMD \[(.*)\]$", (FILES / "Containerfile").read_text(), re.MULTILINE)
    return re.findall(r'"([^"]*)"', command)


@pytest.mark.parametrize(
    "arguments", [arguments_of_the_unit, arguments_of_the_daemonset, arguments_of_the_container]
)
def test_the_options_are_those_of_the_command(arguments):
    name, *given = arguments()
    assert name == "live"
    assert len(given) > 3
    command = group.get_command(click.Context(group), name)
    command.make_context(name, given)
