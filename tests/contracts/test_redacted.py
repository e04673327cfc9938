"""`export --redact` replaces every text, byte string, uuid and record of every layout that is not Kafka's own word."""

from itertools import count
from struct import pack

import pytest
from support.layouts import all_layouts
from support.recordsets import GZIP, LZ4, NONE, SNAPPY, ZSTD, batch, message, records, xerial_chunks

from kinspect.exports.pseudonyms import Pseudonyms
from kinspect.exports.readback import shape_of
from kinspect.exports.redactedmessage import Redaction
from kinspect.model import Caps
from kinspect.protocol import encode_body, schema
from kinspect.protocol.fieldpaths import each_field
from kinspect.protocol.interpreter import interpret
from kinspect.protocol.primitives import uuid_text
from kinspect.records import batches
from kinspect.records.compression import decompress

CAPS = Caps()


class Planter:
    """Fills bodies with texts that are each there once."""

    def __init__(self):
        self.planted = []
        self._numbers = count()

    def plant(self):
        number, letters = next(self._numbers), ""
        while number or len(letters) < 6:
            number, digit = divmod(number, 23)
            letters += "bcdfghjklmnpqrstvwxyzaeu"[digit]
        self.planted.append(letters.encode())
        return letters

    def value(self, field):
        if field.type == "struct":
            return self.body(field.fields)
        if field.type == "string":
            return self.plant()
        if field.type == "uuid":
            return uuid_text(self.plant().encode().ljust(16, b"-"))
        if field.type == "records":
            return batch(records([self.plant().encode()] * 3), 3)
        return self.plant().encode() if field.type == "bytes" else 0

    def body(self, fields):
        found = {
            each.name: [self.value(each), self.value(each)] if each.array else self.value(each)
            for each in fields
        }
        return {**found, "unknown_tagged_fields": [{"tag": 900, "bytes": self.plant().encode()}]}


@pytest.fixture
def redaction():
    return Redaction(Pseudonyms(b"a key"), CAPS)


@pytest.mark.big
def test_every_field_of_every_layout_is_replaced(redaction):
    planter = Planter()
    for layout in all_layouts():
        planter.planted.clear()
        raw = encode_body(layout, planter.body(layout.fields))
        made = redaction.struct(layout, raw, 0, len(raw))
        left = [each for each in planter.planted if each in raw and each in made]
        assert left == [], (layout.name, layout.version)
        before, after = (interpret(layout, each, 0, len(each)) for each in (raw, made))
        assert after.failure is None
        assert shape_of(after.body) == shape_of(before.body), (layout.name, layout.version)
    assert next(planter._numbers) > 10_000


def test_words_are_of_fields_that_layouts_have():
    paths = {f".{path}" for layout in all_layouts() for path, _, _ in each_field(layout.fields)}
    for field in schema._words():
        assert any(path.endswith(f".{field}") for path in paths), field


def test_own_words_stay(redaction):
    layout = schema.layout(11, 5, "request")
    protocols = [{"name": name, "metadata": b""} for name in ("range", "my-own")]
    body = {"protocol_type": "consumer", "protocols": protocols, "group_id": "range", "member_id": "consumer"}
    raw = encode_body(layout, body)
    found = interpret(layout, redaction.struct(layout, raw, 0, len(raw)), 0, len(raw)).body
    assert (found["protocol_type"], found["protocols"][0]["name"]) == ("consumer", "range")
    assert found["protocols"][1]["name"] != "my-own"
    assert (found["group_id"], found["member_id"]) != ("range", "consumer")


@pytest.mark.parametrize(("kind", "stays"), [(2, False), (4, True), (8, True), (32, False)])
def test_numbers_that_name_brokers_stay(redaction, kind, stays):
    layout = schema.layout(32, 4, "request")
    resource = {"resource_type": kind, "resource_name": "101", "configuration_keys": None}
    raw = encode_body(layout, {"resources": [resource]})
    found = interpret(layout, redaction.struct(layout, raw, 0, len(raw)), 0, len(raw)).body
    assert (found["resources"][0]["resource_name"] == "101") == stays


VALUES = [b"customer-4711", b"pays-by-card", b"x" * 3000]
CODECS = [
    (GZIP, None),
    (ZSTD, None),
    (NONE, None),
    (SNAPPY, lambda data: xerial_chunks(data, 4000)),
    (SNAPPY, None),
    (LZ4, None),
]


def packed(codec, pack_with):
    import cramjam

    packers = {
        GZIP: cramjam.gzip.compress,
        ZSTD: cramjam.zstd.compress,
        SNAPPY: cramjam.snappy.compress_raw,
        LZ4: cramjam.lz4.compress,
        NONE: bytes,
    }
    return bytes((pack_with or packers[codec])(records(VALUES)))


@pytest.mark.parametrize(("codec", "pack_with"), CODECS)
def test_batches_are_opened_and_packed_again(redaction, codec, pack_with):
    raw = batch(packed(codec, pack_with), 3, codec)
    made = redaction._records(raw, "records", {"records": raw})
    (before,), (after,) = batches(raw), batches(made)
    assert after["crc_ok"]
    assert shape_of([after], "batch") == shape_of([{**before, "size": after["size"]}], "batch")
    opened = decompress(codec, made[61:], 1 << 20)
    assert not any(value in opened or value in made for value in VALUES)
    assert len({record["value"] for record in after["records"]}) == 3


def test_damage_stays_damage(redaction):
    whole = batch(packed(GZIP, None), 3, GZIP)
    wrong = whole[:17] + pack(">I", 7) + whole[21:]
    cut = batch(records(VALUES), 3)[:-5]
    for raw in (wrong, cut, b"customer-4711" * 9):
        made = redaction._records(raw, "records", {"records": raw})
        assert [each.code for each in batches(made).problems] == [each.code for each in batches(raw).problems]
        assert batches(made).partial_bytes == batches(raw).partial_bytes
        assert not any(value in made for value in VALUES)


def test_messages_of_old_formats(redaction):
    import gzip

    inner = message(0, b"customer-4711", b"pays-by-card", 1) + message(1, b"customer-4711", b"again", 1)
    raw = message(1, b"", gzip.compress(inner), 1, GZIP) + message(0, b"customer-4711", b"plain", 0)
    made = redaction._records(raw, "records", {"records": raw})
    before, after = batches(raw), batches(made)
    assert not after.problems
    assert [each["crc_ok"] for each in after] == [True, True]
    assert [shape_of(each["records"]) for each in after] == [shape_of(each["records"]) for each in before]
    keys = [record["key"] for each in after for record in each["records"]]
    assert len(set(keys)) == 1
    assert keys[0] != b"customer-4711"
