"""Long arrays are unfolded in stretches, and only what is to be seen is made."""

import pytest
from support.pcap import Conversation, framed, pcap
from support.tui import indexed

from kinspect.kafka.view.view import View
from kinspect.protocol import Message, encode_request, encode_response
from kinspect.tui.index.exchangefields import ERROR, FAULTS_SHOWN, STRETCH, ExchangeFields
from kinspect.tui.widgets.fieldtree import VALUE_SHOWN, value

METADATA = 3
COUNT = 2 * STRETCH + 345


def topics(count, **fields):
    empty = {"error_code": 3, "is_internal": False, "partitions": []}
    return [{**empty, "name": f"t-{number}", **fields} for number in range(count)]


@pytest.fixture
def fields_of(tmp_path):
    """The fields of a Metadata response with these topics."""

    def make(listed):
        talk = Conversation()
        talk.open()
        talk.client_sends(framed(encode_request(Message(METADATA, 1, 1, {"topics": None}, "c"))))
        body = {"brokers": [], "controller_id": 0, "topics": listed}
        talk.broker_sends(framed(encode_response(Message(METADATA, 1, 1, body))))
        path = tmp_path / "made.pcap"
        path.write_bytes(pcap(talk.packets))
        return ExchangeFields(indexed(path).exchange(0), View())

    return make


def place_of(fields, key):
    return max(place for place, node in enumerate(fields.lines) if node.key == key)


def unfold(fields, key):
    """Unfold what is not, and tell what stands below it."""
    place = place_of(fields, key)
    if not fields.lines[place].open:
        fields.toggle(place)
    return fields.children(fields.lines[place])


def test_a_long_array_is_a_list_of_stretches(fields_of):
    fields = fields_of(topics(COUNT))
    stretches = unfold(fields, "topics")
    assert [node.key for node in stretches] == ["[0–999]", "[1000–1999]", "[2000–2344]"]
    assert [str(value(node, fields)) for node in stretches] == ["(1000)", "(1000)", "(345)"]
    assert len(fields.lines) < 200
    below = unfold(fields, "[2000–2344]")
    assert [node.key for node in below] == [f"[{number}]" for number in range(2000, COUNT)]
    assert str(value(below[-1], fields)) == f"t-{COUNT - 1}"
    raw = fields.messages["response"].raw
    assert raw[below[7].start : below[7].end] == b"\0\3\0\6t-2007" + bytes(5)
    assert (stretches[2].start, stretches[2].end) == (below[0].start, below[-1].end)


def test_a_byte_leads_into_its_stretch(fields_of):
    fields = fields_of(topics(COUNT))
    at = fields.messages["response"].raw.index(b"t-1234")
    node = fields.lines[fields.line_at("response", at)]
    assert node.path == "topics[1234].name"
    assert [up.key for up in (node.parent, node.parent.parent)] == ["[1234]", "[1000–1999]"]


def test_an_array_as_long_as_a_stretch_is_none(fields_of):
    assert [node.key for node in unfold(fields_of(topics(STRETCH)), "topics")][-1] == f"[{STRETCH - 1}]"


def test_stretches_of_stretches(fields_of, monkeypatch):
    monkeypatch.setattr("kinspect.tui.index.exchangefields.STRETCH", 10)
    fields = fields_of(topics(345))
    assert [node.key for node in unfold(fields, "topics")] == [
        "[0–99]",
        "[100–199]",
        "[200–299]",
        "[300–344]",
    ]
    assert [node.key for node in unfold(fields, "[300–344]")][-1] == "[340–344]"
    assert [node.key for node in unfold(fields, "[340–344]")] == [f"[{n}]" for n in range(340, 345)]
    at = fields.messages["response"].raw.index(b"t-123")
    assert fields.lines[fields.line_at("response", at)].path == "topics[123].name"


def test_of_a_long_value_the_begin_is_shown(fields_of):
    partition = {"error_code": 0, "partition_index": 0, "leader_id": 1, "isr_nodes": []}
    partition["replica_nodes"] = [*range(100_000)]
    fields = fields_of(topics(1, name="\u202e" * 10_000, partitions=[partition]))
    unfold(fields, "partitions")
    unfold(fields, "[0]")
    shown = {node.key: str(value(node, fields)) for node in fields.lines if node.path.startswith("topics[0]")}
    assert shown["name"] == ("\\u202e" * VALUE_SHOWN)[:VALUE_SHOWN] + "…"
    assert shown["replica_nodes"].startswith("0, 1, 2, 3, ")
    assert shown["replica_nodes"].endswith("…")
    assert len(shown["replica_nodes"]) <= VALUE_SHOWN + 1
    assert shown["isr_nodes"] == "[]"


def test_many_errors_fold_behind_one_line(fields_of):
    fields = fields_of(topics(COUNT))
    errors = [node for node in fields.lines if node.kind == ERROR]
    assert len(errors) == FAULTS_SHOWN + 1
    assert str(value(errors[-1], fields)) == "2,335 more"
    below = fields.children(errors[-1])
    assert len(below) == 91
    assert str(value(below[0], fields)).endswith("topics[10]")
    assert str(value(below[-1], fields)) == "and 2,245 more"
    assert [node.kind for node in fields_of(topics(FAULTS_SHOWN)).lines].count(ERROR) == FAULTS_SHOWN


def test_a_field_whose_end_was_not_looked_for_shows_no_bytes(fields_of, monkeypatch):
    monkeypatch.setattr("kinspect.tui.index.exchangefields.SPANS_BYTES", 4_000_000)
    fields = fields_of(topics(COUNT))
    stretches = unfold(fields, "topics")
    listed = fields.lines[place_of(fields, "topics")]
    assert listed.bare
    assert listed.start == listed.end
    assert [node.bare for node in stretches] == [False, True, True]
    first, last = fields.children(stretches[0])[0], fields.children(stretches[2])[-1]
    assert not first.bare
    assert first.end - first.start == len(b"\0\3\0\3t-0") + 5
    assert last.bare
    assert all(node.bare for node in fields.children(last))
    assert not any(node.bare for node in fields.lines if node.side == "request")
