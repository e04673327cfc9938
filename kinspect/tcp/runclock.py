"""The run's clock: how far the run has got, whatever single packets say of their time."""

from __future__ import annotations

from ..model import Segment
from .keys import pair

ISLANDS = 8
"""So many islands must have reached a time."""
SLACK_NS = 1_000_000_000
"""The clock runs so far behind, as captures hold packets out of order."""
LOOK_EACH = 17
"""One packet in so many is looked at."""
NO_TIME = -(1 << 62)


class RunClock:
    """`time`: what `ISLANDS` islands have reached, less the slack. It lets things go early that are due by their own
    island's clock, which alone may never come there; `late_packets` that come behind it could have changed what."""

    def __init__(self) -> None:
        self.time = NO_TIME
        self._ahead: dict[bytes, int] = {}

    def look(self, segment: Segment) -> None:
        """A packet of the run was reached."""
        time = segment[1]
        if time is None or time - SLACK_NS <= self.time:
            return
        ahead = self._ahead
        of_pair = pair(segment[0])
        ahead[of_pair] = max(time, ahead.get(of_pair, time))
        if len(ahead) >= ISLANDS:
            reached = sorted(ahead.values(), reverse=True)[ISLANDS - 1]
            self.pass_to(reached)
            self._ahead = {pair: time for pair, time in ahead.items() if time > reached}

    def pass_to(self, time: int) -> None:
        """The run has come to a time."""
        self.time = max(self.time, time - SLACK_NS)
