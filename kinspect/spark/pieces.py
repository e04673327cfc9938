"""What tasks hand to the driver: plain values as JSON, and numbers packed. Nothing in it can run code."""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from typing import Any

import numpy as np
import orjson

from kinspect.model import Counts
from kinspect.spark.clock import Numbers
from kinspect.spark.facts import Facts, Told
from kinspect.spark.index import Flags, Fragment, Group, Report


def pack_report(report: Report) -> bytes:
    """A report without its times."""
    return _packed(
        {
            "number": report.number,
            "packets": report.packets,
            "descriptions": [_text(block) for block in report.descriptions],
            "secrets": [_text(text) for text in report.secrets],
            "drops": [[list(key), count] for key, count in report.drops.items()],
            "counts": [
                report.counts.packets,
                report.counts.bytes,
                report.counts.tcp_segments,
                report.counts.undecoded_packets,
            ],
            "fragments": [
                [number, time, _text(data), wire_length, link_type]
                for number, time, data, wire_length, link_type in report.fragments
            ],
            "error": report.error,
            "groups": [[_text(group.ends), *group[1:]] for group in report.groups],
        }
    )


def pack_times(number: int, first: int, times: Numbers, carries_tcp: Flags) -> bytes:
    """The times of a split's packets from `first` on, and which of them carry TCP."""
    return _packed(
        {
            "number": number,
            "first": first,
            "size": len(times),
            "times": _text(np.diff(times, prepend=np.int64(0)).tobytes()),
            "carries_tcp": _text(np.packbits(carries_tcp).tobytes()),
        }
    )


def unpack(piece: bytes) -> Report | tuple[int, int, Numbers, Flags]:
    """What `pack_report` or `pack_times` packed."""
    value = orjson.loads(zlib.decompress(piece))
    if "first" in value:
        bits = np.frombuffer(b64decode(value["carries_tcp"]), np.uint8)
        return (
            value["number"],
            value["first"],
            np.cumsum(np.frombuffer(b64decode(value["times"]), np.int64)),
            np.unpackbits(bits, count=value["size"]).astype(np.bool_),
        )
    packets, size, segments, undecoded = value["counts"]
    return Report(
        number=value["number"],
        packets=value["packets"],
        descriptions=tuple(map(b64decode, value["descriptions"])),
        secrets=tuple(map(b64decode, value["secrets"])),
        drops={tuple(key): count for key, count in value["drops"]},
        counts=Counts(packets, size, segments, undecoded),
        fragments=[
            Fragment(number, time, b64decode(data), wire_length, link_type)
            for number, time, data, wire_length, link_type in value["fragments"]
        ],
        error=value["error"] and tuple(value["error"]),
        groups=[Group(b64decode(ends), *rest) for ends, *rest in value["groups"]],
    )


def pack_facts(facts: Facts) -> bytes:
    """What a task found."""
    return _packed(
        {
            "told": [
                [topic_id, name, _text(key), use, moment] for topic_id, name, key, use, moment in facts.told
            ],
            "uses": [[use, moment] for use, moment in facts.uses.items()],
            "totals": facts.totals,
        }
    )


def unpack_facts(piece: bytes) -> Facts:
    """What `pack_facts` packed."""
    value = orjson.loads(zlib.decompress(piece))
    told = [
        Told(topic_id, name, b64decode(key), use and tuple(use), moment and tuple(moment))
        for topic_id, name, key, use, moment in value["told"]
    ]
    return Facts(told, {tuple(use): tuple(moment) for use, moment in value["uses"]}, value["totals"])


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _packed(value: dict[str, Any]) -> bytes:
    return zlib.compress(orjson.dumps(value), 1)
