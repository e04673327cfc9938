"""What a line means in every system that it is sent to: whether the exchange failed, and a text for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kinspect.kafka.view.view import epoch_ns
from kinspect.kafka.wire.pair import NO_RESPONSE, ORPHAN, UNANSWERED
from kinspect.output.escape import escape
from kinspect.wording import counted, cut_at, listed

MESSAGE_MOST = 256
"""Characters of a message at most."""

Line = dict[str, Any]


def at(line: Any, path: str) -> Any:
    """The value at a dotted path; None where there is none. Through lists those in all of their entries."""
    value = line
    for place, name in enumerate(names := path.split(".")):
        if isinstance(value, list):
            below = ".".join(names[place:])
            found = [at(each, below) for each in value]
            return [each for inner in found for each in (inner if isinstance(inner, list) else [inner])]
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def epoch(time: str | None) -> int | None:
    """Nanoseconds since the epoch of a line's time; None for none."""
    return None if time is None else epoch_ns(time)


def fails(line: Line) -> bool:
    """True if Kafka, or the connection, failed the exchange: an error code, or a request that stays unanswered for
    another reason than the end of the capture. Damage of the capture is no failure."""
    unanswered = line["outcome"] == UNANSWERED and line["outcome_reason"] != "capture_end"
    return bool(line["error_codes"]) or unanswered


def network_type(line: Line) -> str:
    """`ipv4` or `ipv6`."""
    return "ipv6" if ":" in line["client"]["ip"] else "ipv4"


def software(line: Line) -> str | None:
    """The client's software and its version, joined: `apache-kafka-java/4.4.0`."""
    client = line["client"]
    return "/".join(filter(None, (client["software_name"], client["software_version"]))) or None


def problem_codes(line: Line) -> list[str]:
    """The codes of an exchange's problems, each once."""
    return [*dict.fromkeys(problem["code"] for problem in line["problems"])]


def of_frames(name: str) -> Callable[[Line], Any]:
    """A function of an exchange's line: this key of the frames of its earliest message."""

    def of(line: Line) -> Any:
        return at(line, f"{'response' if line['request'] is None else 'request'}.frames.{name}")

    return of


def api_name(line: Line) -> str:
    """The API of an exchange; else its number, or what there is of it."""
    if line["api"] is not None:
        return str(line["api"])
    return "response" if line["api_key"] is None else f"API {line['api_key']}"


# ---------------------------------------------------------------------- the text for people


def message(line: Line) -> str:
    """The line in a text of 256 printable characters at most: `Produce v13 orders-0 MESSAGE_TOO_LARGE 1.17 ms`."""
    text = escape(" ".join(filter(None, _PARTS[line["type"]](line))))
    return cut_at(text, MESSAGE_MOST)


def _exchange_parts(line: Line) -> Iterator[str]:
    yield api_name(line)
    if line["api_version"] is not None:
        yield f"v{line['api_version']}"
    for key in (
        "partitions" if line["partitions"] else "topics",
        "groups",
        "transactional_ids",
        "error_names",
    ):
        yield listed(line[key], between=",")
    if line["outcome"] == NO_RESPONSE:
        yield "no response due"
    elif line["outcome"] in (UNANSWERED, ORPHAN):
        reason = line["outcome_reason"]
        yield f"{line['outcome']} ({reason})" if reason else line["outcome"]
    if line["latency_ms"] is not None:
        yield f"{line['latency_ms']:.2f} ms"


def _connection_parts(line: Line) -> Iterator[str]:
    yield f"connection {line['kind']} {line['connection_id'].rpartition('@')[0]}"
    yield f"{counted(line['exchanges'], 'exchange', '')} {line['end_reason']}"


def _gap_parts(line: Line) -> Iterator[str]:
    yield f"gap of {counted(line['bytes'], 'byte', '')} from {line['direction']} {line['cause']}"


def _summary_parts(line: Line) -> Iterator[str]:
    yield " ".join(counted(line[f"{thing}s"], thing, "") for thing in ("packet", "exchange", "gap"))


def _stats_parts(line: Line) -> Iterator[str]:
    drops = line["kernel_drops"] + line["queue_drops"]
    yield (
        f"{counted(line['captured_packets'], 'packet', '')} {drops} dropped"
        f" {counted(line['exchanges'], 'exchange', '')}"
    )


_PARTS: dict[str, Callable[[Line], Iterable[str]]] = {
    "exchange": _exchange_parts,
    "connection": _connection_parts,
    "gap": _gap_parts,
    "summary": _summary_parts,
    "stats": _stats_parts,
}
