"""The table of brokers, a row for each node: below it the changes of leaders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from shlex import quote
from typing import Any

from kinspect.output.answers.layout import ERROR, UNKNOWN, AnswerLayout, Clock, known, listed
from kinspect.output.columns import Column, Row

WORDS = {
    "metadata_zookeeper": "by Metadata",
    "quorum_leader": "leads the quorum",
    "describe_cluster": "by DescribeCluster",
}


def _joined(rows: list[Row]) -> list[Row]:
    """A row for each node, with those of its listeners as `listeners`; one for each address whose node is not known."""
    nodes: dict[Any, list[Row]] = {}
    for row in rows:
        known_node = row["node_id"] is not None
        nodes.setdefault((row["cluster_id"], row["node_id"]) if known_node else len(nodes), []).append(row)
    return [
        {
            **listeners[0],
            "listeners": listeners,
            "requests": _sum([each["requests"] for each in listeners]),
            "errors": dict(sum((Counter(each["errors"]) for each in listeners), Counter())),
        }
        for listeners in nodes.values()
    ]


def _sum(counts: list[int | None]) -> int | None:
    """The sum of those that are known; None if none is."""
    return sum(filter(None, counts)) or (None if None in counts else 0)


def _each(text: Callable[[Row], str]) -> Callable[[Row], str]:
    """What is known of any of a node's listeners, once each."""

    def texts(row: Row) -> str:
        found = dict.fromkeys(filter(None, map(text, row["listeners"])))
        return ", ".join(each for each in found if each != UNKNOWN) or next(iter(found), "")

    return texts


def _addresses(row: Row) -> str:
    """The addresses of a node's listeners: ports of one host together."""
    ports: dict[str, list[str]] = {}
    for address in [each["address"] for each in row["listeners"] if each["address"] is not None]:
        host, _, port = address.rpartition(":")
        ports.setdefault(host, []).append(port)
    return ", ".join(f"{host}:{','.join(found)}" for host, found in ports.items()) or UNKNOWN


def _releases(row: Row) -> str:
    names = row["releases"]
    return known(None) if not names else names[0] if len(names) == 1 else f"{names[0]}..{names[-1]}"


def _controller(row: Row) -> str:
    controller = row["controller"]
    if controller is None or row["node_id"] is None:
        return known(None)
    return WORDS[controller["known_by"]] if controller["node_id"] == row["node_id"] else ""


def _advertised(row: Row) -> str:
    return "" if row["advertised"] == row["address"] else known(row["advertised"])


def _leads(row: Row) -> str:
    return known(None if row["leads"] is None else len(row["leads"]))


def _details(row: Row, clock: Clock) -> list[str]:
    """What the node leads instead of another one; of each moment one line."""
    moves: dict[tuple[str, int | None, int | None], list[str]] = {}
    for change in row["leader_changes"]:
        if change["to"] in (row["node_id"], None):
            moves.setdefault((clock(change["at"]), change["from"], change["to"]), []).append(
                change["partition"]
            )
    return [
        f"{at} {_node(after)} leads {listed(partitions)}, before it {_node(before)}"
        for (at, before, after), partitions in moves.items()
    ]


def _node(node_id: int | None) -> str:
    return "nobody" if node_id is None else f"node {node_id}"


def _notes(rows: list[Row], capture: Row) -> list[str]:
    if not any(each["releases"] for row in rows for each in row["listeners"]):
        return []
    return [
        "RELEASES fit what a broker offers; patch releases that are newer than this kinspect may fit too."
    ]


def _more(file: str, rows: list[Row]) -> str:
    first = rows[0]["listeners"][0]
    host, _, port = str(first["address"] or first["advertised"]).rpartition(":")
    errors = " --errors-only" * bool(first["errors"])
    return f"kinspect read {file} --broker-host {quote(host.strip('[]'))} --port {quote(port)}{errors}"


LAYOUT = AnswerLayout(
    (
        Column("NODE", lambda row: known(row["node_id"]), True),
        Column("ADDRESS", _addresses),
        Column("ADVERTISED", _each(_advertised), rank=4),
        Column("RELEASES", _each(_releases)),
        Column("MODE", _each(lambda row: known(row["mode"])), rank=3),
        Column("CONTROLLER", _controller, rank=1),
        Column("LEADS", _leads, True),
        Column("REQUESTS", lambda row: known(row["requests"]), True),
        Column("ERRORS", lambda row: listed(row["errors"]), rank=2, style=lambda _: ERROR),
        Column("RACK", _each(lambda row: row["rack"] or ""), rank=5),
        Column("CLUSTER", lambda row: known(row["cluster_id"]), rank=6),
    ),
    "no broker was asked",
    _more,
    _details,
    _notes,
    joined=_joined,
)
