"""Topic names by topic id (KIP-516) and node ids by address, learned from the capture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from kinspect.kafka.wire.hostnames import HostNames
from kinspect.kafka.wire.lineorder import FIRST, LineKey
from kinspect.protocol.primitives import ZERO_UUID

METADATA_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
# A cluster has fewer topics; a capture that claims more cannot fill the memory.
NAMES_KEPT: Final = 1_000_000
UNRESOLVED_KEPT: Final = 100_000
NODES_KEPT: Final = 100_000

BrokerAddress = tuple[str, int]
"""An IP address as text, and a port."""


class LearnedNames:
    """Topic names by id and node ids by address, as known when a line was completed.

    A name counts for lines with a larger key than the line that reported it, on any connection. So a line that is
    written late has the names of its own time. The first name of an id stays: Kafka never gives an id a second name.
    Another node may take over an address, and counts from its first mention on; a return of the old one is not noticed.
    The order in which lines are learned does not matter.
    """

    __slots__ = ("_names", "_new_names", "_new_nodes", "_node_count", "_nodes", "hosts", "unresolved")

    def __init__(self, names: dict[str, str] | None = None, hosts: HostNames | None = None) -> None:
        """`names`: names known beforehand (`--topic-names`), by id."""
        self.hosts = hosts or HostNames()
        """Names of addresses, which no line reports."""
        known = {METADATA_TOPIC_ID: "__cluster_metadata", **(names or {})}
        self._names: dict[str, tuple[LineKey, str]] = {
            topic_id: (FIRST, name) for topic_id, name in known.items()
        }
        self._nodes: dict[BrokerAddress, dict[int, LineKey]] = {}
        self._node_count = 0
        self._new_names: list[tuple[str, str, LineKey]] = []
        self._new_nodes: list[tuple[str, int, int, LineKey]] = []
        self.unresolved: set[str] = set()
        """Ids that were looked up and not known, for the summary."""

    def learn(self, topic_id: str, name: str, key: LineKey) -> None:
        """Learn from the line of that key that `topic_id` is `name`."""
        if topic_id == ZERO_UUID:
            return
        learned = self._names.get(topic_id)
        if key < learned[0] if learned is not None else len(self._names) < NAMES_KEPT:
            self._names[topic_id] = key, name
            self._new_names.append((topic_id, name, key))

    def learn_node(self, ip: str, port: int, node_id: int, key: LineKey) -> None:
        """Learn from the line of that key that `node_id` is at that address."""
        ids = self._nodes.setdefault((ip, port), {})
        first = ids.get(node_id)
        if first is None:
            if self._node_count >= NODES_KEPT:
                return
            self._node_count += 1
        if first is None or key < first:
            ids[node_id] = key
            self._new_nodes.append((ip, port, node_id, key))

    def node_id(self, ip: str, port: int, key: LineKey) -> int | None:
        """The id of the node at that address for the line of `key`: of nodes in earlier lines the last to appear."""
        ids = self._nodes.get((ip, port))
        if ids is None:
            return None
        before = [(first, node_id) for node_id, first in ids.items() if first < key]
        return max(before)[1] if before else None

    def sources(self, topic_ids: Iterable[str], address: BrokerAddress, key: LineKey) -> set[LineKey]:
        """Keys of the lines from which the line of `key` has the names of these ids and the node at that address."""
        names = [self._names[topic_id][0] for topic_id in topic_ids if topic_id in self._names]
        nodes = [first for first in self._nodes.get(address, {}).values() if first < key]
        return {first for first in [*names, *([max(nodes)] if nodes else [])] if FIRST < first < key}

    def name(self, topic_id: str, key: LineKey) -> str | None:
        """The name of `topic_id` if a line before `key` reported it; else None, and the id counts as unresolved."""
        learned = self._names.get(topic_id)
        if learned is not None and learned[0] < key:
            return learned[1]
        if topic_id != ZERO_UUID and len(self.unresolved) < UNRESOLVED_KEPT:
            self.unresolved.add(topic_id)
        return None

    def take_new(self) -> tuple[list[tuple[str, str, LineKey]], list[tuple[str, int, int, LineKey]]]:
        """Names by id and nodes by address learned since the last call, each with the key of the line it is from."""
        names, nodes = self._new_names, self._new_nodes
        self._new_names, self._new_nodes = [], []
        return names, nodes

    def learned(self) -> tuple[list[tuple[str, str, LineKey]], list[tuple[str, int, int, LineKey]]]:
        """`all` without the names known beforehand."""
        names, nodes = self.all()
        return [name for name in names if name[2] != FIRST], nodes

    def all(self) -> tuple[list[tuple[str, str, LineKey]], list[tuple[str, int, int, LineKey]]]:
        """All that is known, in the shape of `take_new`; another thread may add more meanwhile."""
        names = [(topic_id, name, key) for topic_id, (key, name) in [*self._names.items()]]
        addresses = [*self._nodes.items()]
        nodes = [(*address, node_id, key) for address, ids in addresses for node_id, key in [*ids.items()]]
        return names, nodes

    def add(self, names: Iterable[Sequence[Any]], nodes: Iterable[Sequence[Any]]) -> None:
        """Learn the result of another object's `take_new`; lists may stand for tuples, as in CBOR."""
        for topic_id, name, key in names:
            self.learn(topic_id, name, tuple(key))
        for ip, port, node_id, key in nodes:
            self.learn_node(ip, port, node_id, tuple(key))
