"""Regular expressions that texts of a capture are searched for, with a limit that holds: in a process of their own,
which the kernel ends when it has taken its processor time. `re` cannot be interrupted from within."""

from __future__ import annotations

import re
import signal
from collections.abc import Collection
from contextlib import suppress

from kinspect.background import OWN, Channel, Child, LostError
from kinspect.errors import KinspectError

SECONDS = 1.0
"""Processor time for a search."""
SLOW_MOST = 10
"""Texts that may take longer, and count as none that match."""
_TEXTS, _FOUND = OWN, OWN + 1


class TimedPattern:
    """The test of texts for a pattern. `prepare` is told of them first; `slow`: those that took too long."""

    def __init__(self, pattern: str, seconds: float = SECONDS) -> None:
        """Raises KinspectError for what is no regular expression."""
        try:
            self._pattern = re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise KinspectError(f"{pattern!r} is no regular expression: {error}") from None
        self.slow = 0
        self._seconds = seconds
        self._found: dict[str, bool] = {}
        self._child: Child | None = None

    def __call__(self, text: str) -> bool:
        return self._found[text]

    def prepare(self, texts: Collection[str]) -> None:
        """Search these texts, and forget those before. Raises KinspectError if too many take too long."""
        self._found = {}
        asked = [*dict.fromkeys(texts)]
        found = self._search(asked)
        if found is None:
            for text in asked:
                self._found[text] = bool((self._search([text]) or [False])[0])
        else:
            self._found = dict(zip(asked, found, strict=True))

    def close(self) -> None:
        """End the process."""
        if self._child is not None:
            self._child.end()
            self._child = None

    def _search(self, texts: list[str]) -> list[bool] | None:
        """Whether the pattern is in each text; None if that took too long."""
        if not texts:
            return []
        if self._child is None:
            self._child = Child("the search for re: patterns", self._work, ignored=(signal.SIGINT,))
        with suppress(LostError):
            self._child.channel.send(_TEXTS, texts)
        try:
            answer = self._child.receive()
        except KinspectError:
            is_slow = self._child.status() == -signal.SIGPROF
            self.close()
            if not is_slow:
                raise
            self.slow += len(texts) == 1
            if self.slow > SLOW_MOST:
                raise KinspectError(
                    f"re:{self._pattern.pattern}: more than {SLOW_MOST} texts took longer than {self._seconds:g} s each"
                ) from None
            return None
        assert answer is not None
        found: list[bool] = answer[1]
        return found

    def _work(self, channel: Channel) -> None:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        while (message := channel.receive()) is not None:
            signal.setitimer(signal.ITIMER_PROF, self._seconds)
            found = [self._pattern.search(text) is not None for text in message[1]]
            signal.setitimer(signal.ITIMER_PROF, 0)
            channel.send(_FOUND, found)
