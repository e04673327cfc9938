"""`read --jobs`: several processes for one reading, which print what one would.

A connection's lines depend on its own packets. So every worker reads and dissects all packets, and decodes and formats
the lines of its own connections. What the run shares goes through the command's own process, which inspects nothing:

- After each chunk of the input a worker tells which lines came, by place, key and size, and which names they told.
- With what all workers told of the chunk, the first process puts the lines in order, as one inspector does, and gives
  each worker its turn: the names of all, and which of its lines are ready, in order.
- A worker formats those and sends their text, which is written in the order of all lines. Until then it may read on.

Workers are forked, not spawned: they begin with the options and all that was loaded and compiled. Nothing has started a
thread by then.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import traceback
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import chain, pairwise
from operator import itemgetter
from typing import Any, NoReturn
from zlib import crc32

import cbor2

from kinspect.capture import Timeline
from kinspect.capture.timeline import note_capture
from kinspect.cli.options import EXCHANGE
from kinspect.cli.run import Run, Wanted, make_inspector
from kinspect.errors import CaptureError, KinspectError, TruncatedCaptureError, UnreadableError
from kinspect.kafka.exchange import Exchange
from kinspect.kafka.order import Line, LineOrder
from kinspect.kafka.view import View
from kinspect.model import Block, Counts
from kinspect.output import JSONL, NONE, NOTHING
from kinspect.output.jsonl import text
from kinspect.output.summary import Tally
from kinspect.pipeline import summary_line

CHUNK_BYTES = 512 * 1024
"""Input of a chunk, or a little more."""
CHUNKS_AHEAD = 4
"""Chunks that a worker reads, at most, beyond those it had its turn for."""
TEXT_BYTES = 64 * 1024
"""Text that a worker sends at once, or a line more."""
WAITING_BYTES = 4 * 1024 * 1024
"""Text of a worker that waits for others'; with more it has to wait itself."""
LARGE = 64 * 1024 * 1024
"""Input from which on several processes are used unasked."""
USEFUL = 8
"""Processes that are used unasked, at most."""

SCANNED, TEXT, DONE, FAILED, TURN, STOP = range(6)
_HEAD = struct.Struct("<BQ")  # kind and size of a message
# Of a line its place, the parts of its key (the time in two, as there is no limit to it), its size, and its number
# among all lines: modulo the number of workers it tells whose it is.
_ENTRY = struct.Struct("<QqQQQQQQ")
_LOW, _LOW_BITS = (1 << 64) - 1, 64
_RECEIVED = 96 * 1024
_POLL_MS = 100

CHANGED = (
    "the captures changed while they were read, and the output may be wrong at their end;"
    " --jobs 1 reads a capture that is still being written"
)


def processes(asked: int | None, options: Wanted, timeline: Timeline) -> int:
    """How many processes to read with if `asked` were asked for (0: one a processor; None: the same for large inputs).

    One, where lines depend on those before them (a limit, the numbers and days of what is for people), where the input
    cannot be read twice, or where there is no fork; and never more than there are chunks.
    """
    together = (
        options.values["limit"] is None and options.format_name in (JSONL, NONE) and hasattr(os, "fork")
    )
    # Of what cannot be read twice, the size is not known.
    if not together or timeline.bytes_total is None or (asked is None and timeline.bytes_total < LARGE):
        return 1
    return min(asked or min(_processors(), USEFUL), timeline.bytes_total // CHUNK_BYTES + 1)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_shared(run: Run, blocks: Iterator[Block], count: int) -> dict[str, Any]:
    """What `Run.run` does, with so many workers. Out: the `summary` line's object.

    Raises KinspectError if one of them died or if not all of them read the same, and what they raise; LateError if a
    signal leaves them no time.
    """
    run.stream.flush()
    if run.options.keylog is not None:
        # The workers would see what is written to it now at different times.
        run.options.keylog.close()
    workers: list[_Worker] = []
    try:
        for number in range(count):
            workers.append(_fork(run, blocks, number, count, workers))
        with run.interrupt.breakable():
            return _Merge(run, workers).run()
    finally:
        for worker in workers:
            worker.end()
        run.stop()


def _fork(run: Run, blocks: Iterator[Block], number: int, count: int, others: list[_Worker]) -> _Worker:
    here, there = socket.socketpair()
    try:
        pid = os.fork()
    except OSError as error:
        raise KinspectError(f"--jobs: cannot start a process: {error.strerror}") from None
    if pid:
        there.close()
        here.setblocking(False)
        return _Worker(pid, here)
    # It must not return into what the first process goes on with.
    try:
        # Only the first process has a copy of the other ends: with it, all of them end.
        for end in (here, *(other.socket for other in others)):
            end.close()
        # The first process says when it is over.
        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, signal.SIG_IGN)
        _work(run, blocks, number, count, _Link(there))
    finally:
        os._exit(0)


# ---------------------------------------------------------------------- the worker's side


class _LostError(Exception):
    """The first process is gone."""


class _Link:
    """A worker's end of the connection with the first process."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._arrived = select.poll()
        self._arrived.register(end, select.POLLIN)

    def send(self, kind: int, *parts: bytes) -> None:
        """Raises _LostError."""
        try:
            self._socket.sendall(_HEAD.pack(kind, sum(map(len, parts))))
            for part in parts:
                self._socket.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            raise _LostError from None

    def receive(self, wait: bool) -> tuple[int, bytes] | None:
        """The next message, None if there is none yet. Raises _LostError."""
        if not wait and not self._arrived.poll(0):
            return None
        kind, size = _HEAD.unpack(self._exactly(_HEAD.size))
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise _LostError
            data += more
        return bytes(data)


def _work(run: Run, blocks: Iterator[Block], number: int, count: int, link: _Link) -> None:
    """A worker's life."""
    try:
        try:
            share = _Reader(run, number, count, link).read(blocks)
            link.send(DONE, cbor2.dumps(share))
        except _LostError:
            raise
        except BaseException as error:
            where = f"in process {number} of --jobs: {traceback.format_exc()}"
            link.send(FAILED, cbor2.dumps([*_carried(error), where]))
    except _LostError:
        pass


class _Reader:
    """Reads everything, and shows the lines of one worker's connections."""

    def __init__(self, run: Run, number: int, count: int, link: _Link) -> None:
        self._run = run
        self._link = link
        run.inspector = make_inspector(
            run.options, run.packets, takes=lambda pair: crc32(pair) % count == number, ordered=False
        )
        self._texts: list[bytes] = []
        run.writer = _Texts(self._texts, run.options.view) if run.options.format_name == JSONL else NOTHING
        run.follow()
        run.prepare()
        # By number, in the order in which they came; None for what is not shown.
        self._lines: dict[int, Line | None] = {}
        self._came, self._count = number, count
        self._scanned = self._turns = 0
        self._stop: int | None = None

    def read(self, blocks: Iterator[Block]) -> dict[str, Any]:
        """All of them, or as far as the first process wants it. Out: this worker's share of the summary."""
        run, filled = self._run, 0
        for block in blocks:
            if filled >= CHUNK_BYTES:
                filled = 0
                self._tell(False)
                if not self._may_read():
                    break
            filled += block.ends[-1] - block.starts[0]
            run.take(block)
        run.finish()
        self._tell(True)
        while self._turns < self._scanned:
            self._hear(True)
        return _share(run)

    def _tell(self, last: bool) -> None:
        """What came with the chunk that was read."""
        run, inspector = self._run, self._run.inspector
        lines, came, pack = self._lines, self._came, _ENTRY.pack
        shown = EXCHANGE in inspector.emit
        entries = []
        for place, size, line in inspector.arrived():
            time, frame, first_frame, number = line.key
            entries.append(
                pack(place, time >> _LOW_BITS, time & _LOW, frame, first_frame, number, size, came)
            )
            lines[came] = line if shown or not isinstance(line, Exchange) else None
            came += self._count
        self._came = came
        self._scanned += 1
        counts = inspector.counts
        told = (
            [counts.packets, counts.tcp_segments, last],
            run.packets.bytes_read,
            b"".join(entries),
            inspector.told.take_new(),
        )
        self._link.send(SCANNED, cbor2.dumps(told))

    def _may_read(self) -> bool:
        """Whether there is to be another chunk; waits if this worker is too far ahead."""
        while self._hear(self._scanned - self._turns >= CHUNKS_AHEAD):
            pass
        return self._stop is None or self._scanned < self._stop

    def _hear(self, wait: bool) -> bool:
        """Does what the first process says, if it says something."""
        message = self._link.receive(wait)
        if message is None:
            return False
        kind, data = message
        if kind == STOP:
            self._stop = cbor2.loads(data)
            return True
        names, nodes, ready = cbor2.loads(data)
        learned = self._run.inspector.names
        for topic_id, name, key in names:
            learned.learn(topic_id, name, tuple(key))
        for ip, port, node_id, key in nodes:
            learned.learn_node(ip, port, node_id, tuple(key))
        self._turns += 1
        self._show(array("Q", ready))
        return True

    def _show(self, ready: array[int]) -> None:
        """Formats these lines and sends their text."""
        texts, show, take = self._texts, self._run.show_one, self._lines.pop
        ends = array("Q")
        size = 0
        for number in ready:
            line = take(number)
            if line is not None:
                before = len(texts)
                show(line)
                if len(texts) > before:
                    size += len(texts[before])
            ends.append(size)
            if size >= TEXT_BYTES:
                self._send(ends)
                ends, size = array("Q"), 0
        if ends:
            self._send(ends)

    def _send(self, ends: array[int]) -> None:
        self._link.send(TEXT, len(ends).to_bytes(8, "little") + ends.tobytes(), b"".join(self._texts))
        self._texts.clear()


class _Texts:
    """The writer of lines that are kept."""

    def __init__(self, texts: list[bytes], view: View) -> None:
        self._texts = texts
        self._view = view

    def exchange(self, exchange: Exchange) -> None:
        self._texts.append(text(self._view.exchange(exchange)))

    def line(self, line: dict[str, Any]) -> None:
        self._texts.append(text(line))

    def flush(self) -> None:
        """Each line is whole."""


def _share(run: Run) -> dict[str, Any]:
    """What a worker counted, as CBOR can hold it."""
    counts = run.inspector.counts
    note_capture(counts, run.packets)
    return {
        "counts": asdict(counts),
        "totals": run.inspector.totals(),
        "tally": asdict(run.tally),
        "unresolved": list(run.inspector.names.unresolved),
        "errors": [(type(error).__name__, str(error), error.unread) for error in run.packets.errors],
    }


_INPUT_ERRORS = {kind.__name__: kind for kind in (CaptureError, TruncatedCaptureError, UnreadableError)}


def _carried(error: BaseException) -> list[Any]:
    """What makes an exception again: a key of `_ERRORS`, and the arguments."""
    if isinstance(error, OSError):
        return ["system", [error.errno, error.strerror]]
    if isinstance(error, KinspectError):
        return ["known", [str(error)]]
    return ["internal", [repr(error)]]


class ElsewhereError(Exception):
    """What a worker raised; it looks like that."""

    def __repr__(self) -> str:
        return str(self)


_ERRORS: dict[str, Callable[..., BaseException]] = {
    "system": OSError,
    "known": KinspectError,
    "internal": ElsewhereError,
}

# ---------------------------------------------------------------------- the first process's side


class _Worker:
    """A worker, as the first process sees it."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self._pid = pid
        self.socket = end
        self._head = b""
        self._kind = self._wanted = 0
        self._received: list[bytes] = []
        self.to_send = bytearray()
        self.scanned: deque[Any] = deque()
        self.texts: deque[memoryview] = deque()
        self.waiting = 0
        """Bytes of them."""
        self.share: dict[str, Any] | None = None
        self._status: int | None = None

    def status(self) -> int:
        """What it ended with, when it has ended."""
        if self._status is None:
            _, self._status = os.waitpid(self._pid, 0)
        return self._status

    def end(self) -> None:
        """End it, if it has not ended."""
        self.socket.close()
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            self.status()

    def messages(self) -> Iterator[tuple[int, bytes]]:
        """Those that have come whole. Raises _LostError behind the last one."""
        while True:
            try:
                data = self.socket.recv(min(self._wanted or _HEAD.size - len(self._head), _RECEIVED))
            except BlockingIOError:
                return
            if not data:
                raise _LostError
            if self._wanted:
                self._received.append(data)
                self._wanted -= len(data)
                if not self._wanted:
                    whole = b"".join(self._received)
                    self._received.clear()
                    yield self._kind, whole
                continue
            self._head += data
            if len(self._head) == _HEAD.size:
                self._kind, self._wanted = _HEAD.unpack(self._head)
                self._head = b""

    def take_text(self, data: bytes) -> None:
        """The text of its next lines."""
        begin = 8 + 8 * int.from_bytes(data[:8], "little")
        view = memoryview(data)
        ends, text = view[8:begin].cast("Q").tolist(), view[begin:]
        self.texts += [text[at:end] for at, end in pairwise([0, *ends])]
        self.waiting += len(text)


class _Merge:
    """Gives the workers their turns, and writes what they send in the order of the run."""

    def __init__(self, run: Run, workers: list[_Worker]) -> None:
        self._run = run
        self._workers = workers
        self._order: LineOrder[int] = LineOrder()  # of the numbers of lines
        self._due: deque[int] = deque()  # the workers of the lines to be written next
        self._turns = 0
        self._last = False
        self._asked = False
        self._poll = select.poll()
        self._handlers: dict[int, Callable[[_Worker, bytes], None]] = {
            SCANNED: lambda worker, data: worker.scanned.append(cbor2.loads(data)),
            TEXT: _Worker.take_text,
            DONE: self._done,
            FAILED: self._failed,
        }

    def run(self) -> dict[str, Any]:
        """To the end. Out: the `summary` line's object."""
        workers = {worker.socket.fileno(): worker for worker in self._workers}
        while any(worker.share is None for worker in self._workers):
            self._watch()
            for end, events in self._poll.poll(_POLL_MS):
                self._exchange(workers[end], events)
            while all(worker.scanned for worker in self._workers):
                self._turn([worker.scanned.popleft() for worker in self._workers])
            self._write()
            self._stop()
        return self._summary([worker.share or {} for worker in self._workers])

    def _watch(self) -> None:
        """Hears whom it has room for, and sends what there is to be sent."""
        for worker in self._workers:
            events = select.POLLIN if worker.waiting < WAITING_BYTES and worker.share is None else 0
            self._poll.register(worker.socket, events | (select.POLLOUT if worker.to_send else 0))

    def _exchange(self, worker: _Worker, events: int) -> None:
        try:
            if events & select.POLLOUT:
                sent = worker.socket.send(worker.to_send)
                del worker.to_send[:sent]
            if events & ~select.POLLOUT and worker.share is None:
                for kind, message in worker.messages():
                    self._handlers[kind](worker, message)
                    if kind == DONE or worker.waiting >= WAITING_BYTES:
                        break
        except (BrokenPipeError, ConnectionResetError, _LostError):
            self._lost(worker)

    def _done(self, worker: _Worker, data: bytes) -> None:
        worker.share = cbor2.loads(data)

    def _failed(self, worker: _Worker, data: bytes) -> NoReturn:
        kind, arguments, where = cbor2.loads(data)
        error = _ERRORS[kind](*arguments)
        error.add_note(where)
        raise error

    def _lost(self, worker: _Worker) -> NoReturn:
        status = worker.status()
        how = f"by {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else "early"
        raise KinspectError(f"a process of --jobs was ended {how}; the output is not complete")

    def _turn(self, told: list[Any]) -> None:
        """All workers told of a chunk: puts its lines in order, and lets the workers go on."""
        run, order = self._run, self._order
        agreed, bytes_read, _, _ = told[0]
        if self._last or any(each[0] != agreed for each in told):
            raise KinspectError(CHANGED)
        packets, segments, self._last = agreed
        if packets:
            run.begin()
        if run.progress is not None:
            run.progress.update(bytes_read)
        entries = [entry for _, _, packed, _ in told for entry in _ENTRY.iter_unpack(packed)]
        entries.sort(key=itemgetter(0))
        for place, high, low, frame, first_frame, number, size, line in entries:
            order.add((high, low, frame, first_frame, number), place, size, line)  # type: ignore[arg-type]
        order.pass_to(segments)
        if self._last:
            order.rest()
        ready = [array("Q") for _ in told]
        lines = order.ready()
        owners = [line % len(told) for line in lines]
        for owner, line in zip(owners, lines, strict=True):
            ready[owner].append(line)
        self._due += owners
        names = [*chain.from_iterable(new[0] for _, _, _, new in told)]
        nodes = [*chain.from_iterable(new[1] for _, _, _, new in told)]
        for worker, own in zip(self._workers, ready, strict=True):
            self._send(worker, TURN, [names, nodes, own.tobytes()])
        self._turns += 1

    def _send(self, worker: _Worker, kind: int, values: Any) -> None:
        data = cbor2.dumps(values)
        worker.to_send += _HEAD.pack(kind, len(data)) + data

    def _write(self) -> None:
        """The texts that are there, as far as none is missing before them."""
        due, workers = self._due, self._workers
        ready = []
        while due and (texts := workers[due[0]].texts):
            text = texts.popleft()
            workers[due.popleft()].waiting -= len(text)
            ready.append(text)
        if ready:
            stream = self._run.stream.buffer
            stream.write(b"".join(ready))
            stream.flush()

    def _stop(self) -> None:
        """After a signal all workers end at the same chunk: none is there yet, and each hears of it before it is."""
        if self._run.interrupt.asked and not self._asked:
            self._asked = True
            for worker in self._workers:
                self._send(worker, STOP, self._turns + CHUNKS_AHEAD)

    def _summary(self, shares: list[dict[str, Any]]) -> dict[str, Any]:
        """What all of them found, in the run's own counts, and the `summary` line's object."""
        run, first = self._run, shares[0]
        run.packets.errors[:] = [_input_error(*error) for error in first["errors"]]
        run.inspector.counts = counts = Counts(**first["counts"])
        if not run.nothing_read:
            run.begin()
        totals: dict[str, Any] = {}
        unresolved: set[str] = set()
        for share in shares:
            _add(totals, share["totals"])
            run.tally.add(Tally(**share["tally"]))
            unresolved.update(share["unresolved"])
        run.tally.first, run.tally.last = first["tally"]["first"], first["tally"]["last"]
        # These every worker scans.
        for cap in FRAGMENT_CAPS & totals["caps_hit"].keys():
            totals["caps_hit"][cap] = first["totals"]["caps_hit"][cap]
        totals["late_lines"] = self._order.late
        return summary_line(run.inspector.files, counts, totals, len(unresolved))


FRAGMENT_CAPS = frozenset({"fragments", "fragment_bytes"})


def _input_error(kind: str, message: str, unread: bool) -> CaptureError:
    error = _INPUT_ERRORS[kind](message)
    error.unread = unread
    return error


def _add(totals: dict[str, Any], more: dict[str, Any]) -> None:
    """Adds up counts, and counts of counts."""
    for key, value in more.items():
        if isinstance(value, dict):
            _add(totals.setdefault(key, {}), value)
        else:
            totals[key] = totals.get(key, 0) + value
