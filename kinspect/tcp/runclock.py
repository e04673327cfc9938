"""The run's clock: the progress of the run, independent of wrong times of single packets."""

from __future__ import annotations

from typing import Final

from kinspect.model import Segment
from kinspect.tcp.keys import pair

ISLANDS: Final = 8
"""Number of islands that must have reached a time."""
SLACK_NS: Final = 1_000_000_000
"""Nanoseconds by which the clock lags, as captures hold packets out of order."""
LOOK_EACH: Final = 17
"""Sampling interval: one packet in so many is looked at."""
NO_TIME: Final = -(1 << 62)


class RunClock:
    """`time`: the time that `ISLANDS` islands have reached, less the slack. It releases early what is due by an
    island's own clock, which may never get there without packets; `late_packets` that come behind it could have changed
    that."""

    def __init__(self) -> None:
        self.time = NO_TIME
        self._ahead: dict[bytes, int] = {}

    def look(self, segment: Segment) -> None:
        """Take a packet of the run as a sample."""
        time = segment[1]
        if time is None or time - SLACK_NS <= self.time:
            return
        ahead = self._ahead
        of_pair = pair(segment[0])
        ahead[of_pair] = max(time, ahead.get(of_pair, time))
        if len(ahead) >= ISLANDS:
            reached = min(ahead.values())
            self.pass_to(reached)
            for of_pair in [of_pair for of_pair, time in ahead.items() if time <= reached]:
                del ahead[of_pair]

    def pass_to(self, time: int) -> None:
        """Advance the clock to a time, less the slack; never back."""
        self.time = max(self.time, time - SLACK_NS)
