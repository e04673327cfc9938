"""What a Fetch or ShareFetch of a session asks for: it names only what changes (KIP-227, KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kinspect.model import Counts

TopicRef = tuple[str | None, str | None]
"""A topic's name and id, as a message has them."""
Partitions = Mapping[TopicRef, frozenset[int]]
"""Partitions by topic; it never changes, so that the fetches of a session share it."""
NO_PARTITIONS: Final[Partitions] = {}
PARTITIONS_KEPT: Final = 500_000
"""Most partitions known of the fetch sessions of all connections."""


class Fetched:
    """The partitions that a request of a fetch session stands for, named or not. `whole`: False if there may be others,
    as the session began before its connection was seen, or requests of it were lost or cut."""

    __slots__ = ("partitions", "whole")

    def __init__(self, partitions: Partitions, whole: bool) -> None:
        self.partitions = partitions
        self.whole = whole

    def state(self) -> list[Any]:
        """Plain values for `from_state`."""
        return [partitions_state(self.partitions), self.whole]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Fetched:
        partitions, whole = state
        return cls(partitions_from(partitions), whole)


def partitions_state(partitions: Partitions) -> list[Any]:
    """Plain values for `partitions_from`."""
    return [[name, topic_id, sorted(indexes)] for (name, topic_id), indexes in partitions.items()]


def partitions_from(state: Sequence[Any]) -> Partitions:
    """The partitions that have this state."""
    return {(name, topic_id): frozenset(indexes) for name, topic_id, indexes in state}


def partition_count(partitions: Partitions) -> int:
    """Number of partitions."""
    return sum([topic_size(indexes) for indexes in partitions.values()])


def topic_size(indexes: frozenset[int] | None) -> int:
    """Number of partitions of a topic, which counts as one without any; 0 for None, no topic."""
    return 0 if indexes is None else len(indexes) or 1


def topic_ref(struct: dict[str, Any]) -> TopicRef:
    """The topic that a struct of a body names."""
    return struct.get("name", struct.get("topic")), struct.get("topic_id")


class FetchRoom:
    """Room for the partitions of all sessions of a run. `under_way`: number of sessions that had begun before their
    connection was seen."""

    __slots__ = ("_counts", "left", "under_way")

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self.left = PARTITIONS_KEPT
        self.under_way = 0

    def takes(self, more: int) -> bool:
        """Take room for so many more partitions; False if there is not enough."""
        if more > self.left:
            self._counts.hit("fetch_sessions")
            return False
        self.left -= more
        return True
