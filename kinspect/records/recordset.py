"""Result of reading a `records` field, and the limits on reading it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kinspect.model import Caps, Problem
from kinspect.records.compression import CompressionError, decompress

MAX_BYTES = Caps().records_bytes
MAX_RECORDS = Caps().records

LOG_APPEND_TIME: Final = 0x08
"""Attribute bit of magic 1 and 2: timestamps are the broker's append time (KIP-32)."""
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
FARTHEST: Final = 1 << 62
"""Limit on offsets and timestamps: real ones are smaller, and adding a delta to larger ones could exceed 64 bits."""
NO_TIMESTAMP: Final = -1


class RecordSet:
    """The batches of a record set, one dict each, in the list `batches`.

    `partial_bytes`: bytes of a cut-off batch at the end (and, for sets read with `aligned=False`, at the start).
    `problems`: damage; `offset` counts within the record set, `bytes` are those that were skipped. The sizes of the
    batches, `partial_bytes` and the problems' `bytes` add up to the record set. `expanded_bytes`: size of compressed
    batches after expansion. `kept`: number of records and headers in the batches. `caps_hit`: limits that were reached,
    by the names of `model.Caps`.
    """

    __slots__ = ("batches", "caps_hit", "expanded_bytes", "kept", "partial_bytes", "problems")

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []
        self.partial_bytes = 0
        self.expanded_bytes = 0
        self.kept = 0
        self.problems: list[Problem] = []
        self.caps_hit: set[str] = set()

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.batches)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self.batches[index]

    def problem(self, code: str, message: str, offset: int, skipped: int | None = None) -> None:
        """Add a problem, once per code and place: a wrapper may hold millions of broken messages."""
        last = self.problems[-1] if self.problems else None
        if last is None or last.offset != offset or last.code != code:
            self.problems.append(Problem(None, code, message, offset, skipped))


class RecordSetReader:
    """State of reading a record set: the result, and the remaining limits.

    `with_records` False: only headers are read.
    """

    __slots__ = ("bytes_left", "max_batches", "records_left", "result", "with_records")

    def __init__(self, max_bytes: int, max_records: int, max_batches: int, with_records: bool) -> None:
        self.result = RecordSet()
        self.bytes_left = max_bytes
        self.records_left = max_records
        self.max_batches = max_batches
        self.with_records = with_records

    def expand(self, codec: int, data: bytes, offset: int, *, any_lz4_checksum: bool = False) -> bytes | None:
        """Expanded bytes of the batch at `offset`, or None and a problem."""
        try:
            expanded = decompress(codec, data, self.bytes_left, any_lz4_checksum=any_lz4_checksum)
        except CompressionError as error:
            self._spend(error.spent)
            if error.code == "cap":
                self.result.caps_hit.add("records_bytes")
            self.result.problem(error.code, str(error), offset)
            return None
        self._spend(len(expanded))
        return expanded

    def _spend(self, size: int) -> None:
        self.bytes_left -= size
        self.result.expanded_bytes += size

    def keep(self, records: int) -> None:
        """Note that `records` more records and headers were kept."""
        self.records_left -= records
        self.result.kept += records

    def too_many_records(self, offset: int) -> None:
        self._too_many("records than the limit; the others are only counted", offset, None)

    def too_many_batches(self, offset: int, skipped: int) -> None:
        self._too_many("batches than the limit", offset, skipped)

    def _too_many(self, what: str, offset: int, skipped: int | None) -> None:
        self.result.caps_hit.add("records")
        self.result.problem("cap", f"more {what}", offset, skipped)
