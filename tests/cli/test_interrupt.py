import os
import signal

import pytest

from kinspect.cli.interrupt import Interrupt


def press(number=signal.SIGINT):
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_item_at_work_is_worked_on_to_its_end(number):
    done = []
    with Interrupt() as interrupt:
        for item in interrupt.guard(iter(range(5))):
            if item == 2:
                press(number)
            done.append(item)
    assert done == [0, 1, 2]
    assert interrupt.asked == number


def test_waiting_for_an_item_is_broken_off():
    def items():
        yield 0
        press()
        yield 1

    with Interrupt() as interrupt:
        assert list(interrupt.guard(items())) == [0]
    assert interrupt.asked


def test_a_second_ctrl_c_is_not_held_back():
    def press_twice():
        with Interrupt() as interrupt:
            for _ in interrupt.guard(iter(range(5))):
                press()
                press()

    with pytest.raises(KeyboardInterrupt):
        press_twice()


def test_the_handler_before_is_put_back():
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        assert list(interrupt.guard(iter(range(3)))) == [0, 1, 2]
    assert signal.getsignal(signal.SIGINT) is before
    assert not interrupt.asked
