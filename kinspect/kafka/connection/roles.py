"""Role of a client, from the requests it sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kinspect.protocol.apikeys import (
    ADD_PARTITIONS_TO_TXN,
    FETCH,
    FETCH_SNAPSHOT,
    LIST_OFFSETS,
    OFFSET_FOR_LEADER_EPOCH,
)

if TYPE_CHECKING:
    from kinspect.kafka.wire.message import WireMessage

PRODUCER: Final = "producer"
CONSUMER: Final = "consumer"
ADMIN: Final = "admin"
FOLLOWER: Final = "follower"
CONTROLLER: Final = "controller"
BROKER: Final = "broker"
CLUSTER: Final = frozenset({FOLLOWER, CONTROLLER, BROKER})
"""Roles of brokers and controllers among themselves."""
HIDDEN: Final = "hidden"
"""What a request shows whose role was cut off: its connection's role is not known."""
ROLES: Final = (PRODUCER, CONSUMER, ADMIN, FOLLOWER, CONTROLLER, BROKER)

_APIS: Final = {
    # Produce, InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit
    PRODUCER: "0 22 24 25 26 28",
    # Fetch, OffsetCommit, JoinGroup, Heartbeat, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat, ShareGroupHeartbeat,
    # ShareFetch, ShareAcknowledge, StreamsGroupHeartbeat, StreamsGroupTopologyDescriptionUpdate
    CONSUMER: "1 8 11 12 13 14 68 76 78 79 88 93",
    # DescribeGroups, ListGroups, CreateTopics, DeleteTopics, DeleteRecords, DescribeAcls, CreateAcls, DeleteAcls,
    # DescribeConfigs, AlterConfigs, AlterReplicaLogDirs, DescribeLogDirs, CreatePartitions, the delegation token
    # APIs, DeleteGroups, ElectLeaders, IncrementalAlterConfigs, the reassignment APIs, OffsetDelete, the quota and
    # SCRAM APIs; DescribeQuorum, UpdateFeatures, DescribeProducers, UnregisterBroker, DescribeTransactions,
    # ListTransactions, ConsumerGroupDescribe, ListConfigResources, DescribeTopicPartitions, ShareGroupDescribe,
    # AddRaftVoter, RemoveRaftVoter, StreamsGroupDescribe, the share group offset APIs, UnregisterController
    ADMIN: "15 16 19 20 21 29 30 31 32 33 34 35 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51"
    " 55 57 61 64 65 66 69 74 75 77 80 81 89 90 91 92 94",
    # LeaderAndIsr, StopReplica, UpdateMetadata, Vote, BeginQuorumEpoch, EndQuorumEpoch, ControllerRegistration,
    # UpdateRaftVoter
    CONTROLLER: "4 5 6 52 53 54 70 82",
    # ControlledShutdown, WriteTxnMarkers, AlterPartition, Envelope, BrokerRegistration, BrokerHeartbeat,
    # AllocateProducerIds, AssignReplicasToDirs, the share coordinator's state APIs
    BROKER: "7 27 56 58 62 63 67 73 83 84 85 86 87",
}
_ROLE: Final = {api_key: role for role, api_keys in _APIS.items() for api_key in map(int, api_keys.split())}

# Of Fetch in replica_state from v15 (KIP-903).
_REPLICA: Final = frozenset({"replica_id", "replica_state.replica_id"})
_SHOWN_WITHIN: Final = frozenset(
    {FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, FETCH_SNAPSHOT, ADD_PARTITIONS_TO_TXN}
)
"""APIs whose requests show by more than their key who sent them."""
_OF_BROKERS: Final = 4
"""Version of AddPartitionsToTxn from which it is the brokers' own (KIP-890)."""
_UNHIDES: Final = frozenset({CONSUMER, FOLLOWER})
"""Roles of which a connection has one at most: nothing that was cut off comes before them."""
_RANK: Final = {None: 0, ADMIN: 1, HIDDEN: 2, PRODUCER: 2, CONSUMER: 2, FOLLOWER: 3, CONTROLLER: 3, BROKER: 3}


def role_of(api_key: int, request: WireMessage | None) -> str | None:
    """Role that a request shows: `producer`, `consumer`, `admin`, `follower`, `controller`, `broker`.

    None if every kind of client sends it (Metadata, ApiVersions, …), or without the request; `HIDDEN` if
    a field is needed that was cut off.
    Only the few fields that show a role are decoded, and only for APIs that need them.
    """
    if api_key not in _SHOWN_WITHIN:
        return _ROLE.get(api_key)
    if request is None:
        return None
    if api_key == ADD_PARTITIONS_TO_TXN:
        return BROKER if (request.api_version or 0) >= _OF_BROKERS else PRODUCER
    decoded = request.decode(_REPLICA)
    body = decoded.body or {}
    state = body.get("replica_state") or body
    if not decoded.complete and "replica_id" not in state:
        return HIDDEN
    return FOLLOWER if state.get("replica_id", -1) >= 0 else _ROLE.get(api_key)


def stronger(old: str | None, new: str | None) -> str | None:
    """Role of a connection that showed both: roles of a cluster come before those of clients, and those before `admin`.
    Among equals the first one stays. What a cut request hides may be as strong as a client's role, or stronger."""
    if old == HIDDEN:
        return new if new in _UNHIDES else old
    return new if _RANK[new] > _RANK[old] else old
