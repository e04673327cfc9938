"""Who sends a capture while it is made: a command that prints it, or a server of PCAP-over-IP, which sends a pcap or
pcapng stream over TCP to whoever connects."""

from __future__ import annotations

import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from typing import Protocol
from urllib.parse import urlsplit

from kinspect.background import how_ended
from kinspect.errors import CaptureError

OVER_IP = "tcp://"
SAID_BYTES = 1000
"""Bytes that are kept of the end of what a command prints to standard error."""
END_SECONDS = 2.0
"""Time for a command to end, once it prints no more."""
TERM_SECONDS = 1.0
"""Time for it after SIGTERM, before SIGKILL."""
CONNECT_SECONDS = 10.0


class StreamSender(Protocol):
    """Sends the bytes of a capture. `name`: as the user gave it."""

    @property
    def name(self) -> str: ...
    def open(self) -> int:
        """The descriptor to read from. Raises CaptureError."""

    def aside(self) -> int | None:
        """The descriptor of what is said beside the capture; None if there is none, or it has ended."""

    def listen(self) -> None:
        """Read what is said there."""

    def end(self, sent_all: bool) -> str:
        """End it. Returns why it failed, if it ended by itself (`sent_all`); else an empty text."""

    @property
    def said(self) -> str:
        """The end of what it said, in one line."""

    def leave(self) -> None:
        """Close what is open, without an end to the sender: another process has it."""


def sender_of(text: str) -> StreamSender:
    """The sender that the user names: `tcp://host:port`, or a command. Connects to a server, but starts no command.
    Raises CaptureError."""
    return ServerSender(text) if text.startswith(OVER_IP) else CommandSender(text)


class CommandSender:
    """A command, whose words are those of a shell; but none runs it, so that nothing in them is expanded or chained. It
    has a session of its own: no terminal, whose Ctrl-C is for kinspect, and a group of processes that end together."""

    def __init__(self, text: str) -> None:
        self.name = text
        try:
            self._words = shlex.split(text)
        except ValueError as error:
            raise CaptureError(f"{text}: not a command: {error}") from None
        program = self._words[0] if self._words else ""
        if shutil.which(program) is None:
            raise CaptureError(f"{text}: there is no command {program!r}")
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""

    def open(self) -> int:
        try:
            self._process = subprocess.Popen(
                self._words,
                bufsize=0,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise CaptureError(f"{self.name}: cannot be started: {error.strerror or error}") from None
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def aside(self) -> int | None:
        stream = self._process.stderr if self._process is not None else None
        return None if stream is None or stream.closed else stream.fileno()

    def listen(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        data = os.read(self._process.stderr.fileno(), 65536)
        if not data:
            self._process.stderr.close()
        self._said = (self._said + data)[-SAID_BYTES:]

    def end(self, sent_all: bool) -> str:
        process = self._process
        if process is None:
            return ""
        if process.stdout is not None:
            process.stdout.close()
        if sent_all:
            self._wait(END_SECONDS)
        status = process.poll()
        # Those that it started belong to its group. What runs as another user (sudo) ends when it writes on.
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number)
            self._wait(TERM_SECONDS)
        if process.stderr is not None:
            process.stderr.close()
        return "" if not sent_all or not status else f"the command {how_ended(status)}"

    def _wait(self, seconds: float) -> None:
        """Wait until the command has ended and said all, for that time at most."""
        assert self._process is not None
        until = time.monotonic() + seconds
        while (aside := self.aside()) is not None and (left := until - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(aside, select.POLLIN)
            if poll.poll(left * 1000):
                self.listen()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, until - time.monotonic()))

    @property
    def said(self) -> str:
        return "; ".join(
            line.strip() for line in self._said.decode(errors="replace").splitlines() if line.strip()
        )

    def leave(self) -> None: ...


class ServerSender:
    """A server of PCAP-over-IP."""

    said = ""

    def __init__(self, text: str) -> None:
        self.name = text
        try:
            parts = urlsplit(text)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port or parts.path or parts.query or parts.fragment or parts.username is not None:
            raise CaptureError(f"{text}: not an address: {OVER_IP}host:port")
        try:
            self._socket = socket.create_connection((host, port), CONNECT_SECONDS)
        except OSError as error:
            raise CaptureError(f"{text}: cannot connect: {error.strerror or error}") from None
        self._socket.settimeout(None)

    def open(self) -> int:
        return self._socket.fileno()

    def aside(self) -> None: ...

    def listen(self) -> None: ...

    def end(self, sent_all: bool) -> str:
        self._socket.close()
        return ""

    def leave(self) -> None:
        self._socket.close()
