"""Sinks beside the writer of a format: how a run closes them."""

import pytest
from support.captures import CAPTURES

from kinspect.capture import open_timeline
from kinspect.cli.interrupt import Interrupt
from kinspect.cli.readcommand import read
from kinspect.cli.readrun import open_run, run_options
from kinspect.sink import EXCHANGE, Sink, SinkReport

NANO = str(CAPTURES / "4.4.0" / "nano.pcap")


class Taker(Sink):
    """Fails at its end with `error`, if there is one."""

    lines = frozenset({EXCHANGE})

    def __init__(self, error=None):
        self.error = error
        self.taken = 0
        self.closed = False

    def take(self, line):
        self.taken += 1

    def close(self, read):
        self.closed = True
        if self.error is not None:
            raise self.error
        return SinkReport([f"taken: {self.taken}"])


def closed_with(*sinks):
    context = read.make_context("read", [NANO, "--format", "none"])
    values = {name: value for name, value in context.params.items() if name not in ("captures", "jobs")}
    timeline = open_timeline([NANO])
    with context:
        run = open_run(run_options(values), timeline, Interrupt(), beside=sinks)
        run.run()
        return run.close()


def test_all_are_closed_though_some_fail_and_the_first_error_is_raised(capfd):
    sinks = [Taker(), Taker(OSError("first")), Taker(ValueError("second")), Taker()]
    with pytest.raises(OSError, match="first"):
        closed_with(*sinks)
    assert [sink.closed for sink in sinks] == [True] * 4
    # What was read, and what the others did, is told first.
    told = capfd.readouterr().err
    assert " exchanges" in told
    assert told.count(f"taken: {sinks[0].taken}\n") == 2
    assert sinks[0].taken > 0


def test_what_they_tell_stands_behind_the_summary(capfd):
    assert closed_with(Taker()) == 0
    assert capfd.readouterr().err.splitlines()[-1].startswith("taken: ")
