"""The queue between the two processes."""

import os
import select
import threading

import pytest

from kinspect.capture import handover
from kinspect.capture.handover import Counters, Inbox, InterfaceCounters, Outbox

PIPE_BYTES = 4096


@pytest.fixture
def small(monkeypatch):
    """Both ends of a pipe as small as the system makes one, as users get it who have many."""
    monkeypatch.setattr(handover, "_PIPE_BYTES", PIPE_BYTES)
    told, tell = os.pipe()
    outbox, inbox = Outbox(tell, 1 << 30), Inbox(told)
    yield outbox, inbox
    inbox.close()
    os.close(tell)


def test_what_waits_is_not_copied_with_each_part_that_goes(small):
    outbox, inbox = small
    outbox.packets(Counters(), 1, b"", [os.urandom(10 * PIPE_BYTES)])
    content = outbox._pieces[1].obj
    outbox.send()
    sent = PIPE_BYTES // 2
    assert outbox.waiting < len(content)
    assert os.read(inbox._file.fileno(), sent)
    outbox.send()
    assert [piece.obj is content for piece in outbox._pieces] == [True]
    assert outbox.waiting == len(outbox._pieces[0])


def send_all(outbox):
    while outbox.waiting:
        outbox.send()
        select.select([], [outbox.fileno()], [])


def test_a_message_goes_whole_through_a_small_pipe(small):
    outbox, inbox = small
    block = os.urandom(100 * PIPE_BYTES + 1)
    given = (InterfaceCounters(1, 60, 2, 3), InterfaceCounters(0, 0, 0, 1 << 40))
    assert outbox.packets(Counters(packets=1, told_at=1 << 50, interfaces=given), 7, b"prelude", [block])
    outbox.end(Counters(packets=2), {"errors": []})
    sending = threading.Thread(target=send_all, args=(outbox,))
    sending.start()
    first, last = inbox.message(), inbox.message()
    sending.join()
    assert (first.first, first.section, first.counters.packets) == (7, b"prelude" + block, 1)
    assert (last.end, last.counters.packets) == ({"errors": []}, 2)
    assert (first.counters.told_at, first.counters.interfaces) == (1 << 50, given)
    assert last.counters.interfaces == ()
