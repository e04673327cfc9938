"""A real Apache Kafka broker on the loopback interface; `python tools/broker/server.py` runs one until Ctrl-C.

One node, broker and controller at once (KRaft), with a listener without authentication and one with SASL. It writes
every request and response that it handled into its log (`requestlog`).
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from central import ToolError, program

from broker.artifacts import RELEASE, classpath

HOST = "127.0.0.1"
PATIENCE = 120
"""Seconds until a broker must be ready; an idle machine needs five."""

USERS = {"PLAIN": ("alice", "pw-of-alice-1"), "SCRAM-SHA-256": ("bob", "pw-of-bob-22")}
"""User and password of each SASL mechanism."""

CLUSTER = "a2luc3BlY3QgbGl2ZSB0ZQ"
JVM = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
LOGGING = (
    "-Dorg.slf4j.simpleLogger.showThreadName=false",
    "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug",
    "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.network.Selector=debug",
)


class Server:
    """A broker of a release that keeps its data in `folder`: ready after entry, ended and gone on exit.

    It listens on `port`, with SASL on the next one, the controller on the one after that. `inside` is put before its
    command, as to run it in a namespace; `settings` are laid over its own.
    """

    def __init__(
        self,
        release: str,
        folder: Path,
        port: int = 9092,
        inside: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.release = release
        self._more = settings or {}
        self.servers, self.sasl_servers = f"{HOST}:{port}", f"{HOST}:{port + 1}"
        self.ports = (port, port + 1)
        self.log = folder / "server.log"
        self._controller = f"{HOST}:{port + 2}"
        self._folder = folder
        # The broker ends with the process that started it, however that ends.
        self._before = [*inside, program("setpriv", "util-linux"), "--pdeathsig", "TERM", "--"]
        self._java = [program("java", "openjdk-17-jdk-headless"), *JVM, "-cp", classpath(release)]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Server:
        settings = self._folder / "server.properties"
        settings.write_text(
            "".join(f"{key}={value}\n" for key, value in {**self._settings(), **self._more}.items())
        )
        self._format(settings)
        with self.log.open("wb") as log:
            command = [
                *self._before,
                *self._java[:-2],
                *LOGGING,
                *self._java[-2:],
                "kafka.Kafka",
                str(settings),
            ]
            # Ctrl-C is for the process that started it, which then ends it.
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        try:
            self._wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        process = self._process
        if process is None:
            return
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def beside(self) -> dict[str, str]:
        """Settings of a second broker of the cluster, on the ports a hundred above, each in a rack of its own."""
        ports = [port + 100 for port in self.ports]
        names = ("PLAINTEXT", "SASL_PLAINTEXT")
        return {
            "node.id": "2",
            "process.roles": "broker",
            "controller.quorum.voters": f"1@{self._controller}",
            "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in zip(names, ports, strict=True)),
            "broker.rack": "b",
        }

    def _settings(self) -> dict[str, str]:
        listeners = f"PLAINTEXT://{self.servers},SASL_PLAINTEXT://{self.sasl_servers}"
        user, password = USERS["PLAIN"]
        modules = "org.apache.kafka.common.security"
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{self._controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{listeners},CONTROLLER://{self._controller}",
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self._folder / "data"),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "sasl.enabled.mechanisms": ",".join(USERS),
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                f'{modules}.plain.PlainLoginModule required user_{user}="{password}";'
            ),
            "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
                f"{modules}.scram.ScramLoginModule required;"
            ),
        }

    def _format(self, settings: Path) -> None:
        user, password = USERS["SCRAM-SHA-256"]
        command = [*self._java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(settings)]
        command += ["--add-scram", f"SCRAM-SHA-256=[name={user},password={password}]"]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise ToolError(f"the broker's folder was not formatted: {(done.stdout + done.stderr).strip()}")

    def _wait(self) -> None:
        until = time.monotonic() + PATIENCE
        while "Kafka Server started" not in self.log.read_text(errors="replace"):
            self.check()
            if time.monotonic() > until:
                raise self._error(f"did not start in {PATIENCE} seconds")
            time.sleep(0.1)

    def check(self) -> None:
        """Raise ToolError, with the end of its log, if the broker has ended."""
        assert self._process is not None
        status = self._process.poll()
        if status is not None:
            raise self._error(f"ended with status {status}")

    def wait(self) -> None:
        """Wait until the broker ends, which it never does by itself; then raise as `check`."""
        assert self._process is not None
        self._process.wait()
        self.check()

    def _error(self, what: str) -> ToolError:
        last = "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])
        return ToolError(f"the broker of {self.release} {what}; the end of its log:\n{last}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Run an Apache Kafka broker on loopback until Ctrl-C.")
    parser.add_argument("--release", default=RELEASE, help="of Apache Kafka (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=9092, help="SASL is on the next one (default: %(default)s)"
    )
    options = parser.parse_args()
    # SIGINT too: a shell's background jobs begin with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="kinspect-broker-") as folder,
            Server(options.release, Path(folder), options.port) as server,
        ):
            print(
                f"Kafka {server.release} is ready at {server.servers}, with SASL at {server.sasl_servers}",
                flush=True,
            )
            for mechanism, (user, password) in USERS.items():
                print(f"{mechanism}: user {user}, password {password}", flush=True)
            server.wait()
    except ToolError as error:
        print(f"server.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
