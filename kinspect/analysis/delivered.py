"""Records of a Fetch or ShareFetch that a consumer was given: not all that came over the wire."""

from __future__ import annotations

from typing import Any

from kinspect.analysis.lags import read_batches
from kinspect.analysis.offsetranges import OffsetRanges, Range, joined
from kinspect.kafka.bodysummary import RecordField, batch_count


def delivered(field: RecordField, partition: dict[str, Any]) -> int | None:
    """Records of a partition in an answer that are neither control records nor those of transactions that it says to
    be aborted; of a ShareFetch those that were acquired. None if their number is not known."""
    _, blanks = read_batches(field.batches(), partition.get("aborted_transactions"))
    left_out = frozenset(blanks)
    ranges = partition.get("acquired_records")
    acquired = None if ranges is None else OffsetRanges(acquired_ranges(ranges))
    total = 0
    for batch in field.batches():
        count, first, last = batch_count(batch), batch["base_offset"], batch.get("last_offset")
        if count is None or first is None or last is None:
            return None
        if (first, last + 1) not in left_out:
            total += count if acquired is None else min(count, acquired.count(first, last + 1))
    return total


def acquired_ranges(ranges: list[dict[str, Any]]) -> list[Range]:
    """The offsets that a ShareFetch's answer says to be acquired, in order."""
    return joined((one["first_offset"], one["last_offset"] + 1) for one in ranges)
