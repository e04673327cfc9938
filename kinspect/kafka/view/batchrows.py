"""A row for each record of a batch that a body shows: what the batch's rows have in common, and what each has of its
own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import orjson

from kinspect.kafka.view.view import iso_time
from kinspect.model import NS_PER_MS

Row = dict[str, Any]

KEYS: Final = tuple(
    """
    timestamp direction topic topic_id partition offset record_timestamp key key_encoding value value_encoding headers
    control key_size value_size key_schema value_schema problem sequence timestamp_type client_id client_ip group
    producer_id producer_epoch transactional_id transaction codec crc_ok error event_id frame
    """.split()
)
"""The keys of a row, in their order."""
OWN: Final = KEYS[KEYS.index("offset") : KEYS.index("sequence") + 1]
"""Those that a row has of its own."""
_SHARED: Final = frozenset(KEYS) - frozenset(OWN)
_EMPTY: Final[Row] = dict.fromkeys(OWN)
_COPIED: Final = "key key_encoding value value_encoding headers key_size value_size".split()
"""Those that a record has by the same name."""
MOST_SEQUENCE: Final = 0x7FFFFFFF


class BatchRows:
    """Rows of a batch. `shared`: all keys, with the values that its rows have in common; `own`: of each row what else
    it has. Iterating gives whole rows."""

    def __init__(self, shared: Row, own: list[Row]) -> None:
        self.shared = shared
        self.own = own

    def __len__(self) -> int:
        return len(self.own)

    def __iter__(self) -> Iterator[Row]:
        shared = self.shared
        for own in self.own:
            yield {**shared, **own}

    def to_bytes(self) -> bytes:
        """As JSON, for `from_bytes`, later or in another process."""
        return orjson.dumps((self.shared, self.own))

    @classmethod
    def from_bytes(cls, data: bytes) -> BatchRows:
        """The rows that gave these bytes."""
        return cls(*orjson.loads(data))

    def of(self, rows: Iterable[Row]) -> BatchRows:
        """These rows, which are some of its own."""
        return BatchRows(
            self.shared,
            [{name: value for name, value in row.items() if name not in _SHARED} for row in rows],
        )

    def first(self, most: int) -> BatchRows:
        """The first rows, so many at most."""
        return BatchRows(self.shared, [*islice(self.own, most)])


def batch_rows(around: Row, where: Row, batch: Row, offsets: Iterable[int | None]) -> BatchRows:
    """The rows of a batch's records, whose offsets are these."""
    producer, epoch, first = (
        None if value is None or value < 0 else value
        for value in (batch["producer_id"], batch["producer_epoch"], batch["base_sequence"])
    )
    shared = {
        **dict.fromkeys(KEYS),
        **around,
        "topic": where.get("topic"),
        "topic_id": where.get("topic_id"),
        "partition": where.get("partition"),
        "timestamp_type": batch["timestamp_type"],
        "producer_id": producer,
        "producer_epoch": epoch,
        "codec": batch["compression"],
        "crc_ok": batch["crc_ok"],
    }
    own: list[Row] = []
    base, is_control = batch["base_offset"], batch["is_control"]
    row, time = _EMPTY, None
    for record, offset in zip(batch["records"], offsets, strict=True):
        # Copied, so that no key has to be put in its place again.
        row = row.copy()
        own.append(row)
        row["offset"] = offset
        if record["timestamp_ms"] != time:
            time = record["timestamp_ms"]
            row["record_timestamp"] = None if time is None else iso_time(time * NS_PER_MS)
        for name in _COPIED:
            row[name] = record[name]
        if is_control:
            row["control"] = control_type(record)
        if first is not None:
            # Compaction leaves out records, and never moves others.
            row["sequence"] = (first + record["offset"] - base) & MOST_SEQUENCE
    return BatchRows(shared, own)


def control_type(record: Row) -> str | None:
    """The type of a control record, as `COMMIT`."""
    kind: str | None = (record.get("key_decoded") or {}).get("type")
    return kind
