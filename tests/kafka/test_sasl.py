"""Users named by SASL tokens, never their secrets."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect.kafka.sasl import user_name


def bearer(claims: bytes) -> bytes:
    token = b".".join((b"e30", base64.urlsafe_b64encode(claims).rstrip(b"="), b""))
    return b"n,,\x01auth=Bearer " + token + b"\x01\x01"


@pytest.mark.parametrize(
    ("mechanism", "token", "user"),
    [
        ("PLAIN", b"\0alice\0s3cret", "alice"),
        ("PLAIN", b"admin\0alice\0s3cret", "alice"),
        ("PLAIN", b"not a token", None),
        ("PLAIN", b"\0\xff\xfe\0s3cret", None),
        ("SCRAM-SHA-256", b"n,,n=bob,r=fyko+d2lbbFgONRv9qkxdawL", "bob"),
        ("SCRAM-SHA-512", b"n,a=x,n=a=2Cb=3Dc,r=nonce", "a,b=c"),
        ("SCRAM-SHA-256", b"c=biws,r=fyko,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=", None),
        ("OAUTHBEARER", bearer(b'{"sub": "carol", "exp": 1}'), "carol"),
        ("OAUTHBEARER", bearer(b'{"exp": 1}'), None),
        ("OAUTHBEARER", bearer(b"[1]"), None),
        ("OAUTHBEARER", b"\x01", None),
        ("GSSAPI", b"\x60\x82", None),
        (None, b"\0alice\0s3cret", None),
    ],
)
def test_user_name(mechanism: str | None, token: bytes, user: str | None) -> None:
    assert user_name(mechanism, token) == user


@given(st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER", "GSSAPI"]), st.binary(max_size=200))
def test_any_token_is_harmless(mechanism: str, token: bytes) -> None:
    user_name(mechanism, token)
    user_name(mechanism, b"n,,\x01auth=Bearer a." + token + b".")
