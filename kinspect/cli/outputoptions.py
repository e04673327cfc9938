"""Options on the file that lines are written to: `--append`, `--output-mode` and its rotation."""

from __future__ import annotations

from typing import Any

import click

from kinspect.capture.rotation import Rotation
from kinspect.cli.options import usage
from kinspect.cli.outfile import OpenMode, Output, check_name, check_overwrite, open_output
from kinspect.cli.rules import OptionRule
from kinspect.cli.types import MODE
from kinspect.formats import BYTES, LINES, OutputFormat, those_that_write

OUTPUT_OPTIONS = (
    click.option("--append", is_flag=True, help="Continue FILE if it exists (formats of lines)."),
    click.option(
        "--output-mode",
        type=MODE,
        metavar="MODE",
        help="The mode of FILE, as 0640.  [default: 0600, and with --append what FILE has]",
    ),
)
ROTATES, ROTATED = ("output_rotate_size", "output_rotate_time"), ("output_rotate_keep", "output_compress")
GOES_ON = ("append", *ROTATES, *ROTATED)
"""Options of files that go on."""
LINE_FORMATS = those_that_write(LINES)
*_SOME, _LAST = LINE_FORMATS
OUTPUT_RULES = (
    OptionRule((*GOES_ON, "output_mode"), "{} is for -o FILE", unless="path"),
    OptionRule(
        GOES_ON,
        f"{{}} is for --format {', '.join(_SOME)} and {_LAST}, not {{format}}",
        unless=f"format={'|'.join(LINE_FORMATS)}",
    ),
    OptionRule(ROTATED, "{}: say when a new file begins: --output-rotate-size or -time", unless=ROTATES),
    OptionRule(
        "append", "{} is not for numbered files (--output-rotate-...): they go on by themselves", ROTATES
    ),
    OptionRule("append", "{} goes on with FILE, and --force overwrites it: give one of them", "force"),
)


def rotation_of(values: dict[str, Any]) -> Rotation:
    """When the file of the output ends and the next begins."""
    size, time_ns, keep = (values.get(f"output_rotate_{name}") for name in ("size", "time", "keep"))
    return Rotation(size, time_ns, None, keep)


INPUT_FILES = ("keylog", "topic_names", "names", "schema")
"""Options on files that are read beside captures."""


def input_files(values: dict[str, Any]) -> list[str]:
    """What `INPUT_FILES` name."""
    return [values[option] for option in INPUT_FILES if values.get(option)]


def check_kept(values: dict[str, Any], path: str | None, format_name: str, inputs: list[str]) -> None:
    """Raise click.UsageError for a file that must not be overwritten, or not be named so. `path`: of the output; None:
    standard output."""
    if path is not None:
        usage(lambda: check_name(path))
    if path is not None and not rotation_of(values).limited:
        appends = "append" in values and format_name in LINE_FORMATS
        usage(lambda: check_overwrite(path, values["force"] or values.get("append", False), inputs, appends))


def open_output_stream(values: dict[str, Any], path: str | None, written: OutputFormat | None) -> Output:
    """The stream to write to, where the options say; raises click.UsageError if it cannot be opened. `written`: the
    format of what is written there."""
    stream = _opened(values, path)
    if written is not None and written.writes == BYTES:
        stream.file.ending = b""
    return stream


def _opened(values: dict[str, Any], path: str | None) -> Output:
    open_mode = OpenMode(values["force"], values.get("append", False), values.get("output_mode"))
    rotation = rotation_of(values)
    if path is not None and rotation.limited:
        from kinspect.cli.rotated import open_rotated

        return usage(lambda: open_rotated(path, open_mode, rotation, values["output_compress"]))
    return usage(lambda: open_output(path, open_mode))
