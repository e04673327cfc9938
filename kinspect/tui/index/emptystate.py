"""Text of an empty list: the reason, and advice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kinspect.output.runsummary import summary_text
from kinspect.output.tally import Tally
from kinspect.tui.index.store import Store


def empty_state(store: Store) -> list[str]:
    """The lines in place of the exchanges."""
    if store.count:
        return ["no exchange passes the filter"]
    if not store.done:
        return ["no exchange yet"]
    summary = store.summary
    if summary is None:
        return ["the reading was ended before the first exchange"]
    if store.errors and not summary["packets"]:
        return ["nothing could be read", *(error for _, error in store.errors)]
    read = summary_text(summary, Tally(interface=store.inputs.interface, unread=store.unread)).splitlines()
    return [*read, *_advice(summary["connections"])]


def _advice(kinds: dict[str, Any]) -> Iterator[str]:
    """Lines on Kafka among the kinds of connections, with options that may show more."""
    if kinds["kafka"]:
        yield "Kafka, but no exchange."
        return
    yield "No Kafka found."
    if kinds["other"]:
        yield "--decode-as PORT takes the connections of a port for Kafka."
    if kinds["tls"]:
        yield "--keylog FILE decrypts TLS: the secrets that a client or broker noted (SSLKEYLOGFILE)."
    if not kinds["other"] and not kinds["tls"]:
        yield "No connection has data: were the packets cut, or captured elsewhere than Kafka is?"
