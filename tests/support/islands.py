"""Runs of captures whole and in parts, to compare their lines."""

from __future__ import annotations

from pathlib import Path

import orjson

from kinspect.capture import open_timeline, slice_block
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.kafka.view.view import View
from kinspect.kafka.wire.lineorder import LineKey
from kinspect.model import Block
from kinspect.pipeline import Inspector
from kinspect.tcp.reassembly import takes_all
from support.decoded import keylog_beside

CAPTURES = Path(__file__).parents[2] / "captures"
VIEW = View(records=True, payload="text")
OPTIONS = {"emit": frozenset({"exchange", "connection", "gap"}), "files": ["one", "two", "three"]}
ALL = sorted(str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap*"))

Lines = list[tuple[LineKey, bytes]]


def read(name: str) -> tuple[list[Block], bytes]:
    """A capture's packets and its TLS secrets."""
    path = CAPTURES / name
    timeline = open_timeline([str(path)])
    blocks = list(timeline)
    beside = keylog_beside(path)
    return blocks, b"\n".join([beside.read_bytes() if beside.exists() else b"", *timeline.secrets])


def shown(lines) -> Lines:
    return [
        (line.key, orjson.dumps(VIEW.exchange(line) if isinstance(line, Exchange) else line.to_dict()))
        for line in lines
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


class Shared:
    """State that all parts of a run share: its secrets, its end, and the learned names."""

    def __init__(self, blocks: list[Block], secrets: bytes = b"") -> None:
        self.secrets = secrets
        self.told = [], []
        whole = self.begin()
        for block in blocks:
            shown(whole.feed(block))
        self.end = whole.end
        shown(whole.finish())
        self.told = whole.names.take_new()
        self.summary = whole.summary()

    def begin(self, takes=takes_all) -> Inspector:
        inspector = Inspector(**OPTIONS, takes=takes)
        if self.secrets.strip():
            inspector.add_secrets(self.secrets)
        inspector.names.add(*self.told)
        return inspector

    def part(self, blocks: list[Block], takes=takes_all) -> tuple[Lines, Inspector]:
        """The lines of one part in the order of their keys."""
        inspector = self.begin(takes)
        lines = [line for block in blocks for line in shown(inspector.feed(block))]
        return sorted(lines + shown(inspector.finish(self.end))), inspector
