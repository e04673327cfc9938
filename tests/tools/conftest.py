"""One reading of each capture by tshark, shared by the tests of every level."""

import pytest
from peer import Reading, read


@pytest.fixture(scope="session")
def reading(request: pytest.FixtureRequest) -> Reading:
    return read(request.param)
