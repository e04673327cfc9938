"""Exports of the explorer can be read again."""

import io
import json
from pathlib import Path

import pytest
from support.pcap import Conversation, framed, pcap
from support.tui import CAPTURES, NANO, indexed

import kinspect
from kinspect.errors import KinspectError
from kinspect.output.escape import escape
from kinspect.protocol import Message, encode_request, encode_response
from kinspect.tui.index import export, reread

SEEN = (
    "4.4.0/sarama.pcap.gz",
    "4.4.0/ipv6.pcap",
    "4.4.0/any_sll2.pcap",
    "variants/ng.pcapng.gz",
    "variants/vlan.pcap.gz",
)


def told(exchange):
    """Values of an exchange that a cut leaves unchanged: not those of its origin and place."""
    line = exchange.to_dict()
    return [
        line["api"],
        line["correlation_id"],
        line["client"]["port"],
        line["timestamp"],
        line["completed_at"],
    ] + [line[side] and (line[side]["body"], line[side]["size"]) for side in ("request", "response")]


@pytest.mark.parametrize("compressed", [True, False], ids=["compressed", "plain"])
@pytest.mark.parametrize("name", SEEN)
def test_saved_packets_hold_the_exchanges(name, compressed, plain, tmp_path):
    path = CAPTURES / name if compressed else plain(CAPTURES / name)
    store = indexed(path)
    expected = [*kinspect.read(path)]
    # Answered ones, whose names of topics do not come from others.
    chosen = [n for n, e in enumerate(expected) if e.outcome == "answered" and not e.summary.topic_ids][1::4]
    target = tmp_path / "saved.pcapng"
    with target.open("wb") as file:
        saved = export.save(store, chosen, file)
    assert saved.packets >= len(chosen)
    found = {json.dumps(told(exchange)) for exchange in kinspect.read(target)}
    assert found >= {json.dumps(told(expected[number])) for number in chosen}


def test_saving_from_several_captures(tmp_path):
    paths = [CAPTURES / "4.4.0" / "sarama.pcap.gz", NANO]
    store = indexed(*paths)
    target = tmp_path / "saved.pcapng"
    with target.open("wb") as file:
        export.save(store, range(store.count), file)
    both = [told(exchange)[:5] for exchange in kinspect.read(*paths)]
    found = [told(exchange)[:5] for exchange in kinspect.read(target)]
    assert len(found) == len(both)


def in_two(folder, swapped):
    """A response of eleven packets, half of them in one capture and half in the next."""
    conversation = Conversation(mss=100)
    conversation.open()
    conversation.client_sends(framed(encode_request(Message(3, 1, 1, {"topics": [{"name": "t"}]}, "c"))))
    topics = [{"error_code": 0, "name": "t" * 1000, "is_internal": False, "partitions": []}]
    body = {"brokers": [], "controller_id": 1, "topics": topics}
    conversation.broker_sends(framed(encode_response(Message(3, 1, 1, body))))
    paths = [folder / "a.pcap", folder / "b.pcap"]
    paths[0].write_bytes(pcap(conversation.packets[:9]))
    paths[1].write_bytes(pcap(conversation.packets[9:]))
    return paths[::-1] if swapped else paths


@pytest.mark.parametrize("swapped", [False, True])
def test_an_exchange_in_two_captures(tmp_path, swapped):
    paths = in_two(tmp_path, swapped)
    store = indexed(*paths)
    (expected,) = kinspect.read(*paths)
    filters = export.tshark_filters(store, store[0])
    frames = {Path(name).name: text.partition("9092 && ")[2] for name, text in filters}
    # The captures' own order is not the order of time where they are swapped.
    assert frames == (
        {
            "a.pcap": "(frame.number == 4 || (frame.number >= 1 && frame.number <= 9))",
            "b.pcap": "(frame.number >= 1)",
        }
        if swapped
        else {
            "a.pcap": "(frame.number == 4 || frame.number >= 6)",
            "b.pcap": "((frame.number >= 1 && frame.number <= 7))",
        }
    )
    with (tmp_path / "saved.pcapng").open("wb") as file:
        assert export.save(store, [0], file).packets >= 12
    if not swapped:
        (found,) = kinspect.read(tmp_path / "saved.pcapng")
        assert told(found) == told(expected)


@pytest.mark.parametrize("name", ["tls/tls13.pcap.gz", "tls/sasl_ssl_tls12.pcap.gz"])
def test_saved_tls_is_read_again_with_the_key_log_and_not_without(name, tmp_path):
    secrets = CAPTURES / name.replace(".pcap.gz", ".keys.log")
    expected = [*kinspect.read(CAPTURES / name, keylog=secrets)]
    chosen = [number for number, exchange in enumerate(expected) if exchange.outcome == "answered"][-3:]
    store = indexed(CAPTURES / name, keylog=secrets.read_bytes())
    target = tmp_path / "saved.pcapng"
    with target.open("wb") as file:
        assert export.save(store, chosen, file).tls
    assert secrets.read_bytes().split()[2] not in target.read_bytes()
    assert [*kinspect.read(target)] == []
    found = {json.dumps(told(exchange)) for exchange in kinspect.read(target, keylog=secrets)}
    assert found >= {json.dumps(told(expected[number])) for number in chosen}


def test_saving_can_be_stopped():
    with pytest.raises(reread.StoppedError):
        export.save(indexed(NANO), [0], io.BytesIO(), lambda: True)


def test_files_that_cannot_be_made(tmp_path):
    for path in (tmp_path, tmp_path / "no" / "folder", tmp_path / "nul\0"):
        with pytest.raises(KinspectError, match=str(path)):
            export.write_new(str(path))


def test_json_is_the_line_of_read_and_safe_for_terminals():
    store = indexed(NANO)
    line = store.exchange(0).to_dict()
    line["client"]["id"] = "\x9b2J\u202e"
    text = export.json_line(line).decode()
    assert json.loads(text) == line
    assert escape(text[:-1]) == text[:-1]
