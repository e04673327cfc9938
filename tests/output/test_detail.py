from kinspect.kafka.view.view import View
from kinspect.output.console import make_console
from kinspect.output.detail import Detail

METADATA, HEARTBEAT, API_VERSIONS, SASL_AUTHENTICATE = 3, 12, 18, 36
BEAT = {"group_id": "workers", "generation_id": 1, "member_id": "m"}


def printed(stream, exchanges, color="never", **options):
    detail = Detail(make_console(stream, color, 100), View(**options))
    for exchange in exchanges:
        detail.take(exchange)
    detail.flush()
    return stream.buffer.getvalue().decode()


def test_both_bodies_nested(exchanges, stream):
    brokers = [{"node_id": 1, "host": "b1", "port": 9092}, {"node_id": 2, "host": "b2", "port": 9092}]
    text = printed(
        stream, exchanges((METADATA, 1, {"topics": None}, {"brokers": brokers, "controller_id": 1}))
    )
    lines = [line.strip("│├└─ ") for line in text.splitlines()]
    assert lines[0] == "#1 Metadata v1  10.0.0.1:40000→10.0.0.9:9092  0.20ms"
    assert "client 10.0.0.1 40000 id=app-1" in lines
    assert "topics null" in lines
    at = lines.index("brokers (2)")
    assert lines[at + 1 : at + 6] == ["[0]", "node_id 1", "host b1", "port 9092", "rack null"]
    assert "frame 4 of" in text


def test_errors_and_outcome(exchanges, stream):
    text = printed(stream, exchanges((HEARTBEAT, 4, BEAT, {"error_code": 27}), (HEARTBEAT, 4, BEAT, None)))
    assert "REBALANCE_IN_PROGRESS (27)" in text
    assert "unanswered (capture_end)" in text


def test_error_codes_and_apis_have_their_names(exchanges, stream):
    versions = [{"api_key": 3, "min_version": 0, "max_version": 13}]
    text = printed(
        stream,
        exchanges((HEARTBEAT, 4, BEAT, {"error_code": 27}), (API_VERSIONS, 0, {}, {"api_keys": versions})),
    )
    lines = [line.strip("│├└─ ") for line in text.splitlines()]
    assert "error_code 27 (REBALANCE_IN_PROGRESS)" in lines
    assert "api_key 3 (Metadata)" in lines
    assert "error_code 0" in lines


def test_facts_that_are_zero_are_shown(exchanges, stream):
    made = exchanges((HEARTBEAT, 4, BEAT, {"error_code": 0}))
    made[0].correlation_id = 0
    lines = [line.strip("│├└─ ") for line in printed(stream, made).splitlines()]
    assert {"correlation_id 0", "in_flight 0", "record_count 0"} <= set(lines)
    assert not any(line.startswith(("max_wait_ms", "topics")) for line in lines)


def test_nothing_of_a_capture_reaches_the_terminal_as_it_is(exchanges, stream):
    evil = "\x1b[2J\x9b[red]\u202e\n"
    text = printed(stream, exchanges((HEARTBEAT, 4, {**BEAT, "group_id": evil}, {}), client_id=evil))
    assert "group_id \\x1b[2J\\x9b[red]\\u202e\\x0a" in text
    assert not set(text) & {"\x1b", "\x9b", "\u202e"}


def test_colours_when_asked_for(exchanges, stream):
    assert "\x1b[1;31m" in printed(
        stream, exchanges((HEARTBEAT, 4, BEAT, {"error_code": 27})), color="always"
    )


def test_long_texts_and_lists_of_numbers_go_on_below_each_other(exchanges, stream):
    partition = {"error_code": 0, "partition_index": 0, "leader_id": 1, "isr_nodes": []}
    topic = {"error_code": 0, "name": "n" * 2_500, "is_internal": False}
    topic["partitions"] = [{**partition, "replica_nodes": [*range(1_000)]}]
    text = printed(
        stream,
        exchanges((METADATA, 1, {"topics": []}, {"brokers": [], "controller_id": 1, "topics": [topic]})),
    )
    assert max(map(len, text.splitlines())) <= 100
    assert "n" * 2_500 in "".join(line.strip("│├└─ ") for line in text.splitlines())
    assert ", ".join(map(str, range(1_000))) in " ".join(line.strip("│├└─ ") for line in text.splitlines())
    lines = [line.strip("│├└─ ") for line in text.splitlines()]
    assert {"isr_nodes []", "brokers []", "topics []"} <= set(lines)


def test_errors_that_are_not_listed_are_counted(exchanges, stream):
    topic = {"error_code": 3, "is_internal": False, "partitions": []}
    answer = {"brokers": [], "controller_id": 0, "topics": [{**topic, "name": "t"}] * 1234}
    rows = printed(stream, exchanges((METADATA, 1, {"topics": None}, answer))).splitlines()
    errors = [row for row in rows if row.endswith(tuple(f" topics[{number}]" for number in range(1234)))]
    assert len(errors) == 100
    assert rows[rows.index(errors[-1]) + 1].endswith(" and 1,134 more")


def test_a_login_refused_without_an_error_code(exchanges, stream):
    answer = {"error_code": 0, "auth_bytes": b'{"status":"invalid_token"}'}
    text = printed(stream, exchanges((SASL_AUTHENTICATE, 1, {"auth_bytes": b"n,,"}, answer)))
    assert "login refused (invalid_token)" in text
    assert "auth_bytes null" in text
