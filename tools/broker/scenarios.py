"""What clients do at a broker, each a program in clients/ that tells what it was told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from broker.artifacts import BrokerError, java_clients
from broker.server import USERS, Server

CLIENTS = Path(__file__).parent / "clients"
PROGRAMS = {
    "librdkafka": "librdkafka.py",
    "aiokafka": "aio.py",
    "kafkapython": "python.py",
    "java": "Clients",
}
KINDS = ("codecs", "txn", "admin", "errors", "sasl")

SCENARIOS = tuple(f"{kind}_{client}" for kind in KINDS for client in PROGRAMS)


def perform(name: str, server: Server, inside: tuple[str, ...]) -> dict[str, Any]:
    """Let the clients of a scenario do their work; gives `clients`, `what` and `facts` for a manifest's row."""
    kind, client = name.split("_")
    program = PROGRAMS[client]
    if client == "java":
        command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += [
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
            "-cp",
            java_clients(server.release),
            program,
        ]
    else:
        command = [sys.executable, str(CLIENTS / program)]
    arguments = [kind, name, server.servers, server.sasl_servers, json.dumps(USERS)]
    done = subprocess.run(
        [*inside, *command, *arguments], check=False, capture_output=True, text=True, timeout=120
    )
    if done.returncode:
        raise BrokerError(f"{name} failed: {done.stderr.strip()}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told
