"""`kinspect schema`: the layouts of Kafka's messages, in any version of any release."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import click

from kinspect.cli import completions
from kinspect.cli.completions import words
from kinspect.cli.rules import Facts, OptionRule, check
from kinspect.cli.schemaoption import schema_option
from kinspect.cli.texttable import fits_in_columns, in_columns
from kinspect.errors import KinspectError
from kinspect.filters.filterdefinitions import apis, errors
from kinspect.model import REQUEST, RESPONSE
from kinspect.protocol import schema as table
from kinspect.protocol.fieldpaths import each_field
from kinspect.protocol.primitives import ZERO_UUID
from kinspect.protocol.schema import Api, ErrorCode, Field, Layout
from kinspect.protocol.tabletext import MessageDefinition
from kinspect.protocol.versions import format_versions
from kinspect.wording import did_you_mean

TEXT, JSON = "text", "json"
ERRORS, RELEASES, ECS_TEMPLATE = "errors", "releases", "ecs-template"
NUMBERS = ("min_version", "max_version")
"""Keys of rows without columns in the text: `versions` says the same."""
LEFT_OUT = ("releases", "flexible", "since", "removed")
"""Columns left out on a narrow terminal, in this order."""
TEXTS = ("meaning", "advice", "source")
"""Keys of rows that stand in lines of their own, if a single row is shown, and in no column."""
RETRIABLE = "retriable"
"""The column of yes and no; others leave a no empty."""
HEADERS = {"requestheader": REQUEST, "responseheader": RESPONSE}

RULES = (
    OptionRule("which", "unexpected argument {which!r}", unless=f"name={ERRORS}|{RELEASES}"),
    OptionRule("legacy", f"{{}} is for {ECS_TEMPLATE}", unless=f"name={ECS_TEMPLATE}"),
    OptionRule(("request", "response"), "{} is for an API", unless=("api", "listed")),
    OptionRule(("version", "request", "response"), "{} is for the name of a message", "listed", unless="api"),
)
FACTS: Facts = {
    "api": lambda asked: table.api(asked["name"] or "") is not None,
    "listed": lambda asked: asked["name"] in (None, ERRORS, RELEASES, ECS_TEMPLATE) or _error(asked["name"]),
}

ApiRow = dict[str, Any]


def _first() -> list[str]:
    """What `kinspect schema` takes, but for what stands alone, as keys of APIs and error codes."""
    return [ERRORS, RELEASES, *apis(), *table.record_names()]


def _second() -> list[str]:
    return [*errors(), *completions.releases()]


@click.command()
@click.argument("name", metavar="[API]", required=False, shell_complete=words(_first))
@click.argument("which", metavar="[CODE|RELEASE]", required=False, shell_complete=words(_second))
@click.option("--version", type=int, metavar="N", help="The layout of this version.")
@click.option("--request", is_flag=True, help="The request alone.")
@click.option("--response", is_flag=True, help="The response alone.")
@schema_option
@click.option("--legacy", is_flag=True, help=f"{ECS_TEMPLATE} for Elasticsearch 6.")
@click.option(
    "--format", "format_name", type=click.Choice([TEXT, JSON]), default=TEXT, help="How to print it."
)
def schema(
    name: str | None,
    which: str | None,
    *,
    version: int | None,
    request: bool,
    response: bool,
    legacy: bool,
    format_name: str,
) -> None:
    """Show what Kafka's messages look like.

    Without arguments it lists every API. With API it lists the versions of one, and with --version too a version's
    layout. API is a name in any case, a key, or a record message such as OffsetCommitValue. RequestHeader and
    ResponseHeader have the layouts of the headers.

    `errors` lists every error code, `errors CODE` those of a number or a name, one with its meaning and what to do; the
    name alone will do too. `releases` lists the releases, `releases RELEASE` the versions that one supports.

    `ecs-template` is the index template, in JSON, that Elasticsearch needs for the lines of `--format ecs`.
    """
    check(RULES, FACTS)
    if name == ECS_TEMPLATE:
        click.echo(json.dumps(_ecs_template(legacy), indent=2))
        return
    wanted = [direction for direction, asked in ((REQUEST, request), (RESPONSE, response)) if asked]
    wanted = wanted or [REQUEST, RESPONSE]
    if name is None:
        rows, text = _rows([_api_row(api) for api in table.apis()])
    elif name == ERRORS:
        found = table.errors().values() if which is None else _errors(which)
        rows, text = _rows([_error_row(error) for error in found])
    elif name == RELEASES:
        rows, text = _rows(_release_rows(which))
    elif table.api(name) is None and (error := _error(name)):
        rows, text = _rows([_error_row(error)])
    elif version is None and name.lower() not in HEADERS:
        rows, text = _rows(_history(name, wanted))
    else:
        layouts = _headers(name, version) if name.lower() in HEADERS else _layouts(name, version or 0, wanted)
        rows = [_layout_row(layout) for layout in layouts]
        text = "\n".join(_layout_text(layout) for layout in layouts)
    click.echo(json.dumps(rows, indent=2) if format_name == JSON else text.rstrip("\n"))


def _ecs_template(legacy: bool) -> dict[str, Any]:
    # Loaded only if it is asked for.
    from kinspect.output import ecs

    return ecs.legacy_template() if legacy else ecs.template()


def _rows(rows: list[ApiRow]) -> tuple[list[ApiRow], str]:
    """The rows, and their table as text, without columns that are empty in all rows."""
    apart = {*NUMBERS, *TEXTS}
    names = [name for name in rows[0] if name not in apart and any(_cell(name, row) for row in rows)]
    # In a pipe a row is a line.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    left_out = []
    for name in LEFT_OUT:
        if width is not None and name in names and not fits_in_columns(*_table(rows, names), width):
            names.remove(name)
            left_out.append(_title(name))
    text = in_columns(*_table(rows, names), width)
    if len(rows) == 1:
        text += "".join(f"{name}: {rows[0][name]}\n" for name in TEXTS if name in rows[0])
    return rows, text + (f"too narrow for {', '.join(left_out)}" if left_out else "")


def _table(rows: list[ApiRow], names: list[str]) -> tuple[list[str], list[list[str]]]:
    """The header and the cells of these columns."""
    return [_title(name) for name in names], [[_cell(name, row) for name in names] for row in rows]


def _title(name: str) -> str:
    return name.replace("_", " ").upper()


def _cell(name: str, row: ApiRow) -> str:
    value = row[name]
    if isinstance(value, bool):
        return "yes" if value else "no" if name == RETRIABLE else ""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return "" if value is None else str(value)


def _api_row(api: Api) -> ApiRow:
    return {
        "key": api.key,
        "name": api.name,
        "versions": format_versions(api.versions),
        "flexible": None if api.flexible_from is None else f"{api.flexible_from}+",
        "since": api.since[api.versions[0]],
        "removed": _removed(api),
        "releases": _spoken_by(api.key),
    }


def _removed(api: Api) -> str | None:
    """Removed versions with the release that removed them: `0-3 in 4.0`."""
    by_release: dict[str, list[int]] = {}
    for version, release in api.removed.items():
        by_release.setdefault(release, []).append(version)
    parts = [f"{format_versions(versions)} in {release}" for release, versions in by_release.items()]
    return ", ".join(parts) or None


def _spoken_by(key: int) -> str | None:
    """The first and the last release whose brokers speak the API."""
    found = [release for release, spoken in table.releases().items() if key in spoken]
    return f"{found[0]}..{found[-1]}" if found else None


def _error_row(error: ErrorCode) -> ApiRow:
    return {
        "code": error.code,
        "name": error.name,
        RETRIABLE: error.retriable,
        "since": error.since,
        "earlier_names": [*error.old_names, *error.scala_names],
        **table.advice_for(error.code, None)._asdict(),
    }


def _error(name: str) -> ErrorCode | None:
    """The error of this name, in any case, today's or one that it had earlier."""
    wanted = name.lower()
    return next((error for error in table.errors().values() if wanted in _names(error)), None)


def _errors(which: str) -> list[ErrorCode]:
    """The errors with this code or name, or else those whose names contain the text."""
    if which.removeprefix("-").isdecimal():
        found = table.errors().get(int(which))
        if found is None:
            raise KinspectError(f"there is no error code {which}: see `kinspect schema {ERRORS}`")
        return [found]
    wanted = which.lower()
    exact = [error for error in table.errors().values() if error.name.lower() == wanted]
    alike = [error for error in table.errors().values() if any(wanted in name for name in _names(error))]
    if not (exact or alike):
        names = [error.name for error in table.errors().values()]
        raise KinspectError(
            f"there is no error {which!r}: {_hint(which, names, f'kinspect schema {ERRORS}')}"
        )
    return exact or alike


def _names(error: ErrorCode) -> list[str]:
    return [name.lower() for name in (error.name, *error.old_names, *error.scala_names)]


def _release_rows(release: str | None) -> list[ApiRow]:
    releases = table.releases()
    if release is None:
        return [{"release": name, "apis": len(spoken)} for name, spoken in releases.items()]
    found = table.release(release)
    if found is None:
        raise KinspectError(f"there is no release {release!r}: see `kinspect schema releases`")
    return [
        {
            "key": key,
            "name": table.api_name(key),
            "versions": f"{spoken.low}-{spoken.high}",
            "min_version": spoken.low,
            "max_version": spoken.high,
            "newest_unstable": spoken.unstable,
        }
        for key, spoken in releases[found].items()
    ]


def _history(name: str, directions: Sequence[str]) -> list[ApiRow]:
    api = table.api(name)
    if api is None:
        message = _record(name)
        return [
            _version_row(version, {}, _changes(message.name, version, message.versions, (None,)))
            | {"flexible": version in message.flexible}
            for version in sorted(message.versions)
        ]
    return [
        _version_row(
            version,
            {
                "since": api.since.get(version),
                "deprecated": api.deprecated.get(version),
                "removed": api.removed.get(version),
                "unstable": api.unstable.get(version),
                "not_in": api.absent.get(version),
            },
            _changes(api.name, version, api.versions, directions),
        )
        | {"flexible": api.flexible_from is not None and version >= api.flexible_from}
        for version in api.versions
    ]


def _version_row(version: int, facts: ApiRow, changes: list[str]) -> ApiRow:
    return {"version": version, "flexible": False, **facts, "changes": changes}


def _changes(name: str, version: int, versions: Iterable[int], directions: Sequence[str | None]) -> list[str]:
    """Paths of the fields that a version added (`+`) and removed (`-`); none for the first."""
    earlier = [other for other in versions if other < version]
    if not earlier:
        return []
    found = []
    for direction in directions:
        before, after = (
            [path for path, _, _ in each_field(_layouts(name, v, (direction,))[0].fields)]
            for v in (max(earlier), version)
        )
        prefix = f"{direction}." if direction else ""
        found += [f"+{prefix}{path}" for path in _missing(after, before)]
        found += [f"-{prefix}{path}" for path in _missing(before, after)]
    return found


def _missing(paths: Sequence[str], others: Sequence[str]) -> list[str]:
    """The paths that are not among the others; a missing struct stands for its fields."""
    missing = [path for path in paths if path not in others]
    return [path for path in missing if path.rpartition(".")[0] not in missing]


def _layouts(name: str, version: int, directions: Sequence[str | None]) -> list[Layout]:
    api = table.api(name)
    found: list[Layout] = []
    if api is None:
        message = _record(name)
        found += table.record_layouts(message.name, version)
        what, versions = message.name, message.versions
    else:
        for direction in directions:
            found += table.layouts(api.key, version, direction or REQUEST)
        what, versions = api.name, frozenset(api.versions)
    if not found:
        raise KinspectError(f"{what} has no version {version}: its versions are {format_versions(versions)}")
    return found


def _headers(name: str, version: int | None) -> list[Layout]:
    """The layouts of a header in this version, or (None) in each."""
    direction = HEADERS[name.lower()]
    versions = table.header_versions(direction)
    if version is not None and version not in versions:
        raise KinspectError(f"{name} has no version {version}: its versions are {format_versions(versions)}")
    return [table.header_layout(direction, v) for v in (sorted(versions) if version is None else [version])]


def _record(name: str) -> MessageDefinition:
    names = {record.lower(): record for record in table.record_names()}
    message = table.record(names.get(name.lower(), name))
    if message is not None:
        return message
    errors = [error.name for error in table.errors().values()]
    commands = ERRORS, RELEASES, ECS_TEMPLATE
    others = (*table.api_names().values(), "RequestHeader", "ResponseHeader", *commands, *errors)
    hint = _hint(name, (*names.values(), *others), "kinspect schema")
    raise KinspectError(f"there is no API, record message or error {name!r}: {hint}")


def _hint(name: str, known: Iterable[str], command: str) -> str:
    """A hint at names that may be meant, or where all are."""
    return did_you_mean(name.lower(), ((each.lower(), each) for each in known)) or f"see `{command}`"


def _layout_row(layout: Layout) -> ApiRow:
    return {
        "name": layout.name,
        "api_key": layout.api_key,
        "version": layout.version,
        "direction": layout.direction,
        "flexible": layout.flexible,
        "early_access": layout.label,
        "fields": [_field_row(field) for field in layout.fields],
    }


def _field_row(field: Field) -> ApiRow:
    row: ApiRow = {
        "name": field.name,
        "kafka_name": field.kafka_name,
        "type": field.type,
        "array": field.array,
        "nullable": field.nullable,
        "tag": field.tag,
        "entity": field.entity,
    }
    return row | {"fields": [_field_row(inner) for inner in field.fields]} if field.fields else row


def _layout_text(layout: Layout) -> str:
    facts = ["flexible"] * layout.flexible
    if layout.direction is not None and layout.api_key is not None:
        facts.append(f"header v{table.header_version(layout.api_key, layout.version, layout.direction)}")
    if layout.label:
        facts.append(f"early access {layout.label}")
    title = f"{layout.name} v{layout.version}" + (f" ({', '.join(facts)})" if facts else "")
    if not layout.fields:
        return f"{title}\n  no fields\n"
    lines = [*_field_lines(layout.fields, "  ")]
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    body = (f"{name:{widths[0]}}  {kind:{widths[1]}}  {rest}".rstrip() for name, kind, rest in lines)
    return "".join(f"{line}\n" for line in (title, *body))


def _field_lines(fields: Iterable[Field], indent: str) -> Iterator[tuple[str, str, str]]:
    """Name, type and remarks of each field in wire order, a struct's fields below it; tagged fields come last."""
    for field in sorted(fields, key=lambda field: -1 if field.tag is None else field.tag):
        yield indent + field.name, f"[]{field.type}" if field.array else field.type, _remarks(field)
        yield from _field_lines(field.fields, indent + "  ")


def _remarks(field: Field) -> str:
    remarks = ["nullable"] * field.nullable
    if field.tag is not None:
        remarks.append(f"tag {field.tag}")
    if field.entity:
        remarks.append(field.entity)
    default = field.default
    # Those of their types go without saying.
    if default is None or (isinstance(default, int | float | str) and default not in (0, "", ZERO_UUID)):
        remarks.append(f"default {'null' if default is None else default}")
    return ", ".join(remarks)
