"""Fields and bytes belong together both ways, and what is not to be shown is not drawn."""

import base64
import binascii
import contextlib

import pytest
from support.tui import CAPTURES, ERRORS, NANO, indexed, keylog

from kinspect.kafka.fields.secrets import TOPICS as SECRET_TOPICS
from kinspect.kafka.view.view import View
from kinspect.tui.index.batches import parts
from kinspect.tui.index.exchangefields import ExchangeFields, TreeNode

VIEW = View(records=True)
SEEN = (
    ERRORS,
    CAPTURES / "4.4.0" / "txn_java.pcap.gz",
    CAPTURES / "4.4.0" / "snap96.pcap",  # without records
    CAPTURES / "4.4.0" / "odd.pcap.gz",
    CAPTURES / "0.8.2.2" / "simple-consumer-lz4.pcap",
    CAPTURES / "0.10.0.1" / "message-format-downconv.pcap.gz",
    CAPTURES / "4.4.0" / "voter.pcap.gz",
    pytest.param(CAPTURES / "4.4.0" / "cluster_kraft.pcap.gz", marks=pytest.mark.big),
)
WITH_RECORDS = SEEN[:2] + SEEN[3:]
SECRET = (
    CAPTURES / "4.4.0" / "sasl_plain.pcap.gz",
    CAPTURES / "0.10.0.1" / "sasl-plain.pcap",
    CAPTURES / "0.10.0.1" / "sasl-plain-bad.pcap",
    CAPTURES / "4.4.0" / "sasl_scramsha512.pcap.gz",
    CAPTURES / "4.4.0" / "tokens.pcap",
    CAPTURES / "4.4.0" / "admin_java.pcap.gz",
    CAPTURES / "tls" / "sasl_ssl_tls12.pcap.gz",
)


def all_fields(path, view=VIEW, step=1):
    store = indexed(path, keylog=keylog(path))
    return [
        (exchange, ExchangeFields(exchange, view))
        for exchange in map(store.exchange, range(0, store.count, step))
    ]


@pytest.mark.parametrize("path", SEEN, ids=lambda path: path.name)
def test_a_byte_leads_to_its_field_and_the_field_to_its_bytes(path):
    for exchange, fields in all_fields(path, step=3):
        for side, message in fields.messages.items():
            spans = [*message.header, *message.body]
            assert message.raw == getattr(exchange, side).raw
            for span in spans[:: max(1, len(spans) // 25)]:
                if span.start == span.end:
                    continue
                place = fields.line_at(side, span.start)
                node = fields.lines[place]
                assert node.side == side
                assert node.start <= span.start < node.end
                if span.type not in ("tags", "tag", "records"):
                    # A list of plain values is one line.
                    assert node.path in (span.path, span.path.rpartition("[")[0])
                    assert node.end >= span.end


@pytest.mark.parametrize("path", SEEN, ids=lambda path: path.name)
def test_folding_shows_what_it_hides(path):
    for _, fields in all_fields(path, step=5):
        before = [id(node) for node in fields.lines]
        for place in range(len(before) - 1, -1, -1):
            if fields.lines[place].open:
                fields.toggle(place)
                fields.toggle(place)
        assert [id(node) for node in fields.lines] == before
        for side in fields.messages:
            assert fields.lines[fields.root_line(side)].key == side


def records_of(node, found):
    """The nodes of batches and records below a node."""
    if node.type in ("batch", "record", "messages"):
        found.append(node)
    return found


def walk(fields: ExchangeFields, node: TreeNode, found):
    records_of(node, found)
    for child in fields.children(node) if node.unfolds else ():
        walk(fields, child, found)
    return found


def every_node(fields):
    return [node for root in fields._roots for node in walk(fields, root, [])]


@pytest.mark.parametrize("path", [NANO, *WITH_RECORDS], ids=lambda path: path.name)
def test_batches_and_records_lie_where_they_are_said_to(path):
    seen = 0
    for _, fields in all_fields(path):
        for node in every_node(fields):
            raw = fields.messages[node.side].raw[node.start : node.end]
            if node.type == "batch":
                seen += 1
                assert len(raw) == node.value["size"]
                assert int.from_bytes(raw[:8], signed=True) == node.value["base_offset"]
                assert raw[16] == node.value["magic"] == 2
                assert int.from_bytes(raw[57:61]) == node.value["count"]
            elif node.type == "record":
                assert node.value["value_size"] is None or node.value["value_size"] < len(raw)
            else:
                seen += 1
                assert raw[16] == node.value["magic"] < 2
    assert seen


def drawn(message):
    """The bytes that are drawn, in runs."""
    runs, position = [], 0
    for start, end in [*message.hidden, (len(message.raw), 0)]:
        runs.append(message.raw[position:start])
        position = end
    return runs


def texts(value, hidden, key=""):
    """Values that only `--show-secrets` shows: those that became null without it."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from texts(item, hidden.get(name) if isinstance(hidden, dict) else None, name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            other = hidden[index] if isinstance(hidden, list) and index < len(hidden) else None
            yield from texts(item, other, key)
    elif isinstance(value, str) and hidden is None:
        yield value


@pytest.mark.parametrize("path", SECRET, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_secrets_are_not_drawn(path):
    found = 0
    open_view = View(records=True, show_secrets=True)
    for exchange, fields in all_fields(path):
        whole = open_view.exchange(exchange)
        for side, message in fields.messages.items():
            if exchange.kind == "sasl_token":
                found += 1
                assert message.hidden == [(0, len(message.raw))] or not message.raw
            shown = drawn(message)
            for secret in texts(whole[side]["body"], fields.line[side]["body"]):
                forms = [secret.encode()]
                with contextlib.suppress(binascii.Error, ValueError):
                    forms.append(base64.b64decode(secret, validate=True))
                for form in forms:
                    if len(form) >= 4:
                        found += 1
                        assert not any(form in run for run in shown), (exchange, secret)
    assert found


@pytest.mark.parametrize("path", SECRET, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_with_both_options_everything_is_drawn(path):
    view = View(records=True, payload="text", show_secrets=True)
    assert not any(m.hidden for _, fields in all_fields(path, view) for m in fields.messages.values())


@pytest.mark.parametrize(
    "path",
    [
        NANO,
        *WITH_RECORDS,
        CAPTURES / "0.11.0.3" / "headers-idempotent.pcap",
        CAPTURES / "0.8.2.2" / "partial-fetch.pcap.gz",
    ],
    ids=lambda path: path.name,
)
def test_keys_and_values_are_not_drawn(path):
    found = 0
    payload = View(records=True, payload="hex", show_secrets=True)
    for exchange, fields in all_fields(path):
        whole = payload.exchange(exchange)
        for side, message in fields.messages.items():
            shown = drawn(message)
            for record in record_values(whole[side]["body"]):
                if len(set(record)) >= 5:
                    found += 1
                    assert not any(record in run for run in shown), (exchange, record)
    assert found


def record_values(value):
    if isinstance(value, list):
        for item in value:
            yield from record_values(item)
    elif isinstance(value, dict):
        if "value_size" in value and "offset" in value:
            yield from (bytes.fromhex(value[key]) for key in ("key", "value") if value[key])
        for item in value.values():
            yield from record_values(item)


def test_payload_is_drawn_if_asked_for_but_no_metadata_records():
    view = View(records=True, payload="text")
    assert not any(m.hidden for _, fields in all_fields(NANO, view) for m in fields.messages.values())
    path = CAPTURES / "4.4.0" / "voter.pcap.gz"
    secret = [
        message
        for exchange, fields in all_fields(path, view)
        for message in fields.messages.values()
        if not SECRET_TOPICS.isdisjoint(exchange.summary.topics)
        and any(s.type == "records" and s.value for s in message.body)
    ]
    assert secret
    for message in secret:
        for span in message.body:
            if span.type == "records" and span.value:
                for part in parts(span, shared=True):
                    if part.type == "records":
                        assert all(map(message.is_hidden, range(part.start, part.end)))
