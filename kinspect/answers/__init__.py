"""The answers, a module each: that of answer `x` is `xanswer.py`, with its `Definition` as `ANSWER`. Nothing else names
them."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinspect.errors import KinspectError

if TYPE_CHECKING:
    from kinspect.analysis.answer import Answer
    from kinspect.answers.definition import Definition

_ENDING = "answer"


@cache
def answer_modules() -> dict[str, str]:
    """The modules of the answers by their names, in no order that matters. None of them is loaded."""
    from pkgutil import iter_modules

    found = (each.name for each in iter_modules(__path__) if each.name.endswith(_ENDING))
    return {name.removesuffix(_ENDING): f"{__name__}.{name}" for name in found}


@cache
def answers() -> dict[str, Definition]:
    """The answers by name, in the order of the keys of their pages. Loads all of them."""
    found = {name: definition_of(name) for name in answer_modules()}
    return dict(sorted(found.items(), key=lambda each: each[1].page))


def definition_of(name: str) -> Definition:
    """An answer. Raises KinspectError if there is no such answer."""
    if name not in answer_modules():
        raise KinspectError(f"there is no answer {name!r}; there are {', '.join(answers())}")
    found: Definition = import_module(answer_modules()[name]).ANSWER
    return found


def open_answer(name: str, **options: Any) -> Answer:
    """The accumulator of an answer, empty. `options`: those of its class."""
    answer = definition_of(name).answer(**options)
    answer.options = options
    return answer
