"""User and rights of `kinspect live` while it captures, and its message without the right to."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kinspect.answers import answers

from .loopback import free_port, talk
from .processes import worker_of

pytestmark = [pytest.mark.tools, pytest.mark.usefixtures("root")]

PACKAGE = Path(__file__).parents[2] / "kinspect"
NOBODY = 65534


def somebody(*rights):
    """Command that runs a program as another user with these rights, and with that to read Python anywhere."""
    granted = ",".join(f"+{right}" for right in ("dac_read_search", *rights))
    user = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    return ("setpriv", *user, f"--inh-caps={granted}", f"--ambient-caps={granted}")


LOADED = """
import sys
from kinspect.cli import livecommand, main
from kinspect.cli.preload import preload
preload(livecommand.live.make_context("live", ["-i", "lo"]).params)
sys.exit(main())
"""
"""The command, for one who cannot read where Python lies once the rights are given up."""

AS_IF_BY_SUDO = {**os.environ, "SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY)}


@pytest.fixture
def folder():
    """One in which nobody may write; pytest's own are for their owner alone."""
    with tempfile.TemporaryDirectory() as name:
        os.chown(name, NOBODY, NOBODY)
        yield Path(name)


@pytest.fixture(autouse=True)
def _setpriv():
    if shutil.which("setpriv") is None:
        pytest.fail("needs the program setpriv (package util-linux)")


@pytest.mark.parametrize(
    "options",
    [
        ("--format", "table"),
        ("--format", "detail", "--records", "--payload", "text"),
        ("--bpf", "tcp", "--fields", "api"),
        ("--answer", ",".join(answers()), "--format", "table"),
    ],
)
def test_what_is_loaded_late_is_there(live, options):
    port = free_port()
    with live("-i", "lo", "--port", port, *options, env=AS_IF_BY_SUDO) as running:
        talk(port, 3)
        out, err = running.end()
        assert running.process.returncode == 0
    assert "Metadata" in out
    assert "Error" not in err


def test_an_installation_that_the_user_cannot_read_is_refused(live, tmp_path):
    # pytest's folders are for root alone.
    shutil.copytree(PACKAGE, tmp_path / "kinspect", ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**AS_IF_BY_SUDO, "PYTHONPATH": str(tmp_path)}
    with live("-i", "lo", env=environment, cwd=tmp_path) as running:
        running.end(0)
        assert running.process.returncode == 1
    assert running.started.startswith("kinspect: cannot drop privileges: the user behind sudo cannot read ")


def status(pid):
    rows = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    return {key: value.split() for key, value in (row.split(":", 1) for row in rows)}


def rights(now):
    return {int(now[key][0], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")}


def test_the_user_behind_sudo_is_all_that_is_left(live, folder):
    port = free_port()
    options = (
        "--port",
        port,
        "-o",
        folder / "out.jsonl",
        "-w",
        folder / "saved.pcapng",
        "--rotate-count",
        30,
    )
    with live("-i", "lo", *options, env=AS_IF_BY_SUDO) as running:
        for pid in (running.process.pid, worker_of(running)):
            now = status(pid)
            assert now["Uid"] == now["Gid"] == [str(NOBODY)] * 4
            assert set(now["Groups"]) <= {str(NOBODY)}
            assert rights(now) == {0}
            assert now["NoNewPrivs"] == ["1"]
        talk(port, 50)
        running.end()
        assert running.process.returncode == 0
    made = sorted(folder.iterdir())
    assert len(made) > 3
    for path in made:
        assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY, NOBODY)
        assert path.stat().st_mode & 0o777 == 0o600
    assert len((folder / "out.jsonl").read_text().splitlines()) == 50


@pytest.mark.parametrize("option", ["--keylog", "--topic-names", "-o", "-w"])
def test_what_the_user_may_not_touch_is_not_touched(live, tmp_path, folder, option):
    path = tmp_path / "file"
    if option in ("--keylog", "--topic-names"):
        path = folder / "file"
        path.write_text("{}")
        path.chmod(0o600)
        os.chown(path, 0, 0)
    with live("-i", "lo", option, path, "--duration", "1s", env=AS_IF_BY_SUDO) as running:
        _, err = running.end(0)
        assert running.process.returncode != 0
    assert "Permission denied" in running.started + err


def test_root_without_sudo_stays_root_with_nothing_but_that(live, tmp_path):
    plain = {key: value for key, value in os.environ.items() if not key.startswith("SUDO_")}
    port, path = free_port(), tmp_path / "saved.pcapng"
    with live("-i", "lo", "--port", port, "-w", path, "--bpf", "tcp", env=plain) as running:
        for pid in (running.process.pid, worker_of(running)):
            now = status(pid)
            assert now["Uid"] == ["0"] * 4
            assert rights(now) == {0}
            assert now["NoNewPrivs"] == ["1"]
        talk(port, 5)
        out, _ = running.end()
        assert running.process.returncode == 0
    assert len(out.splitlines()) == 5


def test_root_without_sudo_has_no_way_into_what_is_others(live, folder):
    plain = {key: value for key, value in os.environ.items() if not key.startswith("SUDO_")}
    folder.chmod(0o700)
    with live("-i", "lo", "-w", folder / "saved", env=plain) as running:
        running.end(0)
        assert running.process.returncode == 1
    assert running.started.endswith("saved: Permission denied\n")


def test_without_the_right_one_line_says_what_to_grant(live, folder):
    options = ("-o", folder / "out", "-w", folder / "saved")
    with live("-i", "lo", *options, before=somebody()) as running:
        out, err = running.end(0)
        assert running.process.returncode == 1
    assert running.started.startswith("kinspect: lo: no right to capture: use sudo, or grant it")
    assert (out, err) == ("", "")
    assert not list(folder.iterdir())


def test_the_right_alone_is_enough_and_is_given_up(live, folder):
    port = free_port()
    options = ("--port", port, "-w", folder / "x")
    with live("-i", "lo", *options, before=somebody("net_raw"), program=("-c", LOADED)) as running:
        now = status(running.process.pid)
        assert rights(now) == {0}
        talk(port, 5)
        out, _ = running.end()
        assert running.process.returncode == 0
    assert len(out.splitlines()) == 5


CANNOT = """
import os
from kinspect.capture import privileges
privileges.drop({"SUDO_UID": "65534", "SUDO_GID": "65534"})
assert os.getresuid() == os.getresgid() == (65534,) * 3
for call in (lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0])):
    try:
        call()
    except PermissionError:
        continue
    raise SystemExit("came back")
"""


def test_dropped_rights_cannot_be_regained():
    subprocess.run([sys.executable, "-c", CANNOT], check=True)


WITHOUT_CAPABILITIES = """
from pathlib import Path
from kinspect.capture import privileges
privileges.drop_capabilities(for_good=False)
print(*[line for line in Path("/proc/self/status").read_text().splitlines() if line[:6] in ("CapEff", "NoNewP")])
"""


def test_a_command_of_from_may_still_be_one_of_sudo():
    told = subprocess.run([sys.executable, "-c", WITHOUT_CAPABILITIES], check=True, stdout=subprocess.PIPE)
    assert told.stdout.split() == [b"CapEff:", b"0" * 16, b"NoNewPrivs:", b"0"]


def test_what_cannot_be_dropped_ends_it(live):
    # A group that may not be: the system refuses it.
    refused = {**AS_IF_BY_SUDO, "SUDO_GID": str(2**32 - 1)}
    with live("-i", "lo", env=refused) as running:
        running.end(0)
        assert running.process.returncode == 1
    assert running.started.startswith("kinspect: cannot drop privileges: ")


def test_the_json_summary_of_such_a_run_is_whole(live):
    with live("-i", "lo", "--emit", "summary", "--duration", "300ms", env=AS_IF_BY_SUDO) as running:
        out, _ = running.end(0)
    assert json.loads(out)["kernel_drops"] == 0
