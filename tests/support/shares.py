"""A share of many inputs for `make test`; the others are read by `make test-all`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def one_in(count: int, values: Sequence[object]) -> list[Any]:
    """Every `count`-th value as a parameter, and the others as ones that take long."""
    return [
        pytest.param(value, marks=[] if number % count == 0 else pytest.mark.big)
        for number, value in enumerate(values)
    ]
