"""Scenarios of clients at a broker, each a program in clients/ that prints its own account."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from central import BUILD, ToolError, program
from central import run as run_tool

from broker import configurations
from broker.artifacts import java_clients
from broker.server import USERS, Server

CLIENTS = Path(__file__).parent / "clients"
PROGRAMS = {
    "librdkafka": "librdkafka.py",
    "aiokafka": "aio.py",
    "kafkapython": "python.py",
    "java": "Clients",
}
GO_CLIENT = "franz"
"""A module of Go in clients/, for the kind `settings` alone."""
PATIENCE = 120
"""Seconds that a scenario may take; most take ten."""

KINDS = ("codecs", "txn", "admin", "errors", "sasl")

SETTINGS = "settings"

SCENARIOS = tuple(f"{kind}_{client}" for kind in KINDS for client in PROGRAMS)
CONFIGURED = tuple(f"{SETTINGS}_{capture}" for capture in configurations.CONFIGURED)
"""Scenarios that are recorded for the answer `settings` alone."""
RACKS = tuple(name for name in CONFIGURED if name.endswith("-racks"))
"""Those of them that take brokers in two racks."""


def perform(name: str, server: Server, inside: tuple[str, ...]) -> dict[str, Any]:
    """Run the clients of a scenario; return `clients`, `what` and `facts` for a manifest's row."""
    kind, capture = name.split("_")
    client, _, _ = capture.partition("-")
    given = configurations.jobs(capture) if kind == SETTINGS else USERS
    told = run(client, [kind, name, server.servers, server.sasl_servers, json.dumps(given)], server, inside)
    if kind == SETTINGS:
        told["facts"]["configured"] = configurations.facts(capture, name)
    return told


def run(client: str, arguments: list[str], server: Server, inside: tuple[str, ...]) -> dict[str, Any]:
    """Run the program of a client (`clients/ledger.py` tells its arguments); return what it printed."""
    command = _command(client, server.release)
    with subprocess.Popen(
        [*inside, *command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            out, complaints = _output(process, arguments[1], server)
        finally:
            process.kill()
    if process.returncode:
        server.check()
        raise ToolError(f"{arguments[1]} failed: {complaints.strip()}")
    told: dict[str, Any] = json.loads(out)
    return told


def _command(client: str, release: str) -> list[str]:
    """What runs the program of a client."""
    if client == GO_CLIENT:
        built = BUILD / "clients" / client
        run_tool(
            [program("go", "golang"), "build", "-C", str(CLIENTS / client), "-o", str(built)],
            f"{client} was not built",
        )
        return [str(built)]
    if client != "java":
        return [sys.executable, str(CLIENTS / PROGRAMS[client])]
    options = [
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
    ]
    return ["java", *options, "-cp", java_clients(release), PROGRAMS[client]]


def _output(process: subprocess.Popen[str], name: str, server: Server) -> tuple[str, str]:
    """Standard output and error of the clients. Raises ToolError if the broker ends: they would wait long for it."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return process.communicate(timeout=1)
        except subprocess.TimeoutExpired:
            server.check()
            if time.monotonic() > until:
                raise ToolError(f"{name} is not done after {PATIENCE} seconds") from None
