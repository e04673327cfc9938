"""The run's clock: the progress of the run, independent of wrong times of single packets."""

from __future__ import annotations

from typing import Final

from kinspect.model import NS_PER_MS, Segment, drop_oldest
from kinspect.tcp.flowkeys import pair
from kinspect.tcp.sequence import MASK
from kinspect.tcp.timestamps import ABSENT, timestamp

ISLANDS: Final = 8
"""Number of islands that must have reached a time."""
SLACK_NS: Final = 1_000_000_000
"""Nanoseconds by which the clock lags, as captures hold packets out of order."""
LOOK_EACH: Final = 17
"""Sampling interval: one packet in so many is looked at."""
NO_TIME: Final = -(1 << 62)
PATIENCE: Final = 60
"""Samples that may show that a jump of the clock was a step. Lines that the jump completes still come in their order:
these are fewer packets than a line waits."""
STAMPED_EACH: Final = 2
"""One sample in so many is asked for its timestamp."""
SENDERS: Final = 1024
"""Number of senders whose last timestamp is remembered."""


class RunClock:
    """`time`: the time that `ISLANDS` islands have reached, less the slack. It releases early what is due by an
    island's own clock, which may never get there without packets; `late_packets` that come behind it could have changed
    that. It goes back only where as many islands show that the capture's clock was set back by the idle timeout.

    It waits before it jumps by the idle timeout or more: was the run silent, or was the capture's clock set forward?
    `lent`: the size of such a step, until it is set to 0; what was before it is due that much later.
    """

    def __init__(self, idle_timeout_ns: int) -> None:
        self.time = NO_TIME
        self.lent = 0
        self._idle_timeout = idle_timeout_ns
        self._ahead: dict[bytes, int] = {}
        self._behind: dict[bytes, int] = {}
        # Time and timestamp of each sender's last sample.
        self._stamps: dict[bytes, tuple[int, int]] = {}
        self._first = self._stepped_at = NO_TIME
        # Where the clock jumps to, first and by now, and the samples since.
        self._jumps_from = self._jumps_to = NO_TIME
        self._samples = 0

    def look(self, segment: Segment) -> None:
        """Take a packet of the run as a sample."""
        time = segment[1]
        if time is None:
            return
        self._samples += 1
        if self._samples % STAMPED_EACH == 0:
            self._note(segment[0], time, timestamp(segment))
        if self._first == NO_TIME:
            self.begin_at(time)
        if self._jumps_to != NO_TIME:
            self._jump()
        if time < self.time - self._idle_timeout:
            self._follow_back(pair(segment[0]), time)
            return
        if self._behind:
            self._behind.clear()
        if time - SLACK_NS <= self.time:
            return
        ahead = self._ahead
        of_pair = pair(segment[0])
        ahead[of_pair] = max(time, ahead.get(of_pair, time))
        if len(ahead) >= ISLANDS:
            reached = min(ahead.values())
            self.pass_to(reached)
            for of_pair in [of_pair for of_pair, time in ahead.items() if time <= reached]:
                del ahead[of_pair]

    @property
    def _begin(self) -> int:
        """The time from which the clock goes on."""
        return self.time if self.time != NO_TIME else self._first

    def _note(self, key: bytes, time: int, stamp: int) -> None:
        """Note a sender's timestamp, and if it shows a step."""
        if stamp == ABSENT:
            return
        stamps = self._stamps
        before = stamps.get(key)
        stamps[key] = time, stamp
        if before is None:
            drop_oldest(stamps, SENDERS)
            return
        passed = time - before[0]
        if passed >= self._idle_timeout and 2 * NS_PER_MS * ((stamp - before[1]) & MASK) < passed:
            self.note_step(time)

    def _follow_back(self, of_pair: bytes, time: int) -> None:
        """Go back if all of enough islands that follow one another are far behind."""
        behind = self._behind
        behind[of_pair] = time
        if len(behind) >= ISLANDS:
            self._go(max(behind.values()) - SLACK_NS)
            self._ahead.clear()
            behind.clear()

    def begin_at(self, time: int) -> None:
        """Note that the run has come to a time before its first packet."""
        self._first = max(self._first, time - SLACK_NS)

    def note_step(self, time: int) -> None:
        """Note that a packet at that time shows a step."""
        self._stepped_at = time

    def pass_to(self, time: int) -> None:
        """Advance the clock to a time, less the slack."""
        to = time - SLACK_NS
        if to <= self.time:
            return
        if self._begin == NO_TIME or to - self._begin < self._idle_timeout:
            self._go(to)
            return
        if self._jumps_to == NO_TIME:
            self._jumps_from, self._samples = to, 0
        self._jumps_to = max(to, self._jumps_to)
        self._jump()

    def _jump(self) -> None:
        """Jump if a timestamp shows a step, or nothing did long enough."""
        begin, to = self._begin, self._jumps_to
        stepped = self._stepped_at > begin + SLACK_NS
        if stepped:
            self.lent = self._jumps_from - begin
        if stepped or self._samples >= PATIENCE or to - self._jumps_from >= self._idle_timeout:
            self._go(to)

    def _go(self, to: int) -> None:
        self.time = to
        self._jumps_to = NO_TIME
