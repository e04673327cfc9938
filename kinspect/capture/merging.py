"""Merge times of a file's packets, their turns: the times by which they are ordered among those of other files.

They are the packets' own times, except for wrong ones. A packet far ahead of those that follow it in its file would
hold all of them back: it is merged with the packet before it. The packets that follow vote on it, except those far
behind what came before: they are wrong themselves, and hold back nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub
from typing import Final

from kinspect.errors import CaptureError
from kinspect.model import Block

FAR: Final = 1_000_000_000
"""Nanoseconds by which times may differ within a file's own order."""

NEAR: Final = 16
"""Number of following packets that confirm a time if none of them is far behind: then a silence was before it."""

AROUND: Final = 256
"""Most packets before and after a time that decide whether it is wrong."""

_NEAREST: Final = 4, 16, 64, AROUND
"""Sizes of the votes. A time is wrong if a majority of the nearest packets of any size says so: small votes find a time
that is off by little, large ones a time among other wrong ones."""


def is_nearly_sorted(times: list[int]) -> bool:
    """True if none of the times (nanoseconds) is more than `FAR` behind an earlier one."""
    return sorted(times) == times or max(map(sub, accumulate(times, max), times)) <= FAR


def merge_times(before: Sequence[int], times: Sequence[int], size: int) -> list[int]:
    """Merge times of the first `size` of `times` (the rest is lookahead); `before`: those of the packets before."""
    merged = list(before)
    for at in range(size):
        merged.append(merge_time(merged[-AROUND:], times[at : at + 1 + AROUND]))
    return merged[len(before) :]


def merge_time(before: Sequence[int], times: Sequence[int]) -> int:
    """Merge time of the first packet of `times`; the others follow it in its file.

    `before`: merge times of the packets before it. Both sequences hold up to `AROUND` entries, as far as there are any.
    """
    limit = times[0] - FAR
    near = times[1 : 1 + NEAR]
    if min(near, default=limit) >= limit:
        return times[0]
    floor = max(before) - FAR if before else min(times)
    if floor >= limit:
        return times[0]
    behind = [time for time in times[1:] if time >= floor]
    # At the start of a file it is not known yet which packets are far behind and have no vote: four are too few there.
    for nearest in _NEAREST if len(before) >= NEAR else _NEAREST[1:]:
        votes = behind[:nearest]
        if 2 * sum(map(limit.__gt__, votes)) > len(votes):
            return before[-1] if before else min(near)
    return times[0]


class TimedBlocks:
    """Iterates the blocks of a file, once, each with the merge times of its packets.

    A packet without a time takes that of the one before, the first of a file takes `time`.

    Reads some packets ahead. Raises what `blocks` raises, after everything that was read before it.
    """

    def __init__(self, blocks: Iterator[Block], time: int) -> None:
        self._blocks = blocks
        self._time = time
        self._error: CaptureError | None = None
        # Blocks read ahead, the times of all their packets, and the merge times of those before.
        self._ahead: deque[Block] = deque()
        self._times: list[int] = []
        self._before: list[int] = []

    def __iter__(self) -> Iterator[tuple[Block, list[int]]]:
        self._read(1)
        while self._ahead:
            block = self._ahead.popleft()
            size = len(block)
            self._read(size + NEAR)
            turns = self._times[:size]
            if not is_nearly_sorted(self._times[: size + NEAR]):
                self._read(size + AROUND)
                turns = merge_times(self._before, self._times, size)
            del self._times[:size]
            self._before = (self._before + turns[-AROUND:])[-AROUND:]
            yield block, turns
            self._read(1)
        if self._error is not None:
            raise self._error

    def _read(self, packets: int) -> None:
        """Read until `packets` packets are ahead, if there are that many."""
        while len(self._times) < packets and self._error is None:
            try:
                block = next(self._blocks, None)
            except CaptureError as error:
                self._error = error
                break
            if block is None:
                break
            self._ahead.append(block)
            for time in block.times:
                self._time = self._time if time is None else time
                self._times.append(self._time)
