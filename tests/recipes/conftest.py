"""Lines of all captures, and the programs of docs/recipes that take them."""

from __future__ import annotations

import socket

import pytest
from recipes.programs import PACKAGES, RECIPES, running, unpacked
from support.captures import CAPTURES, FOLDERS, captures
from support.decoded import keylog_beside

from kinspect.cli import main


@pytest.fixture(scope="session")
def lines_of(tmp_path_factory):
    """The lines of every capture, read one by one with the given options, in one file."""
    made = {}

    def lines(*options):
        if options not in made:
            made[options] = tmp_path_factory.mktemp("lines") / "kafka.jsonl"
            with open(made[options], "ab") as out:
                for capture in (capture for folder in FOLDERS for capture in captures(folder)):
                    out.write(_lines_of(capture, options, made[options].with_suffix(".part")))
            assert made[options].read_bytes().count(b"\n") > 10_000
        return made[options]

    return lines


@pytest.fixture
def lines_of_page(tmp_path):
    """The lines that the pages' answers are from, with the given options."""

    def lines(*options):
        path = tmp_path / "page.jsonl"
        paths = [str(capture) for capture in captures(CAPTURES / "2.8.2")]
        assert main(["read", *paths, "-q", "-o", str(path), *options]) == 0
        return path

    return lines


def _lines_of(capture, options, part):
    part.unlink(missing_ok=True)
    keylog = keylog_beside(capture)
    secrets = ["--keylog", str(keylog)] if keylog.exists() else []
    main(["read", str(capture), "-q", "-o", str(part), *secrets, *options])
    return part.read_bytes() if part.exists() else b""


@pytest.fixture
def port():
    """A port of loopback that nobody listens on."""
    with socket.socket() as any_socket:
        any_socket.bind(("127.0.0.1", 0))
        return any_socket.getsockname()[1]


@pytest.fixture(scope="session")
def recipe():
    """Text of a file of docs/recipes, with what a user changes in it changed."""

    def text(name, changes):
        changed = (RECIPES / name).read_text("utf-8")
        for before, after in changes.items():
            assert before in changed, f"{name} does not say {before}"
            changed = changed.replace(before, str(after))
        return changed

    return text


@pytest.fixture
def rsyslogd(tmp_path):
    """Starts rsyslogd with a configuration, in a folder of its own."""
    daemon, environment = unpacked("rsyslogd")
    environment["RSYSLOG_MODDIR"] = str(next(PACKAGES.glob("**/rsyslog/imfile.so")).parent)

    def start(name, text):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "rsyslog.conf").write_text(f'global(workDirectory="{folder}")\n{text}')
        command = [daemon, "-n", "-i", f"{folder}/pid", "-f", f"{folder}/rsyslog.conf"]
        return running(command, folder / "printed", env=environment)

    return start
