"""What two captures differ in: rows are matched, columns compared by their kinds, and chance is no difference."""

import random

import pytest
from support.captures import CAPTURES
from support.shares import one_in

import kinspect
from kinspect.analysis.histogram import Histogram
from kinspect.answers import answers, definition_of
from kinspect.answers.comparison import KEYS, comparable, differences
from kinspect.answers.latencyanswer import quantiles

MS = 1_000_000


def capture(exchanges=1000, seconds=10, incomplete=(), filters=()):
    return {
        "from": "2026-01-01T00:00:00.000000000Z",
        "until": f"2026-01-01T00:00:{seconds:02}.000000000Z",
        "counted": exchanges,
        "exchanges": exchanges,
        "orphans": 0,
        "complete": not incomplete,
        "instead": None,
        "filters": [*filters],
        "incomplete": [*incomplete],
    }


def found(answer, old, new, /, threshold=2.0, **captures):
    """The differences of rows; other columns are unknown. `captures`: what
    `before` and `after` are."""
    empty = dict.fromkeys(key.name for key in definition_of(answer).keys)
    sides = [
        {
            "answer": answer,
            "capture": captures.get(side, capture()),
            "rows": [{**empty, **row} for row in rows],
        }
        for side, rows in (("before", old), ("after", new))
    ]
    rows = differences([sides[0]], [sides[1]], threshold)
    assert all(tuple(row) == KEYS for row in rows)
    return rows


def brief(rows):
    return [(row["change"], *row["row"].values(), row["column"]) for row in rows]


def spread(*milliseconds):
    histogram = Histogram()
    for each in milliseconds:
        histogram.add(int(each * MS))
    return {"api": "Produce", "service_ms": quantiles(histogram)}


def test_all_answers_say_what_is_compared():
    assert {*answers()} - {*comparable()} == {"summary", "upgrade"}
    for name in comparable():
        each = definition_of(name)
        kinds = {key.name: key.kind for key in each.keys}
        assert kinds.keys() >= {*each.identity.split(), *each.addresses.split()}
        for column in each.compared.split():
            column, _, below = column.partition(".")
            kind = kinds[column]
            if below:
                columns = each.structs[kind.removesuffix("_map")].split(",")
                kind = dict(column.split() for column in columns)[below]
            known = kind in {"text", "bool", "int", "texts", "ints", "ints_map", "counts", "long"}
            assert known or each.structs[kind].startswith("p50 ")


@pytest.mark.parametrize(
    "name",
    one_in(
        3,
        [
            "4.4.0/txn_java.pcap.gz",
            "4.4.0/errors_java.pcap.gz",
            "2.8.2/sasl-scram-sha-512-bad.pcap",
            "3.6.2/groups_classic.pcap.gz",
            "connect/reset_librdkafka.pcap.gz",
            "settings/librdkafka.pcap.gz",
            "0.10.2.2/midstream.pcap",
        ],
    ),
)
def test_a_capture_has_no_difference_to_itself(name):
    read = [kinspect.answer(answer, CAPTURES / name) for answer in comparable()]
    assert any(each["rows"] for each in read)
    assert differences(read, read) == []


def test_quantiles_move_beyond_a_factor():
    fast = [1 + number % 7 / 10 for number in range(200)]
    slow = [30 * each for each in fast]
    (row,) = found("latency", [spread(*fast)], [spread(*slow)])
    assert (row["change"], row["column"].partition(".")[0]) == ("moved", "service_ms")
    assert row["factor"] == pytest.approx(30, rel=0.05)
    assert (row["before_count"], row["after_count"]) == (200, 200)
    assert found("latency", [spread(*fast)], [spread(*slow)], threshold=40) == []
    (row,) = found("latency", [spread(*slow)], [spread(*fast)])
    assert row["factor"] == pytest.approx(1 / 30, rel=0.05)


def test_few_are_not_enough():
    assert found("latency", [spread(1, 1, 1)], [spread(50, 50, 50)]) == []
    assert brief(found("latency", [spread(*[1] * 10)], [spread(*[50] * 10)]))[0][0] == "moved"
    # A p99 of few is that of one request.
    assert found("latency", [spread(*[1] * 99)], [spread(*[1] * 97, 900, 900)]) == []


def test_many_equal_values_are_on_either_side():
    assert found("latency", [spread(*[1] * 20)], [spread(*[50] * 2000)])[0]["factor"] == pytest.approx(
        50, 0.1
    )


def test_less_than_a_millisecond_is_no_difference():
    assert found("latency", [spread(*[0.1] * 500)], [spread(*[0.6] * 500)]) == []


def test_the_same_distribution_does_not_move():
    drawn = random.Random(1)
    for _ in range(50):
        sides = [[drawn.lognormvariate(2, 2) for _ in range(drawn.randrange(1, 400))] for _ in range(2)]
        assert found("latency", [spread(*sides[0])], [spread(*sides[1])]) == []


def test_counts_move_by_rate_and_share():
    def count(number):
        return [{"client_id": "a", "requests": number}]

    (row,) = found("clients", count(100), count(500))
    assert [row[key] for key in ("column", "before", "after", "factor")] == ["requests/s", 10, 50, 5]
    assert (row["before_count"], row["after_count"]) == (100, 500)
    # Twice as long, or as much of everything.
    assert found("clients", count(100), count(500), after=capture(5000, 50)) == []
    assert found("clients", count(100), count(500), after=capture(5000)) == []
    assert found("clients", count(1), count(3)) == []
    assert found("clients", count(100), count(500), after=capture(0, 0)) == []


def test_requests_by_value():
    def codecs(**counts):
        return [{"topic": "t", "direction": "produce", "client_id": "a", "codecs": counts}]

    (row,) = found("compression", codecs(gzip=3), codecs(none=1))
    assert [row[key] for key in ("change", "before", "after")] == ["changed", {"gzip": 3}, {"none": 1}]
    assert [row["change"] for row in found("compression", codecs(gzip=90), codecs(gzip=40, none=50))] == [
        "moved"
    ]
    assert found("compression", codecs(gzip=90), codecs(gzip=900)) == []
    assert found("compression", codecs(gzip=9), codecs(gzip=8, none=1)) == []
    assert found("compression", codecs(), codecs(gzip=8)) == []


def test_versions_are_those_of_apis_that_both_have():
    def uses(**versions):
        apis = {api: {"versions": {str(version): 1}} for api, version in versions.items()}
        return [{"client_id": "a", "software_version": "1.0", "apis": apis}]

    (row,) = found("clients", uses(Produce=3, Fetch=4), uses(Produce=9, Fetch=4, Metadata=1))
    assert (row["column"], row["before"], row["after"]) == (
        "apis.versions",
        {"Produce": {"3": 1}},
        {"Produce": {"9": 1}},
    )


def test_what_is_not_known_is_no_change():
    assert found("clients", [{"client_id": "a", "role": "producer"}], [{"client_id": "a"}]) == []
    rows = found("clients", [{"client_id": "a", "role": "x"}], [{"client_id": "a", "role": "y"}])
    assert brief(rows) == [("changed", "a", "role")]


def test_addresses_tell_rows_only_where_both_have_them():
    def pods(*addresses, roles):
        return [
            {"client_id": "a", "client_ip": address, "role": role}
            for address, role in zip(addresses, roles, strict=True)
        ]

    same = found("clients", pods("1", "2", roles="xy"), pods("2", "1", roles="yx"))
    assert same == []
    (row,) = found("clients", pods("1", "2", roles="xx"), pods("8", "2", "9", roles="xxx"))
    assert (row["change"], row["addresses"]) == ("appeared", {"client_ip": [None, "9"]})
    (row,) = found("clients", pods("1", roles="x"), pods("8", roles="y"))
    assert (row["change"], row["addresses"]) == ("changed", {"client_ip": ["1", "8"]})


def test_a_row_may_be_in_what_was_not_seen():
    lossy = capture(incomplete=["exchanges that --topic left out", "3 gaps"], filters=["--topic"])
    filtered = capture(incomplete=["exchanges that --topic left out"], filters=["--topic"])
    row = [{"group": "g"}]
    assert [each["caveat"] for each in found("groups", row, [], after=lossy)] == ["3 gaps"]
    assert [each["caveat"] for each in found("groups", row, [], before=lossy, after=filtered)] == [None]
    assert [each["caveat"] for each in found("groups", [], row, before=lossy)] == ["3 gaps"]


def test_names_that_one_side_has_not_may_be_in_what_it_did_not_see():
    def caveats(old, new, **captures):
        rows = [[{"group": "g", "topics": [*topics]}] for topics in (old, new)]
        return [each["caveat"] for each in found("groups", *rows, **captures)]

    lossy, short = capture(incomplete=["3 gaps"]), capture(seconds=6)
    assert caveats("ab", "a") == [None]
    assert caveats("ab", "a", after=lossy) == caveats("a", "ab", before=lossy) == ["3 gaps"]
    assert caveats("ab", "a", before=lossy) == caveats("ab", "ac", after=lossy) == [None]
    assert caveats("ab", "a", after=short) == ["it lasts 6,000 ms, the other one 10.0 s"]


def test_what_moved_in_a_part_may_be_its_own():
    rows = [[{"topic": "t", "client_id": "a", "records": count}] for count in (100, 900)]
    for seconds, sure in ((10, True), (6, True), (4, False)):
        (row,) = found("topics", *rows, after=capture(seconds=seconds))
        assert (row["change"], row["caveat"] is None) == ("moved", sure)


def test_expected_errors_come_and_go():
    def error(expected):
        return [{"api": "Fetch", "error": "X", "client_id": "a", "count": 3, "expected": expected}]

    assert found("errors", [], error(True)) == []
    assert brief(found("errors", [], error(False))) == [("appeared", "Fetch", "X", "a", None)]
    assert brief(found("errors", error(None), [])) == [("went", "Fetch", "X", "a", None)]


def test_the_topics_of_a_new_client_are_no_lines():
    def side(*clients):
        rows = {
            "clients": [{"client_id": client} for client in clients],
            "topics": [{"topic": "t", "direction": "produce", "client_id": client} for client in clients],
            "compression": [
                {"topic": "t", "direction": "produce", "client_id": client} for client in clients
            ],
        }
        return [
            {
                "answer": name,
                "capture": capture(),
                "rows": [
                    {**dict.fromkeys(key.name for key in definition_of(name).keys), **row} for row in each
                ],
            }
            for name, each in rows.items()
        ]

    assert [row["answer"] for row in differences(side("a"), side("a", "b"))] == ["clients"]
    # Of two that tell it alike there is one.
    assert [row["answer"] for row in differences(side("a")[1:], side("a", "b")[1:])] == ["topics"]
