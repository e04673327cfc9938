"""Texts in the table of groups: below each its rebalances, how members left, and what lags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from math import inf
from typing import Any

from kinspect.analysis.grouprows import SHARE
from kinspect.answers.celltexts import known, lasting, listed, longest
from kinspect.answers.definition import Clock
from kinspect.filters.filterdefinitions import TIMES, cutting_more, kinds
from kinspect.output.columns import Row
from kinspect.wording import NAMELESS

LAGS_SHOWN = 3
NAMED = 10
"""Number of groups listed of which only the name is known."""
REBALANCES_IN_ORDER = 5
"""With more of them those that stopped members for longest come first."""
EXPECTED = frozenset({"MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS"})
"""Error codes that belong to joins and rebalances."""


def behind_text(row: Row) -> str:
    """The partitions of a span of time that are behind, those most first."""
    if "from" not in row:
        return ""
    lags = {name: lag for name, lag in row["partitions"].items() if lag or lag is None}
    most = sorted(lags, key=lambda name: -(lags[name] or 0))
    return listed([f"{name} {known(lags[name])}" for name in most], LAGS_SHOWN)


def held_text(row: Row) -> str:
    """The partitions that a member has at the end."""
    return partitions_text(row["partitions"]) if "member_id" in row and not row["left"] else ""


def members_text(members: list[Row]) -> str:
    """Members that are still there, of all."""
    # If only others name them, nothing is known.
    known_ones = [member for member in members if member["client_ip"] or member["left"]]
    there = sum(member["left"] is None for member in known_ones)
    rest = "+?" if len(known_ones) < len(members) else ""
    return f"{there:,}{rest} of {len(members):,}" if members else ""


def longest_stop(row: Row) -> str:
    """The longest time for which a member stood still; none of a share group's stops for another."""
    rebalances = row.get("kind") != SHARE and row.get("rebalances")
    stops = [stop for one in rebalances or () for stop in one["stopped_ms"].values()]
    return longest(stops or [None]) if rebalances else ""


def _stop(rebalance: Row) -> float | None:
    return max((stop for stop in rebalance["stopped_ms"].values() if stop is not None), default=None)


def lag_text(committed: Row) -> str:
    lags = [one["lag"] for one in committed.values()]
    if not lags:
        return ""
    told = [lag for lag in lags if lag is not None]
    return known(sum(told) if told else None) + ("+?" if 0 < len(told) < len(lags) else "")


def errors_text(errors: dict[str, int]) -> str:
    return listed({name: count for name, count in errors.items() if name not in EXPECTED})


def is_only_named(row: Row) -> bool:
    return "rebalances" in row and not any(
        row[key] for key in ("members", "rebalances", "committed", "errors")
    )


def only_named(rows: list[Row]) -> str:
    return f"groups that were only named ({len(rows):,}): {listed([row['group'] for row in rows], NAMED)}"


def why_no_lag(rows: list[Row], capture: Row) -> list[str]:
    """Why lags are not known."""
    unknown = [one for row in rows for one in row.get("committed", {}).values() if one["lag"] is None]
    if unknown and cutting_more({*capture["filters"]} - kinds().keys(), *TIMES):
        return ["LAG ?: it is not known whether what the filters left out commits or reads further."]
    reasons = [why for why, holds in _WHY_NO_LAG.items() if any(map(holds, unknown))]
    others = f", unless by a topic id {NAMELESS}" if capture["unresolved_topic_ids"] else ""
    return [f"LAG ?: {why}{others if why == _NO_END else ''}." for why in reasons]


_NO_END = "no Fetch or ListOffsets told how far a partition goes since the commit"
_WHY_NO_LAG: dict[str, Callable[[Row], bool]] = {
    "it was cut whether the transaction of a commit was committed": lambda one: one["offset"] is None,
    _NO_END: lambda one: one["offset"] is not None and not _reaches(one),
    "behind a commit are more control records, or aborted ones, than there is room for": lambda one: (
        one["offset"] is not None and _reaches(one)
    ),
}


def _reaches(one: Row) -> bool:
    """True if the end of the partition is known, behind what was committed."""
    return one["high_watermark"] is not None and 0 <= one["offset"] <= one["high_watermark"]


def details(row: Row, clock: Clock) -> list[str]:
    if "rebalances" not in row:
        return []
    rebalances = row["rebalances"]
    lines = [*_lagging(row), *_left(row, clock)]
    if len(rebalances) > REBALANCES_IN_ORDER:
        triggers = Counter(one["trigger"] for one in rebalances)
        lines.append(f"rebalances: {listed(dict(triggers.most_common()))}")
        rebalances = sorted(rebalances, key=lambda one: -(_stop(one) or 0))
    return lines + [_rebalance(one, clock) for one in rebalances] + [*_given(row)]


def _left(row: Row, clock: Clock) -> Iterator[str]:
    """Members that did not leave by themselves."""
    for one in row["members"]:
        if one["left"] is not None and one["left_how"] != "left":
            name = one["client_id"] or one["member_id"]
            yield f"{clock(one['left'])} {name} left: {one['left_how'] or 'nobody says why'}"


def _given(row: Row) -> Iterator[str]:
    """What members of a share group acquired, and how they acknowledged it."""
    clients = {one["member_id"]: one["client_id"] for one in row["members"]}
    for member, one in row["deliveries"].items():
        counts = {name: one[name] for name in ("accepted", "released", "rejected", "unacknowledged", "again")}
        parts = [f"{name} {known(count)}" for name, count in counts.items() if count != 0]
        most = f" (up to {one['delivery_count_max']:,} times)" if one["again"] else ""
        yield f"{clients.get(member) or member} acquired {one['acquired']:,}: {listed(parts, len(parts))}{most}"


def _lagging(row: Row) -> Iterator[str]:
    behind = {name: one for name, one in row["committed"].items() if one["lag"]}
    most = sorted(behind, key=lambda name: -behind[name]["lag"])
    if most:
        yield f"behind: {listed([f'{name} {_subtraction(behind[name])}' for name in most], LAGS_SHOWN)}"


def _subtraction(one: Row) -> str:
    """How a lag follows from what was seen: `high watermark 120 - committed 100 = 20 (not moved)`."""
    high, offset, lag = one["high_watermark"], one["offset"], one["lag"]
    blank = high - offset - lag
    less = f" - {blank:,} control or aborted" if blank else ""
    more = [] if one["fetched"] is None else [f"fetched to {one['fetched']:,}"]
    more += ["not moved"] if one["progress"] == 0 else []
    beside = f" ({', '.join(more)})" if more else ""
    return f"high watermark {high:,} - committed {offset:,}{less} = {lag:,}{beside}"


def _rebalance(one: Row, clock: Clock) -> str:
    stopped = sorted(one["stopped_ms"].items(), key=lambda item: -(item[1] or 0))
    lost = {client: len(parts) for client, parts in one["revoked"].items() if parts}
    got = [f"{client}: {partitions_text(parts)}" for client, parts in one["assigned"].items()]
    texts = [
        f"{clock(one['started'])} generation {one['generation']}: {one['trigger']}",
        f" {one['by']}" if one["by"] else "",
        f"; stood still {listed([f'{client} {lasting(stop)}' for client, stop in stopped])}"
        if stopped
        else "",
        f"; lost partitions {listed(lost)}" if lost else "",
        f"; without an owner {_unowned(one['unowned_ms'])}" if one["unowned_ms"] else "",
        f"; got {', '.join(got)}" if got else "",
        "; not seen to end" if one["ended"] is None else "",
        f"; {one['reason']}" if one["reason"] else "",
    ]
    return "".join(texts)


def _unowned(times: dict[str, float | None]) -> str:
    """Partitions that nobody had, by how long."""
    by_span: dict[str, list[str]] = {}
    for name, time in sorted(times.items(), key=lambda item: -(inf if item[1] is None else item[1])):
        by_span.setdefault(lasting(time), []).append(name)
    return ", ".join(f"{partitions_text(names)} {span}" for span, names in by_span.items())


def partitions_text(names: list[str] | None) -> str:
    """Partitions or tasks, those of a topic that follow each other as one: `orders-0…3`."""
    if names is None:
        return known(None)
    runs: list[list[Any]] = []
    for topic, number in sorted(map(_topic_and_number, names)):
        if runs and runs[-1][0] == topic and runs[-1][2] == number - 1:
            runs[-1][2] = number
        else:
            runs.append([topic, number, number])
    return (
        " ".join(f"{topic}{first}" + (f"…{last}" if last > first else "") for topic, first, last in runs)
        or "none"
    )


def _topic_and_number(name: str) -> tuple[str, int]:
    number = name.rsplit("-" if "-" in name else "_", 1)[1]
    return name.removesuffix(number), int(number)
