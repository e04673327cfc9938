"""Comments on packets: what ends with them, in a line for each message, as tables show exchanges."""

from __future__ import annotations

from typing import Final

from rich.text import Text

from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.output.actions import NO_ACTION, action_of
from kinspect.output.table import FIELDS, api_text, failures, latency, rest, subjects
from kinspect.protocol.apikeys import PRODUCE

COMMENTS_KEPT: Final = 250_000
"""Number of comments that are kept until packets are read again."""
SHOWN: Final = 400
"""Characters of a comment."""
_MOST: Final = 16
"""Number of comments on a packet."""


class Comments:
    """The comments of a run, by the frames of their packets. `left_out`: those that there was no room for."""

    def __init__(self) -> None:
        self._by_frame: dict[int, list[bytes]] = {}
        self._view = View(fields=FIELDS)
        self._kept = 0
        self.left_out = 0

    def add(self, exchange: Exchange) -> None:
        """Add those of an exchange: on the packet that ends the request, and on the one that ends the response."""
        line, action = self._view.exchange(exchange), action_of(exchange)
        about = [api_text(line), *subjects(line, action)]
        found = failures(line, action)
        if exchange.request is not None:
            shown = [*about, *rest(line, NO_ACTION)] if exchange.api_key == PRODUCE else about
            # Nothing else says what came of it.
            end = [] if exchange.response is not None else found
            self._note(exchange.request.last_frame, _joined(shown), _joined(end, ", "))
        if exchange.response is not None:
            took = [] if line["latency_ms"] is None else [latency(line["latency_ms"])]
            end = [*found, *took]
            self._note(
                exchange.response.last_frame, _joined([*about, *rest(line, action)]), _joined(end, ", ")
            )

    def _note(self, frame: int, about: str, end: str) -> None:
        own = self._by_frame.get(frame, [])
        if self._kept >= COMMENTS_KEPT or len(own) == _MOST:
            self.left_out += 1
            return
        text = f"{about} → {end}" if end else about
        own.append((text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…").encode(errors="replace"))
        self._by_frame[frame] = own
        self._kept += 1

    def of(self, frame: int) -> list[bytes]:
        """The comments on the packet of the frame."""
        return self._by_frame.get(frame, [])


def _joined(texts: list[Text], between: str = " ") -> str:
    return between.join(map(str, texts))
