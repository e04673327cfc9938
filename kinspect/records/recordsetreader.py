"""State of reading a `records` field: its result, and the limits on reading it."""

from __future__ import annotations

from typing import Final

from kinspect.model import Caps
from kinspect.records.compression import CompressionError, decompress
from kinspect.records.recordset import RecordSet

MAX_BYTES = Caps().records_bytes
MAX_RECORDS = Caps().records

LOG_APPEND_TIME: Final = 0x08
"""Attribute bit of magic 1 and 2: timestamps are the broker's append time (KIP-32)."""
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
FARTHEST: Final = 1 << 62
"""Limit on offsets and timestamps: real ones are smaller, and adding a delta to larger ones could exceed 64 bits."""
NO_TIMESTAMP: Final = -1


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
