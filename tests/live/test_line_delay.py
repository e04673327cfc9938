"""Delay of lines that wait for earlier ones, while packets come."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support.trickle import APART, LONGEST, Trickle
from support.tui import CAPTURES

from kinspect.cli.interrupt import Interrupt
from kinspect.cli.readrun import ReadRun
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.pair import ANSWERED
from kinspect.pipeline import Inspector
from kinspect.sink import Sink

# What is answered in it is complete with its last packet.
CLEAN = CAPTURES / "4.4.0" / "groups_classic.pcap.gz"


class Times(Sink):
    """Notes when answered exchanges come."""

    lines = frozenset({"exchange"})

    def __init__(self, packets: Trickle) -> None:
        self.times: list[float] = []
        self._packets = packets

    def take(self, line) -> None:
        if line.outcome == ANSWERED:
            self.times.append(self._packets.now)


@pytest.mark.parametrize("apart", APART)
def test_a_line_is_written_within_200_ms(apart, monkeypatch):
    packets = Trickle(str(CLEAN), apart)
    monkeypatch.setattr("kinspect.run.time", packets)
    times = Times(packets)
    options = SimpleNamespace(
        path=None,
        emit=frozenset({"exchange"}),
        view=View(),
        format=None,
        silent=False,
        values={"utc": False, "limit": None},
        sort=None,
        stops_at=None,
    )
    stream = SimpleNamespace(file=SimpleNamespace(begin=lambda: None))
    run = ReadRun(packets, Inspector(), options, Interrupt(), stream, [times])
    for lines in run.fed():
        run.show(lines)
    completed = packets.completed()
    assert len(times.times) == len(completed) > 20
    assert max(map(float.__sub__, times.times, completed)) <= LONGEST
