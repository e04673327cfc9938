"""An exchange as a tree: header facts, both bodies, errors and problems."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from kinspect.kafka.exchange import ANSWERED, Exchange
from kinspect.kafka.view import View
from kinspect.output import table
from kinspect.output.escape import escape
from kinspect.output.named import number_name

KEY, VALUE, TEXT, NULL = "cyan", "", "green", "dim"

SIDES = ("request", "response")
FACTS = (
    *("timestamp", "completed_at", "connection_id", "kind", "correlation_id", "api_candidates", "in_flight"),
    *("latency_ms", "service_ms", "max_wait_ms", "throttle_time_ms", "topics", "topic_ids", "partitions"),
    *("groups", "transactional_ids", "record_count", "record_bytes"),
)


class Detail:
    """Writes exchanges as trees."""

    def __init__(self, console: Console, view: View) -> None:
        self._console = console
        self._view = view

    def exchange(self, exchange: Exchange) -> None:
        """Write the exchange's tree."""
        self._console.print(tree(self._view.exchange(exchange), exchange.order), overflow="fold")

    def flush(self) -> None:
        """Nothing is kept back."""


def tree(line: dict[str, Any], order: int) -> Tree:
    """The tree of an exchange's JSON object."""
    root = Tree(_title(line, order), guide_style="dim")
    facts = {
        "client": " ".join(_end_facts(line["client"])),
        "broker": " ".join(_end_facts(line["broker"])),
        **{key: line[key] for key in FACTS if line[key] is not None and line[key] != []},
    }
    add(root, facts)
    for side in SIDES:
        if line[side] is not None:
            _add_message(root, side, line[side])
    for problem in line["problems"]:
        root.add(_problem(problem))
    return root


def add(parent: Tree, value: dict[str, Any]) -> None:
    """Add each key of an object, as deep as it goes."""
    for key, item in value.items():
        _add_item(parent, Text.assemble((escape(key), KEY)), item, number_name(key, item))


def _add_item(parent: Tree, label: Text, item: Any, name: str | None = None) -> None:
    if isinstance(item, dict) and item:
        add(parent.add(label), item)
    elif isinstance(item, list) and any(isinstance(entry, dict | list) for entry in item):
        branch = parent.add(label + Text(f" ({len(item)})", style=NULL))
        for index, entry in enumerate(item):
            _add_item(branch, Text.assemble((f"[{index}]", NULL)), entry)
    else:
        parent.add(label + Text(" ") + scalar(item) + Text(f" ({name})" if name else "", style=NULL))


def scalar(item: Any) -> Text:
    """A value that is not to be taken apart."""
    if item is None:
        return Text("null", style=NULL)
    if isinstance(item, str):
        return Text(escape(item) or '""', style=TEXT)
    if isinstance(item, bool):
        return Text("true" if item else "false", style=VALUE)
    if isinstance(item, list):
        return Text(", ").join(scalar(entry) for entry in item) if item else Text("[]", style=NULL)
    return Text("{}" if item == {} else str(item), style=VALUE)


def _title(line: dict[str, Any], order: int) -> Text:
    title = Text.assemble((f"#{order} ", "bold"), table.api(line), f"  {table.ends(line)}  ")
    outcome = line["outcome"]
    if outcome == ANSWERED:
        return title.append_text(table.latency(line["latency_ms"]))
    reason = line["outcome_reason"]
    return title.append(f"{outcome} ({reason})" if reason else outcome, style=table.NOTE)


def _end_facts(end: dict[str, Any]) -> list[str]:
    """`10.0.0.1:41234 id=p-1 role=consumer`."""
    rest = {key: value for key, value in end.items() if key not in ("ip", "port") and value is not None}
    return [f"{end['ip']} {end['port']}", *(f"{key}={value}" for key, value in rest.items())]


def _add_message(root: Tree, side: str, message: dict[str, Any]) -> None:
    facts = [f"{message['size']} bytes"]
    frames = message["frames"]
    first, last = frames["first"], frames["last"]
    facts.append(f"{f'frame {first}' if first == last else f'frames {first}–{last}'} of {frames['file']}")
    if message["layout"]:
        facts.append(f"layout {message['layout']}")
    facts += ["inferred"] * message["inferred"] + ["not complete"] * (not message["complete"])
    branch = root.add(Text.assemble((side, "bold"), (escape(f"  {', '.join(facts)}"), "dim")))
    for error in message.get("errors", ()):
        retriable = ", retriable" if error["retriable"] else ""
        text = f"{error['name']} ({error['code']}{retriable}) {error['path']}".rstrip()
        branch.add(Text(escape(text), style=table.ERROR))
    if message["body"] is None:
        branch.add(Text("body not decoded", style=NULL))
    else:
        add(branch, message["body"])


def _problem(problem: dict[str, Any]) -> Text:
    where = [problem["side"], problem["path"]]
    if problem["offset"] is not None:
        where.append(f"at byte {problem['offset']}")
    place = " ".join(part for part in where if part)
    return Text(escape(f"{problem['code']} {place}: {problem['message']}"), style=table.PROBLEM)
