"""The closing summary, for people: the input, its connections and exchanges, and everything that stayed unknown."""

from __future__ import annotations

from math import ceil
from typing import Any

from kinspect.output.escape import escape
from kinspect.output.filterhint import filter_hint
from kinspect.output.tally import Tally
from kinspect.tls.keylog import NONE_GIVEN
from kinspect.wording import NAMELESS, counted

SERVER_NAMES_SHOWN = 3
COUNTS_SHOWN = 8
ERRORS_SHOWN = 3
OTHER_KINDS = {"other": "other", "empty": "without data"}

COUNTED = {
    "kernel_drops": "packets dropped by the capturing kernel: {}",
    "queue_drops": "packets captured but not decoded, as they came too fast: {}",
    "interface_losses": "times that an interface went away, whose packets meanwhile are missing: {}",
    "left_packets": "packets captured but not decoded, as the run ended: {}",
    "tls_not_decrypted": "TLS not decrypted: {}",
    "packets_without_tcp": "packets without TCP: {}",
    "unresolved_topic_ids": f"topic ids {NAMELESS}: {{}}",
    "caps_hit": "caps hit: {}",
}
"""Keys of the summary that have a line of their own where they are not 0."""

PAYLOAD = {
    "message_bytes": "in Kafka messages",
    "unfinished_bytes": "in messages without an end",
    "undecoded_bytes": "without a message",
    "tls_bytes": "in TLS not decrypted",
    "tls_overhead_bytes": "of TLS itself",
    "other_bytes": "of other protocols",
    "repeated_bytes": "repeated",
    "conflicting_bytes": "repeated with another value (the first one holds)",
    "ignored_bytes": "outside of connections",
}
"""Words for the parts of the payload, by the keys of the summary that add up to it."""

DROPS = ("kernel_drops", "queue_drops")
"""Keys of `COUNTED` that the summary of a live capture always has."""


GAPS = {
    "capture_loss": "lost bytes",
    "snaplen": "packets that were cut",
    "mid_start": "a begin in the middle of a message",
}
"""Words for the causes of gaps."""


def summary_text(summary: dict[str, Any], tally: Tally) -> str:
    """The lines to print after the last exchange; things that did not happen are left out."""
    lines = [_read(summary, tally)]
    if summary["saved_packets"] is not None:
        lines.append(saved_text(summary))
    lines.append(_connections(summary))
    if summary["connections"]["kafka"] or summary["exchanges"]:
        lines.append(_exchanges(summary, tally))
    if tally.without_line:
        lines.append(f"not written, as {tally.omits_because}: {tally.without_line:,}")
    if tally.twins:
        lines.append(f"left out, as seen again at translated addresses: {_listed(tally.twins)}")
    if tally.twins_shown:
        lines.append(f"seen again at translated addresses: {tally.twins_shown:,}; --no-twins leaves them out")
    if not tally.shown and tally.seen:
        lines.append(filter_hint(tally))
    if tally.unknown:
        lines.append(f"left out by filters, as what they ask for is not known: {_listed(tally.unknown)}")
    if summary["gaps"]:
        lines.append(f"{gaps_text(summary['gap_causes'])}: {counted(summary['gap_bytes'], 'byte')}")
    if summary["payload_bytes"]:
        parts = {text: summary[key] for key, text in PAYLOAD.items() if summary[key]}
        each = ", ".join(f"{size:,} {text}" for text, size in parts.items())
        where = f": {each}" if len(parts) > 1 else f", all {next(iter(parts))}"
        lines.append(f"{counted(summary['payload_bytes'], 'byte')} of payload{where}")
    lines += [text.format(_shown(summary[key])) for key, text in COUNTED.items() if summary[key]]
    lines += [clock_text(offset) for offset in summary["clock_offsets"] or () if offset["offset_ms"]]
    if summary["clock_steps"]["connections"]:
        lines.append(step_text(summary["clock_steps"]))
    if tally.stopped is not None:
        lines.append(tally.stopped)
    return "".join(f"{line}\n" for line in lines)


def gaps_text(causes: dict[str, int]) -> str:
    """The gaps by their causes."""
    return ", ".join(
        f"{counted(causes[cause], 'gap')} by {text}" for cause, text in GAPS.items() if causes[cause]
    )


def saved_text(summary: dict[str, Any]) -> str:
    """Line for a live capture with `--save`: packets captured, and packets in the files."""
    return f"{counted(summary['captured_packets'], 'packet')} captured, {summary['saved_packets']:,} of them saved"


def clock_text(offset: dict[str, Any]) -> str:
    """Line for an entry of the summary's `clock_offsets`."""
    ahead = offset["offset_ms"]
    text = (
        f"clock of {escape(offset['file'])}: {abs(ahead):,.3f} ms {'ahead of' if ahead > 0 else 'behind'} "
        f"{escape(offset['to'])}'s"
    )
    if offset["applied"]:
        return f"{text}, set right"
    return f"{text}, not set right: give --clock-skew {ceil(abs(ahead))}ms"


def step_text(steps: dict[str, int]) -> str:
    """Line for the summary's `clock_steps`."""
    connections = steps["connections"]
    seconds = steps["ms"] / connections / 1000
    return f"clock set forward by {seconds:,.3f} s, as {counted(connections, 'connection')} that went on show"


def _read(summary: dict[str, Any], tally: Tally) -> str:
    files = counted(len(summary["files"]) - tally.unread, "file")
    files += f", {tally.unread:,} could not be read" if tally.unread else ""
    where = f"in {files}" if tally.interface is None else f"on {escape(tally.interface)}"
    repeated = summary["duplicate_packets"]
    again = f", {repeated:,} of them seen twice" if repeated else ""
    return f"{counted(summary['packets'], 'packet')}{again}, {counted(summary['bytes'], 'byte')} {where}"


def _connections(summary: dict[str, Any]) -> str:
    kinds = summary["connections"]
    parts = [counted(sum(kinds.values()), "connection"), f"{kinds['kafka']:,} Kafka"]
    if kinds["tls"]:
        names = [escape(name) for name in summary["server_names"]]
        more = "…" if len(names) > SERVER_NAMES_SHOWN else ""
        about = [f"SNI {', '.join(names[:SERVER_NAMES_SHOWN])}{more}"] if names else []
        if NONE_GIVEN in summary["tls_not_decrypted"]:
            about.append("give --keylog")
        parts.append(f"{kinds['tls']:,} TLS" + (f" ({'; '.join(about)})" if about else ""))
    parts += [f"{kinds[kind]:,} {text}" for kind, text in OTHER_KINDS.items() if kinds[kind]]
    if begun := summary["partial_connections"]["no_begin"]:
        parts.append(f"{begun:,} under way at the start")
    return ", ".join(parts)


def _exchanges(summary: dict[str, Any], tally: Tally) -> str:
    outcomes = {name.replace("_", " "): count for name, count in summary["outcomes"].items() if count}
    outcomes.pop("answered", None)
    parts = [
        counted(summary["exchanges"], "exchange"),
        *(f"{count:,} {name}" for name, count in outcomes.items()),
    ]
    fewer = tally.stopped is not None and tally.shown < summary["exchanges"]
    if tally.called and (tally.filtered or fewer):
        # The counts that follow are of these alone.
        parts = [f"{', '.join(parts)}; {tally.shown:,} {tally.called}"]
    if tally.errors:
        parts.append(counted(tally.errors, "error code") + _named(tally.error_counts))
    if tally.problems:
        parts.append(counted(tally.problems, "problem"))
    if tally.unchecked:
        parts.append("problems not looked for")
    return ", ".join(parts)


def _named(error_counts: dict[tuple[int, str], int]) -> str:
    """` (NOT_COORDINATOR 2, REBALANCE_IN_PROGRESS 1)`: the most frequent codes, of equals the lower one first; a single
    code stands without its number."""
    ranked = sorted(error_counts.items(), key=lambda item: (-item[1], item[0]))
    if not ranked:
        return ""
    if len(ranked) == 1:
        return f" ({ranked[0][0][1]})"
    names = [f"{name} {times:,}" for (_, name), times in ranked[:ERRORS_SHOWN]]
    return f" ({', '.join(names + ['…'] * (len(ranked) > ERRORS_SHOWN))})"


def _shown(value: Any) -> str:
    return _listed(value) if isinstance(value, dict) else f"{value:,}"


def _listed(counts: dict[str, int], most: int = COUNTS_SHOWN) -> str:
    """The greatest counts by name, equals in the order of names, and the sum of the others."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{escape(name)} {count:,}" for name, count in ranked[:most]]
    rest = sum(count for _, count in ranked[most:])
    return ", ".join(shown + [f"others {rest:,}"] * (rest > 0))
