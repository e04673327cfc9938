"""The timestamps of TCP (RFC 7323 §3): a clock of the sender's, which no setting of the capture's clock moves."""

from __future__ import annotations

from typing import Final

from kinspect.model import NS_PER_MS, RST, SYN, Segment
from kinspect.tcp.connection import UNKNOWN_TICK, UNUSABLE_TICK, HalfConnection, SenderClock
from kinspect.tcp.lookup import CLOSE, is_near
from kinspect.tcp.sequence import distance

ABSENT: Final = -1
"""Timestamp of a packet without one."""
OPTION_BYTES: Final = 14
"""Bytes at the end of a header in which it is looked for. It is the last option (RFC 7323, appendix A); in a SYN four
bytes of others may follow."""
_HEAD: Final = b"\1\1\x08\x0a"
_HEAD_IN_SYN: Final = b"\x08\x0a"
_BEHIND_IN_SYN: Final = (4, 0)

USUAL_TICK: Final = NS_PER_MS
"""Tick of nearly all clocks."""
LONG_TICK: Final = 10 * NS_PER_MS
"""No system of today has a longer one."""
TICKS: Final = [ms * NS_PER_MS for ms in (1, 4, 10, 100)]
"""Ticks of the clocks that are or were in use; RFC 7323 (§5.4) allows up to a second."""
ROUGHLY: Final = 3
CLOSELY: Final = 100
"""Parts of a time of which a tick may be one off, where it is measured in a short time or a long one."""
MEASURED_NS: Final = 250 * NS_PER_MS
"""Time in which a tick is measured, at least."""
MEASURE_EACH: Final = 32
"""Number of packets of a direction of which the last one may show its tick."""


def timestamp(segment: Segment) -> int:
    """The timestamp of a packet, if it is where senders place it; else `ABSENT`."""
    data, end = segment[5], segment[6]
    if end < OPTION_BYTES:
        return ABSENT
    if data[end - 12 : end - 8] == _HEAD:
        return int.from_bytes(data[end - 8 : end - 4])
    if segment[4] & SYN:
        for behind in _BEHIND_IN_SYN:
            value = end - behind - 8
            if data[value - 2 : value] == _HEAD_IN_SYN:
                return int.from_bytes(data[value : value + 4])
    return ABSENT


def note(half: HalfConnection, segment: Segment) -> None:
    """Note the timestamp of a direction's first packet."""
    time, stamp = segment[1], timestamp(segment)
    if time is not None and stamp != ABSENT:
        half.sender = SenderClock(stamp, time)


def measure(half: HalfConnection, segment: Segment) -> None:
    """Note the tick that a later packet shows, if it comes late enough and the tick is not known."""
    sender, time = half.sender, segment[1]
    if sender is None or sender.tick != UNKNOWN_TICK or time is None:
        return
    passed = time - sender.time
    if passed >= MEASURED_NS:
        half.sender = sender._replace(tick=_tick(passed, _ticks(sender, segment), ROUGHLY))


def _ticks(sender: SenderClock, segment: Segment) -> int:
    """Ticks of the sender's clock since the timestamp that was noted; below 0: not known."""
    stamp = timestamp(segment)
    return ABSENT if stamp == ABSENT else distance(stamp, sender.stamp)


def _tick(passed: int, ticks: int, tolerance: int) -> int:
    """The one of `TICKS` that the clock has, by the nanoseconds that passed."""
    for tick in TICKS:
        if tolerance * abs(passed - ticks * tick) <= passed:
            return tick
    return UNUSABLE_TICK


def step(half: HalfConnection, segment: Segment, idle_timeout_ns: int) -> int:
    """Nanoseconds by which the capture's clock was set forward before this packet, 0 if it was not: the connection
    seems silent for the idle timeout, but its next packet follows, by whose timestamp it was not."""
    _, time, seq, ack, flags, _, _, _, _, frame, _ = segment
    sender = half.sender
    if time is None or sender is None or flags & (SYN | RST):
        return 0
    seeming = time - half.connection.last.clock
    ticks = _ticks(sender, segment) if seeming >= idle_timeout_ns else ABSENT
    if ticks < 0 or sender.tick == UNUSABLE_TICK:
        return 0
    passed = time - sender.time
    if sender.tick == UNKNOWN_TICK and (
        ticks * LONG_TICK >= idle_timeout_ns or _tick(passed, ticks, CLOSELY) != UNUSABLE_TICK
    ):
        return 0
    by = passed - ticks * max(sender.tick, USUAL_TICK)
    silent = seeming - by
    follows = is_near(half, seq, ack, flags, frame) and abs(distance(seq, half.next)) < CLOSE
    spoke = -idle_timeout_ns < silent < idle_timeout_ns and 2 * silent < seeming
    return min(by, seeming) if follows and spoke else 0
