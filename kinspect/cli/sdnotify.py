"""Messages to a service manager: sd_notify(3)."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress

READY, STOPPING, WATCHDOG = "READY=1", "STOPPING=1", "WATCHDOG=1"
_NS_PER_US = 1000


class Notifier:
    """The socket that NOTIFY_SOCKET names; without one, nothing is sent. Names that begin with @ are abstract.

    A message that cannot be sent is left out: the manager sees that by itself.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        """Takes what it was given out of the environment: it is not for other programs."""
        address = environment.pop("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None
        if self._socket is not None:
            self._socket.setblocking(False)
        pid, limit = environment.pop("WATCHDOG_PID", ""), environment.pop("WATCHDOG_USEC", "")
        mine = pid in {"", str(os.getpid())} and limit.isascii() and limit.isdigit()
        self.watchdog_ns: int | None = int(limit) * _NS_PER_US if mine and int(limit) else None
        """Time within which the manager wants to hear that all is well; None if it does not."""

    @property
    def active(self) -> bool:
        return self._socket is not None

    def send(self, *lines: str) -> None:
        """Send `lines`, each a `NAME=value`, as one message."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.sendto("\n".join(lines).encode(), self._address)

    def reloading(self) -> None:
        """Say that a SIGHUP is being handled; `READY` says that it has been."""
        self.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // _NS_PER_US}")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
