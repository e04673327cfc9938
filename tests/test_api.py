"""`kinspect.read` and `kinspect.answer`: whatever is given, the results are those of the command."""

import decimal
import gc
import gzip
import io
import json
import os
import subprocess
import sys
from decimal import Decimal
from itertools import islice
from pathlib import Path

import pytest
import scapy.all as scapy
from hypothesis import given
from hypothesis import strategies as st
from support.books import balanced
from support.reading import texts
from support.shares import one_in

import kinspect as package
from kinspect import (
    Block,
    Caps,
    CaptureError,
    Exchange,
    KinspectError,
    TruncatedCaptureError,
    answer,
    read,
    records_of,
)
from kinspect.capture import open_timeline
from kinspect.filters.filterdefinitions import FILTERS
from kinspect.filters.recordfilters import RECORD_FILTERS
from kinspect.kafka.view.view import View
from kinspect.model import FRAME_MASK

CAPTURES = Path(__file__).parents[1] / "captures"
ERRORS = CAPTURES / "4.4.0" / "errors_java.pcap.gz"
NANO = CAPTURES / "4.4.0" / "nano.pcap"
TLS = CAPTURES / "tls" / "tls13.pcap.gz"
KEYS = CAPTURES / "tls" / "tls13.keys.log"

OF_SCAPY = [
    "4.4.0/errors_java.pcap.gz",
    "4.4.0/groups_classic.pcap.gz",
    "4.4.0/nano.pcap",
    "4.4.0/snap96.pcap",
    "0.10.2.2/ipv6.pcap",
    *(f"variants/{name}.pcap.gz" for name in ("sll", "sll2", "null", "rawip", "vlan", "ethpad", "nanobe")),
    "variants/ngmulti.pcapng.gz",
]
"""Captures with Ethernet, Linux cooked mode, loopback, raw IP, several link types, and packets that were cut."""
FILE = frozenset({"file"})


def lines(reading):
    """Its exchanges as JSON, but for the file's name."""
    return texts([exchange.to_dict() for exchange in reading], FILE)


def summary(reading):
    """Its summary, but for the files' names, which its id depends on."""
    return {**balanced(reading.summary), "files": None, "event_id": None}


def blocks(path):
    return [*open_timeline([path], block_size=2000)]


# ---------------------------------------------------------------------- the package


def test_every_name_at_the_top_is_there_and_listed():
    assert {*package.__all__} <= {*dir(package)}
    assert all(getattr(package, name) is not None for name in package.__all__)
    assert package.Exchange is Exchange
    with pytest.raises(AttributeError, match="no attribute 'reed'"):
        package.reed  # noqa: B018


@pytest.mark.parametrize(
    ("code", "kept_out"),
    [
        ("import kinspect", ("kinspect.", "orjson")),
        ("import kinspect; kinspect.KinspectError", ("kinspect.model", "orjson")),
        (f"import kinspect; [*kinspect.read({str(NANO)!r})]", ("scapy", "click", "rich")),
    ],
)
def test_no_more_is_imported_than_is_used(code, kept_out):
    code += f"; import sys; sys.exit(any(name.startswith({kept_out}) for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---------------------------------------------------------------------- options of the command


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--api", "Produce,Fetch"], {"filter": {"api": ["Produce", "fetch"]}}),
        (["--api", "1"], {"filter": {"api": 1}}),
        (["--topic", "pcerr-small*"], {"filter": {"topic": "pcerr-small*", "group": None}}),
        (["--client-id", "!pc-err-*"], {"filter": {"client_id": ("!pc-err-*",)}}),
        (["--port", "19092", "--errors-only"], {"filter": {"port": 19092, "errors_only": True}}),
        (["--min-latency", "500", "--since", "+1s"], {"filter": {"min_latency": 500, "since": "+1s"}}),
        (["--until", "2026-11-21T07:15:42Z"], {"filter": {"until": "2026-11-21T07:15:42Z"}}),
        (["--records"], {"records": True}),
        (["--payload", "hex"], {"payload": "hex"}),
        (["--fields", "api,request.size"], {"fields": ["api", "request.size"]}),
        (["--int64", "string", "--show-secrets"], {"int64": "string", "show_secrets": True}),
        (["--fields", "api,request.size"], {"fields": "api, request.size"}),
        (["--decode-as", "19092"], {"decode_as": [19092]}),
        (["--decode-as", "19092"], {"decode_as": 19092}),
        (["--max-in-flight", "1"], {"caps": Caps(in_flight=1)}),
    ],
)
def test_lines_and_summary_are_those_of_the_command(kinspect, arguments, options):
    found = kinspect("read", ERRORS, "--emit", "exchange,summary", "-q", *arguments)
    *printed, last = map(json.loads, found.out.splitlines())
    reading = read(ERRORS, **options)
    assert [json.loads(json.dumps(exchange.to_dict())) for exchange in reading] == printed
    assert reading.summary == last


def test_other_options_of_to_dict_may_be_given():
    exchange = next(read(NANO, fields=["api"]))
    assert [*exchange.to_dict()] == ["api"]
    assert [*exchange.to_dict(View(fields=["api_version"]))] == ["api_version"]


def test_topic_names_are_used():
    # Without the packets that tell them.
    late = scapy.rdpcap(str(ERRORS))[150:]
    (topic_id, *_) = {each for exchange in read(late) for each in exchange.summary.unresolved_topic_ids}
    assert "renamed" not in {topic for exchange in read(late) for topic in exchange.summary.topics}
    named = read(late, topic_names={topic_id: "renamed"})
    assert "renamed" in {topic for exchange in named for topic in exchange.summary.topics}


@pytest.mark.parametrize("keylog", [KEYS, str(KEYS), KEYS.read_bytes()], ids=["path", "text", "bytes"])
def test_a_key_log_is_a_path_or_its_bytes(keylog):
    found = {exchange.api for exchange in read(TLS, keylog=keylog)}
    assert {"Metadata", "Produce", "Fetch"} <= found
    assert [*read(TLS)] == []


def test_a_key_log_may_be_written_after_packets_it_is_for(tmp_path):
    path = tmp_path / "keys"
    path.touch()

    def packets():
        for number, packet in enumerate(scapy.rdpcap(str(TLS))):
            if number == 20:
                path.write_bytes(KEYS.read_bytes())
            yield packet

    reading = read(packets(), keylog=path)
    assert sorted(lines(reading)) == sorted(lines(read(TLS, keylog=KEYS)))
    assert min(exchange.request.first_frame for exchange in read(TLS, keylog=KEYS)) < 20


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"filter": {"topics": "a"}}, "there is no filter topics; there are api, topic, group"),
        ({"filter": {1: "a"}}, "there is no filter 1"),
        ({"filter": {"api": "Fitch"}}, "^filter api: there is no API 'Fitch': did you mean Fetch"),
        ({"filter": {"client_host": "10.0"}}, "^filter client_host: '10.0' is not an IP address"),
        (
            {"filter": {"until": "2026-11-21"}},
            "filter until: a date needs a time too, as 2026-11-21T00:00:00Z",
        ),
        ({"filter": {"since": "+9s", "until": "+1s"}}, "^filter since is not before filter until"),
        ({"filter": {"topic": b"orders"}}, "filter topic: b'orders' is not a text"),
        ({"filter": {"port": True}}, "filter port: True is not a text"),
        ({"filter": {"host": [None]}}, "filter host: None is not a text"),
        ({"filter": {"errors_only": "no"}}, "filter errors_only: 'no' is neither True nor False"),
        ({"filter": {"since": ["+1s"]}}, r"filter since: \['\+1s'\] is not a text"),
        ({"filter": {"min_latency": "long"}}, "filter min_latency: 'long' is not a duration"),
        ({"fields": ["apy"]}, "unknown field 'apy'"),
        ({"payload": "utf-8"}, "payload cannot be 'utf-8'"),
        ({"int64": "float"}, "int64 cannot be 'float'"),
        ({"keylog": "no/such.log"}, "--keylog: no/such.log: No such file"),
        ({"keylog": "a\0b"}, "--keylog: 'a.x00b': embedded null"),
        ({"topic_names": {"id": 5}}, "topic_names: must be topic ids and names"),
        ({"decode_as": [70000]}, "decode_as: 70000 is not a port"),
        ({"decode_as": "19092"}, "decode_as: '19092' is not a port: give numbers from"),
        ({"decode_as": ["19092"]}, "decode_as: '19092' is not a port"),
        ({"decode_as": True}, "decode_as: True is not a port"),
        ({"decode_as": None}, "decode_as: None is not a port"),
        ({"fields": "api,"}, "fields: must be keys of lines"),
        ({"fields": [5]}, "fields: must be keys of lines"),
        ({"fields": 5}, "fields: must be keys of lines"),
        ({"filter": "api=Fetch"}, "^filter: cannot be of type str: give a dict, as {'api': 'Fetch'}$"),
        ({"records": "yes"}, "^records: cannot be of type str: give True or False$"),
        ({"show_secrets": 1}, "^show_secrets: cannot be of type int: give True or False$"),
        ({"payload": ["text"]}, "^payload: cannot be of type list: give one of none, "),
        ({"int64": []}, "^int64: cannot be of type list: give one of number, string$"),
        ({"keylog": 5}, "^keylog: cannot be of type int: give the path of a key log, or its bytes$"),
        ({"keylog": bytearray(b"CLIENT_RANDOM")}, "^keylog: cannot be of type bytearray: give"),
        ({"topic_names": ["x"]}, "^topic_names: cannot be of type list: give a dict of"),
        ({"caps": 5}, "^caps: cannot be of type int: give a kinspect.Caps$"),
    ],
)
def test_options_that_make_no_sense_are_refused_at_once(options, why):
    with pytest.raises(KinspectError, match=why):
        read(NANO, **options)


# ---------------------------------------------------------------------- files


def test_several_captures_are_one_timeline():
    expected = lines(read(str(NANO), ERRORS))
    assert len(expected) == len(lines(read(NANO))) + len(lines(read(ERRORS)))
    assert lines(read([NANO, ERRORS])) == expected
    assert lines(read(path for path in (NANO, ERRORS))) == expected
    assert [*read([])] == []


@pytest.mark.parametrize(
    "opened",
    [lambda path: path.open("rb"), gzip.open, lambda path: io.BytesIO(path.read_bytes())],
    ids=["file", "gzip", "BytesIO"],
)
def test_an_open_file_is_read_and_stays_open(opened):
    expected = read(ERRORS)
    with opened(ERRORS) as file:
        reading = read(file)
        assert lines(reading) == lines(expected)
        assert summary(reading) == summary(expected)
        assert not file.closed


def test_a_pipe_gives_exchanges_before_its_end():
    data = gzip.decompress(ERRORS.read_bytes())
    out, into = os.pipe()
    with open(out, "rb") as reader, open(into, "wb", buffering=0) as writer:
        writer.write(data[: len(data) // 2])
        first = next(read(reader))
    assert first.order == 1


class Broken(io.RawIOBase):
    def __init__(self, error):
        self.error = error

    def read(self, size=-1):
        raise self.error


@pytest.mark.parametrize(
    ("file", "kind", "why"),
    [
        (
            lambda: io.StringIO("text"),
            CaptureError,
            "StringIO gives text: open the capture for reading bytes",
        ),
        (lambda: NANO.open(encoding="latin-1"), CaptureError, "gives text: open the capture"),
        (io.BytesIO, CaptureError, "BytesIO: is empty"),
        (lambda: io.BytesIO(b"no capture"), CaptureError, "BytesIO: not a capture"),
        (lambda: io.BytesIO(NANO.read_bytes()[:-5]), TruncatedCaptureError, "ends in the middle of packet"),
        (
            lambda: gzip.GzipFile(fileobj=io.BytesIO(ERRORS.read_bytes()[:-9])),
            TruncatedCaptureError,
            "ended before the end",
        ),
        (lambda: Broken(OSError(5, "Input/output error")), CaptureError, "Broken: Input/output error"),
        (lambda: Broken(ZeroDivisionError("no")), CaptureError, "Broken: cannot be read: ZeroDivisionError"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_error(file, kind, why):
    with file() as opened, pytest.raises(kind, match=why):
        [*read(opened)]


def test_a_closed_file_is_one_error():
    file = NANO.open("rb")
    file.close()
    with pytest.raises(CaptureError, match="closed file"):
        [*read(file)]


def test_errors_of_inputs_come_after_the_exchanges_of_the_others(tmp_path):
    empty, cut = tmp_path / "empty.pcap", tmp_path / "cut.pcap"
    empty.touch()
    cut.write_bytes(NANO.read_bytes()[:-5])
    reading = read(empty, NANO, cut)
    found = []
    with pytest.raises(CaptureError, match="is empty"):
        found += reading
    assert len(found) >= len([*read(NANO)])
    assert [type(error) for error in reading.errors] == [CaptureError, TruncatedCaptureError]
    assert [*reading] == []


@pytest.mark.parametrize("count", range(4))
def test_a_reading_ends_where_it_is_closed(count):
    with read(NANO) as reading:
        assert reading.summary["packets"] == 0
        found = [*islice(reading, count)]
    assert [exchange.order for exchange in found] == [*range(1, count + 1)]
    assert [*reading] == []
    assert balanced(reading.summary)["shown"] == count


def test_a_reading_that_is_dropped_leaves_no_file_open():
    gc.disable()
    try:
        for _ in read(CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz"):
            break
        assert "cluster_kraft" not in str([*map(os.path.realpath, Path("/proc/self/fd").iterdir())])
    finally:
        gc.enable()


# ---------------------------------------------------------------------- scapy


@pytest.mark.parametrize("name", one_in(3, OF_SCAPY))
def test_packets_of_scapy_are_read_as_their_file_is(name):
    packets = scapy.rdpcap(str(CAPTURES / name))
    expected = read(CAPTURES / name, payload="text")
    reading = read(packets, payload="text")
    assert lines(reading) == lines(expected)
    assert summary(reading) == summary(expected)
    one_by_one = read(iter(packets), payload="text")
    # Each comes at once, and so is not sorted by later ones.
    left_out = {"late_lines": None}
    assert sorted(lines(one_by_one)) == sorted(lines(read(CAPTURES / name, payload="text")))
    assert summary(one_by_one) | left_out == summary(expected) | left_out


def test_an_exchange_is_handed_on_before_the_packet_after_it_is_asked_for():
    taken = 0

    def packets():
        nonlocal taken
        with scapy.PcapReader(str(CAPTURES / "4.4.0" / "groups_classic.pcap.gz")) as file:
            for packet in file:
                taken += 1
                yield packet

    answered = 0
    for exchange in read(packets()):
        if exchange.outcome == "answered":
            assert exchange.response.last_frame & FRAME_MASK == taken
            answered += 1
    assert answered > 20


def test_a_packet_that_scapy_fails_to_dissect_is_one_of_its_file():
    path = CAPTURES / "not-kafka" / "fuzzpackets.pcap.gz"
    packets = scapy.rdpcap(str(path))
    assert any(type(packet) is scapy.Raw for packet in packets)
    expected, reading = read(path), read(packets)
    assert lines(reading) == lines(expected)
    # Of a packet without bytes scapy makes one of Ethernet.
    left_out = {"packets_without_tcp": None}
    assert summary(reading) | left_out == summary(expected) | left_out


def test_a_changed_packet_is_read_as_it_is_now():
    packets = scapy.rdpcap(str(NANO))
    for packet in packets:
        for side in ("sport", "dport"):
            if getattr(packet[scapy.TCP], side) == 19092:
                setattr(packet[scapy.TCP], side, 9999)
    assert {exchange.connection.broker_port for exchange in read(packets)} == {9999}


def segment(**fields):
    packet = scapy.Ether() / scapy.IP(src="10.0.0.1", dst="10.0.0.2") / scapy.TCP(dport=9092) / b"data"
    for name, value in fields.items():
        setattr(packet, name, value)
    return packet


@pytest.mark.parametrize(
    ("time", "nanoseconds"),
    [
        (scapy.EDecimal("1700000000.123456789"), 1_700_000_000_123_456_789),
        (Decimal("1700000000.9999999996"), 1_700_000_001_000_000_000),
        (1_700_000_000.5, 1_700_000_000_500_000_000),
        (1_700_000_000, 1_700_000_000_000_000_000),
        (-1, -1_000_000_000),
        *((never, None) for never in (None, float("nan"), float("inf"), Decimal("nan"), Decimal("1e999999"))),
    ],
)
def test_times_of_scapy_are_whole_nanoseconds_exactly(time, nanoseconds):
    from kinspect.capture.pythoninput import open_input

    with decimal.localcontext(prec=6):
        (block,) = open_input([segment(time=time)])
    assert block.times == [nanoseconds]


@pytest.mark.parametrize(("length", "wire"), [(None, 58), (1500, 1500), (-1, 58), ("long", 58)])
def test_length_on_the_wire_is_that_of_the_packet(length, wire):
    reading = read([segment(wirelen=length)])
    assert [*reading] == []
    assert reading.summary["bytes"] == wire


class Unbuildable(scapy.Packet):
    def build(self):
        raise ZeroDivisionError("no")


scapy.conf.l2types.register_layer2num(147, Unbuildable)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([5], "item 1: an object of type int is neither a packet of scapy nor a block: give a path, paths"),
        ([None], "item 1: an object of type NoneType"),
        ([b"packet"], "item 1: an object of type bytes"),
        ([segment(), "a.pcap"], "item 2: an object of type str"),
        ([(segment(), segment())], "item 1: an object of type tuple"),
        ([segment(), scapy.TCP()], "item 2: scapy has no link type for TCP, its first layer"),
        ([scapy.Raw(b"bytes")], "item 1: scapy has no link type for Raw"),
        ([Unbuildable()], "item 1: scapy fails to give its bytes: ZeroDivisionError"),
        ([segment(time="now")], "item 1: its time is no number: 'now'"),
        ([segment(time=[1])], "item 1: its time is no number"),
        (
            [Block(b"ab", 1, [None], [0], [2], [], [1])],
            "item 1: its columns are of different lengths, or hold",
        ),
        ([Block(b"ab", 1, [None], [0], [3], [2], [1])], "item 1: its columns"),
        ([Block(b"ab", 1, [None], [-1], [1], [2], [1])], "item 1: its columns"),
        ([Block(b"ab", 1, [None], [2], [1], [2], [1])], "item 1: its columns"),
        ([Block(b"ab", 1, ["now"], [0], [2], [2], [1])], "item 1: its columns"),
        ([Block(b"ab", 1, [None], [0], [2], [2.0], [1])], "item 1: its columns"),
        ([Block(b"ab", 1, [None], [0], [2], [2], [1 << 16])], "item 1: its columns"),
    ],
)
def test_an_item_that_is_none_of_it_is_one_error(given, why):
    for form in (given, iter(given)):
        with pytest.raises(CaptureError, match=why):
            [*read(form)]


@pytest.mark.parametrize(
    "values",
    [([], 1, [], [], [], [], []), (b"ab", 1, [None], (0,), [2], [2], [1]), (b"ab", 1, 1, 1, 1, 1, 1)],
)
def test_a_block_of_other_types_is_one_error(values):
    # The compiled form makes no such block.
    with pytest.raises((CaptureError, TypeError)):
        [*read([Block(*values)])]


def test_what_comes_before_such_an_item_is_read():
    packets = [*scapy.rdpcap(str(NANO))]
    reading = read([*packets, object()])
    found = []
    with pytest.raises(CaptureError, match=f"item {len(packets) + 1}: an object of type object"):
        found += reading
    assert len(found) == len([*read(NANO)])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            5,
            "cannot read an object of type int: give a path, paths, a file opened for reading bytes, packets",
        ),
        (None, "type NoneType"),
        (NANO.read_bytes(), "type bytes"),
        (scapy.AsyncSniffer, "type type"),
        ([NANO, 5], "an object of type int among paths is none"),
        ([NANO, b"nano.pcap"], "an object of type bytes among paths"),
        ("a\0b", "no file has such a name"),
        ("no/such.pcap", "no/such.pcap: no such file"),
    ],
)
def test_what_cannot_be_read_is_one_error(given, why):
    with pytest.raises(KinspectError, match=why):
        [*read(given)]


def test_an_error_of_the_iterator_itself_is_passed_on():
    def packets():
        yield segment()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        [*read(packets())]


@given(
    st.lists(st.binary(max_size=80), max_size=20), st.sampled_from([scapy.Ether, scapy.IP, scapy.CookedLinux])
)
def test_any_bytes_in_packets_give_a_result(payloads, layer):
    packets = [layer() / payload for payload in payloads]
    for each in (packets, iter(packets)):
        reading = read(each)
        assert len([*reading]) == balanced(reading.summary)["exchanges"]
        assert reading.summary["packets"] == len(packets)


# ---------------------------------------------------------------------- blocks


@pytest.mark.parametrize("path", [ERRORS, NANO, CAPTURES / "variants" / "ngmulti.pcapng.gz"])
def test_blocks_are_read_as_the_file_they_come_from(path):
    expected = lines(read(path))
    assert lines(read(blocks(path))) == expected
    assert sorted(lines(read(block for block in blocks(path)))) == sorted(expected)


def test_packets_are_numbered_in_their_order_whatever_the_blocks_say():
    for block in (given := blocks(NANO)):
        block.first_frame = 7
    assert lines(read(given)) == lines(read(NANO))


def test_packets_and_blocks_may_follow_one_another():
    packets = scapy.rdpcap(str(NANO))
    half = len(packets) // 2
    (whole,) = open_timeline([NANO])
    rest = Block(
        whole.data,
        1,
        *(getattr(whole, name)[half:] for name in ("times", "starts", "ends", "wire_lengths", "link_types")),
    )
    assert lines(read([*packets[:half], rest])) == lines(read(NANO))


def test_an_answer_is_what_its_command_prints(kinspect):
    path = "captures/4.4.0/txn_java.pcap.gz"
    for name, more, options in (
        ("topics", ["--client-id", "pc-jt-*"], {"filter": {"client_id": "pc-jt-*"}}),
        ("clients", [], {}),
        ("upgrade", ["--to", "4.0"], {"to": "4.0"}),
    ):
        printed = json.loads(kinspect(name, path, "--format", "json", *more).out)
        assert answer(name, path, **options) == printed


def test_an_answer_there_is_not_is_named():
    with pytest.raises(KinspectError, match="there is no answer 'nope'; there are summary, topics"):
        answer("nope", "captures/4.4.0/nano.pcap")


def test_an_answer_needs_all_of_its_input():
    with pytest.raises(TruncatedCaptureError):
        answer("topics", "captures/variants/cutfile.pcap")


# ---------------------------------------------------------------------- records


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([], {}),
        (["--payload", "hex", "--once"], {"payload": "hex", "once": True}),
        (["--committed", "--control"], {"committed": True, "control": True}),
        (["--key", "key-[01]", "--key", "re:4$"], {"key": ["key-[01]", "re:4$"]}),
        (
            ["--topic", "*-out", "--offset", "6..9", "--partition", "0"],
            {"topic": "*-out", "offset": "6..9", "partition": 0},
        ),
        (["--direction", "produce", "--until", "+3s"], {"direction": "produce", "until": "+3s"}),
        (
            ["--client-id", "*-prod*", "--record-time", "+0s.."],
            {"client_id": "*-prod*", "record_time": "+0s.."},
        ),
    ],
)
def test_records_are_those_that_the_command_prints(kinspect, arguments, options):
    path = CAPTURES / "4.1.2" / "txn_java.pcap.gz"
    printed = [
        json.loads(line)
        for line in kinspect("records", path, "-q", "--format", "jsonl", *arguments).out.splitlines()
    ]
    assert printed
    assert [*records_of(path, **options)] == printed


def test_the_names_of_filters_of_records_are_typed():
    assert package.RecordFilters.__annotations__.keys() == FILTERS.keys() | RECORD_FILTERS.keys()


def test_records_come_as_packets_do():
    given = blocks(CAPTURES / "4.4.0" / "groups_classic.pcap.gz")
    taken = []
    found = records_of(taken.append(block) or block for block in given)
    assert next(found)["topic"] == "pc-grp"
    assert len(taken) < len(given)
    found.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nope": 1}, "there is no filter nope; there are api, .*, committed$"),
        ({"offset": "9..5"}, "^filter offset: '9..5' is empty"),
        ({"committed": 1}, "^filter committed: 1 is neither True nor False"),
        ({"payload": "json5"}, "^payload cannot be 'json5'"),
        ({"payload": ["auto"]}, r"^payload cannot be \['auto'\]; it is one of .*, auto$"),
        ({"payload": "auto", "schema_registry": 5}, "^schema_registry: cannot be of type int: give the path"),
        ({"once": "yes"}, "^once: cannot be of type str"),
    ],
)
def test_wrong_options_of_records_are_told_at_once(options, message):
    with pytest.raises(KinspectError, match=message):
        records_of(NANO, **options)


def test_records_need_all_of_their_input():
    with pytest.raises(TruncatedCaptureError):
        [*records_of("captures/variants/cutfile.pcap")]
