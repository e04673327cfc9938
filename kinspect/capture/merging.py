"""When packets of a file take their turn among those of other files: at their times, but for wrong ones.

A packet far ahead of what follows it in its file would hold all of that back: it goes with the packet before it. Those
that follow vote on it, but for those far behind what came before. They are wrong themselves, and hold back nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import sub

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
