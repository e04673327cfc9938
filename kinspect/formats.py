"""The table of output formats: what a command needs to know of each before it is at work."""

import re
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from kinspect import extensions
from kinspect.extras import EXTRAS
from kinspect.output import DETAIL, ECS, JSONL, NONE, TABLE, Opening
from kinspect.sink import Sink
from kinspect.tables.tablenames import RECORDS, TABLES

LINES, PEOPLE, BYTES, FOLDER = "lines", "people", "bytes", "folder"
"""What is written: lines for programs, each of which stands for itself or below a header, so that a file may end behind
any of them; text for people; bytes that are cut nowhere; or a folder of files."""
TEXTS = "texts"
"""Bodies as one text each, or none."""


class FormatOption(NamedTuple):
    """An option that a format alone has: some of `words`, with commas between."""

    name: str
    words: tuple[str, ...]
    help: str


class RefusedOptions(NamedTuple):
    """Options that a format refuses, unless one of `unless` is given, and what is said: as in rules between options."""

    options: str
    text: str
    unless: str | tuple[str, ...] = ()


class OutputFormat(NamedTuple):
    """An output format.

    `module` has the function `open_sink`, which makes its `Sink` of an `Opening`; None: nothing is written. `writes`:
    one of those above. `help`: what it is, in the help of `--format`. `jobs`, `sorted_jobs`: exchanges do not
    depend on earlier ones, so that several processes can write it; the same with `--sort`. `has`: the options of
    lines for programs that it has. `bodies`: how it has bodies, if not as objects: as `TEXTS`, or in words on a
    form of its own. `omits_because`: why it has no line of some exchanges. `extra`: what it needs, if that is not
    installed everywhere. `own`: options that it alone has; `refused`: those that it refuses beside what the rest of
    the row says.
    """

    module: str | None
    writes: str
    help: str = ""
    jobs: bool = True
    sorted_jobs: bool = True
    has: frozenset[str] = frozenset()
    bodies: str = ""
    omits_because: str = ""
    extra: str | None = None
    own: tuple[FormatOption, ...] = ()
    refused: tuple[RefusedOptions, ...] = ()


FORMATS = {
    # Rows stand below their day.
    TABLE: OutputFormat("kinspect.output.table", PEOPLE, jobs=False),
    # Trees have numbers.
    DETAIL: OutputFormat(
        "kinspect.output.detail", PEOPLE, "every field, as a tree", jobs=False, sorted_jobs=False
    ),
    JSONL: OutputFormat(
        "kinspect.output.jsonl",
        LINES,
        has=frozenset({"emit", "fields", "body", "no_nulls", "max_line", "no_users"}),
    ),
    ECS: OutputFormat(
        "kinspect.output.ecs",
        LINES,
        "keys of the Elastic Common Schema",
        has=frozenset({"emit", "body", "max_line", "no_users"}),
        bodies=TEXTS,
    ),
    "request-log": OutputFormat(
        "kinspect.output.requestlog",
        LINES,
        "as brokers log requests",
        has=frozenset({"no_users"}),
        bodies="as brokers log them",
        omits_because="a request log has completed requests alone",
    ),
    "csv": OutputFormat(
        "kinspect.output.csvlines",
        LINES,
        "a row an exchange, lists joined by semicolons",
        has=frozenset({"fields", "no_users"}),
    ),
    NONE: OutputFormat(None, BYTES, "only the closing summary, which leaves problems out"),
    "parquet": OutputFormat(
        "kinspect.tables.files",
        FOLDER,
        sorted_jobs=False,
        has=frozenset({"no_users"}),
        extra="parquet",
        own=(
            FormatOption(
                "tables",
                TABLES,
                f"Which tables of parquet: {', '.join(TABLES)}.  [default: all, {RECORDS} only with --records]",
            ),
        ),
        refused=(
            RefusedOptions("format=parquet", "{} writes tables: say where with -o DIR", unless="path"),
            RefusedOptions("output_mode", "{} is not for --format {format}: only the owner may read tables"),
            RefusedOptions("sort", "{} is not for --format {format}: the column completion sorts rows"),
        ),
    ),
}
"""All output formats by their names, in the order of the help."""
NAMES = frozenset({*FORMATS, "auto", "json", "view"})
"""Names that `--format` has without other packages."""
FIRST_WORDS = frozenset(
    """
    broker client clock decode errors fragment help idle max metrics min no otlp output record records reorder rotate
    schema show stats topic
    """.split()
)
"""First words of options: no format of another package has options that begin with them."""


def those_that_write(what: str) -> list[str]:
    """The names of the formats that write this."""
    return [name for name, each in FORMATS.items() if each.writes == what]


def those_with(option: str) -> list[str]:
    """The names of the formats that have an option of lines for programs."""
    return [name for name, each in FORMATS.items() if option in each.has]


def open_sink(name: str, opening: Opening) -> Sink:
    """The sink of a format that writes anything. Its libraries are loaded only here."""
    sink: Sink = import_module(FORMATS[name].module or "").open_sink(opening)
    return sink


@cache
def add_formats() -> None:
    """Add the formats of other packages: entry points of the group `kinspect.formats`."""
    FORMATS.update(extensions.added("kinspect.formats", NAMES, _fault))


def _fault(name: str, row: Any) -> str:
    if not isinstance(row, OutputFormat):
        return f"a {type(row).__name__} is not a kinspect.formats.OutputFormat"
    if re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) is None or name in FIRST_WORDS:
        return "a format cannot have this name"
    begins = name.replace("-", "_") + "_"
    fits = {
        "writes": row.writes in (LINES, PEOPLE, BYTES, FOLDER),
        "help": row.help.isprintable(),
        "has": row.has <= frozenset().union(*(each.has for each in FORMATS.values())),
        "extra": row.extra is None or row.extra in EXTRAS,
        "own": all(isinstance(own, FormatOption) and own.name.startswith(begins) for own in row.own),
        "refused": all(
            isinstance(each, RefusedOptions) and all(isinstance(part, str | tuple) for part in each)
            for each in row.refused
        ),
    }
    if wrong := extensions.unfit(row, fits):
        return wrong
    if row.module is not None and not callable(getattr(import_module(row.module), "open_sink", None)):
        return f"its module {row.module!r} has no function open_sink"
    return ""
