"""`kinspect pipeline stream` with many connections that stay open: what a micro-batch takes, and what the state holds.

`make soak-stream` writes captures into a folder: first one with all connections, then one after the other with an
exchange of some of them. Captures that were read are deleted, and some come a second time under another name. What
Spark tells of the micro-batches is a row a minute, and a JSON object at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyspark.sql.streaming.listener import StreamingQueryListener
from support.pcap import Conversation, Packet, framed, pcap

from kinspect.protocol import Message, encode_request, encode_response
from kinspect.spark.sparksession import SETTINGS, open_session
from kinspect.spark.streaming.query import Stream
from kinspect.spark.streaming.streamsource import StreamOptions
from kinspect.tables.request import Request

HEARTBEAT = 12
SPEAKING = 200
"""Connections that say something in a capture."""
AGAIN, KEPT = 10, 20
"""Each tenth capture comes twice; the latest twenty are kept."""
SHARDS = 4
ROW_SECONDS = 60.0
GROWTH = 0.25
"""Share by which what micro-batches of the last quarter take, or their state, may exceed that of the second one."""
START_US, ROUND_US = 1_700_000_000_000_000, 1_000_000
BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


class Sample(NamedTuple):
    """One micro-batch with captures: what it took, and the entries and bytes of its state."""

    took_ms: int
    state_rows: int
    state_bytes: int


class Listener(StreamingQueryListener):  # type: ignore[misc]
    """Keeps a sample of each micro-batch."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing is known yet."""

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """There was no micro-batch."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """The last micro-batch was told before."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        told = json.loads(event.progress.json)
        if told["numInputRows"]:
            (state,) = told["stateOperators"]
            size = state["customMetrics"]["rocksdbSstFileSize"]
            self.samples.append(Sample(told["durationMs"]["triggerExecution"], state["numRowsTotal"], size))


class Traffic:
    """The captures of connections that are never closed."""

    def __init__(self, connections: int, folder: Path) -> None:
        self._talks = [
            Conversation(client=(f"10.1.0.{number // 50_000}", 10_000 + number % 50_000))
            for number in range(connections)
        ]
        self._folder = folder
        self.rounds = 0
        self._put(self._said(self._talks, opens=True))

    def next(self) -> None:
        """One more capture, of the next connections."""
        self.rounds += 1
        many = len(self._talks)
        begin = self.rounds * SPEAKING
        self._put(self._said([self._talks[number % many] for number in range(begin, begin + SPEAKING)]))
        if self.rounds % AGAIN == 0:
            shutil.copy(self._path(self.rounds), self._folder / f"{self.rounds}-again.pcap")
        self._path(self.rounds - KEPT).unlink(missing_ok=True)

    def _said(self, talks: Sequence[Conversation], opens: bool = False) -> Iterator[Packet]:
        for talk in talks:
            talk.time_us = START_US + self.rounds * ROUND_US
            if opens:
                talk.open()
            talk.client_sends(framed(encode_request(Message(HEARTBEAT, 0, self.rounds, BEAT, "app"))))
            talk.broker_sends(framed(encode_response(Message(HEARTBEAT, 0, self.rounds, {"error_code": 0}))))
            yield from talk.packets
            talk.packets.clear()

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.pcap"

    def _put(self, packets: Iterator[Packet]) -> None:
        made = self._folder / "made"
        made.write_bytes(pcap(list(packets)))
        os.rename(made, self._path(self.rounds))


def faults(samples: Sequence[Sample], expected: int, exchanges: int) -> list[str]:
    """What is wrong: micro-batches or a state that grew, exchanges that are missing."""
    found = []
    quarter = len(samples) // 4
    if not quarter:
        found.append(f"{len(samples)} micro-batches are too few: four are needed")
    else:
        for name in ("took_ms", "state_rows"):
            second, last = (
                median(getattr(sample, name) for sample in part)
                for part in (samples[quarter : 2 * quarter], samples[-quarter:])
            )
            if last > second * (1 + GROWTH):
                found.append(f"{name} grew from {second:,.0f} to {last:,.0f}")
    if exchanges != expected:
        found.append(f"{expected:,} exchanges were made, {exchanges:,} are in the table")
    return found


def soak(connections: int, seconds: float, every: float, folder: Path) -> dict[str, Any]:
    """Runs the stream. Returns what it saw, with its `faults`."""
    captures = folder / "captures"
    captures.mkdir()
    spark = open_session("local[2]", SETTINGS, progress=False)
    listener = Listener()
    watch = StreamOptions(str(captures), settle=1.0, interval=1.0, shards=SHARDS)
    stream = Stream(spark, watch, str(folder / "tables"), Request())
    # A session has its own listeners, and the stream its own session.
    stream._spark.streams.addListener(listener)
    traffic = Traffic(connections, captures)
    exchanges = 0
    began = next_at = shown_at = time.monotonic()
    batches = stream.batches()
    for batch in batches:
        exchanges += batch.rows["exchanges"] if batch is not None else 0
        now = time.monotonic()
        expected = connections + traffic.rounds * SPEAKING
        if now >= shown_at and listener.samples:
            shown_at = now + ROW_SECONDS
            print(f"{now - began:6.0f} s  {listener.samples[-1]}", flush=True)
        if exchanges >= expected and now - began >= seconds:
            break
        if exchanges >= connections and now >= next_at and now - began < seconds:
            next_at = now + every
            traffic.next()
    batches.close()
    first, *samples = listener.samples
    spark.stop()
    return {
        "connections": connections,
        "captures": 1 + traffic.rounds,
        "exchanges": exchanges,
        "first": first._asdict(),
        "median_took_ms": median(sample.took_ms for sample in samples),
        "last": samples[-1]._asdict(),
        "faults": faults(samples, expected, exchanges),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds from one capture to the next")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seen = soak(options.connections, options.seconds, options.every, Path(folder))
    print(json.dumps(seen))
    return 1 if seen["faults"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
