"""Names of a connection."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from kinspect.kafka.wire import endpoints as flow


# The first three are from the Community ID specification's baseline.
@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("128.232.110.120", 34855), ("66.35.250.204", 80), "1:LQU9qZlK+B5F3KDmev6m5PMibrg="),
        (("66.35.250.204", 80), ("128.232.110.120", 34855), "1:LQU9qZlK+B5F3KDmev6m5PMibrg="),
        (("10.0.0.1", 2), ("10.0.0.1", 1), None),
    ],
)
def test_community_id(one: tuple[str, int], other: tuple[str, int], expected: str | None) -> None:
    a, b = (ip_address(one[0]).packed, one[1]), (ip_address(other[0]).packed, other[1])
    assert flow.community_id(a, b) == flow.community_id(b, a)
    if expected:
        assert flow.community_id(a, b) == expected


def test_connection_id() -> None:
    client, broker = (bytes((10, 0, 0, 1)), 41234), (bytes((10, 0, 0, 9)), 9092)
    assert flow.connection_id(client, broker, 7) == "10.0.0.1:41234-10.0.0.9:9092@7"
    six = (ip_address("::1").packed, 9092)
    assert flow.connection_id(six, six, None) == "[::1]:9092-[::1]:9092@0"
