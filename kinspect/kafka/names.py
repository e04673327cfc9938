"""Topic names by topic id, as the capture tells them (KIP-516)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
# A cluster has fewer topics; a capture that claims more cannot fill the memory.
NAMES_KEPT = 1_000_000
UNRESOLVED_KEPT = 100_000


class TopicNames:
    """Which name a topic id had been given when an exchange completed.

    Exchanges complete in a total order, numbered from 1. A name counts for an exchange only if a response that
    completed earlier told it, so `learn` notes the order and `name` compares it: an exchange asked late still
    sees what was known in its own time. The first name told stays: Kafka never gives an id a second name.
    """

    __slots__ = ("_learned", "_names", "unresolved")

    def __init__(self, names: dict[str, str] | None = None) -> None:
        """`names`: ids known beforehand (`--topic-names`), id to name."""
        self._names: dict[str, str] = {METADATA_TOPIC_ID: "__cluster_metadata", **(names or {})}
        self._learned: dict[str, int] = dict.fromkeys(self._names, -1)
        self.unresolved: set[str] = set()
        """Ids that were asked for and not known, for the summary."""

    def learn(self, topic_id: str, name: str, order: int) -> None:
        """The exchange numbered `order` told that `topic_id` is `name`."""
        if topic_id not in self._names and topic_id != ZERO_ID and len(self._names) < NAMES_KEPT:
            self._names[topic_id] = name
            self._learned[topic_id] = order

    def learned(self, after: int) -> list[tuple[str, str, int]]:
        """Ids, their names and the orders that told them, without the first `after` that were learned or known."""
        new = islice(self._names.items(), after, None)
        return [(topic_id, name, self._learned[topic_id]) for topic_id, name in new]

    def name(self, topic_id: str, order: int) -> str | None:
        """The name of `topic_id` as far as known before exchange `order` completed, else None."""
        learned = self._learned.get(topic_id)
        if learned is not None and learned < order:
            return self._names[topic_id]
        if topic_id != ZERO_ID:
            self.add_unresolved((topic_id,))
        return None

    def add_unresolved(self, topic_ids: Iterable[str]) -> None:
        """These were asked for and not known."""
        for topic_id in topic_ids:
            if len(self.unresolved) >= UNRESOLVED_KEPT:
                return
            self.unresolved.add(topic_id)
