"""Lines of JSON within a number of bytes: what a longer one loses, and in which order, is in docs/output.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import orjson

from kinspect.jsontext import escape_json
from kinspect.kafka.view.forms import BODY, no_nulls

LEAST_LINE = 4300
"""Smallest number of bytes that every line can be made to fit in."""
LEAST_TEXT = 48
"""Bytes of JSON, without the quotes, that are left of a text at least. No API, outcome, code or address has more."""
WHOLE = frozenset({"type", "event_id", "connection_id", "community_id", "timestamp", "completed_at"})
"""Texts that are never cut."""
MARK = "…"
"""End of a text that was cut."""

Line = dict[str, Any]


class LinePaths(NamedTuple):
    """Places in a line: `bodies`, which go first and whole; `truncated`, which says that something was cut. A place is
    the keys on the way to a value."""

    bodies: tuple[tuple[str, ...], ...]
    truncated: tuple[str, ...]


JSON_PLACES = LinePaths((("response", BODY), ("request", BODY)), ("line_truncated",))


class FittedText:
    """Gives lines as text of no more than `limit` bytes, with the line feed; `limit` is at least `LEAST_LINE`.
    `nulls`: as of `View`; `text`: gives lines as text, however long; `places`: those of the lines."""

    def __init__(
        self, limit: int, nulls: bool, text: Callable[[Line], bytes], places: LinePaths = JSON_PLACES
    ) -> None:
        self._limit = limit
        self._nulls = nulls
        self._text = text
        self._places = places

    def __call__(self, line: Line) -> bytes:
        text = self._text(line)
        if len(text) <= self._limit:
            return text
        shorter = self._shortened(line, len(text))
        return self._text(shorter if self._nulls else no_nulls(shorter))

    def _shortened(self, line: Line, size: int) -> Line:
        line = _copied(line)
        *above, name = self._places.truncated
        _at(line, above)[name] = True
        # `true` is shorter than `false`: that alone is no cut.
        excess = max(size, len(self._text(line))) - self._limit
        excess = _cut_bodies(line, excess, self._places.bodies)
        for cut in (_cut_lists, _cut_texts):
            if excess > 0:
                excess = cut(line, excess)
        return line


def _copied(value: Any) -> Any:
    """A copy that may be changed, but for bodies."""
    if isinstance(value, dict):
        return {key: item if key == BODY else _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _at(line: Line, keys: Iterable[str]) -> Line:
    """The object in the line to which the keys lead; an empty one where there is none."""
    for key in keys:
        line = line.get(key) or {}
    return line


def _size(value: Any) -> int:
    return len(escape_json(orjson.dumps(value)))


# Each of these takes from a line until it has `excess` bytes less, or nothing more can be taken; returns what is left
# to take, which is negative where more was taken.


def _cut_bodies(line: Line, excess: int, bodies: Iterable[tuple[str, ...]]) -> int:
    holders = [(_at(line, above), name) for *above, name in bodies]
    there = [(_size(holder[name]), holder, name) for holder, name in holders if holder.get(name) is not None]
    for size, holder, name in sorted(there, key=lambda body: -body[0]):
        if excess > 0:
            holder[name] = None
            excess -= size - len("null")
    return excess


def _cut_lists(line: Line, excess: int) -> int:
    lists = [([_size(item) for item in found], found) for found in _lists(line)]
    for sizes, found in sorted(lists, key=lambda each: -sum(each[0])):
        while excess > 0 and found:
            found.pop()
            excess -= sizes.pop() + (1 if found else 0)
    return excess


def _lists(line: Line) -> list[list[Any]]:
    found = []
    for key, value in line.items():
        if isinstance(value, list):
            found.append(value)
        elif isinstance(value, dict) and key != BODY:
            found += _lists(value)
    return found


def _cut_texts(line: Line, excess: int) -> int:
    texts = [(_size(holder[key]) - 2, holder, key) for holder, key in _texts(line)]
    most = max(LEAST_TEXT, _level([size for size, _, _ in texts], excess))
    for size, holder, key in texts:
        if size > most:
            holder[key] = cut = _cut(holder[key], most)
            excess -= size - (_size(cut) - 2)
    return excess


def _texts(line: Line) -> list[tuple[Line, str]]:
    found = []
    for key, value in line.items():
        if isinstance(value, str) and key not in WHOLE:
            found.append((line, key))
        elif isinstance(value, dict) and key != BODY:
            found += _texts(value)
    return found


def _level(sizes: list[int], excess: int) -> int:
    """The size that the largest of these have to be cut to, so that `excess` is gone; negative if it cannot be."""
    ranked = sorted(sizes, reverse=True)
    level = 0
    for count, size in enumerate(ranked, 1):
        level = (sum(ranked[:count]) - excess) // count
        following = ranked[count] if count < len(ranked) else 0
        if level >= following:
            return min(level, size)
    return level


def _cut(text: str, most: int) -> str:
    """The longest beginning of the text that, with a mark behind it, is no more than `most` bytes of JSON."""
    low, high = 0, min(len(text), most)
    while low < high:
        middle = (low + high + 1) // 2
        if _size(text[:middle] + MARK) - 2 <= most:
            low = middle
        else:
            high = middle - 1
    return text[:low] + MARK
