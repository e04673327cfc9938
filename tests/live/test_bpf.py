"""Filters before they are compiled."""

import pytest

from kinspect.capture.bpf import looks_for_tags


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("vlan", True),
        ("vlan 5", True),
        ("tcp and (vlan and port 9092)", True),
        ("!vlan", True),
        ("tcp port 9092", False),
        ("host vlan-gw", False),
        ("host gw-vlan", False),
        ("host vlan.example.org or host gw.vlan", False),
        ("host vlan5", False),
        ("host my_vlan", False),
        (r"host \vlan", False),
        ("host vlan-gw and vlan", True),
    ],
)
def test_what_asks_for_tags(text, expected):
    assert looks_for_tags(text) is expected
