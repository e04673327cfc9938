"""How far groups are behind: distances from what was committed, and what was fetched, to the end of a partition.

Offsets of control records, and of records in aborted transactions, are no lag where a Fetch showed them: no consumer
that reads committed records is given a record for them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kinspect.analysis.answer import Row
from kinspect.analysis.offsetranges import OffsetRanges, Range
from kinspect.kafka.view.view import iso_time

PENDING_KEPT = 8
"""Number of a transaction's last offset commits kept for each partition, until it is known which of them count."""
BLANKS_KEPT = 256
"""Number of a partition's last ranges of offsets without a record for consumers."""

Place = tuple[str | None, str | None, int]
"""A partition: its topic's name and id, as a message has them, and its index."""
Partition = tuple[str, int]
Blanks = tuple[int, tuple[Range, ...]]
"""Ranges of a partition's offsets without a record for consumers, the last ones in order; and before them the offset
from which on there are no others: 0 if all were kept."""
NO_BLANKS: Blanks = 0, ()


class Offsets(NamedTuple):
    """What serves all groups, by topic and partition with the keys of its lines. `marks`, `first`: the last high
    watermarks and the first ones; `spans`: the last ones of each span of time; `blanks`: ranges without a record for
    consumers, from which offset on they are known; `ends`: outcomes of each transactional id's transactions; `name`: a
    topic's by its id; `hidden`: a filter may have left out later commits."""

    marks: dict[Partition, Any]
    first: dict[Partition, Any]
    spans: dict[tuple[Partition, int], Any]
    blanks: dict[Partition, tuple[int, OffsetRanges]]
    ends: dict[str, list[tuple[Any, ...]]]
    name: Callable[[str], str]
    hidden: bool = False


def by_name(
    places: dict[Place, Any], name: Callable[[str], str], choose: Callable[[Any, Any], Any] = max
) -> dict[Partition, Any]:
    """Of each partition the last value, or the one chosen of two, by its topic's name."""
    found: dict[Partition, Any] = {}
    for (topic, topic_id, index), value in places.items():
        place = topic or name(topic_id or ""), index
        found[place] = choose(found[place], value) if place in found else value
    return found


# ---------------------------------------------------------------------- offsets without a record for consumers


def are_aborted(batches: Iterable[dict[str, Any]], aborted: Any) -> Iterator[bool]:
    """Whether each of a Fetch's batches is in an aborted transaction; control batches are in none. `aborted`: its
    aborted transactions, which each begin at an offset and end with their producer's next marker."""
    begins = sorted((one.get("first_offset", 0), one.get("producer_id", -1)) for one in aborted or ())
    open_ones: set[int | None] = set()
    begun = 0
    for batch in batches:
        last, producer = batch.get("last_offset"), batch.get("producer_id")
        while last is not None and begun < len(begins) and begins[begun][0] <= last:
            open_ones.add(begins[begun][1])
            begun += 1
        if batch.get("is_control"):
            open_ones.discard(producer)
        yield bool(batch.get("is_transactional")) and not batch.get("is_control") and producer in open_ones


def read_batches(batches: Iterable[dict[str, Any]], aborted: Any) -> tuple[int | None, list[Range]]:
    """The offset behind the last of a Fetch's batches, None without one; and those without a record for consumers.
    `aborted`: see `are_aborted`."""
    end, blanks = None, []
    found = [*batches]
    for batch, is_aborted in zip(found, are_aborted(found, aborted), strict=True):
        first, last = batch["base_offset"], batch.get("last_offset")
        if first is None or last is None:
            continue
        end = last + 1
        if batch.get("is_control") or is_aborted:
            blanks.append((first, end))
    return end, blanks


def with_blanks(one: Blanks, other: Blanks) -> Blanks:
    """Ranges of both, the last ones: the same in whatever order parts of them come together."""
    both = sorted({*one[1], *other[1]})
    left, kept = both[:-BLANKS_KEPT], both[-BLANKS_KEPT:]
    return max(one[0], other[0], *(end for _, end in left)), tuple(kept)


def joined_blanks(one: dict[Any, Blanks], other: dict[Any, Blanks]) -> dict[Any, Blanks]:
    """Ranges of each partition, of both."""
    both = {name: with_blanks(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def _distance(offset: int | None, high: int | None, blanks: tuple[int, OffsetRanges] | None) -> int | None:
    """Records between an offset and the end of its partition; None where not all blanks between them are known. A high
    watermark seen before the offset may be smaller; below 0 nothing is a position."""
    if offset is None or high is None or not 0 <= offset <= high:
        return None
    if blanks is None:
        return high - offset
    known_from, ranges = blanks
    return high - offset - ranges.count(offset, high) if known_from <= offset else None


def unmeasured(commits: Iterable[tuple[Partition, int | None]], offsets: Offsets) -> int:
    """How many commits have no lag, as there was no room for all blanks behind them."""
    known_from = {where: known for where, (known, _) in offsets.blanks.items() if where in offsets.marks}
    return sum(offset is not None and offset < known_from.get(where, 0) for where, offset in commits)


# ---------------------------------------------------------------------- commits


def joined_pending(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    """Offset commits of transactions, of each partition the last ones."""
    both = {name: tuple(sorted({*one[name], *other[name]})[-PENDING_KEPT:]) for name in one.keys() & other}
    return {**one, **other, **both}


def last_commits(
    committed: dict[Place, Any], pending: dict[tuple[str, Place], Any], offsets: Offsets
) -> dict[Partition, Any]:
    """The last commit of each partition that counts."""
    last = by_name(committed, offsets.name)
    for (transaction, place), commits in pending.items():
        counting = _counting(commits, offsets.ends.get(transaction))
        if counting is not None:
            for where, commit in by_name({place: counting}, offsets.name).items():
                last[where] = max(last.get(where, commit), commit)
    return last


def _counting(commits: tuple[Any, ...], ends: list[tuple[Any, ...]] | None) -> Any:
    """The last of a transaction's offset commits that counts: its transaction was committed. Where no transaction of
    that id was seen to end, all count. Without its offset where the outcome of its transaction was cut."""
    for key, *commit in reversed(commits):
        if ends is None:
            return key, tuple(commit)
        after = bisect_right(ends, (key, True))
        outcome = ends[after][1] if after < len(ends) else False
        if outcome is not False:
            return key, tuple(commit) if outcome else (None, *commit[1:])
    return None


def committed_row(where: Partition, commit: Any, begun: Any, read: Any, offsets: Offsets) -> Row:
    """What is known of a partition that a group commits offsets of. `begun`: the first offset that was committed or
    read; `read`: how far the group's clients fetched."""
    key, (offset, at, client_id, address) = commit
    blanks = offsets.blanks.get(where)
    high, first = (found.get(where, (None, None))[1] for found in (offsets.marks, offsets.first))
    began = None if begun is None or begun[0] == key else begun[1]
    fetched = None if read is None else read[1]
    # Where something was left out, the first and last commits that were seen need not be the group's.
    end, first = (None, None) if offsets.hidden else (high, first)
    lag = _distance(offset, end, blanks)
    return {
        "offset": offset,
        "at": iso_time(at),
        "by": client_id or address,
        "high_watermark": high,
        "lag": lag,
        "fetched": fetched,
        "fetched_lag": _distance(fetched, end, blanks),
        "lag_at_begin": _distance(began, first, blanks),
        "lag_at_end": lag,
        "progress": None if None in (began, offset) else offset - began,
    }


# ---------------------------------------------------------------------- lag over time


def over_time(
    commits: dict[tuple[Partition, int], Any], offsets: Offsets
) -> list[tuple[int, dict[Partition, int | None]]]:
    """Lags at the end of each span of time, from the first in which something was committed: of what was last known."""
    if not commits:
        return []
    news: dict[int, list[tuple[Partition, int, int]]] = {}
    for kind, values in enumerate((commits, offsets.spans)):
        for (where, span), (_, value) in values.items():
            news.setdefault(span, []).append((where, kind, value))
    known: tuple[dict[Partition, int], dict[Partition, int]] = {}, {}
    partitions = {where for where, _ in commits}
    found = []
    begin = min(span for _, span in commits)
    for span in sorted(news):
        for where, kind, value in news[span]:
            known[kind][where] = value
        if span >= begin:
            lags = {
                where: _distance(
                    offset, None if offsets.hidden else known[1].get(where), offsets.blanks.get(where)
                )
                for where, offset in sorted(known[0].items())
                if where in partitions
            }
            found.append((span, lags))
    return found


def spans_by_name(
    values: dict[tuple[Place, int], Any], name: Callable[[str], str]
) -> dict[tuple[Partition, int], Any]:
    """The last value of each partition and span, by the topic's name."""
    found: dict[tuple[Partition, int], Any] = {}
    for ((topic, topic_id, index), span), value in values.items():
        where = (topic or name(topic_id or ""), index), span
        found[where] = max(found.get(where, value), value)
    return found
