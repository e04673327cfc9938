"""The outcome of records' transactions."""

from __future__ import annotations

import pytest

from kinspect.analysis.lags import are_aborted
from kinspect.analysis.recordfates import LOG_KEPT, RecordFates, SentBatch

T0, T1 = ("t", 0), ("t", 1)
ME, OTHER = ("me", "10.0.0.1"), ("other", "10.0.0.1")


def sent(sequence, place=T0, producer=7, epoch=0):
    return SentBatch(place, producer, epoch, sequence)


def outcomes(fates):
    fates.finish()
    return dict(fates.decided)


def test_a_marker_by_offset_ends_what_its_producer_wrote_before_it_in_its_partition_alone():
    fates = RecordFates()
    waits = [
        fates.fate(batch, offset)[1]
        for batch, offset in (
            (sent(0), 3), (sent(1), 9), (sent(2), None), (sent(0, T1), 3), (sent(0, producer=8), 3)
        )
    ]  # fmt: skip
    fates.read(T0, [(3, 6)], {7: [(5, False)]})
    assert fates.decided == [(waits[0], "aborted")]
    assert outcomes(fates) == {waits[0]: "aborted", **dict.fromkeys(waits[1:])}


def test_a_marker_does_not_end_what_stands_before_offsets_that_were_not_seen():
    fates = RecordFates()
    _, number = fates.fate(sent(0), 3)
    fates.read(T0, [(3, 4), (5, 9)], {7: [(8, True)]})
    assert fates.decided == [], "offset 4 may have been an abort"
    fates.read(T0, [(4, 5), (8, 9)], {7: [(8, True)]})
    assert fates.decided == [(number, "committed")]


def test_a_batch_that_is_fetched_after_its_end_went_by_has_its_outcome():
    fates = RecordFates()
    fates.read(T0, [(3, 9)], {7: [(5, False), (8, True)]})
    first, second = fates.fate(sent(0), 3)[1], fates.fate(sent(1), 6)[1]
    assert fates.decided == [(first, "aborted"), (second, "committed")]
    assert fates.fate(sent(0), None) == ("aborted", 0), "whoever sends it again"


def test_what_is_kept_of_a_partition_is_bounded():
    fates = RecordFates()
    fates.read(T0, [(2 * n, 2 * n + 1) for n in range(LOG_KEPT + 2)], {7: [(2, True)]})
    fates.read(T0, [(9, 10)], {})
    _, number = fates.fate(sent(0), 1)
    assert outcomes(fates) == {number: None}


def test_an_end_by_time_is_of_what_was_produced_before_it():
    fates = RecordFates()
    before = fates.fate(sent(0), 3, 10)[1]
    read = fates.fate(sent(5), 1)[1]
    fates.end_transaction(20, 7, 0, False, ME)
    late = fates.fate(sent(1, T1), None, 15)[1]
    behind = fates.fate(sent(2), 5, 30)[1]
    fates.end_transaction(40, 7, 1, True, ME)
    assert outcomes(fates) == {before: "aborted", late: "aborted", read: None, behind: "open"}


@pytest.mark.parametrize(
    ("lose", "found"),
    [
        (lambda fates: None, "committed"),
        (lambda fates: fates.lose(15, ME), None),
        (lambda fates: fates.lose(None, (None, ME[1])), None),
        (lambda fates: fates.lose(15, OTHER), "committed"),
        (lambda fates: fates.lose(5, ME), "committed"),
        (lambda fates: fates.lose_end(7), None),
        (lambda fates: fates.add_partition(15, T0, 7, ME), None),
        (lambda fates: fates.add_partition(15, T1, 7, ME), "committed"),
    ],
)
def test_an_end_behind_one_that_may_be_lost_is_not_its_own(lose, found):
    fates = RecordFates()
    fates.begin_producer(1, 7, 0, ME)
    _, number = fates.fate(sent(0), None, 10)
    lose(fates)
    fates.end_transaction(20, 7, 0, True, ME)
    assert outcomes(fates) == {number: found}


def test_a_new_epoch_aborts_what_was_left_and_a_marker_ends_one_partition():
    fates = RecordFates()
    fates.begin_producer(1, 7, 0, ME)
    here, there = fates.fate(sent(0), None, 10)[1], fates.fate(sent(0, T1), None, 10)[1]
    fates.write_marker(15, T1, 7, 0, True, OTHER)
    assert fates.decided == [(there, "committed")]
    fates.begin_producer(20, 7, 1, ME)
    assert fates.decided[1:] == [(here, "aborted")]


def test_batches_beyond_the_room_are_unknown_not_open():
    fates = RecordFates(room=1)
    fates.begin_producer(1, 7, 0, ME)
    first, second = fates.fate(sent(0), 1, 10)[1], fates.fate(sent(1), 2, 10)[1]
    assert outcomes(fates) == {first: None, second: "open"}
    assert fates.dropped == 1


def test_an_aborted_transaction_ends_with_its_marker_in_a_fetch_of_committed_records():
    data = {"producer_id": 7, "is_transactional": True, "is_control": False}
    marker = {**data, "is_control": True}
    batches = [
        {**part, "last_offset": offset}
        for offset, part in enumerate((data, marker, data, {"producer_id": 7}))
    ]
    aborted = [{"producer_id": 7, "first_offset": 0}]
    assert [*are_aborted(batches, aborted)] == [True, False, False, False]


def test_a_transaction_is_open_only_if_nothing_was_lost_since():
    for gap, found in ((5, "open"), (15, None)):
        fates = RecordFates()
        fates.begin_producer(1, 7, 0, ME)
        _, number = fates.fate(sent(0), 1, 10)
        fates.lose(gap, OTHER)
        assert outcomes(fates) == {number: found}, "another client may have taken its transactional id"


@pytest.mark.parametrize("lossy", [ME, OTHER])
@pytest.mark.parametrize(
    "end",
    [
        lambda fates: fates.begin_producer(20, 7, 1, OTHER),
        lambda fates: fates.write_marker(20, T0, 7, 0, False, OTHER),
    ],
)
def test_another_end_may_be_lost_of_either_client(lossy, end):
    fates = RecordFates()
    fates.begin_producer(1, 7, 0, ME)
    _, number = fates.fate(sent(0), None, 10)
    fates.lose(15, lossy)
    end(fates)
    assert outcomes(fates) == {number: None}


def test_a_transaction_before_the_last_stable_offset_has_ended_somehow():
    fates = RecordFates()
    fates.begin_producer(1, 7, 0, ME)
    ended, left = fates.fate(sent(0), 5, 10)[1], fates.fate(sent(1), 10, 11)[1]
    for offset in (10, 4):
        fates.note_stable(T0, offset)
    assert outcomes(fates) == {ended: None, left: "open"}
    assert fates.first_open == {T0: 10}


def test_a_gap_that_is_told_late_hides_none_that_came_after_it():
    fates = RecordFates()
    fates.begin_producer(1, 7, 0, ME)
    _, number = fates.fate(sent(0), 1, 10)
    for time in (15, 5):
        fates.lose(time, OTHER)
    assert outcomes(fates) == {number: None}


def test_a_batch_that_no_broker_said_to_have_taken_is_not_open():
    fates = RecordFates()
    fates.begin_producer(1, 7, 0, ME)
    taken, unanswered = fates.fate(sent(0), 1, 10)[1], fates.fate(sent(1), None, 11)[1]
    assert outcomes(fates) == {taken: "open", unanswered: None}
