"""Filters that list the exchanges of an answer's row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from typing import Any

from kinspect.analysis.answernames import ANSWERS
from kinspect.tui.index.complete import written

IDS_MOST = 10
"""Most ids of a topic in a filter; a topic has another one each time that it is made anew."""

Row = dict[str, Any]
Words = Iterator[tuple[str, str | None]]
"""Names of filters, each with its value; None for one that takes none."""


def row_filter(answer: str, row: Row, ids: Callable[[str], Sequence[str]]) -> dict[str, str | None]:
    """The filters for a row, with values as they are typed; empty if there are none for it. `ids`: gives the ids by
    which exchanges name a topic (`Store.nameless`)."""
    words = dict(_FILTERS[answer](row)) if answer in _FILTERS else {}
    if "topic" in words:
        topic = row["topic"]
        words["topic"] = ",".join([written(topic), *ids(topic)[:IDS_MOST]])
    return words


def page_of(answer: str, row: Row) -> str | None:
    """The answer that shows more of a row: of a finding."""
    name: str = row["command"].split()[0] if answer == "summary" else ""
    return name if name in ANSWERS else None


def _client_id(row: Row) -> Words:
    if row["client_id"] is not None:
        yield "client-id", written(row["client_id"])


def _client(row: Row) -> Words:
    yield from _client_id(row)
    if row["client_ip"] is not None:
        yield "client-host", row["client_ip"]


def _topic(row: Row) -> Words:
    """Nothing for an empty name, which no filter takes."""
    if row["topic"]:
        yield "topic", written(row["topic"])
        yield from _client(row)


def _group(row: Row) -> Words:
    yield "group", written(row["group"])


def _api(row: Row) -> Words:
    if row["api"] is not None:
        yield "api", row["api"]


def _error(row: Row) -> Words:
    yield from _api(row)
    yield from _client(row)
    if row["code"] is None:
        yield "errors-only", None
    else:
        yield "error", row["error"]


def _broker(row: Row) -> Words:
    """Of all listeners; nothing for a broker that no connection leads to: only clients were told of its address."""
    ends = [each["address"].rpartition(":") for each in row["listeners"] if each["address"] is not None]
    if ends:
        yield "broker-host", ",".join(dict.fromkeys(str(ip_address(host.strip("[]"))) for host, *_ in ends))
        yield "port", ",".join(dict.fromkeys(port for *_, port in ends))


def _login(row: Row) -> Words:
    yield "api", "Sasl*"
    yield from _client(row)


_FILTERS: dict[str, Callable[[Row], Words]] = {
    "topics": _topic,
    "clients": _client,
    "groups": _group,
    "latency": _api,
    "errors": _error,
    "brokers": _broker,
    "auth": _login,
    "transactions": _client_id,
    "upgrade": _client,
}
