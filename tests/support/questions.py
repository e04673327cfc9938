"""Questions of a page: a heading, the statement in SQL that answers it, and the answer as a table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

_QUESTION = re.compile(r"(## [^\n]+\n\n```sql\n)(.+?)(```\n)((?:\n\|[^\n]*)*\n?)", re.DOTALL)


class Question(NamedTuple):
    """A statement of a page, and the lines of its answer."""

    title: str
    statement: str
    answer: list[str]


def questions(page: Path) -> list[Question]:
    """The questions of a page, in their order."""
    return [
        Question(heading.split("\n", 1)[0], statement, [line for line in answer.splitlines() if line])
        for heading, statement, _, answer in _QUESTION.findall(page.read_text("utf-8"))
    ]


def shown(names: Iterable[str], rows: Iterable[Iterable[Any]]) -> list[str]:
    """An answer as lines of a page."""
    columns = [*names]
    table = [columns, ["---"] * len(columns), *([_text(value) for value in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in table]


def answer_anew(page: Path, answer: Callable[[str], list[str]]) -> None:
    """Write what `answer` gives for each statement of a page into it."""

    def with_answer(found: re.Match[str]) -> str:
        heading, statement, end, _ = found.groups()
        return "".join((heading, statement, end, "\n", *(f"{line}\n" for line in answer(statement))))

    page.write_text(_QUESTION.sub(with_answer, page.read_text("utf-8")), "utf-8")


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float | Decimal):
        return f"{float(value):.3f}".rstrip("0").rstrip(".")
    return value.strftime("%Y-%m-%d %H:%M") if hasattr(value, "strftime") else str(value)
