"""The value that a key is to have: its test, it in words, and of which kind it is."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

from kinspect.errors import KinspectError
from kinspect.filters.values import glob
from kinspect.jsontext import json_text
from kinspect.wording import did_you_mean

Compare = Callable[[Any, Any], bool]
COMPARISONS: Final[dict[str, tuple[str, Compare]]] = {
    "gt": (">", operator.gt),
    "ge": (">=", operator.ge),
    "lt": ("<", operator.lt),
    "le": ("<=", operator.le),
    "ne": ("!=", operator.ne),
}
"""Endings of names, each with its sign."""
NUMBER, TEXT, TRUTH, OBJECT = "a number", "a text", "true or false", "an object"
"""What values are called; null is of none of these kinds."""


class AskedValue:
    """A value, or several of which one is enough. `text`: sign and value, as `= -1`; `test`: tells whether a value that
    an exchange has is one of these; `kinds`: what they are called.

    `ending`: how it is compared (`COMPARISONS`), empty for equality. `words`: the texts that there are, empty if any
    may be. Raises KinspectError for what cannot be asked for.
    """

    def __init__(self, value: Any, ending: str = "", words: Sequence[str] = ()) -> None:
        sign, compare = COMPARISONS[ending] if ending else ("=", None)
        if compare not in (None, operator.ne) and kind_of(value) != NUMBER:
            raise KinspectError(f"{value!r} is no number to compare with")
        several = _several(value)
        if not several:
            raise KinspectError(f"{value!r} has no value")
        for each in several:
            _check(each, words, compare is operator.ne)
        if isinstance(value, range):
            shown = [f"{value.start} to {value.stop - 1}"]
        else:
            shown = [json_text(each) for each in several]
        self.text = f"{sign} {(' and ' if compare is operator.ne else ' or ').join(shown)}"
        self.test = _test(value, compare)
        self.kinds = {kind_of(each) for each in several}
        self._fits = kind_of(None) in self.kinds
        self._other: Any = None

    def note(self, found: Any) -> None:
        """Take note of a value that an exchange has."""
        if not self._fits and found is not None and kind_of(found) != OBJECT:
            if kind_of(found) in self.kinds:
                self._fits = True
            elif self._other is None:
                self._other = found

    def mistake(self, label: str) -> str:
        """Why no exchange can have it, by the values that there were at a key; empty if one can. `label`: its name."""
        if self._fits or self._other is None:
            return ""
        return f"{label} is {kind_of(self._other)}, as {json_text(self._other)}, and never {self.asked}"

    @property
    def asked(self) -> str:
        """What the values are called: `a number or a text`."""
        return " or ".join(sorted(filter(None, self.kinds)))


def kind_of(value: Any) -> str:
    """What a value is called: one of the kinds above; empty for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return TRUTH
    if isinstance(value, int | float):
        return NUMBER
    return TEXT if isinstance(value, str) else OBJECT


def _several(value: Any) -> list[Any]:
    if isinstance(value, range):
        return [*value][:1]
    return (
        [*value] if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else [value]
    )


def _check(value: Any, words: Sequence[str], negated: bool) -> None:
    """Raises KinspectError for what no value can be."""
    if isinstance(value, float) and not isfinite(value):
        raise KinspectError(f"{value!r} is no number")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise KinspectError(f"{value!r} has more than 64 bits")
    if value is not None and (isinstance(value, bytes) or kind_of(value) == OBJECT):
        raise KinspectError(f"{value!r} is neither a text, a number, true, false nor a list of these")
    if isinstance(value, str):
        if value.startswith("!") and not negated:
            raise KinspectError(f"{value!r}: what a key is not to be has a name with __ne, and no !")
        matches = glob(value)
        if words and not any(map(matches, words)):
            hint = did_you_mean(value, zip(words, words, strict=True)) or f"it is one of {', '.join(words)}"
            raise KinspectError(f"is never {value!r}: {hint}")


def _test(value: Any, compare: Compare | None) -> Callable[[Any], bool]:
    if compare is operator.ne:
        is_equal = _test(value, None)
        return lambda found: not is_equal(found)
    if compare is not None:
        return lambda found: kind_of(found) == NUMBER and compare(found, value)
    if isinstance(value, str):
        matches = glob(value)
        return lambda found: isinstance(found, str) and matches(found)
    if value is None or isinstance(value, bool):
        return lambda found: found is value
    if isinstance(value, int | float):
        return lambda found: kind_of(found) == NUMBER and bool(found == value)
    if isinstance(value, range):
        return lambda found: kind_of(found) == NUMBER and found in value
    tests = [_test(each, None) for each in value]
    return lambda found: any(test(found) for test in tests)
