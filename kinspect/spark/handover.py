"""What connections have under way, handed from the task that had them so far to the one that goes on with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from kinspect import state
from kinspect.kafka.connection import KafkaConnection
from kinspect.kafka.flow import community_id
from kinspect.kafka.ledger import Ledger
from kinspect.spark.index import canonical_ends
from kinspect.spark.strand import Strand
from kinspect.tcp import Connection
from kinspect.tcp.connection import Half
from kinspect.tcp.kin import LOOKED_AT

_KINDS = (
    "halves",
    "kin",
    "ended",
    "holes",
    "skewed",
    "overdue",
    "lingering",
    "waiting",
    "recent",
    "held",
    "noted",
)
GONE = "moved"
"""Why a connection is no more a task's own."""


def hand_over(strand: Strand, groups: Collection[bytes]) -> Iterator[bytes]:
    """What the connections of each group have under way, as far as `strand` has any; it keeps them as they are."""
    tcp, ledger = strand.tcp, strand.ledger
    ticks = tcp._ticks
    found: dict[bytes, dict[str, list[Any]]] = {}
    for key, half in tcp._halves.items():
        group = canonical_ends(key)
        if group in groups:
            found.setdefault(group, _nothing())["halves"].append((key, half))
    if not found:
        return

    def add(kind: str, connection: Connection, *what: Any) -> None:
        group = canonical_ends(connection.key)
        if group in found:
            found[group][kind].append((*what, connection))

    def add_open(kind: str, connection: Connection, *what: Any) -> None:
        if connection.end_reason is None:
            add(kind, connection, *what)

    for at, halves in tcp._kin._halves.items():
        group = canonical_ends(at)
        if group in found:
            found[group]["kin"].append((at, [*halves]))
    for connection in tcp._ended:
        add("ended", connection)
    for kind, timers in (("holes", tcp._holes), ("skewed", tcp._skewed)):
        for at_clock, _, connection in sorted(timers._heap, key=lambda entry: entry[:2]):
            add_open(kind, connection, at_clock)
    for kind, queue in (("overdue", tcp._overdue), ("lingering", tcp._lingering)):
        for tick, connection in queue:
            add_open(kind, connection, tick - ticks)
    for ordinal, row in strand.recent():
        group = canonical_ends(row[0])
        if group in found:
            found[group]["recent"].append((ordinal, row))
    given = _given(ledger)
    for parts in found.values():
        connections = {half.connection.serial: half.connection for _, half in parts["halves"]}
        for serial, connection in connections.items():
            if serial in tcp._waiting:
                parts["waiting"].append((tcp._waiting[serial], connection))
            named = community_id(*connection.addresses)
            if named in ledger.noted:
                parts["noted"] = [(named, ledger.noted[named])]
            parts["held"] += _holdings(connection.halves[0].handler, ledger)
        yield state.dump({}, given, parts)


def adopt(strand: Strand, handed: Iterable[bytes], ordinal: int) -> None:
    """Goes on with groups of which nothing was fed yet, at the segment `ordinal` of the run."""
    tcp, ledger = strand.tcp, strand.ledger
    place = ledger.place
    given = _given(ledger)
    all_parts: dict[str, list[Any]] = _nothing()
    for data in handed:
        for kind, items in state.load(data, {}, given, ledger).items():
            all_parts[kind] += items
    halves: list[tuple[bytes, Half]] = all_parts["halves"]
    connections = {id(half.connection): half.connection for _, half in halves}
    for _, kin in all_parts["kin"]:
        connections.update((id(half.connection), half.connection) for half in kin)
    in_order = sorted(connections.values(), key=lambda connection: place(connection.start_frame))
    for serial, connection in enumerate(in_order, 1):
        connection.serial = serial
    tcp._opened = len(in_order)
    tcp._halves.update(halves)
    for at, kin in all_parts["kin"]:
        for half in kin:
            tcp._kin._halves.setdefault(at, deque(maxlen=LOOKED_AT)).append(half)
    # In the order in which they ended, as far as that matters: they are forgotten in turn.
    for (connection,) in all_parts["ended"]:
        tcp._ended.append(connection)
    for connection in in_order:
        if connection.end_reason is None:
            tcp._open += 1
            tcp._silent.add(connection.last.clock, connection)
            for half in connection.halves:
                if half.held is not None:
                    tcp._delivery.held_bytes += half.held.weight
    for kind, timers in (("holes", tcp._holes), ("skewed", tcp._skewed)):
        for at_clock, connection in all_parts[kind]:
            timers.add(at_clock, connection)
    for kind, queue in (("overdue", tcp._overdue), ("lingering", tcp._lingering)):
        queue.extend(sorted(all_parts[kind], key=lambda entry: (entry[0], entry[1].serial)))
    for frame, connection in sorted(all_parts["waiting"], key=lambda entry: place(entry[0])):
        tcp._waiting[connection.serial] = frame
    for key, owner, size in all_parts["held"]:
        ledger.holdings.hold(key, owner, size)
    ledger.noted.update(all_parts["noted"])
    strand.begin(ordinal, sorted(all_parts["recent"], key=lambda entry: entry[0]))
    tcp._set_deadline()


def let_go(strand: Strand, groups: Collection[bytes]) -> None:
    """Another task goes on with these groups: here they are forgotten."""
    tcp, ledger = strand.tcp, strand.ledger
    for key in [key for key in tcp._halves if canonical_ends(key) in groups]:
        connection = tcp._halves.pop(key).connection
        if connection.end_reason is None:
            for held, _, _ in _holdings(connection.halves[0].handler, ledger):
                ledger.holdings.release(held)
            # What timers there are pass over it.
            connection.end_reason = GONE
            tcp._waiting.pop(connection.serial, None)
            tcp._open -= 1
    tcp._set_deadline()


def _nothing() -> dict[str, list[Any]]:
    return {kind: [] for kind in _KINDS}


def _given(ledger: Ledger) -> dict[str, object]:
    return {"caps": ledger.caps, "files": ledger.files, "names": ledger.names, "counts": ledger.counts}


def _holdings(handler: object, ledger: Ledger) -> list[tuple[Any, Any, int]]:
    """What a connection holds of messages, as the run counts it: key, owner, bytes."""
    if not isinstance(handler, KafkaConnection):
        return []
    keys: list[Any] = [handler]
    if handler._inside is not None:
        keys.append(handler._inside)
    for connection in tuple(keys):
        session = connection._session
        if session is not None:
            keys += [session._requests, session._responses, *session._pending._in_order.values()]
    held = ledger.holdings._held
    return [(key, *held[key]) for key in keys if key in held]
