"""Work in another process: messages both ways, and what is told of its end."""

import os
import signal
from threading import Timer

import pytest

from kinspect.background import OWN, Child, ElsewhereError, spoken, watch
from kinspect.errors import KinspectError

SIZE = 3_000_000
"""Bytes of a message that a channel has no room for."""


def started(work, loss=""):
    return Child("the process", work, loss)


def ended_by(number):
    return lambda _: os.kill(os.getpid(), number)


def raises(error):
    def work(_):
        raise error

    return work


@pytest.mark.parametrize(
    ("work", "how"),
    [
        (ended_by(signal.SIGKILL), "was ended by SIGKILL, as when memory runs out"),
        (ended_by(signal.SIGTERM), "was ended by SIGTERM"),
        (ended_by(signal.SIGRTMIN + 2), f"was ended by signal {signal.SIGRTMIN + 2}"),
        (lambda _: os._exit(3), "ended with status 3"),
        (lambda _: None, "ended with status 0"),
        (raises(MemoryError()), "ran out of memory"),
    ],
)
def test_the_end_of_a_process_is_told_in_one_wording(work, how):
    child = started(work, "all is lost")
    assert child.why() == f"the process {how}; all is lost"
    child.end()
    child = started(work)
    with pytest.raises(KinspectError) as raised:
        child.receive()
    assert str(raised.value) == f"the process {how}"
    child.end()


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (KinspectError("no such thing"), KinspectError, "no such thing"),
        (
            FileNotFoundError(2, "not there"),
            FileNotFoundError,
            "internal error: FileNotFoundError(2, 'not there'); +",
        ),
        (LookupError("\udc80"), ElsewhereError, r"internal error: LookupError('\udc80'); +"),
    ],
)
def test_an_exception_of_a_process_is_raised_where_it_is_waited_for(error, kind, told):
    child = started(raises(error))
    with pytest.raises(kind) as raised:
        child.receive()
    assert spoken(raised.value, "+") == told
    assert "in the process: Traceback" in raised.value.__notes__[0]
    assert child.status() == 0
    child.end()


def test_messages_go_both_ways_though_both_are_too_large_for_the_channel():
    def work(channel):
        channel.send(OWN, bytes(SIZE))
        channel.send(OWN + 1, *channel.receive()[1:], None, 1 << 70)

    child = started(work)
    child.channel.queue(OWN, b"a" * SIZE)
    assert child.receive() == [OWN, bytes(SIZE)]
    assert child.receive() == [OWN + 1, b"a" * SIZE, None, 1 << 70]
    child.end()
    child.end()


def test_a_message_is_waited_for_no_longer_than_asked():
    child = started(lambda channel: channel.send(OWN, *channel.receive()))
    assert (child.receive(0), watch([child.channel], 0)) == (None, [])
    child.channel.queue(OWN)
    assert watch([child.channel]) == [child.channel]
    assert child.receive(0) == [OWN, OWN]
    child.end()


def test_a_process_ends_when_nobody_listens_though_others_were_started_after_it():
    child, other = started(lambda channel: channel.receive()), started(lambda channel: channel.receive())
    child.channel.close()
    assert child.status() == 0
    assert other.running
    other.channel.stop()
    assert other.status() == 0
    assert not other.running
    other.end()


def test_a_signal_that_comes_while_a_process_is_waited_for_may_end_it():
    child = started(lambda channel: channel.receive())
    before = signal.signal(signal.SIGUSR1, lambda *_: child.end())
    Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        assert child.status() == -signal.SIGKILL
    finally:
        signal.signal(signal.SIGUSR1, before)
