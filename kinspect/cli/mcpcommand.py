"""`kinspect mcp`: captures for programs that read, as tools of the Model Context Protocol."""

from __future__ import annotations

import os
from functools import partial

import click

from kinspect.cli.completions import files
from kinspect.cli.options import usage
from kinspect.cli.types import Size
from kinspect.errors import KinspectError
from kinspect.extras import need

RESULT_BYTES = 64 * 1024
LEAST_RESULT = 4096


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True, shell_complete=files)
@click.option(
    "--write-to",
    metavar="DIR",
    shell_complete=files,
    help="Let `export` make new files in DIR. Without it there is no such tool.",
)
@click.option(
    "--payloads", is_flag=True, help="Let tools show keys and values of records where they are asked to."
)
@click.option(
    "--max-bytes",
    type=Size(least=LEAST_RESULT),
    default=RESULT_BYTES,
    help=f"Size of a result; what has no room in it is counted.  [default: {Size().written(RESULT_BYTES)}]",
)
def mcp(folders: tuple[str, ...], write_to: str | None, payloads: bool, max_bytes: int) -> None:
    """Offer captures to programs that read, as tools of the Model Context Protocol.

    It speaks over standard input and output, until that ends; a program such as an assistant starts it. Its tools are
    `captures`, which lists the files in DIR and below, `read`, `records`, `telemetry`, `diff`, `check`, `schema`, and
    each answer (`topics`, `groups`...), with the filters of these commands.

    Tools read files in these folders alone, and write nothing. Passwords and tokens are never shown.
    """
    need("mcp", "kinspect mcp")
    from kinspect.cli.commandtools import Granted
    from kinspect.cli.mcpserver import serve

    granted = Granted(
        [usage(partial(_folder, each)) for each in folders],
        None if write_to is None else usage(partial(_folder, write_to)),
        payloads,
        max_bytes,
    )
    serve(granted)


def _folder(name: str) -> str:
    """The path of a folder, without links in it. Raises KinspectError."""
    if not os.path.isdir(name):
        raise KinspectError(f"{name}: is no folder")
    return os.path.realpath(name)
