"""Lines of JSON within a number of bytes: what a longer one loses, and in which order, is in docs/output.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from kinspect.jsontext import escape_json
from kinspect.kafka.view.forms import BODY, no_nulls
from kinspect.model import REQUEST, RESPONSE

LEAST_LINE = 3000
"""Smallest number of bytes that every line can be made to fit in."""
LEAST_TEXT = 48
"""Bytes of JSON, without the quotes, that are left of a text at least. No API, outcome, code or address has more."""
WHOLE = frozenset({"type", "event_id", "connection_id", "community_id", "timestamp", "completed_at"})
"""Texts that are never cut."""
MARK = "…"
"""End of a text that was cut."""

Line = dict[str, Any]


class FittedText:
    """Gives lines as text of no more than `limit` bytes, with the line feed; `limit` is at least `LEAST_LINE`.
    `nulls`: as of `View`; `text`: gives lines as text, however long."""

    def __init__(self, limit: int, nulls: bool, text: Callable[[Line], bytes]) -> None:
        self._limit = limit
        self._nulls = nulls
        self._text = text

    def __call__(self, line: Line) -> bytes:
        text = self._text(line)
        if len(text) <= self._limit:
            return text
        shorter = self._shortened(line, len(text))
        return self._text(shorter if self._nulls else no_nulls(shorter))

    def _shortened(self, line: Line, size: int) -> Line:
        line = {**_copied(line), "line_truncated": True}
        # `true` is shorter than `false`: that alone is no cut.
        excess = max(size, len(self._text(line))) - self._limit
        for cut in (_cut_bodies, _cut_lists, _cut_texts):
            if excess > 0:
                excess = cut(line, excess)
        return line


def _copied(value: Any) -> Any:
    """A copy that may be changed, but for bodies."""
    if isinstance(value, dict):
        return {key: item if key == BODY else _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _size(value: Any) -> int:
    return len(escape_json(orjson.dumps(value)))


# Each of these takes from a line until it has `excess` bytes less, or nothing more can be taken; returns what is left
# to take, which is negative where more was taken.


def _cut_bodies(line: Line, excess: int) -> int:
    messages = [line[side] for side in (RESPONSE, REQUEST) if line.get(side) is not None]
    bodies = [(_size(message[BODY]), message) for message in messages if message.get(BODY) is not None]
    for size, message in sorted(bodies, key=lambda body: -body[0]):
        if excess > 0:
            message[BODY] = None
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
