"""When the islands of a shard are looked at again, without a look at each in every micro-batch."""

from __future__ import annotations

from collections import defaultdict

import cbor2
from pyspark.sql.streaming.stateful_processor import MapState

TURNS = "time bigint", "islands binary"
"""Columns of the key and value of the state that has them."""
_SPANS = 64
"""Turns in an idle timeout: an island's comes that part of it too late at most."""


class Turns:
    """Islands by the turn at which they are looked at: a time of the captures at which a span ends. `kept`: the state
    of a shard that has them; `idle_timeout`: nanoseconds."""

    def __init__(self, kept: MapState, idle_timeout: int) -> None:
        self._kept = kept
        self._span = max(idle_timeout // _SPANS, 1)
        self._added: defaultdict[int, set[bytes]] = defaultdict(set)

    def add(self, island: bytes, due: int) -> None:
        """Let the turn of an island come when it is `due`."""
        self._added[(due // self._span + 1) * self._span].add(island)

    def take(self, until: int) -> set[bytes]:
        """The islands whose turn has come, which have none any more."""
        known = self._kept.keys() if self._kept.exists() else ()
        times = [time for (time,) in known if time <= until]
        found = {island for time in times for island in self._islands(time)}
        for time in times:
            self._kept.removeKey((time,))
        return found

    def store(self) -> None:
        """Keep those that were added."""
        for time, islands in self._added.items():
            if self._kept.containsKey((time,)):
                islands.update(self._islands(time))
            self._kept.updateValue((time,), (cbor2.dumps(sorted(islands)),))
        self._added.clear()

    def _islands(self, time: int) -> list[bytes]:
        return list(cbor2.loads(bytes(self._kept.getValue((time,))[0])))
