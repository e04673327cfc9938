"""`kinspect live` beside a real broker: every scenario, against what its clients and the broker told of it."""

import json

import pytest
from broker.scenarios import SCENARIOS
from support.checks import complaints
from support.manifest import load

pytestmark = [pytest.mark.tools, pytest.mark.broker, pytest.mark.usefixtures("root")]

UNLOGGED = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
"""What the broker handles before a client has authenticated, and does not log."""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_clients_and_broker_told_is_there(lab, live, tmp_path, scenario):
    output = tmp_path / "lines"
    arguments = ("-i", "lo", "--records", "--payload", "text", "--emit", "exchange,gap,summary")
    with output.open("wb") as file, live(*arguments, before=lab.inside, stdout=file) as running:
        performance = lab.perform(scenario)
        running.end()
        assert running.process.returncode == 0
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    lab.write_rows(tmp_path, "live.pcap", performance)
    (row,) = load(tmp_path)
    exchanges = [
        line for line in lines if line["type"] == "exchange" and line["broker"]["port"] in lab.server.ports
    ]
    assert complaints(row, exchanges) == []
    logged = {(told["port"], told["corr"], told["api"]) for told in row.truth}
    others = {
        line["api"]
        for line in exchanges
        if (line["client"]["port"], line["correlation_id"], line["api_key"]) not in logged
    }
    assert others <= (UNLOGGED if "users" in row.facts else set())
