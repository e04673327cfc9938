"""Options that commands share, as tables, and the objects made from their values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kinspect.cli.completions import files, one_of, words
from kinspect.cli.outfile import STANDARD
from kinspect.cli.rules import Facts, OptionRule
from kinspect.cli.types import COUNT, DURATION, PORT, SIZE, Count, Duration, Number, Size
from kinspect.errors import KinspectError, MissingLibraryError
from kinspect.filters.filter import Filter
from kinspect.filters.filterdefinitions import FILTERS, FilterDefinition, option_of
from kinspect.formats import FORMATS, TEXTS, those_with
from kinspect.kafka.view.forms import BODY_FORMS, JSON, TEXT
from kinspect.kafka.view.redact import PAYLOADS
from kinspect.kafka.view.view import INT64_FORMS, View
from kinspect.model import Caps
from kinspect.output import JSONL, NONE, SEMCONV, TABLE, Style
from kinspect.output.escape import escape
from kinspect.output.linelimit import LEAST_LINE
from kinspect.output.ordered import ORDERS
from kinspect.sink import CONNECTION, EXCHANGE, GAP, STATS, SUMMARY

if TYPE_CHECKING:
    from kinspect.filters.recordfilters import RecordFilterDefinition
    from kinspect.kafka.wire.hostnames import HostPort

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
Option = Callable[[Callable[..., Any]], Callable[..., Any]]

AUTO = "auto"
LINE_TYPES = (EXCHANGE, CONNECTION, GAP, SUMMARY)

OTLP = "otlp"
"""The option that names a collector."""
LOGS, METRICS, SPANS = "logs", "metrics", "spans"
SIGNALS = (LOGS, METRICS, SPANS)
DEFAULT_SIGNALS = f"{LOGS},{METRICS}"
SAMPLE = 0.01
"""Share of connections whose spans are sent, where nobody asks for another."""

KEYS_FROM_BODIES = frozenset({"api_candidates", "broker", "broker.node_id"})
"""Fields outside of bodies that need bodies: the APIs an orphan may belong to, and the node at an address."""

AS_TEXTS = [name for name, each in FORMATS.items() if each.bodies == TEXTS]
"""Formats that have bodies as texts, or not at all."""


def filter_option(name: str, row: FilterDefinition | RecordFilterDefinition) -> Option:
    """The option of a filter."""
    return click.option(
        option_of(name),
        # Not False: click would then look for an option where a value begins with a dash.
        is_flag=row.metavar is None or None,
        multiple=row.many,
        metavar=row.metavar,
        shell_complete=words(row.words) if row.words is not None else None,
        help=row.help,
    )


FILTER_OPTIONS = tuple(filter_option(name, row) for name, row in FILTERS.items())


def format_option(formats: Sequence[str], auto: str) -> Option:
    """`--format`, one of `formats`; `auto`: the help text for the default."""
    return click.option(
        "--format",
        "format_name",
        type=click.Choice([AUTO, *formats]),
        default=AUTO,
        help=f"auto: {auto}; {'; '.join(f'{name}: {each.help}' for name, each in FORMATS.items() if each.help)}.",
    )


def payload_option(text: str, forms: Iterable[str] = PAYLOADS) -> Option:
    """`--payload`, one of `forms`; `text`: its help."""
    return click.option("--payload", type=click.Choice(list(forms)), default="none", help=text)


def asked_format(values: dict[str, Any], other: str) -> str:
    """The format that the options ask for; `auto`: a table on a terminal, else the other one."""
    if values["format_name"] != AUTO:
        return str(values["format_name"])
    return TABLE if values["output"] in (None, STANDARD) and sys.stdout.isatty() else other


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
        help=f"Line types of {' and '.join(those_with('emit'))}: {', '.join(types)}.  [default: {EXCHANGE}]",
    )


SHOW_SECRETS = click.option("--show-secrets", is_flag=True, help="Print passwords, tokens and the like.")
QUIET = click.option("-q", "--quiet", is_flag=True, help="No closing summary.")
PROGRESS = click.option("--progress/--no-progress", default=None, help="Show the progress of reading.")
TABLE_SHOWN = (
    PROGRESS,
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colours."),
    click.option("--utc", is_flag=True, help="Tables in UTC (else local time; JSON is always UTC)."),
)
ROWS_SHOWN = (
    QUIET,
    *TABLE_SHOWN,
    click.option("--wide", is_flag=True, help="Cut nothing in tables: rows may be longer than a line."),
)


def lines_shown(payload: Option) -> tuple[Option, ...]:
    """Options on what lines show; `payload`: one of them."""
    return (
        click.option(
            "--fields",
            multiple=True,
            metavar="PATHS",
            help=f"Only these keys of exchange lines ({', '.join(those_with('fields'))}): a,b.c. A key of records"
            " implies --records.",
        ),
        click.option(
            "--body",
            type=click.Choice(BODY_FORMS),
            help="Bodies: as objects; as one text, which is JSON; or not at all.  [default:"
            f" {'; '.join([JSON, *(f'{name}: none' for name in AS_TEXTS)])}]",
        ),
        click.option(
            "--no-nulls",
            is_flag=True,
            help=f"Leave out null keys and empty lists ({', '.join(those_with('no_nulls'))}), except those of bodies.",
        ),
        click.option(
            "--max-line",
            type=Size(least=LEAST_LINE),
            help=f"Cut lines of {' and '.join(those_with('max_line'))} that have more bytes: bodies go first, then the"
            f" ends of lists, then those of texts; at least {LEAST_LINE}.",
        ),
        click.option("--records", is_flag=True, help="Decode records."),
        payload,
        SHOW_SECRETS,
        click.option(
            "--no-users",
            is_flag=True,
            help=f"Leave out names of SASL users ({', '.join(those_with('no_users'))}, --otlp). Bodies keep the names"
            " in them.",
        ),
        click.option(
            "--int64",
            type=click.Choice(INT64_FORMS),
            default="number",
            help="64-bit integers of bodies as text, for tools that read numbers as floats.",
        ),
        click.option("--limit", type=COUNT, metavar="N", help="Stop after N lines that passed the filters."),
        *ROWS_SHOWN,
    )


SHOWN = lines_shown(payload_option("Show records' keys and values; none: their sizes only."))


SENT = f"{NONE} with --{OTLP}"
LINES_ALONE = {"emit": (), "fields": (), "body": None, "no_nulls": False, "max_line": None, "no_users": False}
"""Options that only lines for programs have, with their defaults, for what prints no lines."""
FOR_LINES = {
    option: [*those_with(option), *([SENT] if option == "no_users" else [])] for option in LINES_ALONE
}
"""Which lines have them."""
IN_BODIES = {"records": False, "payload": "none", "int64": "number"}
"""Options on what bodies show, with their defaults."""
SHOWN_RULES = (
    *(
        OptionRule(
            f"body={JSON}",
            f"{{}} is for --format {' or '.join(name for name in those_with('body') if name not in AS_TEXTS)}: a body"
            f" in {texts} is text, or there is none",
            f"format={texts}",
        )
        for texts in AS_TEXTS
    ),
    *(
        OptionRule(
            name,
            f"{{}} is for --format {' or '.join(has)}, not {{format}}",
            unless=f"written={'|'.join(has)}",
        )
        for name, has in FOR_LINES.items()
    ),
    *(
        OptionRule(
            ("payload", "int64"),
            f"{{}} is not for --format {texts}, which has bodies only with --body {TEXT}",
            f"format={texts}",
            unless=f"body={TEXT}",
        )
        for texts in AS_TEXTS
    ),
    *(
        OptionRule(
            (*IN_BODIES,),
            f"{{}} is not for --format {{format}}, which has bodies {each.bodies}",
            f"format={name}",
        )
        for name, each in FORMATS.items()
        if each.bodies not in ("", TEXTS)
    ),
)
OWN: list[Any] = [
    click.option(option_of(own.name), metavar="NAMES", help=own.help)
    for each in FORMATS.values()
    for own in each.own
]
"""Options that one format has."""
SINKS = (
    *OWN,
    click.option(
        f"--{OTLP}",
        metavar="URL",
        help="Also send exchanges that pass the filters to an OpenTelemetry collector: http://127.0.0.1:4318.",
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
LINES_RULES = (
    *(
        OptionRule(own.name, f"{{}} is for --format {name}", unless=f"format={name}")
        for name, each in FORMATS.items()
        for own in each.own
    ),
    *(
        OptionRule(refused.options, refused.text, f"format={name}", refused.unless)
        for name, each in FORMATS.items()
        for refused in each.refused
    ),
    OptionRule(
        "fields", f"{{}} is for {EXCHANGE} lines, and --emit leaves them out", unless=f"types={EXCHANGE}"
    ),
    OptionRule("sort", "{} needs --limit N: only the N first exchanges are kept", unless="limit"),
    OptionRule(
        "sort", f"{{}} keeps {SORTED_MOST:,} exchanges at most: give a smaller --limit", unless="sortable"
    ),
    OptionRule("sort", f"{{}} is for {EXCHANGE} lines, and --emit asks for {{other}}", "other"),
)

OUTPUT = (
    *OUTPUT_FILE,
    format_option([*FORMATS], f"{TABLE} on a terminal, else {JSONL}"),
    emit_option(LINE_TYPES),
    *SHOWN,
    *SINKS,
)

CAPS: dict[str, tuple[str, Size | Duration | Count, str]] = {
    "idle_timeout": ("idle_timeout_ns", DURATION, "Flush connections after this much silence (capture time)"),
    "max_message_bytes": ("message_bytes", SIZE, "Do not decode the bodies of longer messages"),
    "max_buffered_bytes": ("buffered_bytes", SIZE, "Bytes that wait after a gap in one direction"),
    "max_buffered_segments": ("buffered_segments", COUNT, "Segments that wait after a gap in one direction"),
    "max_total_bytes": ("total_bytes", SIZE, "Bytes held over all connections, a quarter of it after gaps"),
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
        "--names",
        metavar="FILE",
        shell_complete=files,
        help="Names of addresses: a hosts file, a JSON object by address or address:port, or what `kubectl get"
        " pods,services,nodes -A -o json` prints.",
    ),
    click.option(
        "--decode-as",
        multiple=True,
        type=PORT,
        metavar="PORT",
        help="This port is Kafka, also where only TLS is seen; repeatable.",
    ),
)


def given_hosts(values: dict[str, Any]) -> dict[HostPort, str]:
    """The names of `--names`."""
    path = values["names"]
    if path is None:
        return {}
    from kinspect.capture.hostfiles import load_host_names

    return usage(lambda: load_host_names(path))


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
        help="Show the options for limits on memory and waiting, and exit.",
    ),
)


class Sectioned(click.Command):
    """A command whose `--help` lists filters under a heading of their own, and leaves limits to `--help-limits`."""

    filters: Collection[str] = FILTERS.keys()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        apart = {*self.filters, *CAPS}
        with formatter.section("Options"):
            formatter.write_dl(_help_rows(ctx, lambda name: name not in apart))
        with formatter.section("Filters"):
            formatter.write_dl(_help_rows(ctx, lambda name: name in self.filters))


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
    return usage(lambda: Filter(**{name: values[name] for name in FILTERS}))


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


def needs_heads_only(view: View, chosen: Filter, silent: bool) -> bool:
    """True if neither the lines nor the filter look at a body, but for its error codes. `silent`: there are no
    lines."""
    if silent:
        return not chosen.needs_body
    return not (
        chosen.needs_body
        or needs_waits(view, chosen, silent)
        or view.request_fields != frozenset()
        or view.response_fields != frozenset()
        or not KEYS_FROM_BODIES.isdisjoint(view.fields or ())
    )


def needs_waits(view: View, chosen: Filter, silent: bool) -> bool:
    """True if the lines or the filter look at the causes of waits."""
    return chosen.needs_wait or (not silent and (view.fields is None or "wait" in view.fields))


def make_style(values: dict[str, Any]) -> Style:
    """The look of tables and trees that the options ask for."""
    return Style(values["color"], values["utc"], values["wide"])


def line_types(values: dict[str, Any]) -> frozenset[str]:
    """The line types of `--emit`."""
    known = (*LINE_TYPES, STATS) if "stats_interval" in values else LINE_TYPES
    return frozenset(split("--emit", values["emit"], known) or {EXCHANGE})


def make_own(values: dict[str, Any], format_name: str) -> dict[str, frozenset[str] | None]:
    """The values of the options that the format alone has. Raises click.UsageError."""
    if format_name not in FORMATS:
        return {}
    given = {own: values.get(own.name) for own in FORMATS[format_name].own}
    return {
        own.name: None if value is None else frozenset(split(option_of(own.name), [value], own.words))
        for own, value in given.items()
    }


def split(option: str, values: Iterable[str], known: Collection[str] = ()) -> tuple[str, ...]:
    """The repeated and comma-separated values, each once, in their order. Raises click.UsageError for an empty or
    unknown one."""
    found = [piece.strip() for value in values for piece in value.split(",")]
    if not all(found):
        raise click.UsageError(f"{option} has an empty value")
    if known and (unknown := sorted({*found} - {*known})):
        raise click.UsageError(f"{option}: {unknown[0]!r} is not one of {', '.join(known)}")
    return tuple(dict.fromkeys(found))


def usage(make: Callable[[], T]) -> T:
    """The result of `make`; its KinspectError becomes a usage error, but for that of a missing library."""
    try:
        return make()
    except MissingLibraryError:
        raise
    except KinspectError as error:
        raise click.UsageError(escape(str(error))) from None


LINE_FACTS: Facts = {
    "path": lambda asked: None if asked["output"] == STANDARD else asked["output"],
    "tty": lambda asked: asked["path"] is None and sys.stdout.isatty(),
    "shown": lambda asked: TABLE,
    "auto": lambda asked: asked["shown"] if asked["tty"] and not any(map(asked.get, FOR_LINES)) else JSONL,
    "format": lambda asked: asked["auto"] if asked["format_name"] == AUTO else asked["format_name"],
    "written": lambda asked: SENT if asked["format"] == NONE and asked[OTLP] is not None else asked["format"],
    "types": line_types,
    "other": lambda asked: min(asked["types"] - {EXCHANGE, SUMMARY}, default=None),
    "sortable": lambda asked: asked["limit"] <= SORTED_MOST,
}
"""What rules look at beside options: where lines go (None: standard output), as `auto` on a screen, and so on."""
