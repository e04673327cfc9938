"""The rich console that `table` and `detail` print to."""

from __future__ import annotations

import os
from typing import TextIO

from rich.console import Console

AUTO, ALWAYS, NEVER = "auto", "always", "never"


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise BrokenPipeError, for the command line to end the program; rich would end it with status 1."""
        raise BrokenPipeError


def make_console(stream: TextIO, color: str = AUTO, width: int | None = None) -> Console:
    """A console that prints text as it is, without markup, emoji codes or highlighting.

    `color`: `auto` (on a terminal, unless NO_COLOR is set), `always` or `never`.
    """
    if color == AUTO and os.environ.get("NO_COLOR"):
        color = NEVER
    return _Console(
        file=stream,
        width=width,
        force_terminal={ALWAYS: True, NEVER: False}.get(color),
        color_system=None if color == NEVER else "auto",
        no_color=color == NEVER,
        markup=False,
        emoji=False,
        highlight=False,
    )
