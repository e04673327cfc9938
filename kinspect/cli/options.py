"""Options that commands share, as tables, and the objects made from their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

from kinspect.cli import completed
from kinspect.cli.completed import files, one_of, words
from kinspect.cli.outfile import STANDARD
from kinspect.cli.types import COUNT, DURATION, PORT, SIZE, Count, Duration, Number, Size
from kinspect.errors import KinspectError
from kinspect.filters import FILTER_NAMES, Filter
from kinspect.kafka.connection.roles import ROLES
from kinspect.kafka.view.forms import BODY_FORMS, JSON, TEXT
from kinspect.kafka.view.recordview import PAYLOADS
from kinspect.kafka.view.view import INT64_FORMS, View
from kinspect.kafka.wire.wait import CAUSES
from kinspect.model import Caps
from kinspect.output import DETAIL, ECS, FORMATS, JSONL, NONE, REQUEST_LOG, SEMCONV, TABLE, Style
from kinspect.output.escape import escape
from kinspect.output.fit import LEAST_LINE
from kinspect.output.ordered import ORDERS
from kinspect.tables.names import DEFAULT_TABLES, PARQUET, RECORDS, TABLES

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Option = Callable[[Callable[..., Any]], Callable[..., Any]]

AUTO = "auto"
EXCHANGE, CONNECTION, GAP, SUMMARY = "exchange", "connection", "gap", "summary"
LINE_TYPES = (EXCHANGE, CONNECTION, GAP, SUMMARY)
STATS = "stats"
"""A type of lines that `live` alone has."""

OTLP = "otlp"
"""The option that names a collector."""
LOGS, METRICS, SPANS = "logs", "metrics", "spans"
SIGNALS = (LOGS, METRICS, SPANS)
DEFAULT_SIGNALS = f"{LOGS},{METRICS}"
SAMPLE = 0.01
"""Share of connections whose spans are sent, where nobody asks for another."""

KEYS_FROM_BODIES = frozenset({"api_candidates", "broker", "broker.node_id"})
"""Fields outside of bodies that need bodies: the APIs an orphan may belong to, and the node at an address."""

PATTERN = "PATTERN"
_MANY: dict[str, Any] = {"multiple": True, "metavar": PATTERN}

FILTERS = (
    click.option(
        "--api", **_MANY, shell_complete=words(completed.apis), help="APIs, by name in any case or by key."
    ),
    click.option(
        "--topic",
        **_MANY,
        help="Topics, by name or whole id, in the request, the response or the fetch session.",
    ),
    click.option("--group", **_MANY, help="Groups, in the request or the response."),
    click.option("--client-id", **_MANY, help="Client ids."),
    click.option("--principal", **_MANY, help="Users that SASL named, or of requests in Envelopes."),
    click.option(
        "--software",
        **_MANY,
        help="Clients' software as they tell it, by name or name/version (apache-kafka-java/4.*).",
    ),
    click.option(
        "--role", **_MANY, shell_complete=one_of(*ROLES), help=f"Clients' roles: {', '.join(ROLES)}."
    ),
    click.option("--host", **_MANY, help="Addresses or networks (10.0.0.0/8) of either side."),
    click.option("--client-host", **_MANY, help="Addresses or networks of the client."),
    click.option("--broker-host", **_MANY, help="Addresses or networks of the broker."),
    click.option("--port", **_MANY, help="Ports of either side."),
    click.option(
        "--error",
        **_MANY,
        shell_complete=words(completed.errors),
        help="Error codes in the response, by name in any case or by code.",
    ),
    click.option(
        "--wait",
        **_MANY,
        shell_complete=one_of(*CAUSES),
        help=f"Causes of the wait for the answer: {', '.join(CAUSES)}.",
    ),
    click.option(
        "--errors-only",
        is_flag=True,
        help="Only exchanges with an error code or a problem, refused logins, requests unanswered before the capture's"
        " end, and answers to requests that the capture lost.",
    ),
    click.option(
        "--min-latency",
        metavar="TIME",
        help="Only what took or waited at least this long: 100 or 100ms, 500us, 1.5s.",
    ),
    click.option(
        "--min-service",
        metavar="TIME",
        help="The same by service_ms: without the time behind other requests of the connection.",
    ),
    click.option(
        "--since",
        metavar="TIME",
        help="From this time on: RFC 3339 (without a zone: UTC), epoch seconds, 07:29:15 (UTC, on the date of the first"
        " packet), or +90s from the start.",
    ),
    click.option("--until", metavar="TIME", help="Before this time."),
)


def format_option(formats: Sequence[str], auto: str) -> Option:
    """`--format`, one of `formats`; `auto`: the help text for the default."""
    return click.option(
        "--format",
        "format_name",
        type=click.Choice([AUTO, *formats]),
        default=AUTO,
        help=f"auto: {auto}; {DETAIL}: every field, as a tree; {ECS}: keys of the Elastic Common Schema;"
        f" {REQUEST_LOG}: as brokers log requests; {NONE}: the closing summary alone, which then tells no problems.",
    )


def payload_option(text: str) -> Option:
    """`--payload`; `text`: its help."""
    return click.option("--payload", type=click.Choice(list(PAYLOADS)), default="none", help=text)


OUTPUT_FILE = (
    click.option(
        "-o",
        "--output",
        metavar="FILE",
        shell_complete=files,
        help="Write to FILE, readable by its owner alone; -: standard output.",
    ),
    click.option("--force", is_flag=True, help="Overwrite FILE, or write into a pipe of that name."),
)


def emit_option(types: Sequence[str]) -> Option:
    """`--emit`, some of `types`."""
    return click.option(
        "--emit",
        multiple=True,
        metavar="TYPES",
        shell_complete=one_of(*types),
        help=f"Line types of {JSONL} and {ECS}: {', '.join(types)}.  [default: {EXCHANGE}]",
    )


SHOWN = (
    click.option(
        "--fields",
        multiple=True,
        metavar="PATHS",
        help="Only these keys of exchange lines (jsonl): a,b.c. A key of records implies --records.",
    ),
    click.option(
        "--body",
        type=click.Choice(BODY_FORMS),
        help=f"Bodies: as objects; as one text, which is JSON; or not at all.  [default: {JSON}; {ECS}: none]",
    ),
    click.option(
        "--no-nulls",
        is_flag=True,
        help="Leave out null keys and empty lists (jsonl), but for those of bodies.",
    ),
    click.option(
        "--max-line",
        type=Size(least=LEAST_LINE),
        help=f"Cut lines of {JSONL} and {ECS} that have more bytes: bodies go first, then the ends of lists, then those"
        f" of texts; at least {LEAST_LINE}.",
    ),
    click.option("--records", is_flag=True, help="Decode records."),
    payload_option("Show records' keys and values; none: their sizes only."),
    click.option("--show-secrets", is_flag=True, help="Print passwords, tokens and the like."),
    click.option(
        "--no-users",
        is_flag=True,
        help=f"Leave out who logged in with SASL ({JSONL}, {ECS}, {REQUEST_LOG}, {PARQUET}, --otlp). Bodies keep the"
        " names in them.",
    ),
    click.option(
        "--int64",
        type=click.Choice(INT64_FORMS),
        default="number",
        help="64-bit integers of bodies as text, for tools that round.",
    ),
    click.option("--limit", type=COUNT, metavar="N", help="Stop after N lines that passed the filters."),
    click.option("-q", "--quiet", is_flag=True, help="No closing summary."),
    click.option("--progress/--no-progress", default=None, help="Show how far reading has got."),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colours."),
    click.option("--utc", is_flag=True, help="Tables in UTC (else local time; JSON is always UTC)."),
    click.option("--wide", is_flag=True, help="Cut nothing in tables: rows may be longer than a line."),
)


class ForLines(NamedTuple):
    """An option that only lines for programs have: its default, and the formats that have it. `sent`: so has
    what --otlp sends, where nothing else is written."""

    default: Any
    formats: tuple[str, ...]
    sent: bool = False

    def has(self, format_name: str, sends: bool) -> bool:
        """True if the format has it, or what is sent beside none."""
        return format_name in self.formats or (self.sent and sends and format_name == NONE)

    @property
    def where(self) -> str:
        """What has it, in the words of the user."""
        return " or ".join((*self.formats, *([f"{NONE} with --{OTLP}"] if self.sent else ())))


FOR_LINES = {
    "emit": ForLines((), (JSONL, ECS)),
    "fields": ForLines((), (JSONL,)),
    "body": ForLines(None, (JSONL, ECS)),
    "no_nulls": ForLines(False, (JSONL,)),
    "max_line": ForLines(None, (JSONL, ECS)),
    "no_users": ForLines(False, (JSONL, ECS, REQUEST_LOG, PARQUET), sent=True),
}
IN_BODIES = {"records": False, "payload": "none", "int64": "number"}
"""Options on what bodies show, with their defaults."""
BODIES_APART = {
    ECS: (("payload", "int64"), f"which has bodies only with --body {TEXT}"),
    REQUEST_LOG: (("records", "payload", "int64"), "which has bodies as brokers log them"),
}
"""Formats where some of these show nothing, and why."""
LINES_ALONE = {name: option.default for name, option in FOR_LINES.items()}
"""The defaults of these options, for what prints no lines."""
SINKS = (
    click.option(
        "--tables",
        metavar="NAMES",
        help=f"Which tables of {PARQUET}: {', '.join(TABLES)}.  [default: all, {RECORDS} only with --records]",
    ),
    click.option(
        f"--{OTLP}",
        metavar="URL",
        help="Send what passes the filters to an OpenTelemetry collector too, over OTLP/HTTP: http://127.0.0.1:4318.",
    ),
    click.option(
        "--otlp-signals",
        metavar="NAMES",
        help=f"What to send: {', '.join(SIGNALS)}.  [default: {DEFAULT_SIGNALS}]",
    ),
    click.option(
        "--otlp-sample",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help=f"Spans of this share of connections, and of all exchanges that failed.  [default: {SAMPLE}]",
    ),
    click.option(
        "--semconv",
        type=click.Choice(SEMCONV),
        help=f"OpenTelemetry's semantic conventions whose names are sent.  [default: {SEMCONV[0]}]",
    ),
)

SORTED_MOST = 10_000
"""Largest `--limit` of `--sort`."""
SORT = (
    click.option(
        "--sort",
        type=click.Choice([*ORDERS]),
        help="With --limit N: read everything, then show the N slowest (by latency_ms or service_ms), largest or oldest"
        " exchanges in that order.",
    ),
)

OUTPUT = (
    *OUTPUT_FILE,
    format_option([*FORMATS, PARQUET], f"{TABLE} on a terminal, else {JSONL}"),
    emit_option(LINE_TYPES),
    *SHOWN,
    *SINKS,
)

CAPS: dict[str, tuple[str, Size | Duration | Count, str]] = {
    "idle_timeout": ("idle_timeout_ns", DURATION, "Flush connections after this much silence (capture time)"),
    "max_message_bytes": ("message_bytes", SIZE, "Do not decode the bodies of longer messages"),
    "max_buffered_bytes": ("buffered_bytes", SIZE, "Bytes that wait behind a hole in one direction"),
    "max_buffered_segments": (
        "buffered_segments",
        COUNT,
        "Segments that wait behind a hole in one direction",
    ),
    "max_total_bytes": (
        "total_bytes",
        SIZE,
        "Bytes held over all connections, a quarter of it behind holes",
    ),
    "max_in_flight": ("in_flight", COUNT, "Requests without a response on one connection"),
    "max_connections": ("connections", COUNT, "Connections tracked at once"),
    "max_body_bytes": ("body_bytes", SIZE, "Memory that one message's decoded body may take"),
    "max_records_bytes": (
        "records_bytes",
        SIZE,
        "Bytes that the compressed batches of one exchange may expand to",
    ),
    "max_records": ("records", COUNT, "Records and headers kept of one exchange, and batches"),
    "max_fragment_bytes": ("fragment_bytes", SIZE, "Bytes of IP fragments that wait for others"),
    "max_fragments": ("fragments", COUNT, "Packets of which some IP fragments wait for others"),
    "fragment_timeout": ("fragment_ns", DURATION, "Give up a packet if its next fragment takes longer"),
    "reorder_packets": (
        "reorder_packets",
        COUNT,
        "Packets of a connection after which missing bytes that were acknowledged count as lost",
    ),
    "reorder_timeout": ("reorder_ns", DURATION, "Capture time after which these bytes count as lost"),
    "clock_skew": ("skew_ns", DURATION, "How far the clocks of two capture points may differ"),
}
"""Options that are caps: the field of `Caps`, type, help."""

INPUT = (
    click.option(
        "--keylog",
        metavar="FILE",
        shell_complete=files,
        help="TLS secrets (NSS key log format, SSLKEYLOGFILE).",
    ),
    click.option(
        "--topic-names",
        metavar="FILE",
        shell_complete=files,
        help="Topic names: a JSON object, or lines `id name`.",
    ),
    click.option(
        "--decode-as",
        multiple=True,
        type=PORT,
        metavar="PORT",
        help="This port is Kafka; repeatable.",
    ),
)

JOBS = (
    click.option(
        "--jobs",
        type=Number(0, 64),
        metavar="N",
        help="Share the connections among N processes; 0: one for each processor, 8 at most.  [default: 0 for inputs of"
        " 64 MiB and more, else 1]",
    ),
)


def _print_limits(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the page of `--help-limits`, and exit."""
    if not asked or ctx.resilient_parsing:
        return
    formatter = ctx.make_formatter()
    formatter.write_text(ABOUT_LIMITS)
    with formatter.section("Limits"):
        formatter.write_dl(_help_rows(ctx, lambda name: name in CAPS))
    click.echo(formatter.getvalue(), nl=False)
    ctx.exit()


ABOUT_LIMITS = (
    "What is kept at most, and for how long. A limit that is reached is counted in the summary (caps_hit)."
)

LIMITS = (
    *(
        click.option(
            f"--{name.replace('_', '-')}",
            type=kind,
            help=f"{text}.  [default: {kind.written(getattr(Caps(), field))}]",
        )
        for name, (field, kind, text) in CAPS.items()
    ),
    click.option(
        "--help-limits",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_limits,
        help="Show the limits on memory and waiting, which are options too, and exit.",
    ),
)


class Sectioned(click.Command):
    """A command whose `--help` lists filters under a heading of their own, and leaves limits to `--help-limits`."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        apart = {*FILTER_NAMES, *CAPS}
        with formatter.section("Options"):
            formatter.write_dl(_help_rows(ctx, lambda name: name not in apart))
        with formatter.section("Filters"):
            formatter.write_dl(_help_rows(ctx, lambda name: name in FILTER_NAMES))


def _help_rows(ctx: click.Context, chosen: Callable[[str], bool]) -> list[tuple[str, str]]:
    """The options whose names are chosen, with their help."""
    found = (option for option in ctx.command.get_params(ctx) if chosen(option.name or ""))
    return [row for option in found if (row := option.get_help_record(ctx))]


def options(*tables: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    """A decorator that adds all options of the tables, in their order."""

    def decorate(function: F) -> F:
        for option in reversed([option for table in tables for option in table]):
            function = option(function)
        return function

    return decorate


def make_filter(values: dict[str, Any]) -> Filter:
    """The filter that the options ask for."""
    return usage(lambda: Filter(**{name: values[name] for name in FILTER_NAMES}))


def make_caps(values: dict[str, Any]) -> Caps:
    """The caps, with given ones in place of the defaults."""
    return Caps(**{field: values[name] for name, (field, *_) in CAPS.items() if values[name] is not None})


def make_view(values: dict[str, Any]) -> View:
    """The view that the options ask for."""
    fields = split("--fields", values["fields"])
    return usage(
        lambda: View(
            fields=fields or None,
            records=values["records"],
            payload=values["payload"],
            show_secrets=values["show_secrets"],
            int64=values["int64"],
            body=values["body"] or JSON,
            nulls=not values["no_nulls"],
            users=not values["no_users"],
            max_line=values["max_line"],
        )
    )


def needs_heads_only(view: View, chosen: Filter, format_name: str) -> bool:
    """True if neither the lines nor the filter look at a body, but for its error codes."""
    if format_name == NONE:
        return not chosen.needs_body
    return not (
        chosen.needs_body
        or needs_waits(view, chosen, format_name)
        or view.request_fields != frozenset()
        or view.response_fields != frozenset()
        or not KEYS_FROM_BODIES.isdisjoint(view.fields or ())
    )


def needs_waits(view: View, chosen: Filter, format_name: str) -> bool:
    """True if the lines or the filter look at the causes of waits."""
    return chosen.needs_wait or (format_name != NONE and (view.fields is None or "wait" in view.fields))


def make_style(values: dict[str, Any]) -> Style:
    """The look of tables and trees that the options ask for."""
    return Style(values["color"], values["utc"], values["wide"])


def choose_format(values: dict[str, Any], terminal: bool, shown: str = TABLE) -> str:
    """The format meant by `auto`: `shown` on a terminal; options that only JSON lines have choose those."""
    name: str = values["format_name"]
    given = {key: option for key, option in FOR_LINES.items() if values[key]}
    if name == AUTO:
        return shown if terminal and not given else JSONL
    if name == ECS and values["body"] == JSON:
        raise click.UsageError(
            f"--body {JSON} is for --format {JSONL}: a body in {ECS} is text, or there is none"
        )
    sends = values.get(OTLP) is not None
    for key, option in given.items():
        if not option.has(name, sends):
            raise click.UsageError(f"--{key.replace('_', '-')} is for --format {option.where}, not {name}")
    return name


def check_bodies(values: dict[str, Any], format_name: str) -> None:
    """Raise click.UsageError for options on what bodies show, where a format has none or others decide on it."""
    if format_name == ECS and values["body"] == TEXT:
        return
    options, why = BODIES_APART.get(format_name, ((), ""))
    for name in options:
        if values[name] != IN_BODIES[name]:
            raise click.UsageError(f"--{name} is not for --format {format_name}, {why}")


def line_types(values: dict[str, Any]) -> frozenset[str]:
    """The line types of `--emit`."""
    types = split("--emit", values["emit"])
    known = (*LINE_TYPES, STATS) if "stats_interval" in values else LINE_TYPES
    if unknown := types - set(known):
        raise click.UsageError(f"--emit: {sorted(unknown)[0]!r} is not one of {', '.join(known)}")
    if types and EXCHANGE not in types and values["fields"]:
        raise click.UsageError(f"--fields is for {EXCHANGE} lines, and --emit leaves them out")
    return types or frozenset({EXCHANGE})


def make_tables(values: dict[str, Any]) -> tuple[str, ...]:
    """The tables that are written, if any. Raises click.UsageError for options that do not go with them."""
    if values["format_name"] != PARQUET:
        if values.get("tables") is not None:
            raise click.UsageError(f"--tables is for --format {PARQUET}")
        return ()
    if values["output"] in (None, STANDARD):
        raise click.UsageError(f"--format {PARQUET} writes tables: say where with -o DIR")
    if values.get("output_mode") is not None:
        raise click.UsageError(f"--output-mode is not for --format {PARQUET}: only the owner may read tables")
    if values.get("sort"):
        raise click.UsageError(f"--sort is not for --format {PARQUET}: the column completion sorts rows")
    if values["tables"] is None:
        return (*DEFAULT_TABLES, RECORDS) if values["records"] else DEFAULT_TABLES
    asked = split("--tables", [values["tables"]])
    if unknown := sorted(asked - {*TABLES}):
        raise click.UsageError(f"--tables: {unknown[0]!r} is not one of {', '.join(TABLES)}")
    return tuple(name for name in TABLES if name in asked)


def check_sort(values: dict[str, Any], emit: frozenset[str]) -> None:
    """Raise click.UsageError for other options that `--sort` does not go with."""
    if not values.get("sort"):
        return
    if values["limit"] is None:
        raise click.UsageError("--sort needs --limit N: only the N first exchanges are kept")
    if values["limit"] > SORTED_MOST:
        raise click.UsageError(f"--sort keeps {SORTED_MOST:,} exchanges at most: give a smaller --limit")
    if others := sorted(emit - {EXCHANGE, SUMMARY}):
        raise click.UsageError(f"--sort is for {EXCHANGE} lines, and --emit asks for {others[0]}")


def split(option: str, values: Iterable[str]) -> frozenset[str]:
    """The set of repeated and comma-separated values. Raises click.UsageError for an empty one."""
    found = [piece.strip() for value in values for piece in value.split(",")]
    if not all(found):
        raise click.UsageError(f"{option} has an empty value")
    return frozenset(found)


def usage(make: Callable[[], T]) -> T:
    """The result of `make`; its KinspectError becomes a usage error."""
    try:
        return make()
    except KinspectError as error:
        raise click.UsageError(escape(str(error))) from None
