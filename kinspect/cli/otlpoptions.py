"""`--otlp URL`: the lines of a run for an OpenTelemetry collector."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from kinspect.cli.options import DEFAULT_SIGNALS, OTLP, SAMPLE, SIGNALS, SPANS, split
from kinspect.cli.rules import Facts, OptionRule
from kinspect.output import SEMCONV
from kinspect.sink import EXCHANGE

OTLP_RULES = (
    OptionRule(("otlp_signals", "otlp_sample", "semconv"), f"{{}} is for --{OTLP}", unless=OTLP),
    OptionRule("sort", f"{{}} is not for --{OTLP}: a collector sorts by itself", OTLP),
    OptionRule("otlp_sample", f"{{}} is for --otlp-signals {SPANS}", unless=f"signals={SPANS}"),
)
OTLP_FACTS: Facts = {
    "signals": lambda asked: frozenset(
        split("--otlp-signals", [asked["otlp_signals"] or DEFAULT_SIGNALS], SIGNALS)
    )
}


class Otlp(NamedTuple):
    """What `--otlp` asks for. `share`: of the connections whose spans are sent, all that failed apart; `users`: the
    attributes name them."""

    url: str
    signals: frozenset[str]
    share: float
    semconv: str
    users: bool
    lines: frozenset[str]

    @property
    def shown(self) -> str:
        """The URL for people, without a user and a password."""
        from urllib.parse import urlsplit

        parts = urlsplit(self.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def make_otlp(values: dict[str, Any], emit: frozenset[str]) -> Otlp | None:
    """What the options ask for; `emit`: the types of lines. Raises click.UsageError."""
    if (url := values.get(OTLP)) is None:
        return None
    if not _is_base(url):
        raise click.UsageError("--otlp: give the collector's URL, as http://127.0.0.1:4318")
    signals = OTLP_FACTS["signals"](values)
    share = SAMPLE if values["otlp_sample"] is None else values["otlp_sample"]
    semconv, users = values["semconv"] or SEMCONV[0], not values.get("no_users")
    return Otlp(url, signals, share, semconv, users, emit | {EXCHANGE})


def _is_base(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not parts.query
        )
    except ValueError:
        return False
