"""Messages of `kinspect live` before it captures; no right is needed."""

import errno
import re
import sys
from types import SimpleNamespace

import pytest

from kinspect.capture import livecapture, ring
from kinspect.cli import main
from kinspect.cli.livecommand import FACTS
from kinspect.cli.options import LINES_ALONE
from kinspect.cli.rules import OptionValues


def test_without_an_interface_those_there_are_are_listed(capsys):
    assert main(["live"]) == 2
    assert re.search(
        r"choose an interface with -i: there are .*\blo\b.*, any; or a command with --from\n",
        capsys.readouterr().err,
    )


def test_no_such_interface(capsys):
    assert main(["live", "-i", "nothing0"]) == 1
    assert "nothing0: there is no such interface; there are: " in capsys.readouterr().err


def test_without_the_right_one_line_says_what_to_grant(monkeypatch, capsys, tmp_path):
    def refuse(interface):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(livecapture, "Ring", refuse)
    assert main(["live", "-i", "lo", "-o", str(tmp_path / "out"), "-w", str(tmp_path / "packets")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "use sudo, or " in line
    assert "sudo setcap cap_net_raw,cap_net_admin=eip /" in line
    assert "--cap-add=NET_RAW" in line
    assert not list(tmp_path.iterdir())


def test_hardware_without_a_link_type(monkeypatch, capsys):
    closed = []
    monkeypatch.setattr(
        livecapture,
        "Ring",
        lambda name: SimpleNamespace(hardware=805, link_type=-1, close=lambda: closed.append(name)),
    )
    assert main(["live", "-i", "lo"]) == 1
    assert "lo: packets of its kind (ARPHRD 805) cannot be read" in capsys.readouterr().err
    assert closed == ["lo"]


def test_elsewhere_than_on_linux(monkeypatch, capsys):
    monkeypatch.setattr(livecapture, "sys", SimpleNamespace(platform="freebsd", executable=sys.executable))
    assert main(["live", "-i", "em0"]) == 1
    assert "needs Linux: elsewhere, tcpdump -i em0 -w - | kinspect read -" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("number", "text"), [(errno.ENETDOWN, "is down"), (errno.ENOMEM, "smaller --buffer")]
)
def test_what_the_system_refuses_is_told(number, text):
    assert text in str(ring.interface_error("eth0", OSError(number, "x")))


@pytest.mark.parametrize(
    "options",
    [
        [],
        *(
            ["-i", "lo", *more]
            for more in (["--count", "0"], ["--duration", "soon"], ["--snaplen", "3"], ["--buffer", "2GiB"])
        ),
    ],
)
def test_usage_errors(options):
    assert main(["live", *options]) == 2


@pytest.fixture
def granted(monkeypatch):
    """As if there were the right to capture."""
    made = SimpleNamespace(interface="lo", link_type=1, close=lambda: None)
    monkeypatch.setattr("kinspect.cli.livecommand.open_rings", lambda names: [made])
    monkeypatch.setattr("kinspect.cli.livecommand.drop", lambda: None)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["-w", "-"], "needs a file of its own"),
        (["-w", "new", "-o", "new"], "needs a file of its own"),
        (["-w", "old", "-o", "./old", "--force"], "needs a file of its own"),
        (["-w", "old"], "old: exists; give --force"),
        (["-w", "old", "--force", "--keylog", "old"], "is one of the inputs"),
    ],
)
@pytest.mark.usefixtures("granted")
def test_save_options_that_are_refused(monkeypatch, tmp_path, capsys, options, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").write_bytes(b"something")
    assert main(["live", "-i", "lo", *options]) == 2
    assert text in capsys.readouterr().err
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"something"]


@pytest.mark.parametrize(
    ("options", "terminal", "term", "text"),
    [
        ([], False, "xterm", "draws on a terminal; there are others for files and pipes"),
        (["-o", "new"], True, "xterm", "draws on a terminal"),
        ([], True, "dumb", "TERM=dumb cannot be drawn on"),
    ],
)
@pytest.mark.usefixtures("granted")
def test_where_the_view_cannot_be_drawn(monkeypatch, tmp_path, capsys, options, terminal, term, text):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal)
    monkeypatch.setenv("TERM", term)
    assert main(["live", "-i", "lo", "--format", "view", *options]) == 2
    assert text in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (
            ["--answer", "groups,lag"],
            "there is no answer 'lag'; there are summary, topics, clients, groups, ",
        ),
        (["--answer", "groups,"], "there is no answer ''"),
        (
            ["--answer", "groups", "--format", "detail"],
            "is not for --answer, which has table, json, jsonl, csv",
        ),
    ],
)
@pytest.mark.usefixtures("granted")
def test_what_does_not_go_with_answers(monkeypatch, tmp_path, capsys, options, text):
    monkeypatch.chdir(tmp_path)
    assert main(["live", "-i", "lo", "-o", "new", *options]) == 2
    assert text in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("term", "options", "terminal", "name"),
    [
        ("xterm-256color", {}, True, "view"),
        ("xterm-256color", {}, False, "jsonl"),
        ("xterm-256color", {"emit": ("gap",)}, True, "jsonl"),
        ("xterm-256color", {"format_name": "table"}, True, "table"),
        ("dumb", {}, True, "table"),
        ("", {}, True, "table"),
        (None, {}, True, "table"),
    ],
)
def test_what_auto_means(monkeypatch, term, options, terminal, name):
    if term is None:
        monkeypatch.delenv("TERM", raising=False)
    else:
        monkeypatch.setenv("TERM", term)
    values = {"format_name": "auto", **LINES_ALONE, **options, "tty": terminal}
    assert OptionValues(values, FACTS)["format"] == name
