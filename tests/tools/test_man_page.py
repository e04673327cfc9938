"""kinspect(1) as groff and man show it; `tests/docs` holds it against the commands it is made of."""

import os
import re
import subprocess

import pytest
from command_line import commands, limits, options
from console_blocks import ROOT

PAGE = ROOT / "docs" / "man" / "kinspect.1"
pytestmark = pytest.mark.tools


def shown(width):
    """The page's words as a terminal of a width shows them."""
    environment = {**os.environ, "MANWIDTH": str(width), "MANROFFOPT": "", "LC_ALL": "C.UTF-8"}
    result = subprocess.run(
        ["man", "--no-hyphenation", "--no-justification", "--local-file", PAGE],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    assert result.stderr == ""
    return re.sub(r"\s+", " ", re.sub(r".\x08", "", result.stdout))


def test_groff_has_nothing_to_warn_of():
    result = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", PAGE], capture_output=True, text=True, check=True
    )
    assert result.stderr == ""


def test_it_has_every_command_and_every_option_with_its_text():
    page = shown(200)
    for name, command in commands():
        part = page[page.index(f" {name} [OPTIONS]") :]
        for typed, _ in options(command):
            assert f" {typed} " in part, (name, typed)
    for typed, text in limits():
        assert f" {typed} {text} " in page


def test_it_is_read_in_narrow_terminals():
    assert "EXIT STATUS" in shown(60)


def test_man_finds_it_by_name():
    result = subprocess.run(["lexgrog", PAGE], capture_output=True, text=True, check=True)
    assert result.stdout.strip().endswith('"kinspect - decode captured Apache Kafka traffic"')
