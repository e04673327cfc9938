"""Why an answer is incomplete, a line each: what the capture lacks, filters left out, or there was no room for."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from kinspect import wording
from kinspect.output.runsummary import clock_text, gaps_text, step_text
from kinspect.tls.keylog import NONE_GIVEN

Object = dict[str, Any]


class AnswerCounts(NamedTuple):
    """What an answer counted: exchanges; copies of them, which it did not count; groups that had members before them;
    how often there was no room for more; lines on what nothing proves to belong there."""

    exchanges: int
    twins: int | None
    groups: int
    left_out: int
    unproven: Sequence[str] = ()


def why_incomplete(
    summary: Object, counted: AnswerCounts, filters: Sequence[str] = (), ended: Iterable[str] = ()
) -> list[str]:
    """Lines on what is missing, the gravest first; none if nothing is. `summary`: the `summary` line's object;
    `filters`: options of the filter; `ended`: why not all was read."""
    found = [*_undecoded(summary), *ended, *counted.unproven, _under_way(summary, counted)]
    found += _told(summary, _CAUSES)
    if summary["outcomes"]["orphan"]:
        orphans = summary["outcomes"]["orphan"]
        found.append(
            f"{wording.counted(orphans, 'answer')} without {wording.plural(orphans, 'its', 'their')} request"
        )
    if filters and counted.exchanges + (counted.twins or 0) < summary["exchanges"]:
        found.append(left_out_by(filters))
    if counted.left_out:
        found.append(f"no room for {counted.left_out:,} more")
    return [*filter(None, found)]


def why_unseen(summary: Object, ended: Iterable[str] = ()) -> list[str]:
    """Lines on why there may have been exchanges beside those that were seen; none if there were not."""
    begun = summary["partial_connections"]["no_begin"]
    found = [*_undecoded(summary), *ended]
    found += [f"{wording.counted(begun, 'connection')} under way at the start"] if begun else []
    return [*filter(None, [*found, *_told(summary, _UNSEEN)])]


def why_mistimed(summary: Object) -> list[str]:
    """Lines on why times of exchanges may not be those at which they were sent; none if they are."""
    return [*filter(None, _told(summary, _CLOCKS))]


def _told(summary: Object, keys: Container[str]) -> list[str]:
    """The lines of some of the causes, in their order."""
    return [tell(summary[key]) for key, tell in _CAUSES.items() if key in keys and summary[key]]


def left_out_by(filters: Sequence[str]) -> str:
    """The line on exchanges that were not asked for."""
    return f"exchanges that {', '.join(filters)} left out"


def _undecoded(summary: Object) -> Iterator[str]:
    """Why there is nothing to answer from."""
    exchanges, connections = summary["exchanges"], summary["connections"]
    if exchanges and exchanges == summary["outcomes"]["orphan"]:
        yield "no request was captured, only answers"
    if exchanges or connections["kafka"]:
        return
    if connections["tls"]:
        reason = max(summary["tls_not_decrypted"], key=summary["tls_not_decrypted"].__getitem__, default=None)
        yield f"no Kafka was decoded: the connections are TLS{f', and {reason}' if reason else ''}"
    elif connections["other"]:
        yield "no Kafka was found: the connections speak something else, or too little of them was captured"
    elif not summary["packets"]:
        yield "no Kafka was found: there is no packet"
    else:
        yield "no Kafka was found: no connection carries data"


def _under_way(summary: Object, counted: AnswerCounts) -> str:
    """What had begun before what was counted."""
    begun = {
        "connection": summary["partial_connections"]["no_begin"],
        "fetch session": summary["fetch_sessions_under_way"],
        "group": counted.groups,
    }
    texts = [wording.counted(count, thing) for thing, count in begun.items() if count]
    return f"{wording.all_listed(texts)} under way at the start" if texts else ""


def _partial(connections: dict[str, int]) -> str:
    sides = [
        f"{wording.counted(connections[f'no_{side}'], 'connection')} without the {side}'s packets"
        for side in ("client", "broker")
        if connections[f"no_{side}"]
    ]
    if connections["unknown"]:
        sides.append(
            f"{wording.counted(connections['unknown'], 'connection')} of an unknown protocol, as not all was captured"
        )
    return ", ".join(sides)


def _tls(reasons: dict[str, int]) -> str:
    advice = " (see --keylog)" if NONE_GIVEN in reasons else f": {next(iter(reasons))}"
    return f"{wording.counted(sum(reasons.values()), 'TLS connection')} not decrypted{advice}"


def _unknown(options: dict[str, int]) -> str:
    each = [
        f"{wording.counted(count, 'exchange')} of which {option} is not known"
        for option, count in options.items()
    ]
    return ", ".join(each)


def _clocks(offsets: list[Object]) -> str:
    off = [clock_text(each) for each in offsets if not each["applied"] and each["offset_ms"]]
    return ", ".join(off)


_CAUSES: dict[str, Callable[[Any], str]] = {
    "kernel_drops": lambda count: f"{wording.counted(count, 'packet')} dropped by the kernel",
    "queue_drops": lambda count: f"{wording.counted(count, 'packet')} not decoded, as they came too fast",
    "interface_losses": lambda count: (
        f"packets of an interface that went away {wording.counted(count, 'time')}"
    ),
    "left_packets": lambda count: f"{wording.counted(count, 'packet')} not decoded, as the run ended",
    "partial_connections": _partial,
    "gap_causes": gaps_text,
    "tls_not_decrypted": _tls,
    "clock_offsets": _clocks,
    "clock_steps": lambda steps: step_text(steps) if steps["connections"] else "",
    "late_packets": lambda count: f"{wording.counted(count, 'packet')} out of time",
    "caps_hit": lambda caps: f"limits reached: {', '.join(caps)}",
    "unresolved_topic_ids": lambda count: f"{wording.counted(count, 'topic id')} {wording.NAMELESS}",
    "unknown_to_filters": _unknown,
}
"""Lines by the keys of the summary, in their order."""
_CLOCKS = frozenset({"clock_offsets", "clock_steps"})
_UNSEEN = _CAUSES.keys() - {*_CLOCKS, "unresolved_topic_ids"}
"""Those of exchanges that may be missing."""
