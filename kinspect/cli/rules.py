"""Which options stand together: rules are rows of tables beside the options, and are checked here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import click

Words = str | tuple[str, ...]
"""Some of: `name`, an option that is given, or a fact that is true; `name=value|value`, one that has such a value."""
Facts = Mapping[str, Callable[[Any], Any]]
"""What rules look at beside options, found out from them once a rule does."""


class OptionRule(NamedTuple):
    """The options are refused where one of `where` holds (none: everywhere), unless one of `unless` does. `text`: what
    is said, with `{}` for the first of them that is given, and other options and facts by their names."""

    options: Words
    text: str
    where: Words = ()
    unless: Words = ()


class OptionValues(dict[str, Any]):
    """The values of options by their names, and facts."""

    def __init__(self, values: Mapping[str, Any], facts: Facts) -> None:
        super().__init__(values)
        self._facts = facts

    def __missing__(self, name: str) -> Any:
        return self._facts[name](self) if name in self._facts else None


def check(rules: Iterable[OptionRule], facts: Facts) -> None:
    """Raise click.UsageError for the first of the rules that the options of the running command break."""
    context = click.get_current_context()
    asked = OptionValues(context.params, facts)
    usual = {parameter.name: parameter.default for parameter in context.command.params}

    def holding(words: Words) -> list[str]:
        each = (words,) if isinstance(words, str) else words
        return [word for word in each if holds(*word.partition("="))]

    def holds(name: str, equals: str, wanted: str) -> bool:
        value = asked[name]
        if equals:
            return any(
                each in wanted.split("|") for each in (value if isinstance(value, frozenset) else [value])
            )
        return value is not None and value is not False and value not in ((), usual.get(name))

    for rule in rules:
        given = holding(rule.options)
        if given and (not rule.where or holding(rule.where)) and not holding(rule.unless):
            option = f"--{given[0].removesuffix('_name').translate({ord('_'): '-', ord('='): ' '})}"
            raise click.UsageError(rule.text.replace("{}", option).format_map(asked))
