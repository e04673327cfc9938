"""Room of fetch sessions: what they hold is counted as it changes, never anew."""

from random import Random

import pytest
from exchanges import exchange

from kinspect.kafka.connection import fetchsessions
from kinspect.kafka.connection.fetchsessions import FetchSessions
from kinspect.kafka.wire.fetched import PARTITIONS_KEPT, FetchRoom, partition_count
from kinspect.model import Counts


def fetch(epoch, topics, forgotten=()):
    asked = {
        "session_id": 5 if epoch else 0,
        "session_epoch": epoch,
        "topics": [
            {"topic": topic, "partitions": [{"partition": one} for one in indexes]}
            for topic, indexes in topics
        ],
        "forgotten_topics_data": [{"topic": topic, "partitions": indexes} for topic, indexes in forgotten],
    }
    return exchange(1, 12, asked, {"error_code": 0, "session_id": 5, "responses": []})


@pytest.mark.parametrize("seed", range(20))
def test_the_room_is_that_of_the_partitions(seed):
    random, room = Random(seed), FetchRoom(Counts())
    sessions = FetchSessions(room, False)

    def some():
        return [
            (f"t{random.randrange(6)}", random.sample(range(5), random.randrange(5)))
            for _ in range(random.randrange(4))
        ]

    sessions.take(fetch(0, some()))
    for epoch in range(1, 50):
        sessions.take(fetch(epoch, some(), some()))
    held = sessions.take(fetch(50, []))
    assert held.whole
    assert room.left == PARTITIONS_KEPT - partition_count(held.partitions)
    sessions.forget_all()
    assert room.left == PARTITIONS_KEPT


def test_small_fetches_of_a_large_session_count_nothing_anew(monkeypatch):
    sessions = FetchSessions(FetchRoom(Counts()), False)
    sessions.take(fetch(0, [(f"t{number}", [0]) for number in range(1000)]))
    counted = []
    monkeypatch.setattr(fetchsessions, "partition_count", counted.append)
    for epoch in range(1, 10):
        assert len(sessions.take(fetch(epoch, [("new", [epoch])], [("new", [epoch])])).partitions) == 1001
    assert counted == []
