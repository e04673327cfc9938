"""Work on what a capture holds, with limits that hold: in a process of its own, which the kernel ends when it has taken
its processor time. What libraries do cannot be interrupted from within."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from kinspect.background import OWN, Channel, Child, LostError
from kinspect.errors import KinspectError

_ITEMS, _DONE = OWN, OWN + 1


class TimedWork:
    """Does `work` on items, in `seconds` of processor time for those that are given at once, and if that is not enough,
    for each. `fail` is called for an item that takes longer; `retries`: how often each was tried alone.

    `load` is called for each before, and may take its time: it loads libraries, which is no item's fault.

    `memory`: bytes that the process may take beyond those that it begins with, on Linux; what ends it then is an item's
    fault.
    """

    def __init__(
        self,
        who: str,
        work: Callable[[Any], Any],
        seconds: float,
        fail: Callable[[Any], None],
        memory: int | None = None,
        load: Callable[[Any], None] = lambda _: None,
    ) -> None:
        self._load = load
        self._who, self._work, self._seconds, self._fail, self._memory = who, work, seconds, fail, memory
        self.retries = 0
        self._child: Child | None = None

    def do(self, items: Sequence[Any]) -> list[Any]:
        """The result of each item; None where it took too long. Both are of types that CBOR has."""
        done = self._try(items)
        if done is not None:
            return done
        self.retries += len(items) > 1
        results = []
        for item in items:
            done = self._try([item]) if len(items) > 1 else None
            if done is None:
                self._fail(item)
            results.append(None if done is None else done[0])
        return results

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _try(self, items: Sequence[Any]) -> list[Any] | None:
        """The results; None if that took too long."""
        if not items:
            return []
        if self._child is None:
            self._child = Child(self._who, self._serve, ignored=(signal.SIGINT,))
        with suppress(LostError):
            self._child.channel.send(_ITEMS, [*items])
        try:
            answer = self._child.receive()
        except KinspectError:
            is_slow = self._child.status() == -signal.SIGPROF
            self.close()
            if not is_slow and self._memory is None:
                raise
            return None
        assert answer is not None
        done: list[Any] = answer[1]
        return done

    def _serve(self, channel: Channel) -> None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        if self._memory is not None:
            _contain(self._memory)
        while (message := channel.receive()) is not None:
            for item in message[1]:
                self._load(item)
            signal.setitimer(signal.ITIMER_PROF, self._seconds)
            done = [self._work(item) for item in message[1]]
            signal.setitimer(signal.ITIMER_PROF, 0)
            channel.send(_DONE, done)


def _contain(memory: int) -> None:
    """Bound what this process may take, where the kernel tells what it takes (Linux); its end is no news."""
    import faulthandler
    import resource  # only for this

    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError), open("/proc/self/statm", encoding="ascii") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + memory, resource.getrlimit(resource.RLIMIT_AS)[1]))
