"""Record sets in JSON: batches, and on request their records, keys and values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kinspect.kafka.fields import secrets
from kinspect.kafka.view.reading import BodyContext, ReadingView
from kinspect.kafka.view.redact import (
    BASE64,
    PAYLOADS,
    UTF_8,
    base64_text,
    integer_text,
    no_payload,
    payload_text,
)
from kinspect.records import controlrecords, internal

if TYPE_CHECKING:
    from kinspect.kafka.bodysummary import RecordField

BATCH_INT64S: Final = (
    "base_offset",
    "last_offset",
    "base_timestamp_ms",
    "max_timestamp_ms",
    "delete_horizon_ms",
    "producer_id",
)


class RecordView:
    """Shows record sets: `with_records` their records too, `payload` one of `PAYLOADS`."""

    def __init__(self, with_records: bool, payload: str, readings: ReadingView) -> None:
        self.with_records = with_records
        self.readings = readings
        self._payload = PAYLOADS[payload]
        self._show_secrets = readings.show_secrets
        self._int64_text = readings.int64_text

    def record_set(self, field: RecordField, topic: str | None, context: BodyContext) -> dict[str, Any]:
        """The record set's JSON form. `topic`: the topic of its records, None where it is not known."""
        found = field.take_records() if self.with_records else field.batches()
        if self.with_records:
            for batch in found:
                records, is_control = batch["records"], batch["is_control"]
                # In place, so that the records and their shown form are not held at once.
                if is_control or topic in internal.TOPICS or self._int64_text:
                    for index, record in enumerate(records):
                        records[index] = self._record(record, is_control, topic, context)
                elif self._payload is payload_text:
                    self._plain_text(records)
                else:
                    self._plain(records)
        hides = self._payload is no_payload or (topic in secrets.TOPICS and not self._show_secrets)
        if hides and (found or found.partial_bytes):
            # Nor are the bytes of a message around them to be shown.
            context.redactions += 1
        batches: list[dict[str, Any]] = found
        if self._int64_text:
            batches = [
                {**batch, **{name: integer_text(batch[name]) for name in BATCH_INT64S}} for batch in found
            ]
        return {"batches": batches, "partial_bytes": found.partial_bytes}

    def _plain(self, records: list[dict[str, Any]]) -> None:
        """Show, in place, records whose keys and values have no layout of Kafka's."""
        for record in records:
            record["key"], record["key_encoding"] = self._payload(record["key"])
            record["value"], record["value_encoding"] = self._payload(record["value"])
            if record["headers"]:
                record["headers"] = [self._header(header) for header in record["headers"]]

    def _plain_text(self, records: list[dict[str, Any]]) -> None:
        """`_plain` for text, without a call for each key and value: nearly all shown records are of this kind."""
        for record in records:
            key, value = record["key"], record["value"]
            encoding = None
            if key is not None:
                try:
                    record["key"], encoding = key.decode(), UTF_8
                except UnicodeDecodeError:
                    record["key"], encoding = base64_text(key), BASE64
            record["key_encoding"] = encoding
            encoding = None
            if value is not None:
                try:
                    record["value"], encoding = value.decode(), UTF_8
                except UnicodeDecodeError:
                    record["value"], encoding = base64_text(value), BASE64
            record["value_encoding"] = encoding
            if record["headers"]:
                record["headers"] = [self._header(header) for header in record["headers"]]

    def _record(
        self, record: dict[str, Any], is_control: bool, topic: str | None, context: BodyContext
    ) -> dict[str, Any]:
        key, value = record["key"], record["value"]
        shown_key, key_encoding = self._payload(key)
        shown_value, value_encoding = self._payload(value)
        decoded_key = decoded_value = None
        if is_control:
            decoded_key, decoded_value = controlrecords.decode_control_record(key, value)
        elif topic in internal.TOPICS:
            decoded_key = internal.decode_key(topic, key)
            decoded_value = internal.decode_value(topic, key, value)
        secrets_before = context.redactions
        offset, timestamp = record["offset"], record["timestamp_ms"]
        shown = {
            "offset": str(offset) if self._int64_text else offset,
            "timestamp_ms": integer_text(timestamp) if self._int64_text else timestamp,
            "key": shown_key,
            "key_size": record["key_size"],
        }
        if decoded_key is not None:
            shown["key_decoded"] = self.readings.record(decoded_key, context)
        shown["value"] = shown_value
        shown["value_size"] = record["value_size"]
        if decoded_value is not None:
            shown["value_decoded"] = self.readings.record(decoded_value, context)
        shown["headers"] = [self._header(header) for header in record["headers"]]
        shown["key_encoding"], shown["value_encoding"] = key_encoding, value_encoding
        # A metadata record that cannot be read could hold a secret too.
        unread = decoded_value is None and value is not None and not is_control and topic in secrets.TOPICS
        if context.redactions != secrets_before or (unread and not self._show_secrets):
            shown.update(key=None, key_encoding=None, value=None, value_encoding=None)
        return shown

    def _header(self, header: dict[str, Any]) -> dict[str, Any]:
        value, encoding = self._payload(header["value"])
        return {"key": header["key"], "value": value, "value_encoding": encoding}
