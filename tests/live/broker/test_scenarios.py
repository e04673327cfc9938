"""`kinspect live` beside a real broker: every scenario, against what its clients and the broker told of it.

tcpdump captures too, as `captures/record` does: what it recorded must give the same exchanges.
"""

import json

import pytest
from broker.record import record
from broker.scenarios import SCENARIOS
from support.checks import complaints, disguises
from support.decoded import exchanges
from support.manifest import load

pytestmark = [pytest.mark.tools, pytest.mark.broker]

UNLOGGED = {"ApiVersions", "SaslHandshake", "SaslAuthenticate"}
"""APIs that the broker handles before a client has authenticated, and does not log."""

LOST = ("kernel_drops", "queue_drops", "gaps", "gap_bytes", "undecoded_bytes", "unresolved_topic_ids")


def who(line):
    """Identity of a request, the same in every capture."""
    return line["client"]["port"], line["correlation_id"], line["api_key"]


def what(line):
    """Content of a request and its response, the same in every capture."""
    bodies = [line[side] and (line[side]["size"], line[side]["body"]) for side in ("request", "response")]
    told = ("api", "api_version", "outcome", "topics", "groups", "record_count", "error_names")
    return who(line), [line[key] for key in told], bodies


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_clients_and_broker_told_is_there(lab, live, tmp_path, scenario):
    output = tmp_path / "lines"
    arguments = ("-i", "lo", "--records", "--payload", "text", "--emit", "exchange,summary")
    with output.open("wb") as file, live(*arguments, before=lab.inside, stdout=file) as running:
        record(lab, scenario, tmp_path / "captures")
        running.end()
        assert running.process.returncode == 0

    *lines, summary = map(json.loads, output.read_text().splitlines())
    assert [summary[key] for key in LOST] == [0] * len(LOST)
    assert summary["caps_hit"] == []
    assert summary["connections"] == summary["connections"] | {"tls": 0, "other": 0}
    # At its third port the broker talks to its controller.
    seen = [line for line in lines if line["broker"]["port"] in lab.server.ports]
    assert [line["problems"] for line in lines if line not in seen and line["problems"]] == []

    (row,) = load(tmp_path / "captures")
    assert complaints(row, seen) == []
    logged = {(told["port"], told["corr"], told["api"]) for told in row.truth}
    unlogged = {line["api"] for line in seen if who(line) not in logged}
    assert unlogged <= (UNLOGGED if "users" in row.facts else set())
    for secret in row.facts.get("secrets", []):
        assert not [text for text in disguises(secret) if text in output.read_text()]

    recorded = exchanges(row.path)
    assert complaints(row, recorded) == []
    assert sorted(map(what, seen), key=lambda told: told[0]) == sorted(
        map(what, recorded), key=lambda told: told[0]
    )
