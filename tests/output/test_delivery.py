"""Items on their way: in order, bounded, and what is lost is counted."""

import threading
import time

from kinspect.output import sendqueue
from kinspect.output.sendqueue import BATCH, BATCH_SIZE, QUEUE, QUEUE_SIZE, SendQueue


def made(send, waits):
    told = []
    return SendQueue(send, waits, told.append), told


def test_all_of_them_arrive_in_order():
    got = []
    sends, told = made(got.append, True)
    for number in range(3 * QUEUE):
        sends.put(number)
    sends.close()
    assert [number for batch in got for number in batch] == [*range(3 * QUEUE)]
    assert max(map(len, got)) == BATCH
    assert (sends.sent, sends.lost, told) == (3 * QUEUE, 0, [])


def test_a_few_go_without_waiting_for_more(monkeypatch):
    monkeypatch.setattr(sendqueue, "BATCH_SECONDS", 0.05)
    arrived = threading.Event()
    sends, _ = made(lambda batch: arrived.set(), False)
    sends.put(1)
    assert arrived.wait(10)
    sends.close()
    assert sends.sent == 1


def test_nobody_waits_who_must_not(monkeypatch):
    """What a slow receiver has no room for is lost at once."""
    go = threading.Event()
    sends, _ = made(lambda batch: go.wait(30) and None, False)
    for number in range(3 * QUEUE):
        sends.put(number)
    assert QUEUE - BATCH <= sends.lost <= 2 * QUEUE
    go.set()
    sends.close()
    assert sends.sent + sends.lost == 3 * QUEUE
    assert sends.sent >= QUEUE


def test_items_that_wait_have_a_size(monkeypatch):
    """A few large ones fill the queue; one that is larger than it goes alone."""
    go = threading.Event()
    got = []
    sends, _ = made(lambda batch: got.append(batch) or (go.wait(30) and None), False)
    most = QUEUE_SIZE // BATCH_SIZE
    for number in range(3 * most):
        sends.put(number, BATCH_SIZE)
    # One more may be on its way.
    assert 3 * most - sends.lost in (most, most + 1)
    go.set()
    sends.close()
    assert sends.sent + sends.lost == 3 * most
    assert {len(batch) for batch in got} == {1}
    alone, _ = made(lambda batch: None, False)
    alone.put(1, 2 * QUEUE_SIZE)
    alone.close()
    assert (alone.sent, alone.lost) == (1, 0)


def test_a_receiver_that_is_away_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(sendqueue, "ENDING_SECONDS", 0.2)
    sends, told = made(lambda batch: time.sleep(0.05) or "away", True)
    begun = time.monotonic()
    for number in range(20 * QUEUE):
        sends.put(number)
    sends.close()
    assert time.monotonic() - begun < 20
    assert (sends.sent, sends.lost, told) == (0, 20 * QUEUE, ["away"])


def test_one_that_comes_back_gets_the_rest():
    answers = iter(["away"])
    got = []

    def send(batch):
        if why := next(answers, None):
            return why
        got.extend(batch)
        return None

    sends, told = made(send, True)
    for number in range(2 * QUEUE):
        sends.put(number)
    sends.close()
    assert (sends.sent, sends.lost, told) == (len(got), 2 * QUEUE - len(got), ["away"])
    assert sends.lost >= 1
    assert got[-1] == 2 * QUEUE - 1 or sends.lost > BATCH


def test_an_end_without_an_answer_comes_all_the_same(monkeypatch):
    monkeypatch.setattr(sendqueue, "ENDING_SECONDS", 0.1)
    go = threading.Event()
    sends, _ = made(lambda batch: go.wait(30) and None, True)
    for number in range(BATCH + 7):
        sends.put(number)
    sends.close()
    assert (sends.sent, sends.lost) == (0, BATCH + 7)
    go.set()
