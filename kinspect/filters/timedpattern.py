"""Regular expressions that texts of a capture are searched for, with a limit that holds."""

from __future__ import annotations

import re
from collections.abc import Collection

from kinspect.errors import KinspectError
from kinspect.timedwork import TimedWork

SECONDS = 1.0
"""Processor time for a search."""
SLOW_MOST = 10
"""Texts that may take longer, and count as none that match."""


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
        self._work = TimedWork("the search for re: patterns", self._search, seconds, self._note_slow)

    def __call__(self, text: str) -> bool:
        return self._found[text]

    def prepare(self, texts: Collection[str]) -> None:
        """Search these texts, and forget those before. Raises KinspectError if too many take too long."""
        asked = [*dict.fromkeys(texts)]
        self._found = dict(zip(asked, map(bool, self._work.do(asked)), strict=True))

    def close(self) -> None:
        """End the process."""
        self._work.close()

    def _search(self, text: str) -> bool:
        return self._pattern.search(text) is not None

    def _note_slow(self, text: str) -> None:
        self.slow += 1
        if self.slow > SLOW_MOST:
            raise KinspectError(
                f"re:{self._pattern.pattern}: more than {SLOW_MOST} texts took longer than {self._seconds:g} s each"
            )
