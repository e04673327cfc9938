"""Running `kinspect live` beside traffic of the test's own."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from contextlib import contextmanager

import pytest

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1


def enter_network(call, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, call)(*arguments) != 0:
        pytest.fail(f"needs a network namespace of its own: {os.strerror(ctypes.get_errno())}")


@pytest.fixture(scope="module")
def root():
    """The right to capture and to make interfaces, and a loopback interface without traffic of other tests."""
    if os.geteuid() != 0:
        pytest.fail("needs root, to capture from an interface")
    outside = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    enter_network("unshare", CLONE_NEWNET)
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
    yield
    enter_network("setns", outside, CLONE_NEWNET)
    os.close(outside)


@pytest.fixture
def iproute(root):
    """The program `ip`."""
    if shutil.which("ip") is None:
        pytest.fail("needs the program ip (package iproute2), to make network namespaces")


def read_some(descriptor):
    """The next bytes of a pipe or terminal."""
    data = os.read(descriptor, 65536)
    assert data, "the output ended"
    return data


class Running:
    """`kinspect live` at work: its lines as they come, and its end."""

    def __init__(self, process):
        self.process = process
        self.started = process.stderr.readline().decode()
        self._read = b""

    def line(self):
        """The next line of standard output."""
        while b"\n" not in self._read:
            self._read += read_some(self.process.stdout.fileno())
        line, _, self._read = self._read.partition(b"\n")
        return line

    def end(self, number=signal.SIGINT):
        """Ask it to end (0: wait until it does); gives what it still printed."""
        if number:
            self.process.send_signal(number)
        out, err = self.process.communicate()
        return (self._read + (out or b"")).decode(), err.decode()


@pytest.fixture
def live():
    """Starts `kinspect live` and comes back when it captures."""

    @contextmanager
    def run(*arguments, before=(), program=("-m", "kinspect"), stdout=subprocess.PIPE, **options):
        command = [*before, sys.executable, *program, "live", *map(str, arguments)]
        process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE, bufsize=0, **options)
        try:
            yield Running(process)
        finally:
            process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    return run
