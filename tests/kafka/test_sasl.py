"""Users named by SASL tokens, never their secrets."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect.kafka.fields.sasl import STATUS_NOT_SHOWN, refusal, user_name


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
    refusal(token)
    refusal(b'{"status":' + token)
    user_name(mechanism, b"n,,\x01auth=Bearer a." + token + b".")


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (b'{"status":"invalid_token"}', "invalid_token"),
        (
            b'{"status":"insufficient_scope","scope":"read","openid-configuration":"https://x"}',
            "insufficient_scope",
        ),
        (b'{"status":"eyJhbGciOiJub25lIn0.eyJzdWIi"}', STATUS_NOT_SHOWN),
        (b'{"status":"' + b"a" * 41 + b'"}', STATUS_NOT_SHOWN),
        (b'{"status":"invalid_token\\u001b[31m"}', STATUS_NOT_SHOWN),
        (b'{"status":"invalid_token"' + b" " * 5000 + b"}", None),
        (b'{"status":401}', None),
        (b'{"version":"2020_10_22","request-id":"r"}', None),
        (b'["status"]', None),
        (b"{" * 4000, None),
        (b"e=invalid-proof", "invalid-proof"),
        (b"e=unknown-user,x=y", "unknown-user"),
        (b"e=hunter2", None),
        (b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=", None),
        (b"r=fyko,s=QSXCR+Q6sek8bf92,i=4096", None),
        (b"", None),
    ],
)
def test_refusal(token: bytes, why: str | None) -> None:
    assert refusal(token) == why
