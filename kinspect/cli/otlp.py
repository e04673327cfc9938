"""`--otlp URL`: the lines of a run for an OpenTelemetry collector."""

from __future__ import annotations

from typing import Any, NamedTuple

import click

from kinspect.cli.options import DEFAULT_SIGNALS, EXCHANGE, OTLP, SAMPLE, SIGNALS, SPANS, split
from kinspect.output import SEMCONV


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
    if values.get(OTLP) is None:
        given = [name for name in ("otlp_signals", "otlp_sample", "semconv") if values.get(name) is not None]
        if given:
            raise click.UsageError(f"--{given[0].replace('_', '-')} is for --otlp")
        return None
    url = values[OTLP]
    if values.get("sort"):
        raise click.UsageError("--sort is not for --otlp: a collector sorts by itself")
    if not _is_base(url):
        raise click.UsageError("--otlp: give the collector's URL, as http://127.0.0.1:4318")
    signals = split("--otlp-signals", [values["otlp_signals"] or DEFAULT_SIGNALS])
    if unknown := sorted(signals - {*SIGNALS}):
        raise click.UsageError(f"--otlp-signals: {unknown[0]!r} is not one of {', '.join(SIGNALS)}")
    if values["otlp_sample"] is not None and SPANS not in signals:
        raise click.UsageError(f"--otlp-sample is for --otlp-signals {SPANS}")
    share = SAMPLE if values["otlp_sample"] is None else values["otlp_sample"]
    users = not values.get("no_users")
    return Otlp(url, signals, share, values["semconv"] or SEMCONV[0], users, emit | {EXCHANGE})


def _is_base(url: str) -> bool:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and not parts.query
        )
    except ValueError:
        return False
