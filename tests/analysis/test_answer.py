"""Parts of an answer, however many there are, merge within bounds."""

from dataclasses import dataclass, field

import pytest

from kinspect.analysis.answer import MERGED_KEPT, NAMES_KEPT, Answer
from kinspect.analysis.record import LATEST, Record


@dataclass(slots=True)
class Found(Record):
    count: int = 0
    kept: set = field(default_factory=set)
    times: dict = field(default_factory=dict)
    last: dict = field(default_factory=dict, metadata=LATEST)


class Names(Answer):
    def __init__(self):
        super().__init__()
        self.found = self.records(Found)

    def add(self, exchange):
        found = self.found.of("all")
        found.count += 1
        self.keep(found.kept, exchange)
        self.count(found.times, exchange % 10)
        self.keep_last(found.last, exchange % 10, (exchange, 0, 0, 0), exchange)

    def result(self, told):
        return []


def part(numbers):
    answer = Names()
    for number in numbers:
        answer.add(number)
    return Names.from_bytes(answer.to_bytes())


@pytest.mark.big
def test_merged_parts_have_as_many_names_as_there_is_room_for():
    each = NAMES_KEPT // 2
    parts = MERGED_KEPT // each + 5
    whole = part(range(each))
    for number in range(1, parts):
        whole.merge(part(range(number * each, (number + 1) * each)))
    ((_, found),) = whole.found.items()
    assert found.count == parts * each
    assert MERGED_KEPT <= len(found.kept) <= MERGED_KEPT + 2 * each
    assert whole.left_out == parts * each - len(found.kept)
    assert sum(found.times.values()) == parts * each
    assert found.last[3][1] == parts * each - 7
