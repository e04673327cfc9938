"""Search of a text in the fields of the shown exchange, piece by piece so that no key has to wait."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from kinspect.tui.index.exchangefields import ExchangeFields
from kinspect.tui.widgets.details import Details
from kinspect.tui.widgets.fieldtree import searched

PIECE = 500
"""Fields looked at without a pause."""

Places = tuple[int, ...]


class FieldSearch:
    """Moves the cursor of `details` from match to match. `say` shows a message."""

    def __init__(self, details: Details, say: Callable[[str], None]) -> None:
        self._details = details
        self._say = say

    def start(self, text: str) -> None:
        """Mark a text in the fields, and go to the first one behind the cursor, or to the one with it, that has it;
        an empty text removes the marks."""
        self._details.fields.mark(text)
        if text:
            self._go(1, here=True)

    def go(self, step: int) -> None:
        """Go to the next match (1), or to the one before (-1)."""
        if self._details.fields.marked is None:
            self._say("Ctrl-F looks for a text first")
        else:
            self._go(step)

    def _go(self, step: int, here: bool = False) -> None:
        fields, marked = self._details.fields.fields, self._details.fields.marked
        if fields is not None and marked is not None:
            self._details.run_worker(self._find(fields, marked, step, here), group="search", exclusive=True)

    async def _find(self, fields: ExchangeFields, marked: re.Pattern[str], step: int, here: bool) -> None:
        tree = self._details.fields
        found = await _nearest(fields, marked, tree.cursor, step, here)
        if fields is not tree.fields:
            return
        if found is None:
            self._say("no field has this text, as far as fields are shown")
            return
        place = fields.reveal(found)
        tree.put_up()
        tree.move_to(place)


async def _nearest(
    fields: ExchangeFields, marked: re.Pattern[str], cursor: int, step: int, here: bool
) -> Places | None:
    """The match nearest to the line with the cursor in one direction, going on at the other end; None without any.
    `here`: that line may be it."""
    current = fields.lines[cursor]
    before: Places | None = (
        None  # the match that counts up to now: the first one, or, going back, the last one
    )
    passed = False
    for number, (places, node) in enumerate(fields.walk()):
        if number % PIECE == PIECE - 1:
            await asyncio.sleep(0)
        if node is current:
            passed = True
            if step < 0 and before is not None:
                return before
            if not here:
                continue
        if searched(node, fields, marked):
            if step > 0 and passed:
                return places
            if step < 0 or before is None:
                before = places
    return before
