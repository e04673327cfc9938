"""One reading of each capture by tshark, shared by the tests of every level."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from peer import Reading, read


@pytest.fixture(scope="session")
def reading(request: pytest.FixtureRequest) -> Reading:
    return read(request.param)
