"""One real Apache Kafka broker for all tests, of the release that KAFKA_VERSION names."""

import pytest
from broker.artifacts import RELEASE
from broker.record import laboratory
from central import ToolError


@pytest.fixture(scope="session")
def lab():
    try:
        with laboratory(RELEASE) as made:
            yield made
    except ToolError as error:
        pytest.fail(str(error))
