import pytest
from support.captures import CAPTURES

from kinspect.model import Problem
from kinspect.output.runsummary import summary_text
from kinspect.output.tally import LOOKED_AT, PASSED, Tally
from kinspect.pipeline import Inspector
from kinspect.tls.keylog import NONE_GIVEN

HEARTBEAT = 12
BEAT = {"group_id": "workers", "generation_id": 1, "member_id": "m"}
QUIET = Inspector(files=["a.pcap"]).summary()


def text(tally=None, **changes):
    summary = {**QUIET, **changes}
    return summary_text(summary, tally or Tally())


def connections(**kinds):
    return {**dict.fromkeys(QUIET["connections"], 0), **kinds}


def outcomes(**counts):
    return {**dict.fromkeys(QUIET["outcomes"], 0), **counts}


def test_a_summary_leaves_out_what_did_not_happen():
    assert text() == "0 packets, 0 bytes in 1 file\n0 connections, 0 Kafka\n"


def test_a_summary_of_the_input():
    printed = text(
        files=["a", "b"],
        packets=1234,
        bytes=56789,
        duplicate_packets=3,
        connections=connections(kafka=2, other=1),
        partial_connections={**QUIET["partial_connections"], "no_begin": 1},
        exchanges=100,
        outcomes=outcomes(answered=90, unanswered=8, orphan=2),
    )
    assert printed.splitlines() == [
        "1,234 packets, 3 of them seen twice, 56,789 bytes in 2 files",
        "3 connections, 2 Kafka, 1 other, 1 under way at the start",
        "100 exchanges, 8 unanswered, 2 orphan",
    ]


def test_an_interface_is_no_file():
    assert text(Tally(interface="et\x1bh0"), packets=1).startswith("1 packet, 0 bytes on et\\x1bh0\n")


def test_encrypted_connections_are_named():
    names = {f"broker{i}": 1 for i in range(1, 6)}
    found = connections(tls=9, other=403)
    line = text(connections=found, server_names=names, tls_not_decrypted={NONE_GIVEN: 9}).splitlines()[1]
    assert line == (
        "412 connections, 0 Kafka, 9 TLS (SNI broker1, broker2, broker3…; give --keylog), 403 other"
    )


def test_a_key_log_is_asked_for_where_there_was_none():
    found = connections(tls=9, kafka=2)
    given = "no secrets for this connection in the key log"
    assert "--keylog" in text(connections=found, tls_not_decrypted={NONE_GIVEN: 1})
    assert "--keylog" not in text(connections=found, tls_not_decrypted={given: 9})


def test_a_server_name_is_escaped():
    assert "SNI \\x1b[2J" in text(connections=connections(tls=1), server_names={"\x1b[2J": 1})


def test_a_summary_of_the_exchanges_shown():
    tally = Tally(shown=7, filtered=True, unknown={"--topic": 2}, problems=1, errors=3)
    found = outcomes(answered=8, unanswered=1)
    lines = text(tally, connections=connections(kafka=1), exchanges=9, outcomes=found).splitlines()
    assert lines[2] == "9 exchanges, 1 unanswered; 7 shown, 3 error codes, 1 problem"
    assert lines[3] == "left out by filters, as what they ask for is not known: --topic 2"


@pytest.mark.parametrize(
    ("tally", "said"),
    [
        (Tally(shown=9, stopped="stopped by Ctrl-C"), "9 exchanges"),
        (Tally(shown=7, stopped="stopped at --limit 7"), "9 exchanges; 7 shown"),
        (Tally(shown=9, stopped="stopped by Ctrl-C", filtered=True), "9 exchanges; 9 shown"),
        (Tally(shown=7, filtered=True, called=PASSED), "9 exchanges; 7 passed the filters"),
        (Tally(shown=7, stopped="stopped at --limit 7", called=LOOKED_AT), "9 exchanges; 7 looked at"),
        (Tally(filtered=True, called=None), "9 exchanges"),
        (Tally(stopped="stopped at --limit 1", called=None), "9 exchanges"),
    ],
)
def test_what_is_said_of_those_that_were_shown(tally, said):
    lines = text(tally, connections=connections(kafka=1), exchanges=9, outcomes=outcomes(answered=9))
    assert lines.splitlines()[2] == said


def test_the_most_frequent_errors_are_named(exchanges):
    def counted(*codes):
        tally = Tally()
        for exchange in exchanges(*((HEARTBEAT, 4, BEAT, {"error_code": code}) for code in codes)):
            tally.count(exchange)
        return text(tally, connections=connections(kafka=1), exchanges=len(codes)).splitlines()[2]

    assert counted(27, 27, 0) == "3 exchanges, 2 error codes (REBALANCE_IN_PROGRESS)"
    assert counted(25, 27, 27) == "3 exchanges, 3 error codes (REBALANCE_IN_PROGRESS 2, UNKNOWN_MEMBER_ID 1)"
    assert counted(1, 2, 4242, 27, 27).endswith(
        "5 error codes (REBALANCE_IN_PROGRESS 2, OFFSET_OUT_OF_RANGE 1, CORRUPT_MESSAGE 1, …)"
    )


def test_problems_are_counted(exchanges):
    tally = Tally()
    (exchange,) = exchanges((HEARTBEAT, 4, BEAT, {}))
    exchange.noted = (Problem(None, "gap", ""),)
    tally.count(exchange)
    assert (tally.problems, tally.errors) == (1, 0)


def test_a_summary_of_losses():
    lines = text(
        gaps=2,
        gap_causes={"capture_loss": 1, "snaplen": 0, "mid_start": 1},
        gap_bytes=2920,
        kernel_drops=5,
        payload_bytes=1100,
        undecoded_bytes=77,
        message_bytes=1000,
        conflicting_bytes=23,
        unresolved_topic_ids=1,
        caps_hit={"in_flight": 3},
        packets_without_tcp={"udp": 3, "arp": 12},
    ).splitlines()
    assert lines[2:] == [
        "1 gap by lost bytes, 1 gap by a begin in the middle of a message: 2,920 bytes",
        "1,100 bytes of payload: 1,000 in Kafka messages, 77 without a message, 23 repeated with another value (the"
        " first one holds)",
        "packets dropped by the capturing kernel: 5",
        "packets without TCP: arp 12, udp 3",
        "topic ids without a name (see --topic-names): 1",
        "caps hit: in_flight 3",
    ]


def test_payload_that_is_all_of_one_kind():
    lines = text(payload_bytes=9000, other_bytes=9000).splitlines()
    assert lines[2:] == ["9,000 bytes of payload, all of other protocols"]


def test_long_lists_are_summed_up():
    counts = {f"kind {i}": i for i in range(1, 21)}
    line = text(packets_without_tcp=counts).splitlines()[-1]
    assert line.startswith("packets without TCP: kind 20 20, kind 19 19,")
    assert line.endswith(f", others {sum(range(1, 13))}")


def test_why_it_stopped():
    assert text(Tally(stopped="stopped by Ctrl-C")).endswith("stopped by Ctrl-C\n")


@pytest.mark.parametrize("jobs", [(), ("--jobs", "2")], ids=["alone", "jobs"])
def test_an_error_is_named_by_the_api_that_gave_it(kinspect, jobs):
    """Error 13 of LeaderAndIsr is another one than that of clients."""
    path = CAPTURES / "0.8.2.2" / "controller-2brokers.pcap.gz"
    for form in ("table", "detail"):
        result = kinspect("read", "--format", form, *jobs, path)
        assert "STALE_LEADER_EPOCH" in result.err
        assert "NETWORK_EXCEPTION" not in result.out + result.err
    assert "error_code 13 (STALE_LEADER_EPOCH)" in result.out
    written = kinspect("read", "--format", "jsonl", "--emit", "summary", path).out
    assert '{"name":"STALE_LEADER_EPOCH",' in written
