"""Topics: rows equal plain sums over the lines of `kinspect read --records`."""

import json
from collections import Counter, defaultdict
from functools import partial

import pytest
from analysis.runs import Talk, fetch_of_a_topic_without_a_name, rows_of
from support.captures import CAPTURES, captures, each_folder
from support.packets import nanosecond_pcap, packets, tcp
from support.shares import one_in

from kinspect import read


@pytest.fixture
def rows(answer_rows):
    return partial(answer_rows, "topics")


def produced(line):
    """Each topic of a Produce, with its partitions' record sets."""
    for topic in (line["request"]["body"] or {}).get("topic_data", []):
        name = topic.get("name") or topic.get("topic_name_resolved") or topic["topic_id"]
        yield name, [part["records"] for part in topic.get("partition_data", []) if part.get("records")]


def fetched(line):
    for topic in ((line["response"] or {}).get("body") or {}).get("responses", []):
        name = topic.get("topic") or topic.get("topic_name_resolved") or topic.get("topic_id")
        yield name, [part["records"] for part in topic.get("partitions", []) if part.get("records")]


def sums(lines, names):
    """Batches, records by topic, direction and client, of complete messages."""
    found = defaultdict(Counter)
    for line in lines:
        if line["request"] is None or not line["request"]["complete"]:
            continue
        each, direction = {"Produce": (produced, "produce"), "Fetch": (fetched, "consume")}.get(
            line["api"], (None, None)
        )
        if each is None:
            continue
        body = line["request"]["body"] or {}
        if (body.get("replica_state") or body).get("replica_id", -1) >= 0:
            direction = "replicate"
        for topic, sets in each(line):
            key = names.get(topic, topic), direction, line["client"]["id"], line["client"]["ip"]
            found[key]["batches"] += sum(len(one["batches"]) for one in sets)
            found[key]["records"] += sum(batch["count"] or 0 for one in sets for batch in one["batches"])
    return {key: dict(+count) for key, count in found.items() if +count}


def names_of(lines):
    """Names by id that any message tells."""
    told = {}

    def walk(value):
        if isinstance(value, dict):
            name = value.get("name") or value.get("topic_name") or value.get("topic")
            if isinstance(name, str) and isinstance(value.get("topic_id"), str):
                told[value["topic_id"]] = name
            if value.get("topic_name_resolved"):
                told[value["topic_id"]] = value["topic_name_resolved"]
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    for line in lines:
        walk([line[side] and line[side]["body"] for side in ("request", "response")])
    return told


def test_a_filter_by_names_is_told(kinspect):
    capture = CAPTURES / "4.4.0" / "groups_classic.pcap.gz"
    told = "only exchanges that name such a group were counted"
    shown = [
        kinspect(answer, "--format", "table", *given, capture).out
        for answer, *given in (
            ("latency", "--group", "pc-grp-java"),
            ("latency", "--api", "Fetch"),
            ("topics", "--group", "pc-grp-java"),
        )
    ]
    assert [told in text.splitlines() for text in shown] == [True, False, False]
    found = kinspect("latency", "--format", "json", "--topic", "*", "--group", "*", capture)
    assert json.loads(found.out)["capture"]["only_naming"] == ["group", "topic"]


@pytest.mark.parametrize("name", one_in(2, ["4.4.0/groups_classic.pcap.gz", "4.4.0/cluster_kraft.pcap.gz"]))
def test_a_topic_that_is_asked_for_has_its_rows_and_no_other_topic_has(rows, name):
    """A Fetch of a session may name no topic, and one exchange several."""
    whole = rows(CAPTURES / name)
    for topic in {row["topic"] for row in whole}:
        assert rows("--topic", topic, CAPTURES / name) == [row for row in whole if row["topic"] == topic]
    some = min(row["topic"] for row in whole)
    assert rows("--topic", f"!{some}", CAPTURES / name) == [row for row in whole if row["topic"] != some]


@each_folder
def test_counts_are_plain_sums_over_the_lines(lines, rows, folder):
    for capture in captures(folder):
        found = lines("--records", capture)
        expected = sums(found, names_of(found))
        counted = {
            (row["topic"], row["direction"], row["client_id"], row["client_ip"]): {
                key: row[key] for key in ("batches", "records") if row[key]
            }
            for row in rows(capture)
            if row["direction"] in ("produce", "consume", "replicate")
        }
        share = {key for key in counted if key not in expected}
        assert {key: value for key, value in counted.items() if value and key not in share} == expected, (
            capture
        )


def strings(value):
    if isinstance(value, dict):
        value = [*value.values()]
    return (
        {value}
        if isinstance(value, str)
        else set().union(*map(strings, value))
        if isinstance(value, list)
        else set()
    )


@each_folder
def test_a_group_stands_beside_topics_that_its_messages_name(lines, rows, folder):
    """Not beside all that the same client id and address reads."""
    for capture in captures(folder):
        found = lines(capture)
        names, beside = names_of(found), defaultdict(set)
        for line in found:
            if line["groups"]:
                named = strings([line[side] and line[side]["body"] for side in ("request", "response")])
                for group in line["groups"]:
                    beside[group] |= named | {names[name] for name in named & names.keys()}
        for row in rows(capture):
            if row["topic"] is not None:
                assert row["topic"] in set.intersection(
                    {row["topic"]}, *(beside[one] for one in row["groups"])
                )


def test_a_client_of_two_groups_reads_each_topic_for_its_own(tmp_path):
    talk = Talk()
    for group, topic in (("g", "t"), ("h", "u")):
        offsets = [{"name": topic, "partition_indexes": [0]}]
        told = [{"partition_index": 0, "committed_offset": 3, "metadata": "", "error_code": 0}]
        asked = talk.asks(9, 5, {"group_id": group, "topics": offsets})
        talk.answers(asked, {"error_code": 0, "topics": [{"name": topic, "partitions": told}]})
        fetch = {
            "topic": topic,
            "partitions": [{"partition": 0, "fetch_offset": 3, "partition_max_bytes": 9}],
        }
        talk.answers(talk.asks(1, 4, {"replica_id": -1, "topics": [fetch]}), {"responses": []})
    found = {row["topic"]: row["groups"] for row in rows_of("topics", talk.read(tmp_path))}
    assert found == {"t": ["g"], "u": ["h"]}


def test_a_topic_may_have_an_empty_name(kinspect, tmp_path):
    capture = fetch_of_a_topic_without_a_name(tmp_path)
    found = json.loads(kinspect("topics", capture).out)
    assert [row["topic"] for row in found["rows"]] == [""]
    assert found["capture"]["unresolved_topic_ids"] == 0
    _, row, following = kinspect("topics", "--format", "table", tmp_path / "talk.pcap").out.splitlines()
    assert row.split()[:2] == ['""', "consume"]
    assert "--topic" not in following


def test_what_one_side_does_not_show_is_unknown(kinspect, tmp_path):
    capture, part = CAPTURES / "4.4.0" / "groups_classic.pcap.gz", tmp_path / "part.pcap"
    brokers = {exchange.connection.broker_port for exchange in read(capture)}
    sent = [(packet, tcp(packet.data)) for packet in packets(capture)]
    clients = [
        packet for packet, found in sent if found and int.from_bytes(found.ends[0][-2:]) not in brokers
    ]
    part.write_bytes(nanosecond_pcap(clients))
    rows = json.loads(kinspect("topics", part).out)["rows"]
    assert rows
    for row in rows:
        assert [row[key] for key in ("batches", "records", "bytes", "codecs", "errors")] == [None] * 5
    first = kinspect("topics", "--format", "table", part).out.splitlines()[1]
    assert first.split()[4:7] == ["?", "?", "?"]


def acquired(line):
    """Number of records that a ShareFetch's answer hands out."""
    for topic in ((line["response"] or {}).get("body") or {}).get("responses", []):
        for part in topic["partitions"]:
            for one in part.get("acquired_records") or ():
                yield one["last_offset"] - one["first_offset"] + 1


def test_records_that_a_consumer_was_not_given_are_counted_apart(rows, lines):
    capture = CAPTURES / "4.4.0" / "txn_java.pcap.gz"
    found = {(row["client_id"], row["topic"]): row for row in rows(capture) if row["topic"] == "pc-txout"}
    sent = found["pc-jt-txn", "pc-txout"]
    assert sent["delivered"] is None
    committed, all_of_them = (found[f"pc-jt-read_{how}", "pc-txout"] for how in ("committed", "uncommitted"))
    # Markers count as records, and are given to nobody.
    assert committed["records"] == all_of_them["records"] > all_of_them["delivered"] == sent["records"]
    aborted = sum(
        batch["count"]
        for line in lines("--api", "Fetch", "--client-id", "pc-jt-read_committed", "--records", capture)
        for topic in line["response"]["body"]["responses"]
        for part in topic["partitions"]
        for batch in (part["records"] or {"batches": []})["batches"]
        if not batch["is_control"]
        and any(one["producer_id"] == batch["producer_id"] for one in part["aborted_transactions"] or ())
        and any(
            one["first_offset"] <= batch["base_offset"] < marker["base_offset"]
            for one in part["aborted_transactions"]
            for marker in part["records"]["batches"]
            if marker["is_control"]
            and not any(
                one["first_offset"] <= between["base_offset"] < marker["base_offset"]
                for between in part["records"]["batches"]
                if between["is_control"]
            )
        )
    )
    assert committed["delivered"] == all_of_them["delivered"] - aborted
    assert aborted > 0


def test_a_share_consumer_was_given_what_it_acquired(rows, lines):
    capture = CAPTURES / "4.4.0" / "share.pcap.gz"
    given = sum(sum(acquired(line)) for line in lines("--api", "ShareFetch", capture))
    consumed = [row for row in rows(capture) if row["direction"] == "consume"]
    assert sum(row["delivered"] for row in consumed) == given < sum(row["records"] for row in consumed)
