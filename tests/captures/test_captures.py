"""Every capture against its manifest, and the variants of one capture against that capture.

`KINSPECT_CAPTURES=/path` adds the captures of another folder that has a MANIFEST.tsv and an APIKEYS.tsv.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema_rs import Draft202012Validator
from support.checks import complaints, disguises
from support.clean import CAPTURES, more_folders
from support.decoded import exchanges
from support.field import (
    broker_side_complaints,
    client_side_complaints,
    cut_complaints,
    late_start_complaints,
    loss_complaints,
)
from support.lines import Line
from support.manifest import Row, load
from support.packets import aligned, nanosecond_pcap, packets
from support.reading import PLACES, TIMES, Reading, bytes_alone, clean, read, texts
from support.schemas import strict
from support.shares import one_in

import kinspect
from kinspect.cli import main
from kinspect.errors import CaptureError, TruncatedCaptureError
from kinspect.kafka.view.view import View

STRICT = Draft202012Validator(strict("exchange"))
UNREADABLE = {"nk_garbage_pc.pcap", "garbage.pcap", "nk_zerobytes_pc.pcap", "zerobytes.pcap"}

VIEWS = [View(records=records, payload=payload) for records, payload in [
    (False, "none"), (True, "none"), (True, "text"), (True, "base64"), (True, "hex"),
]]  # fmt: skip

# What a variant's description says if its messages lie in other packets than the original's.
OTHER_FRAMES = (
    "swapped",
    "delayed",
    "duplicated",
    "retransmissions",
    "re-cut",
    "fragments",
    "SYN packets removed",
)


Check = Callable[[Reading, Reading], list[str]]

# What a row says that lacks something of its original, and the check of that.
FIELD: tuple[tuple[str, Check], ...] = (
    ("gaps reported; messages not touching a dropped payload packet still decoded", loss_complaints),
    ("only the exchanges that the removed packet carried are missing", loss_complaints),
    ("no exchange that the original does not hold", late_start_complaints),
    ("no wrong value: headers and what comes before each cut", cut_complaints),
    ("every request of the original, outcome unanswered with reason one_sided", client_side_complaints),
    ("no request; responses are orphans", broker_side_complaints),
    ("as the original's first 400 packets", loss_complaints),
)
# What the other rows say that say something: the tests below check it.
ELSEWHERE = (
    "same decoded messages",
    "every message twice",
    "exit status 3",
    "no payload byte finally missing: all records decodable",
    "only the traffic on kafka_plain_ports is decoded as Kafka",
    "no crash",
    "clean error",
)

ROWS = [row for folder in [CAPTURES, *more_folders()] for row in load(folder)]
BY_PATH = {row.path: row for row in ROWS}


def _field_check(row: Row) -> Check | None:
    return next((check for text, check in FIELD if text in row.expect), None)


def _parameters(rows: list[Row]) -> list[Any]:
    return [pytest.param(row, id=row.file) for row in rows]


CUT = [row for row in ROWS if "exit status 3" in row.expect]
IN_THE_FIELD = [row for row in ROWS if row.original and _field_check(row)]
VARIANTS = [row for row in ROWS if row.original and row not in CUT and row not in IN_THE_FIELD]
KAFKA = [row for row in ROWS if row.is_kafka and not row.original]
OTHERS = [row for row in ROWS if not row.is_kafka]


@pytest.mark.parametrize("row", _parameters([row for row in ROWS if row.expect]))
def test_what_the_manifest_expects_is_checked(row: Row) -> None:
    assert _field_check(row) or any(text in row.expect for text in ELSEWHERE)


@pytest.mark.parametrize("row", one_in(4, KAFKA), ids=lambda row: row.file)
def test_everything_is_as_the_manifest_says(row: Row) -> None:
    lines = exchanges(row.path)
    assert complaints(row, lines) == []
    times = [line["completed_at"] for line in lines]
    assert times == sorted(times)
    _follow_their_schema(lines)


def _follow_their_schema(lines: list[Line]) -> None:
    for line in lines:
        # What is validated is what is written: NaN, int keys and the like would not survive.
        STRICT.validate(orjson.loads(orjson.dumps(line)))


@pytest.mark.parametrize("row", _parameters(OTHERS))
def test_what_is_not_kafka_gives_no_exchange(row: Row) -> None:
    if row.file.rsplit("/", 1)[-1] in UNREADABLE:
        with pytest.raises(CaptureError) as raised:
            exchanges(row.path)
        assert row.file in str(raised.value)
    else:
        assert exchanges(row.path) == []


# ---------------------------------------------------------------------- secrets


def _with_secrets(key: str) -> list[Any]:
    return _parameters([row for row in KAFKA if row.facts.get(key)])


def _leaks(row: Row, secrets: list[str], views: list[View]) -> list[str]:
    hidden = {text for secret in secrets for text in disguises(secret)}
    return [
        f"{text} in {line['api']} #{line['correlation_id']} with records={view.records} payload={view.payload}"
        for exchange in kinspect.read(row.path)
        for view in views
        for line in [exchange.to_dict(view)]
        for output in [orjson.dumps(line).decode()]
        for text in hidden
        if text in output
    ]


@pytest.mark.parametrize("row", _with_secrets("secrets"))
def test_secrets_stand_in_no_line(row: Row) -> None:
    assert _leaks(row, row.facts["secrets"], VIEWS) == []


@pytest.mark.parametrize("row", _with_secrets("secrets_in_payload"))
def test_payloads_stand_in_no_line_unless_asked_for(row: Row) -> None:
    secrets = row.facts["secrets_in_payload"]
    assert _leaks(row, secrets, VIEWS[:2]) == []
    assert _leaks(row, secrets, VIEWS[2:3]) != []


def test_secrets_are_shown_when_asked_for() -> None:
    row = next(row for row in KAFKA if row.file.endswith("4.4.0/sasl_plain.pcap.gz"))
    assert _leaks(row, row.facts["secrets"], [View(show_secrets=True)]) != []


# ---------------------------------------------------------------------- variants


@lru_cache(maxsize=4)
def _reference(path: Path, what: str) -> list[Line]:
    """The original, or as much of it as the variant was made of."""
    if "first 400 packets only" in what:
        row = BY_PATH[path]
        first = next((r for r in ROWS if r.original == row.file and "reference for reseg" in r.what), row)
        return exchanges(first.path)
    return exchanges(path)


@pytest.mark.parametrize("row", _parameters(VARIANTS))
def test_variant_gives_the_exchanges_of_its_original(row: Row) -> None:
    original = _reference(row.folder / str(row.original), row.what)
    variant = exchanges(row.path)
    _follow_their_schema(variant)
    what = row.what
    if "twice in a row" in what:
        # The second time it is known from the first which node the broker is.
        once = bytes_alone(original, frozenset({"broker"}))
        assert bytes_alone(variant, frozenset({"broker"})) == once + once
    elif any(word in what for word in OTHER_FRAMES):
        assert bytes_alone(variant) == bytes_alone(original)
    else:
        # The same packets in another container or under another link layer; nanoseconds move the times.
        moved = TIMES if "nanosecond pcap" in what else frozenset[str]()
        assert texts(variant, moved | {"file"}) == texts(original, moved | {"file"})


@pytest.mark.parametrize("row", _parameters(CUT))
def test_file_cut_in_the_middle_gives_everything_before_the_cut(row: Row) -> None:
    lines: list[Line] = []
    view = View(records=True, payload="text")
    with pytest.raises(TruncatedCaptureError) as raised:  # noqa: PT012
        for exchange in kinspect.read(row.path):
            lines.append(exchange.to_dict(view))
    assert row.file in str(raised.value)
    last = max(
        side["frames"]["last"] for line in lines for side in (line["request"], line["response"]) if side
    )
    original = exchanges(row.folder / str(row.original))
    before = [x for x in original if x["response"] is not None and x["response"]["frames"]["last"] <= last]
    assert len(before) > 20
    assert texts(lines, frozenset({"file"}))[: len(before)] == texts(before, frozenset({"file"}))


@pytest.mark.parametrize("row", _parameters(CUT))
def test_file_cut_in_the_middle_ends_with_status_3(row: Row, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["read", str(row.path), "--format", "none"]) == 3
    assert row.file in capfd.readouterr().err


# ---------------------------------------------------------------------- less than the original


@pytest.mark.parametrize("row", _parameters(IN_THE_FIELD))
def test_what_is_left_of_the_original_is_as_in_the_original(row: Row) -> None:
    whole = clean(row.folder / str(row.original))
    # Another reading of the same packets: a row is what it says it is, and its frames are the original's.
    part = read(aligned(packets(row.path), whole.packets))
    check = _field_check(row)
    assert check is not None
    assert check(whole, part) == []
    _follow_their_schema(part.lines)
    numbers = {packet.origin for packet in part.packets}
    missing = [packet.origin for packet in whole.packets if packet.origin not in numbers]
    if "dropped_packet_numbers_1based" in row.facts:
        assert missing == row.facts["dropped_packet_numbers_1based"]
    if "cut_packets" in row.facts:
        assert missing == list(range(1, row.facts["cut_packets"] + 1))
    if "dropped_payload_bytes" in row.facts:
        assert [gap.bytes for gap in part.gaps if gap.cause == "capture_loss"] == [
            row.facts["dropped_payload_bytes"]
        ]
    if re.search("first 400 packets", row.what):
        assert bytes_alone(part.lines) == bytes_alone(read(whole.packets[:400]).lines)


# ---------------------------------------------------------------------- several files


@pytest.mark.parametrize("seed", range(3))
def test_pieces_read_together_in_any_order_are_one_capture(tmp_path: Path, seed: int) -> None:
    path = CAPTURES / "4.4.0" / "codecs_librdkafka.pcap.gz"
    whole = packets(path)
    bounds = [len(whole) * index // 7 for index in range(8)]
    paths = []
    for index, (start, end) in enumerate(pairwise(bounds)):
        paths.append(tmp_path / f"piece{index}.pcap")
        paths[-1].write_bytes(nanosecond_pcap(whole[start:end]))
    random.Random(seed).shuffle(paths)
    places = PLACES - {"packets"}
    assert texts(exchanges(*paths), places) == texts(exchanges(path), places)
