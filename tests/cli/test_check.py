"""`kinspect check`: what rules say of captures, and how that is written."""

import json
from pathlib import Path
from struct import pack
from xml.etree import ElementTree

import pytest
from support.client import Client, recorded
from support.packets import packets
from support.pcap import Conversation, pcap

import kinspect
from kinspect.checks.rulesfile import make_rule

CAPTURES = Path(__file__).parents[2] / "captures"
WHOLE = CAPTURES / "3.6.2" / "txn_java.pcap.gz"
MIDDLE = CAPTURES / "0.10.2.2" / "midstream.pcap"
HOSTILE = "a]]><\x1b[31m&\u202e%0A::error::\\\n::warning::x,:"


@pytest.fixture
def check(kinspect, tmp_path):
    """Rows by the names of their rules; a rule is given as the text of its table."""

    def run(capture, *rules, options=(), status=None):
        path = tmp_path / "rules.toml"
        path.write_text(
            "\n".join(f'[[rule]]\nname = "{number}"\n{rule}' for number, rule in enumerate(rules))
        )
        found = kinspect("check", capture, "--rules", path, "--format", "jsonl", "-q", *options)
        rows = [json.loads(line) for line in found.out.splitlines()]
        broken = any(row["broken"] for row in rows)
        assert (found.status, found.err) == (4 if broken else 0, "")
        return rows

    return run


def verdict(row):
    return row["status"], row["seen"]


PRODUCE = {
    "transactional_id": None,
    "timeout_ms": 1000,
    "topic_data": [{"name": "orders", "partition_data": []}, {"name": "mails", "partition_data": []}],
}
PRODUCED = {"responses": [], "throttle_time_ms": 0}


def produced(tmp_path, *acks, version=3, every=0.1, packets=slice(None), **more):
    """A capture of a client that sends a Produce with each of these `acks`."""
    client = Client(**more)
    for each in acks:
        client.ask(0, version, {**PRODUCE, "acks": each}, PRODUCED if each else None, takes=0.01)
        client.wait(every)
    client.talk.close()
    path = tmp_path / "produced.pcap"
    path.write_bytes(pcap(client.talk.packets[packets]))
    return path


def test_each_expectation_passes_and_fails(check, tmp_path):
    capture = produced(tmp_path, -1, 1, 1, every=0.3)
    found = check(
        capture,
        'where.api = "Produce"\ncount = 3',
        'where.api = "Produce"\ncount = "..2"',
        'where = { api = "Produce", topic = "payments" }\ncount = "1.."',
        'where.api = "Fetch"\ncount = 0',
        'where.api = "Produce"\nhave.acks = -1',
        'where.api = "Produce"\nhave.acks = [-1, 1]',
        'where = { acks__ge = 0 }\nhave = { latency_ms__lt = 50, outcome = "answered", "client.id" = "ap*" }',
        "where.acks = 1\nper_second = 1",
        "per_second = 3",
        'versions = { Produce = "..2" }',
        'versions = { produce = "3..", Fetch = "..2" }',
    )
    assert [verdict(row) for row in found] == [
        ("passed", "3 exchanges"),
        ("failed", "3 exchanges"),
        ("failed", found[2]["seen"]),
        ("passed", "no exchange"),
        ("failed", "acks = 1 in 2 of 3 exchanges"),
        ("passed", "3 exchanges; acks = -1 or 1 in 3 exchanges"),
        ("passed", found[6]["seen"]),
        ("failed", "2 exchanges within a second"),
        ("passed", "3 exchanges within a second"),
        ("failed", "Produce v3 in 3 of 3 exchanges"),
        ("passed", found[10]["seen"]),
    ]
    assert "topic = payments left out 3 exchanges with api = Produce: " in found[2]["seen"]
    assert [(each["seen"], each["client_id"], each["frame"] > 3) for each in found[4]["evidence"]] == [
        ("acks = 1", "app", True)
    ] * 2
    assert [len(row["evidence"]) for row in found[7:8]] == [2]


def test_a_rule_that_asks_for_something_needs_an_exchange(check, tmp_path):
    rows = check(
        produced(tmp_path, 1),
        'where.topic = "none"\nhave.acks = -1',
        'where.topic = "none"\nhave.acks = -1\ncount = "0.."',
    )
    assert [row["status"] for row in rows] == ["failed", "passed"]


def test_through_lists_one_value_is_chosen_by_and_each_is_asked_for(check, tmp_path):
    path = '"request.body.topic_data.name"'
    rows = check(
        produced(tmp_path, 1),
        f'where.{path} = "orders"\ncount = 1',
        f'where.api = "Produce"\nhave.{path} = "orders"',
        f'where.api = "Produce"\nhave.{path} = ["orders", "m*"]',
        'where.api = "Produce"\nhave.topics = ["orders", "mails"]',
        'where.api = "Produce"\nhave.topic_data.topic_id = "AAAA"',
    )
    assert [row["status"] for row in rows] == ["passed", "failed", "passed", "passed", "failed"]
    assert rows[4]["seen"] == "no topic_data.topic_id in Produce v3 in 1 of 1 exchange"


def test_what_was_not_seen_neither_passes_nor_fails(check, tmp_path):
    """The same client, each time with less of its packets."""
    rules = (
        'where.api = "Produce"\ncount = "..2"',
        'where.api = "Produce"\ncount = "1.."',
        'where.api = "Produce"\ncount = "3.."',
        'where.api = "Produce"\nhave.acks = -1',
        'where.api = "Fetch"\ncount = 0',
        'where.api = "Produce"\nper_second = 5',
        'where.api = "Produce"\nhave.latency_ms__lt = 100',
    )

    def statuses(**cut):
        return "".join(row["status"][0] for row in check(produced(tmp_path, -1, -1, **cut), *rules))

    assert statuses() == "ppfpppp"
    begun, one_request_lost = slice(3, None), slice(0, 6)
    assert statuses(packets=begun) == "upuuuuu"
    # Nothing is known to be missing behind the end.
    assert statuses(packets=one_request_lost) == "ppfpppp"
    client = Conversation()
    path = tmp_path / "tls.pcap"
    path.write_bytes(pcap(client.packets))
    rows = check(path, *rules)
    assert {row["status"] for row in rows} == {"unknown"}
    assert rows[0]["reasons"] == ["no Kafka was found: there is no packet"]


RULES = [
    {"where": {"api": "Produce"}, "count": 4},
    {"where": {"api": "Produce"}, "count": "..3"},
    {"where": {"api": "Produce"}, "count": "5.."},
    {"where": {"api": "Fetch"}, "count": 0},
    {"where": {"acks": 1}, "count": 2},
    {"where": {"acks": 1}, "count": "..1"},
    {"where": {"api": "Produce"}, "have": {"acks": [-1, 1]}},
    {"where": {"api": "Produce"}, "have": {"acks": -1}},
    {"where": {"topic": "mails"}, "count": 4},
    {"where": {"request.body.topic_data.name": "payments"}, "count": 0},
    {"where": {"client_id": "app"}, "count": "5.."},
    {"where": {"api": "Produce", "outcome": "answered"}, "count": "4.."},
    {"where": {"min_latency": "1s"}, "count": 0},
    {"where": {"errors_only": True}, "count": 0},
    {"where": {"api": "Produce"}, "have": {"latency_ms__lt": 100, "error_count": 0}},
    {"where": {"api": "Produce"}, "per_second": 3},
    {"where": {"api": "Produce"}, "per_second": 4},
    {"versions": {"Produce": "3..3"}},
    {"versions": {"Produce": "..2"}},
    {"have": {"outcome": "answered", "outcome_reason": None}},
    {"have": {"problem_count": 0, "truncated_lists": False, "in_flight": 0}},
    {"have": {"request.complete": True, "response.complete": True, "response.inferred": False}},
    {"where": {"problems.code": "*"}, "count": 0},
]


def judged(packets, tmp_path, **cut):
    """The statuses of `RULES` for a capture of these packets."""
    path = tmp_path / "some.pcap"
    path.write_bytes(pcap(packets, **cut))
    return [row["status"] for row in kinspect.check([make_rule("", rule) for rule in RULES], path)]


def test_a_verdict_is_that_on_the_whole_or_unknown(tmp_path):
    """However packets are lost, but for the last ones: nothing shows that there were more."""
    client = Client()
    client.talk.mss = 40  # each message in several packets
    for acks in (-1, 1, 1, -1):
        client.ask(0, 3, {**PRODUCE, "acks": acks}, PRODUCED, takes=0.01)
    client.talk.close()
    packets = client.talk.packets
    whole = judged(packets, tmp_path)
    assert sorted({*whole}) == ["failed", "passed"]
    cuts = [packets[:at] + packets[at + many :] for many in (1, 7) for at in range(len(packets) - many - 3)]
    ports = [
        [each for each in packets if each.data[34:36] == port]
        for port in (pack(">H", 40000), pack(">H", 9092))
    ]
    undecided = 0
    snaps = [(packets, {"snap_length": length}) for length in (60, 70, 90)]
    for cut, more in (*((cut, {}) for cut in (*cuts, *ports)), *snaps):
        found = judged(cut, tmp_path, **more)
        pairs = [
            pair for pair in zip(RULES, whole, found, strict=True) if pair[2] not in (pair[1], "unknown")
        ]
        assert pairs == []
        undecided += found.count("unknown")
    assert undecided > len(cuts)


def test_what_a_real_capture_lacks_breaks_no_rule(tmp_path):
    """One side alone, and without its begin."""
    path = CAPTURES / "3.6.2/codecs_aiokafka.pcap.gz"
    port = pack(">H", next(iter(kinspect.read(path))).connection.broker_port)
    lacks = [rule for rule in RULES[-4:] if "truncated_lists" not in rule.get("have", ())]

    def statuses(taken):
        part = tmp_path / "part.pcap"
        part.write_bytes(pcap([(packet.time // 1000, packet.data) for packet in taken]))
        return {row["status"] for row in kinspect.check([make_rule("", rule) for rule in lacks], part)}

    whole = packets(path)
    sides = [[each for each in whole if each.data[at : at + 2] == port] for at in (34, 36)]
    assert all(sides)
    assert statuses(whole) == {"passed"}
    for part in (*sides, whole[len(whole) // 3 :]):
        assert statuses(part) == {"unknown"}


def test_a_pass_of_nothing_says_so(kinspect, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "x"\nwhere.api = "ShareFetch"\nhave.group_id = "g"\ncount = "0.."')
    command = "check", WHOLE, "--rules", rules, "-q", "--format"
    assert kinspect(*command, "table").out == "passed   x  (no exchange)\n"
    assert kinspect(*command, "github").out == "::notice title=x (passed)::no exchange\n"
    (case,) = ElementTree.fromstring(kinspect(*command, "junit").out).iter("testcase")
    assert [(each.tag, each.text) for each in case] == [("system-out", "no exchange")]


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (
            'have."client.id" = [1, true]',
            'client.id is a text, as "pg-jt-idem", and never a number or true or false',
        ),
        ('have.tls = "no"', "tls is true or false, as false, and never a text"),
        ('where.latency_ms = "1"\ncount = 0', "latency_ms is a number, as "),
    ],
)
def test_a_value_of_another_kind_than_the_keys_fails_its_rule_alone(check, rule, says):
    rows = check(WHOLE, rule, 'where.api = "Produce"\nhave.acks = -1')
    assert rows[0]["status"] == "failed"
    assert says in rows[0]["seen"]
    assert [row["status"] for row in rows[1:]] == ["passed"]


def test_paths_are_those_of_bodies(check):
    """Also through what kinspect adds: decoded bytes, records, names of topic ids."""
    group = CAPTURES / "4.4.0/groups_classic.pcap.gz"
    decoded = "assignments.assignment_decoded.assigned_partitions.topic"
    rows = check(
        group,
        f'where = {{ api = "SyncGroup", "{decoded}" = "pc-grp" }}\ncount = "1.."',
        'where = { api = "JoinGroup", "protocols.metadata_decoded.topics" = "pc-grp" }\ncount = "1.."',
        'where = { api = "Fetch", "request.body.topics.topic_name_resolved" = "no" }\ncount = 0',
        'where = { "request.body.groups" = "x" }\ncount = 0',
    )
    assert [row["status"] for row in rows] == ["passed"] * 4
    codec = "topic_data.partition_data.records.batches.compression"
    (row,) = check(WHOLE, f'where = {{ api = "Produce", "{codec}" = "zstd" }}\ncount = 0')
    assert row["status"] == "passed"


def test_a_list_that_is_null_has_no_entries(check):
    """Metadata that asks for all topics."""
    path = CAPTURES / "4.4.0/admin_java.pcap.gz"
    (row,) = check(
        path, 'where = { api = "Metadata", "request.body.topics.name" = "nonexistent" }\ncount = 0'
    )
    assert row["status"] == "passed"


def test_a_topic_whose_name_is_not_known_may_be_any(check):
    path = CAPTURES / "4.4.0/kip848.pcap.gz"
    (row,) = check(path, 'where.api = "ConsumerGroupHeartbeat"\nhave.topics = "p*"')
    assert row["status"] != "failed"


def test_evidence_of_errors_names_them(check):
    (row,) = check(WHOLE, "where.errors_only = true\ncount = 0")
    assert {each["seen"] for each in row["evidence"]} == {"UNSUPPORTED_VERSION"}


def test_a_rate_is_unknown_where_times_are_wrong(tmp_path):
    rule = make_rule("", {"where": {"api": "Produce"}, "per_second": 1})
    for exchange in kinspect.read(produced(tmp_path, 1, 1)):
        rule.take(exchange)
    assert rule.result([])["status"] == "failed"
    row = rule.result([], ["a clock was set"])
    assert (row["status"], row["reasons"]) == ("unknown", ["a clock was set"])


def test_unknown_is_broken_unless_it_is_allowed(check):
    rule = 'where.api = "Metadata"\nper_second = 20'
    (row,) = check(MIDDLE, rule)
    assert (row["status"], row["broken"], row["unsure"]) == ("unknown", True, 1)
    assert "2 connections under way at the start" in row["reasons"]
    (allowed,) = check(MIDDLE, rule, options=["--allow-unknown"])
    assert allowed == {**row, "broken": False}
    (failed,) = check(MIDDLE, 'where.api = "Metadata"\ncount = 0', options=["--allow-unknown"])
    assert failed["broken"]


def test_cut_messages_say_what_is_left_of_them(check, tmp_path):
    """A snap length that keeps `acks`, and none of the topics."""
    client = Client()
    client.ask(0, 3, {**PRODUCE, "acks": 1}, PRODUCED)
    path = tmp_path / "cut.pcap"
    path.write_bytes(pcap(client.talk.packets, snap_length=54 + 4 + 8 + 5 + 2 + 2 + 4))
    names = '"request.body.topic_data.name"'
    rows = check(
        path, "where = { api = 'Produce' }\nhave.acks = -1", f"where.api = 'Produce'\nhave.{names} = 'o*'"
    )
    assert [row["status"] for row in rows] == ["failed", "unknown"]
    assert "1 exchange of which request.body.topic_data.name is not known" in rows[1]["reasons"]


def test_secrets_are_neither_compared_nor_shown(check, tmp_path):
    client = Client()
    client.ask(36, 0, {"auth_bytes": b"\0me\0secret"}, {"error_code": 0})
    path = tmp_path / "login.pcap"
    path.write_bytes(recorded(client))
    (row,) = check(path, 'where.api = "SaslAuthenticate"\nhave.auth_bytes = "AG1lAHNlY3JldA=="')
    assert row["status"] == "unknown"
    assert row["reasons"] == ["1 exchange of which auth_bytes is not known"]


def test_tls_is_unknown_without_its_secrets(check):
    capture, keys = (CAPTURES / "tls" / f"tls13.{ending}" for ending in ("pcap.gz", "keys.log"))
    rules = 'where.api = "Produce"\ncount = 2', 'where.api = "Metadata"\ncount = "..10"', "per_second = 100"
    hidden = check(capture, *rules)
    assert [row["status"] for row in hidden] == ["unknown"] * 3
    assert hidden[0]["reasons"][1] == "7 TLS connections not decrypted (see --keylog)"
    assert [row["status"] for row in check(capture, *rules, options=["--keylog", keys])] == ["passed"] * 3


def test_a_filter_limits_what_is_checked(check):
    rules = 'where.api = "Metadata"\ncount = "1.."', 'where.api = "Fetch"\ncount = 0'
    assert [row["status"] for row in check(WHOLE, *rules, options=["--api", "Metadata"])] == ["passed"] * 2


def test_times_may_be_relative(check):
    rows = check(WHOLE, 'where.since = "+0s"\ncount = 105', 'where.until = "+0s"\ncount = 0')
    assert [row["status"] for row in rows] == ["passed"] * 2


@pytest.mark.parametrize("form", ["table", "junit", "github"])
def test_hostile_texts_are_escaped(kinspect, tmp_path, form):
    client = Client(name=HOSTILE)
    client.ask(0, 3, {**PRODUCE, "acks": 1}, PRODUCED)
    client.talk.close()
    path, rules = tmp_path / "hostile.pcap", tmp_path / "rules.toml"
    path.write_bytes(recorded(client))
    rules.write_text(f"[[rule]]\nname = {json.dumps(HOSTILE)}\nhave = {{ acks = -1, 'client.id' = 'me' }}")
    found = kinspect("check", path, "--rules", rules, "--format", form, "-q")
    assert (found.status, found.err) == (4, "")
    assert "\x1b" not in found.out
    assert "\u202e" not in found.out
    if form == "junit":
        (case,) = ElementTree.fromstring(found.out).iter("testcase")
        assert "<\\x1b[31m&\\u202e%0A" in case.attrib["name"]
        assert "acks = 1" in case[0].attrib["message"]
        assert "hostile.pcap frame 4" in case[0].text
    else:
        lines = found.out.splitlines()
        begins = [line for line in lines if line.lstrip().startswith("::")]
        assert (begins, len(lines)) == ((lines, 1) if form == "github" else ([], len(lines)))
        assert form != "github" or lines[0].startswith("::error title=a]]><\\x1b[31m&\\u202e%250A%3A%3Aerror")


def test_reports_of_what_is_allowed(kinspect, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\nname = "quiet"\nwhere.api = "Fetch"\nper_second = 1000\n[[rule]]\nname="x"\ncount="1.."'
    )
    command = "check", MIDDLE, "--rules", rules, "--allow-unknown", "-q", "--format"
    suite = ElementTree.fromstring(kinspect(*command, "junit").out)
    assert suite.attrib == {"tests": "2", "failures": "0", "skipped": "1"}
    assert [[each.tag for each in case] for case in suite.iter("testcase")] == [["skipped"], []]
    assert kinspect(*command, "github").out.startswith(
        "::warning title=quiet (unknown)::expected at most 1,000"
    )
    found = kinspect(*command, "table", "-o", tmp_path / "out.txt")
    assert (found.status, found.out) == (0, "")
    assert (tmp_path / "out.txt").read_text().splitlines()[-1] == "passed   x"
    told = kinspect("check", MIDDLE, "--rules", rules).err.splitlines()
    assert told[-1] == "2 rules: 1 passed, 1 unknown"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must have a table [[rule]] for each rule"),
        ("x = 1", "and nothing else: 'x'"),
        ("rule = 1", "must have a table"),
        ("[[rule]]\n", "rule 1: needs a name"),
        ("[[rule]]\nname = 'a'\n", "rule 1, 'a': expects nothing"),
        ("[[rule]]\nname = 'a'\ncuont = 1", "there is no 'cuont' in a rule: did you mean count?"),
        ("[[rule]]\nname = 'a'\ncount = 'x'", "count: 'x' is neither a number nor a range"),
        ("[[rule]]\nname = 'a'\ncount = '3..1'", "count: '3..1' is neither"),
        ("[[rule]]\nname = 'a'\ncount = -1", "count: -1 is neither"),
        ("[[rule]]\nname = 'a'\nper_second = 0", "per_second: 0 is not a number from 1"),
        ("[[rule]]\nname = 'a'\nwhere = 1\ncount = 1", "where: must be a table"),
        ("[[rule]]\nname = 'a'\ncount = 1\nwhere.api = 'Porduce'", "there is no API 'Porduce'"),
        ("[[rule]]\nname = 'a'\nversions.Porduce = 1", "versions: there is no API 'Porduce'"),
        ("[[rule]]\nname = 'a'\nhave.akcs = 1", "unknown field 'request.body.akcs'"),
        ("[[rule]]\nname = 'a'\nhave.acks__lt = 'x'", "'x' is no number to compare with"),
        ("[[rule]]\nname = 'a'\nhave.acks = 2020-01-01", "is neither a text, a number"),
        ("[[rule]]\nname = 'a'\nhave.errors_only = false", "errors_only: has no value"),
        ("[[rule]]\nname = 'a'\nhave.outcome = 'respnded'", "have: outcome: is never 'respnded': "),
        ("[[rule]]\nname = 'a'\nhave.kind = 'x'", "kind: is never 'x': it is one of kafka, sasl_token"),
        ("[[rule]]\nname = 'a'\nhave.'client.id' = '!x'", "has a name with __ne, and no !"),
        ("[[rule]]\nname = 'a'\nhave.topic__ne = 'x'", "topic is a filter, which has no comparisons"),
        (
            "[[rule]]\nname = 'a'\ncount = 0\nwhere = { api = 'Metadata', acks = 1 }",
            "where: acks: no version of Metadata has a field 'acks' in its request",
        ),
        ("[[rule]]\nname = 'a'\nhave.error_code__ne = 0", "no API has a field 'error_code' in its request"),
        ("[[rule]]\nname = 'a'\ncount = 1\n" * 2, "rule 2: has the name of rule 1, 'a'"),
        ("[[rule]]\nname = 'a'\nhave.acks = '1'", "have: acks: is a number, and never a text"),
        ("[[rule]]\nname = 'a'\nhave.acks = true", "have: acks: is a number, and never true or false"),
        ("[[rule]]\nname = 'a'\nhave.acks = []", "[] has no value"),
        ("[[rule]]\nname = 'a'\nhave.acks = nan", "nan is no number"),
        ("[[rule]]\nname = 'a'\nhave.latency_ms__lt = inf", "inf is no number"),
        ("[[rule]]\nname = 'a'\nhave.acks = 99999999999999999999", "has more than 64 bits"),
        (
            "[[rule]]\nname = 'a'\nhave.client = 'x'",
            "client: is an object: ask for one of client.ip, client.port",
        ),
        (
            "[[rule]]\nname = 'a'\nhave.'client.id.x' = 1",
            "unknown field 'client.id.x'; there is nothing below it",
        ),
        ("[[rule]]\nname = 'a'\nhave.'request.frames.frst' = 1", "it has file, first, last, packets"),
        ("[[rule]]\nname = 'a'\nversions = { fetch = 1, Fetch = 2 }", "Fetch is named twice"),
        (
            "[[rule]]\nname = 'a'\ncount = 0\nwhere = { api = 'Produce', compression = 'zstd' }",
            "no version of Produce has a field 'compression' in its request",
        ),
        (
            "[[rule]]\nname = 'a'\ncount = 0\nwhere = { api = 'Produce', 'topic_data.acks' = 1 }",
            "no version of Produce has a field 'topic_data.acks' in its request",
        ),
        ("x = " + "[" * 100_000, "is nested too deeply"),
        ("\ud800", "is not UTF-8"),
        ("[[rule]]\nname = 'a'\ncount = 1\n" * 501, "has 501 rules"),
        ("#" * (1 << 20) + "#", "is larger than 1MiB"),
    ],
)
def test_what_is_no_rule_is_refused(kinspect, tmp_path, text, says):
    path = tmp_path / "rules.toml"
    path.write_bytes(text.encode(errors="surrogatepass"))
    found = kinspect("check", WHOLE, "--rules", path)
    assert (found.status, found.out) == (2, "")
    assert says in found.err.replace("\\n", " ")


def test_what_cannot_be_read_has_no_results(kinspect, tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rule]]\nname = 'a'\ncount = 0")
    found = kinspect("check", tmp_path / "none", "--rules", rules, "--format", "jsonl")
    assert (found.status, found.out) == (1, "")
    assert kinspect("check", WHOLE, "--rules", rules, "-o", rules, "--force").status == 2
    assert kinspect("check", WHOLE).status == 2
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(MIDDLE.read_bytes()[:-10])
    rules.write_text("[[rule]]\nname = 'a'\nwhere.api = 'Heartbeat'\nper_second = 100")
    found = kinspect("check", cut, "--rules", rules, "--format", "jsonl", "--allow-unknown")
    assert found.status == 3
    assert any("ends in the middle" in reason for reason in json.loads(found.out)["reasons"])
