"""What a run may take, measured: memory does not grow with the capture, and hostile captures get no more."""

import gzip
import json
import os

import lz4.frame
import pytest

LIMIT = 150  # MiB
BIG = pytest.mark.big


@pytest.mark.parametrize(
    ("profile", "size"),
    [
        ("bulk", "64MiB"),
        ("chatty", "16MiB"),
        pytest.param("bulk", "1GiB", marks=BIG),
        pytest.param("chatty", "1GiB", marks=BIG),
    ],
)
def test_memory_does_not_grow_with_the_capture(measured, generate, profile, size):
    # Not with `--format none`, which looks for no problems.
    path = generate("generate.py", profile, "--size", size)
    result = measured("read", path, "--format", "jsonl", "-o", os.devnull)
    assert result.status == 0, result.err
    assert result.peak <= LIMIT
    assert "unanswered" not in result.err
    assert "problem" not in result.err
    assert "caps hit" not in result.err


@pytest.mark.parametrize(
    ("profile", "hit"),
    [
        ("half-open", "connections 60,000"),
        pytest.param("greeted", "connections 60,000", marks=BIG),
        pytest.param("announcing", "total_bytes", marks=BIG),
        pytest.param("requests", "total_bytes", marks=BIG),
        pytest.param("middle", "total_bytes", marks=BIG),
        pytest.param("holes", "total_bytes", marks=BIG),
    ],
)
def test_hostile_connections(measured, generate, profile, hit):
    result = measured("read", generate("hostile.py", profile), "--format", "none")
    assert result.status == 0, result.err
    assert result.peak <= LIMIT
    assert hit in result.err


@pytest.mark.parametrize(
    ("profile", "hit"), [("lists", "body_bytes 3"), ("bombs", "records_bytes 15")], ids=["lists", "bombs"]
)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--format", "none"], marks=BIG),
        pytest.param(["--format", "jsonl", "--records"], marks=BIG),
        ["--format", "jsonl", "--payload", "text"],
    ],
    ids=["none", "records", "text"],
)
def test_hostile_messages(measured, generate, profile, hit, options):
    result = measured("read", generate("hostile.py", profile), *options)
    assert result.status == 0, result.err
    assert result.peak <= LIMIT
    assert hit in result.err or "none" in options
    if "none" not in options:
        lines = [json.loads(line) for line in result.out.splitlines()]
        assert all("cap" in {problem["code"] for problem in line["problems"]} for line in lines)


def zstd_zeros(size):
    """A zstd frame of blocks that each repeat one byte 128 KiB times (RFC 8878, 3.1.1.2)."""
    block = (128 << 10) << 3 | 1 << 1
    count = size >> 17
    body = (block.to_bytes(3, "little") + b"\0") * (count - 1) + (block | 1).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd 00 38") + body


HEADER = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 00000400 01000000")
BOMBS = {
    # Frames may follow one another: the file's header, then packets of no bytes without end.
    "gzip": lambda: gzip.compress(HEADER) + gzip.compress(bytes(1 << 28)),
    "zstd": lambda: gzip.compress(HEADER) + zstd_zeros(1 << 28),
    "lz4": lambda: lz4.frame.compress(HEADER) + lz4.frame.compress(bytes(1 << 28)),
}


@pytest.mark.parametrize("codec", BOMBS)
def test_a_compressed_capture_is_never_held_whole(measured, tmp_path, codec):
    path = tmp_path / "bomb.pcap"
    path.write_bytes(BOMBS[codec]())
    result = measured("read", path, "--format", "none")
    assert result.peak <= LIMIT
    assert "16,777,216 packets" in result.err
