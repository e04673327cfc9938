"""Server name and ALPN of a ClientHello, whole, cut and hostile."""

from __future__ import annotations

import contextlib
import ssl

from hypothesis import given
from hypothesis import strategies as st

from kinspect.kafka.clienthello import looks_like_tls, parse_client_hello


def client_hello(name: str, protocols: list[str]) -> bytes:
    context = ssl.create_default_context()
    if protocols:
        context.set_alpn_protocols(protocols)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with contextlib.suppress(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


def test_a_real_client_hello() -> None:
    hello = client_hello("broker1.example.com", ["h2", "kafka"])
    assert looks_like_tls(hello)
    assert parse_client_hello(hello) == ("broker1.example.com", ("h2", "kafka"))


def test_without_alpn() -> None:
    assert parse_client_hello(client_hello("b", [])).alpn == ()


def test_cut_anywhere() -> None:
    hello = client_hello("broker1.example.com", ["h2"])
    for end in range(len(hello)):
        looks_like_tls(hello[:end])
        parse_client_hello(hello[:end])


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    parse_client_hello(b"\x16\x03\x01\x01\x00\x01" + data)


def test_kafka_is_not_tls() -> None:
    assert not looks_like_tls(bytes.fromhex("0000000a00120000000003e9ffff"))
