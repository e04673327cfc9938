"""Upgrade: rows against the versions in the lines of `kinspect read`, and against what the clients are known to be."""

import gzip
import json
import random
from collections import Counter, defaultdict
from functools import partial

import pytest
from support.captures import CAPTURES, each_folder
from support.packets import cut_at, nanosecond_pcap, packets
from support.pcap import Conversation, framed, pcap
from support.shares import one_in

from kinspect.api import answer
from kinspect.protocol import Message, encode_request, encode_response

CLUSTER = {"follower", "controller", "broker"}
PRODUCE, FETCH, METADATA, LIST_OFFSETS, API_VERSIONS, VOTE = 0, 1, 3, 2, 18, 52
# Of old brokers: they will do with kafka-python, sarama, kafkajs and librdkafka as much as with Java.
OLD = "2.8.2/kafkapython-av082.pcap"
MID_STREAM = "0.10.2.2/midstream.pcap"


@pytest.fixture
def rows(answer_rows):
    return partial(answer_rows, "upgrade")


@pytest.fixture
def ranges(kinspect):
    def ranges(release):
        found = json.loads(kinspect("schema", "releases", release, "--format", "json").out)
        return {api["name"]: (api["min_version"], api["max_version"]) for api in found}

    return ranges


# ---------------------------------------------------------------------- all captures


class Seen:
    """What a client's lines say."""

    def __init__(self):
        self.roles = set()
        self.requests = 0
        self.low = defaultdict(Counter)
        self.sure = False


def told(lines):
    """Newest versions by broker, as its ApiVersions answers tell."""
    found = {}
    for line in lines:
        if line["api"] == "ApiVersions" and line["request"] and line["response"]:
            body = line["response"]["body"] or {}
            if body.get("error_code") == 0:
                newest = {api["api_key"]: api["max_version"] for api in body.get("api_keys", [])}
                found[line["broker"]["ip"], line["broker"]["port"]] = newest
    return found


def client_of(line):
    return line["client"]["id"], line["client"]["ip"]


def expected(lines, ranges):
    """Verdict and low versions of each client."""
    whole = {
        line["connection_id"]
        for line in lines
        if line["type"] == "connection" and line["handshake_seen"] and not line["gaps"]
    }
    lines = [line for line in lines if line["type"] == "exchange"]
    newest, clients = told(lines), defaultdict(Seen)
    in_part = {client_of(line) for line in lines if line["connection_id"] not in whole}
    asked = {client_of(line) for line in lines if line["api"] == "ApiVersions" and line["request"]}
    negotiates = {
        key: True if key in asked else None if key in in_part else False for key in map(client_of, lines)
    }
    for line in lines:
        client = clients[client_of(line)]
        client.roles.add(line["client"]["role"])
        if line["request"] is None:
            continue
        client.requests += 1
        version = line["api_version"]
        if line["kind"] == "kafka" and version < ranges.get(line["api"], (0, 0))[0]:
            client.low[line["api"]][version] += 1
            has = newest.get((line["broker"]["ip"], line["broker"]["port"]), {}).get(line["api_key"])
            chose = has is not None and version < has
            client.sure = client.sure or chose or negotiates[client_of(line)] is False
    return {
        key: (
            "breaks"
            if client.sure
            else "unknown"
            if client.low or not client.requests or key in in_part
            else "ok",
            {
                api: ([*sorted(versions)], versions.total(), negotiates[key])
                for api, versions in client.low.items()
            },
        )
        for key, client in clients.items()
        if client.roles.isdisjoint(CLUSTER)
    }


@each_folder
def test_low_versions_are_those_of_the_lines(every_line, rows, ranges, folder):
    newest = ranges("4.4.0")
    for capture in sorted(path for path in folder.iterdir() if ".pcap" in path.name):
        lines = every_line(capture)
        found = {
            (row["client_id"], row["client_ip"]): (
                row["verdict"],
                {each["api"]: (each["used"], each["requests"], each["negotiates"]) for each in row["breaks"]},
            )
            for row in rows(capture)
        }
        assert found == expected(lines, newest), capture


@pytest.mark.parametrize(
    ("capture", "client_id", "verdict", "used"),
    [
        # Versions fixed by its configuration.
        (OLD, "c-canyon-kp", "breaks", {"Produce": [0]}),
        # librdkafka 1.0.1 negotiates, but commits offsets in a version below the broker's.
        (
            "0.10.0.1/librdkafka1-auto.pcap",
            "c-prairie-rd1-c",
            "breaks",
            {"Fetch": [2], "ListOffsets": [0], "OffsetCommit": [1]},
        ),
        # librdkafka 2 on a broker that has nothing newer.
        ("0.10.2.2/ipv6.pcap", "v6", "unknown", {"Produce": [2]}),
        # Connected before the capture began: nobody knows whether it negotiated.
        (MID_STREAM, "mid-c", "unknown", {"Fetch": [3]}),
        ("4.4.0/groups_classic.pcap.gz", "pc-jv-1", "ok", {}),
        ("3.6.2/groups_classic.pcap.gz", "pg-kp-1", "ok", {}),
    ],
)
def test_verdict_of_clients_that_the_manifest_tells(rows, capture, client_id, verdict, used):
    (row,) = [row for row in rows(CAPTURES / capture) if row["client_id"] == client_id]
    assert row["verdict"] == verdict
    assert {each["api"]: each["used"] for each in row["breaks"]} == used


def test_clients_of_today_are_fine_with_an_older_release(rows):
    for row in rows("--to", "2.8", CAPTURES / "4.4.0/groups_classic.pcap.gz"):
        assert (row["verdict"], row["breaks"]) == ("ok", []), row


def test_brokers_among_themselves_are_left_out(rows):
    assert {row["client_id"] for row in rows(CAPTURES / "4.4.0/kafkajs.pcap.gz")} == {"pc-kafkajs"}


@pytest.mark.parametrize(
    ("to", "format_of", "deed"), [("4.4.0", [0], "refuses"), ("3.9", [0], "converts"), ("0.8.2", [], "")]
)
def test_record_formats_are_converted_or_refused(rows, to, format_of, deed):
    found = rows("--to", to, CAPTURES / OLD)
    formats = [each for row in found for each in row["down_conversion"] if each["api"] == "Produce"]
    assert [each["format"] for each in formats] == format_of
    assert {each["release"] for each in formats} <= {deed}


# ---------------------------------------------------------------------- conversations


def request(api_key, version, body, client_id="c"):
    return framed(encode_request(Message(api_key, version, 1, body, client_id)))


def response(api_key, version, body):
    return framed(encode_response(Message(api_key, version, 1, body, direction="response")))


def ranged(*apis):
    keys = [{"api_key": key, "min_version": 0, "max_version": newest} for key, newest in apis]
    return response(API_VERSIONS, 0, {"error_code": 0, "api_keys": keys})


ASK = request(API_VERSIONS, 0, {})
LOW = request(LIST_OFFSETS, 0, {"replica_id": -1, "topics": []})
LOW_ANSWER = response(LIST_OFFSETS, 0, {"topics": []})


def talk(*said, port=40000, broker=9092):
    """A connection on which the client sends and the broker answers in turn."""
    conversation = Conversation(client=("10.0.0.1", port), broker=("10.0.0.9", broker))
    conversation.open()
    for number, data in enumerate(said):
        (conversation.broker_sends if number % 2 else conversation.client_sends)(data)
    conversation.close()
    return conversation.packets


@pytest.fixture
def made(rows, tmp_path):
    def made(packets, *arguments):
        path = tmp_path / "made.pcap"
        path.write_bytes(pcap(sorted(packets)))
        return rows(*arguments, path)

    return made


@pytest.mark.parametrize(
    ("said", "verdict", "negotiates"),
    [
        ([LOW, LOW_ANSWER], "breaks", False),
        ([ASK, ranged((LIST_OFFSETS, 0)), LOW, LOW_ANSWER], "unknown", True),
        ([ASK, ranged((LIST_OFFSETS, 5)), LOW, LOW_ANSWER], "breaks", True),
        # The broker does not tell: it may be an old one.
        ([ASK, ranged(), LOW, LOW_ANSWER], "unknown", True),
    ],
)
def test_a_low_version_breaks_unless_an_older_broker_had_nothing_newer(made, said, verdict, negotiates):
    (row,) = made(talk(*said))
    assert row["verdict"] == verdict
    assert row["breaks"] == [
        {"api": "ListOffsets", "used": [0], "supported": [1, 11], "requests": 1, "negotiates": negotiates}
    ]


def test_a_newer_broker_tells_of_a_client_that_chose_no_better(made):
    packets = [
        *talk(ASK, ranged((LIST_OFFSETS, 0)), LOW, LOW_ANSWER),
        *talk(ASK, ranged((LIST_OFFSETS, 5)), LOW, LOW_ANSWER, port=40001, broker=9093),
    ]
    (row,) = made(packets)
    assert (row["verdict"], row["breaks"][0]["requests"]) == ("breaks", 2)


@pytest.mark.parametrize(
    ("packets", "unsupported", "note"),
    [
        (
            talk(ASK, ranged((LIST_OFFSETS, 0)), LOW, LOW_ANSWER),
            True,
            "beside UNSUPPORTED: the client may have newer",
        ),
        (
            talk(ASK, ranged((LIST_OFFSETS, 5)))[3:],
            False,
            "with nothing UNSUPPORTED: not all that the client sent",
        ),
        (talk(LOW, LOW_ANSWER), True, None),
    ],
)
def test_tables_say_what_unknown_means(kinspect, tmp_path, packets, unsupported, note):
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(packets))
    titles, row, *lines = kinspect("upgrade", "--format", "table", path).out.splitlines()
    assert ("UNSUPPORTED" in titles.split(), "ListOffsets 0 (has 1-11)" in row) == (unsupported, unsupported)
    found = [line for line in lines if line.startswith("unknown ")]
    assert len(found) == (note is not None)
    assert all(f"unknown {note}" in line for line in found)


HIGH = [request(METADATA, 9, {"topics": []}), response(METADATA, 9, {})]
SHARE = [request(76, 1, {"group_id": "g", "member_id": "m"}), response(76, 1, {})]


@pytest.mark.parametrize(
    ("said", "to", "verdict", "supported"),
    [
        (HIGH, "2.0", "breaks", [[0, 6]]),
        ([ASK, ranged((METADATA, 9)), *HIGH], "2.0", "ok", []),
        (HIGH, "4.4.0", "ok", []),
        # A broker that did not answer may not have had it either.
        (HIGH[:1], "2.0", "ok", []),
        (SHARE, "3.0", "breaks", [[]]),
        ([ASK, ranged((76, 1)), *SHARE], "3.0", "unknown", [[]]),
    ],
)
def test_what_an_older_release_lacks(made, said, to, verdict, supported):
    (row,) = made(talk(*said), "--to", to)
    assert (row["verdict"], [each["supported"] for each in row["breaks"]]) == (verdict, supported)
    assert row["to"] == to


# ---------------------------------------------------------------------- brokers of a capture


def offers(path, *brokers):
    """A capture in which brokers offer versions: {API key: (least, greatest)}."""
    packets = []
    for number, apis in enumerate(brokers):
        keys = [
            {"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in apis.items()
        ]
        answer = response(API_VERSIONS, 0, {"error_code": 0, "api_keys": keys})
        packets += talk(ASK, answer, port=50000 + number, broker=9000 + number)
    path.write_bytes(pcap(sorted(packets)))
    return path


@pytest.mark.parametrize(
    ("brokers", "verdict", "supported"),
    [
        ([{METADATA: (0, 5), LIST_OFFSETS: (0, 3)}], "ok", []),
        ([{METADATA: (0, 5), LIST_OFFSETS: (1, 3)}], "breaks", [[1, 3]]),
        # It may come to either.
        (
            [{METADATA: (0, 5), LIST_OFFSETS: (0, 3)}, {METADATA: (0, 5), LIST_OFFSETS: (2, 9)}],
            "breaks",
            [[2, 3]],
        ),
        ([{METADATA: (0, 5), LIST_OFFSETS: (0, 3)}, {METADATA: (0, 5)}], "breaks", [[]]),
        # Nobody asks a controller for offsets.
        ([{METADATA: (0, 5), LIST_OFFSETS: (0, 3)}, {VOTE: (0, 2)}], "ok", []),
    ],
)
def test_brokers_of_another_capture(made, tmp_path, brokers, verdict, supported):
    to = offers(tmp_path / "to.pcap", *brokers)
    (row,) = made(talk(LOW, LOW_ANSWER), "--to", to)
    assert (row["verdict"], [each["supported"] for each in row["breaks"]]) == (verdict, supported)
    assert row["to"] == str(to)


@pytest.mark.parametrize("release", ["4.4.0/franz.pcap.gz", "2.8.2/adminclient.pcap.gz"])
def test_brokers_of_a_release_break_what_the_release_does(rows, release):
    """Its ApiVersions answers offer a Produce that it refuses (KAFKA-18659)."""
    for capture in (OLD, "3.6.2/groups_classic.pcap.gz"):
        found = (rows("--to", to, CAPTURES / capture) for to in (CAPTURES / release, release[:5]))
        told, known = ([{**row, "to": None} for row in each] for each in found)
        assert told == known


def test_a_capture_that_tells_no_versions_is_a_wrong_use(kinspect, tmp_path):
    for path, said in ((tmp_path / "none.pcap", "no broker tells"), (tmp_path / "x.txt", "x.txt")):
        path.write_bytes(pcap(talk(LOW, LOW_ANSWER)) if path.suffix == ".pcap" else b"no capture")
        done = kinspect("upgrade", "--to", path, CAPTURES / OLD)
        assert (done.status, done.out) == (2, "")
        assert said in done.err


def test_the_key_log_is_that_of_both_captures(kinspect, rows):
    to, keylog = CAPTURES / "tls/go.pcap.gz", CAPTURES / "tls/go.keys.log"
    done = kinspect("upgrade", "--to", to, CAPTURES / OLD)
    assert (done.status, done.out) == (2, "")
    assert done.err.splitlines()[-1].endswith(
        "go.pcap.gz: no broker tells its versions there: no Kafka was decoded: the connections are TLS, and no secrets"
        " were given"
    )
    assert {row["to"] for row in rows("--to", to, "--keylog", keylog, CAPTURES / OLD)} == {str(to)}
    assert {row["to"] for row in answer("upgrade", CAPTURES / OLD, to=to, keylog=keylog)["rows"]} == {str(to)}


def test_python_takes_the_path_of_a_capture(tmp_path):
    to = offers(tmp_path / "to.pcap", {METADATA: (0, 5), LIST_OFFSETS: (1, 3)})
    (tmp_path / "made.pcap").write_bytes(pcap(talk(LOW, LOW_ANSWER)))
    (row,) = answer("upgrade", tmp_path / "made.pcap", to=to)["rows"]
    assert (row["verdict"], row["to"]) == ("breaks", str(to))


# ---------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--fail-on", "breaks"], 4), ([], 0), (["--fail-on", "breaks", "--to", "2.8.2"], 0)],
)
def test_exit_status(kinspect, arguments, status):
    assert kinspect("upgrade", *arguments, CAPTURES / OLD).status == status


@pytest.mark.parametrize(
    ("asked", "having"),
    [("--fail-on=breaks", "connect and upgrade"), ("--every=10s", "groups"), ("--fail", "")],
)
def test_an_option_of_other_answers_names_these(kinspect, asked, having):
    done = kinspect("topics", CAPTURES / OLD, asked)
    assert (done.status, done.out) == (2, "")
    told = f"Error: {asked.partition('=')[0]} is an option of {having} only.\n"
    assert (told in done.err) == bool(having)


def test_the_highest_exit_status_wins(kinspect, tmp_path):
    path = tmp_path / "cut.pcap"
    path.write_bytes((CAPTURES / OLD).read_bytes()[:-5])
    assert kinspect("upgrade", path).status == 3
    assert kinspect("upgrade", "--fail-on", "breaks", path).status == 4


@pytest.mark.parametrize("release", ["5.0", "", "x", "4.4.0 ", "9" * 5000])
def test_an_unknown_release_is_a_wrong_use(kinspect, release):
    done = kinspect("upgrade", "--to", release, CAPTURES / OLD)
    assert (done.status, done.out) == (2, "")
    assert "there is no release" in done.err


def test_several_processes_count_the_same(kinspect):
    captures = [CAPTURES / OLD, CAPTURES / "4.4.0/groups_classic.pcap.gz"]
    one, two = (kinspect("upgrade", "--to", "3.9", "--jobs", jobs, *captures).out for jobs in (1, 2))
    assert json.loads(one)["rows"] == json.loads(two)["rows"]


# ---------------------------------------------------------------------- hostile input


@pytest.mark.parametrize(
    "capture", one_in(2, ["4.4.0/groups_classic.pcap.gz", "4.4.0/cluster_kraft.pcap.gz"])
)
@pytest.mark.parametrize("seed", one_in(4, range(4)))
def test_damaged_messages_give_a_result(all_answers, tmp_path, capture, seed):
    rng = random.Random(seed)
    data = bytearray(gzip.decompress((CAPTURES / capture).read_bytes()))
    start = 24
    while start < len(data):
        size = int.from_bytes(data[start + 8 : start + 12], "little")
        # Behind Ethernet, IP and TCP: what is said, and not where packets end.
        if size > 100:
            for at in rng.sample(range(start + 16 + 66, start + 16 + size), 2):
                data[at] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        start += 16 + size
    path = tmp_path / "damaged.pcap"
    path.write_bytes(data)
    rows = all_answers(path)
    assert rows["clients"]
    assert rows["upgrade"]


def test_a_release_may_be_named_as_its_tag_is(answer_rows):
    capture = CAPTURES / "0.10.0.1" / "librdkafka1-auto.pcap"
    assert answer_rows("upgrade", "--to", "v4.0", capture) == answer_rows("upgrade", "--to", "4.0", capture)


def test_who_shows_no_role_in_cut_requests_alone_may_be_a_broker(rows, tmp_path):
    whole = CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz"
    part = tmp_path / "part.pcap"
    part.write_bytes(nanosecond_pcap([cut_at(packet, 96) for packet in packets(whole)]))
    clients = [{row["client_id"] for row in rows(path)} for path in (whole, part)]
    assert clients[1] <= clients[0]
    assert "pc-clp" in clients[1]
