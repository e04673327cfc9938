"""The tasks of a Spark job run here, one after the other: what Spark does between them is done with lists."""

from __future__ import annotations

import os
import pickle
from dataclasses import replace
from zlib import crc32

import orjson
import pyarrow as pa

from kinspect.kafka.view import View
from kinspect.model import Caps
from kinspect.spark import ahead, facts, index, splits, tables, tasks
from kinspect.spark.asked import Asked
from kinspect.spark.pieces import unpack, unpack_facts
from kinspect.spark.plan import setting_of
from kinspect.spark.reading import Splits
from kinspect.spark.routes import Routes
from kinspect.spark.rows import SEGMENT_ROWS


def positions(count):
    return [pa.RecordBatch.from_arrays([pa.array([number])], ["id"]) for number in range(count)]


def travelled(value):
    """As it arrives in another process."""
    return pickle.loads(pickle.dumps(value))


def look(paths, split_bytes, caps):
    """The index of captures."""

    def examine(numbered):
        for position in reversed(positions(len(numbered))):
            for batch in tasks.examining(numbered, caps)([position]):
                yield from map(unpack, batch.column(0).to_pylist())

    files = [str(path) for path in paths]
    plans = [splits.plan(number, path, split_bytes) for number, path in enumerate(files)]
    return index.build(files, plans, examine, caps)


def strands(found, partitions, caps, batch_rows):
    """The segments as the shuffle hands them to each task."""
    task = tasks.scanning(found, caps)
    batches = [batch for position in positions(len(found.splits) + 1) for batch in task([position])]
    rows = [row for batch in batches for row in batch.to_pylist()]
    partitions = 1 if found.timeless else partitions
    shares = [[] for _ in range(partitions)]
    for row in sorted(rows, key=lambda row: row["ordinal"]):
        shares[crc32(row["ends"]) % partitions].append(row)
    return [
        [
            pa.RecordBatch.from_pylist(share[at : at + batch_rows], SEGMENT_ROWS)
            for at in range(0, len(share), batch_rows)
        ]
        for share in shares
    ]


def rows(
    paths,
    table=tables.EXCHANGES,
    *,
    partitions=3,
    split_bytes=1 << 30,
    view=None,
    fields=None,
    chosen=None,
    caps=None,
    batch_rows=100,
    keylog=b"",
    names=None,
    way="plain",
):
    """The rows of a table, in the order of completion."""
    caps = caps or Caps()
    asked = Asked(table, fields, view or View(), chosen or {}, keylog, names or {})
    if way == "ahead":
        return ahead_rows([str(path) for path in paths], asked, partitions, caps)
    found = look(paths, split_bytes, caps)
    if way == "relay" and not found.timeless:
        return relay_rows(found, asked, partitions, caps)
    shares = strands(found, partitions, caps, batch_rows)
    setting = setting_for(found, asked, caps)
    parts = [
        unpack_facts(piece)
        for share in shares
        for batch in tasks.learning(travelled(setting))(share)
        for piece in batch.column(0).to_pylist()
    ]
    setting.known, _ = facts.merge(parts)
    task = tasks.tabling(travelled(setting), travelled(asked), found.start, lambda *told: None)
    made = [row for share in shares for batch in task(share) for row in batch.to_pylist()]
    return sorted(made, key=lambda row: row["completion"])


def setting_for(found, asked, caps):
    """What tasks are told of captures that were looked at."""
    emit = frozenset({asked.table().emit})
    return setting_of(found, caps, emit, names=asked.names, keylog=asked.keylog)


def ahead_rows(paths, asked, parts, caps):
    """The rows by tasks that pair what comes before their part."""
    sizes = {path: os.path.getsize(path) for path in paths}
    captures = ahead.Captures(sizes, paths, caps)
    ends = ahead.parts_of(sum(sizes.values()), parts, 0.3)
    walked = [
        ahead.Walk(*orjson.loads(piece))
        for position in positions(len(paths))
        for batch in ahead.walking(captures)([position])
        for piece in batch.column(0).to_pylist()
    ]
    told = {}
    task = ahead.showing(
        travelled(replace(captures, damage=frozenset(text for walk in walked for _, text, _ in walk.errors))),
        ends,
        travelled(asked),
        told.update,
        lambda *found: None,
        None,
    )
    made = [
        row
        for position in reversed(positions(parts))
        for batch in task([position])
        for row in batch.to_pylist()
    ]
    assert all(told[number].lines == told[number + 1].before for number in range(parts - 1))
    return sorted(made, key=lambda row: row["completion"])


def relayed(found, setting, splits, readers):
    """What the relays give."""
    parts = [part.pack() for part in Routes(found.groups).relays(readers)]
    task = tasks.relaying(travelled(setting), splits, parts)
    return [
        row for position in positions(len(parts)) for batch in task([position]) for row in batch.to_pylist()
    ]


def moved(found, readers):
    """What goes from task to task, but for facts."""
    setting = setting_of(found, Caps(), frozenset({"exchange"}))
    moves = relayed(found, setting, Splits(found, Caps()), readers)
    return [row for row in moves if row["split"] != tasks.FACTS]


def relay_rows(found, asked, readers, caps):
    """The rows by tasks that decode splits."""
    setting = setting_for(found, asked, caps)
    splits = travelled(Splits(found, caps))
    moves = relayed(found, setting, splits, readers)
    told = [unpack_facts(row["what"]) for row in moves if row["split"] == tasks.FACTS]
    setting.known, _ = facts.merge(told)
    parts = [part.pack() for part in Routes(found.groups).decoding(readers)]
    rows = [{"split": number, "what": None} for number in range(len(parts))] + moves
    made = []
    for share in range(readers):
        mine = sorted(
            (row for row in rows if row["split"] >= 0 and row["split"] % readers == share),
            key=lambda row: row["split"],
        )
        batches = [
            pa.RecordBatch.from_pylist(mine[at : at + 7], tasks.MOVES) for at in range(0, len(mine), 7)
        ]
        task = tasks.decoding(
            travelled(setting), splits, parts, travelled(asked), found.start, lambda *told: None
        )
        made += [row for batch in task(batches) for row in batch.to_pylist()]
    return sorted(made, key=lambda row: row["completion"])
