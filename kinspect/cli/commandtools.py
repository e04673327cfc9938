"""Commands of kinspect as tools for programs: their parameters are the commands' options, their results are bounded.

    tools = tools_for(Granted(["/captures"]))
    arguments = tools["topics"].arguments({"captures": ["a.pcap"], "topic": ["orders-*"]})
    ...                                     # kinspect runs with them
    text = tools["topics"].result(finished, 100)

A tool has only parameters that are named here, so that an option which writes or shows more is none by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import click
import orjson

from kinspect.answers import answers
from kinspect.cli import CAPTURE_NAME, group
from kinspect.errors import KinspectError, TruncatedCaptureError, shortened
from kinspect.filters.filterdefinitions import option_of
from kinspect.jsontext import json_text
from kinspect.sink import EXCHANGE, SUMMARY

ROWS, MOST_ROWS = 100, 1000
LISTED = 1000
"""Most files that are listed."""
LOOKED_AT = 100_000
"""Most files that are looked at for that."""
LONGEST_LINE = 16_000

_KINDS: dict[str, type[Any]] = {"boolean": bool, "integer": int, "string": str, "array": list, "object": dict}
"""Types of values by their names in JSON Schema."""
PATHS = ("captures", "before", "after", "rules", "keylog", "topic_names", "names")
"""Parameters that name files."""
OUTPUT = "output"
"""The one that names a file to be made."""
PAYLOAD = "payload"
ROWS_ASKED = "rows"
"""The parameter that bounds a result."""
_INPUT = (*PATHS, "decode_as")
ROWS_SCHEMA = {
    "type": "integer",
    "minimum": 1,
    "maximum": MOST_ROWS,
    "default": ROWS,
    "description": "Most rows of the result.",
}


class Granted(NamedTuple):
    """What tools may do: read files in these folders, make files in that one (None: none), show keys and values of
    records. `most_bytes`: size of a result. Folders are paths without links."""

    folders: list[str]
    write_to: str | None = None
    payloads: bool = False
    most_bytes: int = 64 * 1024

    def readable(self, name: str) -> str:
        """The path of a file in the folders, without links. Raises KinspectError for any other, whether it is there or
        not."""
        for folder in self.folders:
            try:
                path = os.path.realpath(os.path.join(folder, name))
            except ValueError:
                break
            if any(os.path.commonpath([each, path]) == each for each in self.folders) and os.path.isfile(
                path
            ):
                return path
        raise KinspectError(f"{name}: no such file in {', '.join(self.folders)}")

    def writable(self, name: str) -> str:
        """The path of a file to be made. Raises KinspectError for a name that is more than that."""
        if self.write_to is None or name in ("", ".", "..") or os.path.basename(name) != name or "\0" in name:
            raise KinspectError(f"{name}: give the name of a new file, without a folder")
        return os.path.join(self.write_to, name)


class Finished(NamedTuple):
    """What a command wrote, and its exit status. `cut`: it wrote more than is taken, and was ended."""

    status: int
    out: bytes
    err: bytes
    cut: bool = False


class ToolError(KinspectError):
    """A call that cannot be answered."""


def _lines(out: bytes) -> dict[str, Any]:
    """Rows that stand on lines, and the summary behind them."""
    rows = [orjson.loads(line) for line in out.splitlines()]
    summary = rows.pop() if rows and rows[-1].get("type") == SUMMARY else None
    return {"rows": rows, **({} if summary is None else {SUMMARY: summary})}


def _object(out: bytes) -> dict[str, Any]:
    """The rows of an object, or a list of them."""
    found = orjson.loads(out or b"[]")
    return found if isinstance(found, dict) else {"rows": found}


class CommandShape(NamedTuple):
    """What a tool has of its command: `offered`, parameters beside the filters; `fixed`, what is always given; `parse`,
    the rows in the output. `limited`: the command stops after so many rows."""

    offered: tuple[str, ...]
    fixed: tuple[str, ...]
    parse: Callable[[bytes], dict[str, Any]]
    limited: bool = False


_ANSWER = CommandShape(_INPUT, ("--format=json",), _object)
_SHAPES = {
    "read": CommandShape(
        (*_INPUT, "sort", "fields", "body", "no_nulls", "records", PAYLOAD),
        ("--format=jsonl", f"--emit={EXCHANGE},{SUMMARY}", f"--max-line={LONGEST_LINE}"),
        _lines,
        limited=True,
    ),
    "records": CommandShape((*_INPUT, "control", "once", PAYLOAD), ("--format=jsonl",), _lines, limited=True),
    "telemetry": CommandShape(_INPUT, ("--format=jsonl",), _lines, limited=True),
    "diff": CommandShape((*_INPUT, "threshold"), ("--format=json",), _object),
    "check": CommandShape((*_INPUT, "evidence"), ("--format=jsonl",), _lines),
    "schema": CommandShape(("name", "which", "version", "request", "response"), ("--format=json",), _object),
    "export": CommandShape((*_INPUT, OUTPUT, "packets", "comments", "redact"), (), _lines),
}
WRITES = "export"
"""The tool that makes files."""


class CommandTool:
    """A command as a tool."""

    def __init__(self, name: str, shape: CommandShape, granted: Granted) -> None:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        self.name = name
        self._granted = granted
        self._shape = shape
        own = answers()[name].options if name in answers() else {}
        self._may_be_files = [option for option, each in own.items() if each.read is not None]
        offered = {*shape.offered, *own, *getattr(command, "filters", ())}
        if not granted.payloads:
            offered.discard(PAYLOAD)
        self._parameters = {
            each.name: each for each in command.params if each.name is not None and each.name in offered
        }
        self.description = (command.help or "").replace("\b", "").strip()
        self.writes = name == WRITES

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of its arguments."""
        properties = {name: _schema(each) for name, each in self._parameters.items()}
        required = [name for name, each in self._parameters.items() if each.required or name == OUTPUT]
        if not self.writes:
            properties[ROWS_ASKED] = ROWS_SCHEMA
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    def arguments(self, given: Mapping[str, Any]) -> list[str]:
        """The arguments of kinspect for values that the schema allows. Raises KinspectError."""
        options, positional = [*self._shape.fixed], []
        if self._shape.limited:
            # One more tells whether there are more.
            options.append(f"--limit={given.get(ROWS_ASKED, ROWS) + 1}")
        for name, parameter in self._parameters.items():
            if name not in given:
                continue
            values = [self._checked(name, value) for value in _each(given[name])]
            if isinstance(parameter, click.Argument):
                positional += values
            else:
                options += _typed(parameter, values)
        return [self.name, *options, "--", *map(str, positional)]

    def _checked(self, name: str, value: Any) -> Any:
        """The value of a parameter, with the path of a file in place of its name."""
        if isinstance(value, str) and "\0" in value:
            raise ToolError(f"{name}: has a character that no argument can have")
        if name in PATHS or (name in self._may_be_files and self._is_file(value)):
            return self._granted.readable(value)
        return self._granted.writable(value) if name == OUTPUT else value

    def _is_file(self, value: str) -> bool:
        """True for what the command, which runs in the first folder, would take for the name of a file."""
        return os.sep in value or os.path.lexists(os.path.join(self._granted.folders[0], value))

    def result(self, finished: Finished, asked: int) -> str:
        """The result as JSON, of at most so many rows. Raises ToolError if there is none."""
        said = [line for line in finished.err.decode(errors="replace").splitlines() if line.strip()]
        if finished.cut:
            raise ToolError("the result is too large: filter more, or ask for fewer rows")
        made = self.writes and finished.status == TruncatedCaptureError.status
        if finished.status and not finished.out and not made:
            raise ToolError(shortened("\n".join(said)) or f"ended with status {finished.status}")
        try:
            found = self._shape.parse(finished.out)
        except ValueError:
            raise ToolError(f"kinspect ended with status {finished.status}, and its output is cut") from None
        return bounded(
            {**found, "messages": [shortened(line) for line in said[:20]]},
            asked,
            self._granted.most_bytes,
            self._shape.limited,
        )


def bounded(found: dict[str, Any], most_rows: int, most_bytes: int, limited: bool = False) -> str:
    """JSON of an object with `rows`: the first ones that have room. `left_out` counts the others; None if not all were
    counted, as the command ended early (`limited`), and `more` tells whether there are any."""
    rows: list[Any] = found.pop("rows")
    kept = []
    left = most_bytes - len(json_text({**found, "rows": [], "more": False, "left_out": 10**9}))
    for row in rows[:most_rows]:
        left -= len(json_text(row)) + 1
        if left < 0:
            break
        kept.append(row)
    more = len(kept) < len(rows)
    ended = limited and len(rows) > most_rows
    return json_text(
        {**found, "rows": kept, "more": more, "left_out": None if ended else len(rows) - len(kept)}
    )


def tools_for(granted: Granted) -> dict[str, CommandTool]:
    """Each tool that runs a command, by its name."""
    shapes = {**_SHAPES, **dict.fromkeys(answers(), _ANSWER)}
    if granted.write_to is None:
        del shapes[WRITES]
    return {name: CommandTool(name, shape, granted) for name, shape in shapes.items()}


def listed(granted: Granted, most_rows: int) -> str:
    """The files in the folders as JSON: path, bytes, time of the last change, and whether the name is a capture's."""
    looked_at = 0
    rows: list[dict[str, Any]] = []
    for path in _files(granted.folders):
        looked_at += 1
        if looked_at > LOOKED_AT or len(rows) > LISTED:
            break
        try:
            status = os.stat(granted.readable(path))
        except (KinspectError, OSError):
            continue
        at = datetime.fromtimestamp(int(status.st_mtime), UTC).isoformat()
        is_capture = CAPTURE_NAME.fullmatch(os.path.basename(path)) is not None
        rows.append({"path": path, "bytes": status.st_size, "changed": at, "capture": is_capture})
    return bounded({"rows": rows}, most_rows, granted.most_bytes, looked_at > LOOKED_AT or len(rows) > LISTED)


def _files(folders: Iterable[str]) -> Iterator[str]:
    for folder in folders:
        for place, below, names in os.walk(folder):
            below.sort()
            for name in sorted(names):
                yield os.path.join(place, name)


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _typed(option: click.Parameter, values: list[Any]) -> list[str]:
    """An option as it is typed, with each of the values."""
    if getattr(option, "is_flag", False):
        return [option_of(option.name or "")] if values == [True] else []
    return [f"{option_of(option.name or '')}={value}" for value in values]


def _schema(parameter: click.Parameter) -> dict[str, Any]:
    """JSON Schema of a parameter's value."""
    found: dict[str, Any] = {"type": "string"}
    if getattr(parameter, "is_flag", False):
        found = {"type": "boolean"}
    elif isinstance(parameter.type, click.Choice):
        found = {"type": "string", "enum": [*parameter.type.choices]}
    elif isinstance(parameter.type, (click.types.IntParamType, click.IntRange)):
        found = {"type": "integer"}
    if parameter.multiple or parameter.nargs == -1:
        found = {"type": "array", "items": found}
    text = getattr(parameter, "help", None) or parameter.make_metavar(click.Context(group))
    return {**found, "description": text}


def check_values(schema: Mapping[str, Any], value: Any, name: str) -> None:
    """Raise ToolError for a value that is not of a schema made here. A validator for all of JSON Schema would take
    longer to load than everything else."""
    kind = schema["type"]
    if not isinstance(value, _KINDS[kind]) or (kind == "integer" and isinstance(value, bool)):
        raise ToolError(f"{name}: must be of type {kind}")
    if value not in schema.get("enum", [value]):
        raise ToolError(f"{name}: must be one of {', '.join(schema['enum'])}")
    if kind == "integer" and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        raise ToolError(f"{name}: must be from {schema['minimum']} to {schema['maximum']}")
    if kind == "array":
        for each in value:
            check_values(schema["items"], each, name)
    if kind == "object":
        if lacking := [each for each in schema["required"] if each not in value]:
            raise ToolError(f"{name}: needs {lacking[0]}")
        for key, each in value.items():
            if key not in schema["properties"]:
                raise ToolError(f"{name}: has no parameter {key!r}; it has {', '.join(schema['properties'])}")
            check_values(schema["properties"][key], each, key)
