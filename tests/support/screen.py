"""A program on a pseudo-terminal: what it draws as bytes, and what becomes of it when the terminal goes."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
from pathlib import Path


class Screen:
    """The program has a session of its own, and the terminal is not the one it belongs to: no SIGHUP comes when that
    goes."""

    def __init__(self, folder, *command):
        self.spools = folder / "spools"
        self.spools.mkdir()
        self.controller, inside = pty.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm", "TMPDIR": str(self.spools)},
        )
        os.close(inside)

    def until(self, text):
        """Output up to this text."""
        found = b""
        while text not in found:
            found += os.read(self.controller, 1 << 16)
        return found

    def rest(self):
        """Output up to its end."""
        found = b""
        while True:
            try:
                found += os.read(self.controller, 1 << 16)
            except OSError:
                return found

    def alive(self):
        """The processes that it began with and made."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(session) == self.process.pid and state != "Z":
                found.append(path)
        return found

    def status(self):
        """Its exit status."""
        return self.process.wait()

    def close(self):
        """The terminal goes."""
        os.close(self.controller)
        self.controller = None

    def end(self):
        """Whatever it does."""
        self.process.kill()
        self.process.wait()
        if self.controller is not None:
            self.close()
