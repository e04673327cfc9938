"""A network namespace: a loopback interface without other traffic, where every port is free."""

from __future__ import annotations

import subprocess
import uuid
from typing import Any

from central import ToolError, program


class Namespace:
    """Made on entry, removed on exit; `inside` is the beginning of a command that runs there. Needs root."""

    def __init__(self) -> None:
        self.name = f"kinspect-{uuid.uuid4().hex[:8]}"
        self._ip = program("ip", "iproute2")
        self.inside = (self._ip, "netns", "exec", self.name)

    def __enter__(self) -> Namespace:
        made = subprocess.run(
            [self._ip, "netns", "add", self.name], check=False, capture_output=True, text=True
        )
        if made.returncode:
            raise ToolError(f"no network namespace: {made.stderr.strip()}")
        subprocess.run([self._ip, "-n", self.name, "link", "set", "lo", "up"], check=True)
        return self

    def __exit__(self, *error: Any) -> None:
        subprocess.run([self._ip, "netns", "del", self.name], check=False)
