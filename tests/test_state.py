"""A run that is cut anywhere, carried as bytes and gone on with elsewhere gives the lines of the uncut run."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from support.decoded import keylog_beside

from kinspect import state
from kinspect.capture import open_timeline, slice_block
from kinspect.errors import StateError
from kinspect.kafka.exchange import Exchange
from kinspect.kafka.view import View
from kinspect.model import Block
from kinspect.pipeline import Inspector

ROOT = Path(__file__).parent.parent
CAPTURES = ROOT / "captures"
VIEW = View(records=True, payload="text")
OPTIONS = {"emit": frozenset({"exchange", "connection", "gap"}), "files": ["capture"]}
ALL = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap*"))


def read(name: str) -> tuple[list[Block], bytes]:
    """A capture's packets and its TLS secrets."""
    timeline = open_timeline([str(CAPTURES / name)])
    blocks = list(timeline)
    beside = keylog_beside(CAPTURES / name)
    return blocks, b"\n".join([beside.read_bytes() if beside.exists() else b"", *timeline.secrets])


def shown(lines) -> list[bytes]:
    return [
        orjson.dumps(VIEW.exchange(line) if isinstance(line, Exchange) else line.to_dict()) for line in lines
    ]


def cut(blocks: list[Block], packet: int) -> tuple[list[Block], list[Block]]:
    """The packets before one, and the others."""
    before, after = [], []
    for block in blocks:
        at = min(max(packet, 0), len(block))
        before.append(slice_block(block, 0, at))
        after.append(slice_block(block, at, len(block)))
        packet -= len(block)
    return [block for block in before if len(block)], [block for block in after if len(block)]


def fed(inspector: Inspector, blocks: list[Block]) -> list[bytes]:
    return shown(line for block in blocks for line in inspector.feed(block))


def begun(secrets: bytes) -> Inspector:
    inspector = Inspector(**OPTIONS)
    if secrets.strip():
        inspector.add_secrets(secrets)
    return inspector


@pytest.mark.parametrize("name", ALL)
def test_cut_anywhere_the_lines_are_the_same(name):
    blocks, secrets = read(name)
    whole = begun(secrets)
    expected = fed(whole, blocks) + shown(whole.finish())
    packets = sum(map(len, blocks))
    rng = random.Random(name)
    for packet in sorted({0, packets, *(rng.randrange(packets + 1) for _ in range(4))}):
        before, after = cut(blocks, packet)
        one = begun(secrets)
        lines = fed(one, before)
        data = state.inspector_to_bytes(one)
        other = state.inspector_from_bytes(data, **OPTIONS)
        assert state.inspector_to_bytes(other) == data
        lines += fed(other, after)
        lines += shown(other.finish())
        assert lines == expected, packet
        assert other.summary() == whole.summary()


@pytest.mark.parametrize("name", ["variants/reorder.pcap.gz", "4.4.0/lossout.pcap.gz", "tls/tls13.pcap.gz"])
def test_cut_everywhere(name):
    """Carried after every packet of a part of the capture."""
    blocks, secrets = read(name)
    whole = begun(secrets)
    expected = fed(whole, blocks) + shown(whole.finish())
    inspector, lines = begun(secrets), []
    packets = [packet for block in blocks for packet in singles(block)]
    for number, packet in enumerate(packets):
        if number < 250 or number % 50 == 0:
            inspector = state.inspector_from_bytes(state.inspector_to_bytes(inspector), **OPTIONS)
        lines += fed(inspector, [packet])
    assert lines + shown(inspector.finish()) == expected


def singles(block: Block) -> list[Block]:
    return [slice_block(block, at, at + 1) for at in range(len(block))]


def test_another_process_goes_on(tmp_path):
    name = "4.4.0/txn_librdkafka.pcap.gz"
    blocks, _ = read(name)
    whole = begun(b"")
    expected = fed(whole, blocks) + shown(whole.finish())
    packet = sum(map(len, blocks)) // 3
    before, _ = cut(blocks, packet)
    one = begun(b"")
    lines = fed(one, before)
    path = tmp_path / "state"
    path.write_bytes(state.inspector_to_bytes(one))
    program = f"""
import sys, pathlib
sys.path.insert(0, {str(ROOT / "tests")!r})
import test_state as t
_, after = t.cut(t.read({name!r})[0], {packet})
inspector = t.state.inspector_from_bytes(pathlib.Path({str(path)!r}).read_bytes(), **t.OPTIONS)
for line in t.fed(inspector, after) + t.shown(inspector.finish()):
    sys.stdout.buffer.write(line + b"\\n")
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert lines + run.stdout.splitlines() == expected


@pytest.fixture(scope="module")
def carried() -> bytes:
    blocks, _ = read("4.4.0/txn_librdkafka.pcap.gz")
    inspector = begun(b"")
    fed(inspector, cut(blocks, 100)[0])
    return state.inspector_to_bytes(inspector)


def test_another_version_is_one_clear_error(carried, monkeypatch):
    monkeypatch.setattr(state, "VERSION", state.VERSION + 1)
    with pytest.raises(StateError, match="another version of kinspect"):
        state.inspector_from_bytes(carried, **OPTIONS)


def test_other_fields_are_another_version(carried, monkeypatch):
    monkeypatch.setattr(state, "_FINGERPRINT", state._FINGERPRINT ^ 1)
    with pytest.raises(StateError, match="another version of kinspect"):
        state.inspector_from_bytes(carried, **OPTIONS)


def test_damage_is_one_clear_error(carried):
    rng = random.Random(1)
    for _ in range(200):
        at = rng.randrange(len(carried))
        damaged = carried[:at] + bytes([carried[at] ^ 1 << rng.randrange(8)]) + carried[at + 1 :]
        with pytest.raises(StateError):
            state.inspector_from_bytes(damaged, **OPTIONS)
        with pytest.raises(StateError):
            state.inspector_from_bytes(carried[:at], **OPTIONS)


def test_bytes_that_somebody_made_up_are_an_error_or_a_state(carried):
    """The checksum keeps nobody from writing other values: nothing is run, and nothing else is raised."""
    size = state._HEAD.unpack_from(carried)[4]
    begin = state._HEAD.size
    rng = random.Random(2)
    refused = 0
    for _ in range(200):
        body = bytearray(carried[begin:])
        at = rng.randrange(size)
        body[at] = rng.choice(b'0123456789[],"')
        head = (state._MAGIC, state.VERSION, state._FINGERPRINT, state.zlib.crc32(body), size)
        try:
            state.inspector_from_bytes(state._HEAD.pack(*head) + body, **OPTIONS)
        except StateError:
            refused += 1
    assert refused > 50


def source_of(of: type) -> ast.ClassDef:
    path = Path(ROOT, *of.__module__.split(".")).with_suffix(".py")
    tree = ast.parse(path.read_text())
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == of.__name__)


def fields_of(of: type) -> set[str]:
    """Every attribute that a class declares, or gives itself anywhere."""
    found = set()
    source = source_of(of)
    for node in source.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign):
            targets = [node.target]
        for target in targets:
            if target.id == "__slots__":
                found |= set(ast.literal_eval(node.value))
            else:
                found.add(target.id)
    for node in ast.walk(source):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            found.add(node.attr)
    return found


@pytest.mark.parametrize("kind", [*state.OBJECTS, *state.PLACES], ids=lambda kind: kind.type.__name__)
def test_every_field_is_named(kind):
    """A field that is new in a class must be carried, or be left on purpose."""
    assert fields_of(kind.type) == {*kind.carried, *kind.left}
    assert not set(kind.carried) & set(kind.left)
    if kind.make is None and kind in state.OBJECTS:
        assert kind.carried == tuple(
            node.target.id for node in source_of(kind.type).body if isinstance(node, ast.AnnAssign)
        )
