"""`--schema`: definitions of messages that stand before kinspect's own."""

from __future__ import annotations

from functools import partial

import click

from kinspect.cli.completions import files
from kinspect.errors import KinspectError


def _lay_over(_: click.Context, __: click.Parameter, path: str | None) -> str | None:
    if path is None:
        return None
    from kinspect.output.escape import escape
    from kinspect.protocol.overlay import lay_over

    try:
        lay_over(path)
    except KinspectError as error:
        raise click.UsageError(escape(str(error))) from None
    return path


_schema_option = partial(
    click.option,
    "--schema",
    metavar="DIR|FILE",
    shell_complete=files,
    is_eager=True,
    callback=_lay_over,
    help="Message definitions (JSON, as in brokers' sources) that stand before kinspect's own.",
)
schema_option = _schema_option(expose_value=False)
SCHEMA = (_schema_option(),)
