"""The processes of `kinspect live`."""

from __future__ import annotations

from support.books import balanced

from kinspect.capture import open_timeline


def worker_of(running):
    """The process that captures."""
    pid = running.process.pid
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return int(file.read())


def balance(summary):
    """The packets that were captured, each of which was decoded or is counted as not, as is each of their bytes."""
    balanced(summary)
    captured = summary["captured_packets"]
    assert captured == summary["packets"] + summary["queue_drops"] + summary["left_packets"]
    assert min(summary["queue_drops"], summary["left_packets"]) >= 0
    return captured


def packets_in(*paths):
    """The packets in files that are whole."""
    timeline = open_timeline(paths)
    count = sum(map(len, timeline))
    assert timeline.errors == []
    return count
