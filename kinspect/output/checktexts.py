"""What became of rules, as text: on a terminal, and for what reads reports of tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kinspect.output.escape import escape
from kinspect.wording import cut_at

Row = dict[str, Any]
LABEL = 9
"""Width of what stands before a text."""
CLIENT_MOST = 200
"""Most characters of a client id."""
NOTHING = "no exchange"


def passed_by_nothing(row: Row) -> bool:
    """True if a rule passed, and there was no exchange that it is about."""
    return row["status"] == "passed" and not row["exchanges"] and not row["unsure"]


def explained(row: Row) -> Iterator[str]:
    """Lines on a rule, escaped: what was expected, what was seen, why more is not known, and examples."""
    for label, text in (("expected", row["expected"]), ("seen", row["seen"])):
        if text:
            yield f"{label:{LABEL}}{escape(text)}"
    for reason in row["reasons"]:
        yield f"{'because':{LABEL}}{escape(reason)}"
    for example in row["evidence"]:
        yield f"{'at':{LABEL}}{escape(_place(example))}"


def in_short(row: Row) -> str:
    """The same in one line, escaped."""
    parts = [f"expected {row['expected']}", f"seen {row['seen']}" if row["seen"] else "", *row["reasons"]]
    return escape("; ".join(filter(None, parts)))


def _place(example: Row) -> str:
    ip, port, client = example["client_ip"], example["client_port"], example["client_id"]
    address = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
    version = "" if example["api_version"] is None else f" v{example['api_version']}"
    what, seen = f"{example['api'] or 'unknown API'}{version}", example["seen"]
    parts = [
        f"{example['file']} frame {example['frame']}",
        example["timestamp"] or "",
        f"{address} ({cut_at(client, CLIENT_MOST)})" if client else address,
        f"{what}: {seen}" if seen and seen != what else what,
    ]
    return "  ".join(filter(None, parts))
