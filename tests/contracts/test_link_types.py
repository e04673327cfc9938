"""What holds of every link type that is read: the guide names it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinspect.link import LINK_TYPES

GUIDE = Path(__file__).parents[2] / "docs" / "guide.md"

IN_THE_GUIDE = {
    0: "loopback",
    1: "Ethernet",
    9: "PPP",
    12: "raw IP",
    14: "raw IP",
    50: "PPP",
    51: "PPPoE",
    101: "raw IP",
    104: "Cisco HDLC",
    108: "loopback",
    113: "Linux cooked captures 1 and 2",
    149: "PKTAP (also as USER2)",
    197: "ERF",
    219: "MPLS",
    228: "raw IP",
    229: "raw IP",
    239: "NFLOG",
    242: "IP over InfiniBand",
    258: "PKTAP (also as USER2)",
    276: "Linux cooked captures 1 and 2",
}


@pytest.mark.parametrize("link_type", LINK_TYPES)
def test_the_guide_names_it(link_type: int) -> None:
    assert link_type in IN_THE_GUIDE, (
        f"what does docs/guide.md call link type {link_type}? A row in IN_THE_GUIDE above"
    )
    (row,) = (line for line in GUIDE.read_text("utf-8").splitlines() if line.startswith("| link types |"))
    assert IN_THE_GUIDE[link_type] in row.strip("| ").removeprefix("link types | ").split(", ")
