"""Recording of clients at a broker, in the form of captures/: `captures/record RELEASE FOLDER [SCENARIO...]`."""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from central import ToolError, program

from broker import troubles
from broker.namespace import Namespace, Network
from broker.requestlog import RequestLog
from broker.scenarios import CONFIGURED, RACKS, SCENARIOS, perform
from broker.server import Server
from broker.troubles import Certificates, Stage, WebServer

AFTERMATH = 0.3
"""Seconds that the broker has for its last log lines, those about ended connections among them."""

PATIENCE = 30
"""Seconds until every connection of a scenario must have ended."""

COMPRESSED_FROM = 5_000
"""Size in bytes above which a file is kept with gzip."""


class Performance(NamedTuple):
    """The accounts of a scenario: its clients' own, and the broker's of their requests (`requestlog`)."""

    told: dict[str, Any]
    requests: list[dict[str, Any]]


class Laboratory:
    """A running broker, with the means to run and observe clients at it."""

    def __init__(self, server: Server, inside: tuple[str, ...], others: tuple[int, ...] = ()) -> None:
        self.server = server
        self.inside = inside
        self.ports = server.ports + others

    def perform(self, scenario: str) -> Performance:
        """Run a scenario until all its connections have ended, so that a capture holds all of it."""
        begin = self.server.log.stat().st_size
        told = perform(scenario, self.server, self.inside)
        until = time.monotonic() + PATIENCE
        while True:
            time.sleep(AFTERMATH)
            self.server.check()
            with self.server.log.open("rb") as log:
                log.seek(begin)
                whole_lines = log.read().rpartition(b"\n")[0].decode()
            seen = RequestLog(whole_lines, self.server.ports)
            # The broker's own connections to itself stay.
            connected = seen.connected.intersection(told["facts"]["client_ids"])
            if not connected:
                return Performance(told, seen.entries)
            if time.monotonic() > until:
                raise ToolError(f"{scenario}: connections that do not end, of {', '.join(connected)}")

    def write_rows(self, folder: Path, capture: str, performance: Performance) -> None:
        """Add a capture of that name to the tables of a folder, and the broker's account beside it."""
        told, requests = performance
        ports = ",".join(map(str, self.ports))
        if self.ports != self.server.ports:
            # What the others were asked is not in the log.
            write_row(folder, capture, self.server, {**told, "ports": ports})
            return
        lines = "".join(json.dumps(request, separators=(",", ":")) + "\n" for request in requests)
        truth = keep(
            folder, capture.removesuffix(".gz").removesuffix(".pcap") + ".truth.jsonl", lines.encode()
        )
        facts = {**told["facts"], "truth": Path(truth).name}
        write_row(folder, capture, self.server, {**told, "ports": ports, "facts": facts})
        asked = Counter((request["name"], request["version"]) for request in requests)
        answered = Counter((r["name"], r["version"]) for r in requests if r["resp"] is not None)
        # Requests of a client before it has authenticated are not in the broker's log, and cannot be counted by it.
        counted = {} if "users" in told["facts"] else asked
        _append(
            folder / "APIKEYS.tsv",
            ("file", "api", "version", "requests", "responses", "failed", "note"),
            [(capture, *key, count, answered[key], 0, "") for key, count in sorted(counted.items())],
        )


def write_row(folder: Path, capture: str, server: Server, told: dict[str, Any]) -> None:
    """Add a capture to the manifest of a folder."""
    facts = json.dumps(told["facts"], separators=(",", ":"))
    broker = f"apache-kafka {server.release} KRaft"
    _append(
        folder / "MANIFEST.tsv",
        ("file", "broker", "clients", "ports", "what", "facts_json"),
        [(capture, broker, told["clients"], told["ports"], told["what"], facts)],
    )


@contextmanager
def laboratory(release: str) -> Iterator[Laboratory]:
    """A broker of that release in a network namespace of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="kinspect-broker-") as folder,
        Namespace() as namespace,
        Server(release, Path(folder), inside=namespace.inside) as server,
    ):
        yield Laboratory(server, namespace.inside)


@contextmanager
def racks(release: str) -> Iterator[Laboratory]:
    """Two brokers of that release, in the racks `a` and `b`."""
    with tempfile.TemporaryDirectory(prefix="kinspect-broker-") as folder, Namespace() as namespace:
        inside, other = namespace.inside, Path(folder) / "other"
        other.mkdir()
        with (
            Server(release, Path(folder), inside=inside, settings={"broker.rack": "a"}) as server,
            Server(release, other, server.ports[0] + 100, inside, server.beside()) as second,
        ):
            yield Laboratory(server, inside, second.ports)


@contextmanager
def stage(release: str, settings: Mapping[str, str]) -> Iterator[Stage]:
    """A broker of that release with these settings behind a router."""
    with (
        tempfile.TemporaryDirectory(prefix="kinspect-broker-") as folder,
        Network() as network,
    ):
        certificates = Certificates(Path(folder))
        more = {**troubles.settings(certificates), **settings}
        inside = network.broker.inside
        with (
            WebServer(Path(folder), inside),
            Server(release, Path(folder), inside=inside, settings=more) as server,
        ):
            yield Stage(server, network, certificates)


def _append(path: Path, columns: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerows([columns, *rows] if new else rows)


def keep(folder: Path, name: str, data: bytes) -> str:
    """Write a file, with gzip if it is large; return its name."""
    if len(data) > COMPRESSED_FROM:
        name, data = f"{name}.gz", gzip.compress(data, mtime=0)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return name


# ---------------------------------------------------------------------- recording


@contextmanager
def tcpdump(path: Path, interface: str, packets: str, inside: tuple[str, ...]) -> Iterator[None]:
    """Context that captures those packets, in the words of a filter, into a file.

    Without immediate mode tcpdump gets packets a block at a time, and loses the last block when it is terminated.
    """
    command = [
        *inside,
        program("tcpdump", "tcpdump"),
        "-i",
        interface,
        "-U",
        "--immediate-mode",
        "-B",
        "65536",
        "-Z",
        "root",
        "-w",
        str(path),
        packets,
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if "listening on" in line:
                    break
            else:
                raise ToolError(f"tcpdump does not listen, status {process.wait()}")
            yield
            time.sleep(0.2)  # the last packets are on their way to it
        finally:
            process.terminate()
        counts = process.stderr.read()
    if "\n0 packets dropped by kernel" not in counts:
        raise ToolError(f"tcpdump lost packets: {counts.strip()}")


def record(lab: Laboratory, scenario: str, folder: Path) -> Path:
    """Capture a scenario into folder/<release>/, or clients of `CONFIGURED` into folder/settings/, with its rows in the
    folder's tables; return the capture's path."""
    packets = " or ".join(f"tcp port {port}" for port in lab.ports)
    with tempfile.TemporaryDirectory(prefix="kinspect-record-") as place:
        raw = Path(place) / "capture"
        with tcpdump(raw, "lo", packets, lab.inside):
            performance = lab.perform(scenario)
        captured = raw.read_bytes()
    name = keep(folder, f"{lab.server.release}/{scenario}.pcap", captured)
    lab.write_rows(folder, name, performance)
    return folder / name


def record_trouble(stage: Stage, name: str, folder: Path) -> Path:
    """Capture a trouble on the client's side into folder/connect/, with its row; return the capture's path."""
    with tempfile.TemporaryDirectory(prefix="kinspect-record-") as place:
        raw = Path(place) / "capture"
        # TCP and the errors that quote it.
        packets = "tcp or (icmp and icmp[17] = 6) or (icmp6 and ip6[40] < 128 and ip6[54] = 6)"
        with tcpdump(raw, Network.INTERFACE, packets, stage.network.client.inside):
            told = stage.perform(name)
        captured = raw.read_bytes()
    stage.clear()
    capture = keep(folder, f"connect/{name}.pcap", captured)
    write_row(folder, capture, stage.server, told)
    return folder / capture


def recorded(release: str, folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Record scenarios and troubles at as few brokers as they need."""
    for place, every in ((laboratory, (*SCENARIOS, *CONFIGURED)), (racks, RACKS)):
        if scenarios := [name for name in names if name in every and (name in RACKS) == (every is RACKS)]:
            with place(release) as lab:
                for name in scenarios:
                    yield record(lab, name, folder)
    left = [name for name in names if name in troubles.NAMES]
    while left:
        settings = troubles.named(left[0]).settings
        with stage(release, settings) as made:
            for name in [name for name in left if troubles.named(name).settings == settings]:
                left.remove(name)
                yield record_trouble(made, name, folder)


def main() -> int:
    every = (*SCENARIOS, *CONFIGURED, *troubles.NAMES)
    parser = argparse.ArgumentParser(
        prog="captures/record", description="Record what clients do at a broker of a release; needs root."
    )
    parser.add_argument("release", help="of Apache Kafka, 3.5.0 or later")
    parser.add_argument("folder", type=Path, help="where captures and manifest go; it must be new or empty")
    parser.add_argument(
        "scenarios", nargs="*", metavar="scenario", help=f"of {', '.join(every)}; all if none"
    )
    options = parser.parse_args()
    if unknown := set(options.scenarios) - set(every):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    if options.folder.exists() and any(options.folder.iterdir()):
        parser.error(f"{options.folder} is not empty")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for path in recorded(options.release, options.folder, options.scenarios or every):
            print(f"{path}: {path.stat().st_size:,} bytes", flush=True)
    except ToolError as error:
        print(f"captures/record: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
