"""Filters over rows pass what the command line's filters pass, and the list is in order."""

import pytest
from support.tui import CAPTURES, ERRORS, indexed, keylog

import kinspect
from kinspect.errors import KinspectError
from kinspect.filters.filter import Filter
from kinspect.kafka.wire.wait import CAUSES
from kinspect.tui.index import listing
from kinspect.tui.index.complete import completions, written
from kinspect.tui.index.filterline import ALL_NAMES, parse_filter
from kinspect.tui.index.indexer import BATCH_ROWS
from kinspect.tui.index.listfilter import ListFilter
from kinspect.tui.index.listing import Listing, RowOrder
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store

FILTERS = (
    "",
    "--api Fetch,Produce --api !Produce",
    "api=1 errors-only",
    "--topic '!pcerr-*'",
    "topic=pcerr-small group=*",
    "client-id=",
    "host=127.0.0.0/8 port=19092",
    "client-host=::1 broker-host=!10.*",
    "wait=long_poll,group_wait",
    "wait=queued,throttled,retransmitted api=!Fetch",
    "software=*/4.* api=!ApiVersions",
    "error=MEMBER_ID_REQUIRED,3,14 topic=!nothing",
    "min-service=100 role=consumer",
    "--min-latency=100",
    "since=+1s until=+3s",
    "api=Fetch topic=* min-latency=1",
)
SEEN = (
    ERRORS,
    CAPTURES / "4.4.0" / "lossin.pcap.gz",
    CAPTURES / "4.4.0" / "snap96.pcap",
    CAPTURES / "4.4.0" / "ipv6.pcap",
    CAPTURES / "3.9.2" / "sasl_plain.pcap.gz",
    CAPTURES / "0.10.2.2" / "midstream.pcap",
    CAPTURES / "4.4.0" / "kip848.pcap.gz",
    CAPTURES / "tls" / "go.pcap.gz",
)


@pytest.fixture(scope="module", params=SEEN, ids=lambda path: path.name)
def both(request):
    """The rows of a capture, and its exchanges."""
    secrets = keylog(request.param)
    return indexed(request.param, keylog=secrets), [*kinspect.read(request.param, keylog=secrets)]


@pytest.mark.parametrize("text", FILTERS)
def test_filters_pass_what_those_of_the_command_line_pass(both, text):
    store, exchanges = both
    chosen = Filter(**parse_filter(text))
    chosen.start = store.start
    list_filter = ListFilter(store, parse_filter(text))
    passed = [number for number, exchange in enumerate(exchanges) if chosen.matches(exchange)]
    assert [*list_filter.passes(0, 3), *list_filter.passes(3, store.count)] == passed
    assert list_filter.unknown == chosen.unknown


def test_a_connection_alone(both):
    store, exchanges = both
    connection = store[store.count // 2].connection
    passed = ListFilter(store, {}, connection).passes(0, store.count)
    wanted = exchanges[store.count // 2].connection.connection_id
    assert passed == [
        n for n, exchange in enumerate(exchanges) if exchange.connection.connection_id == wanted
    ]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("apis=Fetch", "there is no filter 'apis'"),
        ("api=Fetsch", "did you mean Fetch"),
        ("topic", "topic needs a value"),
        ("errors-only=1", "takes no value"),
        ("min-latency=fast", "not a duration"),
        ("topic='a", "quote"),
        ("api=a,,b", "empty value"),
        ("since=yesterday", "is not a time"),
        ("host=10.0", "not an IP address"),
        ("[red]x[/red]", "there is no filter"),
    ],
)
def test_what_is_wrong_with_a_filter_is_said(text, wrong):
    with pytest.raises(KinspectError, match=None) as caught:
        parse_filter(text)
    assert wrong in str(caught.value)
    assert "\n" not in str(caught.value)


def brought_up(listed):
    for _ in listed.update():
        pass
    return [listed[place] for place in range(len(listed))]


def unexpected(exchange):
    """Latency, that of expected waits below all others."""
    if exchange.latency_ns is None:
        return None
    return exchange.wait not in ("long_poll", "group_wait"), max(exchange.latency_ns, 0)


def by_cause(exchange):
    causes = ["long_poll", "group_wait", "broker", "queued", "throttled", "retransmitted"]
    return exchange.wait and (causes.index(exchange.wait), max(exchange.latency_ns, 0))


@pytest.mark.parametrize("piece", [7, 4096])
@pytest.mark.parametrize("order", [RowOrder(key, down) for key in listing.KEYS for down in (False, True)])
def test_lists_are_in_order(both, order, piece, monkeypatch):
    monkeypatch.setattr(listing, "PIECE", piece)
    store, exchanges = both
    listed = Listing(store)
    listed.sort(order)
    rows = brought_up(listed)
    assert sorted(rows) == [*range(store.count)]
    value = {
        "completion": lambda exchange: exchange.order,
        "time": lambda exchange: exchange.timestamp,
        "latency": lambda exchange: exchange.latency_ns,
        "slow": unexpected,
        "wait": by_cause,
        "size": lambda exchange: sum(m.size for m in (exchange.request, exchange.response) if m is not None),
    }[order.key]
    values = [value(exchanges[row]) for row in rows]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=order.down)
    assert values[: len(known)] == known, "what has no value comes last"
    assert [listed.place(row) for row in rows] == [*range(store.count)]


def test_a_list_grows_with_its_store():
    whole = indexed(ERRORS)
    store = Store(whole.inputs, Spool())
    listed = Listing(store)
    batches = []
    listed.choose(ListFilter(store, parse_filter("errors-only")))
    listed.sort(RowOrder("latency", True))
    from kinspect.tui.index.captures import index

    index(whole.inputs, store.spool, batches.append)
    rows = b"".join(batch.rows for batch in batches)
    size = len(whole.rows) // whole.count
    store.add(batches[-1]._replace(rows=b"", done=False))
    for batch in batches[:-1]:
        store.add(batch._replace(rows=b""))
    for start in range(0, len(rows), 10 * size):
        store.add(
            batches[-1]._replace(rows=rows[start : start + 10 * size], texts=[], names=[], seen=[], places=[])
        )
        seen = brought_up(listed)
    expected = Listing(whole)
    expected.choose(ListFilter(whole, parse_filter("errors-only")))
    expected.sort(RowOrder("latency", True))
    assert seen == brought_up(expected)
    assert whole.count < BATCH_ROWS


COMPLETIONS = [
    ("a", ["api="]),
    ("--a", ["--api="]),
    ("err", ["error=", "errors-only"]),
    ("error", ["errors-only"]),
    ("api=EndT", ["api=EndTxn"]),
    ("errors-only api=Fetch,EndT", ["errors-only api=Fetch,EndTxn"]),
    ("--api EndT", ["--api EndTxn"]),
    ("api=!EndT", ["api=!EndTxn"]),
    ("topic=pcerr-s", ["topic=pcerr-small"]),
    ("group=", ["group=pcerr-fg", "group=pcerr-fg2"]),
    ("client-id=pc-err-f", ["client-id=pc-err-fence"]),
    ("min-latency=", []),
    ("wait=", [f"wait={cause}" for cause in sorted(CAUSES)]),
    ("wait=!q", ["wait=!queued"]),
    ("role=c", ["role=consumer", "role=controller"]),
    ("software=apache-kafka-java", ["software=apache-kafka-java/4.4.0"]),
    ("error=INVALID_R", ["error=INVALID_RECORD"]),
    ("nothing", []),
]


@pytest.mark.parametrize(("text", "expected"), COMPLETIONS)
def test_names_are_completed(text, expected):
    assert completions(text, indexed(ERRORS)) == expected


def test_every_filter_is_offered():
    assert completions("", indexed(ERRORS)) == [
        f"{option}{'' if option in ('errors-only', 'no-twins', 'committed') else '='}" for option in ALL_NAMES
    ]


@pytest.mark.parametrize(
    "name", ["a b", "a,b", "a*b", "!a", "a[b]", "a'b", '"', "\x1b[31m", "\u202ea", "ä", "a!b"]
)
def test_names_are_written_so_that_they_match(name):
    text = written(name)
    assert text.isprintable()
    assert "," not in text
    values = parse_filter(f"topic={text}")
    from kinspect.filters.values import glob

    assert glob(values["topic"][0])(name)
