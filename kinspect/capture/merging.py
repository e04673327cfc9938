"""When packets of a file take their turn among those of other files: at their times, but for wrong ones.

A packet far ahead of what follows it in its file would hold all of that back: it goes with the packet before it. Those
that follow vote on it, but for those far behind what came before. They are wrong themselves, and hold back nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import sub

from kinspect.errors import CaptureError
from kinspect.model import Block

FAR = 1_000_000_000
"""By this times may differ in a file's own order."""

NEAR = 16
"""If none of so many packets that follow is far behind, they agree: what was before was a silence."""

AROUND = 256
"""So many packets before and behind say whether a time is wrong, at most."""

_NEAREST = 4, 16, 64, AROUND
"""A time is wrong if most of the nearest so many say so: few see that it is off by little, many that others are."""


def is_plain(times: list[int]) -> bool:
    """Whether none of the times is far behind an earlier one."""
    return sorted(times) == times or max(map(sub, accumulate(times, max), times)) <= FAR


def merge_times(before: Sequence[int], times: Sequence[int], size: int) -> list[int]:
    """When the first `size` packets of `times` take their turn; those of `before` take theirs first."""
    merged = list(before)
    for at in range(size):
        merged.append(merge_time(merged[-AROUND:], times[at : at + 1 + AROUND]))
    return merged[len(before) :]


def merge_time(before: Sequence[int], times: Sequence[int]) -> int:
    """When the first packet of `times` takes its turn; the others follow it in its file.

    `before`: when those before it do. Of both as many as there are, up to `AROUND`.
    """
    limit = times[0] - FAR
    near = times[1 : 1 + NEAR]
    if min(near, default=limit) >= limit:
        return times[0]
    floor = max(before) - FAR if before else min(times)
    if floor >= limit:
        return times[0]
    behind = [time for time in times[1:] if time >= floor]
    # At the begin of a file nobody can tell yet who is far behind and has no vote: four are too few there.
    for nearest in _NEAREST if len(before) >= NEAR else _NEAREST[1:]:
        votes = behind[:nearest]
        if 2 * sum(map(limit.__gt__, votes)) > len(votes):
            return before[-1] if before else min(near)
    return times[0]


class Turns:
    """Iterates the blocks of a file, once; with each, when its packets take their turn.

    A packet without a time goes with the one before, the first of a file at `time`.

    Reads some packets ahead. Raises what `blocks` raises, behind all that was read before it.
    """

    def __init__(self, blocks: Iterator[Block], time: int) -> None:
        self._blocks = blocks
        self._time = time
        self._error: CaptureError | None = None
        # Blocks that were read ahead, the times of all their packets, and the turns of those before.
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
            if not is_plain(self._times[: size + NEAR]):
                self._read(size + AROUND)
                turns = merge_times(self._before, self._times, size)
            del self._times[:size]
            self._before = (self._before + turns[-AROUND:])[-AROUND:]
            yield block, turns
            self._read(1)
        if self._error is not None:
            raise self._error

    def _read(self, packets: int) -> None:
        """Reads until so many packets are ahead, if there are."""
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
