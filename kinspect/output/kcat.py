"""Records as `kcat -P -K` reads them, so that a topic can be filled again.

kcat (its input.c and kcat.c, 1.7) ends a record at the first end mark, and its key at the first key mark. Nothing is
escaped: what has a mark in it cannot be written. With -Z, an empty key or value is null.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from kinspect.filters.values import PRODUCED
from kinspect.kafka.view.redact import payload_bytes
from kinspect.output import Opening
from kinspect.output.linesink import LineSink
from kinspect.payloads.payloadforms import PAIRS
from kinspect.sink import RunInput, SinkReport
from kinspect.wording import counted

KEY_MARK: Final = b"|=kinspect=|"
END_MARK: Final = b"|;kinspect;|\n"
COMMAND: Final = "kcat -P -b BROKER -t TOPIC -Z -K '|=kinspect=|' -D '|;kinspect;|\\n'"
"""The command that reads them; printable marks, which every shell leaves alone between quotes."""
MOST: Final = 1_000_000
"""Bytes that kcat holds where nothing else is set: librdkafka's message.max.bytes."""
BEYOND: Final = 1024
"""Bytes that kcat needs beyond a record's: it reads into the next one."""
ELSEWHERE, HIDDEN, DAMAGED, EMPTY, MARKED = (
    "as they are of other topics than the first",
    "as their keys or values are secrets",
    "as their batch's CRC is wrong",
    "as kcat makes null of an empty key or value",
    "as a mark that kcat looks for is in their key or value",
)


def open_rows(opening: Opening, columns: Sequence[str]) -> KcatRows:
    """Rows, which the sink is told, as records; those of the first topic, where all go into one stream."""
    return KcatRows(opening)


class KcatRows(LineSink):
    """Writes keys and values with marks behind them; counts what is left out, and what kcat cannot carry."""

    ending = END_MARK

    def __init__(self, opening: Opening) -> None:
        super().__init__(opening, lambda _: b"", self._record)
        self._splits = opening.path is not None
        self._topic: str | None = None
        self._longest = self._written = self._with_headers = self._produced = self._unplaced = 0
        self._left_out: Counter[str] = Counter()

    def close(self, read: RunInput) -> SinkReport:
        told = []
        if self._written:
            room = self._longest + BEYOND
            more = f" -X message.max.bytes={room}" if room > MOST else ""
            told = [
                f"kcat: {counted(self._written, 'record')}, without timestamps, partitions, transactions and headers"
                f" ({self._with_headers:,} had some)",
                *self._doubts(),
                f"to fill a topic: {COMMAND}{more} -l FILE",
            ]
        told += [f"left out by --format kcat, {why}: {count:,}" for why, count in self._left_out.items()]
        return SinkReport(told)

    def _doubts(self) -> list[str]:
        """What may make the file hold more than the topic did."""
        fetched = self._written - self._produced
        told = []
        if self._produced and fetched:
            copies = f"{self._produced:,} produced and {fetched:,} fetched: --once writes each record once"
            told.append(f"kcat: {copies}")
        if self._unplaced:
            told.append(f"kcat: {self._unplaced:,} may have been refused: --committed leaves them out")
        return told

    def _record(self, row: dict[str, Any]) -> bytes:
        key, value = (payload_bytes(row[name], row[f"{name}_encoding"]) for name in PAIRS)
        text = (key or b"") + KEY_MARK + (value or b"")
        if why := self._fault(row, key, value, text):
            self._left_out[why] += 1
            return b""
        self._written += 1
        self._longest = max(self._longest, len(text))
        self._with_headers += bool(row["headers"])
        self._produced += row["direction"] == PRODUCED
        self._unplaced += row["direction"] == PRODUCED and row["offset"] is None
        return text + END_MARK

    def _fault(self, row: dict[str, Any], key: bytes | None, value: bytes | None, text: bytes) -> str | None:
        """Why a record cannot be written; None: it can."""
        topic = row["topic"] or row["topic_id"]
        if self._topic is None:
            self._topic = topic
        if topic != self._topic and not self._splits:
            return ELSEWHERE
        if any(row[name] is None and row[f"{name}_size"] is not None for name in PAIRS):
            return HIDDEN
        if row["crc_ok"] is False:
            return DAMAGED
        if b"" in (key, value):
            return EMPTY
        # A mark may also begin in one part and end in the next.
        whole = text.find(KEY_MARK) == len(key or b"") and (text + END_MARK).find(END_MARK) == len(text)
        return None if whole else MARKED
