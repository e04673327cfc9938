"""The table of transactions: below each transactional id those that went wrong, were aborted or took longest."""

from __future__ import annotations

from collections import Counter

from kinspect.output.answers.layout import (
    ERROR,
    NOTE,
    AnswerLayout,
    Clock,
    counted,
    known,
    lasting,
    listed,
    longest,
)
from kinspect.output.columns import Column, Row

EXPECTED = frozenset({"CONCURRENT_TRANSACTIONS"})
"""Error codes that belong to transactions that follow each other quickly."""
ENDED = frozenset({"committed", "aborted"})
UNSEEN = "outcome not seen"
ABORTED_SHOWN = 3
NAMELESS = "UNKNOWN_CODE_"
"""What names of codes begin with that no release of Kafka has: no filter asks for them."""
NAMED = 10
"""Transactional ids of which nothing more is known that are told."""


def _outcomes(row: Row) -> Counter[str]:
    return Counter(one["outcome"] or UNSEEN for one in row["transactions"])


def _number(outcome: str, row: Row) -> str:
    count = _outcomes(row)[outcome]
    return f"{count:,}" if count else ""


def _others(row: Row) -> str:
    return listed(
        {name.replace("_", " "): count for name, count in _outcomes(row).items() if name not in ENDED}
    )


def _epochs(row: Row) -> str:
    epochs = row["epochs"]
    return "" if not epochs else str(epochs[0]) if len(epochs) == 1 else f"{epochs[0]}..{epochs[-1]}"


def _longest(row: Row) -> str:
    ended = [one["duration_ms"] for one in row["transactions"] if one["outcome"] != "open"]
    return longest(ended) if ended else ""


def _records(row: Row) -> str:
    counts = [one["records"] for one in row["transactions"]]
    return "" if not counts else known(None if None in counts else sum(counts))


def _errors(row: Row) -> str:
    return listed({name: count for name, count in row["errors"].items() if name not in EXPECTED})


def _details(row: Row, clock: Clock) -> list[str]:
    wrong = [one for one in row["transactions"] if one["outcome"] not in ENDED]
    longest = sorted(row["transactions"], key=lambda one: -(one["duration_ms"] or 0))
    aborted, committed = (
        [one for one in longest if one["outcome"] == outcome] for outcome in ("aborted", "committed")
    )
    return [_transaction(one, clock) for one in (*wrong, *aborted[:ABORTED_SHOWN], *committed[:1])]


def _transaction(one: Row, clock: Clock) -> str:
    parts = [
        f"{clock(one['began'])} {(one['outcome'] or UNSEEN).replace('_', ' ')}",
        f" by {one['fenced_by']}" if one["fenced_by"] else "",
        f" after {lasting(one['duration_ms'])}" if one["duration_ms"] is not None else "",
        f"; epoch {known(one['epoch'])}",
        f"; {counted(one['records'], 'record')} in {listed(one['partitions'])}" if one["partitions"] else "",
        f"; offsets of {listed(one['groups'])}" if one["groups"] else "",
    ]
    return "".join(parts)


def _next(file: str, rows: list[Row]) -> str:
    errors = [name for name in rows[0]["errors"] if name not in EXPECTED and not name.startswith(NAMELESS)]
    if errors:
        return f"kinspect read {file} --error {','.join(errors)}"
    return f"kinspect read {file} --api InitProducerId,AddPartitionsToTxn,EndTxn,WriteTxnMarkers"


def _is_only_named(row: Row) -> bool:
    return not any(row[key] for key in ("client_id", "epochs", "transactions", "errors"))


def _only_named(rows: list[Row]) -> str:
    names = [row["transactional_id"] for row in rows]
    return f"transactional ids that were only named ({len(rows):,}): {listed(names, NAMED)}"


LAYOUT = AnswerLayout(
    (
        Column("TRANSACTIONAL ID", lambda row: row["transactional_id"]),
        Column("CLIENT ID", lambda row: known(row["client_id"]), rank=2),
        Column("PRODUCER", lambda row: str(known(row["producer_id"])).replace(",", ""), True, rank=3),
        Column("EPOCHS", _epochs, True, rank=4),
        Column("COMMITTED", lambda row: _number("committed", row), True),
        Column("ABORTED", lambda row: _number("aborted", row), True),
        Column("OTHERS", _others, style=lambda _: NOTE),
        Column("LONGEST", _longest, True, rank=1),
        Column("RECORDS", _records, True, rank=5),
        Column("ERRORS", _errors, style=lambda _: ERROR),
    ),
    "no transactional id is named",
    _next,
    _details,
    folds=_is_only_named,
    folded=_only_named,
    unread="no transactional id could be read",
)
