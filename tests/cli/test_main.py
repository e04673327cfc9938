"""What all commands share."""

import re

import pytest

from kinspect.cli import COMMANDS, group, main
from kinspect.cli.options import CAPS
from kinspect.errors import KinspectError


@pytest.mark.parametrize("name", COMMANDS)
def test_the_group_help_says_what_the_command_says_itself(name):
    command = group.get_command(None, name)
    assert command.name == name
    assert command.help.startswith(COMMANDS[name] + "\n")


def test_help_lists_the_commands_there_are(kinspect):
    result = kinspect("--help")
    assert result.status == 0
    assert all(name in result.out for name in COMMANDS)


@pytest.mark.parametrize("arguments", [["nothing"], ["--nothing"], ["read"], ["read", "--nothing", "x"]])
def test_usage_errors(kinspect, arguments):
    result = kinspect(*arguments)
    assert result.status == 2
    assert result.out == ""
    assert "Error: " in result.err


def test_a_misspelt_command_gets_a_suggestion(kinspect):
    assert "No such command 'raed'. Did you mean read?" in kinspect("raed").err
    assert "Did you mean" not in kinspect("xyzzy").err


def test_an_unforeseen_error_is_one_line_without_debug(kinspect, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(group, "invoke", fail)
    plain = kinspect("schema")
    assert plain.status == 1
    assert (
        plain.err == "kinspect: internal error: ZeroDivisionError('oh'); `kinspect --debug ...` says where\n"
    )
    assert "Traceback" in kinspect("--debug", "schema").err


def test_an_error_for_the_user_is_one_line(kinspect, monkeypatch):
    def fail(*_):
        raise KinspectError("cannot")

    monkeypatch.setattr(group, "invoke", fail)
    assert kinspect("schema").err == "kinspect: cannot\n"


def test_ctrl_c(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(group, "invoke", interrupt)
    assert main(["schema"]) == 130


def test_a_full_disk_is_one_line(process):
    with open("/dev/full", "wb") as full:
        result = process("schema", stdout=full)
    assert result.returncode == 1
    assert result.stderr == b"kinspect: cannot write the output: No space left on device\n"


def test_limits_and_filters_stand_under_headings_of_their_own(kinspect):
    sections = kinspect("read", "--help").out.split("\n\n")[-3:]
    assert [section.splitlines()[0] for section in sections] == ["Options:", "Filters:", "Limits:"]
    found = [re.findall(r"^  (?:-\w, )?(--[\w-]+)", section, re.MULTILINE) for section in sections]
    assert (found[0][0], found[0][-1]) == ("--output", "--help")
    assert "--api" in found[1]
    assert found[2] == [f"--{name.replace('_', '-')}" for name in CAPS]
