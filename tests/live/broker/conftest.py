"""One real Apache Kafka broker for all tests, of the release that KAFKA_VERSION names."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from broker.artifacts import RELEASE, BrokerError
from broker.record import laboratory


@pytest.fixture(scope="session")
def lab():
    try:
        with laboratory(RELEASE) as made:
            yield made
    except BrokerError as error:
        pytest.fail(str(error))
