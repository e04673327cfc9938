import struct

import pytest

from kinspect.protocol import compiler, request_header, response_header, schema


@pytest.mark.parametrize(
    ("api_key", "version", "request_version", "response_version"),
    [
        (0, 8, 1, 0),
        (0, 9, 2, 1),
        (7, 0, 0, 0),
        (7, 1, 1, 0),
        (7, 3, 2, 1),
        (17, 1, 1, 0),
        (18, 0, 1, 0),
        (18, 3, 2, 0),
        (18, 99, 2, 0),
        (4242, 0, 1, 0),
    ],
)
def test_header_versions(api_key, version, request_version, response_version):
    assert schema.header_version(api_key, version, "request") == request_version
    assert schema.header_version(api_key, version, "response") == response_version


@pytest.mark.parametrize("client_id", [None, "", "consumer-é"])
@pytest.mark.parametrize(("api_key", "version"), [(0, 3), (0, 9), (7, 0)])
def test_the_fast_header_reads_what_the_layout_says(api_key, version, client_id):
    number = schema.header_version(api_key, version, "request")
    values = {
        "request_api_key": api_key,
        "request_api_version": version,
        "correlation_id": 99,
        "client_id": client_id,
        "unknown_tagged_fields": [{"tag": 5, "bytes": b"abc"}],
    }
    raw = compiler.encoder(schema.header_layout("request", number))(values)
    header = request_header(b"--" + raw + b"body", 2, len(raw) + 6)
    expected = client_id if number else None
    assert header == (api_key, version, 99, expected, 2 + len(raw))


def test_request_headers_that_do_not_fit():
    whole = struct.pack(">hhih", 0, 9, 1, 3) + b"abc\0"
    assert request_header(whole, 0, len(whole)) == (0, 9, 1, "abc", len(whole))
    assert all(request_header(whole, 0, size) is None for size in range(len(whole)))
    assert request_header(struct.pack(">hhih", 0, 3, 1, -2), 0, 10) is None
    assert request_header(whole[:-1] + b"\xff" * 9, 0, len(whole) + 8) is None


def test_a_client_id_that_is_not_utf8():
    header = request_header(struct.pack(">hhih", 0, 3, 1, 1) + b"\xff", 0, 11)
    assert header is not None
    assert header.client_id == "\ufffd"


def test_response_headers():
    assert response_header(b"..\0\0\0\x07", 2, 6, 0, 8) == (7, 6)
    assert response_header(b"\0\0\0\x07\0", 0, 5, 0, 9) == (7, 5)
    assert response_header(b"\0\0\0\x07\x01\x05\x02ab", 0, 9, 0, 9) == (7, 9)
    assert response_header(b"\0\0\0\x07", 0, 4, 0, 9) is None
    assert response_header(b"\0\0\0\x07\x01\x05\x09ab", 0, 9, 0, 9) is None
    assert response_header(b"\0\0\0", 0, 3, 18, 3) is None
    assert response_header(b"\0\0\0\x07", 0, 4, 18, 3) == (7, 4)
