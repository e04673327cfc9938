"""Filters: each rule of the contract, on stand-ins with the properties that a filter tests."""

from contextlib import suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kinspect
from kinspect.errors import KinspectError
from kinspect.filters.filter import Filter, connection_ends
from kinspect.filters.values import parse_duration, parse_moment
from kinspect.kafka.exchange.lines import Gap
from kinspect.kafka.wire.lineorder import UNPLACED
from kinspect.protocol import schema
from kinspect.protocol.apikeys import DELETE_TOPICS, ENVELOPE, LEADER_AND_ISR

SECOND = 1_000_000_000
START = 1_795_243_381 * SECOND
FETCH, HEARTBEAT = 1, 12


def exchange(**changes):
    """An answered Fetch of `orders`; `changes` override anything."""
    summary = {
        "topics": ["orders"],
        "topic_ids": [],
        "groups": [],
        "unresolved_topic_ids": (),
        "error_codes": [],
    }
    summary |= {key: changes.pop(key) for key in list(changes) if key in summary}
    ends = {"client_ip": "10.0.0.1", "client_port": 41234, "broker_ip": "10.0.0.9", "broker_port": 9092}
    ends |= {key: changes.pop(key) for key in list(changes) if key in ends}
    facts = {
        "connection": SimpleNamespace(**ends),
        "api_key": FETCH,
        "client_id": "app-1",
        "inner_api_key": None,
        "inner_principal": None,
        "request_read": True,
        "response_read": True,
        "largest_message": 64_000,
        "outcome": "answered",
        "outcome_reason": None,
        "timestamp": START,
        "latency_ns": 5_000_000,
        "service_ns": 3_000_000,
        "waited_ns": None,
        "wait": "broker",
        "role": "consumer",
        "principal": "alice",
        "software_name": "apache-kafka-java",
        "software_version": "4.1.0",
        "client_name": "shop/orders-1",
        "broker_name": None,
        "client_process": "java[42]",
        "failed": False,
        "fetched": None,
        "session_topics": [],
        "summary": SimpleNamespace(**summary),
    } | changes
    facts["api"] = None if facts["api_key"] is None else schema.api_name(facts["api_key"])
    return SimpleNamespace(**facts)


def unanswered(reason="reset", **changes):
    return exchange(
        outcome="unanswered", outcome_reason=reason, response_read=None, latency_ns=None, **changes
    )


def orphan(**changes):
    return exchange(
        **{
            "outcome": "orphan",
            "api_key": None,
            "client_id": None,
            "request_read": None,
            "response_read": False,
            "latency_ns": None,
            "topics": [],
        }
        | changes
    )


def test_without_options_everything_passes():
    nothing = Filter()
    assert not nothing.active
    assert not nothing.needs_body
    assert nothing.matches(orphan())


@pytest.mark.parametrize(
    ("value", "passes"),
    [
        ("Fetch", True),
        ("fetch", True),
        ("FETCH", True),
        ("1", True),
        ("f*", True),
        ("?etch", True),
        ("produce,fetch", True),
        ("Produce", False),
        ("12", False),
        ("!Fetch", False),
        ("!1", False),
        ("!Heartbeat", True),
        ("*,!fetch", False),
        ("*,!heart*", True),
    ],
)
def test_api(value, passes):
    assert Filter(api=[value]).matches(exchange()) is passes


def test_repeated_values_are_alternatives():
    both = Filter(api=["Fetch", "Heartbeat"])
    assert both.matches(exchange())
    assert both.matches(exchange(api_key=HEARTBEAT))
    assert not both.matches(exchange(api_key=0))


def test_options_must_all_pass():
    assert Filter(api=["Fetch"], topic=["orders"]).matches(exchange())
    assert not Filter(api=["Fetch"], topic=["payments"]).matches(exchange())
    assert not Filter(api=["Heartbeat"], topic=["orders"]).matches(exchange())


def test_an_unknown_key_matches_by_its_number_alone():
    strange = exchange(api_key=999)
    assert Filter(api=["999"]).matches(strange)
    assert Filter(api=["!Fetch"]).matches(strange)
    named = Filter(api=["Fetch"])
    assert not named.matches(strange)
    assert named.unknown == {"--api": 1}


@pytest.mark.parametrize(
    ("value", "passes"),
    [
        ("orders", True),
        ("ord*", True),
        ("ORDERS", False),
        ("[op]rders", True),
        ("orders-*", False),
        ("!orders", False),
        ("!payments", True),
        ("o*,!orders", False),
        ("payments,orders", True),
    ],
)
def test_topic(value, passes):
    assert Filter(topic=[value]).matches(exchange()) is passes


def test_several_topics():
    both = exchange(topics=["orders", "payments"])
    assert Filter(topic=["payments"]).matches(both)
    assert not Filter(topic=["orders,!pay*"]).matches(both)
    assert not Filter(topic=["orders"]).matches(exchange(topics=[]))


@pytest.mark.parametrize("resolved", [False, True])
def test_a_topic_by_its_id(resolved):
    topic_id, other = "xtzWWN4bTjitpL3kfd9s5g", "AAAAAAAAAAAAAAAAAAAAAQ"
    names, unresolved = (["orders"], ()) if resolved else ([topic_id], {topic_id})
    found = exchange(topics=names, topic_ids=[topic_id], unresolved_topic_ids=unresolved)
    assert Filter(topic=[topic_id]).matches(found)
    assert Filter(topic=[f"{other},{topic_id}"]).matches(found)
    assert not Filter(topic=[f"!{topic_id}"]).matches(found)
    assert not Filter(topic=[other]).matches(found)
    assert Filter(topic=[f"!{other}"]).matches(found)


def test_an_unresolved_topic_id_matches_no_positive_value():
    topic_id = "xtzWWN4bTjitpL3kfd9s5g"
    unresolved = exchange(topics=[topic_id], topic_ids=[topic_id], unresolved_topic_ids={topic_id})
    for value in ("orders", "*", f"{topic_id[:-1]}?", f"{topic_id[:-1]}h"):
        positive = Filter(topic=[value])
        assert not positive.matches(unresolved)
        assert positive.unknown == {"--topic": 1}
    negative = Filter(topic=["!orders"])
    assert negative.matches(unresolved)
    assert negative.unknown == {}


def test_a_known_topic_passes_whatever_else_is_unknown():
    mixed = exchange(topics=["orders", "id"], unresolved_topic_ids={"id"})
    assert Filter(topic=["orders"]).matches(mixed)
    assert not Filter(topic=["!orders"]).matches(mixed)


def test_a_fetch_stands_for_the_topics_of_its_session():
    of_session = {"topics": [], "session_topics": [("orders", "xtzWWN4bTjitpL3kfd9s5g"), ("bills", None)]}
    whole, partly = (exchange(**of_session, fetched=SimpleNamespace(whole=known)) for known in (True, False))
    for found in whole, partly:
        assert Filter(topic=["orders"]).matches(found)
        assert Filter(topic=["xtzWWN4bTjitpL3kfd9s5g"]).matches(found)
        assert not Filter(topic=["!bills"]).matches(found)
    chosen = Filter(topic=["more"])
    assert not chosen.matches(whole)
    assert chosen.unknown == {}
    assert not chosen.matches(partly)
    assert chosen.unknown == {"--topic": 1}


@pytest.mark.parametrize("option", ["topic", "group"])
def test_an_undecoded_body_is_unknown(option):
    chosen = Filter(**{option: ["x"]})
    assert not chosen.matches(exchange(response_read=False))
    assert not chosen.matches(orphan())
    assert not chosen.matches(exchange())
    assert chosen.unknown == {f"--{option}": 2}


def test_group():
    joined = exchange(groups=["g-1"])
    assert Filter(group=["g-*"]).matches(joined)
    assert not Filter(group=["!g-1"]).matches(joined)
    assert not Filter(group=["g-1"]).matches(exchange())


def test_client_id():
    assert Filter(client_id=["app-*"]).matches(exchange())
    assert not Filter(client_id=["App-*"]).matches(exchange())
    assert Filter(client_id=[""]).matches(exchange(client_id=""))
    assert not Filter(client_id=[""]).matches(exchange())
    chosen = Filter(client_id=["*"])
    assert not chosen.matches(exchange(client_id=None))
    assert chosen.unknown == {"--client-id": 1}
    assert Filter(client_id=["!app-1"]).matches(exchange(client_id=None))


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({"host": ["10.0.0.1"]}, True),
        ({"host": ["10.0.0.9"]}, True),
        ({"host": ["10.0.0.*"]}, True),
        ({"host": ["10.0.0.0/24"]}, True),
        ({"host": ["10.1.0.0/16", "10.0.0.9/32"]}, True),
        ({"host": ["10.1.0.0/16"]}, False),
        ({"host": ["2001:db8::/32"]}, False),
        ({"host": ["!10.0.0.9"]}, False),
        ({"host": ["!10.1.0.0/16"]}, True),
        ({"client_host": ["10.0.0.1"]}, True),
        ({"client_host": ["10.0.0.9"]}, False),
        ({"client_host": ["!10.0.0.9"]}, True),
        ({"broker_host": ["10.0.0.9"]}, True),
        ({"broker_host": ["10.0.0.1"]}, False),
        ({"host": ["shop/*"]}, True),
        ({"client_host": ["shop/orders-?"]}, True),
        ({"client_host": ["!shop/*"]}, False),
        ({"client_host": ["Shop/*"]}, False),
        ({"broker_host": ["shop/*"]}, False),
        ({"broker_host": ["!shop/*"]}, True),
        ({"process": ["java"]}, True),
        ({"process": ["java[[]42]"]}, True),
        ({"process": ["42"]}, False),
        ({"port": ["9092"]}, True),
        ({"port": ["41234"]}, True),
        ({"port": ["909?"]}, True),
        ({"port": ["909"]}, False),
        ({"port": ["!9092"]}, False),
    ],
)
def test_addresses(options, passes):
    assert Filter(**options).matches(exchange()) is passes


def test_an_ipv6_address_in_any_spelling():
    six = exchange(client_ip="2001:db8::1")
    assert Filter(client_host=["2001:DB8:0:0::1"]).matches(six)
    assert Filter(client_host=["[2001:db8::1]"]).matches(six)
    assert Filter(client_host=["2001:db8::/32"]).matches(six)
    assert Filter(client_host=["2001:db8:*"]).matches(six)


def test_address_options_speak_of_other_lines_too():
    gap = Gap(UNPLACED, "[2001:db8::1]:41234-10.0.0.9:9092@0", "client", None, 0, 1, "capture_loss", 0)
    assert Filter(host=["10.0.0.9"], topic=["no matter"]).matches_line(gap)
    assert Filter(client_host=["2001:db8::1"]).matches_line(gap)
    assert not Filter(port=["9093"]).matches_line(gap)
    assert connection_ends("10.0.0.1:1-[::1]:2@17") == (("10.0.0.1", 1), ("::1", 2))


@pytest.mark.parametrize(
    ("changes", "passes"),
    [
        ({}, False),
        ({"failed": True}, True),
    ],
)
def test_errors_only(changes, passes):
    assert Filter(errors_only=True).matches(exchange(**changes)) is passes


def test_errors_only_and_what_stayed_unanswered():
    errors = Filter(errors_only=True)
    assert errors.needs_body
    assert errors.matches(unanswered("reset"))
    assert errors.matches(unanswered("closed"))
    assert not errors.matches(unanswered("capture_end"))
    assert errors.unknown == {}
    assert not errors.matches(orphan())
    assert errors.matches(orphan(outcome_reason="gap"))
    assert errors.unknown == {"--errors-only": 1}


@pytest.mark.parametrize(
    ("limit", "passes"),
    [
        *((5, True), ("5", True), (4.9, True), ("5.000001", False), (6, False)),
        *(("5ms", True), ("5.1ms", False), ("4999us", True), ("5001us", False), ("0.005s", True)),
        *(("1s", False), ("1.5s", False), ("1m", False), ("0.000001h", True), ("5 ms", True)),
    ],
)
def test_min_latency(limit, passes):
    assert Filter(min_latency=limit).matches(exchange()) is passes


def test_min_latency_keeps_what_waited_as_long():
    slow = Filter(min_latency=1000)
    assert slow.matches(unanswered("capture_end", waited_ns=SECOND))
    assert not slow.matches(unanswered("capture_end", waited_ns=SECOND - 1))
    assert not slow.matches(exchange(outcome="no_response", response_read=None, latency_ns=None))
    assert slow.unknown == {}
    assert not slow.matches(exchange(latency_ns=None))
    assert not slow.matches(unanswered("capture_end", waited_ns=None))
    assert not slow.matches(orphan())
    assert slow.unknown == {"--min-latency": 3}


def test_min_service_is_without_the_time_behind_other_requests():
    assert Filter(min_service="3ms").matches(exchange())
    assert not Filter(min_service="3.001ms").matches(exchange())
    slow = Filter(min_service=1000)
    assert slow.matches(unanswered("capture_end", waited_ns=SECOND))
    assert not slow.matches(unanswered("capture_end", waited_ns=SECOND - 1))
    assert slow.unknown == {}
    assert not slow.matches(exchange(service_ns=None))
    assert slow.unknown == {"--min-service": 1}


@pytest.mark.parametrize(
    ("least", "passes"), [(64000, True), ("64kB", True), ("62.5KiB", True), ("64001", False)]
)
def test_min_size(least, passes):
    assert Filter(min_size=least).matches(exchange()) is passes


def test_min_size_of_what_has_one_message():
    large = Filter(min_size="64kB")
    assert not large.needs_body
    assert large.matches(unanswered())
    assert large.matches(orphan())
    assert not large.matches(unanswered(largest_message=1))
    assert not large.matches(exchange(outcome="no_response", latency_ns=None, largest_message=1))
    assert large.unknown == {}
    assert not large.matches(orphan(largest_message=1))
    assert large.unknown == {"--min-size": 1}


@pytest.mark.parametrize(
    ("values", "passes"),
    [
        (["broker"], True),
        (["throttled,broker"], True),
        (["throttled", "queued"], False),
        (["b*"], True),
        (["!long_poll,!group_wait"], True),
        (["!broker"], False),
    ],
)
def test_wait(values, passes):
    chosen = Filter(wait=values)
    assert (chosen.needs_wait, chosen.needs_body) == (True, True)
    assert chosen.matches(exchange()) is passes
    assert chosen.unknown == {}


def test_a_wait_that_is_not_known_matches_no_cause():
    chosen = Filter(wait=["*"])
    assert not chosen.matches(unanswered(wait=None))
    assert not chosen.matches(exchange(outcome="no_response", response_read=None, wait=None))
    assert chosen.unknown == {}
    assert not chosen.matches(exchange(wait=None))
    assert not chosen.matches(orphan(wait=None))
    assert chosen.unknown == {"--wait": 2}
    assert Filter(wait=["!broker"]).matches(unanswered(wait=None))


@pytest.mark.parametrize(
    ("option", "values", "passes"),
    [
        ("role", ["consumer"], True),
        ("role", ["producer,admin"], False),
        ("role", ["!consumer"], False),
        ("role", ["cons*"], True),
        ("principal", ["alice"], True),
        ("principal", ["Alice"], False),
        ("principal", ["!a*"], False),
        ("software", ["apache-kafka-java"], True),
        ("software", ["apache-kafka-java/4.*"], True),
        ("software", ["*/4.1.0"], True),
        ("software", ["apache-kafka"], False),
        ("software", ["!*/4.*"], False),
        ("software", ["!*/3.*"], True),
    ],
)
def test_what_a_client_told_of_itself(option, values, passes):
    assert Filter(**{option: values}).matches(exchange()) is passes


@pytest.mark.parametrize("option", ["role", "principal", "software"])
def test_what_a_client_did_not_tell_is_unknown(option):
    chosen = Filter(**{option: ["*"]})
    assert not chosen.matches(exchange(role=None, principal=None, software_name=None, software_version=None))
    assert chosen.unknown == {f"--{option}": 1}


def test_software_without_a_version_is_its_name():
    assert Filter(software=["kafka*"]).matches(exchange(software_name="kafka-go", software_version=None))
    assert not Filter(software=["kafka-go/*"]).matches(
        exchange(software_name="kafka-go", software_version=None)
    )


@pytest.mark.parametrize(
    ("values", "passes"),
    [
        (["UNKNOWN_TOPIC_OR_PARTITION"], True),
        (["unknown_topic_or_partition"], True),
        (["3"], True),
        (["-1"], False),
        (["*_OR_PARTITION"], True),
        (["UNKNOWN_CODE_4242"], True),
        (["unknown_code_*"], True),
        (["4242"], True),
        (["NOT_*,REQUEST_TIMED_OUT"], False),
        (["!3"], False),
        (["!7"], True),
        (["!*"], False),
    ],
)
def test_error(values, passes):
    chosen = Filter(error=values)
    assert chosen.needs_body
    assert chosen.matches(exchange(error_codes=[3, 4242])) is passes


def test_a_name_that_an_error_has_in_one_api_alone():
    chosen = Filter(error=["stale_leader_epoch"])
    assert chosen.matches(exchange(api_key=LEADER_AND_ISR, error_codes=[13]))
    assert not chosen.matches(exchange(error_codes=[13]))
    with pytest.raises(KinspectError, match="STALE_LEADER_EPOCH"):
        Filter(error=["StaleLeaderEpoch"])


def test_an_answer_that_could_not_be_read_may_have_any_error():
    chosen = Filter(error=["3"])
    assert not chosen.matches(exchange(response_read=False))
    assert chosen.unknown == {"--error": 1}
    assert chosen.matches(exchange(response_read=False, error_codes=[3]))
    assert not chosen.matches(unanswered())
    assert chosen.unknown == {"--error": 1}
    assert Filter(error=["!*"]).matches(unanswered())


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("2026-11-21T06:43:01Z", START),
        ("2026-11-21t06:43:01z", START),
        ("2026-11-21 06:43:01Z", START),
        ("2026-11-21 06:43:01", START),
        ("2026-11-21T06:43:01.5", START + SECOND // 2),
        ("2026-11-21T08:43:01+02:00", START),
        ("2026-11-21T01:13:01-05:30", START),
        ("2026-11-21T06:43:01.5Z", START + SECOND // 2),
        ("2026-11-21T06:43:01.123456789Z", START + 123_456_789),
        ("1969-12-31T23:59:59.25Z", -750_000_000),
        ("1795243381", START),
        ("1795243381.000000001", START + 1),
    ],
)
def test_absolute_times_are_exact(text, nanoseconds):
    assert parse_moment(text).at(None) == nanoseconds


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("90s", 90 * SECOND),
        ("90", 90 * SECOND),
        ("250ms", SECOND // 4),
        ("1.5h", 5400 * SECOND),
        ("2m", 120 * SECOND),
    ],
)
def test_durations(text, nanoseconds):
    assert parse_duration(text) == nanoseconds
    moment = parse_moment(f"+{text}")
    assert moment.at(START) == START + nanoseconds
    assert moment.at(None) is None


def test_since_is_included_and_until_is_not():
    chosen = Filter(since="2026-11-21T06:43:01Z", until="1795243382")
    assert not chosen.matches(exchange(timestamp=START - 1))
    assert chosen.matches(exchange(timestamp=START))
    assert chosen.matches(exchange(timestamp=START + SECOND - 1))
    assert not chosen.matches(exchange(timestamp=START + SECOND))
    assert chosen.unknown == {}
    assert not chosen.matches(exchange(timestamp=None))
    assert chosen.unknown == {"--since": 1}


def test_times_from_the_start_of_the_capture():
    chosen = Filter(since="+1s")
    chosen.start = START
    assert not chosen.matches(exchange())
    assert chosen.matches(exchange(timestamp=START + SECOND))


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("06:43:01", START),
        ("6:43:01", START),
        ("06:43:01Z", START),
        ("06:43:01.5", START + SECOND // 2),
        ("06:43:01.123456789", START + 123_456_789),
        ("06:43", START - SECOND),
        ("00:00", START - (6 * 3600 + 43 * 60 + 1) * SECOND),
        ("23:59:59.999999999", START + (17 * 3600 + 16 * 60 + 59) * SECOND - 1),
    ],
)
def test_a_time_of_day_is_on_the_date_of_the_first_packet(text, nanoseconds):
    moment = parse_moment(text)
    assert moment.at(START) == nanoseconds
    assert moment.at(START + 3600 * SECOND) == nanoseconds
    assert moment.at(None) is None
    chosen = Filter(since=text)
    chosen.start = START
    assert chosen.matches(exchange(timestamp=nanoseconds))
    assert not chosen.matches(exchange(timestamp=nanoseconds - 1))


def test_a_time_of_day_before_1970():
    assert parse_moment("23:00").at(-1) == -3600 * SECOND


def test_cheap_options_are_asked_before_a_body_is_decoded():
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError(f"{name} was looked at")

    closed = exchange(summary=Untouchable(), failed=Untouchable())
    assert not Filter(topic=["x"], group=["x"], errors_only=True, api=["Heartbeat"]).matches(closed)
    assert not Filter(topic=["x"], min_latency=6).matches(closed)


@pytest.mark.parametrize(
    "options",
    [
        {"api": ["Fetsch"]},
        {"api": ["!Nothing"]},
        {"host": ["10.0.0.0/99"]},
        {"host": [""]},
        {"host": ["300.1.2.3"]},
        {"host": ["10.0"]},
        {"host": ["!10.0.0.1.2"]},
        {"host": ["10.0.0.1.*"]},
        {"client_host": ["10.*.256"]},
        {"host": ["::1/129"]},
        {"port": ["kafka"]},
        {"port": ["65536"]},
        {"port": ["!99999"]},
        {"port": ["9" * 5000]},
        {"port": ["90-92"]},
        {"port": ["7777*7"]},
        {"api": ["32768"]},
        {"api": ["9" * 5000]},
        {"api": ["Fetsch*"]},
        {"api": ["!x?"]},
        {"topic": [""]},
        {"topic": ["!"]},
        {"wait": ["brokre"]},
        {"wait": ["broker", ""]},
        {"role": ["client"]},
        {"error": ["NO_SUCH_ERROR"]},
        {"error": ["32768"]},
        {"error": ["9" * 5000]},
        {"error": ["x*" * 50]},
        {"min_service": "fast"},
        {"min_size": "64XB"},
        {"min_size": -1},
        {"min_latency": "fast"},
        {"min_latency": "5sec"},
        {"min_latency": "ms"},
        {"min_latency": ""},
        {"min_latency": "1e3"},
        {"min_latency": -1},
        {"min_latency": float("nan")},
        {"since": "yesterday"},
        {"since": "2026-11-21"},
        {"since": "2026-11-21  06:43:01"},
        {"since": "2026-13-21T06:43:01Z"},
        {"since": "2026-11-21T06:43:01+99:00"},
        {"until": "+"},
        {"until": "+5y"},
        {"until": "-5"},
        {"until": ""},
        {"since": "2026-11-21T06:43:02Z", "until": "2026-11-21T06:43:01Z"},
        {"since": "1795243381", "until": "2026-11-21T06:43:01Z"},
        {"since": "+2s", "until": "+1s"},
        {"since": "24:00:00"},
        {"since": "06:60"},
        {"since": "06:43:60"},
        {"since": "06:43:01+02:00"},
        {"since": "06:43:01."},
        {"until": "06:4"},
        {"since": "23:50", "until": "00:10"},
        {"since": "06:43", "until": "06:43:00.0"},
    ],
)
def test_a_bad_value_gives_one_line_that_names_the_option(options):
    with pytest.raises(KinspectError) as caught:
        Filter(**options)
    text = str(caught.value)
    assert text.startswith("--" + next(iter(options)).replace("_", "-"))
    assert "\n" not in text


def test_a_mistyped_api_gets_a_hint():
    with pytest.raises(KinspectError, match="did you mean Fetch"):
        Filter(api=["Fetsch"])


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({"port": ["09092"]}, True),
        ({"port": ["0"]}, False),
        ({"port": ["90[0-9]2,!9*3"]}, True),
        ({"host": ["*.1"]}, True),
        ({"host": ["10.0.0.1*"]}, True),
        ({"host": ["1?.[0-1].*"]}, True),
        ({"host": ["::ffff:10.0.*"]}, False),
        ({"api": ["01"]}, True),
        ({"api": ["1*"]}, True),
        ({"api": ["32767"]}, False),
        ({"api": ["99?"]}, False),
        ({"since": "+9s", "until": "2026-11-21T06:43:02Z"}, False),
    ],
)
def test_a_value_that_could_match_is_taken(options, passes):
    assert Filter(**options).matches(exchange()) is passes


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_a_clear_error(text):
    with suppress(KinspectError):
        assert parse_moment(text).ns > -(10**21)


@given(
    st.lists(st.text(alphabet="ab*?[]!,", max_size=6), min_size=1, max_size=3),
    st.text(alphabet="ab", max_size=3),
)
def test_a_value_and_its_negation_never_both_pass(values, topic):
    plain = [piece for value in values for piece in value.split(",") if piece and not piece.startswith("!")]
    if not plain:
        return
    known = exchange(topics=[topic])
    assert Filter(topic=plain).matches(known) != Filter(topic=[f"!{piece}" for piece in plain]).matches(known)


CAPTURES = Path(__file__).parents[1] / "captures"


@cache
def lines_of(path):
    return [exchange.to_dict() for exchange in kinspect.read(path)]


def software_of(line):
    return f"{line['client']['software_name']}/{line['client']['software_version']}"


@pytest.mark.parametrize(
    ("filters", "passes"),
    [
        ({"wait": "broker"}, lambda line: line["wait"] == "broker"),
        ({"wait": ["!broker", "!long_poll"]}, lambda line: line["wait"] not in ("broker", "long_poll")),
        ({"wait": "q*,r*,group_wait"}, lambda line: (line["wait"] or "")[:1] in ("q", "r", "g")),
        ({"role": "producer,admin"}, lambda line: line["client"]["role"] in ("producer", "admin")),
        ({"principal": "alice"}, lambda line: line["client"]["principal"] == "alice"),
        ({"software": "*/4.*"}, lambda line: software_of(line).split("/")[1].startswith("4.")),
        (
            {"software": "!apache-kafka-java"},
            lambda line: line["client"]["software_name"] != "apache-kafka-java",
        ),
        (
            {"error": "79,not_*"},
            lambda line: any(n == "MEMBER_ID_REQUIRED" or n[:4] == "NOT_" for n in line["error_names"]),
        ),
        ({"min_service": "1"}, lambda line: line["outcome"] == "answered" and (line["service_ms"] or 0) >= 1),
    ],
)
@pytest.mark.parametrize(
    "name",
    [
        *("groups_classic.pcap.gz", "sasl_plain.pcap.gz", "errors_java.pcap.gz"),
        pytest.param("cluster_kraft.pcap.gz", marks=pytest.mark.big),
    ],
)
def test_what_passes_by_the_keys_of_its_line(name, filters, passes):
    path = CAPTURES / "4.4.0" / name
    whole = lines_of(path)
    found = [exchange.to_dict() for exchange in kinspect.read(path, filter=filters)]
    waited = [line for line in found if line["outcome"] == "unanswered" and "min_service" in filters]
    assert [line for line in found if line not in waited] == [line for line in whole if passes(line)]


@pytest.mark.parametrize(
    ("options", "passes"),
    [
        ({"api": ["Envelope"]}, True),
        ({"api": ["DeleteTopics"]}, True),
        ({"api": ["20"]}, True),
        ({"api": ["CreateTopics"]}, False),
        ({"api": ["!DeleteTopics"]}, False),
        ({"principal": ["alice"]}, True),
        ({"principal": ["broker"]}, True),
        ({"principal": ["bob"]}, False),
        ({"principal": ["!alice"]}, False),
    ],
)
def test_what_an_envelope_holds_passes(options, passes):
    """The client's request and principal, beside the forwarding broker's own."""
    forwarded = exchange(
        api_key=ENVELOPE, principal="broker", inner_api_key=DELETE_TOPICS, inner_principal="alice"
    )
    assert Filter(**options).matches(forwarded) == passes


def test_lines_without_bodies_are_chosen_by_what_an_envelope_holds(kinspect):
    path = Path(__file__).parents[1] / "captures/4.4.0/cluster_kraft.pcap.gz"
    found = kinspect("read", "--api", "DeleteTopics", "--fields", "api", path).out.split()
    assert found == ['{"api":"Envelope"}', '{"api":"DeleteTopics"}']


def test_of_an_envelope_that_was_cut_it_is_not_known_what_it_holds():
    cut = exchange(api_key=ENVELOPE, principal="broker")
    for option, value in (("api", "DeleteTopics"), ("principal", "alice")):
        chosen = Filter(**{option: [value]})
        assert not chosen.matches(cut)
        assert chosen.unknown == {f"--{option}": 1}
