"""The command to type next, below the table of an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from shlex import quote
from typing import Any, Final, NamedTuple

from kinspect.filters.filterdefinitions import kinds

NAMED_CAPTURES: Final = 5
"""Captures that the command names; of more it has their place."""
PLACE: Final = "CAPTURE..."
"""Place of captures that cannot be named again."""

Row = dict[str, Any]


class NextCommand(NamedTuple):
    """What the command to type next is for: captures, and options that were given with them, with their values. Without
    captures there is none."""

    captures: Sequence[str] = ()
    options: Sequence[tuple[str, str | None]] = ()

    def command(self, more: Callable[[str, list[Row]], str], rows: list[Row], capture: Row) -> str:
        """The command that `more` makes of the captures' names and the rows, with the options that were given but for
        those that it has itself, and those that ask for names that the counted exchanges need not have."""
        text = more(
            " ".join(map(quote, self.captures)) if len(self.captures) <= NAMED_CAPTURES else PLACE, rows
        )
        unnamed = [option for option, kind in kinds().items() if kind not in capture["only_naming"]]
        own = frozenset([*re.findall(r"(?<!\S)--[a-z-]+", text), *unnamed])
        given = [
            name if value is None else f"{name} {quote(value)}"
            for name, value in self.options
            if name not in own
        ]
        return " ".join([text, *given])


NO_COMMAND: Final = NextCommand()
