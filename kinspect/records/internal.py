"""Keys and values of records in the topics in which Kafka keeps its own state.

The coordinators' topics: a key is an int16 record type and the key message, a value an int16 version and the value
message, whose type only the key shows. The metadata topics: no key; a value is a frame version, a record type and a
message version, all unsigned varints, and the message.

Sources: Kafka's CoordinatorRecordSerde.java, AbstractApiMessageSerde.java, GroupMetadataManager.scala.
"""

from __future__ import annotations

import struct
from typing import Any, Final

from kinspect.protocol import schema
from kinspect.records.embedded import decode_assignment, decode_subscription
from kinspect.records.recordvalues import MessageReading, newest_version, read_message, read_prefixed

COORDINATOR_TOPICS: Final = frozenset({"__consumer_offsets", "__share_group_state", "__transaction_state"})
METADATA_TOPICS: Final = {
    "__cluster_metadata": "__cluster_metadata",
    "@metadata": "__cluster_metadata",  # its name in 2.8
    "__remote_log_metadata": "__remote_log_metadata",
}
"""Metadata topics, and the topic whose record types they use."""
TOPICS: Final = COORDINATOR_TOPICS | frozenset(METADATA_TOPICS)

_TYPE: Final = struct.Struct(">h")
_UVARINT_BYTES: Final = 5


def decode_key(topic: str, key: bytes | None) -> MessageReading | None:
    """Decode the key of a record of `topic`: `{"type": "OffsetCommitKey", "version": 0, "data": {...}}`.

    None if the topic has no keys, or the key does not parse exactly. Never raises.
    """
    kind = _kind(topic, key)
    if kind is None or kind.key is None or key is None:
        return None
    # Keys have only one version: a new format gets a new record type.
    return read_message(kind.key, newest_version(kind.key), key, _TYPE.size)


def decode_value(topic: str, key: bytes | None, value: bytes | None) -> MessageReading | None:
    """Decode the value of a record of `topic`: `{"type": "OffsetCommitValue", "version": 3, "data": {...}}`.

    In `data`, the consumer protocol's bytes are accompanied by their decoded form (`subscription_decoded`,
    `assignment_decoded`, `metadata_decoded`). None for a tombstone, and for a value that does not parse exactly. Never
    raises.
    """
    if value is None:
        return None
    if topic in METADATA_TOPICS:
        return _metadata(METADATA_TOPICS[topic], value)
    kind = _kind(topic, key)
    if kind is None:
        return None
    found = read_prefixed(kind.values, value)
    if found is not None:
        _open_embedded(found["type"], found["data"])
    return found


def _kind(topic: str, key: bytes | None) -> schema.RecordType | None:
    """Record type that a key of a coordinator's topic announces."""
    if topic not in COORDINATOR_TOPICS or key is None or len(key) < _TYPE.size:
        return None
    return schema.record_types(topic).get(_TYPE.unpack_from(key)[0])


def _metadata(topic: str, value: bytes) -> MessageReading | None:
    position = 0
    numbers = []
    for _ in range(3):
        number, position = _uvarint(value, position)
        if number is None:
            return None
        numbers.append(number)
    frame_version, number, version = numbers
    kind = schema.record_types(topic).get(number)
    if kind is None or frame_version > 1:
        return None
    for name in kind.values:
        if found := read_message(name, version, value, position):
            return found
    return None


def _uvarint(data: bytes, position: int) -> tuple[int | None, int]:
    """An unsigned varint and the position behind it; None instead of the value if it is cut off or too long."""
    value = 0
    for shift, byte in enumerate(data[position : position + _UVARINT_BYTES]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, position + shift + 1
    return None, position


def _open_embedded(name: str, data: dict[str, Any]) -> None:
    """Add the decoded form of consumer protocol bytes beside them."""
    if name == "GroupMetadataValue" and data["protocol_type"] == "consumer":
        for member in data["members"]:
            _beside(member, "subscription", decode_subscription(member["subscription"]))
            _beside(member, "assignment", decode_assignment(member["assignment"]))
    elif name == "ConsumerGroupMemberMetadataValue":
        # A member that joined with the classic protocol, in a group of the new one (KIP-848).
        for protocol in (data.get("classic_member_metadata") or {}).get("supported_protocols", ()):
            _beside(protocol, "metadata", decode_subscription(protocol["metadata"]))


def _beside(data: dict[str, Any], name: str, decoded: dict[str, Any] | None) -> None:
    if decoded is not None:
        data[f"{name}_decoded"] = decoded
