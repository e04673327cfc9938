"""Control records: the markers that brokers write into partitions for transactions and for KRaft.

The key of a record in a control batch is an int16 version and an int16 type. The value of a transaction marker is an
int16 version and `EndTxnMarker`; values of other types are the message alone, whose first field is its version.

Kafka 2.7 and 2.8 numbered differently: 2 was QUORUM_REASSIGNMENT, never written, and 3 LEADER_CHANGE, whose message had
no version field then. So a value of type 3 that is not a snapshot header is such a message.

Source: Kafka's ControlRecordType.java, EndTransactionMarker.java, ControlRecordUtils.java.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple

from kinspect.records.recordvalues import MessageReading, read_any_version, read_message, read_prefixed

_KEY: Final = struct.Struct(">hh")


class _Type(NamedTuple):
    name: str
    message: str


_TYPES: Final = {
    0: _Type("ABORT", "EndTxnMarker"),
    1: _Type("COMMIT", "EndTxnMarker"),
    2: _Type("LEADER_CHANGE", "LeaderChangeMessage"),
    3: _Type("SNAPSHOT_HEADER", "SnapshotHeaderRecord"),
    4: _Type("SNAPSHOT_FOOTER", "SnapshotFooterRecord"),
    5: _Type("KRAFT_VERSION", "KRaftVersionRecord"),
    6: _Type("KRAFT_VOTERS", "VotersRecord"),
}
_LEADER_CHANGE: Final = _TYPES[2]
_SNAPSHOT_HEADER: Final = _TYPES[3]


def decode_control_record(
    key: bytes | None, value: bytes | None
) -> tuple[MessageReading | None, MessageReading | None]:
    """Decode key and value of a record in a control batch.

    The key is `{"type": "COMMIT", "version": 0}` (`UNKNOWN_7` for a type without a name), the value `{"type":
    "EndTxnMarker", "version": 0, "data": {...}}`. None for a part that does not parse exactly. Never raises.
    """
    if key is None or len(key) != _KEY.size:
        return None, None
    version, number = _KEY.unpack(key)
    kind = _TYPES.get(number)
    if kind is None:
        return _key(f"UNKNOWN_{number}", version), None
    if value is None:
        return _key(kind.name, version), None
    if kind.message == "EndTxnMarker":
        return _key(kind.name, version), read_prefixed((kind.message,), value)
    found = read_any_version(kind.message, value)
    if found is None and kind is _SNAPSHOT_HEADER:
        found = read_message(_LEADER_CHANGE.message, 0, value, 0)
        kind = kind if found is None else _LEADER_CHANGE
    return _key(kind.name, version), found


def _key(name: str, version: int) -> dict[str, Any]:
    return {"type": name, "version": version}
