"""The answers, a module each: that of answer `x` is `xanswer.py`, with its `Definition` as `ANSWER`. Nothing else names
them. Other packages add more: entry points of the group `kinspect.answers`."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinspect import extensions
from kinspect.errors import KinspectError

if TYPE_CHECKING:
    from kinspect.analysis.answer import Answer
    from kinspect.answers.definition import Definition

_ENDING = "answer"
OTHER_COMMANDS = frozenset({"completion", "decode", "explore", "live", "pipeline", "read", "schema"})
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
    from kinspect.analysis.answer import Answer
    from kinspect.answers.definition import Definition, Key
    from kinspect.output.columns import Column

    pages = {*PAGES_LEFT}

    def fault(name: str, row: Any) -> str:
        if not isinstance(row, Definition):
            return f"a {type(row).__name__} is not a kinspect.answers.definition.Definition"
        if re.fullmatch("[a-z][a-z0-9]*", name) is None:
            return "an answer cannot have this name"
        fits = {
            "answer": isinstance(row.answer, type) and issubclass(row.answer, Answer),
            "help": row.help.isprintable(),
            "about": row.about.isprintable(),
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
