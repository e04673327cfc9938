"""Real Apache Kafka brokers, one for most tests, of the release that KAFKA_VERSION names."""

import pytest
from broker.artifacts import RELEASE
from broker.record import laboratory
from central import ToolError


def _laboratory():
    try:
        with laboratory(RELEASE) as made:
            yield made
    except ToolError as error:
        pytest.fail(str(error))


lab = pytest.fixture(_laboratory, scope="session")
new_lab = pytest.fixture(_laboratory, scope="module")
"""A broker that has no topics yet: scenarios make theirs, and can do so once."""
