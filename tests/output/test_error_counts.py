"""`--format none` counts error codes without decoding the rest."""

from __future__ import annotations

import pytest

import kinspect
from kinspect.kafka.bodysummary import error_counts
from kinspect.output.tally import Tally

CAPTURES = [
    "2.8.1/kraft-2nodes.pcap.gz",
    "4.4.0/errors_java.pcap.gz",
    "4.4.0/groups_classic.pcap.gz",
    "4.4.0/raw.pcap.gz",
]


@pytest.mark.parametrize("capture", CAPTURES)
def test_as_many_as_whole_bodies_tell(capture: str) -> None:
    path = f"captures/{capture}"
    alone = [error_counts(exchange) for exchange in kinspect.read(path)]
    assert alone == [exchange.summary.error_counts for exchange in kinspect.read(path)]
    assert any(alone)


def test_problems_are_not_looked_for() -> None:
    checked, unchecked = Tally(), Tally(unchecked=True)
    for exchange in kinspect.read("captures/4.4.0/raw.pcap.gz"):
        unchecked.count(exchange)
        checked.count(exchange)
    assert unchecked.error_counts == checked.error_counts
    assert (unchecked.errors, unchecked.problems) == (checked.errors, 0)
    assert checked.problems > 0


def test_no_request_is_decoded() -> None:
    for exchange in kinspect.read("captures/4.4.0/nano.pcap"):
        if exchange.api != "ApiVersions":
            error_counts(exchange)
            assert exchange.request._decoded is None
