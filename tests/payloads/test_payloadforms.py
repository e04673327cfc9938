"""Keys and values by what their bytes are, and the schemas that they name."""

from __future__ import annotations

from uuid import UUID

import pytest
from payloadrows import row_of

from kinspect.payloads.payloadforms import PayloadForms

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")


def shown(form, value, headers=(), key=None):
    rows = [row_of(value, headers, key)]
    PayloadForms(form).convert(rows)
    return rows[0]


@pytest.mark.parametrize(
    ("value", "json", "auto"),
    [
        (b'{"a": [1, 2.5, null]}', ({"a": [1, 2.5, None]}, "json"), ({"a": [1, 2.5, None]}, "json")),
        (b"[]\n", ([], "json"), ([], "json")),
        (b"007", ("007", "utf-8"), ("007", "utf-8")),
        (b"7", (7, "json"), ("7", "utf-8")),
        (b"null", (None, "json"), ("null", "utf-8")),
        (b"{no", ("{no", "utf-8"), ("{no", "utf-8")),
        (b"a\tb", ("a\tb", "utf-8"), ("a\tb", "utf-8")),
        (b"a\0b", ("a\0b", "utf-8"), ("YQBi", "base64")),
        (b"\xff", ("/w==", "base64"), ("/w==", "base64")),
        (b"", ("", "utf-8"), ("", "utf-8")),
        (None, (None, None), (None, None)),
        # Numbers that JSON of 64-bit integers and doubles has not.
        (b"[18446744073709551615]", ([18446744073709551615], "json"), ([18446744073709551615], "json")),
        (b"[18446744073709551616]", (["18446744073709551616"], "json"), (["18446744073709551616"], "json")),
        (b"[NaN, 1234567890123456789]",) + (("[NaN, 1234567890123456789]", "utf-8"),) * 2,
        (b"[-%s]" % (b"9" * 5000), (["-" + "9" * 5000], "json"), (["-" + "9" * 5000], "json")),
    ],
)
def test_json_is_what_parses_and_auto_what_the_bytes_are(value, json, auto):
    for form, wanted in (("json", json), ("auto", auto)):
        row = shown(form, value, [("h", value)], key=value)
        assert (row["value"], row["value_encoding"]) == wanted
        assert (row["key"], row["key_encoding"]) == wanted
        assert [*row["headers"][0].values()] == ["h", *wanted]
        assert row["problem"] is None


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (rb'[%s, "\ud800"]', "utf-8"),
        (rb'{"\udc00": %s}', "utf-8"),
        (b'[%s, "\xed\xa0\x80"]', "base64"),
        (b"\xef\xbb\xbf[%s]", "utf-8"),
    ],
)
def test_a_long_number_makes_no_json_of_what_is_none(text, encoding):
    for form in ("json", "auto"):
        rows = [shown(form, text % number) for number in (b"1", b"1234567890123456789")]
        assert [(row["value_encoding"], row["problem"]) for row in rows] == [(encoding, None)] * 2


@pytest.mark.parametrize("depth", [254, 900, 10**6])
@pytest.mark.parametrize("form", ["json", "auto"])
def test_json_that_is_nested_too_deeply_is_text_and_a_problem(form, depth):
    row = shown(form, b"[" * depth + b"]" * depth)
    assert row["value"] == "[" * depth + "]" * depth
    assert row["value_encoding"] == "utf-8"
    assert row["problem"].startswith("value: ")


def test_the_schema_that_bytes_may_name_is_told_as_a_guess():
    row = shown("auto", b"\0\0\0\0\x07\x02\x04", key=b"\0\0\0\0\x09x")
    guess = {"guid": None, "type": None, "subject": None, "version": None, "message": None, "certain": False}
    assert row["value_schema"] == {"id": 7, **guess}
    assert row["key_schema"] == {"id": 9, **guess}
    assert (row["value"], row["value_encoding"]) == ("AAAAAAcCBA==", "base64")
    assert shown("hex", b"\0\0\0\0\x07\x02\x04")["value_schema"] is None


@pytest.mark.parametrize(
    "value", [b"", b"\0\0\0\x07", b"\0\0\0\0\0", b"\0\xff\xff\xff\xffx", b"\x02\0\0\0\x07", b"text"]
)
def test_what_can_name_no_schema_names_none(value):
    assert shown("auto", value)["value_schema"] is None


def test_json_behind_a_schema_is_shown():
    row = shown("auto", b'\0\0\0\0\x07{"a": 1}')
    assert (row["value"], row["value_encoding"], row["value_schema"]["id"]) == ({"a": 1}, "json", 7)


def test_a_header_names_the_schema():
    headers = [("__value_schema_id", b"\x01" + GUID.bytes), ("__key_schema_id", b"\0\0\0\0\x05")]
    row = shown("auto", b'{"a": 1}', headers, key=b"k")
    assert (row["value"], row["value_encoding"]) == ({"a": 1}, "json")
    assert (row["value_schema"]["guid"], row["value_schema"]["certain"]) == (str(GUID), True)
    assert (row["key_schema"]["id"], row["key"]) == (5, "k")
    assert shown("auto", None, headers)["value_schema"] is None, "a tombstone has no bytes that could fit"
