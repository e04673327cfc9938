"""The answers, a module each: that of answer `x` is `xanswer.py`, with its `Definition` as `ANSWER`. Nothing else names
them. Other packages add more: entry points of the group `kinspect.answers`."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinspect import extensions
from kinspect.errors import KinspectError

if TYPE_CHECKING:
    from kinspect.analysis.answer import Answer
    from kinspect.answers.definition import Definition

_ENDING = "answer"
_HEAD = re.compile(r'^    (help|page)="([^"\\]*)",$', re.MULTILINE)
"""What `--help` needs of a definition, in the text of its module."""
OTHER_COMMANDS = frozenset(
    {
        "check",
        "completion",
        "decode",
        "diff",
        "explore",
        "export",
        "live",
        "mcp",
        "pipeline",
        "read",
        "records",
        "report",
        "schema",
        "telemetry",
    }
)
PAGES_LEFT = frozenset("ABCDEFGHIJKMNOPQRSTUVWXYZ")
"""Keys of the explorer that pages of other packages may have."""


@cache
def answer_modules() -> dict[str, str]:
    """The modules of the answers by their names, in no order that matters. None of them is loaded."""
    from pkgutil import iter_modules

    found = (each.name for each in iter_modules(__path__) if each.name.endswith(_ENDING))
    return {name.removesuffix(_ENDING): f"{__name__}.{name}" for name in found}


@cache
def answers() -> dict[str, Definition]:
    """The answers by name, in the order of the keys of their pages. Loads all of them."""
    found = {name: definition_of(name) for name in (*answer_modules(), *added_answers())}
    return dict(sorted(found.items(), key=lambda each: each[1].page))


@cache
def help_lines() -> dict[str, str]:
    """The answers' lines in `--help` by name, in the order of `answers`. None of kinspect's own is loaded for them."""
    added = ((each.page, name, each.help) for name, each in added_answers().items())
    return {name: line for _, name, line in sorted([*map(_help_line, answer_modules()), *added])}


def _help_line(name: str) -> tuple[str, str, str]:
    """The page, the name and the line of an answer: read from its module's text, as to load it takes ten times as long;
    where there is no text, or it does not tell, from its definition."""
    from pkgutil import get_data

    found: dict[str, str] = {}
    with suppress(OSError):
        found = dict(_HEAD.findall((get_data(__name__, f"{name}{_ENDING}.py") or b"").decode()))
    if len(found) == 2:
        return found["page"], name, found["help"]
    each = definition_of(name)
    return each.page, name, each.help


def definition_of(name: str) -> Definition:
    """An answer. Raises KinspectError if there is no such answer."""
    if name in answer_modules():
        found: Definition = import_module(answer_modules()[name]).ANSWER
        return found
    if name in added_answers():
        return added_answers()[name]
    raise KinspectError(f"there is no answer {name!r}; there are {', '.join(answers())}")


@cache
def added_answers() -> dict[str, Definition]:
    """The answers of other packages by name."""
    pages = {*PAGES_LEFT}

    def fault(name: str, row: Any) -> str:
        from kinspect.analysis.answer import Answer
        from kinspect.answers.definition import Definition, Key
        from kinspect.output.columns import Column

        if not isinstance(row, Definition):
            return f"a {type(row).__name__} is not a kinspect.answers.definition.Definition"
        if re.fullmatch("[a-z][a-z0-9]*", name) is None:
            return "an answer cannot have this name"
        fits = {
            "answer": isinstance(row.answer, type) and issubclass(row.answer, Answer),
            "help": row.help.isprintable(),
            "page_help": row.page_help.isprintable(),
            "columns": all(isinstance(each, Key | Column) for each in row.columns),
            "options": all(option.startswith(f"{name}_") for option in row.options),
            "page": row.page in pages,
        }
        wrong = extensions.unfit(row, fits)
        pages.difference_update(() if wrong else row.page)
        return wrong

    return extensions.added("kinspect.answers", {*answer_modules(), *OTHER_COMMANDS}, fault)


def open_answer(name: str, **options: Any) -> Answer:
    """The accumulator of an answer, empty. `options`: those of its class."""
    answer = definition_of(name).answer(**options)
    answer.options = options
    return answer
