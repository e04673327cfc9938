"""Every capture against its manifest, and the variants of one capture against that capture.

`KINSPECT_CAPTURES=/path` adds the captures of another folder that has a MANIFEST.tsv and an APIKEYS.tsv.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import struct
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest
from jsonschema import Draft202012Validator
from support import known
from support.checks import complaints, disguises
from support.decoded import exchanges
from support.lines import Line
from support.manifest import Row, load

import kinspect
from kinspect.errors import CaptureError, TruncatedCaptureError
from kinspect.kafka.view import View

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures"
SCHEMA = ROOT / "docs" / "schema" / "exchange.schema.json"
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


def _folders() -> list[Path]:
    more = os.environ.get("KINSPECT_CAPTURES")
    return [CAPTURES, Path(more)] if more else [CAPTURES]


ROWS = [row for folder in _folders() for row in load(folder)]
BY_PATH = {row.path: row for row in ROWS}


def _parameters(rows: list[Row]) -> list[Any]:
    return [
        pytest.param(row, id=row.file, marks=[pytest.mark.skip(reason=reason)] if reason else [])
        for row in rows
        for reason in [known.deferred(row)]
    ]


CUT = [row for row in ROWS if "exit status 3" in row.facts.get("expect", "")]
VARIANTS = [row for row in ROWS if row.original and row not in CUT]
KAFKA = [row for row in ROWS if row.is_kafka and not row.original]
OTHERS = [row for row in ROWS if not row.is_kafka]


@pytest.mark.parametrize("row", _parameters(KAFKA))
def test_everything_is_as_the_manifest_says(row: Row) -> None:
    assert complaints(row, exchanges(row.path)) == []


@pytest.mark.parametrize("row", _parameters(KAFKA))
def test_lines_come_in_order_of_completion(row: Row) -> None:
    times = [line["completed_at"] for line in exchanges(row.path)]
    assert times == sorted(times)


@pytest.mark.parametrize("row", _parameters(KAFKA))
def test_lines_follow_their_schema(row: Row) -> None:
    validator = Draft202012Validator(json.loads(SCHEMA.read_bytes()))
    for line in exchanges(row.path):
        # What is validated is what is written: NaN, int keys and the like would not survive.
        validator.validate(orjson.loads(orjson.dumps(line)))


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

TIMES = frozenset({"timestamp", "completed_at", "connection_id"})
LATENCIES = frozenset({"latency_ms", "service_ms", "duration_ms", "in_flight"})
PLACES = frozenset({"file", "first", "last", "packets"})
OWN_OF_PACKETS = TIMES | LATENCIES | PLACES
"""Keys that depend on the packets rather than on the bytes they carry."""


def _without(value: Any, keys: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(entry, keys) for key, entry in value.items() if key not in keys}
    return [_without(entry, keys) for entry in value] if isinstance(value, list) else value


def _texts(lines: list[Line], without: frozenset[str]) -> list[str]:
    return [json.dumps(_without(line, without), sort_keys=True) for line in lines]


def _bytes_alone(lines: list[Line]) -> list[str]:
    """The lines without what depends on the packets, `negative_latency` included."""
    return [
        json.dumps(
            _without(line, OWN_OF_PACKETS | {"problem_count"})
            | {"problems": [p for p in line["problems"] if p["code"] != "negative_latency"]},
            sort_keys=True,
        )
        for line in lines
    ]


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
    what = row.what
    if "twice in a row" in what:
        once = Counter(_bytes_alone(original))
        assert Counter(_bytes_alone(variant)) == once + once
    elif any(word in what for word in OTHER_FRAMES):
        assert Counter(_bytes_alone(variant)) == Counter(_bytes_alone(original))
    else:
        # The same packets in another container or under another link layer; nanoseconds move the times.
        moved = TIMES if "nanosecond pcap" in what else frozenset[str]()
        assert _texts(variant, moved | {"file"}) == _texts(original, moved | {"file"})


@pytest.mark.parametrize("row", [pytest.param(row, id=row.file) for row in CUT])
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
    assert _texts(lines, frozenset({"file"}))[: len(before)] == _texts(before, frozenset({"file"}))


# ---------------------------------------------------------------------- several files


def _pieces(path: Path, count: int) -> list[bytes]:
    """A little-endian pcap cut into `count` pcaps of about as many packets each."""
    data = gzip.decompress(path.read_bytes())
    offsets, offset = [], 24
    while offset < len(data):
        offsets.append(offset)
        offset += 16 + struct.unpack_from("<I", data, offset + 8)[0]
    bounds = [offsets[len(offsets) * i // count] for i in range(count)] + [len(data)]
    return [data[:24] + data[start:end] for start, end in pairwise(bounds)]


@pytest.mark.parametrize("seed", range(3))
def test_pieces_read_together_in_any_order_are_one_capture(tmp_path: Path, seed: int) -> None:
    path = CAPTURES / "4.4.0" / "codecs_librdkafka.pcap.gz"
    paths = []
    for index, piece in enumerate(_pieces(path, 7)):
        paths.append(tmp_path / f"piece{index}.pcap")
        paths[-1].write_bytes(piece)
    random.Random(seed).shuffle(paths)
    places = PLACES - {"packets"}
    assert _texts(exchanges(*paths), places) == _texts(exchanges(path), places)
