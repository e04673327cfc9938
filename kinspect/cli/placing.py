"""Options on the file that lines are written to: `--append`, `--output-mode` and its rotation."""

from __future__ import annotations

from typing import Any

import click

from kinspect.capture.rotation import Rotation
from kinspect.cli.options import usage
from kinspect.cli.outfile import Output, Placing, check_overwrite, open_output
from kinspect.cli.types import MODE
from kinspect.output import LINE_FORMATS

PLACING = (
    click.option(
        "--append", is_flag=True, help="Go on at the end of FILE, if it is there (formats of lines)."
    ),
    click.option(
        "--output-mode",
        type=MODE,
        metavar="MODE",
        help="The mode of FILE, as 0640.  [default: 0600, and with --append what FILE has]",
    ),
)
NOT_FOR_ANSWERS: dict[str, Any] = {
    "append": False,
    "output_rotate_size": None,
    "output_rotate_time": None,
    "output_rotate_keep": None,
    "output_compress": None,
}
"""Options of files that go on, with their defaults."""


def rotation_of(values: dict[str, Any]) -> Rotation:
    """When the file of the output ends and the next begins."""
    size, time_ns, keep = (values.get(f"output_rotate_{name}") for name in ("size", "time", "keep"))
    return Rotation(size, time_ns, None, keep)


def check_placing(values: dict[str, Any], path: str | None, format_name: str, inputs: list[str]) -> None:
    """Raise click.UsageError for options that make no sense together, and for a file that must not be overwritten.
    `path`: of the output; None: standard output."""
    names = [name for name, default in NOT_FOR_ANSWERS.items() if values.get(name, default) != default]
    given = [f"--{name.replace('_', '-')}" for name in names]
    if path is None:
        if given or values.get("output_mode") is not None:
            raise click.UsageError(f"{(given or ['--output-mode'])[0]} is for -o FILE")
        return
    if given and format_name not in LINE_FORMATS:
        *some, last = LINE_FORMATS
        raise click.UsageError(f"{given[0]} is for --format {', '.join(some)} and {last}, not {format_name}")
    rotation = rotation_of(values)
    if not rotation.limited:
        if rotated := [name for name in given if name != "--append"]:
            raise click.UsageError(f"{rotated[0]}: say when a new file begins: --output-rotate-size or -time")
        append = "--append" in given
        if append and values["force"]:
            raise click.UsageError("--append goes on with FILE, and --force overwrites it: give one of them")
        appends = "append" in values and format_name in LINE_FORMATS
        usage(lambda: check_overwrite(path, values["force"] or append, inputs, appends))
    elif "--append" in given:
        raise click.UsageError(
            "--append is not for numbered files (--output-rotate-...): they go on by themselves"
        )


def open_placed(values: dict[str, Any], path: str | None) -> Output:
    """The stream to write to, where the options say; raises click.UsageError if it cannot be opened."""
    placing = Placing(values["force"], values.get("append", False), values.get("output_mode"))
    rotation = rotation_of(values)
    if path is not None and rotation.limited:
        from kinspect.cli.rotated import open_rotated

        return usage(lambda: open_rotated(path, placing, rotation, values["output_compress"]))
    return usage(lambda: open_output(path, placing))
