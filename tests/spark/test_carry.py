"""However a run is cut into batches, its rows are the lines that `kinspect read` prints for all files at once."""

import ast
import random
from importlib import import_module
from pathlib import Path

import orjson
import pytest
from lines import WHOLE, line_of, lines
from support.decoded import keylog_beside
from support.pcap import pcap
from traffic import captures, conversation, rotated

from kinspect import state
from kinspect.capture import open_timeline
from kinspect.model import Caps

pytestmark = pytest.mark.tools

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures"
PLAIN = sorted(
    str(path.relative_to(CAPTURES))
    for path in CAPTURES.rglob("*.pcap")
    if path.stat().st_size > 2_000 and "not-kafka" not in str(path)
)
KINDS = (("exchange", "exchanges"), ("connection", "connections"))


@pytest.fixture(scope="session")
def streamed():
    """The module `streamed`, which runs a stream's batches without Spark."""
    return import_module("streamed")


def comparable(found):
    return sorted(orjson.dumps(line, option=orjson.OPT_SORT_KEYS) for line in found)


def in_batches(rng, paths):
    """The files in order, some in each batch."""
    groups = [[]]
    for path in paths:
        groups[-1].append(path)
        if rng.random() < 0.6:
            groups.append([])
    return groups


@pytest.mark.parametrize("name", PLAIN)
def test_a_capture_cut_into_twenty_files(streamed, tmp_path, name):
    rng = random.Random(name)
    beside = keylog_beside(CAPTURES / name)
    keylog = beside.read_bytes() if beside.exists() else b""
    paths = rotated(CAPTURES / name, tmp_path, 20)
    stream = streamed.Streamed(view=WHOLE, keylog=keylog)
    for group in in_batches(rng, paths):
        stream.batch(group)
    rows = stream.finish()
    for kind, table in KINDS:
        assert [line_of(row, kind) for row in rows[table]] == lines(paths, kind, keylog=keylog)
    assert not stream.late


@pytest.mark.parametrize("seed", range(40))
def test_what_connections_have_in_common(streamed, tmp_path, seed):
    """Silence that ends connections, ports used again, loss, clocks, topic ids and APIs told elsewhere; the files of
    several capture points overlap, and wait for one another."""
    rng = random.Random(seed)
    paths = captures(rng, tmp_path)
    caps = Caps(idle_timeout_ns=rng.choice((600, 5)) * 1_000_000_000)
    stream = streamed.Streamed(view=WHOLE, caps=caps, split_bytes=5_000, batch_rows=17)
    times = [time for block in open_timeline([str(path) for path in paths]) for time in block.times]
    taken = [0] * len(paths)
    for time in sorted(rng.choices(times, k=rng.randrange(1, 8))):
        taken = stream.batch(paths, (time, rng.randrange(len(paths) + 1)), taken)
    stream.batch(paths, None, taken)
    assert not stream.late
    rows = stream.finish()
    for kind, table in KINDS:
        made = comparable(line_of(row, kind) for row in rows[table])
        assert made == comparable(lines(paths, kind, caps=caps))


def test_lines_that_wait_are_capped_and_counted(streamed, tmp_path, monkeypatch):
    """Another strand keeps something back, so that lines wait: the first ones go ahead when there are too many."""
    carry = import_module("kinspect.spark.carry")
    path = tmp_path / "one.pcap"
    found = [packet for port in range(8) for packet in conversation(random.Random(port), 40_000 + port)]
    path.write_bytes(pcap(found))
    seen = {}
    for cap in (10_000, 2):
        monkeypatch.setattr(carry, "HELD_LINES", cap)
        monkeypatch.setattr(carry, "learned", lambda piece: (0, piece[8:]))  # nothing may go
        stream = streamed.Streamed(view=WHOLE, strands=2)
        stream.batch([path])
        seen[cap] = len(stream.rows["exchanges"])
        rows = stream.finish()
        assert [line_of(row) for row in rows["exchanges"]] == lines([path])
        hits = stream.progress.totals["caps_hit"].get("held_lines", 0)
        assert bool(hits) == bool(seen[cap])
        assert hits >= seen[cap]
    assert seen[10_000] == 0 < seen[2]


def test_names_uses_and_secrets_are_capped_and_counted(streamed, monkeypatch):
    progress = import_module("kinspect.spark.progress")
    facts = import_module("kinspect.spark.facts")
    for cap in ("NAMES_KEPT", "USES_KEPT"):
        monkeypatch.setattr(progress, cap, 2)
    monkeypatch.setattr(progress, "SECRETS_KEPT", 10)
    found = progress.Progress(1, ("exchanges",))
    told = [facts.Told(f"id{n}", f"topic{n}", bytes([9 - n]), None, None) for n in range(5)]
    found.learn([facts.Facts(told, {("c", n, 0): (9 - n, 1, 0, 0) for n in range(5)})])
    assert sorted(found.known.names) == ["id3", "id4"]
    assert sorted(found.known.uses) == [("c", 3, 0), ("c", 4, 0)]
    found.add_secrets([b"12345678", b"12345678", b"abcdefgh"])
    assert found.secrets == [b"abcdefgh"]
    assert found.sums["caps_hit"] == {"names": 3, "uses": 3, "secrets": 1}


def fields_of(name):
    """What a class of `strand.py` has beyond the one it is made of."""
    source = ast.parse((ROOT / "kinspect/spark/strand.py").read_text())
    of = next(node for node in source.body if isinstance(node, ast.ClassDef) and node.name == name)
    return {
        node.attr
        for node in ast.walk(of)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


BASES = {"StrandLedger": "Ledger", "_Tcp": "Reassembler", "_Seen": "Recent"}


@pytest.mark.parametrize("name", BASES)
def test_every_field_is_carried_or_left(streamed, name):
    """A field that is new in a strand must be carried, or be left on purpose."""
    carry = import_module("kinspect.spark.carry")
    base = next(kind for kind in state.PLACES if kind.type.__name__ == BASES[name])
    assert fields_of(name) - set(base.carried) == carry.CARRIED[name] | carry.LEFT[name]
