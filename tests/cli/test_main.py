"""Options and errors that all commands share."""

import re
import shlex

import pytest

from kinspect.cli import commands, group, main
from kinspect.cli.options import CAPS
from kinspect.errors import KinspectError
from kinspect.model import Caps


@pytest.mark.parametrize("name", commands())
def test_the_group_help_says_what_the_command_says_itself(name):
    command = group.get_command(None, name)
    assert command.name == name
    assert command.help.startswith(commands()[name] + "\n")


def test_help_lists_the_commands_there_are(kinspect):
    result = kinspect("--help")
    assert result.status == 0
    assert all(name in result.out for name in commands())


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


def test_filters_stand_under_a_heading_of_their_own(kinspect):
    commands = kinspect("read", "--help").out.split("\n\n")[-2:]
    assert [section.splitlines()[0] for section in commands] == ["Options:", "Filters:"]
    found = [re.findall(r"^  (?:-\w, )?(--[\w-]+)", section, re.MULTILINE) for section in commands]
    assert (found[0][0], found[0][-2:]) == ("--output", ["--help-limits", "--help"])
    assert "--api" in found[1]


@pytest.mark.parametrize(
    "command",
    [["read"], ["live"], ["records"], ["export"], ["explore"], ["pipeline", "run"], ["pipeline", "stream"]],
    ids=" ".join,
)
def test_limits_have_a_page_of_their_own(kinspect, command):
    limits = [f"--{name.replace('_', '-')}" for name in CAPS]
    shown = kinspect(*command, "--help").out
    assert not [limit for limit in limits if re.search(rf"{limit}\b(?!-)", shown)]
    page = kinspect(*command, "--help-limits")
    assert (page.status, page.err) == (0, "")
    assert re.findall(r"^  (--[\w-]+)", page.out, re.MULTILINE) == limits
    written = " ".join(page.out.split())
    for field, kind, text in CAPS.values():
        assert f"{text}. [default: {kind.written(getattr(Caps(), field))}]" in written


def test_a_limit_is_still_an_option_and_a_wrong_one_is_told(kinspect, capture):
    assert kinspect("read", "-q", "--max-in-flight", "1", capture).status == 0
    result = kinspect("read", "--max-in-flight", "0", capture)
    assert result.status == 2
    assert "'--max-in-flight'" in result.err


CAPTURE_NAMES = [
    *(
        "nosuch.pcap",
        "a b.pcapng.gz",
        "dump.cap",
        "x.PCAP",
        "day.pcap.3",
        "trace.erf.zst",
        "t.snoop",
        "x.pcap.lz4",
    ),
    *("./nosuch", "/nowhere/x", "captures/4.4.0/x"),
]


@pytest.mark.parametrize("name", CAPTURE_NAMES)
def test_what_looks_like_a_capture_is_summed_up(kinspect, name):
    result = kinspect(name, "--format", "table")
    assert (result.status, result.out) == (1, "")
    assert result.err.startswith(f"kinspect: {name}: ")


def test_a_file_is_summed_up_whatever_its_name(kinspect, capture, monkeypatch):
    monkeypatch.chdir(capture.parent)
    for name in ("made", "readd", "x\x1b[2J"):
        capture.rename(capture := capture.with_name(name))
        result = kinspect(name)
        assert result.status == 0
        assert result.out == kinspect("summary", name).out != ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help-limits"],
        ["--errors-only", "x.pcap"],
        ["--wide"],
        ["-q", "a b"],
        ["--api=Fetch", "x\x1b[2J"],
        ["-o-"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("before", [[], ["--debug"]], ids=" ".join)
def test_an_option_of_read_is_for_read(kinspect, before, arguments):
    result = kinspect(*before, *arguments)
    assert (result.status, result.out) == (2, "")
    written = shlex.join(arguments).replace("\x1b", "\\x1b")
    assert re.fullmatch(
        rf"kinspect: --?[\w-]+ stands behind a command: kinspect read {re.escape(written)}\n", result.err
    )


def test_an_option_before_its_command(kinspect):
    result = kinspect("--format", "json", "decode", "00")
    assert (result.status, result.out) == (2, "")
    assert result.err == "kinspect: --format stands behind a command: kinspect decode --format json 00\n"
    # click 8.2 has a colon before the option, later ones have quotation marks around it.
    assert re.search(r"Error: No such option:? '?--topic", kinspect("--topic", "x", "decode", "00").err)


@pytest.mark.parametrize("name", ["raed", "nothing", "--wider", "--duration", "-x", "."])
def test_what_is_no_file_is_no_command(kinspect, name):
    result = kinspect(name)
    assert result.status == 2
    assert "Error: No such" in result.err
