"""Groups: rows equal plain walks over the lines of `kinspect read`, and what made conversations are about."""

import base64
import json
import shlex
from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise
from random import Random
from struct import pack
from time import process_time

import pytest
from analysis.runs import Talk, exchanges, rows_of
from support.captures import CAPTURES, captures, each_folder
from support.packets import nanosecond_pcap, packets
from support.pcap import START_US, Conversation, pcap

from kinspect.analysis.lags import BLANKS_KEPT, NO_BLANKS, read_batches, with_blanks
from kinspect.protocol import Message, encode_request, encode_response

REBALANCING, MEMBER_ID_REQUIRED, UNKNOWN_MEMBER, FENCED_INSTANCE = 27, 79, 25, 82

# ---------------------------------------------------------------------- all captures


@pytest.fixture
def rows(answer_rows):
    return lambda *arguments: {row["group"]: row for row in answer_rows("groups", *arguments)}


def bodies(line):
    request, response = line["request"] or {}, line["response"] or {}
    return request.get("body") or {}, response.get("body") or {}


def places(body, key="topics"):
    for topic in body.get(key) or []:
        name = (
            topic.get("name") or topic.get("topic") or topic.get("topic_name_resolved") or topic["topic_id"]
        )
        for part in topic.get("partitions", []):
            yield f"{name}-{part['partition_index']}", part


class Walk:
    """What the lines say, one after the other."""

    def __init__(self, lines):
        self.groups, self.whole = set(), True
        self.errors, self.members, self.generations = (
            defaultdict(Counter),
            defaultdict(set),
            defaultdict(set),
        )
        self.committed, self.pending, self.marks = defaultdict(dict), defaultdict(list), {}
        self.assigned, self.several = {}, set()
        self.blank, self.positions = set(), defaultdict(set)
        self.signs, self.stops = defaultdict(list), defaultdict(list)
        for line in lines:
            if line["request"] is not None:
                self.line(line, *bodies(line))

    def line(self, line, asked, told):
        self.groups |= set(line["groups"])
        self.whole &= not line["truncated_lists"]
        if len(line["groups"]) == 1:
            for error in (line["response"] or {}).get("errors", []):
                self.errors[line["groups"][0]][error["name"]] += 1
        else:
            self.several |= set(line["groups"])
        seen = getattr(self, line["api"] or "", None)
        if seen is not None:
            seen(line, asked, told)

    def JoinGroup(self, line, asked, told):  # noqa: N802
        group = asked.get("group_id")
        member = told.get("member_id") or asked.get("member_id")
        if group is None or not member:
            return
        self.signs[group, member].append(line["request"]["timestamp"])
        if told.get("error_code") == 0:
            self.members[group].add(member)
            self.generations[group].add(told["generation_id"])

    def Heartbeat(self, line, asked, told):  # noqa: N802
        if told.get("error_code") == REBALANCING:
            self.signs[asked["group_id"], asked["member_id"]].append(line["completed_at"])
        if told.get("error_code") == 0:
            self.members[asked["group_id"]].add(asked["member_id"])

    def SyncGroup(self, line, asked, told):  # noqa: N802
        if told.get("error_code") is None or "generation_id" not in asked:
            return
        who = asked["group_id"], asked["member_id"]
        place = asked["group_id"], line["client"]["id"], asked["generation_id"]
        decoded = told.get("assignment_decoded")
        if told["error_code"] == 0 and (decoded is None or decoded["assigned_partitions"]):
            signs = self.signs.pop(who, [])
            if signs:
                self.stops[place[:2]].append(millis(line["completed_at"]) - millis(min(signs)))
        if decoded is not None and told["error_code"] == 0:
            self.assigned[place] = sorted(
                (part["topic"], number)
                for part in decoded["assigned_partitions"]
                for number in part["partitions"]
            )

    def OffsetCommit(self, line, asked, told):  # noqa: N802
        well = {place for place, part in places(told) if part["error_code"] == 0}
        found = {p: part["committed_offset"] for p, part in places(asked) if p in well}
        if "group_id" in asked:
            self.committed[asked["group_id"]] |= found

    def TxnOffsetCommit(self, line, asked, told):  # noqa: N802
        well = {place for place, part in places(told) if part["error_code"] == 0}
        found = {p: part["committed_offset"] for p, part in places(asked) if p in well}
        self.pending[asked["transactional_id"]].append((asked["group_id"], found))

    def EndTxn(self, line, asked, told):  # noqa: N802
        if told.get("error_code") == 0:
            for group, found in self.pending.pop(asked["transactional_id"], []):
                if asked["committed"]:
                    self.committed[group] |= found

    def Fetch(self, line, asked, told):  # noqa: N802
        for place, part in places(told, "responses"):
            if part.get("high_watermark", -1) >= 0 and not part["error_code"]:
                self.marks[place] = part["high_watermark"]
            records = part.get("records") or {}
            for batch in records.get("batches", []):
                self.positions[place].add(batch["last_offset"] + 1)
                if batch["is_control"] or part.get("aborted_transactions"):
                    self.blank.add(place)
        for topic in asked.get("topics") or []:
            name = topic.get("topic") or topic.get("topic_name_resolved") or topic["topic_id"]
            for part in topic.get("partitions", []):
                self.positions[f"{name}-{part['partition']}"].add(part["fetch_offset"])

    def ListOffsets(self, line, asked, told):  # noqa: N802
        latest = {place for place, part in places(asked) if part.get("timestamp") == -1}
        if asked.get("replica_id") != -1 or asked.get("isolation_level"):
            return
        for place, part in places(told):
            offset = [*part.get("old_style_offsets", []), part.get("offset", -1)][0]
            if place in latest and offset >= 0 and not part["error_code"]:
                self.marks[place] = offset


def millis(time):
    """Milliseconds of a line's time, with its nine digits."""
    whole, _, fraction = time.rstrip("Z").partition(".")
    return datetime.fromisoformat(whole + "+00:00").timestamp() * 1000 + int(fraction) / 1e6


@each_folder
def test_rows_are_what_the_lines_say(lines, rows, folder):
    for capture in captures(folder):
        walk, found = Walk(lines("--records", capture)), rows(capture)
        assert walk.groups == set(found) if walk.whole else walk.groups <= set(found), capture
        for group, row in found.items():
            if group not in walk.several:
                assert row["errors"] == dict(walk.errors[group]), (capture, group)
            ids = {member["member_id"] for member in row["members"]}
            assert walk.members[group] <= ids, (capture, group)
            assert walk.generations[group] <= {one["generation"] for one in row["rebalances"]}, (
                capture,
                group,
            )
            assert {place: one["offset"] for place, one in row["committed"].items()} == walk.committed[group]
            for place, one in row["committed"].items():
                assert one["high_watermark"] == walk.marks.get(place), (capture, group, place)
                if one["lag"] is not None:
                    assert 0 <= one["lag"] <= one["high_watermark"] - one["offset"]
                    if place not in walk.blank:
                        assert one["lag"] == one["high_watermark"] - one["offset"]
                if one["fetched"] is not None:
                    assert one["fetched"] in walk.positions[place]


@each_folder
def test_stops_and_assignments_are_those_of_the_lines(lines, rows, folder):
    for capture in captures(folder):
        walk, found = Walk(lines(capture)), rows(capture)
        for (group, client, generation), parts in walk.assigned.items():
            made = [one for one in found[group]["rebalances"] if one["generation"] == generation]
            # One id may stand for clients that one test drives one after the other.
            assert [f"{topic}-{index}" for topic, index in parts] in [
                one["assigned"].get(client) for one in made
            ] or client not in {member["client_id"] for member in found[group]["members"]}, (capture, group)
        for (group, client), stops in walk.stops.items():
            for one in found[group]["rebalances"]:
                stopped = one["stopped_ms"].get(client)
                if stopped:
                    assert any(stopped == pytest.approx(stop, abs=0.01) for stop in stops), (capture, group)


# ---------------------------------------------------------------------- what the clients did


def test_two_members_of_each_library(rows):
    found = rows(CAPTURES / "4.4.0" / "groups_classic.pcap.gz")
    for group, first, second in (
        ("pc-grp-librdkafka", "pc-ck-1", "pc-ck-2"),
        ("pc-grp-aiokafka", "pc-ak-1", "pc-ak-2"),
        ("pc-grp-kafkapython", "pc-kp-1", "pc-kp-2"),
    ):
        row = found[group]
        assert row["kind"] == "classic"
        assert [(one["trigger"], one["by"], one["members"]) for one in row["rebalances"]] == [
            ("member_joined", first, 1),
            ("member_joined", second, 2),
            ("member_left", second, 1),
        ]
        assert [one["cooperative"] for one in row["rebalances"]] == [False] * 3
        assert {one["client_id"]: one["left_how"] for one in row["members"]} == {
            first: "left",
            second: "left",
        }
        # Each of six partitions has one owner, and what the second gets the first one loses.
        shared = row["rebalances"][1]
        assert sorted(shared["assigned"][first] + shared["assigned"][second]) == [
            f"pc-grp-{number}" for number in range(6)
        ]
        assert shared["revoked"] == {first: shared["assigned"][second]}


def test_cooperative_members_go_on(rows):
    row = rows(CAPTURES / "4.4.0" / "groups_classic.pcap.gz")["pc-grp-java"]
    assert row["protocol"] == "cooperative-sticky"
    assert [(one["trigger"], one["by"]) for one in row["rebalances"]] == [
        ("member_joined", "pc-jv-1"),
        ("member_joined", "pc-jv-2"),
        ("rejoined", "pc-jv-1"),
        ("member_left", "pc-jv-2"),
    ]
    assert [one["reason"] for one in row["rebalances"]][2:] == [
        "need to revoke partitions and re-join",
        "the consumer is being closed",
    ]
    second, third, last = row["rebalances"][1:]
    assert second["revoked"] == {"pc-jv-1": ["pc-grp-3", "pc-grp-4", "pc-grp-5"]}
    assert third["revoked"] == last["revoked"] == {}
    assert third["stopped_ms"] == last["stopped_ms"] == {"pc-jv-1": 0}
    # The new member waits until others have given back what it gets, a generation later.
    assert second["stopped_ms"]["pc-jv-1"] > 0
    assert second["stopped_ms"]["pc-jv-2"] == pytest.approx(870.6, abs=0.1)
    assert second["unowned_ms"] == pytest.approx({f"pc-grp-{n}": 507.7 for n in (3, 4, 5)}, abs=0.1)
    assert (third["unowned_ms"], set(last["unowned_ms"])) == ({}, {"pc-grp-3", "pc-grp-4", "pc-grp-5"})


def test_static_members_have_instance_ids(rows):
    row = rows(CAPTURES / "4.4.0" / "groups_classic.pcap.gz")["pc-grp-java-static"]
    assert {one["client_id"]: one["instance_id"] for one in row["members"]} == {
        "pc-jvs-1": "pc-inst-1",
        "pc-jvs-2": "pc-inst-2",
    }
    assert [one["left"] for one in row["members"]] == [None, None]


@pytest.mark.parametrize(("release", "name"), [("4.4.0", "pc"), ("3.9.2", "pe")])
def test_the_new_consumer_protocol(rows, release, name):
    found = rows(CAPTURES / release / "kip848.pcap.gz")
    row = found[f"{name}-848-java"]
    first, second = f"{name}-j848-1", f"{name}-j848-2"
    assert (row["kind"], row["protocol"]) == ("consumer", "uniform")
    assert [(one["trigger"], one["by"], one["members"]) for one in row["rebalances"]] == [
        ("member_joined", first, 1),
        ("member_joined", second, 2),
        ("member_left", second, 1),
    ]
    shared = row["rebalances"][1]
    assert shared["assigned"][first] + shared["assigned"][second] == [f"{name}-k848-{n}" for n in range(4)]
    assert shared["revoked"] == {first: shared["assigned"][second]}
    assert row["rebalances"][2]["stopped_ms"] == {first: 0}
    # What the one that leaves had has no owner until the other one's next heartbeat.
    assert set(row["rebalances"][2]["unowned_ms"]) == set(shared["assigned"][second])
    assert min(row["rebalances"][2]["unowned_ms"].values()) > 100
    static = found[f"{name}-848-javastatic"]
    assert [(one["instance_id"], one["left_how"]) for one in static["members"]] == [
        (f"{name}-i848", "static_leave")
    ]


DELIVERIES = "acquired accepted released rejected again delivery_count_max unacknowledged".split()


@pytest.mark.parametrize("error", [0, 121])
def test_acknowledgements_count_where_no_error_answers_them(tmp_path, error):
    """With the next ShareFetch, too; one type stands for all offsets, 0 is a gap and 4 renews."""
    topic_id = "AAAAAAAAAAAAAAAAAAAAAg"

    def asks(*batches, key=78, **more):
        part = {
            "partition_index": 0,
            "acknowledgement_batches": [
                {"first_offset": first, "last_offset": last, "acknowledge_types": types}
                for first, last, types in batches
            ],
        }
        topics = [{"topic_id": topic_id, "partitions": [part]}]
        return talk.asks(
            key, 2, {"group_id": "g", "member_id": "m", "share_session_epoch": 1, "topics": topics, **more}
        )

    def answers(number, *acquired, code="acknowledge_error_code", error=0):
        given = [
            dict(zip(("first_offset", "last_offset", "delivery_count"), one, strict=True)) for one in acquired
        ]
        part = {
            "partition_index": 0,
            "records": b"",
            "acquired_records": given,
            "current_leader": {},
            code: error,
        }
        talk.answers(
            number, {"responses": [{"topic_id": topic_id, "partitions": [part]}], "node_endpoints": []}
        )

    talk = Talk()
    answers(asks(), (0, 9, 1))
    answers(asks((0, 4, [1]), (5, 8, [2, 3, 0, 4])), (5, 5, 3), error=error)
    answers(asks((9, 9, [1]), key=79), code="error_code")
    (row,) = rows_of("groups", talk.read(tmp_path))
    counted = [11, 6, 1, 1, 1, 3, 2] if not error else [11, 1, 0, 0, 1, 3, 10]
    assert [row["deliveries"]["m"][key] for key in DELIVERIES] == counted
    asks((5, 5, [1]), key=79)
    (row,) = rows_of("groups", talk.read(tmp_path))
    assert [row["deliveries"]["m"][key] for key in DELIVERIES] == [*counted[:-1], None]


def test_that_members_join_a_share_group_is_no_stop(kinspect):
    out = kinspect("groups", "--format", "table", CAPTURES / "4.4.0" / "share.pcap.gz").out
    assert "stood still pc-shc" in out
    assert "LONGEST STOP" not in out


def test_share_and_streams_groups(rows):
    share = rows(CAPTURES / "4.4.0" / "share.pcap.gz")["pc-shg"]
    (given,) = share["deliveries"].values()
    assert [given[key] for key in DELIVERIES] == [55, 45, 5, 5, 5, 2, 0]
    assert (share["kind"], share["committed"]) == ("share", {})
    (joined,) = share["rebalances"]
    assert joined["assigned"] == {"pc-shc": ["pc-share-0", "pc-share-1"]}
    assert joined["stopped_ms"] == pytest.approx({"pc-shc": 5286.1}, abs=0.1)
    assert joined["unowned_ms"] == pytest.approx({"pc-share-0": 5286.1, "pc-share-1": 5286.1}, abs=0.1)
    streams = rows(CAPTURES / "4.4.0" / "streams.pcap.gz")["pc-stapp"]
    assert streams["kind"] == "streams"
    first, last = streams["rebalances"]
    assert last["assigned"] == {"pc-stapp-cl-StreamThread-1-consumer": ["0_0", "0_1"]}
    assert first["reason"] == "Assignment delayed due to the configured initial rebalance delay."
    assert first["stopped_ms"] == pytest.approx({"pc-stapp-cl-StreamThread-1-consumer": 5184.3}, abs=0.1)
    assert first["unowned_ms"] == pytest.approx({"0_0": 5184.3, "0_1": 5184.3}, abs=0.1)
    assert last["stopped_ms"] == last["unowned_ms"] == {}
    assert sum(one["offset"] for one in streams["committed"].values()) == 30


# ---------------------------------------------------------------------- made conversations

JOIN, SYNC, HEARTBEAT, LEAVE, COMMIT, TXN_COMMIT, END_TXN, FETCH, BEAT = 11, 14, 12, 13, 8, 28, 26, 1, 68
VERSIONS = {
    JOIN: 8,
    SYNC: 5,
    HEARTBEAT: 4,
    LEAVE: 5,
    COMMIT: 8,
    TXN_COMMIT: 3,
    END_TXN: 1,
    FETCH: 11,
    BEAT: 1,
}


def text(value):
    return pack(">h", len(value)) + value.encode()


def partitions(owned):
    return pack(">i", len(owned)) + b"".join(
        text(topic) + pack(">i", len(numbers)) + b"".join(pack(">i", number) for number in numbers)
        for topic, numbers in owned.items()
    )


def subscription(topics, owned=None):
    """A subscription, v1 where `owned` is told, else v0."""
    head = pack(">h", 0 if owned is None else 1) + pack(">i", len(topics)) + b"".join(map(text, topics))
    return head + pack(">i", -1) + (b"" if owned is None else partitions(owned))


def assignment(assigned):
    return pack(">h", 0) + partitions(assigned) + pack(">i", -1)


class Wire:
    """Clients that each have a connection; times are milliseconds from the start of the capture."""

    def __init__(self, group="g"):
        self.group = group
        self.ends = {}
        self.numbers = Counter()

    def of(self, client):
        if client not in self.ends:
            self.ends[client] = made = Conversation(client=("10.0.0.1", 40000 + len(self.ends)))
            made.open()
        return self.ends[client]

    def ask(self, client, api, begin, body, answer=None, end=None, connection=None, version=None):
        """A request, and its answer one millisecond later or at `end`."""
        made = self.of(connection or client)
        self.numbers[client] += 1
        number, version = self.numbers[client], version or VERSIONS[api]
        made.time_us = max(made.time_us, START_US + int(begin * 1000))
        send = encode_request(Message(api, version, number, body, client))
        made.client_sends(pack(">i", len(send)) + send)
        if answer is not None:
            made.time_us = START_US + int((begin + 1 if end is None else end) * 1000)
            back = encode_response(Message(api, version, number, answer, direction="response"))
            made.broker_sends(pack(">i", len(back)) + back)

    def join(
        self,
        client,
        begin,
        end,
        generation,
        *,
        asked="",
        member=None,
        leader="a-1",
        members=(),
        error=0,
        **more,
    ):
        """A JoinGroup of a client `a`, whose member id is `a-1` unless another is given."""
        member = member or f"{client}-1"
        topics, owned = more.pop("topics", ["t"]), more.pop("owned", None)
        protocol, connection = more.pop("protocol", "range"), more.pop("connection", None)
        self.ask(
            client,
            JOIN,
            begin,
            {
                "group_id": self.group,
                "session_timeout_ms": more.pop("session", 10_000),
                "rebalance_timeout_ms": 60_000,
                "member_id": asked,
                "protocol_type": "consumer",
                "protocols": [{"name": protocol, "metadata": subscription(topics, owned)}],
                **more,
            },
            None
            if error is None
            else {
                "error_code": error,
                "generation_id": generation,
                "protocol_type": "consumer",
                "protocol_name": protocol,
                "leader": leader,
                "member_id": member,
                "members": [{"member_id": one, "metadata": b""} for one in members],
            },
            end,
            connection,
        )

    def sync(self, client, begin, end, generation, assigned, *, member=None, error=0, connection=None):
        self.ask(
            client,
            SYNC,
            begin,
            {
                "group_id": self.group,
                "generation_id": generation,
                "member_id": member or f"{client}-1",
                "protocol_type": "consumer",
                "protocol_name": "range",
                "assignments": [],
            },
            {"error_code": error, "protocol_type": "consumer", "assignment": assignment(assigned)},
            end,
            connection,
        )

    def heartbeat(self, client, begin, error=0, *, member=None, generation=1):
        member = member or f"{client}-1"
        body = {"group_id": self.group, "generation_id": generation, "member_id": member}
        self.ask(client, HEARTBEAT, begin, body, {"error_code": error})

    def leave(self, client, begin, *, member=None, reason=None, answered=True, error=0):
        members = [{"member_id": member or f"{client}-1", "reason": reason}]
        told = [{"member_id": members[0]["member_id"], "group_instance_id": None, "error_code": error}]
        answer = {"error_code": 0, "members": told} if answered else None
        self.ask(client, LEAVE, begin, {"group_id": self.group, "members": members}, answer)

    def two(self, **more):
        """A group of the members `a` and `b` in generation 1, at 30 ms; `a` leads."""
        self.join("a", 0, 10, 1, members=["a-1", "b-1"], **more)
        self.join("b", 1, 11, 1, **more)
        self.sync("a", 20, 30, 1, {"t": [0, 1]})
        self.sync("b", 21, 31, 1, {"t": [2, 3]})

    def packets(self):
        return sorted(
            (one for made in self.ends.values() for one in made.packets), key=lambda one: one.time_us
        )


@pytest.fixture
def answered(rows, tmp_path):
    """The row of a group on the wire."""

    def answered(wire, *arguments):
        path = tmp_path / "made.pcap"
        path.write_bytes(pcap(wire.packets()))
        return rows(*arguments, path)[wire.group]

    return answered


def rebalance(row, generation):
    (found,) = [one for one in row["rebalances"] if one["generation"] == generation]
    return found


def member(row, name):
    (found,) = [one for one in row["members"] if one["member_id"] == name]
    return found


def test_a_member_stood_still_from_when_it_could_know_to_its_sync(answered):
    wire = Wire()
    wire.two()
    wire.join("c", 1000, 1500, 2)
    wire.heartbeat("a", 1100, REBALANCING)
    wire.join("a", 1400, 1500, 2, asked="a-1", members=["a-1", "b-1", "c-1"])
    # This one's heartbeat is late: its own JoinGroup comes first.
    wire.join("b", 1200, 1500, 2, asked="b-1")
    for client, end in (("a", 1600), ("b", 1700), ("c", 1800)):
        wire.sync(client, 1550, end, 2, {"t": [ord(client) - ord("a")]})
    found = rebalance(answered(wire), 2)
    assert (found["trigger"], found["by"], found["members"]) == ("member_joined", "c", 3)
    # The answer to the heartbeat came a millisecond after it.
    assert found["stopped_ms"] == pytest.approx({"a": 499, "b": 500, "c": 800}, abs=0.5)
    assert millis(found["started"]) == pytest.approx(START_US / 1000 + 1000, abs=0.5)
    assert millis(found["ended"]) == pytest.approx(START_US / 1000 + 1800, abs=0.5)
    assert found["assigned"] == {"a": ["t-0"], "b": ["t-1"], "c": ["t-2"]}
    assert found["revoked"] == {"a": ["t-1"], "b": ["t-2", "t-3"]}


def test_an_eager_rebalance_leaves_all_partitions_without_an_owner(answered):
    wire = Wire()
    wire.two()
    wire.join("b", 1000, 1500, 2, asked="b-1")
    wire.heartbeat("a", 1199, REBALANCING)
    wire.join("a", 1300, 1500, 2, asked="a-1", members=["a-1", "b-1"])
    wire.sync("a", 1550, 1600, 2, {"t": [0, 2]})
    wire.sync("b", 1550, 1700, 2, {"t": [1, 3]})
    first, second = answered(wire)["rebalances"]
    # Nobody had them before the group's first members came.
    assert first["unowned_ms"] == pytest.approx({"t-0": 30, "t-1": 30, "t-2": 31, "t-3": 31}, abs=0.5)
    assert second["unowned_ms"] == pytest.approx({"t-0": 400, "t-1": 500, "t-2": 600, "t-3": 700}, abs=0.5)


def test_what_nobody_had_is_not_missed_where_others_may_have_had_it(answered):
    wire = Wire()
    wire.join("a", 0, 500, 7, asked="a-1", members=["a-1", "b-1"])
    wire.join("b", 100, 500, 7)
    wire.sync("a", 510, 520, 7, {"t": [0]})
    wire.sync("b", 510, 530, 7, {"t": [1]})
    found = rebalance(answered(wire), 7)
    # Nor does anything tell whether the old member had some.
    assert found["stopped_ms"] == {"a": None, "b": pytest.approx(430, abs=0.5)}
    assert found["unowned_ms"] == {}


def test_a_member_that_commits_had_partitions(answered):
    wire = Wire()
    commit(wire, 0, 5, member_id="a-1", generation_id_or_member_epoch=6)
    # And that no rebalance was under way.
    wire.heartbeat("a", 10)
    wire.join("a", 100, 500, 7, asked="a-1", members=["a-1"])
    wire.sync("a", 510, 520, 7, {"t": [0]})
    found = rebalance(answered(wire), 7)
    assert found["stopped_ms"] == pytest.approx({"a": 420}, abs=0.5)


def test_a_wait_whose_begin_was_not_seen_has_no_length(answered):
    """Not even from the next rebalance on, where the member is still without a partition."""
    wire = Wire()
    wire.sync("b", 0, 10, 6, {})
    wire.heartbeat("b", 1000, REBALANCING)
    wire.join("b", 1010, 1020, 7, asked="b-1", leader="b-1", members=["b-1"])
    wire.sync("b", 1030, 1040, 7, {"t": [0]})
    first, second = answered(wire)["rebalances"]
    assert (first["stopped_ms"], second["stopped_ms"]) == ({"b": None}, {})


def test_the_longest_stop_is_not_known_where_that_of_a_member_is_not(kinspect, answered, tmp_path):
    """Of another one with the same client id, or in another rebalance."""
    wire = Wire()
    wire.join("a", 0, 10, 7, members=["a-1", "b-1"])
    wire.join("a", 1, 11, 7, asked="b-1", member="b-1", connection="b")
    wire.sync("a", 20, 30, 7, {"t": [1]}, member="b-1", connection="b")
    wire.sync("a", 21, 31, 7, {"t": [0]})
    assert rebalance(answered(wire), 7)["stopped_ms"] == {"a": None}

    whole = packets(CAPTURES / "4.4.0" / "groups_classic.pcap.gz")
    path = tmp_path / "half.pcap"
    path.write_bytes(nanosecond_pcap(whole[len(whole) // 2 :]))
    out = kinspect("groups", "--format", "table", "--group", "pc-grp-java", "--wide", path).out
    assert "stood still pc-jv-1 0 ms" in out
    assert "stood still pc-jv-1 ?" in out
    assert out.splitlines()[1].split()[5:8] == ["3", "?", "0"]


def test_a_spare_member_stands_still_until_it_gets_a_partition(answered):
    wire = Wire()
    wire.join("a", 0, 10, 1, members=["a-1", "b-1"])
    wire.join("b", 1, 11, 1)
    wire.sync("a", 20, 30, 1, {"t": [0]})
    wire.sync("b", 21, 31, 1, {})
    wire.leave("a", 3000)
    wire.heartbeat("b", 3100, REBALANCING)
    wire.join("b", 3110, 3120, 2, asked="b-1", leader="b-1", members=["b-1"])
    first = rebalance(answered(wire), 1)
    assert first["stopped_ms"] == {"a": pytest.approx(30, abs=0.5), "b": None}
    wire.sync("b", 3130, 3140, 2, {"t": [0]})
    first, second = answered(wire)["rebalances"]
    assert first["stopped_ms"] == pytest.approx({"a": 30, "b": 3139}, abs=0.5)
    assert second["stopped_ms"] == {}
    assert second["unowned_ms"] == pytest.approx({"t-0": 140}, abs=0.5)


def test_an_assignment_that_was_cut_ends_no_stop(rows, tmp_path):
    wire = Wire()
    wire.join("a", 0, 10, 1, members=["a-1"])
    wire.sync("a", 20, 30, 1, {"t": [*range(80)]})
    path = tmp_path / "cut.pcap"
    path.write_bytes(pcap(wire.packets(), snap_length=300))
    found = rebalance(rows(path)["g"], 1)
    assert found["assigned"] == found["stopped_ms"] == {"a": None}


def test_a_silent_member_has_timed_out(answered):
    wire = Wire()
    wire.two(session=6000)
    wire.heartbeat("b", 1000)
    for begin in range(500, 7000, 500):
        wire.heartbeat("a", begin)
    wire.heartbeat("a", 7100, REBALANCING)
    wire.join("a", 7200, 7210, 2, asked="a-1", members=["a-1"], session=6000)
    wire.sync("a", 7220, 7230, 2, {"t": [0, 1, 2, 3]})
    row = answered(wire)
    found = rebalance(row, 2)
    assert (found["trigger"], found["by"], found["members"]) == ("session_timeout", "b", 1)
    gone = member(row, "b-1")
    assert gone["left_how"] == "session_timeout"
    assert millis(gone["left"]) == pytest.approx(START_US / 1000 + 7000, abs=0.5)
    assert member(row, "a-1")["left"] is None


def test_a_member_that_was_heard_of_has_not_timed_out(answered):
    wire = Wire()
    wire.two(session=6000)
    wire.heartbeat("b", 6500)
    wire.heartbeat("a", 7100, REBALANCING)
    wire.join("a", 7200, 7210, 2, asked="a-1", members=["a-1"], session=6000)
    row = answered(wire)
    assert rebalance(row, 2)["trigger"] == "unknown"
    gone = member(row, "b-1")
    assert (gone["left"] is not None, gone["left_how"]) == (True, None)


def test_a_member_says_why_it_leaves_and_need_not_wait(answered):
    wire = Wire()
    wire.two()
    wire.leave("b", 1000, reason="consumer poll timeout has expired.", answered=False)
    wire.heartbeat("a", 1200, REBALANCING)
    wire.join("a", 1210, 1220, 2, asked="a-1", members=["a-1"])
    row = answered(wire)
    found = rebalance(row, 2)
    assert (found["trigger"], found["by"]) == ("member_left", "b")
    assert found["reason"] == member(row, "b-1")["left_reason"] == "consumer poll timeout has expired."
    assert member(row, "b-1")["left_how"] == "left"
    assert found["ended"] is None
    assert found["stopped_ms"] == {"a": None}


def test_a_leave_that_is_refused_is_none(answered):
    wire = Wire()
    wire.two()
    wire.leave("b", 1000, error=UNKNOWN_MEMBER)
    row = answered(wire)
    assert member(row, "b-1")["left"] is None
    assert row["errors"] == {"UNKNOWN_MEMBER_ID": 1}


def test_a_member_that_joins_unasked_changed_its_subscription_or_not(answered):
    wire = Wire()
    wire.two()
    for client in ("a", "b"):
        wire.heartbeat(client, 100)
    wire.join("a", 1000, 1500, 2, asked="a-1", members=["a-1", "b-1"], topics=["t", "u"])
    wire.heartbeat("b", 1100, REBALANCING)
    wire.join("b", 1200, 1500, 2, asked="b-1")
    wire.sync("a", 1600, 1610, 2, {"u": [0]})
    wire.sync("b", 1600, 1610, 2, {"t": [0]})
    wire.join("b", 2000, 2500, 3, asked="b-1", reason="rebalance enforced by user")
    wire.heartbeat("a", 2100, REBALANCING)
    wire.join("a", 2200, 2500, 3, asked="a-1", members=["a-1", "b-1"], topics=["t", "u"])
    row = answered(wire)
    assert [(one["trigger"], one["by"], one["reason"]) for one in row["rebalances"][1:]] == [
        ("subscription_changed", "a", None),
        ("rejoined", "b", "rebalance enforced by user"),
    ]


def test_the_first_of_two_events_is_the_trigger(answered):
    wire = Wire()
    wire.two()
    wire.leave("b", 1000)
    wire.join("c", 1100, 1500, 2)
    wire.heartbeat("a", 1200, REBALANCING)
    wire.join("a", 1300, 1500, 2, asked="a-1", members=["a-1", "c-1"])
    assert [rebalance(answered(wire), 2)[key] for key in ("trigger", "by")] == ["member_left", "b"]


def test_an_empty_group_begins_anew(answered):
    wire = Wire()
    wire.two()
    wire.leave("a", 1000)
    wire.leave("b", 1100)
    wire.join("c", 5000, 5500, 4, leader="c-1", members=["c-1"])
    wire.sync("c", 5510, 5520, 4, {"t": [0, 1, 2, 3]})
    found = rebalance(answered(wire), 4)
    assert (found["trigger"], found["by"]) == ("member_joined", "c")
    assert millis(found["started"]) == pytest.approx(START_US / 1000 + 5000, abs=0.5)
    assert found["revoked"] == {}


def test_a_forgotten_group_counts_from_one_again(answered):
    wire = Wire()
    wire.two()
    for client in ("a", "b"):
        wire.heartbeat(client, 1000, UNKNOWN_MEMBER)
    wire.join("a", 1100, 1500, 1, member="a-2", leader="a-2", members=["a-2", "b-2"])
    wire.join("b", 1100, 1500, 1, member="b-2", leader="a-2")
    row = answered(wire)
    assert [one["generation"] for one in row["rebalances"]] == [1, 1]
    assert [one["trigger"] for one in row["rebalances"]] == ["member_joined", "member_joined"]
    assert [one["left"] is None for one in row["members"]] == [False, False, True, True]


def test_a_rebalance_that_another_one_overtakes_has_no_end(answered):
    wire = Wire()
    wire.two()
    wire.join("c", 1000, 1500, 2)
    for client, members in (("a", ["a-1", "b-1", "c-1"]), ("b", [])):
        wire.heartbeat(client, 1100, REBALANCING)
        wire.join(client, 1200, 1500, 2, asked=f"{client}-1", members=members)
    wire.join("d", 1510, 2000, 3)
    for client, members in (("a", ["a-1", "b-1", "c-1", "d-1"]), ("b", []), ("c", [])):
        wire.sync(client, 1520, 1530, 2, {}, error=REBALANCING)
        wire.join(client, 1540, 2000, 3, asked=f"{client}-1", members=members)
    for client in "abcd":
        wire.sync(client, 2010, 2020, 3, {"t": [ord(client) - ord("a")]})
    row = answered(wire)
    second, third = row["rebalances"][1:]
    assert (second["ended"], second["assigned"]) == (None, {})
    assert (third["trigger"], third["by"]) == ("member_joined", "d")
    assert second["stopped_ms"]["a"] == pytest.approx(2020 - 1101, abs=0.5)
    assert third["stopped_ms"] == pytest.approx({"d": 2020 - 1510}, abs=0.5)
    # What they had before is what counts.
    assert third["revoked"] == {"a": ["t-1"], "b": ["t-2", "t-3"]}


def test_a_member_id_that_is_handed_out_makes_one_member(answered):
    wire = Wire()
    wire.join("a", 0, 2, -1, member="a-7", error=MEMBER_ID_REQUIRED)
    wire.join("a", 5, 500, 1, asked="a-7", member="a-7", leader="a-7", members=["a-7"])
    wire.sync("a", 510, 520, 1, {"t": [0]}, member="a-7")
    wire.join("z", 600, 602, -1, member="z-1", error=MEMBER_ID_REQUIRED)
    row = answered(wire)
    assert [one["member_id"] for one in row["members"]] == ["a-7"]
    assert row["errors"] == {"MEMBER_ID_REQUIRED": 2}
    assert rebalance(row, 1)["stopped_ms"] == pytest.approx({"a": 520}, abs=0.5)


def test_a_static_member_that_is_started_anew_takes_the_place_of_the_old_one(answered):
    wire = Wire()
    wire.join("a", 0, 10, 1, members=["a-1", "b-1"], group_instance_id="one")
    wire.join("b", 1, 10, 1, group_instance_id="two")
    wire.sync("a", 20, 30, 1, {"t": [0]})
    wire.sync("b", 20, 30, 1, {"t": [1]})
    # No rebalance: the same generation.
    wire.ask(
        "b", HEARTBEAT, 900, {"group_id": "g", "generation_id": 1, "member_id": "b-1"}, {"error_code": 0}
    )
    wire.join("b", 1000, 1010, 1, member="b-2", group_instance_id="two")
    wire.sync("b", 1020, 1030, 1, {"t": [1]}, member="b-2")
    wire.heartbeat("b", 1100, FENCED_INSTANCE)
    row = answered(wire)
    assert [one["generation"] for one in row["rebalances"]] == [1]
    found = rebalance(row, 1)
    assert found["members"] == 2
    assert found["stopped_ms"] == pytest.approx({"a": 30, "b": 29}, abs=0.5)
    assert millis(found["ended"]) == pytest.approx(START_US / 1000 + 30, abs=0.5)
    old, new = member(row, "b-1"), member(row, "b-2")
    assert (old["left_how"], new["left"], new["instance_id"]) == ("fenced", None, "two")


def test_eager_members_that_say_what_they_own_keep_nothing(answered):
    wire = Wire()
    wire.two(protocol="ours", owned={})
    wire.join("b", 1000, 1500, 2, asked="b-1", protocol="ours", owned={})
    wire.heartbeat("a", 1100, REBALANCING)
    wire.join("a", 1200, 1500, 2, asked="a-1", members=["a-1", "b-1"], protocol="ours", owned={})
    row = answered(wire)
    assert [one["cooperative"] for one in row["rebalances"]] == [None, False]


def test_members_of_one_client_id_are_counted_together(answered):
    wire = Wire()
    wire.join("a", 0, 10, 1, members=["a-1", "a-2"])
    wire.join("a", 1, 11, 1, member="a-2", connection="other")
    wire.sync("a", 20, 30, 1, {"t": [0]})
    wire.sync("a", 21, 41, 1, {"t": [1]}, member="a-2", connection="other")
    found = rebalance(answered(wire), 1)
    assert found["assigned"] == {"a": ["t-0", "t-1"]}
    assert found["stopped_ms"] == pytest.approx({"a": 40}, abs=0.5)
    assert found["members"] == 2


def test_a_capture_that_begins_in_the_middle_knows_less(answered):
    wire = Wire()
    wire.join("a", 0, 500, 7, asked="a-1")
    wire.sync("a", 510, 520, 7, {"t": [0]})
    wire.heartbeat("b", 600)
    row = answered(wire)
    found = rebalance(row, 7)
    assert (found["trigger"], found["by"], found["members"]) == ("unknown", None, None)
    assert found["revoked"] == {"a": None}
    assert [(one["member_id"], one["joined"]) for one in row["members"]] == [("a-1", None), ("b-1", None)]


def test_other_protocols_have_no_partitions(answered):
    wire = Wire()
    asked = {"group_id": "g", "generation_id": 1, "member_id": "w-1", "protocol_type": "connect"}
    wire.ask(
        "w",
        JOIN,
        0,
        {"group_id": "g", "member_id": "", "protocol_type": "connect", "protocols": []},
        {
            "error_code": 0,
            "generation_id": 1,
            "protocol_name": "default",
            "leader": "w-1",
            "member_id": "w-1",
        },
    )
    wire.ask("w", SYNC, 10, asked, {"error_code": 0, "protocol_type": "connect", "assignment": b"\0\1xy"})
    found = rebalance(answered(wire), 1)
    assert found["assigned"] == {"w": None}
    assert found["cooperative"] is False


def commit(wire, begin, offset, *, error=0, api=COMMIT, **more):
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    told = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": error}]}]}
    topics = [{"name": "t", "partitions": [part]}]
    wire.ask("a", api, begin, {"group_id": wire.group, "topics": topics, **more}, told)


def fetch(wire, begin, high, error=0, *, client="f", offset=None, records=None, aborted=None):
    part = {"partition_index": 0, "error_code": error, "high_watermark": high, "records": records}
    asked = {"replica_id": -1}
    if offset is not None:
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 9}
        asked["topics"] = [{"topic": "t", "partitions": [partition]}]
    part["aborted_transactions"] = aborted
    wire.ask(client, FETCH, begin, asked, {"responses": [{"topic": "t", "partitions": [part]}]})


def test_lag_is_what_is_left_to_the_last_high_watermark(answered):
    wire = Wire()
    fetch(wire, 0, 10)
    commit(wire, 100, 5)
    commit(wire, 200, 8, error=REBALANCING)
    fetch(wire, 300, 25)
    fetch(wire, 400, -1, error=6)
    found = answered(wire)["committed"]["t-0"]
    assert (found["offset"], found["high_watermark"], found["lag"]) == (5, 25, 20)
    assert millis(found["at"]) == pytest.approx(START_US / 1000 + 101, abs=0.5)


@pytest.mark.parametrize("high", [None, 4])
def test_lag_is_unknown_without_a_later_high_watermark(answered, high):
    wire = Wire()
    if high is not None:
        fetch(wire, 0, high)
    commit(wire, 100, 5)
    found = answered(wire)["committed"]["t-0"]
    assert (found["high_watermark"], found["lag"]) == (high, None)


def batch(first, count=1, producer=-1, *, transactional=False, control=False):
    """The header of a batch of v2, and records that nobody reads."""
    attributes = 16 * transactional + 32 * control
    rest = pack(">hiqqqhii", attributes, count - 1, 0, 0, producer, 0, -1, count) + bytes(count)
    return pack(">qiibI", first, 4 + 1 + 4 + len(rest), 0, 2, 0) + rest


def test_lag_is_told_from_what_was_fetched_too(answered):
    wire = Wire()
    commit(wire, 0, 2)
    fetch(wire, 100, 10, client="a", offset=2, records=batch(2, 4))
    found = answered(wire)["committed"]["t-0"]
    assert (found["lag"], found["fetched"], found["fetched_lag"]) == (8, 6, 4)
    fetch(wire, 200, 10, client="a", offset=6)
    fetch(wire, 300, 10, client="another", offset=9)
    assert answered(wire)["committed"]["t-0"]["fetched"] == 6
    # It goes back.
    fetch(wire, 400, 10, client="a", offset=1)
    assert answered(wire)["committed"]["t-0"]["fetched"] == 1


def test_for_which_of_two_groups_a_client_fetched_is_not_known(answered):
    wire = Wire()
    commit(wire, 0, 2)
    fetch(wire, 100, 10, client="a", offset=6)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 3}]}]
    told = {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": 0}]}]}
    wire.ask("a", COMMIT, 200, {"group_id": "h", "topics": topics}, told)
    assert answered(wire)["committed"]["t-0"]["fetched"] is None


def test_markers_and_aborted_records_are_no_lag(answered):
    wire = Wire()
    commit(wire, 0, 2)
    marker = batch(4, producer=7, transactional=True, control=True)
    fetch(wire, 100, 5, client="a", offset=2, records=batch(2, 2, 7, transactional=True) + marker)
    assert answered(wire)["committed"]["t-0"]["lag"] == 2
    found = batch(5, 2, 8, transactional=True) + batch(7, 1, 7, transactional=True)
    found += batch(8, producer=8, transactional=True, control=True) + batch(9, 1, 8, transactional=True)
    fetch(wire, 200, 10, client="a", offset=5, records=found, aborted=[{"producer_id": 8, "first_offset": 5}])
    # Of 2 to 9: 4 and 8 are markers, 5 and 6 aborted.
    assert answered(wire)["committed"]["t-0"]["lag"] == 4


@pytest.mark.parametrize("count", [BLANKS_KEPT, BLANKS_KEPT + 1])
@pytest.mark.parametrize("ahead", [True, False])
def test_no_lag_is_told_where_markers_behind_the_commit_were_not_kept(kinspect, tmp_path, count, ahead):
    """Each transaction has nine records and a marker."""
    wire = Wire()
    fetch(wire, 10, 10 * count)
    commit(wire, 100, 0 if ahead else 10)
    for at in range(count):
        found = batch(10 * at, 9, 7, transactional=True)
        found += batch(10 * at + 9, producer=7, transactional=True, control=True)
        fetch(wire, 200 + at, 10 * count, records=found)
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(wire.packets()))
    found = json.loads(kinspect("groups", "--format", "json", path).out)
    lag = found["rows"][0]["committed"]["t-0"]["lag"]
    if count > BLANKS_KEPT and ahead:
        assert (lag, found["capture"]["left_out"]) == (None, 1)
        assert found["capture"]["incomplete"] == ["no room for 1 more"]
        assert "\nLAG ?: behind a commit" in kinspect("groups", "--format", "table", path).out
        spans = json.loads(kinspect("groups", "--every", "1h", "--format", "json", path).out)
        assert (spans["rows"][0]["lag"], spans["capture"]["left_out"]) == (None, 1)
    else:
        assert (lag, found["capture"]["left_out"]) == (9 * (count if ahead else count - 1), 0)


def test_blanks_are_the_same_in_whatever_order_they_come():
    made = [(first, first + length) for first in range(0, 3000, 7) for length in (1, 3, 9)]
    whole = with_blanks(NO_BLANKS, (0, tuple(made)))
    assert whole[0] > 0
    random = Random(1)
    for _ in range(20):
        random.shuffle(made)
        cuts = sorted(random.sample(range(len(made)), 5))
        parts = [NO_BLANKS] * 2
        for at, (begin, stop) in enumerate(pairwise([0, *cuts, len(made)])):
            parts[at % 2] = with_blanks(parts[at % 2], (0, tuple(made[begin:stop])))
        assert with_blanks(*parts) == whole


def test_many_aborted_transactions_take_no_time():
    began = process_time()
    aborted = [{"first_offset": at, "producer_id": at} for at in range(400_000)]
    read_batches([{"base_offset": 0, "last_offset": 400_000}], aborted)
    assert process_time() - began < 5


def test_lag_at_the_begin_and_what_moved(answered):
    wire = Wire()
    offsets = [{"name": "t", "partition_indexes": [0]}]
    read = {"partition_index": 0, "committed_offset": 1, "metadata": "", "error_code": 0}
    wire.ask(
        "a",
        9,
        0,
        {"group_id": "g", "topics": offsets},
        {"error_code": 0, "topics": [{"name": "t", "partitions": [read]}]},
        version=5,
    )
    fetch(wire, 100, 10)
    commit(wire, 200, 4)
    fetch(wire, 300, 30)
    found = answered(wire)["committed"]["t-0"]
    assert (found["lag_at_begin"], found["lag_at_end"], found["progress"], found["by"]) == (9, 26, 3, "a")


def test_what_moved_is_not_known_of_one_commit(answered):
    wire = Wire()
    commit(wire, 200, 4)
    fetch(wire, 300, 30)
    found = answered(wire)["committed"]["t-0"]
    assert (found["lag_at_begin"], found["lag_at_end"], found["progress"]) == (None, 26, None)


def test_lag_over_time(answer_rows, tmp_path):
    wire = Wire()
    commit(wire, 0, 4)
    fetch(wire, 1000, 10)
    commit(wire, 2100, 9)
    fetch(wire, 2200, 30)
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(wire.packets()))
    begin = START_US // 1_000_000
    found = answer_rows("groups", "--every", "2s", path)
    spans = {(begin + seconds) // 2 * 2: lag for seconds, lag in ((0, None), (1, 6), (2, 21))}
    assert [one["lag"] for one in found] == [*spans.values()]
    assert [millis(one["from"]) / 1000 for one in found] == [*spans]
    assert {one["group"] for one in found} == {"g"}
    assert [*found[-1]["partitions"].items()] == [("t-0", 21)]


def test_members_have_rows(answer_rows, kinspect):
    capture = CAPTURES / "4.4.0" / "groups_classic.pcap.gz"
    found = answer_rows("groups", "--members", "--group", "pc-grp-java-static", capture)
    assert {one["client_id"]: one["partitions"] for one in found} == {
        "pc-jvs-1": [f"pc-grp-{n}" for n in (0, 1, 2)],
        "pc-jvs-2": [f"pc-grp-{n}" for n in (3, 4, 5)],
    }
    out = kinspect("groups", "--members", "--format", "table", "--wide", capture).out
    assert "pc-grp-0…2" in out
    assert kinspect("groups", "--members", "--every", "10s", capture).status == 2


def end(wire, begin, committed, client="a"):
    wire.ask(client, END_TXN, begin, {"transactional_id": "x", "committed": committed}, {"error_code": 0})


def test_offsets_of_an_aborted_transaction_do_not_count(answered):
    wire = Wire()
    more = {"api": TXN_COMMIT, "transactional_id": "x"}
    commit(wire, 0, 5, **more)
    end(wire, 10, True)
    commit(wire, 20, 9, **more)
    end(wire, 30, False)
    commit(wire, 40, 9, **more)
    assert answered(wire)["committed"]["t-0"]["offset"] == 5
    end(wire, 50, True)
    assert answered(wire)["committed"]["t-0"]["offset"] == 9


def test_offsets_of_transactions_count_where_no_end_of_one_was_seen(answered):
    wire = Wire()
    commit(wire, 0, 5, api=TXN_COMMIT, transactional_id="x")
    end(wire, 10, False)
    assert answered(wire)["committed"] == {}
    assert answered(wire, "--api", "TxnOffsetCommit")["committed"]["t-0"]["offset"] == 5


@pytest.mark.parametrize("outcome", [True, False])
def test_an_outcome_that_was_cut_is_unknown(kinspect, rows, tmp_path, outcome):
    wire, talkative = Wire(), "c" * 400
    more = {"api": TXN_COMMIT, "transactional_id": "x"}
    commit(wire, 0, 5, **more)
    end(wire, 10, True)
    commit(wire, 20, 9, **more)
    end(wire, 30, outcome, talkative)
    fetch(wire, 40, 20)
    packets = wire.packets()
    path = tmp_path / "cut.pcap"
    # The request ends with `committed`, and its tagged fields.
    path.write_bytes(pcap(packets, snap_length=max(len(packet.data) for packet in packets) - 2))
    found = rows(path)["g"]["committed"]["t-0"]
    assert [found[key] for key in ("offset", "lag", "progress", "high_watermark")] == [None, None, None, 20]
    assert found["at"] is not None
    out = kinspect("groups", "--format", "table", path).out
    assert "\nLAG ?: it was cut whether" in out
    assert "no Fetch" not in out
    commit(wire, 50, 12, **more)
    end(wire, 60, True)
    packets = wire.packets()
    path.write_bytes(pcap(packets, snap_length=max(len(packet.data) for packet in packets) - 2))
    assert rows(path)["g"]["committed"]["t-0"]["offset"] == 12


TOPIC = base64.urlsafe_b64encode(bytes(range(16))).decode().rstrip("=")


def beat(wire, client, begin, asked, epoch, *, owned=None, given=None, error=0, topics=None, interval=1000):
    def parts(numbers):
        return None if numbers is None else [{"topic_id": TOPIC, "partitions": numbers}]

    wire.ask(
        client,
        BEAT,
        begin,
        {
            "group_id": wire.group,
            "member_id": f"{client}-1",
            "member_epoch": asked,
            "subscribed_topic_names": topics,
            "topic_partitions": parts(owned),
        },
        {
            "error_code": error,
            "member_id": f"{client}-1",
            "member_epoch": epoch,
            "heartbeat_interval_ms": interval,
            "assignment": None if given is None else {"topic_partitions": parts(given)},
        },
    )


def two_beating(wire):
    beat(wire, "a", 0, 0, 1, topics=["t"], given=[0, 1])
    beat(wire, "a", 10, 1, 1, owned=[0, 1])
    beat(wire, "b", 1000, 0, 2, topics=["t"], given=[])
    beat(wire, "a", 1500, 1, 1, given=[0])
    beat(wire, "a", 1600, 1, 2, owned=[0])
    beat(wire, "b", 2000, 2, 2, given=[1])
    beat(wire, "b", 2010, 2, 2, owned=[1])


def named(*numbers):
    return [f"{TOPIC}-{number}" for number in numbers]


def test_heartbeats_hand_over_partitions(answered):
    wire = Wire()
    two_beating(wire)
    found = rebalance(answered(wire), 2)
    assert (found["trigger"], found["by"], found["members"], found["cooperative"]) == (
        "member_joined",
        "b",
        2,
        True,
    )
    assert found["assigned"] == {"a": named(0), "b": named(1)}
    assert found["revoked"] == {"a": named(1)}
    assert found["stopped_ms"] == pytest.approx({"a": 100, "b": 1001}, abs=0.5)
    assert found["unowned_ms"] == pytest.approx({named(1)[0]: 500}, abs=0.5)


def test_a_member_that_is_given_nothing_first_stands_still_over_epochs(answered):
    wire = Wire()
    beat(wire, "a", 0, 0, 1, topics=["t"], given=[])
    beat(wire, "a", 5000, 1, 2, given=[0])
    first, second = answered(wire)["rebalances"]
    assert first["stopped_ms"] == pytest.approx({"a": 5001}, abs=0.5)
    assert first["unowned_ms"] == pytest.approx({named(0)[0]: 5001}, abs=0.5)
    assert second["stopped_ms"] == second["unowned_ms"] == {}


def test_what_a_member_had_that_leaves_has_no_owner(answered):
    wire = Wire()
    two_beating(wire)
    beat(wire, "b", 3000, -1, -1)
    beat(wire, "a", 3700, 2, 3, given=[0, 1])
    found = rebalance(answered(wire), 3)
    assert found["stopped_ms"] == {"a": 0}
    assert found["unowned_ms"] == pytest.approx({named(1)[0]: 701}, abs=0.5)


def test_partitions_of_an_empty_group_are_missed_from_when_somebody_joins(answered):
    wire = Wire()
    two_beating(wire)
    for client in ("a", "b"):
        beat(wire, client, 3000, -1, -1)
    beat(wire, "c", 9000, 0, 5, topics=["t"], given=[])
    beat(wire, "c", 9500, 5, 5, given=[0, 1])
    assert rebalance(answered(wire), 5)["unowned_ms"] == pytest.approx(
        dict.fromkeys(named(0, 1), 501), abs=0.5
    )


SHARE_BEAT = 76


def share_beat(wire, client, begin, asked, epoch, given=None):
    told = None if given is None else {"topic_partitions": [{"topic_id": TOPIC, "partitions": given}]}
    wire.ask(
        client,
        SHARE_BEAT,
        begin,
        {"group_id": wire.group, "member_id": f"{client}-1", "member_epoch": asked},
        {
            "member_id": f"{client}-1",
            "member_epoch": epoch,
            "heartbeat_interval_ms": 5000,
            "assignment": told,
        },
        version=1,
    )


def test_members_of_a_share_group_have_partitions_together(answered):
    wire = Wire()
    share_beat(wire, "a", 0, 0, 2, [])
    share_beat(wire, "a", 5000, 2, 3, [0, 1])
    share_beat(wire, "b", 6000, 0, 4, [])
    # An epoch that only gives b what a has as well.
    share_beat(wire, "b", 7000, 4, 5, [1])
    share_beat(wire, "a", 9000, -1, -1)
    share_beat(wire, "b", 9300, 5, 6, [0, 1])
    row = answered(wire)
    first, second, third = row["rebalances"]
    assert [(one["generation"], one["trigger"]) for one in (first, second, third)] == [
        (2, "member_joined"),
        (4, "member_joined"),
        (6, "member_left"),
    ]
    assert first["stopped_ms"] == pytest.approx({"a": 5001}, abs=0.5)
    assert second["stopped_ms"] == pytest.approx({"b": 1001}, abs=0.5)
    assert second["unowned_ms"] == {}
    # The other one still had the second.
    assert third["unowned_ms"] == pytest.approx({named(0)[0]: 301}, abs=0.5)


def test_an_epoch_without_a_reason_is_that_of_a_silent_member(answered):
    wire = Wire()
    two_beating(wire)
    beat(wire, "a", 6000, 2, 2)
    beat(wire, "a", 7000, 2, 3, given=[0, 1])
    row = answered(wire)
    assert [rebalance(row, 3)[key] for key in ("trigger", "by", "members")] == ["session_timeout", "b", 1]
    assert member(row, "b-1")["left_how"] == "session_timeout"


def test_an_epoch_without_a_reason_is_unknown_where_all_were_heard_of(answered):
    wire = Wire()
    two_beating(wire)
    beat(wire, "b", 6500, 2, 2)
    beat(wire, "a", 7000, 2, 3, given=[0, 1])
    assert rebalance(answered(wire), 3)["trigger"] == "unknown"


def test_another_subscription_begins_an_epoch(answered):
    wire = Wire()
    two_beating(wire)
    beat(wire, "b", 3000, 2, 2, topics=["t"])
    beat(wire, "b", 4000, 2, 3, topics=["u"], given=[])
    found = rebalance(answered(wire), 3)
    assert (found["trigger"], found["by"]) == ("subscription_changed", "b")
    assert millis(found["started"]) == pytest.approx(START_US / 1000 + 4000, abs=0.5)
    assert found["revoked"] == {"b": named(1)}


def test_the_first_to_join_an_empty_group_begins_an_epoch(answered):
    wire = Wire()
    two_beating(wire)
    for client in ("a", "b"):
        beat(wire, client, 3000, -1, -1)
    beat(wire, "c", 4000, 0, 5, topics=["t"], given=[0, 1])
    row = answered(wire)
    assert [rebalance(row, 5)[key] for key in ("trigger", "by", "members")] == ["member_joined", "c", 1]
    assert [one["left_how"] for one in row["members"]] == ["left", "left", None]


def test_a_fenced_member_comes_back(answered):
    wire = Wire()
    two_beating(wire)
    beat(wire, "b", 3000, 2, 0, error=110)
    assert member(answered(wire), "b-1")["left_how"] == "fenced"
    beat(wire, "b", 3100, 0, 3, topics=["t"], given=[1])
    row = answered(wire)
    assert member(row, "b-1")["left"] is None
    assert [rebalance(row, 3)[key] for key in ("trigger", "by")] == ["rejoined", "b"]


def test_a_group_that_is_only_named_is_a_row_without_members(answered):
    wire = Wire()
    commit(wire, 0, 5, error=16)
    row = answered(wire)
    assert (row["members"], row["rebalances"], row["committed"]) == ([], [], {})
    assert (row["kind"], row["coordinator"]) == (None, None)
    assert row["errors"] == {"NOT_COORDINATOR": 1}


@pytest.mark.parametrize("snap_length", range(58, 300, 11))
def test_cut_messages_tell_what_is_left_of_them(kinspect, tmp_path, snap_length):
    wire = Wire()
    wire.two()
    wire.heartbeat("a", 1000, REBALANCING)
    wire.leave("b", 1100, reason="enough")
    commit(wire, 1200, 5)
    two_beating(wire)
    path = tmp_path / "cut.pcap"
    path.write_bytes(pcap(wire.packets(), snap_length=snap_length))
    done = kinspect("groups", "--format", "json", path)
    assert done.status == 0
    for row in json.loads(done.out)["rows"]:
        assert row["group"] == "g"
        assert all(one["member_id"] for one in row["members"])
        assert all(one["generation"] > 0 for one in row["rebalances"])


def test_tables_lead_with_what_is_behind_and_who_was_lost(kinspect, tmp_path):
    wire = Wire("it's")
    wire.two(session=6000)
    commit(wire, 50, 5)
    commit(wire, 100, 5)
    marker = batch(5, producer=7, transactional=True, control=True)
    fetch(wire, 200, 25, client="a", offset=5, records=marker)
    wire.heartbeat("a", 7100, REBALANCING)
    wire.join("a", 7200, 7210, 2, asked="a-1", members=["a-1"], reason="group is already rebalancing")
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(wire.packets()))
    out = kinspect("groups", "--format", "table", "--color", "never", "--utc", "--wide", path).out
    assert "1 of 2" in out
    assert (
        "behind: t-0 high watermark 25 - committed 5 - 1 control or aborted = 19 (fetched to 6, not moved)"
        in out
    )
    assert "b left: session_timeout" in out
    assert (
        "generation 2: session_timeout b; stood still a ?; without an owner t-0…3 ?; not seen to end" in out
    )
    assert shlex.split(out.splitlines()[-1])[-2:] == ["--group", "it's"]


def test_a_new_member_stands_still_from_its_first_join_which_begins_no_rebalance(lines, answer_rows):
    """KIP-394: the coordinator gives it an id with MEMBER_ID_REQUIRED, and goes on as before."""
    capture = CAPTURES / "2.8.2" / "sasl-plain.pcap"
    refused, joined, synced, *_ = lines("--api", "JoinGroup,SyncGroup", capture)
    assert (refused["error_names"], joined["error_names"]) == (["MEMBER_ID_REQUIRED"], [])
    (row,) = answer_rows("groups", "--group", refused["groups"][0], capture)
    found = row["rebalances"][0]
    assert found["started"] == joined["request"]["timestamp"]
    (stop,) = found["stopped_ms"].values()
    assert stop == pytest.approx(millis(synced["completed_at"]) - millis(refused["timestamp"]), abs=0.01)
    assert stop > millis(synced["completed_at"]) - millis(found["started"])


def test_tables_fold_groups_that_are_only_named(kinspect):
    capture = CAPTURES / "3.9.2" / "admin_cli.pcap.gz"
    lines = kinspect("groups", "--format", "table", capture).out.splitlines()
    assert lines[0].startswith("groups that were only named (87): hq-aiokafka-g-gzip, ")
    assert lines[-2].endswith(" +77")
    assert lines[-1].startswith("next: ")
    assert len(kinspect("groups", "--format", "table", "--wide", capture).out.splitlines()) == 1 + 87 + 1


def test_a_group_that_is_asked_for_has_its_lag(kinspect):
    for capture in ("4.4.0/groups_classic.pcap.gz", "3.6.2/txn_java.pcap.gz"):
        found = json.loads(kinspect("groups", "--format", "json", CAPTURES / capture).out)
        for row in found["rows"]:
            asked = kinspect("groups", "--format", "json", "--group", row["group"], CAPTURES / capture).out
            assert json.loads(asked)["rows"] == [row]
            assert json.loads(asked)["capture"]["filters"] == ["--group"]
            assert json.loads(asked)["capture"]["only_naming"] == []


def test_a_topic_chooses_the_groups_that_are_about_it(rows):
    capture = CAPTURES / "4.4.0" / "kip848.pcap.gz"
    whole = rows(capture)
    found = rows("--topic", "pc-k848", capture)
    assert found == {group: row for group, row in whole.items() if "pc-k848" in row["topics"]}
    assert {*found} == {"pc-848-java", "pc-848-ck", "pc-848-javastatic"}
    assert rows("--topic", "another", capture) == {}


@pytest.mark.parametrize(
    ("capture", "group", "client"),
    [("groups_classic", "pc-grp-aiokafka", "pc-ak-1"), ("kip848", "pc-848-ck", "pc-ck848-1")],
)
def test_what_a_filter_leaves_out_is_not_made_up(kinspect, rows, capture, group, client):
    """The other member joins second, takes half of the partitions, and leaves."""
    path = CAPTURES / "4.4.0" / f"{capture}.pcap.gz"
    whole, part = rows(path)[group], rows("--client-id", client, path)[group]
    first, second, last = part["rebalances"]
    assert first == {**whole["rebalances"][0], "reason": first["reason"]}
    for one, was in ((second, whole["rebalances"][1]), (last, whole["rebalances"][2])):
        assert (one["started"], one["trigger"], one["by"]) == (None, "unknown", None)
        assert one["members"] in (None, was["members"])
        assert one["assigned"].keys() == {client}
        assert all(time in (None, was["unowned_ms"].get(name)) for name, time in one["unowned_ms"].items())
    for one in part["members"]:
        if one["client_id"] != client:
            assert (one["joined"], one["left"], one["partitions"]) == (None, None, None)
    table = kinspect("groups", "--format", "table", "--client-id", client, "--group", group, path).out
    assert ("0+? of 2" if capture == "groups_classic" else "0 of 1") in table


def test_of_one_client_alone_the_lag_of_its_group_is_not_known(rows):
    """Another member may have committed later."""
    path = CAPTURES / "4.4.0/groups_classic.pcap.gz"
    committed = rows("--client-id", "pc-jv-1", path)["pc-grp-java"]["committed"].values()
    assert committed
    assert {one["lag"] for one in committed} == {one["fetched_lag"] for one in committed} == {None}


def test_without_heartbeats_it_is_not_known_when_members_stopped(rows):
    """They tell members of a rebalance before these join."""
    path = CAPTURES / "4.4.0/groups_classic.pcap.gz"
    whole, part = rows(path), rows("--api", "!Heartbeat", path)
    for group, row in part.items():
        for one, was in zip(row["rebalances"], whole[group]["rebalances"], strict=True):
            assert all(time in (None, was["stopped_ms"][name]) for name, time in one["stopped_ms"].items())


def test_without_heartbeats_it_is_not_known_when_a_member_was_silent(answered):
    wire = Wire()
    wire.two()
    for time in range(1000, 20000, 1000):
        wire.heartbeat("a", time)
    wire.join("a", 40000, 40100, 2, asked="a-1", members=["a-1"])
    wire.sync("a", 40200, 40300, 2, {"t": [0]})
    (left,) = (one for one in answered(wire, "--api", "!Heartbeat")["members"] if one["client_id"] == "b")
    assert (left["left"], left["left_how"]) == (None, None)


@pytest.mark.parametrize("lossy", [False, True])
def test_of_a_capture_with_losses_it_is_not_known_that_a_member_was_told_of_nothing(tmp_path, lossy):
    """The answer to its heartbeat may be what was lost."""
    wire = Wire()
    wire.two()
    wire.join("b", 1000, 1500, 2, asked="b-1", topics=["t", "u"])
    wire.heartbeat("a", 1200, REBALANCING)
    wire.join("a", 1300, 1500, 2, asked="a-1", members=["a-1", "b-1"])
    for client in "ab":
        wire.sync(client, 1550, 1600, 2, {"t": [0]})
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(wire.packets()))
    (row,) = rows_of("groups", exchanges(path), lossy=lossy)
    stopped = rebalance(row, 2)["stopped_ms"]
    assert stopped == {"a": pytest.approx(399, abs=0.5), "b": None if lossy else pytest.approx(600, abs=0.5)}


def test_members_whose_join_was_not_seen_are_not_counted(answered):
    wire = Wire()
    beat(wire, "a", 0, 0, 1, topics=["t"], given=[0, 1])
    # The join of another one was lost.
    beat(wire, "b", 3000, 2, 2, owned=[])
    assert [one["members"] for one in answered(wire)["rebalances"]] == [None, None]


def test_a_join_behind_a_begin_that_was_not_seen_is_no_trigger(answered):
    wire = Wire()
    for client in ("a", "b"):
        wire.join(client, 100, 500, 7, asked=f"{client}-1", members=["a-1", "b-1", "c-1"] * (client == "a"))
    wire.join("c", 110, 500, 7)
    found = rebalance(answered(wire), 7)
    assert (found["started"], found["trigger"], found["by"]) == (None, "unknown", None)
    # Where the group was calm before it is one.
    calm = Wire()
    calm.heartbeat("a", 10)
    for client in ("a", "b"):
        calm.heartbeat(client, 120, REBALANCING)
        calm.join(client, 130, 500, 7, asked=f"{client}-1", members=["a-1", "b-1", "c-1"] * (client == "a"))
    calm.join("c", 110, 500, 7)
    assert [rebalance(answered(calm), 7)[key] for key in ("trigger", "by")] == ["member_joined", "c"]


def test_a_lag_that_is_not_known_is_explained(kinspect, tmp_path):
    wire = Wire()
    commit(wire, 200, 5)
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(wire.packets()))
    told = "LAG ?: no Fetch or ListOffsets told how far a partition goes since the commit"
    assert f"\n{told}.\n" in kinspect("groups", "--format", "table", path).out
    part = {"partition_index": 0, "error_code": 0, "high_watermark": 9}
    topics = [{"topic_id": "AAAAAAAAAAAAAAAAAAAAAg", "partitions": [part]}]
    wire.ask("f", FETCH, 300, {"replica_id": -1}, {"responses": topics}, version=13)
    path.write_bytes(pcap(wire.packets()))
    shown = " ".join(kinspect("groups", "--format", "table", path).out.split())
    assert f"{told}, unless by a topic id without a name (see --topic-names)." in shown


def test_a_group_that_is_not_there_is_said_to_be_filtered(kinspect):
    capture = CAPTURES / "4.4.0/groups_classic.pcap.gz"
    assert (
        "nothing passes the filter\n"
        in kinspect("groups", "--format", "table", "--group", "nosuch", capture).out
    )


@pytest.mark.parametrize(("offset", "mark"), [(2**63 - 1, -(2**63)), (5, -1)])
def test_made_up_offsets_have_no_lag(kinspect, tmp_path, offset, mark):
    wire = Wire()
    commit(wire, 0, offset)
    part = {"partition_index": 0, "error_code": 0, "high_watermark": mark, "records": b""}
    wire.ask(
        "f",
        FETCH,
        100,
        {"max_wait_ms": 500},
        {"responses": [{"topic": "t", "partitions": [part]}]},
        version=4,
    )
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(wire.packets()))
    (row,) = json.loads(kinspect("groups", "--format", "json", path).out)["rows"]
    (committed,) = row["committed"].values()
    assert committed["offset"] == offset
    assert committed["lag"] is None


def test_a_topic_id_that_nothing_names_is_said_to_have_no_name(kinspect, tmp_path):
    wire = Wire()
    commit(wire, 0, 5)
    part = {"partition_index": 0, "error_code": 0, "high_watermark": 9, "records": b""}
    told = {"responses": [{"topic_id": TOPIC, "partitions": [part]}]}
    wire.ask("f", FETCH, 100, {"max_wait_ms": 500}, told, version=13)
    path = tmp_path / "made.pcap"
    path.write_bytes(pcap(wire.packets()))
    found = json.loads(kinspect("groups", "--format", "json", path).out)
    assert found["capture"]["unresolved_topic_ids"] == 1
    assert found["rows"][0]["committed"]["t-0"]["lag"] is None


@pytest.mark.parametrize("version", [1, 4])
def test_a_coordinator_is_known_by_a_lookup_until_it_answers_itself(answered, version):
    wire = Wire()
    found = {"error_code": 0, "node_id": 1, "host": "broker.example", "port": 9092}
    asked, told = (
        ({"key": "g"}, found)
        if version < 4
        else ({"coordinator_keys": ["g"]}, {"coordinators": [{"key": "g", **found}]})
    )
    wire.ask("a", 10, 0, {"key_type": 0, **asked}, told, version=version)
    assert answered(wire)["coordinator"] == "broker.example:9092"
    wire.two()
    assert answered(wire)["coordinator"] == "10.0.0.9:9092"
