"""The Kafka protocol: message layouts of every release, and the decoders and encoders made from them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kinspect.errors import DecodeError
from kinspect.protocol.bodies import Decoded, decode_body, decode_record, fits
from kinspect.protocol.headers import RequestHeader, ResponseHeader, request_header, response_header

if TYPE_CHECKING:
    from kinspect.protocol.codec import (
        EncodeError,
        Message,
        decode_request,
        decode_response,
        encode_body,
        encode_request,
        encode_response,
    )

__all__ = [
    "DecodeError",
    "Decoded",
    "EncodeError",
    "Message",
    "RequestHeader",
    "ResponseHeader",
    "decode_body",
    "decode_record",
    "decode_request",
    "decode_response",
    "encode_body",
    "encode_request",
    "encode_response",
    "fits",
    "request_header",
    "response_header",
]


def __getattr__(name: str) -> Any:
    # What is left of `__all__` is for those who call the library: `codec` is imported when first used.
    if name in __all__:
        return getattr(import_module("kinspect.protocol.codec"), name)
    raise AttributeError(f"module 'kinspect.protocol' has no attribute {name!r}")
