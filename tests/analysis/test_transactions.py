"""Transactions: rows equal plain sums over the lines of `kinspect read`, and what the clients did."""

import json
from collections import Counter, defaultdict

import pytest
from support.captures import CAPTURES, each_folder
from support.client import Client, recorded
from support.manifest import load
from support.recordsets import batch_of

PRODUCE, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, MARKERS, COMMIT_OFFSETS = 0, 22, 24, 25, 26, 27, 28
DESCRIBE, LIST, FIND_COORDINATOR = 65, 66, 10
INVALID_EPOCH, CONCURRENT, FENCED = 47, 51, 90


@pytest.fixture
def rows(answer_rows):
    return lambda *arguments: {
        row["transactional_id"]: row for row in answer_rows("transactions", *arguments)
    }


def outcomes(row):
    return [one["outcome"] for one in row["transactions"]]


# ---------------------------------------------------------------------- all captures


def body(line, side):
    return (line[side] or {}).get("body") or {}


def taken(line):
    """Records in the partitions of a Produce that were not refused."""
    codes = {
        (topic.get("name") or topic.get("topic_id"), part["index"]): part["error_code"]
        for topic in body(line, "response").get("responses", [])
        for part in topic["partition_responses"]
    }
    return sum(
        batch["count"]
        for topic in body(line, "request").get("topic_data", [])
        for part in topic.get("partition_data", [])
        for batch in (part.get("records") or {"batches": []})["batches"]
        if not codes.get((topic.get("name") or topic.get("topic_id"), part["index"]))
    )


@each_folder
def test_counts_are_plain_sums_over_the_lines(lines, rows, folder):
    for path in sorted(path for path in folder.iterdir() if ".pcap" in path.name):
        ends, records, errors, names = defaultdict(Counter), Counter(), defaultdict(Counter), set()
        for line in lines(path):
            ids = line["transactional_ids"]
            names.update(ids)
            if len(ids) != 1 or line["request"] is None:
                continue
            errors[ids[0]].update(error["name"] for error in (line["response"] or {"errors": []})["errors"])
            if line["api"] == "EndTxn" and body(line, "response").get("error_code") == 0:
                ends[ids[0]]["committed" if body(line, "request")["committed"] else "aborted"] += 1
            if line["api"] == "Produce":
                records[ids[0]] += taken(line)
        found = rows(path)
        assert set(found) == names, path
        for name, row in found.items():
            told = Counter(outcomes(row))
            assert {how: told[how] for how in ("committed", "aborted") if told[how]} == ends[name], (
                path,
                name,
            )
            counts = [one["records"] for one in row["transactions"]]
            assert path.name == "loss_one.pcap.gz" or sum(counts) == records[name], (path, name)
            assert row["errors"] == errors[name], (path, name)


# ---------------------------------------------------------------------- what the clients did


@pytest.mark.parametrize(
    "row",
    [row for row in load(CAPTURES) if "committed_txns" in row.facts and not row.is_partial],
    ids=lambda row: row.file,
)
def test_outcomes_are_those_of_the_manifest(rows, row):
    if row.expect or row.original:
        return
    facts = row.facts
    (found,) = [each for name, each in rows(row.path).items() if name in facts["transactional_ids"]]
    expected = Counter(committed=facts["committed_txns"], aborted=facts["aborted_txns"])
    assert Counter(outcomes(found)) == expected


@pytest.mark.parametrize("release", ["3.6.2", "4.4.0"])
def test_a_transaction_left_open_is_fenced_by_the_admin(rows, release):
    found = rows(CAPTURES / release / "txn_java.pcap.gz")
    (name,) = [name for name in found if name.endswith("-txid-open") and found[name]["client_id"]]
    assert outcomes(found[name]) == ["fenced"]
    (committed, *aborted) = found[name.removesuffix("-open")]["transactions"]
    assert committed["outcome"] == "committed"
    assert committed["records"] == 50
    assert committed["groups"] == [name.removesuffix("-txid-open") + "-txgrp"]
    assert [one["outcome"] for one in aborted] == ["aborted", "aborted"]
    assert sum(one["records"] for one in aborted) == 20


@pytest.mark.parametrize("release", ["0.11.0.3", "2.0.1", "2.8.2"])
def test_a_zombie_is_fenced_once(rows, release):
    found = rows(CAPTURES / release / "transactions.pcap.gz")
    (row,) = [row for name, row in found.items() if name.endswith("-fence")]
    zombie, winner = row["transactions"]
    assert (zombie["outcome"], zombie["epoch"], zombie["records"]) == ("fenced", 0, 1)
    assert (winner["outcome"], winner["epoch"], winner["records"]) == ("committed", 2, 1)
    assert row["errors"]["INVALID_PRODUCER_EPOCH"] == 1


# ---------------------------------------------------------------------- made conversations


def batch(producer, epoch, values=(b"v",)):
    made = bytearray(batch_of(list(values)))
    made[43:51] = producer.to_bytes(8, "big")
    made[51:53] = epoch.to_bytes(2, "big")
    return bytes(made)


class Producer(Client):
    """A transactional producer, of transactions of version 1 unless it says otherwise."""

    def __init__(self, port=40000, producer=7, epoch=0, name="app", tx="tx"):
        super().__init__(name, port)
        self.producer, self.epoch, self.tx = producer, epoch, tx

    @property
    def ids(self):
        return {"transactional_id": self.tx, "producer_id": self.producer, "producer_epoch": self.epoch}

    def init(self, error=0, timeout_ms=60_000):
        answer = {"error_code": error, "producer_id": self.producer, "producer_epoch": self.epoch}
        if error:
            answer |= {"producer_id": -1, "producer_epoch": -1}
        request = {"transactional_id": self.tx, "transaction_timeout_ms": timeout_ms}
        self.ask(INIT, 1, request, answer)

    def add(self, error=0, topic="t", partitions=(0,), takes=0):
        request = {f"v3_and_below_{key}": value for key, value in self.ids.items()}
        request["v3_and_below_topics"] = [{"name": topic, "partitions": list(partitions)}]
        results = [{"partition_index": index, "partition_error_code": error} for index in partitions]
        self.ask(
            ADD_PARTITIONS,
            0,
            request,
            {"results_by_topic_v3_and_below": [{"name": topic, "results_by_partition": results}]},
            takes,
        )

    def produce(self, error=0, topic="t", answered=True, values=(b"v",)):
        records = batch(self.producer, self.epoch, values)
        request = {
            "transactional_id": self.tx,
            "acks": -1,
            "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": records}]}],
        }
        part = {"index": 0, "error_code": error, "base_offset": 0, "log_append_time_ms": -1}
        answer = {"responses": [{"name": topic, "partition_responses": [part]}]}
        self.ask(PRODUCE, 3, request, answer if answered else None)

    def end(self, committed=True, error=0, answered=True, bumps=False):
        request = {**self.ids, "committed": committed}
        answer = {"error_code": error}
        if bumps:
            answer |= {"producer_id": self.producer, "producer_epoch": self.epoch + 1}
        self.ask(END, 5 if bumps else 0, request, answer if answered else None)
        self.epoch += bumps


class Coordinator(Client):
    """A broker that writes markers."""

    def __init__(self, port=50000):
        super().__init__("broker-1-txn-marker-sender", port)

    def mark(self, producer, epoch, committed, version=None, error=0):
        marker = {"producer_id": producer, "producer_epoch": epoch, "transaction_result": committed}
        marker["topics"] = [{"name": "t", "partition_indexes": [0]}]
        if version is not None:
            marker["transaction_version"] = version
        told = {
            "producer_id": producer,
            "topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": error}]}],
        }
        self.ask(MARKERS, 1 if version is None else 2, {"markers": [marker]}, {"markers": [told]})


@pytest.fixture
def row(rows, tmp_path):
    """The row of `tx` in what clients did."""

    def row(*clients):
        path = tmp_path / "made.pcap"
        path.write_bytes(recorded(*clients))
        return rows(path)["tx"]

    return row


def test_a_transaction_begins_with_its_first_part_and_ends_with_the_answer(row):
    app = Producer()
    app.init()
    app.add(partitions=(0, 1))
    app.produce(values=(b"a", b"b"))
    app.produce()
    app.ask(ADD_OFFSETS, 0, {**app.ids, "group_id": "g"}, {"error_code": 0})
    app.end()
    found = row(app)
    (one,) = found["transactions"]
    assert (one["outcome"], one["epoch"], one["records"], one["groups"]) == ("committed", 0, 3, ["g"])
    assert one["partitions"] == ["t-0", "t-1"]
    assert one["bytes"] == len(batch(7, 0, (b"a", b"b"))) + len(batch(7, 0))
    assert 0 < one["duration_ms"] < 10
    assert one["began"] < one["ended"]
    assert (found["producer_id"], found["client_id"], found["epochs"]) == (7, "app", [0])


def test_an_open_transaction_has_no_end(row):
    app = Producer()
    app.init()
    app.produce()
    (one,) = row(app)["transactions"]
    assert (one["outcome"], one["ended"], one["duration_ms"]) == ("open", None, None)


def test_what_was_refused_is_no_part(row):
    app = Producer()
    app.init()
    app.add(CONCURRENT)
    app.add()
    app.produce(error=6)
    app.produce()
    app.end()
    found = row(app)
    (one,) = found["transactions"]
    assert one["records"] == 1
    assert found["errors"] == {"CONCURRENT_TRANSACTIONS": 1, "NOT_LEADER_OR_FOLLOWER": 1}


def test_version_2_takes_the_next_epoch_with_each_end(row):
    app = Producer()
    app.init()
    for committed in (True, False, True):
        app.produce()
        app.end(committed, bumps=True)
    found = row(app)
    assert [(one["outcome"], one["epoch"]) for one in found["transactions"]] == [
        ("committed", 0),
        ("aborted", 1),
        ("committed", 2),
    ]
    assert found["epochs"] == [0, 1, 2, 3]


def test_brokers_that_add_partitions_for_many_clients(row):
    """AddPartitionsToTxn from version 4 on."""
    broker = Client("AddPartitionsManager-1", 50001)
    asked = [
        {
            "transactional_id": name,
            "producer_id": number,
            "producer_epoch": 0,
            "verify_only": verify,
            "topics": [{"name": "t", "partitions": [number]}],
        }
        for number, (name, verify) in enumerate([("tx", False), ("other", True)])
    ]
    told = [
        {
            "transactional_id": name,
            "topic_results": [
                {
                    "name": "t",
                    "results_by_partition": [{"partition_index": number, "partition_error_code": 0}],
                }
            ],
        }
        for number, name in enumerate(["tx", "other"])
    ]
    broker.ask(ADD_PARTITIONS, 4, {"transactions": asked}, {"error_code": 0, "results_by_transaction": told})
    found = row(broker)
    assert [(one["outcome"], one["partitions"]) for one in found["transactions"]] == [("open", ["t-0"])]
    assert found["client_id"] is None


def test_to_verify_partitions_begins_nothing(rows, tmp_path):
    broker = Client("AddPartitionsManager-1", 50001)
    asked = [
        {"transactional_id": "tx", "producer_id": 1, "producer_epoch": 0, "verify_only": True, "topics": []}
    ]
    broker.ask(ADD_PARTITIONS, 4, {"transactions": asked}, {"error_code": 0, "results_by_transaction": []})
    path = tmp_path / "made.pcap"
    path.write_bytes(recorded(broker))
    assert rows(path)["tx"]["transactions"] == []


def test_a_new_producer_fences_the_open_transaction(row):
    old, new = Producer(), Producer(40001, epoch=2)
    old.init()
    old.produce()
    new.meet(old)
    new.init(CONCURRENT)
    new.init()
    old.meet(new)
    old.produce(INVALID_EPOCH)
    old.end(error=FENCED)
    new.meet(old)
    new.produce()
    new.end()
    found = row(old, new)
    assert [(one["outcome"], one["epoch"], one["records"]) for one in found["transactions"]] == [
        ("fenced", 0, 1),
        ("committed", 2, 1),
    ]


def test_a_refused_first_part_is_a_fenced_transaction(row):
    old, new = Producer(), Producer(40001, epoch=1)
    old.init()
    new.meet(old)
    new.init()
    old.meet(new)
    old.produce(INVALID_EPOCH)
    old.produce(INVALID_EPOCH)
    assert [(one["outcome"], one["epoch"], one["records"]) for one in row(old, new)["transactions"]] == [
        ("fenced", 0, 0)
    ]


@pytest.mark.parametrize("timeout_ms", [1000, 60_000])
def test_a_refusal_behind_the_timeout_is_a_timeout(row, timeout_ms):
    app = Producer()
    app.init(timeout_ms=timeout_ms)
    app.produce()
    app.wait(15)
    app.end(error=FENCED)
    assert outcomes(row(app)) == ["timed_out" if timeout_ms == 1000 else "fenced"]


def test_a_marker_that_nobody_asked_for_is_a_timeout(row):
    app, coordinator = Producer(), Coordinator()
    app.init(timeout_ms=1000)
    app.produce()
    coordinator.meet(app)
    coordinator.wait(11)
    coordinator.mark(7, 1, False)
    (one,) = row(app, coordinator)["transactions"]
    assert one["outcome"] == "timed_out"
    assert 11_000 < one["duration_ms"] < 11_010


def test_a_marker_behind_a_new_producers_request_is_fencing(row):
    old, new, coordinator = Producer(), Producer(40001, epoch=2), Coordinator()
    old.init(timeout_ms=1000)
    old.produce()
    new.meet(old)
    new.wait(11)
    new.init(CONCURRENT)
    coordinator.meet(new)
    coordinator.mark(7, 1, False)
    assert outcomes(row(old, new, coordinator)) == ["fenced"]


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_ends_what_an_end_asked_for_that_was_lost(row, committed):
    app, coordinator = Producer(), Coordinator()
    app.init()
    app.produce()
    coordinator.meet(app)
    coordinator.mark(7, 0, committed)
    assert outcomes(row(app, coordinator)) == ["committed" if committed else "aborted"]


def test_a_marker_of_the_transaction_before_ends_nothing(row):
    """The next one was asked for already, and taken behind the marker."""
    app, coordinator = Producer(), Coordinator()
    app.init()
    app.add()
    app.end(False)
    coordinator.meet(app)
    coordinator.wait(1)
    coordinator.mark(7, 0, False)
    app.add(takes=2)
    app.end(True)
    assert outcomes(row(app, coordinator)) == ["aborted", "committed"]


def test_a_marker_of_the_next_epoch_may_be_of_a_producer_that_was_not_seen(row):
    app, coordinator = Producer(), Coordinator()
    app.produce()
    coordinator.meet(app)
    coordinator.mark(7, 1, False)
    assert outcomes(row(app, coordinator)) == [None]


@pytest.mark.parametrize(("version", "outcome"), [(None, "fenced"), (2, "aborted")])
def test_a_marker_of_the_next_epoch_before_the_timeout(row, version, outcome):
    """In version 2 of transactions EndTxn takes the next epoch too: this one was not captured."""
    app, coordinator = Producer(), Coordinator()
    app.init()
    app.produce()
    coordinator.meet(app)
    coordinator.mark(7, 1, False, version)
    assert outcomes(row(app, coordinator)) == [outcome]


def test_markers_have_errors_too(row):
    app, coordinator = Producer(), Coordinator()
    app.init()
    coordinator.mark(7, 0, True, error=6)
    assert row(app, coordinator)["errors"] == {"NOT_LEADER_OR_FOLLOWER": 1}


def test_an_unanswered_end_shows_in_what_follows(row):
    app = Producer()
    app.init()
    app.produce()
    app.end(answered=False)
    assert outcomes(row(app)) == [None]
    again = Producer(40001, epoch=1)
    again.meet(app)
    again.produce()
    assert outcomes(row(app, again)) == ["committed", "open"]


def test_an_end_that_came_twice_is_one(row):
    app = Producer()
    app.init()
    app.produce()
    app.end()
    app.end()
    assert outcomes(row(app)) == ["committed"]


def test_a_capture_that_begins_inside_a_transaction(row):
    app = Producer(epoch=4)
    app.end()
    (one,) = row(app)["transactions"]
    assert (one["outcome"], one["began"], one["duration_ms"]) == ("committed", None, None)


def state(app, word, started=0):
    return {
        "transactional_id": "tx",
        "transaction_state": word,
        "producer_id": 7,
        "producer_epoch": app.epoch,
        "transaction_start_time_ms": started,
        "topics": [{"topic": "t", "partitions": [3]}],
    }


def describe(app, word, started=0):
    states = [state(app, word, started)]
    app.ask(DESCRIBE, 0, {"transactional_ids": ["tx"]}, {"transaction_states": states})


def test_a_described_transaction_is_open_and_began_unseen(row):
    """When the broker says that it began is no time of a request."""
    admin = Producer(name="admin")
    describe(admin, "Ongoing", 1_600_000_000_000)
    found = row(admin)
    (one,) = found["transactions"]
    assert (one["outcome"], one["began"], one["partitions"]) == ("open", None, ["t-3"])
    assert (found["client_id"], found["producer_id"]) == (None, 7)


def test_a_state_ends_what_nobody_asked_to_end(row):
    app, admin = Producer(), Producer(40001, epoch=1, name="admin")
    app.init(timeout_ms=1000)
    app.produce()
    admin.meet(app)
    admin.wait(11)
    describe(admin, "CompleteAbort")
    assert outcomes(row(app, admin)) == ["timed_out"]


def test_ids_that_are_only_listed_or_looked_up_have_rows(rows, tmp_path):
    admin = Client("admin")
    states = [{"transactional_id": "a", "producer_id": 3, "transaction_state": "Empty"}]
    admin.ask(LIST, 0, {}, {"error_code": 0, "transaction_states": states})
    admin.ask(FIND_COORDINATOR, 1, {"key": "b", "key_type": 1}, {"error_code": 15, "node_id": -1})
    admin.ask(FIND_COORDINATOR, 1, {"key": "group", "key_type": 0}, {"error_code": 15, "node_id": -1})
    admin.ask(DESCRIBE, 0, {"transactional_ids": ["c"]})
    path = tmp_path / "made.pcap"
    path.write_bytes(recorded(admin))
    found = rows(path)
    assert {
        name: (row["producer_id"], row["errors"], row["transactions"]) for name, row in found.items()
    } == {
        "a": (3, {}, []),
        "b": (None, {"COORDINATOR_NOT_AVAILABLE": 1}, []),
        "c": (None, {}, []),
    }


def test_the_table_shows_those_that_were_aborted(kinspect):
    capture = CAPTURES / "4.4.0" / "txn_java.pcap.gz"
    (row,) = [
        row
        for row in json.loads(kinspect("transactions", "--format", "json", capture).out)["rows"]
        if row["transactional_id"] == "pc-txid"
    ]
    outcomes = Counter(one["outcome"] for one in row["transactions"])
    assert outcomes == {"aborted": 2, "committed": 1}
    lines = kinspect("transactions", "--format", "table", "--utc", capture).out.splitlines()
    below = lines[lines.index(next(line for line in lines if line.startswith("pc-txid "))) + 1 :]
    first = [line for line in below if not line.startswith("    ")][:3]
    assert [line.split()[1] for line in first] == ["aborted", "aborted", "committed"]


def test_damaged_messages_are_read_as_far_as_they_go(rows, tmp_path):
    app, coordinator = Producer(), Coordinator()
    app.init()
    app.add()
    app.produce()
    app.end()
    coordinator.mark(7, 0, True)
    whole = recorded(app, coordinator)
    for number in range(len(app.talk.packets)):
        part = Producer()
        part.talk.packets = [
            each._replace(data=each.data[: max(54, len(each.data) - 5 * (at == number))])
            for at, each in enumerate(app.talk.packets)
        ]
        path = tmp_path / f"{number}.pcap"
        path.write_bytes(recorded(part, coordinator))
        for row in rows(path).values():
            assert len(row["transactions"]) <= 1
    assert whole


@pytest.mark.parametrize(
    ("capture", "client", "name"),
    [("txn_java", "pc-open", "pc-txid-open"), ("errors_java", "pc-err-tx1", "pcerr-fence")],
)
def test_a_client_alone_shows_that_it_was_fenced(rows, capture, client, name):
    """Before its transaction can time out: who fenced it, and when it began, may have been left out."""
    (one,) = rows("--client-id", client, CAPTURES / "4.4.0" / f"{capture}.pcap.gz")[name]["transactions"]
    assert [one[key] for key in ("outcome", "began", "ended", "fenced_by")] == ["fenced", None, None, None]


@pytest.mark.parametrize(("timeout_ms", "outcome"), [(1000, None), (60_000, "fenced")])
def test_a_refusal_of_a_client_alone_may_be_a_timeout(rows, tmp_path, timeout_ms, outcome):
    app = Producer()
    app.init(timeout_ms=timeout_ms)
    app.produce()
    app.wait(15)
    app.produce(INVALID_EPOCH)
    app.end(error=FENCED)
    other = Producer(40001, name="left out")
    other.init()
    path = tmp_path / "made.pcap"
    path.write_bytes(recorded(app, other))
    assert outcomes(rows("--client-id", "app", path)["tx"]) == [outcome]


def test_who_fenced_is_told(rows):
    found = rows(CAPTURES / "4.4.0" / "txn_java.pcap.gz")
    (one,) = found["pc-txid-open"]["transactions"]
    assert (one["outcome"], one["fenced_by"]) == ("fenced", "pc-open-adm")
