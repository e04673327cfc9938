"""Completion of filters: names of filters, and names in the captures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from kinspect.kafka.connection.roles import ROLES
from kinspect.kafka.wire.wait import CAUSES
from kinspect.protocol import schema
from kinspect.tui.index.choice import FLAGS, OPTIONS
from kinspect.tui.index.store import Store

OFFERED = 50
WORDS = {"role": ROLES, "wait": CAUSES}
"""Values of the filters that have no others."""
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
        f"{head}{dashes}{option}{'' if OPTIONS[option] in FLAGS else '='}"
        for option in OPTIONS
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
    return option if option in OPTIONS and OPTIONS[option] not in FLAGS else None


def _values(option: str, value: str, store: Store) -> Iterator[str]:
    """Completions of the last value of `a,b,c`, each with the others before it."""
    before, comma, last = value.rpartition(",")
    negated = "!" if last.startswith("!") else ""
    part = last.removeprefix("!")
    known: Iterable[str] = WORDS.get(option, store.seen.get(option, ()))
    if option == "api":
        known = dict.fromkeys([*sorted(known), *sorted(schema.api_names().values())])
    found = 0
    for name in sorted(known) if option != "api" else known:
        if name.lower().startswith(part.lower()) and name != part:
            yield f"{before}{comma}{negated}{written(name)}"
            found += 1
            if found == OFFERED:
                return


def written(name: str) -> str:
    """A name as a value that matches it; characters that cannot stand in one are `?`, which matches any."""
    plain = "".join(c if c.isprintable() else "?" for c in name)
    return _SPECIAL.sub("?", plain)
