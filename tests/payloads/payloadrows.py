"""Rows of records, as `--payload text` shows them."""

from kinspect.kafka.view.redact import payload_text


def row_of(value, headers=(), key=None, topic=None):
    """A row as `text` shows it."""
    row = {"topic": topic, "key_schema": None, "value_schema": None, "problem": None}
    for name, data in (("key", key), ("value", value)):
        row[name], row[f"{name}_encoding"] = payload_text(data)
    row["headers"] = [
        dict(zip(("key", "value", "value_encoding"), (name, *payload_text(data)), strict=True))
        for name, data in headers
    ]
    return row
