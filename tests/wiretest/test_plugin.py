"""The pytest plugin, in test runs of its own."""

import re
import tomllib
from pathlib import Path

import pytest
from console_blocks import fences
from support.scripted import ScriptedBroker

import kinspect

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
HEAD = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests")!r}]
import pytest
from support.scripted import RawClient

def produce(servers, acks):
    with RawClient(servers) as client:
        client.ask(0, 9, {{"acks": acks, "timeout_ms": 1000, "topic_data": []}})

"""


@pytest.fixture
def outer(pytester, monkeypatch):
    """Runs tests beside a broker, whose address they have as BROKER."""
    # What is installed may be another version.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    with ScriptedBroker() as broker:

        def run(text, *options):
            pytester.makepyfile(f"{HEAD}\nBROKER = {broker.address!r}\n{text}")
            return pytester.runpytest_inprocess(
                "-p", "kinspect.pytestplugin", "-p", "no:cacheprovider", *options
            )

        yield run


def test_expectations_are_checked_at_the_end(outer):
    found = outer(
        """
def test_good(kafka_wire):
    kafka_wire.expect(api="Produce", acks=-1)
    produce(kafka_wire.forward(BROKER), -1)

def test_bad(kafka_wire):
    kafka_wire.expect(api="Produce", acks=-1)
    produce(kafka_wire.forward(BROKER), 1)

def test_checked_within(kafka_wire):
    kafka_wire.expect(api="Produce", acks=-1)
    produce(kafka_wire.forward(BROKER), 1)
    with pytest.raises(AssertionError, match="acks = 1"):
        kafka_wire.check()
    pytest.skip("seen")

def test_nothing_expected(kafka_wire):
    pass

def test_late(request):
    wire = request.getfixturevalue("kafka_wire")
    wire.never(api="Produce")
    produce(wire.forward(BROKER), 1)
"""
    )
    found.assert_outcomes(passed=2, failed=2, skipped=1)
    found.stdout.re_match_lines(
        [
            r"_+ test_bad _+",
            r"1 of 1 expectation on the wire not met",
            r"failed: expect\(api='Produce', acks=-1\)",
            r"    expected acks = -1 where api = Produce",
            r"    seen     acks = 1 in 1 of 1 exchange",
            r"    at       .*kafka_wire.pcapng frame \d+ .*\(app\)  Produce v9: acks = 1",
            r"-+ Captured kafka_wire call -+",
            r"capture: .*kafka_wire\.pcapng",
        ],
        consecutive=True,
    )


def test_a_capture_is_kept_however_the_test_fails(outer, tmp_path):
    found = outer(
        """
def test_fails(kafka_wire):
    kafka_wire.never(api="Fetch")
    produce(kafka_wire.forward(BROKER), -1)
    assert 1 == 2
""",
        "--kafka-wire-dir",
        str(tmp_path / "kept"),
    )
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(
        ["*assert 1 == 2", f"capture: {tmp_path}/kept/*test_fails-*.kafka_wire.pcapng"]
    )
    (kept,) = (tmp_path / "kept").iterdir()
    assert [exchange.api for exchange in kinspect.read(kept)] == ["Produce"]


def test_a_test_without_traffic_says_so(outer):
    found = outer(
        """
def test_forgot(kafka_wire):
    kafka_wire.expect(api="Produce")
"""
    )
    found.assert_outcomes(failed=1)
    found.stdout.fnmatch_lines(["*kafka_wire has no traffic to look at*"])


def test_the_plugin_loads_nothing_before_a_test_asks_for_it(outer):
    found = outer("def test_nothing(): pass", "--fixtures", "-q")
    found.stdout.fnmatch_lines(["kafka_wire*", "    What clients of Kafka say in this test*"])


def test_an_installed_plugin_is_found():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"kinspect": "kinspect.pytestplugin"}


@pytest.mark.tools
@pytest.mark.parametrize("acks", [None, 1])
def test_the_example_of_the_page(outer, acks):
    """With librdkafka's own cluster in the place of brokers."""
    from confluent_kafka import Producer

    page = ROOT / "docs" / "pytest.md"
    (example,) = [text for _, text in fences(page, "python") if "kafka_wire" in text]
    (shown,) = [text for _, text in fences(page, "text")]
    cluster = Producer({"test.mock.num.brokers": 3, "log_level": 0})
    broker = next(iter(cluster.list_topics().brokers.values()))
    example = example.replace("localhost:9092", f"{broker.host}:{broker.port}")
    if acks is not None:
        example = example.replace('"bootstrap.servers":', f'"acks": {acks}, "bootstrap.servers":')
    found = outer(example)
    found.assert_outcomes(passed=acks is None, failed=acks is not None)
    if acks is not None:
        told = found.stdout.str().splitlines()
        begin = told.index(shown.splitlines()[0])
        told = [re.sub(r"/tmp/\S*/|frame \d+|20\d\d-\S+|:\d{5}\b|v\d+", "*", line) for line in told[begin:]]
        written = re.sub(r"/tmp/\S*/|frame \d+|…|:\d{5}\b|v\d+", "*", shown).splitlines()
        assert told[: len(written)] == written
