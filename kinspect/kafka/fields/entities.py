"""Meanings of fields in layouts: from Kafka's entity types and, where those say nothing, from the fields' names.

Kafka marks topic, group and transactional names with an `entityType`; topic ids, partition indexes and error codes it
only names alike. The names here are all that its messages use (KIP-516 for topic ids).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kinspect.protocol.schema import Field

TOPIC_ID: Final = "topic_id"
HOST: Final = "host"
PORT: Final = "port"
NODE_ID_NAMES: Final = frozenset({"broker_id", "leader_id", "node_id"})
PARTITION_NAMES: Final = frozenset({"index", "partition", "partition_id", "partition_index"})
PARTITION_LIST_NAMES: Final = frozenset({"partition_indexes", "partitions"})


def is_topic_name(field: Field) -> bool:
    """True for the name of the topic that a struct belongs to."""
    return field.entity == "topicName" and not field.array


def is_topic_list(field: Field) -> bool:
    return field.entity == "topicName" and field.array


def is_topic_id(field: Field) -> bool:
    return field.type == "uuid" and not field.array and field.name == TOPIC_ID


def is_topic(field: Field) -> bool:
    """True for a topic's name or id, or several names."""
    return field.entity == "topicName" or is_topic_id(field)


def is_node_id(field: Field) -> bool:
    """True for a node's id, in a struct that may have its address too."""
    return field.type == "int32" and not field.array and field.name in NODE_ID_NAMES


def is_partition(field: Field) -> bool:
    """True for one partition's index, in a struct that belongs to a topic."""
    return field.type == "int32" and not field.array and field.name in PARTITION_NAMES


def is_partition_list(field: Field) -> bool:
    """True for the partition indexes of the topic in the same struct."""
    return field.type == "int32" and field.array and field.name in PARTITION_LIST_NAMES


def is_group(field: Field) -> bool:
    """True for a group's id; the share coordinator's own APIs have a `group_id` without an entity type."""
    return field.entity == "groupId" or (field.name == "group_id" and field.type == "string")


def is_transactional_id(field: Field) -> bool:
    return field.entity == "transactionalId"


def is_error_code(field: Field) -> bool:
    named = field.name == "error_code" or field.name.endswith("_error_code")
    return named and field.type == "int16" and not field.array


def is_error_message(field: Field) -> bool:
    return field.name == "error_message" and field.type == "string" and not field.array


def is_records(field: Field) -> bool:
    return field.type == "records"
