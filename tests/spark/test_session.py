"""Sessions of `kinspect pipeline`."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.tools

TIMEOUT = """
from kinspect.spark.session import open_session

spark = open_session("local[1]", {"spark.driver.host": "127.0.0.1"}, False)
receiver = spark._jvm.org.apache.spark.HeartbeatReceiver(spark.sparkContext._jsc.sc())
timeout = receiver.getClass().getDeclaredField("executorTimeoutMs")
timeout.setAccessible(True)
print(timeout.get(receiver))
spark.stop()
"""
DAY_MS = 86_400_000


def test_a_pause_does_not_cost_the_executor_of_a_local_session():
    """As of a machine that sleeps: Spark cannot take such an executor back."""
    done = subprocess.run([sys.executable, "-c", TIMEOUT], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[-1]) > 365 * DAY_MS
