"""What Confluent's Python client writes, with the registry that it has inside: payloads, what was written, and the
registry's export. `python tests/payloads/clients.py` renews `data/`."""

from __future__ import annotations

import json
import sys
import tempfile
from base64 import b64encode
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

DATA = Path(__file__).parent / "data"
TOPIC = "orders"

CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [{"name": "name", "type": "string"}, {"name": "vip", "type": "boolean"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "customer", "type": "shop.Customer"},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "due", "type": {"type": "int", "logicalType": "date"}},
        {"name": "hour", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "long"}}},
        {"name": "rate", "type": "double"},
    ],
}
ORDER_VALUE = {
    "customer": {"name": "Åsa", "vip": True},
    "id": UUID("89791762-2336-4186-9674-299b90a802e2"),
    "total": Decimal("-12.50"),
    "at": datetime(2026, 11, 21, 6, 43, 1, 123456, UTC),
    "due": date(2026, 12, 1),
    "hour": time(6, 30),
    "raw": b"\0\xff",
    "state": "PAID",
    "lines": [{"apples": 3}, {"pears": 9223372036854775807}],
    "rate": float("nan"),
}
ORDER_JSON = {
    "customer": {"name": "Åsa", "vip": True},
    "id": "89791762-2336-4186-9674-299b90a802e2",
    "total": "-12.50",
    "at": "2026-11-21T06:43:01.123456Z",
    "due": "2026-12-01",
    "hour": "06:30:00",
    "raw": "AP8=",
    "state": "PAID",
    "lines": [{"apples": 3}, {"pears": 9223372036854775807}],
    "rate": "NaN",
}
JSON_CUSTOMER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Customer",
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
}
JSON_ORDER = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {"customer": {"$ref": "customer.json"}, "count": {"type": "integer", "minimum": 1}},
}
JSON_VALUE = {"customer": {"name": "Åsa"}, "count": 3}
PROTO_CUSTOMER = 'syntax = "proto3";\npackage shop;\nmessage Customer {\n  string name = 1;\n}\n'
PROTO_ORDER = """syntax = "proto3";
package shop;
import "customer.proto";
import "google/protobuf/timestamp.proto";
message Order {
  Customer customer = 1;
  int64 id = 2;
  repeated double weights = 3;
  google.protobuf.Timestamp at = 4;
  message Line {
    string what = 1;
    bytes raw = 2;
  }
}
message Parcel {
  message Address {
    string town = 1;
  }
  Address address = 1;
}
"""


def messages() -> dict[str, Any]:
    """The classes of Protobuf's messages, made as a program has them."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from grpc_tools import protoc

    pool = descriptor_pool.DescriptorPool()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "customer.proto").write_text(PROTO_CUSTOMER)
        (place / "order.proto").write_text(PROTO_ORDER)
        known = Path(protoc.__file__).parent / "_proto"
        arguments = ["-I", folder, "-I", str(known), "--include_imports", f"--descriptor_set_out={place}/out"]
        assert protoc.main(["protoc", *arguments, "order.proto"]) == 0
        for each in descriptor_pb2.FileDescriptorSet.FromString((place / "out").read_bytes()).file:
            pool.Add(each)
    names = ("Order", "Order.Line", "Parcel.Address")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}")) for name in names
    }


def written() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Payloads, and the export of the registry that has their schemas."""
    from confluent_kafka.schema_registry import (
        Schema,
        SchemaReference,
        SchemaRegistryClient,
        header_schema_id_serializer,
    )
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient.new_client({"url": "mock://kinspect"})
    client.register_schema("shop.Customer", Schema(json.dumps(CUSTOMER), "AVRO"))
    client.register_schema("customer.json", Schema(json.dumps(JSON_CUSTOMER), "JSON"))
    avro = Schema(json.dumps(ORDER), "AVRO", [SchemaReference("shop.Customer", "shop.Customer", 1)])
    checked = Schema(json.dumps(JSON_ORDER), "JSON", [SchemaReference("customer.json", "customer.json", 1)])
    by_header = {"schema.id.serializer": header_schema_id_serializer}
    found = []

    def write(what: str, make: Any, value: Any, expected: Any, message: str | None = None) -> None:
        for way, settings in (("prefix", {}), ("header", by_header)):
            # A subject for each kind.
            context = SerializationContext(f"{TOPIC}-{what}", MessageField.VALUE, [])
            data = make(settings)(value, context)
            found.append(
                {
                    "topic": f"{TOPIC}-{what}",
                    "way": way,
                    "value": b64encode(data).decode(),
                    "headers": [[name, b64encode(header).decode()] for name, header in context.headers],
                    "json": expected,
                    "message": message,
                }
            )

    write("avro", lambda more: AvroSerializer(client, avro, conf=more), ORDER_VALUE, ORDER_JSON)
    write("json", lambda more: JSONSerializer(checked, client, conf=more), JSON_VALUE, JSON_VALUE)
    made = messages()
    order = made["Order"](id=2**53 + 1, weights=[0.5, float("inf")])
    order.customer.name = "Åsa"
    order.at.FromDatetime(datetime(2026, 11, 21, 6, 43, 1, tzinfo=UTC))
    for name, message, expected in (
        (
            "Order",
            order,
            {
                "customer": {"name": "Åsa"},
                "id": "9007199254740993",
                "weights": [0.5, "Infinity"],
                "at": "2026-11-21T06:43:01Z",
            },
        ),
        ("Order.Line", made["Order.Line"](what="x", raw=b"\0\xff"), {"what": "x", "raw": "AP8="}),
        ("Parcel.Address", made["Parcel.Address"](town="Oslo"), {"town": "Oslo"}),
    ):

        def make(more: dict[str, Any], kind: Any = made[name]) -> Any:
            return ProtobufSerializer(kind, client, {"use.deprecated.format": False, **more})

        write("protobuf", make, message, expected, f"shop.{name}")
    export = []
    for subject in client.get_subjects():
        for version in client.get_versions(subject):
            known = client.get_version(subject, version)
            references = [[each.name, each.subject, each.version] for each in known.schema.references or ()]
            export.append(
                {
                    "subject": subject,
                    "version": version,
                    "id": known.schema_id,
                    "guid": known.guid,
                    "schemaType": known.schema.schema_type,
                    "schema": known.schema.schema_str,
                    "references": [
                        dict(zip(("name", "subject", "version"), each, strict=True)) for each in references
                    ],
                }
            )
    return found, export


def main() -> None:
    for name, rows in zip(("payloads", "schemas"), written(), strict=True):
        (DATA / f"{name}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
