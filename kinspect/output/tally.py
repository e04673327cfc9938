"""Counts of the output side, for the closing summary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from kinspect import filteredvalues
from kinspect.filteredvalues import SeenValues
from kinspect.kafka.bodysummary import error_counts
from kinspect.kafka.view.view import iso_time
from kinspect.kafka.wire.eventid import event_id
from kinspect.protocol import schema

if TYPE_CHECKING:
    from kinspect.kafka.exchange.exchange import Exchange

K = TypeVar("K")

OPEN_ENDED = """
    packets_without_tcp server_names tls_not_decrypted caps_hit error_counts unknown_to_filters twins
""".split()
"""Keys of the `summary` line with numbers by names that no list gives beforehand."""

SHOWN, PASSED, LOOKED_AT = "shown", "passed the filters", "looked at"
"""Words for the exchanges that passed the filters; `LOOKED_AT` if nothing is written or filtered."""


@dataclass(slots=True, eq=False, repr=False)
class Tally:
    """Counts of the output side, beside the pipeline's.

    `error_counts`: number of times each error code occurs, by the code and its name. `unchecked`: nothing of the
    bodies but their error codes was looked at, so that `problems` are unknown. `unknown`: by filter option, the
    number of exchanges left out because the value that it tests is not known. `stopped`: the reason, if the reading
    ended before the captures did. `interface`: the source of the packets, if not files. `unread`: files that could
    not be read at all. `options`: the filters, in the order in which they are applied, with the patterns that
    exchanges are to match; `host`: the name of the one that captures, if it is live, and `interfaces` those that it
    captures from; `seen`: values of the exchanges that they left out; `first`, `last`: the times of the first and the
    last packet, in nanoseconds; `utc`: times are not shown in local time. `without_line`: exchanges that passed the
    filters, of a kind that the format has no lines for; `omits_because`: why; `twins`: by the addresses that were
    translated, the number of exchanges left out as they were seen before, None if these are not to be left out;
    `twins_shown`: those that were not left out.
    """

    shown: int = 0
    problems: int = 0
    errors: int = 0
    error_counts: dict[tuple[int, str], int] = field(default_factory=dict)
    filtered: bool = False
    unchecked: bool = False
    called: str | None = SHOWN
    unknown: dict[str, int] = field(default_factory=dict)
    stopped: str | None = None
    interface: str | None = None
    host: str | None = None
    interfaces: str | None = None
    unread: int = 0
    options: dict[str, list[str]] = field(default_factory=dict)
    seen: SeenValues = field(default_factory=dict)
    first: int | None = None
    last: int | None = None
    utc: bool = False
    without_line: int = 0
    omits_because: str = ""
    twins: dict[str, int] | None = None
    twins_shown: int = 0

    def count(self, exchange: Exchange) -> None:
        """Add the problems and the error codes of an exchange that passed the filters; decodes bodies for it."""
        if self.unchecked:
            counts = error_counts(exchange)
        else:
            self.problems += len(exchange.problems)
            counts = exchange.summary.error_counts
        if counts:
            self.errors += sum(counts.values())
            named = {
                (code, schema.error_name(code, exchange.api_key)): times for code, times in counts.items()
            }
            _add(self.error_counts, named)

    def named_errors(self) -> dict[str, int]:
        """Number of times each error occurs, by name."""
        return {name: times for (_, name), times in sorted(self.error_counts.items())}

    def completed(self, summary: dict[str, Any]) -> dict[str, Any]:
        """The `summary` line's object, with the counts of the output side added to the pipeline's. Its id is a hash of
        all of it: the same run again has the same one, any other run has another."""
        line = {
            "type": summary["type"],
            "schema_version": summary["schema_version"],
            "event_id": "",
            "host": self.host,
            "interface": self.interfaces,
            "timestamp": iso_time(self.first),
            "completed_at": iso_time(self.last),
            **summary,
            "shown": self.shown,
            "error_counts": self.named_errors(),
            "unknown_to_filters": self.unknown,
            "twins": self.twins,
            "line_truncated": False,
        }
        for key in OPEN_ENDED:
            counts = line[key]
            if counts is not None:
                line[key] = [{"name": name, "count": count} for name, count in sorted(counts.items())]
        return {**line, "event_id": event_id(f"summary|{line}")}

    def add(self, other: Tally) -> None:
        """Add the counts of another process."""
        self.shown += other.shown
        self.problems += other.problems
        self.errors += other.errors
        self.without_line += other.without_line
        _add(self.error_counts, other.error_counts)
        _add(self.unknown, other.unknown)
        self.twins_shown += other.twins_shown
        if self.twins is not None:
            _add(self.twins, other.twins or {})
        filteredvalues.add(self.seen, other.seen)


def _add(counts: dict[K, int], more: dict[K, int]) -> None:
    for key, times in more.items():
        counts[key] = counts.get(key, 0) + times
