"""What two captures differ in: rows of an answer that appeared or went, and columns that changed or moved.

A row is the one of the other capture that has the same `identity`, and the same names of `addresses`, or the same
`addresses`, where there is one; rows left over with the same identity are matched in their order, as pods have new
addresses after each deploy. Columns are compared by their kinds. Captures differ in length, so counts are compared by
their rates and shares; a difference of counts or quantiles is one only beyond a factor, and where a test says that
there were enough of them: that of two proportions with Yates' correction (J. Fleiss, Statistical Methods for Rates and
Proportions, 1981, 2.2), for quantiles on both sides of their joint quantile (J. Westenberg, Significance test for
median and interquartile range, 1948).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import combinations
from math import inf, sqrt
from typing import Any, Final, NamedTuple

from kinspect.analysis.histogram import Histogram, Quantiles
from kinspect.answers import answers, definition_of
from kinspect.answers.celltexts import lasting
from kinspect.answers.definition import Definition, address_texts, nothing_decoded
from kinspect.answers.incomplete import left_out_by

APPEARED, WENT, CHANGED, MOVED = "appeared", "went", "changed", "moved"
CHANGES: Final = (APPEARED, WENT, CHANGED, MOVED)
KEYS: Final = tuple(
    """
    change answer row addresses column before after factor before_count after_count caveat
    """.split()
)
"""Keys of a difference, in their order."""
FACTOR: Final = 2.0
"""From which on something moved."""
SHORTER: Final = 1.1
"""From which factor on a capture is shorter than another, so that what is seldom may not be in it."""
ENOUGH: Final = 3.29
"""Standard deviations that chance reaches once in a thousand times."""
LEAST_MS: Final = 1.0
"""Durations that differ by less did not move: the clocks and schedulers of hosts make as much."""
PERCENTS: Final = {"p50": 50, "p95": 95, "p99": 99}

Object = dict[str, Any]


class Sizes(NamedTuple):
    """The length of both captures, in seconds and in exchanges, and the factor from which on something moved."""

    seconds: tuple[float, float]
    exchanges: tuple[int, int]
    threshold: float


class Found(NamedTuple):
    """A column's difference: its change, values, the factor between them (None: no number) and how many of what they
    are made of there were. `column`: behind the column's name, which of its values it is."""

    change: str
    before: Any
    after: Any
    factor: float | None = None
    counts: tuple[int | None, int | None] = (None, None)
    column: str = ""


def comparable() -> list[str]:
    """The answers whose rows can be compared."""
    return [name for name, each in answers().items() if each.identity]


def differences(before: Sequence[Object], after: Sequence[Object], threshold: float = FACTOR) -> list[Object]:
    """The differences of two captures, the worst first, each with all of `KEYS`. `before`, `after`: objects of the same
    answers; `threshold`: the factor from which on something moved."""
    found: list[Object] = []
    for old, new in filter(lambda pair: _are_comparable(*pair), zip(before, after, strict=True)):
        found += _of_answer(old, new, threshold)
    return sorted(_without_parts(found), key=_place)


def not_compared(before: Sequence[Object], after: Sequence[Object]) -> str | None:
    """Why nothing can be compared: a side has no Kafka, or nothing of both passes the filters; None if something is."""
    if any(map(_are_comparable, before, after)):
        return None
    return _without_kafka(before, after) or f"BEFORE: {before[0]['capture']['instead']}"


def partly_compared(before: Sequence[Object], after: Sequence[Object]) -> str | None:
    """Why some answers could not be compared: a side has no Kafka. None if all could."""
    if all(definition_of(each["answer"]).without_kafka for each in before):
        return None
    return _without_kafka(before, after)


def _without_kafka(before: Sequence[Object], after: Sequence[Object]) -> str | None:
    """Which side has no Kafka, and why; None if both have some."""
    for name, side in (("BEFORE", before), ("AFTER", after)):
        if nothing_decoded(capture := side[0]["capture"]):
            return f"{name}: {capture['incomplete'][0]}"
    return None


def _are_comparable(old: Object, new: Object) -> bool:
    """True if an answer's rows of both captures tell more than that nothing was seen."""
    captures = old["capture"], new["capture"]
    if any(map(nothing_decoded, captures)):
        return definition_of(old["answer"]).without_kafka and any((old["rows"], new["rows"]))
    return any((old["rows"], new["rows"])) or not all(capture["instead"] for capture in captures)


def side_of(objects: Sequence[Object]) -> Object:
    """What a capture is: of the answers' objects, as that one has it that lacks most; with the names of all."""
    most = max((each["capture"] for each in objects), key=lambda capture: len("".join(capture["incomplete"])))
    names = {address: own for each in objects for address, own in each["capture"].get("names", {}).items()}
    return {**most, "names": names} if names else most


def shortness(capture: Object, other: Object, threshold: float) -> str | None:
    """How much shorter than the other a capture is; None where that is less than the factor `threshold`."""
    own, its = _seconds(capture), _seconds(other)
    if capture["from"] is None or own * threshold >= its:
        return None
    return f"it lasts {lasting(own * 1000)}, the other one {lasting(its * 1000)}"


def _place(found: Object) -> tuple[Any, ...]:
    """The order: what is sure, troubles that are there now, what moved most, what changed, came and went."""
    trouble = definition_of(found["answer"]).troubles and found["change"] in (APPEARED, MOVED)
    factor = found["factor"] or (inf if found["change"] == MOVED else 1.0)
    far = -max(factor, 1 / factor)
    order = MOVED, CHANGED, APPEARED, WENT
    return found["caveat"] is not None, not trouble, order.index(found["change"]), far, found["answer"]


def _without_parts(found: list[Object]) -> list[Object]:
    """Without rows that came or went as what they are about did: the topics of a new client, for example."""
    wholes: dict[tuple[Any, ...], str] = {}
    for each in found:
        if each["change"] in (APPEARED, WENT):
            wholes.setdefault((each["change"], *sorted(each["row"].items())), each["answer"])

    def is_part(each: Object) -> bool:
        if each["change"] not in (APPEARED, WENT) or definition_of(each["answer"]).troubles:
            return False
        items = sorted(each["row"].items())
        above = (some for size in range(1, len(items)) for some in combinations(items, size))
        return wholes[(each["change"], *items)] != each["answer"] or any(
            (each["change"], *some) in wholes for some in above
        )

    return [each for each in found if not is_part(each)]


def _of_answer(old: Object, new: Object, threshold: float) -> list[Object]:
    definition = definition_of(old["answer"])
    captures = old["capture"], new["capture"]
    sizes = Sizes(
        (_seconds(captures[0]), _seconds(captures[1])),
        (captures[0]["counted"], captures[1]["counted"]),
        threshold,
    )
    pairs, gone, come = _matched(definition, old, new)
    found = []
    for before, after in pairs:
        for each in _of_row(definition, before, after, sizes):
            caveat = _caveat(each, captures, threshold)
            found.append(_object(old["answer"], definition, each, before, after, caveat))
    kept = next((key.name for key in definition.keys if key.kind == "long"), None)
    for rows, change, side in ((gone, WENT, 0), (come, APPEARED, 1)):
        own, other = captures[side], captures[1 - side]
        lacks, short = lacking(other), shortness(other, own, SHORTER)
        for row in rows:
            if definition.usual(row):
                continue
            count = None if kept is None else row[kept]
            caveat = lacks or (None if _is_enough(count, side, sizes) else short)
            # A row without a topic, say, may be what has its name in the other capture.
            if any(row[name] is None for name in definition.identity.split()):
                caveat = caveat or lacking(own) or shortness(own, other, SHORTER)
            sides = (row, None) if side == 0 else (None, row)
            each = Found(change, None, None, None, (count, None) if side == 0 else (None, count))
            found.append(_object(old["answer"], definition, each, sides[0], sides[1], caveat))
    return found


def _caveat(found: Found, captures: tuple[Object, Object], threshold: float) -> str | None:
    """Why a column may differ by what was captured alone: what moved in a part may be that part's own, and a side on
    which names are missing may lack them."""
    for value, own, other in zip((found.before, found.after), captures, reversed(captures), strict=True):
        if found.change == MOVED:
            why = shortness(own, other, threshold)
        else:
            values = value.values() if isinstance(value, dict) else [value]
            why = (lacking(own) or shortness(own, other, SHORTER)) if [] in values else None
        if why is not None:
            return why
    return None


def _object(
    answer: str,
    definition: Definition,
    found: Found,
    before: Object | None,
    after: Object | None,
    caveat: str | None,
) -> Object:
    row = after or before or {}
    addresses = {
        name: [None if each is None else each[name] for each in (before, after)]
        for name in definition.addresses.split()
    }
    factor = None if found.factor in (None, inf) else round(found.factor or 0, 3)
    values = (
        found.change,
        answer,
        {name: row[name] for name in definition.identity.split()},
        addresses,
        found.column or None,
        found.before,
        found.after,
        factor,
        *found.counts,
        caveat,
    )
    return dict(zip(KEYS, values, strict=True))


def _seconds(capture: Object) -> float:
    if capture["from"] is None or capture["until"] is None:
        return 0.0
    begin, end = (datetime.fromisoformat(capture[key]).timestamp() for key in ("from", "until"))
    return max(end - begin, 0.0)


def lacking(capture: Object) -> str | None:
    """What a capture lacks, but for what nobody asked for; None if it lacks nothing."""
    asked = left_out_by(capture["filters"])
    return next((line for line in capture["incomplete"] if line != asked), None)


# ---------------------------------------------------------------------- rows


def _matched(
    definition: Definition, old: Object, new: Object
) -> tuple[list[tuple[Object, Object]], list[Object], list[Object]]:
    """Pairs of rows, and the rows of each side that the other has not."""
    identity, addresses = definition.identity.split(), definition.addresses.split()
    texts = address_texts(old["capture"]), address_texts(new["capture"])
    rests = old["rows"], new["rows"]
    pairs: list[tuple[Object, Object]] = []
    for told, names in ((addresses, texts), (addresses, ({}, {})), ([], ({}, {}))):
        waiting: dict[tuple[Any, ...], list[Object]] = defaultdict(list)
        for row in rests[0]:
            waiting[_told(row, identity, told, names[0])].append(row)
        rest = []
        for row in rests[1]:
            same = waiting[_told(row, identity, told, names[1])]
            if same:
                pairs.append((same.pop(0), row))
            else:
                rest.append(row)
        rests = [row for rows in waiting.values() for row in rows], rest
    return pairs, *rests


def _told(row: Object, identity: list[str], addresses: list[str], names: dict[str, str]) -> tuple[Any, ...]:
    """What tells a row: values of its identity, and what stands for its addresses."""
    return *(row[name] for name in identity), *(names.get(row[name], row[name]) for name in addresses)


def _of_row(definition: Definition, before: Object, after: Object, sizes: Sizes) -> Iterable[Found]:
    kinds = {key.name: key.kind for key in definition.keys}
    for column in definition.compared.split():
        name, _, below = column.partition(".")
        if name in definition.unknown and definition.unknown[name] in (before[name], after[name]):
            continue
        if below:
            structs = dict(
                each.split() for each in definition.structs[kinds[name].removesuffix("_map")].split(",")
            )
            found = _in_map(_BY_KIND[structs[below]], below, before[name], after[name], sizes)
        else:
            found = _by_kind(kinds[name], name)(before[name], after[name], sizes)
        if found is not None:
            yield found._replace(column=column + found.column)


# ---------------------------------------------------------------------- columns by their kinds

Compared = Callable[[Any, Any, Sizes], Found | None]


def _by_kind(kind: str, name: str) -> Compared:
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    least = LEAST_MS if name.endswith("_ms") else 0.0
    return lambda before, after, sizes: _quantiles(before, after, sizes, least)


def _value(before: Any, after: Any, _: Sizes) -> Found | None:
    """Texts, flags, numbers that name something: what is not known is no change."""
    return None if before is None or after is None or before == after else Found(CHANGED, before, after)


def _names(before: list[Any] | None, after: list[Any] | None, _: Sizes) -> Found | None:
    """Names, in any order: those that the other side has not."""
    if before is None or after is None or {*before} == {*after}:
        return None
    gone, come = (
        [each for each in mine if each not in its] for mine, its in ((before, after), (after, before))
    )
    return Found(CHANGED, gone, come, None, (len(before), len(after)))


def _entries(before: Object | None, after: Object | None, _: Sizes) -> Found | None:
    """Values by name: those of names that both sides have."""
    both = (before or {}).keys() & (after or {}).keys()
    if (
        before is None
        or after is None
        or not (other := sorted(name for name in both if before[name] != after[name]))
    ):
        return None
    return Found(CHANGED, {name: before[name] for name in other}, {name: after[name] for name in other})


def _shares(before: dict[str, int] | None, after: dict[str, int] | None, sizes: Sizes) -> Found | None:
    """Counts by name: none in common, or the share of one moved."""
    counts = sum((before or {}).values()), sum((after or {}).values())
    if not before or not after or not all(counts):
        return None
    if before.keys().isdisjoint(after):
        return Found(CHANGED, before, after, None, counts)
    for name in {**before, **after}:
        had = before.get(name, 0), after.get(name, 0)
        factor = _factor(had[0] / counts[0], had[1] / counts[1])
        if _is_far(factor, sizes.threshold) and _differ(had, counts):
            return Found(MOVED, before, after, None, counts)
    return None


def _amount(before: int | None, after: int | None, sizes: Sizes) -> Found | None:
    """A count: its rate moved, and its share of all exchanges did, the same way. Values are rates, in seconds."""
    if (
        before is None
        or after is None
        or before == after
        or not all(sizes.seconds)
        or not all(sizes.exchanges)
    ):
        return None
    rates = before / sizes.seconds[0], after / sizes.seconds[1]
    factors = _factor(*rates), _factor(before / sizes.exchanges[0], after / sizes.exchanges[1])
    if not all(_is_far(factor, sizes.threshold) for factor in factors) or (factors[0] > 1) != (
        factors[1] > 1
    ):
        return None
    if not all(_is_uneven((before, after), length) for length in (sizes.seconds, sizes.exchanges)):
        return None
    return Found(MOVED, round(rates[0], 3), round(rates[1], 3), factors[0], (before, after), "/s")


def _quantiles(before: Any, after: Any, sizes: Sizes, least: float) -> Found | None:
    """Quantiles: the one that moved furthest."""
    if not isinstance(before, Quantiles) or not isinstance(after, Quantiles):
        return None
    found: list[Found] = []
    counts = before.histogram.count, after.histogram.count
    for name, percent in PERCENTS.items():
        values = before.get(name), after.get(name)
        if values[0] is None or values[1] is None or abs(values[1] - values[0]) < least:
            continue
        factor = _factor(values[0], values[1])
        if _is_far(factor, sizes.threshold) and _are_apart(before.histogram, after.histogram, percent):
            found.append(Found(MOVED, *values, factor, counts, f".{name}"))
    return max(found, key=lambda each: max(each.factor or inf, 1 / (each.factor or inf)), default=None)


_BY_KIND: dict[str, Compared] = {
    "text": _value,
    "bool": _value,
    "int": _value,
    "texts": _names,
    "ints": _names,
    "ints_map": _entries,
    "counts": _shares,
    "long": _amount,
}
"""Kinds; all others are quantiles, by their names in a row."""


def _in_map(
    compared: Compared, name: str, before: Object | None, after: Object | None, sizes: Sizes
) -> Found | None:
    """A value of the objects of a map, for the names that both sides have."""
    found = {
        key: each
        for key in (before or {})
        if key in (after or {})
        and (each := compared((before or {})[key][name], (after or {})[key][name], sizes))
    }
    if not found:
        return None
    change = CHANGED if any(each.change == CHANGED for each in found.values()) else MOVED
    values = (
        {key: each.before for key, each in found.items()},
        {key: each.after for key, each in found.items()},
    )
    counts = tuple(sum(each.counts[side] or 0 for each in found.values()) for side in (0, 1))
    return Found(change, *values, None, (counts[0], counts[1]))


# ---------------------------------------------------------------------- numbers


def _factor(before: float, after: float) -> float:
    return after / before if before else inf if after else 1.0


def _is_far(factor: float, threshold: float) -> bool:
    return factor >= threshold or factor <= 1 / threshold


def _differ(had: tuple[int, int], of: tuple[int, int]) -> bool:
    """True if two shares differ by more than chance: the test of two proportions, with Yates' correction."""
    joint = sum(had) / sum(of)
    parts = 1 / of[0] + 1 / of[1]
    apart = abs(had[0] / of[0] - had[1] / of[1]) - parts / 2
    return apart > 0 and apart >= ENOUGH * sqrt(joint * (1 - joint) * parts)


def _is_uneven(counts: tuple[int, int], lengths: tuple[float, float]) -> bool:
    """True if two counts are shared out otherwise than the lengths in which they were counted: the same test, of one
    proportion."""
    share, total = lengths[0] / sum(lengths), sum(counts)
    apart = abs(counts[0] - total * share) - 0.5
    return apart > 0 and apart >= ENOUGH * sqrt(total * share * (1 - share))


def _is_enough(count: int | None, side: int, sizes: Sizes) -> bool:
    """True if a count of one side is so high that the other side is long enough to have any."""
    counts = (count or 0, 0) if side == 0 else (0, count or 0)
    return sum(sizes.seconds) > 0 and _is_uneven(counts, sizes.seconds)


def _are_apart(before: Histogram, after: Histogram, percent: int) -> bool:
    """True if more of one side than of the other is beyond their joint quantile. Many values may be equal to it: they
    count on either side of it."""
    joint = Histogram()
    joint.merge(before)
    joint.merge(after)
    (value,) = joint.quantiles(percent)
    counts = before.count, after.count
    return any(_differ(had, counts) for had in zip(before.beyond(value), after.beyond(value), strict=True))
