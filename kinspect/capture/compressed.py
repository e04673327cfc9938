"""Captures compressed with gzip (RFC 1952), zstd (RFC 8878) or as lz4 frames, unpacked as they are read.

Members and frames may follow one another, of different kinds too, with skippable frames (RFC 8878 §3.1.2)
and zero padding between them. Never more than one chunk of input and one read of output is held.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Final, NamedTuple, Protocol

from kinspect.capture.source import Source, read_at_least
from kinspect.errors import CaptureError, MissingLibraryError, TruncatedCaptureError
from kinspect.extras import need

_CHUNK: Final = 64 * 1024
_ZSTD_WINDOW_LOG: Final = 26
"""Largest zstd window, which a decompressor holds in memory: 64 MiB, as up to `--ultra -21` and `--long=26`."""
_TOO_WIDE: Final = "requires too much memory"  # libzstd's words for a larger one
_MAGIC_SIZE: Final = 4


class _Member(Protocol):
    """Interface of the standard library's incremental decompressors (bz2, lzma, zstd)."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipMember:
    """zlib's decompressor with that interface: it keeps the input that it could not unpack yet."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=31)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        unpacked = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = not self._zlib.unconsumed_tail
        return unpacked


@cache
def zstd_library() -> ModuleType:
    """The module `zstd`, loaded when it is first used, as lz4 is."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _zstd() -> _Member:
    zstd = zstd_library()
    member: _Member = zstd.ZstdDecompressor(
        options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
    )
    return member


def _lz4() -> _Member:
    need("lz4", "lz4 data")
    from lz4.frame import LZ4FrameDecompressor  # type: ignore[import-untyped]

    member: _Member = LZ4FrameDecompressor()
    return member


class _Codec(NamedTuple):
    name: str
    magic: bytes
    member: Callable[[], _Member]


_CODECS: Final = (
    _Codec("gzip", b"\x1f\x8b\x08", _GzipMember),
    _Codec("zstd", b"\x28\xb5\x2f\xfd", _zstd),
    _Codec("lz4", b"\x04\x22\x4d\x18", _lz4),
    # Skippable frames belong to zstd and lz4 alike, and zstd's decompressor skips them.
    *(_Codec("zstd", bytes([low]) + b"\x2a\x4d\x18", _zstd) for low in range(0x50, 0x60)),
)


def _damage() -> tuple[type[Exception], ...]:
    """What decompressors raise for damage; LZ4FrameDecompressor has no exception of its own."""
    return zlib.error, zstd_library().ZstdError, RuntimeError


def _codec(head: bytes) -> _Codec | None:
    return next((codec for codec in _CODECS if head.startswith(codec.magic)), None)


def is_compressed(head: bytes) -> bool:
    """True if a stream that starts with these four bytes is for `Decompressed`."""
    return _codec(head) is not None


class Decompressed:
    """A source that unpacks another one, of which `head` was read already.

    Reading raises TruncatedCaptureError where the compressed data ends too early, after everything that could be
    unpacked was handed out, and CaptureError where it is damaged (the last read before the damage may be lost).
    """

    def __init__(self, head: bytes, source: Source) -> None:
        self.name = source.name
        self._source = source
        self._input = head
        self._kind = "compressed"
        self._member: _Member | None = None
        self._more_inside = False

    @property
    def position(self) -> int:
        return self._source.position

    def release(self) -> None:
        self._source.release()

    def close(self) -> None:
        self._source.close()

    def read(self, size: int) -> bytes:
        while True:
            if self._member is None:
                self._member = self._next_member()
            if self._member is None:
                return b""
            unpacked = self._unpack(self._member, size)
            if unpacked:
                return unpacked

    def _next_member(self) -> _Member | None:
        self._input = self._input.lstrip(b"\0")
        while len(self._input) < _MAGIC_SIZE:
            more = read_at_least(self._source, self._input, _MAGIC_SIZE, _CHUNK)
            if not more:
                return None
            if len(more) == len(self._input):
                raise self._truncated()
            self._input = more.lstrip(b"\0")
        codec = _codec(self._input)
        if codec is None:
            raise CaptureError(
                f"{self.name}: what follows the compressed data at offset {self._offset()} is neither gzip, "
                "zstd nor lz4; everything before it was read"
            )
        self._kind = codec.name
        try:
            return codec.member()
        except MissingLibraryError as error:
            raise CaptureError(f"{self.name}: {error}") from None

    def _unpack(self, member: _Member, size: int) -> bytes:
        if member.needs_input and not self._more_inside and not self._input:
            self._input = self._source.read(_CHUNK)
            if not self._input:
                raise self._truncated()
        try:
            unpacked = member.decompress(self._input, size)
        except _damage() as error:
            if _TOO_WIDE in str(error):
                raise CaptureError(
                    f"{self.name}: the zstd data asks for a window of more than "
                    f"{1 << _ZSTD_WINDOW_LOG - 20} MiB; unpack it first, with zstd -d --long=31"
                ) from error
            raise CaptureError(
                f"{self.name}: the {self._kind} data is damaged near offset {self._offset()}: {error}"
            ) from error
        # zlib and lz4 may have taken all input and still hold output for which there was no room.
        self._more_inside = len(unpacked) == size
        self._input = b""
        if member.eof:
            self._input = member.unused_data or b""
            self._member = None
        return unpacked

    def _offset(self) -> int:
        return self._source.position - len(self._input)

    def _truncated(self) -> TruncatedCaptureError:
        return TruncatedCaptureError(
            f"{self.name}: the {self._kind} data is cut off (offset {self._source.position}); "
            "everything before was read"
        )
