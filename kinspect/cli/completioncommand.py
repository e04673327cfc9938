"""`kinspect completion`: the script with which a shell completes kinspect's commands, options and values."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from kinspect.cli import PROGRAM, group
from kinspect.cli.completions import VARIABLE

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script that completes kinspect's commands, options and values in a shell.

    The shell reads it when it starts: docs/install.md says where it belongs.
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click has one for each of SHELLS"
    click.echo(kind(group, {}, PROGRAM, VARIABLE).source())
