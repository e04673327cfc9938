"""Values of exchanges that a filter left out, as suggestions."""

from kinspect.filteredvalues import KEPT, LONGEST, VALUE_CHARACTERS, add, count_values, note


def test_values_are_counted_by_exchange():
    counts = {}
    count_values(counts, ["a", "b"])
    count_values(counts, ["a"])
    count_values(counts, [])
    assert counts == {"a": 2, "b": 1}


def test_the_frequent_ones_stay_and_memory_is_bounded():
    counts = {}
    for number in range(20 * KEPT):
        count_values(counts, ["often", f"rare {number}"])
    assert len(counts) <= KEPT
    assert counts["often"] == 20 * KEPT
    count_values(counts, (f"{number}" * VALUE_CHARACTERS for number in range(20 * KEPT)))
    assert len(counts) <= KEPT
    assert max(map(len, counts)) == VALUE_CHARACTERS


def test_several_processes_add_up():
    seen = {"--topic": {"topics": {"a": 1}}}
    add(seen, {"--topic": {"topics": {"a": 2, "b": 1}, "ids": {}}, "--api": {"APIs": {"Fetch": 1}}})
    assert seen == {"--topic": {"topics": {"a": 3, "b": 1}, "ids": {}}, "--api": {"APIs": {"Fetch": 1}}}
    for process in range(3):
        add(seen, {"--topic": {"topics": {f"{process} {number}": 1 for number in range(KEPT)}}})
    assert len(seen["--topic"]["topics"]) <= KEPT
    assert seen["--topic"]["topics"]["a"] == 3


def test_of_the_longest_there_is_one():
    kind = f"{LONGEST}latency"
    kinds, more = {}, {}
    for nanoseconds in (5, 9, 7):
        note(kinds, kind, nanoseconds)
    note(more, kind, 8)
    seen = {}
    for process in (more, kinds, more):
        add(seen, {"--min-latency": process})
    assert seen == {"--min-latency": {kind: {kind: 9}}}
