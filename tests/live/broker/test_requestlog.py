"""`kinspect live --format request-log` beside a real broker: its lines against those that the broker wrote itself."""

import pytest
from broker.requestlog import RequestLog
from support.requestlog import objects

pytestmark = [pytest.mark.tools, pytest.mark.broker]

THE_BROKERS_OWN = {
    *("listener", "localTimeMs", "messageConversionsTime", "remoteTimeMs", "requestQueueTimeMs"),
    *("responseQueueTimeMs", "sendTimeMs", "temporaryMemoryBytes", "throttleTimeMs", "totalTimeMs"),
}
"""Keys that the wire does not tell, or that mean another thing there."""


def by_request(log):
    """The lines of a log by connection, API and correlation id, without the broker's own keys."""
    found = {}
    for line in objects(log):
        line["connection"] = line["connection"].rsplit("-", 2)[0]
        header = line["requestHeader"]
        # What the broker knows of a client before it has answered its ApiVersions, or kinspect of one that was
        # connected already.
        if "unknown" in line["clientInformation"].values():
            del line["clientInformation"]
        key = line["connection"], header["requestApiKey"], header["correlationId"]
        found[key] = {name: value for name, value in line.items() if name not in THE_BROKERS_OWN}
    return found


@pytest.mark.parametrize("scenario", ["admin_java", "codecs_librdkafka", "sasl_kafkapython", "txn_java"])
def test_the_broker_wrote_the_same(new_lab, live, tmp_path, scenario):
    output, begin = tmp_path / "lines", new_lab.server.log.stat().st_size
    with (
        output.open("wb") as file,
        live("-i", "lo", "--format", "request-log", before=new_lab.inside, stdout=file) as running,
    ):
        new_lab.perform(scenario)
        running.end()
        assert running.process.returncode == 0
    written = new_lab.server.log.read_bytes()[begin:].decode()
    ours, theirs = by_request(output.read_text()), by_request(written)
    both = ours.keys() & theirs.keys()
    for key in both:
        one, other = ours[key], theirs[key]
        shared = one.keys() & other.keys()
        assert (one.keys() ^ other.keys()) <= {"clientInformation"}
        assert {name: one[name] for name in shared} == {name: other[name] for name in shared}
    # The last requests of a client that was gone got no answer.
    told = RequestLog(written, new_lab.server.ports).entries
    answered = {(entry["port"], entry["api"], entry["corr"]) for entry in told if entry["resp"] is not None}
    assert len(answered) > 10
    assert answered <= {(int(connection.rpartition(":")[2]), api, number) for connection, api, number in both}
    # Requests before a login are in no broker's log.
    before_login = {17, 18, 36}
    assert {api for _, api, _ in ours.keys() - theirs.keys()} <= before_login
