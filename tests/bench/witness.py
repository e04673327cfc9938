"""Counts of the messages that both programs read of a capture: a fast wrong answer is no result."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson
from plan import COMMANDS, FILE, PARTLY, TCPDUMP, TWO, Capture, tshark_fields

import captures

PARTITIONS = {"index", "partition", "partition_index"}
"""The names of a partition's number in the bodies that the captures hold."""
SEPARATOR = ","
FIELDS = ("request_key", "response_key", "partition_id", "record_attributes", "correlation_id")


class Read(NamedTuple):
    """Counts of a capture by a program, as in `Told`; None where its output has none."""

    messages: dict[str, int]
    correlation_ids: int
    partitions: int | None = None
    records: int | None = None


def disagreements(capture: Capture) -> list[str]:
    """A sentence for each program and output whose counts differ from the generator's."""
    told = captures.told_of(capture)
    requests = {name: count for name, count in told.messages.items() if name.endswith("request")}
    known = told._replace(messages=requests) if capture.profile in PARTLY else told
    found = {
        "tshark": (tshark(capture), known),
        "records with payload": (read_lines(capture, "full"), told),
        "default": (read_lines(capture, "default"), told),
        "two fields": (read_two_fields(capture), told),
    }
    return [
        f"{capture}: {name} tells {column} {have}, not {want}"
        for name, (read, holds) in found.items()
        for column, have in read._asdict().items()
        if have is not None and have != (want := getattr(holds, column))
    ]


def miscounted(capture: Capture) -> list[str]:
    """As `disagreements`, of what `--format none` and tcpdump count."""
    told = captures.told_of(capture)
    path = str(captures.path_of(capture))
    none = subprocess.run(_filled(COMMANDS["none"], path), capture_output=True, text=True, check=True).stderr
    counted = subprocess.run([TCPDUMP, "-r", path, "--count"], capture_output=True, text=True, check=True)
    checks = (
        ("--format none", none, f"{told.packets:,} packets,"),
        ("--format none", none, f"\n{sum(told.messages.values()) // 2:,} exchanges"),
        ("tcpdump", counted.stdout + counted.stderr, f"{told.packets} packets"),
    )
    return [
        f"{capture}: {name} does not tell {text.strip()}"
        for name, output, text in checks
        if text not in output
    ]


def tshark(capture: Capture) -> Read:
    """Counts of a capture by tshark. A request of a version that it does not know has its header, its response a
    correlation id."""
    read = tshark_fields("_ws.malformed", *(f"kafka.{name}" for name in FIELDS))
    command = _filled((*read, "-Y", "kafka", "-E", "separator=/t"), str(captures.path_of(capture)))
    messages: Counter[str] = Counter()
    partitions = records = ids = 0
    for line in _output(command):
        malformed, requests, responses, indexes, attributes, correlation = (
            [part for part in cell.split(SEPARATOR) if part]
            for cell in line.decode().rstrip("\n").split("\t")
        )
        messages.update(f"{key} request" for key in requests)
        messages.update(f"{key} response" for key in responses)
        messages["malformed"] += len(malformed)
        partitions += len(indexes)
        records += len(attributes)
        ids += sum(map(int, correlation))
    if capture.profile in PARTLY:
        return Read({name: count for name, count in messages.items() if name.endswith("request")}, ids)
    return Read(dict(+messages), ids, partitions, records)


def read_lines(capture: Capture, command: str) -> Read:
    """Counts of a capture by the bodies in kinspect's lines."""
    messages: Counter[str] = Counter()
    partitions = records = ids = 0
    for line in _kinspect(capture, command):
        for side in ("request", "response"):
            if line[side] is not None and line[side]["complete"]:
                messages[f"{line['api_key']} {side}"] += 1
                ids += line["correlation_id"]
                here = _count(line[side]["body"])
                partitions += here[0]
                records += here[1]
        messages["problems"] += len(line["problems"])
    return Read(dict(+messages), ids, partitions, records)


def read_two_fields(capture: Capture) -> Read:
    """A line is an exchange: both its messages."""
    messages: Counter[str] = Counter()
    ids = 0
    for line in _kinspect(capture, "two fields"):
        if tuple(line) != TWO:
            raise SystemExit(f"--fields {','.join(TWO)} gave {line}")
        messages.update(f"{line['api_key']} {side}" for side in ("request", "response"))
        ids += 2 * line["correlation_id"]
    return Read(dict(messages), ids)


def _count(node: Any) -> tuple[int, int]:
    """The partitions that a body names, and the records it holds."""
    partitions = records = 0
    if isinstance(node, list):
        for item in node:
            if isinstance(item, dict):
                here = _count(item)
                partitions += here[0]
                records += here[1]
    else:
        for name, value in node.items():
            if name in PARTITIONS:
                partitions += 1
            elif name == "batches":
                records += sum(_records(batch) for batch in value)
            elif isinstance(value, list | dict):
                here = _count(value)
                partitions += here[0]
                records += here[1]
    return partitions, records


def _records(batch: dict[str, Any]) -> int:
    """A batch's records: those that are shown with their value, or how many its header says."""
    if "records" not in batch:
        return batch["count"] if batch["crc_ok"] else 0
    return sum(record["value"] is not None for record in batch["records"])


def _kinspect(capture: Capture, command: str) -> Iterator[dict[str, Any]]:
    path = str(captures.path_of(capture))
    return map(orjson.loads, _output(_filled(COMMANDS[command], path)))


def _filled(command: Sequence[str], path: str) -> list[str]:
    return [word.replace(FILE, path) for word in command]


def _output(command: list[str]) -> Iterator[bytes]:
    """The lines that a command prints. Raises SystemExit if it fails."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield from process.stdout
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
