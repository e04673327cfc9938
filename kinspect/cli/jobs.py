"""`read --jobs`: several processes for one reading, which print what one would.

To read and pair is cheap, to decode and print is not. So every process reads and pairs everything, and decodes and
prints only what completes in its own chunks of the input: chunk k is that of process k modulo their number. A token
that goes round through pipes tells whose turn it is to write.

Processes are forked, not spawned: they begin with the options, the open output and all that was loaded and compiled.
Nothing has started a thread by then. The first process is the command's own; it alone handles the end of the capture,
when the others are done.
"""

from __future__ import annotations

import io
import json
import os
import select
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from struct import Struct
from typing import Any, NamedTuple, NoReturn, TextIO

from kinspect.capture import Timeline
from kinspect.cli.interrupt import Interrupt
from kinspect.cli.run import Run, Wanted
from kinspect.errors import KinspectError
from kinspect.model import Block
from kinspect.output import TABLE
from kinspect.output.summary import Tally

CHUNK_BYTES = 256 * 1024
"""Input of a chunk."""
CHUNKS_AHEAD = 4
"""Chunks of its own whose output a process holds, at most, until their turn comes."""
HELD_BYTES = 4 * 1024 * 1024
"""Output that a process holds, at most (and one write more)."""
USEFUL = 8
"""Processes that `--jobs 0` starts at most: with more, nearly all of the time is what each of them has to do."""

NEVER = 1 << 62
_TOKEN = Struct("qq")  # the first chunk not to be read any more, and the signal that asked for it

CHANGED = (
    "the captures changed while they were read, and the output may be wrong at their end;"
    " --jobs 1 reads a capture that is still being written"
)


def processes(asked: int, options: Wanted, timeline: Timeline) -> int:
    """How many processes to read with if `asked` were asked for (0: one a processor).

    One, where the lines depend on those before them (a limit, the days of a table), where the input cannot be read
    twice, or where there is no fork; and never more than there are chunks.
    """
    together = options.values["limit"] is None and options.format_name != TABLE and hasattr(os, "fork")
    # Of what cannot be read twice, the size is not known.
    if not together or timeline.bytes_total is None:
        return 1
    return min(asked or min(_processors(), USEFUL), timeline.bytes_total // CHUNK_BYTES + 1)


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LostError(Exception):
    """Another process ended, and the token with it."""


class Turns:
    """What one of the processes has to write, in its turn.

    `stop`: the first chunk not to be read, once a signal has asked for an end.
    """

    def __init__(self, count: int, interrupt: Interrupt) -> None:
        self.count = count
        self.number = 0
        self.stop = NEVER
        self._interrupt = interrupt
        # The token comes to process n through pipe n.
        self._pipes = [os.pipe() for _ in range(count)]
        self._has_token = False
        # The chunks not written yet, and their output; the last one may be open.
        self._chunks: deque[int] = deque()
        self._output: deque[list[bytes]] = deque()
        self._held = 0
        self._open = False

    def ordered(self, stream: TextIO) -> TextIO:
        """A stream that hands on to `stream` what is written to it, each process's in its turn."""
        self._stream = stream
        # Kept: it would close what is below it when a writer lets go of it.
        self._text = io.TextIOWrapper(
            _Ordered(self, stream),  # type: ignore[type-var]  # what it asks for of a raw stream is there
            encoding=stream.encoding,
            errors=stream.errors,
            write_through=True,
        )
        return self._text

    def join(self, number: int) -> None:
        """This process is the `number`th. Of the pipes it keeps its own ends, so that others see when it ends."""
        self.number = number
        self._has_token = number == 0
        following = (number + 1) % self.count
        for index, (reader, writer) in enumerate(self._pipes):
            if index != number:
                os.close(reader)
            if index != following:
                os.close(writer)
        self._reader, self._writer = self._pipes[number][0], self._pipes[following][1]
        self._arrived = select.poll()
        self._arrived.register(self._reader, select.POLLIN)

    def leave(self) -> None:
        """Close the pipes: who still waits for the token is told that it will not come."""
        os.close(self._reader)
        os.close(self._writer)

    @property
    def mine(self) -> bool:
        """Whether the chunk that was entered is this process's to show."""
        return self._open

    def enter(self, chunk: int) -> None:
        """The reading has come to this chunk; waits if too much of this process's output is waiting already."""
        self._open = False
        self.pass_on()
        if chunk % self.count == self.number:
            while len(self._chunks) >= CHUNKS_AHEAD:
                self._write_first(wait=True)
            self._chunks.append(chunk)
            self._output.append([])
            self._open = True

    def close(self, chunk: int) -> None:
        """All chunks before this one were read. Write what waits; the first process has the last turn, and keeps it."""
        end = -(-chunk // self.count) * self.count
        for empty in range(chunk, end):
            self.enter(empty)
        self._open = False
        if self.number == 0:
            self.enter(end)
        while len(self._chunks) > self._open:
            self._write_first(wait=True)
        if self._open:
            self._take(wait=True)

    def write(self, data: bytes) -> None:
        """Output of the chunk that was entered."""
        self._output[-1].append(data)
        self._held += len(data)
        if self._has_token and len(self._chunks) == 1:
            self._flush()
        elif self._held > HELD_BYTES:
            while len(self._chunks) > 1:
                self._write_first(wait=True)
            self._take(wait=True)
            self._flush()

    def pass_on(self) -> None:
        """Write what can be written without waiting, and hand the token to the next process."""
        while len(self._chunks) > self._open and self._write_first(wait=False):
            pass

    def _write_first(self, wait: bool) -> bool:
        """Write the first chunk, which is complete, and hand the token on; tells whether its turn had come."""
        if not self._take(wait):
            return False
        self._flush()
        self._stream.buffer.flush()
        del self._output[0]
        self._give(self._chunks.popleft())
        return True

    def _flush(self) -> None:
        for data in self._output[0]:
            self._held -= len(data)
            self._stream.buffer.write(data)
        self._output[0].clear()

    def _take(self, wait: bool) -> bool:
        """Whether the token is here, or, with `wait`, when it is. Raises LostError if it never will."""
        if not self._has_token and (wait or self._arrived.poll(0)):
            token = os.read(self._reader, _TOKEN.size)
            if not token:
                raise LostError
            self.stop, number = _TOKEN.unpack(token)
            if self.stop != NEVER:
                self._interrupt.asked = signal.Signals(number)
            self._has_token = True
        return self._has_token

    def _give(self, chunk: int) -> None:
        """Hand on the token with which `chunk` was written."""
        asked = self._interrupt.asked
        if asked and self.stop == NEVER:
            # All processes have to stop at the same place: none is there yet, and each gets the token before it is.
            self.stop = chunk + (CHUNKS_AHEAD + 1) * self.count
        self._has_token = False
        try:
            os.write(self._writer, _TOKEN.pack(self.stop, asked or 0))
        except BrokenPipeError:
            raise LostError from None


class _Ordered(io.RawIOBase):
    """The binary stream below `Turns.ordered`."""

    def __init__(self, turns: Turns, stream: TextIO) -> None:
        self._turns = turns
        self._stream = stream

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, data: Any) -> int:
        self._turns.write(bytes(data))
        return len(data)


class Share(NamedTuple):
    """What a process found in all of the input (`packets`, `lines`), and the counts of what it showed of it."""

    packets: int
    lines: int
    tally: Tally
    unresolved: set[str]
    caps_hit: dict[str, int]

    def fits(self, other: Share) -> bool:
        """Whether both processes read the same."""
        return (self.packets, self.lines) == (other.packets, other.lines)

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "tally": asdict(self.tally), "unresolved": list(self.unresolved)}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Share:
        tally = Tally(**told["tally"])
        tally.error_counts = {int(code): times for code, times in tally.error_counts.items()}
        return cls(**{**told, "tally": tally, "unresolved": set(told["unresolved"])})


class _Worker:
    """A forked process, as the first one sees it."""

    def __init__(self, pid: int, reader: int) -> None:
        self._pid = pid
        self._reader = reader
        self.status: int | None = None

    def answer(self) -> Share | BaseException | None:
        """What it found or what ended it, when it has ended; None if it did not get to tell."""
        with open(self._reader, "rb") as pipe:
            text = pipe.read()
        _, self.status = os.waitpid(self._pid, 0)
        if self.status or not text:
            return None
        told = json.loads(text)
        if "error" not in told:
            return Share.from_json(told)
        kind, *arguments = told["error"]
        error = _ERRORS[kind](*arguments)
        error.add_note(told["where"])
        return error

    def end(self) -> None:
        """End it, if it has not ended."""
        if self.status is None:
            os.kill(self._pid, signal.SIGKILL)
            _, self.status = os.waitpid(self._pid, 0)


def run_shared(run: Run, blocks: Iterator[Block], turns: Turns) -> None:
    """What `Run.run` does, with as many processes as there are turns for.

    Raises KinspectError if one of them died or if not all of them read the same, and what they raise.
    """
    run.prepare()
    if run.options.keylog is not None:
        # The processes would see what is written to it now at different times.
        run.options.keylog.close()
    run.stream.flush()
    workers: list[_Worker] = []
    try:
        for number in range(1, turns.count):
            workers.append(_fork(run, blocks, turns, number))
        turns.join(0)
        try:
            share = _read_share(run, blocks, turns)
            turns.leave()
        except LostError:
            turns.leave()
            _merge(run, None, workers)
        _merge(run, share, workers)
        run.finish()
    finally:
        for worker in workers:
            worker.end()
        run.stop()


def _fork(run: Run, blocks: Iterator[Block], turns: Turns, number: int) -> _Worker:
    reader, writer = os.pipe()
    try:
        pid = os.fork()
    except OSError as error:
        raise KinspectError(f"--jobs: cannot start a process: {error.strerror}") from None
    if pid:
        os.close(writer)
        return _Worker(pid, reader)
    _work(run, blocks, turns, number, writer)


def _work(run: Run, blocks: Iterator[Block], turns: Turns, number: int, writer: int) -> NoReturn:
    """A forked process's life. It must not return into what the first process goes on with."""
    try:
        turns.join(number)
        run.follow()
        told = _told(run, blocks, turns)
        with open(writer, "wb") as pipe:
            pipe.write(told)
    finally:
        os._exit(0)


def _told(run: Run, blocks: Iterator[Block], turns: Turns) -> bytes:
    """What a forked process answers: its share, or what ended it; nothing if that was the end of another."""
    try:
        return json.dumps(_read_share(run, blocks, turns).to_json()).encode()
    except LostError:
        return b""
    except BaseException as error:
        where = f"in process {turns.number} of --jobs: {traceback.format_exc()}"
        return json.dumps({"error": _carried(error), "where": where}).encode()


def _carried(error: BaseException) -> list[Any]:
    """An exception as JSON: what makes it again, a key of `_ERRORS`, and its arguments."""
    if isinstance(error, KeyboardInterrupt):
        return ["interrupt"]
    if isinstance(error, OSError):
        return ["system", error.errno, error.strerror]
    if isinstance(error, KinspectError):
        return ["known", str(error)]
    return ["internal", repr(error)]


class ElsewhereError(Exception):
    """What another process raised; it looks like that."""

    def __repr__(self) -> str:
        return str(self)


_ERRORS: dict[str, Callable[..., BaseException]] = {
    "interrupt": KeyboardInterrupt,
    "system": OSError,
    "known": KinspectError,
    "internal": ElsewhereError,
}


def _read_share(run: Run, blocks: Iterator[Block], turns: Turns) -> Share:
    """Read everything, show this process's part of it."""
    counts = run.inspector.counts
    shown: dict[str, int] = {}
    lines = 0
    entered = -1
    for chunk, block in _chunks(blocks):
        if chunk != entered:
            if chunk >= turns.stop:
                break
            turns.enter(chunk)
            entered = chunk
        found = run.take(block)
        lines += len(found)
        if turns.mine:
            # Caps that reassembly and pairing reach, every process counts; those of decoding, only who shows it.
            before = dict(counts.caps_hit)
            run.show(found)
            for cap, hits in counts.caps_hit.items():
                if more := hits - before.get(cap, 0):
                    shown[cap] = shown.get(cap, 0) + more
        turns.pass_on()
    turns.close(entered + 1)
    return Share(counts.packets, lines, run.tally, run.inspector.names.unresolved, shown)


def _chunks(blocks: Iterator[Block]) -> Iterator[tuple[int, Block]]:
    """Each block with the number of its chunk."""
    chunk = filled = 0
    for block in blocks:
        if filled >= CHUNK_BYTES:
            chunk += 1
            filled = 0
        filled += block.ends[-1] - block.starts[0]
        yield chunk, block


def _merge(run: Run, own: Share | None, workers: Sequence[_Worker]) -> None:
    """Add the counts of the other processes. Raises what ended one of them, or KinspectError if they do not fit this
    one's; `own` is None if that is certain."""
    answers = [worker.answer() for worker in workers]
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    for worker in workers:
        if worker.status is not None and os.WIFSIGNALED(worker.status):
            name = signal.Signals(os.WTERMSIG(worker.status)).name
            raise KinspectError(f"a process of --jobs was ended by {name}; the output is not complete")
    for share in answers:
        if own is None or not isinstance(share, Share) or not share.fits(own):
            raise KinspectError(CHANGED)
        run.tally.add(share.tally)
        run.inspector.names.add_unresolved(share.unresolved)
        counts = run.inspector.counts
        for cap, hits in share.caps_hit.items():
            counts.caps_hit[cap] = counts.caps_hit.get(cap, 0) + hits
