"""Hint for a run in which no exchange passes the filters: the values of the exchanges that were left out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import TYPE_CHECKING

from kinspect.filteredvalues import LARGEST, ValueCounts, is_greatest, may_be_more
from kinspect.filters.filterdefinitions import TIMES, definition_of
from kinspect.kafka.view.view import iso_time
from kinspect.model import NS_PER_US
from kinspect.output.clock import NO_DATE, day_and_clock
from kinspect.output.escape import escape
from kinspect.wording import did_you_mean

if TYPE_CHECKING:
    from kinspect.filters.recordfilters import RecordFilter
    from kinspect.output.tally import Tally

SHOWN = 20


def filter_hint(tally: Tally) -> str:
    """The hint, a line about the last filter that left anything out: it left out all that the others passed to it."""
    options = [*tally.options]
    asked = max(tally.seen, key=options.index)
    kinds = tally.seen[asked]
    there = [_there(kind, counts) for kind, counts in kinds.items() if counts]
    if kinds and not there:
        there = [f"there are no {next(iter(kinds))}"]
    if meant := _meant(tally.options[asked], kinds) if definition_of(asked).words is None else "":
        there[0] = f"{meant} {there[0]}"
    if definition_of(asked).cuts in TIMES:
        there = _span(tally)
    return "; ".join([f"no exchange{_which(options, asked)} passes {asked}", *there])


def record_hint(chosen: RecordFilter) -> str | None:
    """The same of records; None if no filter left any out."""
    options = chosen.options
    asked = next((option for option in reversed(options) if option in chosen.left_out), None)
    if asked is None:
        return None
    there = []
    if (left := chosen.seen.get(asked)) is not None and left.counts:
        meant = _meant(left.wanted, {left.kind: left.counts})
        there = [f"{meant} {_there(left.kind, left.counts)}".strip()]
    return "; ".join([f"no record{_which(options, asked)} passes {asked}", *there])


def _which(options: list[str], asked: str) -> str:
    """Which ones the last filter was asked of: those that the ones before it let pass."""
    before = options[: options.index(asked)]
    return f" that passes {', '.join(before)}" if before else ""


def _meant(wanted: list[str], kinds: Mapping[str, ValueCounts]) -> str:
    """`did you mean orders?`: the values that the wanted ones may be slips of; empty if there are none."""
    known = [(value.lower(), escape(value)) for counts in kinds.values() for value in counts]
    return " ".join(dict.fromkeys(filter(None, (did_you_mean(each.lower(), known) for each in wanted))))


def _there(kind: str, counts: ValueCounts) -> str:
    """The most frequent values, equals in the order of names, and the number of others."""
    if is_greatest(kind):
        amount = counts[kind]
        return f"the {kind} is {f'{amount}B' if kind.startswith(LARGEST) else _milliseconds(amount)}"
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = ", ".join(f"{escape(name)} {times:,}" for name, times in ranked[:SHOWN])
    rest = len(ranked) - SHOWN
    least = "at least " if may_be_more(counts) else ""
    more = f" and {least}{rest:,} more {kind.partition(' (')[0]}" if rest > 0 else ""
    return f"{kind} there are: {shown}{more}"


def _milliseconds(nanoseconds: int) -> str:
    """A duration in the form of `--min-latency`, rounded down."""
    microseconds = nanoseconds // NS_PER_US
    return f"{microseconds // 1000}.{microseconds % 1000:03}ms"


def _span(tally: Tally) -> list[str]:
    """The time from the first to the last packet, in UTC and, where that is another, in local time."""
    if tally.first is None or tally.last is None:
        return []
    ends = tally.first, tally.last
    text = "the capture is from {} to {}".format(
        *(iso_time(time) or "a time without a date" for time in ends)
    )
    local = [] if tally.utc else [there for time in ends if (there := _local(time))]
    return [f"{text} (local time: {local[0]} to {local[1]})" if len(local) == len(ends) else text]


def _local(nanoseconds: int) -> str | None:
    """The time in the local zone; None if that is UTC, or there is no such date."""
    local = day_and_clock(nanoseconds, None)
    return None if NO_DATE in local or local == day_and_clock(nanoseconds, UTC) else " ".join(local)
