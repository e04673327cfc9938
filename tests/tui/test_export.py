"""What leaves the explorer can be read again."""

import io
import json

import pytest
from support.tui import CAPTURES, NANO, indexed

import kinspect
from kinspect.errors import KinspectError
from kinspect.output.escape import escape
from kinspect.tui.index import export, reread

SEEN = (
    "4.4.0/sarama.pcap.gz",
    "4.4.0/ipv6.pcap",
    "4.4.0/any_sll2.pcap",
    "variants/ng.pcapng.gz",
    "variants/vlan.pcap.gz",
)


def told(exchange):
    """What an exchange says, but for what a cut leaves no room for: who it is from, and where it lay."""
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


def test_saving_can_be_stopped():
    with pytest.raises(reread.StoppedError):
        export.save(indexed(NANO), [0], io.BytesIO(), lambda: True)


def test_files_that_cannot_be_made(tmp_path):
    for path in (tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(KinspectError, match=str(path)):
            export.write_new(str(path))


def test_json_is_the_line_of_read_and_safe_for_terminals():
    store = indexed(NANO)
    line = store.exchange(0).to_dict()
    line["client"]["id"] = "\x9b2J\u202e"
    text = export.json_line(line).decode()
    assert json.loads(text) == line
    assert escape(text[:-1]) == text[:-1]
