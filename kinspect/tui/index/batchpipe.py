"""Batches through a pipe, as JSON and plain bytes, neither of which can become code."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

import orjson

from kinspect.background import error_from
from kinspect.tui.index.indexer import RowBatch


def send_batch(writer: Connection, batch: RowBatch) -> None:
    """Send a batch in three pieces: the rest, rows, and texts (JSON, so that no line feed is in them)."""
    descriptions = [(file, offset, block.hex()) for file, offset, block in batch.descriptions]
    apart = {"rows": None, "texts": None, "descriptions": descriptions}
    writer.send_bytes(orjson.dumps({**batch._asdict(), **apart}))
    writer.send_bytes(batch.rows)
    writer.send_bytes(b"\n".join(batch.texts))


def send_error(writer: Connection, told: list[Any]) -> None:
    """Send in place of a batch what went wrong, as `telling` tells it."""
    writer.send_bytes(orjson.dumps(told))


def receive_batch(reader: Connection) -> RowBatch | BaseException:
    """Wait for the next batch, or the error that was sent in its place. Raises EOFError and OSError."""
    told = orjson.loads(reader.recv_bytes())
    if isinstance(told, list):
        return error_from(told)
    rows, texts = reader.recv_bytes(), reader.recv_bytes()
    return _received(told, rows, texts)


def _received(told: dict[str, Any], rows: bytes, texts: bytes) -> RowBatch:
    told["descriptions"] = [
        (file, offset, bytes.fromhex(block)) for file, offset, block in told["descriptions"]
    ]
    told["names"] = [(topic_id, name, tuple(key)) for topic_id, name, key in told["names"]]
    told["nodes"] = [(ip, port, node_id, tuple(key)) for ip, port, node_id, key in told["nodes"]]
    return RowBatch(**{**told, "rows": rows, "texts": texts.split(b"\n") if texts else []})
