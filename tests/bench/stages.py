"""Cost of each stage: µs a packet, a message, a line or a record, alone and with its input ready.

    python tests/bench/stages.py                                               # all captures
    python tests/bench/stages.py chatty --rounds 7
    python tests/bench/stages.py --profile bulk -- --records --payload text    # the whole command in cProfile

Each number is the best of some rounds; the rounds of a stage begin anew, with nothing remembered but what is compiled
once a process.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import io
import os
import pstats
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from plan import Capture
from profiles import PROFILES

import captures
from kinspect import records
from kinspect.capture import open_timeline
from kinspect.kafka.bodysummary import BodySummary
from kinspect.kafka.connection.kafkaconnection import KafkaConnection
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.exchange.ledger import Ledger
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.learnednames import LearnedNames
from kinspect.kafka.wire.lineorder import LineNumbering
from kinspect.link import Dissector
from kinspect.model import Block, Caps, Counts, Progress, Segment
from kinspect.pipeline import EXCHANGES_ONLY, Inspector
from kinspect.protocol import decode_body
from kinspect.tcp import Connection, Reassembler

SMALLER = 4
"""The captures are this part of those that `run.py` measures: all stages' inputs are held at once."""
PROFILED = 25

Call = tuple[str, tuple[Any, ...]]
"""A call of a stream handler: the method and its arguments."""


class Cost(NamedTuple):
    """A stage: its best time in seconds, for `number` of `unit`."""

    stage: str
    seconds: float
    number: int
    unit: str


class Deaf:
    """Stream handler that does nothing."""

    def data(self, *_: Any) -> None: ...
    def gap(self, *_: Any) -> None: ...
    def repeated(self, *_: Any) -> None: ...
    def fin(self, *_: Any) -> None: ...
    def closed(self, *_: Any) -> None: ...


class Recorder:
    """Stream handler that keeps its calls."""

    def __init__(self, number: int, calls: list[tuple[int, Call]]) -> None:
        self._number = number
        self._calls = calls

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self._calls.append((self._number, (name, arguments)))


class Fed(NamedTuple):
    """Result of tcp for a block: number of packets, and the calls by connection."""

    packets: int
    calls: list[tuple[int, Call]]


class Inputs:
    """Inputs of each stage, for one capture."""

    def __init__(self, path: Path) -> None:
        self.path = path
        timeline = open_timeline([path])
        self.blocks: list[Block] = list(timeline)
        self.secrets = timeline.secrets
        self.packets = sum(map(len, self.blocks))
        dissector = Dissector(Caps(), Counts())
        self.segments: list[list[Segment]] = [dissector.segments(block) for block in self.blocks]
        self.connections: list[Connection] = []
        self.fed = list(self._streams())
        inspector = Inspector(files=[str(path)])
        inspector.add_found(self.secrets)
        lines = [line for block in self.blocks for line in inspector.feed(block)]
        lines += inspector.finish()
        self.exchanges = [line for line in lines if isinstance(line, Exchange)]
        self.messages = [
            message
            for exchange in self.exchanges
            for message in (exchange.request, exchange.response)
            if message is not None and message.raw is not None
        ]
        self.record_sets = [found for message in self.messages for found in record_sets(message.body)]
        self.records = sum(batch["count"] for found in self.record_sets for batch in records.summarise(found))

    def _streams(self) -> Iterator[Fed]:
        calls: list[tuple[int, Call]] = []

        def open_connection(connection: Connection) -> Recorder:
            self.connections.append(connection)
            return Recorder(len(self.connections) - 1, calls)

        reassembler = Reassembler(open_connection, Caps(), Counts(), Progress())
        for segments in self.segments:
            reassembler.feed(segments)
            yield Fed(len(segments), calls[:])
            calls.clear()


def record_sets(node: Any) -> Iterator[bytes]:
    """The bytes of the record sets in a body."""
    if isinstance(node, list):
        for item in node:
            yield from record_sets(item)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name == "records" and value:
                yield value
            else:
                yield from record_sets(value)


def costs(inputs: Inputs, rounds: int) -> Iterator[Cost]:
    """Each stage in the order of the bytes' way."""
    packets, messages, lines = inputs.packets, len(inputs.messages), len(inputs.exchanges)

    def stage(name: str, run: Callable[[], object], number: int, unit: str) -> Cost:
        return Cost(name, best(run, rounds), number, unit)

    yield stage("capture: blocks", lambda: sum(map(len, open_timeline([inputs.path]))), packets, "packet")
    yield stage("link: segments", lambda: link(inputs), packets, "packet")
    yield stage("tcp: streams", lambda: tcp(inputs), packets, "packet")
    yield stage("kafka: framing, pairing", lambda: kafka(inputs), messages, "message")
    yield stage("protocol: decode a body", lambda: decode(inputs), messages, "message")
    yield stage("kafka: summary of an exchange", lambda: summaries(inputs), lines, "line")
    for name, view in (("default", View()), ("records with payload", View(records=True, payload="text"))):
        for exchange in inputs.exchanges:
            exchange.to_dict(view)
        shown = [exchange.to_dict(view) for exchange in inputs.exchanges]
        yield stage(
            f"view: to_dict, bodies decoded, {name}", lambda view=view: to_dicts(inputs, view), lines, "line"
        )
        yield stage(f"output: orjson, {name}", lambda shown=shown: dump(shown), lines, "line")
    if inputs.record_sets:
        sets = len(inputs.record_sets)
        yield stage("records: batch headers", lambda: each(records.summarise, inputs), sets, "record set")
        yield stage("records: all", lambda: each(records.batches, inputs), inputs.records, "record")


def best(run: Callable[[], object], rounds: int) -> float:
    """The shortest time of some rounds, in seconds."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def link(inputs: Inputs) -> None:
    dissector = Dissector(Caps(), Counts())
    for block in inputs.blocks:
        dissector.segments(block)


def tcp(inputs: Inputs) -> None:
    deaf = Deaf()
    reassembler = Reassembler(lambda _: deaf, Caps(), Counts(), Progress())
    for segments in inputs.segments:
        reassembler.feed(segments)


def kafka(inputs: Inputs) -> None:
    ledger = Ledger(Caps(), Counts(), LearnedNames(), EXCHANGES_ONLY, frozenset(), False, [])
    for text in inputs.secrets:
        ledger.add_secrets(text)
    handlers: dict[int, KafkaConnection] = {}
    for packets, calls in inputs.fed:
        ledger.progress.place += packets
        for number, (method, arguments) in calls:
            handler = handlers.get(number)
            if handler is None:
                handler = handlers[number] = KafkaConnection(
                    inputs.connections[number], LineNumbering(number), ledger
                )
            getattr(handler, method)(*arguments)
        ledger.release()


def decode(inputs: Inputs) -> None:
    for message in inputs.messages:
        raw = message.raw
        if raw is not None and message.api_key is not None and message.api_version is not None:
            decode_body(
                message.api_key, message.api_version, message.direction, raw, message.body_start, len(raw)
            )


def summaries(inputs: Inputs) -> None:
    for exchange in inputs.exchanges:
        BodySummary(exchange)


def to_dicts(inputs: Inputs, view: View) -> None:
    for exchange in inputs.exchanges:
        exchange.to_dict(view)


def dump(shown: list[dict[str, Any]]) -> None:
    for line in shown:
        orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def each(read: Callable[[bytes], object], inputs: Inputs) -> None:
    for found in inputs.record_sets:
        read(found)


def profile(path: Path, options: list[str]) -> str:
    """The functions of `kinspect read` that take the most time themselves, and how long they take."""
    from kinspect.cli import main

    profiler = cProfile.Profile()
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        profiler.enable()
        status = main(["read", str(path), "-q", "--format", "jsonl", *options])
        profiler.disable()
    if status:
        raise SystemExit(status)
    out = io.StringIO()
    pstats.Stats(profiler, stream=out).sort_stats("tottime").print_stats(PROFILED)
    return out.getvalue().replace(f"{Path(__file__).parents[2]}/", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "captures", nargs="*", metavar="CAPTURE", help=f"some of {', '.join(PROFILES)}; all by default"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--profile", choices=PROFILES, help="the whole command on this capture; `-- OPTIONS` of `read`"
    )
    arguments = sys.argv[1:]
    at = arguments.index("--") if "--" in arguments else len(arguments)
    values = parser.parse_args(arguments[:at])
    if values.profile:
        capture = Capture(values.profile, PROFILES[values.profile].size)
        print(profile(captures.path_of(capture), arguments[at + 1 :]))
        return
    for name in values.captures or PROFILES:
        if name not in PROFILES:
            parser.error(f"no such capture: {name}")
        path = captures.path_of(Capture(name, PROFILES[name].size // SMALLER))
        print(f"{name}, {path.stat().st_size:,} bytes")
        inputs = Inputs(path)
        gc.collect()
        gc.freeze()  # The collector must not walk what only this program holds.
        for cost in costs(inputs, values.rounds):
            print(f"  {cost.stage:<53}{cost.seconds / cost.number * 1e6:>9.2f} µs a {cost.unit}")


if __name__ == "__main__":
    main()
