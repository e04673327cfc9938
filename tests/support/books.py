"""The summary's books: where the captured payload went."""

from __future__ import annotations

from typing import Any

BOOKS = (
    "message_bytes",
    "undecoded_bytes",
    "tls_bytes",
    "tls_overhead_bytes",
    "other_bytes",
    "repeated_bytes",
    "conflicting_bytes",
    "ignored_bytes",
    "unfinished_bytes",
)


def balanced(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary, once its books balance."""
    books = {key: summary[key] for key in BOOKS}
    assert min(books.values()) >= 0, books
    assert summary["payload_bytes"] == sum(books.values()), (summary["payload_bytes"], books)
    return summary
