"""Every codec at every size, the odd frames of real clients, and hostile input."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import tracemalloc

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinspect.records.compression import CODECS, CompressionError, codec_name, decompress

LIMIT = 64 * 1024 * 1024
SIZES = (0, 1, 100, 64 * 1024, 128 * 1024 + 1, 1024 * 1024 + 17)
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def content(size: int) -> bytes:
    """Half noise, half text: compresses, but not to nothing."""
    return (
        random.Random(size).randbytes(size // 2)
        + (b"the quick brown fox " * (size // 20 + 1))[: size - size // 2]
    )


def xxh32(data: bytes) -> int:
    """xxHash32 of fewer than 16 bytes, from its description."""
    primes = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    value = (primes[4] + len(data)) % 2**32
    while len(data) >= 4:
        value = (value + int.from_bytes(data[:4], "little") * primes[2]) % 2**32
        value = ((value << 17) % 2**32 | value >> 15) * primes[3] % 2**32
        data = data[4:]
    for byte in data:
        value = (value + byte * primes[4]) % 2**32
        value = ((value << 11) % 2**32 | value >> 21) * primes[0] % 2**32
    value ^= value >> 15
    value = value * primes[1] % 2**32
    value ^= value >> 13
    value = value * primes[2] % 2**32
    return value ^ value >> 16


def lz4_frame(data: bytes, block: int = 65536, content_size: bool = False, spoil: int = 0) -> bytes:
    """Independent blocks, as Kafka's Lz4BlockOutputStream writes them."""
    descriptor = bytes((0x60 | 8 * content_size, 0x40))
    if content_size:
        descriptor += struct.pack("<Q", len(data))
    parts = [b"\x04\x22\x4d\x18", descriptor, bytes((xxh32(descriptor) >> 8 & 0xFF ^ spoil,))]
    for start in range(0, len(data), block):
        raw = data[start : start + block]
        packed = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        if len(packed) < len(raw):
            parts += [struct.pack("<I", len(packed)), packed]
        else:
            parts += [struct.pack("<I", len(raw) | 1 << 31), raw]
    return b"".join([*parts, struct.pack("<I", 0)])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("codec", range(5))
def test_round_trip(make, codec, size):
    data = content(size)
    assert decompress(codec, make.compress(codec, data), LIMIT) == data


@pytest.mark.parametrize("size", SIZES)
def test_snappy_raw_block(size):
    data = content(size)
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(data)), LIMIT) == data


def test_snappy_with_many_chunks_and_streams(make):
    data = content(300_000)
    assert decompress(SNAPPY, make.xerial(data, chunk=1000), LIMIT) == data
    assert decompress(SNAPPY, make.xerial(data) + make.xerial(data, chunk=500), LIMIT) == data + data


@pytest.mark.parametrize("damage", [b"\x00\x00\x00", b"\x00\x00\x00\x09abc", b"\xff\xff\xff\xffabc"])
def test_snappy_damaged_chunk(make, damage):
    with pytest.raises(CompressionError, match="snappy"):
        decompress(SNAPPY, make.xerial(b"abc") + damage, LIMIT)


@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_lz4_independent_blocks(size, content_size):
    data = content(size)
    assert decompress(LZ4, lz4_frame(data, content_size=content_size), LIMIT) == data


def test_lz4_with_many_blocks():
    data = content(400_000)
    assert decompress(LZ4, lz4_frame(data, block=1000), LIMIT) == data


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
def test_lz4_options(linked, checksum):
    data = content(2_000_000)
    compressor = cramjam.lz4.Compressor(content_checksum=checksum, block_linked=linked)
    for start in range(0, len(data), 100_000):
        compressor.compress(data[start : start + 100_000])
    frame = bytes(compressor.finish())
    assert decompress(LZ4, frame, LIMIT) == data
    assert decompress(LZ4, frame + frame, LIMIT) == data + data


@pytest.mark.parametrize("content_size", [False, True])
def test_lz4_wrong_header_checksum(content_size):
    """KAFKA-3160: every writer of message format 0."""
    frame = lz4_frame(b"hello" * 100, content_size=content_size, spoil=0x5A)
    assert decompress(LZ4, frame, LIMIT, any_lz4_checksum=True) == b"hello" * 100
    with pytest.raises(CompressionError) as caught:
        decompress(LZ4, frame, LIMIT)
    assert caught.value.code == "decompression"


@pytest.mark.parametrize("codec", [GZIP, ZSTD, LZ4])
def test_several_members(make, codec):
    parts = [b"", b"one", content(200_000), b"two"]
    data = b"".join(make.compress(codec, part) for part in parts)
    assert decompress(codec, data, LIMIT) == b"".join(parts)


def test_gzip_ignores_what_is_no_member(make):
    assert decompress(GZIP, make.compress(GZIP, b"data") + bytes(20), LIMIT) == b"data"


@pytest.mark.parametrize("codec", [ZSTD, LZ4])
def test_skippable_frames(make, codec):
    skippable = struct.pack("<II", 0x184D2A53, 5) + b"12345"
    assert decompress(codec, skippable + make.compress(codec, b"data"), LIMIT) == b"data"


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_cut_off(make, codec):
    whole = make.compress(codec, content(5000))
    for size in (1, 3, 5, 10, 100, len(whole) // 2, len(whole) - 1):
        with pytest.raises(CompressionError) as caught:
            decompress(codec, whole[:size], LIMIT)
        assert caught.value.code == "decompression"


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_the_limit_is_exact(make, codec):
    data = content(300_000)
    packed = make.compress(codec, data)
    assert decompress(codec, packed, len(data)) == data
    for limit in (len(data) - 1, 1000, 0):
        with pytest.raises(CompressionError) as caught:
            decompress(codec, packed, limit)
        assert caught.value.code == "cap"
        assert caught.value.spent >= limit


def test_codec_names():
    assert [codec_name(codec) for codec in range(6)] == [*CODECS, "unknown_5"]
    for codec in (5, 6, 7):
        with pytest.raises(CompressionError, match=f"codec {codec}"):
            decompress(codec, b"data", LIMIT)


def zstd_bomb(blocks: int) -> bytes:
    """RLE blocks: 128 KiB for four bytes."""
    block = struct.pack("<I", 131072 << 3 | 1 << 1)[:3] + b"a"
    last = struct.pack("<I", 1)[:3]
    return struct.pack("<I", 0xFD2FB528) + bytes((0, 7 << 3)) + block * blocks + last


def bombs() -> dict[str, tuple[int, bytes]]:
    zeros = bytes(16 * 1024 * 1024)
    return {
        "zstd": (ZSTD, zstd_bomb(8192)),
        "zstd_empty_frames": (ZSTD, struct.pack("<II", 0x184D2A50, 0) * 100_000 + zstd_bomb(1000)),
        "gzip": (GZIP, bytes(cramjam.gzip.compress(zeros)) * 8),
        "lz4": (LZ4, bytes(cramjam.lz4.compress(zeros)) * 8),
        "snappy": (SNAPPY, bytes(cramjam.snappy.compress_raw(zeros))),
        "snappy_lie": (SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\x00a"),
    }


@pytest.mark.parametrize("name", ["zstd", "zstd_empty_frames", "gzip", "lz4", "snappy", "snappy_lie"])
def test_bombs_are_refused(name):
    codec, data = bombs()[name]
    limit = 4 * 1024 * 1024
    tracemalloc.start()
    with pytest.raises(CompressionError) as caught:
        decompress(codec, data, limit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.code == ("decompression" if name == "snappy_lie" else "cap")
    assert peak < 2.5 * limit


def test_a_bomb_does_not_grow_the_process():
    """Only the operating system sees memory that libraries allocate themselves."""
    program = """
import resource, struct
from kinspect.records.compression import CompressionError, decompress
block = struct.pack("<I", 131072 << 3 | 1 << 1)[:3] + b"a"
bomb = struct.pack("<I", 0xFD2FB528) + bytes((0, 7 << 3)) + block * 16384 + struct.pack("<I", 1)[:3]
try:
    decompress(4, b"", 0)
except CompressionError:
    pass
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(4, bomb, 16 * 1024 * 1024)
except CompressionError as error:
    print(error.code, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    code, grown = printed.split()
    assert code == "cap"
    assert int(grown) < 24 * 1024  # kilobytes, of the 2 GiB the bomb holds


@given(st.integers(0, 7), st.binary(max_size=300))
def test_any_bytes(codec, data):
    check(codec, data)


@given(st.sampled_from([GZIP, SNAPPY, LZ4, ZSTD]), st.data())
def test_flipped_bytes(make, codec, data):
    packed = bytearray(make.compress(codec, content(600)))
    for _ in range(data.draw(st.integers(1, 3))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    check(codec, bytes(packed))


def check(codec: int, data: bytes) -> None:
    for lenient in (False, True):
        failure = None
        try:
            assert len(decompress(codec, data, 5000, any_lz4_checksum=lenient)) <= max(5000, len(data))
        except CompressionError as error:
            failure = error
        assert failure is None or failure.code in {"decompression", "cap"}
        assert failure is None or 0 <= failure.spent <= 5000
