"""Captures indexed in this process."""

from pathlib import Path

from kinspect.tui.index.captures import index
from kinspect.tui.index.indexer import Inputs
from kinspect.tui.index.spool import Spool
from kinspect.tui.index.store import Store

CAPTURES = Path(__file__).parents[2] / "captures"
NANO = CAPTURES / "4.4.0" / "nano.pcap"
ERRORS = CAPTURES / "4.4.0" / "errors_java.pcap.gz"


def keylog(path):
    """The secrets beside a capture."""
    keys = path.with_name(path.name.split(".pcap")[0] + ".keys.log")
    return keys.read_bytes() if keys.exists() else b""


def indexed(*paths, limit=1 << 30, **options):
    """A store of these captures, read to their end in this process."""
    inputs = Inputs([str(path) for path in paths], **options)
    store = Store(inputs, Spool(limit))
    index(inputs, store.spool, store.add)
    return store
