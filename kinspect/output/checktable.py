"""What became of each rule, for people: a line for one that passed, several for others."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from kinspect.output import Opening
from kinspect.output.checktexts import LABEL, NOTHING, Row, explained, passed_by_nothing
from kinspect.output.console import make_console
from kinspect.output.escape import escape
from kinspect.sink import Sink

STYLES = {"passed": "green", "failed": "bold red", "unknown": "yellow"}


def open_rows(opening: Opening, columns: Sequence[str]) -> CheckTable:
    """Rows, which the sink is told, as lines."""
    return CheckTable(make_console(opening.stream, opening.style.color))


class CheckTable(Sink):
    """Writes rows of rules."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def tell(self, row: Row) -> None:
        status = row["status"]
        words = f"{escape(row['rule'])}{f'  ({NOTHING})' if passed_by_nothing(row) else ''}"
        self._console.print(Text.assemble((f"{status:{LABEL}}", STYLES[status]), words), soft_wrap=True)
        if status != "passed":
            for line in explained(row):
                self._console.print(Text(f"{'':{LABEL}}{line}"), soft_wrap=True)
