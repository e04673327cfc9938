import os
import signal
from contextlib import suppress

import pytest

from kinspect.cli import interrupt
from kinspect.cli.interrupt import Interrupt, LateError


def press(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_item_at_work_is_worked_on_to_its_end(number):
    done = []
    with Interrupt() as asked:
        for item in asked.guard(iter(range(5))):
            if item == 2:
                press(number)
            done.append(item)
    assert done == [0, 1, 2]
    assert asked.received == number


def test_waiting_for_an_item_is_broken_off():
    def items():
        yield 0
        press()
        yield 1

    with Interrupt() as asked:
        assert list(asked.guard(items())) == [0]
    assert asked.received


def test_a_second_ctrl_c_is_not_held_back():
    def press_twice():
        with Interrupt() as asked:
            for _ in asked.guard(iter(range(5))):
                press()
                press()

    with pytest.raises(KeyboardInterrupt):
        press_twice()


def test_the_handler_before_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as asked:
        assert list(asked.guard(iter(range(3)))) == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is before
    assert not asked.received


@pytest.fixture
def soon(monkeypatch):
    """No time is left after a SIGTERM."""
    monkeypatch.setattr(interrupt, "PATIENCE_SECONDS", 0.01)


@pytest.mark.usefixtures("soon")
def test_after_sigterm_there_is_little_time_for_an_item_at_work():
    def endless():
        with asked.breakable():
            while True:
                pass

    def work():
        with asked.breakable():
            for _ in asked.guard(iter(range(5))):
                press(signal.SIGTERM)
                endless()

    with Interrupt() as asked:
        with pytest.raises(LateError):
            work()
        assert (asked.name, asked.status) == ("SIGTERM", 143)
        # What is said at the end has some time again.
        with pytest.raises(LateError):
            endless()


def test_work_that_must_be_whole_gets_more_time():
    with Interrupt(patience=60) as asked, asked.breakable():
        press(signal.SIGTERM)
        assert 30 < signal.getitimer(signal.ITIMER_REAL)[0] <= 60


@pytest.mark.usefixtures("soon")
def test_what_must_not_be_broken_off_is_not():
    with Interrupt() as asked:
        press(signal.SIGTERM)
        signal.sigtimedwait([], 0.1)
    assert asked.received == signal.SIGTERM


def test_what_is_stopped_goes_on_to_its_end():
    left = [1, 2, 3]
    with Interrupt(stop=left.pop) as asked, asked.breakable():
        for item in asked.guard(iter(left)):
            if item == 1:
                press()
    assert left == [1, 2]
    assert asked.received == signal.SIGINT


@pytest.mark.usefixtures("soon")
def test_what_is_stopped_is_waited_for_and_then_there_is_no_more_time():
    def endless():
        number = 0
        while True:
            if number:
                signal.sigtimedwait([], 0.05)
            yield (number := number + 1)

    # On a busy machine the time is over between two items.
    with Interrupt(stop=lambda: None) as asked, suppress(LateError), asked.breakable():
        for _ in asked.guard(endless()):
            if not asked.received:
                press(signal.SIGTERM)
    assert asked.received == signal.SIGTERM


def test_a_second_ctrl_c_breaks_off_what_may_be():
    def work():
        with asked.breakable():
            press()
            press()

    with Interrupt() as asked, pytest.raises(LateError):
        work()


@pytest.mark.parametrize(("before", "expected"), [(signal.SIG_IGN, None), (signal.SIG_DFL, signal.SIGHUP)])
def test_sighup_stays_ignored(before, expected):
    previous = signal.signal(signal.SIGHUP, before)
    try:
        with Interrupt(lambda: None, (signal.SIGHUP,)) as asked:
            press(signal.SIGHUP)
        assert asked.received == expected
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, previous)


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_sighup_that_is_taken_ends_nothing(before):
    previous = signal.signal(signal.SIGHUP, before)
    taken = iter([True, True, False])
    try:
        with Interrupt(lambda: None, (signal.SIGHUP,), lambda: next(taken)) as asked:
            press(signal.SIGHUP)
            press(signal.SIGHUP)
            assert asked.received is None
            press(signal.SIGHUP)
            assert asked.received == signal.SIGHUP
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, previous)
