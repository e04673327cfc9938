"""Answers about crowds: their time grows with what is counted and no faster, and forgetting is no loss."""

from random import Random
from time import process_time

import pytest
from exchanges import exchange

from kinspect.analysis import membership
from kinspect.analysis.answer import ResultContext
from kinspect.analysis.delivered import delivered
from kinspect.analysis.membership import MembershipRequests
from kinspect.analysis.offsetranges import OffsetRanges
from kinspect.analysis.txnhistory import PART, Event, history
from kinspect.answers import topicsanswer
from kinspect.kafka.wire.fetched import Fetched
from kinspect.kafka.wire.learnednames import LearnedNames


class Batches:
    """A record set of batches of one record each."""

    def __init__(self, firsts):
        self._batches = [
            {"base_offset": at, "last_offset": at, "count": 1, "size": 9, "compression": "none"}
            for at in firsts
        ]

    def batches(self):
        return self._batches


def test_acquired_ranges_take_no_time():
    firsts = range(0, 60_000, 2)
    acquired = [{"first_offset": at, "last_offset": at} for at in firsts]
    began = process_time()
    assert delivered(Batches(firsts), {"acquired_records": acquired}) == len(firsts)
    assert delivered(Batches(firsts), {"acquired_records": acquired[::3]}) == len(firsts) / 3
    assert process_time() - began < 5


def test_offsets_of_ranges_are_counted_once():
    random = Random(1)
    for _ in range(300):
        made = [
            (first, first + random.randrange(-1, 9))
            for first in random.choices(range(40), k=random.randrange(8))
        ]
        inside = {at for first, end in made for at in range(first, end)}
        first, end = random.randrange(50), random.randrange(50)
        assert OffsetRanges(made).count(first, end) == len(inside.intersection(range(first, end)))


def test_refused_parts_of_many_producers_take_no_time():
    count = 30_000
    began = process_time()
    found = history(Event(at, (at, 0), PART, producer=at, epoch=0, error=90) for at in range(count))
    assert len(found) == count
    assert process_time() - began < 5


@pytest.mark.parametrize("most", [2, 100])
def test_members_of_all_connections_are_looked_at(monkeypatch, most):
    monkeypatch.setattr(membership, "CONNECTIONS_LOOKED_AT", most)
    requests = MembershipRequests()
    found = []
    for number in range(10):
        for _ in range(3):
            made = exchange(12, 4, {"group_id": f"g{number}", "member_id": "m"})
            made.connection.connection_id = str(number)
            found.append(requests.first(made))
    told = [one.group for one in found if one is not None]
    assert told == [f"g{number}" for number in range(10)]


@pytest.mark.parametrize("most", [3, 9])
def test_a_fetch_is_counted_for_so_many_topics_of_its_session(monkeypatch, most):
    monkeypatch.setattr(topicsanswer, "TOPICS_COUNTED", most)
    answer = topicsanswer.Topics()
    told = {"responses": [{"topic": "t7", "partitions": [{"partition_index": 0, "error_code": 0}]}]}
    made = exchange(1, 12, {"session_id": 5, "session_epoch": 2}, told)
    made.fetched = Fetched({(f"t{number}", None): frozenset({0}) for number in range(9)}, whole=True)
    answer.take(made)
    rows = answer.result(ResultContext(LearnedNames(None)))
    assert {row["topic"] for row in rows} == {"t7", *(f"t{number}" for number in range(most))}
    assert {row["partitions"] for row in rows} == {1}
    assert answer.left_out == 9 - len(rows)
