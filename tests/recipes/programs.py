"""Programs that take the lines, and how tests run them."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "recipes"
PACKAGES = ROOT / "build" / "packages"
"""Debian packages that .ci/unpack unpacked: two of them cannot both be installed."""


def program(name, package):
    """Path of a program."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"needs the program {name} (package {package})")
    return found


def unpacked(name):
    """Path of a daemon of an unpacked package, and the environment in which it finds its libraries."""
    daemon = PACKAGES / "usr" / "sbin" / name
    if not daemon.exists():
        pytest.fail(f"needs the program {name} in {PACKAGES}: run .ci/unpack")
    folders = [folder for folder in PACKAGES.glob("**/lib/**/") if any(folder.glob("*.so*"))]
    return str(daemon), {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, folders))}


@contextmanager
def running(command, log, **options):
    """A program while the block runs; what it printed is in `log`, shown if the block fails."""
    # It ends with this process too, however that ends.
    bound = [program("setpriv", "util-linux"), "--pdeathsig", "TERM", "--", *command]
    with open(log, "wb") as out:
        process = subprocess.Popen(bound, stdout=out, stderr=subprocess.STDOUT, **options)
    try:
        yield process
    except BaseException:
        print(f"{command[0]} ({process.poll()}):\n{log.read_text(errors='replace')}")
        raise
    finally:
        process.terminate()
        process.wait()


def wait_for_listener(port):
    """Return when a program listens on a port of loopback."""

    def listens():
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens)
