"""The Python interface: `for exchange in kinspect.read("capture.pcap"): ...`"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike, fspath
from pathlib import Path

from kinspect.capture import may_bring_secrets, open_timeline
from kinspect.kafka.exchange.exchange import Exchange
from kinspect.model import Caps
from kinspect.pipeline import Inspector, fed, one_by_one


def read(
    *paths: str | PathLike[str],
    topic_names: dict[str, str] | None = None,
    decode_as: frozenset[int] = frozenset(),
    caps: Caps | None = None,
    keylog: str | PathLike[str] | bytes = b"",
) -> Iterator[Exchange]:
    """Exchanges of one or several captures (as one timeline), in order of completion.

    `paths`: pcap or pcapng files, plain or compressed; `-` is standard input. `topic_names`: topic id to name.
    `decode_as`: ports whose traffic is Kafka whatever it looks like. `keylog`: TLS secrets in NSS key log format (their
    bytes, or the file's path), in addition to those in the captures themselves. Bodies are decoded when asked for.
    Raises `CaptureError` for an input that cannot be read and `TruncatedCaptureError` for one that ends in the middle,
    both after the exchanges of everything before were handed on.
    """
    timeline = open_timeline([fspath(path) for path in paths])
    inspector = Inspector(names=topic_names, kafka_ports=decode_as, caps=caps, files=timeline.files)
    if keylog:
        inspector.add_secrets(keylog if isinstance(keylog, bytes) else Path(keylog).read_bytes())
    if may_bring_secrets(timeline.files):
        inspector.expect_secrets()
    for _, lines in fed(inspector, timeline):
        for line in one_by_one(lines):
            if isinstance(line, Exchange):
                yield line
    for line in inspector.finish():
        if isinstance(line, Exchange):
            yield line
    for error in timeline.errors:
        raise error
