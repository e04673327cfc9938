"""Completion of filters: names of filters, and names in the captures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kinspect.tui.index.filterline import ALL_NAMES, DEFINITIONS, takes_value
from kinspect.tui.index.store import Store

OFFERED = 50
_SPECIAL = re.compile(r"[*?\[\],\"'\\\\\s]|^!")


def completions(text: str, store: Store) -> list[str]:
    """Whole filter texts that `text` may become, the likeliest first."""
    head, word = _last_word(text)
    dashes = "--" if word.startswith("--") else ""
    name, equals, value = word.removeprefix("--").partition("=")
    if equals:
        return [f"{head}{dashes}{name}={found}" for found in _values(name, value, store)]
    option = _awaiting(head)
    if option is not None:
        return [f"{head}{found}" for found in _values(option, word, store)]
    return [
        f"{head}{dashes}{option}{'=' if takes_value(option) else ''}"
        for option in ALL_NAMES
        if option.startswith(name) and option != name
    ]


def _last_word(text: str) -> tuple[str, str]:
    """The text before the word that is being written, and the word."""
    at = max(text.rfind(space) for space in " \t") + 1
    return text[:at], text[at:]


def _awaiting(head: str) -> str | None:
    """The filter whose value comes next, where it is written apart: `--api Fetch`."""
    words = head.split()
    option = words[-1].removeprefix("--") if words else ""
    return option if takes_value(option) else None


def _values(option: str, value: str, store: Store) -> Iterator[str]:
    """Completions of the last value of `a,b,c`, each with the others before it."""
    before, comma, last = value.rpartition(",")
    negated = "!" if last.startswith("!") else ""
    part = last.removeprefix("!")
    found = 0
    for name in _offered(option, store):
        if name.lower().startswith(part.lower()) and name != part:
            yield f"{before}{comma}{negated}{written(name)}"
            found += 1
            if found == OFFERED:
                return


def _offered(option: str, store: Store) -> Iterable[str]:
    """Values of a filter: those in the captures, and others that there are."""
    if option not in ALL_NAMES:
        return ()
    row, seen = DEFINITIONS[ALL_NAMES[option]], store.seen.get(ALL_NAMES[option], ())
    words = row.words() if row.words is not None and row.all_offered else ()
    return dict.fromkeys((*sorted(seen), *sorted(words)))


def written(name: str) -> str:
    """A name as a value that matches it; characters that cannot stand in one are `?`, which matches any."""
    plain = "".join(c if c.isprintable() else "?" for c in name)
    return _SPECIAL.sub("?", plain)
