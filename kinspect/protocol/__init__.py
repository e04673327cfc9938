"""The Kafka protocol: message layouts of every release, and the decoders and encoders made from them."""

from kinspect.errors import DecodeError
from kinspect.protocol.bodies import Decoded, decode_body, decode_record, fits
from kinspect.protocol.codec import (
    EncodeError,
    Message,
    decode_request,
    decode_response,
    encode_body,
    encode_request,
    encode_response,
)
from kinspect.protocol.headers import RequestHeader, ResponseHeader, request_header, response_header

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
