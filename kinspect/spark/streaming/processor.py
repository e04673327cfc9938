"""State of a stream: the islands of a shard, each as bytes, and their work in a micro-batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, cast

import cbor2
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    MapState,
    StatefulProcessor,
    StatefulProcessorHandle,
    ValueState,
)

from kinspect.kafka.exchange.lines import Line
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.model import FRAME_BITS, added
from kinspect.pipeline import Inspector
from kinspect.protocol import schema
from kinspect.run import IslandRun
from kinspect.spark.batch import end_of_packets
from kinspect.spark.chunkmerge import NEVER, ChunkMerge
from kinspect.spark.shuffle import EARLIEST, REPORT, SORTED_BY, Chunk
from kinspect.spark.splits import LAST_TIMES, SplitReport
from kinspect.spark.streaming.turns import TURNS, Turns
from kinspect.tables.request import Request
from kinspect.tables.taggedrows import NamedRows, TaggedRows
from kinspect.tls.keylog import KeyLog

PIECE = "piece binary"
SECRETS_KEPT = 50_000
"""Most lines of key logs that a shard keeps; a connection of TLS 1.3 has five."""
FILES_KEPT = 1000
"""Most file names that a shard keeps, for messages under way."""
_BEGIN: Final = {"batch": 0, "files": {}, "start": None, "last": [], "clock": EARLIEST}
"""What a shard knows of the captures before the first one."""
LearnedTopic = tuple[str, str, LineKey]
"""Topic id, topic name, and the key of the line that reported it."""
LearnedNode = tuple[str, int, int, LineKey]
"""IP address, port, node id, and the key of the line that reported it."""


class Shard(StatefulProcessor):  # type: ignore[misc]
    """Decodes the islands of a shard: chunks in, rows of tables out as bytes of Arrow batches."""

    def __init__(self, request: Request) -> None:
        self._request = request

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._states = handle.getMapState("islands", "island binary", "state binary, last bigint")
        self._turns = Turns(handle.getMapState("turns", *TURNS), self._request.caps.idle_timeout_ns)
        self._waiting = handle.getMapState("waiting", "island binary", "rows binary")
        # What all islands of a shard need is read in each micro-batch: in few entries, each a part of a round trip.
        self._names = handle.getValueState("names", "told binary")
        self._secrets = handle.getMapState("secrets", "number bigint", "lines binary")
        self._shared = handle.getValueState("shared", "told binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        schema.lay_over(self._request.definitions)
        control, of_island = self._sorted(rows)
        batch = ShardBatch(self._request, {**_BEGIN, **_told(self._shared, {})}, control)
        names = batch.names
        names.add(*_told(self._names, ((), ())))
        names.take_new()
        for told in batch.heard:
            names.add(*told)
        heard = names.take_new()
        self._add_secrets(batch)
        waiting = _keys(self._waiting)
        for island in sorted(of_island.keys() | waiting | self._idle(batch)):
            for piece in self._island(batch, island, of_island.get(island, []), island in waiting):
                yield Row(piece=piece)
        self._turns.store()
        learned = names.take_new()
        if any(heard) or any(learned):
            self._names.update((cbor2.dumps(names.learned()),))
        for made in batch.finish(learned, first=not key[0]):
            yield Row(piece=made)
        self._shared.update((cbor2.dumps(batch.shared),))

    def _sorted(self, rows: Iterator[Row]) -> tuple[list[dict[str, Any]], dict[bytes, list[Chunk]]]:
        control: list[dict[str, Any]] = []
        of_island: dict[bytes, list[Chunk]] = {}
        for row in rows:
            chunk = Chunk._make(_plain(row[name]) for name in Chunk._fields)
            if chunk.kind == REPORT:
                control.append(cbor2.loads(chunk.heads))
            else:
                of_island.setdefault(chunk.island, []).append(chunk)
        return control, of_island

    def _idle(self, batch: ShardBatch) -> set[bytes]:
        """Islands that end without new packets: all at the end of the stream."""
        come = self._turns.take(NEVER[0] if batch.drain else batch.clock)
        if batch.drain:
            return _keys(self._states)
        idle: set[bytes] = set()
        for island in come:
            state = self._state(island)
            if state is not None and self._due(state[1]) <= batch.clock:
                idle.add(island)
            elif state is not None:
                self._turns.add(island, self._due(state[1]))
        return idle

    def _state(self, island: bytes) -> tuple[bytes, int] | None:
        """What was kept of an island, and the time of its last packet."""
        found = _value(self._states, island)
        return found and (bytes(found[0]), int(found[1]))

    def _due(self, last: int) -> int:
        return last + self._request.caps.idle_timeout_ns

    def _island(self, batch: ShardBatch, island: bytes, rows: list[Chunk], waits: bool) -> Iterator[bytes]:
        """Takes an island from its state through the new packets, and stores its state again. `waits`: some packets
        wait for others."""
        # Each file is one split.
        merge = ChunkMerge(defaultdict(lambda: (0, EARLIEST)), batch.until)
        if waits:
            before = bytes(self._waiting.getValue((island,))[0])
            rows = [*map(Chunk._make, cbor2.loads(before)), *rows]
        rows.sort(key=attrgetter(*SORTED_BY))
        run = IslandRun(merge.segments(iter(rows)), batch.inspector(), batch.end)
        state = self._state(island)
        if state is not None:
            yield from batch.add(run.resume(state[0]))
            run.last = state[1]
        for lines in run.fed():
            yield from batch.add(lines)
        rest = [row._replace(island=island) for row in merge.rest()]
        if rest:
            self._waiting.updateValue((island,), (cbor2.dumps(rest),))
        elif waits:
            self._waiting.removeKey((island,))
        last = EARLIEST if run.last is None else run.last
        if batch.drain or self._due(last) <= batch.clock:
            yield from batch.add(run.rest())
            kept = None
        else:
            kept = dict(run.inspector.suspend()).get(island)
        if kept:
            self._states.updateValue((island,), (kept, last))
        elif state is not None:
            self._states.removeKey((island,))
        if kept and (state is None or self._due(state[1]) <= batch.clock):
            self._turns.add(island, self._due(last))
        batch.count(run.inspector, merge)

    def _add_secrets(self, batch: ShardBatch) -> None:
        """Adds new TLS secrets to the state, and gives the latest `SECRETS_KEPT` to the micro-batch."""
        new = {line for text in batch.new_secrets for line in text.splitlines()}
        before = {number: bytes(text).splitlines() for (number,), (text,) in _items(self._secrets)}
        known = {number: [line for line in before[number] if line not in new] for number in sorted(before)}
        known[batch.shared["batch"]] = sorted(new)
        gone = max(sum(map(len, known.values())) - SECRETS_KEPT, 0)
        batch.hit("tls_secrets", gone)
        for number, lines in known.items():
            kept = lines[gone:]
            gone = max(gone - len(lines), 0)
            text = b"\n".join(kept)
            batch.keylog.add(text)
            if kept and kept != before.get(number):
                self._secrets.updateValue((number,), (text,))
            elif not kept and number in before:
                self._secrets.removeKey((number,))


class ShardBatch:
    """State that the islands of a shard share in a micro-batch."""

    def __init__(self, request: Request, shared: dict[str, Any], control: list[dict[str, Any]]) -> None:
        self._request = request
        self.shared = shared
        self.drain = False
        self._scan: dict[str, Any] = {"captures": 0, "counts": {}}
        """Sums of the captures: their number and counts."""
        self._errors: list[Any] = []
        self.until = NEVER
        self.new_secrets: list[bytes] = []
        self.heard: list[tuple[list[LearnedTopic], list[LearnedNode]]] = []
        """Topic names and node ids that each shard learned in the previous micro-batch."""
        self._files = _Files(shared["files"])
        self._reports: list[SplitReport] = []
        for told in control:
            if "report" in told:
                self._reports.append(SplitReport.from_bytes(told["report"]))
            else:
                self._take(told)
        self._see()
        self.keylog = KeyLog()
        self.names = request.known_names()
        self._made = TaggedRows(request, shared["start"])

    def _take(self, told: dict[str, Any]) -> None:
        self.shared["batch"] = told["batch"]
        files = self._files
        files.update(told["files"])
        self.shared["files"] = {number: files[number] for number in sorted(files)[-FILES_KEPT:]}
        self.drain = told["drain"]
        self._errors = told["errors"]
        self.until = NEVER if told["until"] is None else (told["until"], -1)
        self.heard = told["told"]
        if told["secrets"]:
            self.new_secrets.append(told["secrets"].encode())

    def _see(self) -> None:
        """Takes secrets, counts, clock and end of the run from the reports."""
        shared = self.shared
        last = [tuple(packet) for packet in shared["last"]]
        for report in sorted(self._reports, key=lambda report: report.split):
            self.new_secrets += report.secrets
            self._scan = added(self._scan, {"captures": 1, "counts": report.counts.to_dict()})
            self._errors += [report.error] if report.error else []
            if report.first_time is not None:
                shared["start"] = report.first_time if shared["start"] is None else shared["start"]
            frame = (report.file << FRAME_BITS) + report.packets
            last += [(turn, frame, time) for turn, time in report.last]
        shared["last"] = sorted(last, key=lambda packet: packet[:2])[-LAST_TIMES:]
        reached = min((report.latest for report in self._reports if report.packets), default=EARLIEST)
        before = shared["clock"]
        shared["clock"] = max(before, min(reached, self.until[0]))
        # Their next packets show whether connections were silent, or the captures' clock was set forward.
        jumped = shared["clock"] - before >= self._request.caps.idle_timeout_ns
        self.clock = before if jumped else shared["clock"]
        self.end = end_of_packets(shared["last"], self._request.caps.idle_timeout_ns)

    def inspector(self) -> Inspector:
        """An inspector for one island."""
        return self._request.inspector(
            self.names, self.keylog, self._made.emit, cast(Sequence[str], self._files)
        )

    def add(self, lines: Iterable[Line]) -> Iterator[bytes]:
        """Full batches of the rows of lines, as bytes."""
        return map(_ipc, self._made.add(lines))

    def count(self, inspector: Inspector, merge: ChunkMerge) -> None:
        self.hit("merge_bytes", int(merge.early > 0))
        self._made.totals = added(self._made.totals, inspector.totals())

    def hit(self, cap: str, times: int) -> None:
        self._made.totals = added(self._made.totals, {"caps_hit": {cap: times} if times else {}})

    def finish(self, learned: tuple[list[LearnedTopic], list[LearnedNode]], first: bool) -> Iterator[bytes]:
        """The remaining rows and a summary. All shards have the same counts of captures; the `first` reports them."""
        self._made.unresolved = self.names.unresolved
        yield from map(_ipc, self._made.rest())
        scan = {**self._scan, "errors": self._errors} if first else {}
        yield _ipc(self._made.summary(batch=self.shared["batch"], told=learned, **scan))


class _Files(dict[int, str]):
    """Names of files by number; a forgotten file is called `file` and its number."""

    def __missing__(self, number: int) -> str:
        return f"file {number}"


def unpacked(pieces: Iterable[pa.RecordBatch]) -> Iterator[NamedRows]:
    """Named rows from the bytes that shards gave."""
    for batch in pieces:
        for piece in batch.column(0).to_pylist():
            with pa.ipc.open_stream(piece) as reader:
                for rows in reader:
                    yield rows.schema.names[0], rows.column(0)


def _ipc(rows: NamedRows) -> bytes:
    batch = pa.RecordBatch.from_arrays([rows[1]], names=[rows[0]])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def _told(state: ValueState, otherwise: Any) -> Any:
    return cbor2.loads(bytes(state.get()[0])) if state.exists() else otherwise


def _items(state: MapState) -> Iterator[Any]:
    """Keys and values of a state, which may be empty."""
    return state.iterator() if state.exists() else iter(())


def _keys(state: MapState) -> set[bytes]:
    keys = state.keys() if state.exists() else ()
    return {bytes(island) for (island,) in keys}


def _value(state: MapState, island: bytes) -> tuple[Any, ...] | None:
    return tuple(state.getValue((island,))) if state.containsKey((island,)) else None


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value
