"""What members of share groups acquire, and how they acknowledge it (KIP-932)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kinspect.analysis.answer import Row
from kinspect.analysis.groupevents import Fields, Struct, bodies
from kinspect.analysis.record import GREATEST, Record
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.wire.fetched import topic_ref
from kinspect.protocol.apikeys import SHARE_FETCH

SHARE_FIELDS: Fields = (
    frozenset(
        """
        group_id member_id topics.topic_id topics.partitions.partition_index
        topics.partitions.acknowledgement_batches
        """.split()
    ),
    frozenset(
        """
        error_code responses.topic_id responses.partitions.partition_index responses.partitions.error_code
        responses.partitions.acknowledge_error_code responses.partitions.acquired_records
        """.split()
    ),
)
_ACKNOWLEDGED = {0: "gaps", 1: "accepted", 2: "released", 3: "rejected"}
"""What ends an acquisition, by its acknowledge type; another one renews it."""
REPEATED = 2


@dataclass(slots=True)
class Acquisitions(Record):
    """Records that a member acquired. `gaps`: offsets among them without a record; `unsure`: messages of which it is
    not known what they acknowledge, or acquire."""

    acquired: int = 0
    accepted: int = 0
    released: int = 0
    rejected: int = 0
    gaps: int = 0
    again: int = 0
    most: int | None = field(default=None, metadata=GREATEST)
    unsure: int = 0

    def add(self, exchange: Exchange) -> None:
        """Add what a ShareFetch or a ShareAcknowledge says."""
        asked, answer = bodies(exchange, SHARE_FIELDS)
        acknowledged = [*_acknowledged(asked)]
        request, response = exchange.request, exchange.response
        whole = request is not None and request.decode(SHARE_FIELDS[0]).complete
        if (
            answer is None
            or exchange.is_uncertain
            or (response and not response.decode(SHARE_FIELDS[1]).complete)
        ):
            self.unsure += bool(acknowledged) or response is not None or not whole
            return
        self.unsure += not whole
        if answer.get("error_code"):
            return
        answers = {where: part for where, part in _parts(answer, "responses")}
        code = "acknowledge_error_code" if exchange.api_key == SHARE_FETCH else "error_code"
        for where, kind, offsets in acknowledged:
            if not answers.get(where, {}).get(code) and kind in _ACKNOWLEDGED:
                name = _ACKNOWLEDGED[kind]
                setattr(self, name, getattr(self, name) + offsets)
        for part in answers.values():
            for one in part.get("acquired_records") or ():
                count = max(one["last_offset"] + 1 - one["first_offset"], 0)
                self.acquired += count
                self.again += count * (one["delivery_count"] >= REPEATED)
                self.most = max(self.most or 0, one["delivery_count"])

    def row(self, lossy: bool) -> Row:
        """The object of a member. `lossy`: some of its messages may have been lost."""
        left = self.acquired - self.accepted - self.released - self.rejected - self.gaps
        return {
            "acquired": self.acquired,
            "accepted": self.accepted,
            "released": self.released,
            "rejected": self.rejected,
            "again": self.again,
            "delivery_count_max": self.most,
            "unacknowledged": None if lossy or self.unsure or left < 0 else left,
        }


def _acknowledged(asked: Struct) -> Iterator[tuple[Any, int, int]]:
    """Partition, acknowledge type and number of offsets. One type stands for all offsets of its batch."""
    for where, part in _parts(asked, "topics"):
        for batch in part.get("acknowledgement_batches") or ():
            types = batch["acknowledge_types"]
            if len(types) == 1:
                yield where, types[0], max(batch["last_offset"] + 1 - batch["first_offset"], 0)
            else:
                yield from ((where, kind, types.count(kind)) for kind in {*types})


def _parts(body: Struct, topics: str) -> Iterator[tuple[Any, Struct]]:
    for topic in body.get(topics) or ():
        for part in topic.get("partitions") or ():
            yield (topic_ref(topic), part.get("partition_index")), part
