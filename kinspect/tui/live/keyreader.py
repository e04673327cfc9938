"""Keys as a terminal sends them."""

from __future__ import annotations

import re

UP, DOWN, LEFT, RIGHT = "up", "down", "left", "right"
PAGE_UP, PAGE_DOWN, HOME, END = "page up", "page down", "home", "end"

_LETTERS = {"A": UP, "B": DOWN, "C": RIGHT, "D": LEFT, "H": HOME, "F": END}
_NUMBERS = {1: HOME, 7: HOME, 4: END, 8: END, 5: PAGE_UP, 6: PAGE_DOWN}
_NAMED = {
    **{f"\x1b{before}{letter}": key for before in "[O" for letter, key in _LETTERS.items()},
    **{f"\x1b[{number}~": key for number, key in _NUMBERS.items()},
}
_KEY = re.compile(r"\x1b(?:\[[\d;]*[A-Za-z~]|O[A-Za-z])|[^\x1b]")
_BEGUN = re.compile(r"\x1b(?:\[[\d;]*|O)?$")


class KeyReader:
    """Splits text from a terminal into keys: characters, and names of those that send several."""

    def __init__(self) -> None:
        self._rest = ""

    def of(self, text: str) -> list[str]:
        """The keys in the next piece of text. The begin of a key at its end is kept for the piece after it."""
        text = self._rest + text
        begun = _BEGUN.search(text)
        self._rest = begun.group() if begun else ""
        found = _KEY.findall(text.removesuffix(self._rest))
        return [_NAMED.get(key, key) for key in found]
