"""Rules that did not pass as annotations of GitHub: workflow commands, which a step prints. Source: GitHub's "Workflow
commands for GitHub Actions"."""

from __future__ import annotations

from collections.abc import Sequence

from kinspect.output import Opening
from kinspect.output.checktexts import NOTHING, Row, explained, passed_by_nothing
from kinspect.output.escape import escape
from kinspect.output.linesink import LineSink

DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
"""What stands for characters of a message."""
PROPERTY = DATA | str.maketrans({":": "%3A", ",": "%2C"})


def open_rows(opening: Opening, columns: Sequence[str]) -> LineSink:
    """Rows, which the sink is told, as commands; none of a rule that passed, but for one that no exchange was about."""
    return LineSink(opening, lambda _: b"", _command)


def _command(row: Row) -> bytes:
    nothing = passed_by_nothing(row)
    if row["status"] == "passed" and not nothing:
        return b""
    level = "error" if row["broken"] else "notice" if nothing else "warning"
    title = escape(f"{row['rule']} ({row['status']})").translate(PROPERTY)
    message = NOTHING if nothing else "\n".join(explained(row)).translate(DATA)
    return f"::{level} title={title}::{message}\n".encode()
