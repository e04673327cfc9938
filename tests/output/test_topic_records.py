"""Records and bytes by topic, held against what the bodies of all captures hold."""

from collections import defaultdict
from pathlib import Path

import pytest
from support.decoded import keylog_beside
from support.lines import body, record_sets
from support.shares import one_in

from kinspect import records
from kinspect.api import read
from kinspect.errors import CaptureError
from kinspect.kafka.view.view import View

CAPTURES = Path(__file__).parents[2] / "captures"
PRODUCE, METADATA = 0, 3


def sets_of_bytes(value):
    """Every `records` field of a plain body that is not null, in order."""
    if isinstance(value, list):
        for item in value:
            yield from sets_of_bytes(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("records", "unaligned_records") and isinstance(item, bytes):
                yield item
            else:
                yield from sets_of_bytes(item)


def by_topic(exchange, line):
    """Bytes by topic: those of the plain body, with the topics that the line's body tells."""
    found = defaultdict(int)
    for side in ("request", "response"):
        message = getattr(exchange, side)
        if message is not None and message.body is not None:
            shown = [*record_sets(body(line, side))]
            plain = [*sets_of_bytes(message.body)]
            for one, data in zip(shown, plain, strict=True):
                if data:
                    found[one.topic] += len(data)
    return found


@pytest.mark.parametrize(
    "path", one_in(6, sorted(CAPTURES.glob("*/*.pcap*"))), ids=lambda p: f"{p.parent.name}/{p.name}"
)
def test_the_sums_are_those_of_the_line(path):
    keylog = keylog_beside(path)
    try:
        for exchange in read(path, keylog=keylog if keylog.exists() else b""):
            line = exchange.to_dict()
            listed = line["topic_records"]
            if line["record_bytes"] is None:
                assert listed == []
                continue
            assert sum(each["bytes"] for each in listed) == line["record_bytes"]
            counts = [each["count"] for each in listed]
            assert (None if None in counts else sum(counts)) == line["record_count"]
            if line["api"] in ("Produce", "Fetch", "ShareFetch"):
                assert {each["topic"]: each["bytes"] for each in listed} == by_topic(exchange, line)
    except CaptureError:
        return


def test_counts_are_those_of_the_batches():
    path = CAPTURES / "4.4.0" / "codecs_librdkafka.pcap.gz"
    several = 0
    for exchange in read(path, filter={"api": ["Produce", "Fetch"]}):
        line = exchange.to_dict()
        found = defaultdict(int)
        for side in ("request", "response"):
            message = getattr(exchange, side)
            plain = sets_of_bytes(message.body) if message is not None else ()
            for one, data in zip(record_sets(body(line, side)), plain, strict=True):
                if data:
                    found[one.topic] += sum(len(batch["records"]) for batch in records.batches(data))
        assert {each["topic"]: each["count"] for each in line["topic_records"]} == found
        several += len(found)
    assert several > 5


def test_more_topics_than_a_line_lists(exchanges):
    data = bytes(5)
    topics = [
        {
            "name": f"t{number}",
            "partition_data": [{"index": 0, "records": data}, {"index": 1, "records": data}],
        }
        for number in range(150)
    ]
    request = {"transactional_id": None, "acks": 1, "timeout_ms": 1, "topic_data": topics}
    (exchange,) = exchanges((PRODUCE, 3, request, {"responses": [], "throttle_time_ms": 0}))
    line = exchange.to_dict()
    assert line["topic_records"] == [{"topic": f"t{n}", "count": 0, "bytes": 10} for n in range(100)]
    assert line["truncated_lists"] is True
    assert line["record_bytes"] == 1500
    shown = exchange.to_dict(View(fields=["topic_records.bytes"]))
    assert shown == {"topic_records": [{"bytes": 10}] * 100}


def test_without_records(exchanges):
    (exchange,) = exchanges((METADATA, 1, {"topics": None}, None))
    assert exchange.to_dict()["topic_records"] == []
