"""Delivery: delays equal those of the single records in the lines of `kinspect read --records`."""

from collections import Counter, defaultdict
from datetime import datetime
from functools import partial
from math import ceil

import pytest
from analysis.runs import Talk, rows_of
from analysis.test_topics import names_of
from support.captures import CAPTURES
from support.pcap import pcap
from support.recordsets import batch
from support.shares import one_in

from kinspect.analysis.answer import ResultContext
from kinspect.answers import deliveryanswer

ALL = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap*"))


@pytest.fixture
def rows(answer_rows):
    return partial(answer_rows, "delivery")


def ns(message, after=0.0):
    """When a message began, or so many milliseconds later; None without a time."""
    if message is None or message["timestamp"] is None:
        return None
    whole, _, nines = message["timestamp"].removesuffix("Z").partition(".")
    seconds = round(datetime.fromisoformat(whole + "+00:00").timestamp())
    return seconds * 10**9 + int(nines) + round(after * 10**6)


def parts_of(message, topics, parts, names):
    for topic in (message["body"] or {}).get(topics) or () if message else ():
        name = topic.get("name") or topic.get("topic") or topic.get("topic_id")
        for part in topic.get(parts) or ():
            index = next(part[key] for key in ("index", "partition", "partition_index") if key in part)
            yield (names.get(name, name), index), part


def records_of(part, aborted=()):
    """Offsets of the records of a partition that a consumer is given."""
    begins, open_ones = sorted((one["first_offset"], one["producer_id"]) for one in aborted or ()), set()
    for one in (part.get("records") or {}).get("batches", ()):
        while begins and begins[0][0] <= one["last_offset"]:
            open_ones.add(begins.pop(0)[1])
        if one["is_control"]:
            open_ones.discard(one["producer_id"])
        elif not (one["is_transactional"] and one["producer_id"] in open_ones):
            yield from (record["offset"] for record in one["records"])


def plain_sums(lines):
    """What each consumer was brought of each topic, record by record."""
    names, produced, given = names_of(lines), {}, []
    for line in lines:
        asked, told = line["request"], line["response"]
        if asked is None or (line["outcome"] == "answered" and "uncertain_pairing" in str(line["problems"])):
            continue
        if line["api"] == "Produce":
            answers = dict(parts_of(told, "responses", "partition_responses", names))
            for where, part in parts_of(asked, "topic_data", "partition_data", names):
                answer = answers.get(where, {"error_code": 0, "base_offset": -1})
                if not answer["error_code"] and answer["base_offset"] >= 0:
                    for number, _ in enumerate(records_of(part)):
                        record = *where, answer["base_offset"] + number
                        times = ns(asked), ns(told)
                        produced[record] = min(produced.get(record, times), times, key=str)
        elif line["api"] in ("Fetch", "ShareFetch") and told is not None:
            body = asked["body"] or {}
            if (body.get("replica_state") or body).get("replica_id", -1) >= 0:
                continue
            offsets = dict(parts_of(asked, "topics", "partitions", names))
            client = line["client"]["id"], line["client"]["ip"]
            for where, part in parts_of(told, "responses", "partitions", names):
                least = offsets.get(where, {}).get("fetch_offset", 0)
                mine = [
                    offset for offset in records_of(part, part.get("aborted_transactions")) if offset >= least
                ]
                if "acquired_records" in part:
                    ranges = [(one["first_offset"], one["last_offset"]) for one in part["acquired_records"]]
                    mine = [offset for offset in mine if any(low <= offset <= high for low, high in ranges)]
                ended = ns(told, told["duration_ms"] or 0)
                given += [(ended or 0, (where[0], *client), (*where, offset)) for offset in mine]
    found = defaultdict(lambda: (Counter(), [], set()))
    for ended, consumer, record in sorted(given, key=str):
        counts, delays, had = found[consumer]
        counts["again"] += record in had
        if record not in had and record in produced:
            began, answered = produced[record]
            counts["records"] += 1
            if began is None or ended < began:
                counts["untimed"] += 1
            else:
                cut = min(max(answered, began), ended)
                delays.append((ended - began, cut - began, ended - cut))
        had.add(record)
    return found


@pytest.mark.parametrize("name", one_in(12, ALL))
def test_delays_are_those_of_the_records_of_the_lines(lines, rows, name):
    capture = CAPTURES / name
    expected = plain_sums(lines("--records", "--show-secrets", capture))
    found = {(row["topic"], row["client_id"], row["client_ip"]): row for row in rows(capture)}
    assert {*expected} <= {*found}
    for consumer, row in found.items():
        counts, delays, _ = expected[consumer]
        for key in ("records", "again", "untimed"):
            # Null where the producer may have used a topic's name, and the consumer its id.
            assert (row[key] or 0) == counts[key], (consumer, key)
        for values, key in zip(
            zip(*delays, strict=True), ("delay_ms", "produce_ms", "wait_ms"), strict=False
        ):
            ordered = sorted(values)
            for name_of, percent in {"p50": 50, "p95": 95, "p99": 99, "max": 100}.items():
                value = ordered[ceil(percent * len(ordered) / 100) - 1] / 10**6
                assert row[key][name_of] == pytest.approx(value, rel=1 / 128, abs=1e-6), (consumer, key)
        if not delays:
            assert row["delay_ms"]["max"] is row["slowest"] is row["two_clocks"] is None


def batches(count, base=0):
    """A record set of a batch with so many records."""
    whole = batch(b"", count)
    return base.to_bytes(8, "big") + whole[8:23] + (count - 1).to_bytes(4, "big") + whole[27:]


class Both(Talk):
    """A producer and consumers of partition 0 of `t` on one connection."""

    def produces(self, count, base, code=0, acks=1, after=2, topic_id=None):
        part = {"index": 0, "records": batches(count)}
        topic = {"topic_id": topic_id} if topic_id else {"name": "t"}
        topics = [{**topic, "partition_data": [part]}]
        asked = {"transactional_id": None, "acks": acks, "timeout_ms": 1, "topic_data": topics}
        number = self.asks(0, 13 if topic_id else 8, asked, "p")
        if acks:
            told = {"index": 0, "error_code": code, "base_offset": base}
            self.answers(number, {"responses": [{**topic, "partition_responses": [told]}]}, after)

    def fetches(self, offset, *sets, client="c-1", topic_id=None):
        topic = {"topic_id": topic_id} if topic_id else {"topic": "t"}
        part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 9}
        asked = {
            "replica_id": -1,
            "max_wait_ms": 1,
            "min_bytes": 1,
            "topics": [{**topic, "partitions": [part]}],
        }
        records = b"".join(batches(*one) for one in sets)
        told = {"partition_index": 0, "error_code": 0, "high_watermark": 0, "records": records}
        number = self.asks(1, 13 if topic_id else 4, asked, client)
        self.answers(number, {"responses": [{**topic, "partitions": [told]}]}, 5)

    def commits(self, client):
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
        self.answers(
            self.asks(8, 2, {"group_id": "g", "topics": topics}, client),
            {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 0}]}]},
        )


def of(talk, folder, *keys):
    return {row["client_id"]: [row[key] for key in keys] for row in rows_of("delivery", talk.read(folder))}


def test_the_first_of_equal_batches_counts_and_refused_or_unplaced_ones_do_not(tmp_path):
    talk = Both()
    talk.produces(3, 10)
    talk.produces(3, 10)
    talk.produces(3, -1, code=45)
    talk.produces(4, -1, acks=0)
    talk.fetches(11, (3, 10))
    found = talk.read(tmp_path)
    (row,) = rows_of("delivery", found)
    assert [row[key] for key in ("records", "again", "not_delivered", "unplaced")] == [2, 0, 0, 1]
    first, last = found[0].request.first_time, found[-1].response.last_time
    assert row["delay_ms"]["max"] == row["slowest"]["delay_ms"] == (last - first) / 10**6
    assert row["slowest"]["offset"] == 11
    assert row["produce_ms"]["max"] == (found[0].response.first_time - first) / 10**6


ID = "AAAAAAAAAAAAAAAAAAAAAg"


@pytest.mark.parametrize("produced", [None, ID])
@pytest.mark.parametrize("fetched", [None, ID])
def test_what_a_name_and_an_id_without_a_name_have_in_common_is_not_known(
    kinspect, rows, tmp_path, produced, fetched
):
    talk = Both()
    talk.produces(5, 0, topic_id=produced)
    talk.fetches(0, (3, 0), topic_id=fetched)
    talk.read(tmp_path)
    path, names = tmp_path / "talk.pcap", tmp_path / "names"
    names.write_text(f"{ID} t\n")
    found = [[row["records"], row["not_delivered"]] for row in rows(path)]
    assert found == [[3, 2] if produced == fetched else [None, None]]
    shown = kinspect("delivery", "--format", "table", path).out
    told = (
        "RECORDS ?: consumers or producers of 1 partition use a topic id without a name (see --topic-names)."
    )
    assert (told in " ".join(shown.split())) == (produced != fetched)
    assert "not captured" not in shown
    (row,) = rows(path, "--topic-names", names)
    assert [row["topic"], row["records"], row["not_delivered"]] == ["t", 3, 2]


def test_what_waits_counts_for_the_member_that_read_last(tmp_path):
    talk = Both()
    for client in ("c-1", "c-2"):
        talk.commits(client)
    talk.produces(5, 0)
    talk.fetches(0, (5, 0))
    talk.produces(4, 5)
    talk.fetches(5, (4, 5), client="c-2")
    talk.produces(3, 9)
    talk.fetches(0, (5, 0), client="other")
    found = of(talk, tmp_path, "records", "not_delivered")
    assert found == {"c-1": [5, 0], "c-2": [4, 3], "other": [5, 7]}


def test_records_told_to_be_aborted_wait_for_nobody_who_reads_committed_ones(tmp_path):
    def fetches(offset, isolation, client, *, aborted=None, records=b""):
        part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 9}
        topics = [{"topic": "t", "partitions": [part]}]
        asked = {
            "replica_id": -1,
            "max_wait_ms": 1,
            "min_bytes": 1,
            "isolation_level": isolation,
            "topics": topics,
        }
        told = {"partition_index": 0, "error_code": 0, "records": records, "aborted_transactions": aborted}
        number = talk.asks(1, 4, asked, client)
        talk.answers(number, {"responses": [{"topic": "t", "partitions": [told]}]})

    talk = Both()
    talk.produces(5, 0)
    talk.produces(3, 5)
    for client, isolation in (("committed", 1), ("all", 0)):
        fetches(1, isolation, client)
    transactional = bytearray(batches(3, 5))
    transactional[22] |= 16
    fetches(5, 1, "other", aborted=[{"producer_id": -1, "first_offset": 5}], records=bytes(transactional))
    assert of(talk, tmp_path, "not_delivered") == {"committed": [4], "all": [7]}


def test_what_an_answer_brought_that_was_not_captured_is_not_known(tmp_path):
    talk = Both()
    talk.produces(5, 0)
    talk.fetches(0, (5, 0))
    del talk.conversation.packets[-2]  # an acknowledgment is behind it
    talk.commits("c-1")
    talk.commits("c-1")
    assert of(talk, tmp_path, "not_delivered") == {"c-1": [None]}
    talk.fetches(0)
    assert of(talk, tmp_path, "not_delivered") == {"c-1": [5]}


def test_the_groups_of_each_consumer_are_looked_up_once(tmp_path, monkeypatch):
    """However many consumers a partition has."""
    asked = Counter()

    def named(self, context):
        return lambda *consumer: asked.update([consumer]) or ["g"]

    monkeypatch.setattr("kinspect.analysis.grouptopics.ClientGroups.named", named)
    talk = Both()
    talk.produces(5, 0)
    for number in range(20):
        talk.fetches(0, client=f"c-{number}")
    found = of(talk, tmp_path, "not_delivered")
    assert found == {"c-19": [5]}
    assert [*asked.values()] == [1] * 20


def test_a_record_that_was_there_before_its_produce_began_has_no_delay(tmp_path):
    talk = Both()
    talk.fetches(0, (5, 0))
    talk.fetches(0, (5, 0))
    talk.produces(5, 0)
    assert of(talk, tmp_path, "records", "untimed", "again", "two_clocks") == {"c-1": [5, 5, 5, None]}


def test_of_a_batch_with_holes_so_many_records_as_it_has_are_delivered(tmp_path):
    talk = Both()
    talk.produces(10, 0)
    hollow = bytearray(batches(10))
    hollow[57:61] = (4).to_bytes(4, "big")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "batches", lambda *_: bytes(hollow))
        talk.fetches(0, ())
    assert of(talk, tmp_path, "records", "not_delivered") == {"c-1": [4, 0]}


def test_what_is_let_go_is_told(tmp_path, monkeypatch):
    talk = Both()
    for base in range(0, 60, 2):
        talk.produces(2, base)
    talk.fetches(0, *((2, base) for base in range(0, 60, 2)))
    found = talk.read(tmp_path)
    answers = []
    for most in (100, 4):
        monkeypatch.setattr(deliveryanswer, "KEPT", most)
        whole = deliveryanswer.Deliveries()
        for exchange in found:
            whole.add(exchange)
        (row,) = whole.result(ResultContext(found[0].connection.names))
        answers.append([row["records"], row["let_go"], whole.unmeasured])
    assert answers == [[60, 0, 0], [8, 26, 26]]


def test_ends_in_two_files_are_told(kinspect, tmp_path, rows):
    sides = {name: Both(client=("10.0.0.1", port)) for name, port in (("a", 40001), ("b", 40002))}
    sides["a"].produces(5, 0)
    sides["b"].waits(500)
    sides["b"].fetches(0, (5, 0))
    paths = [tmp_path / side for side in sides]
    for path, talk in zip(paths, sides.values(), strict=True):
        path.write_bytes(pcap(talk.conversation.packets))
    (row,) = rows(*paths)
    assert (row["records"], row["two_clocks"]) == (5, True)
    shown = kinspect("delivery", "--format", "table", *paths).out
    assert "1 row with ends of two files or interfaces, whose clocks may differ" in shown
    shown = kinspect("delivery", "--format", "table", paths[1]).out
    assert "1 row of records of t whose Produce was not captured" in " ".join(shown.split())
