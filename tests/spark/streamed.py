"""The batches of a stream run here, one after the other: what Spark does between tasks is done with lists.

Between two batches everything goes through bytes, as it does when the driver is killed after each of them.
"""

from __future__ import annotations

import pyarrow as pa
from local import positions, travelled

from kinspect import link
from kinspect.kafka.view import View
from kinspect.model import Caps, Counts
from kinspect.spark import carry, index, splits, tasks
from kinspect.spark.pieces import unpack, unpack_facts
from kinspect.spark.portion import File, take
from kinspect.spark.progress import Progress, from_bytes, to_bytes
from kinspect.spark.strand import Setting

TABLES = ("exchanges", "connections")


class Streamed:
    """A stream. `rows` has what its tables hold."""

    def __init__(self, *, strands=3, caps=None, view=None, keylog=b"", split_bytes=1 << 30, batch_rows=100):
        self.caps = caps or Caps()
        self.keylog = keylog
        self.split_bytes = split_bytes
        self.batch_rows = batch_rows
        self.wanted = carry.Wanted(TABLES, dict.fromkeys(TABLES, view or View()))
        self.rows = {name: [] for name in TABLES}
        self.carried = {}
        self.run = to_bytes(Progress(strands, TABLES), link.Dissector(self.caps, Counts()))
        self.errors = []
        self.late = 0

    def batch(self, paths, until=None, taken=(), ends_here=False):
        """Takes files; `taken`: how many packets of each were taken before. Out: how many now."""
        counts = Counts()
        dissector = link.Dissector(self.caps, counts)
        progress = from_bytes(self.run, dissector, self.caps)
        numbers = {name: number for number, name in progress.files.items()}
        files = []
        for position, path in enumerate(paths):
            number = numbers.get(str(path))
            if number is None:
                number = progress.numbers = progress.numbers + 1
                progress.files[number] = str(path)
            files.append(File(number, taken[position] if taken else 0, bool(taken)))
        plans = [splits.plan(number, str(path), self.split_bytes) for number, path in enumerate(paths)]
        looked = index.prove(plans, self._examine) if plans else []
        portion = take(files, looked, until, progress.standing, dissector, counts, self.caps)
        if ends_here:
            dissector.flush()
        progress.add_secrets(portion.secrets)
        self.errors += portion.errors
        self.late += portion.late
        setting = Setting(
            caps=self.caps,
            files=carry.Names(progress.files),
            clock=portion.clock,
            places=portion.places,
            last=portion.standing.last,
            emit=self.wanted.emit,
            names={},
            kafka_ports=frozenset(),
            secrets=[text for text in (self.keylog, *progress.secrets) if text],
        )
        shares = self._dealt(portion, progress.strands)
        learned = [
            carry.learned(piece)
            for share in shares
            for batch in carry.learning(travelled(setting), ends_here)(share)
            for piece in batch.column(0).to_pylist()
        ]
        progress.learn([unpack_facts(facts) for _, facts in learned])
        setting.known = progress.known
        complete = min((place for place, _ in learned), default=carry.NOTHING_WAITS)
        task = carry.decoding(travelled(setting), self.wanted, portion.standing.start, complete, ends_here)
        made = [row for share in shares for batch in task(share) for row in batch.to_pylist()]
        for name in TABLES:
            self.rows[name] += [row[name] for row in made if row[name] is not None]
        self.carried = {}
        for row in (row["carry"] for row in made if row["carry"] is not None):
            self.carried.setdefault(row["strand"], []).append(row)
        places = {}
        for piece in (row["frames"] for row in made if row["frames"] is not None):
            places |= carry.frame_places(piece)
        progress.standing = portion.standing
        frame = portion.standing.last[1]
        progress.refer({**places, frame: portion.places.place(frame)})
        self.run = to_bytes(progress, dissector)
        self.progress = progress
        # A file that is not taken whole keeps its number.
        for path, file, now, packets in zip(paths, files, portion.taken, portion.packets, strict=True):
            if now < packets:
                progress.files[file.number] = str(path)
        self.run = to_bytes(progress, dissector)
        return portion.taken

    def finish(self):
        """As `--drain` ends. Out: the rows of each table in the order of completion."""
        self.batch([], ends_here=True)
        return {name: sorted(rows, key=lambda row: row["completion"]) for name, rows in self.rows.items()}

    def _examine(self, numbered):
        for position in positions(len(numbered)):
            for batch in tasks.examining(numbered, self.caps)([position]):
                yield from map(unpack, batch.column(0).to_pylist())

    def _dealt(self, portion, strands):
        task = carry.dealing(portion.slices, portion.fragments, strands, self.caps)
        found = [batch for position in positions(len(portion.slices) + 1) for batch in task([position])]
        rows = [row for batch in found for row in batch.to_pylist()]
        rows += [row for strand in self.carried.values() for row in strand]
        # Two tasks, each with some of the strands.
        shares = [[], []]
        for row in sorted(rows, key=lambda row: (row["strand"], row["ordinal"])):
            shares[row["strand"] % 2].append(row)
        return [
            [
                pa.RecordBatch.from_pylist(share[at : at + self.batch_rows], carry.STRAND_ROWS)
                for at in range(0, len(share), self.batch_rows)
            ]
            for share in shares
        ]
