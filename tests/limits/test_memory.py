"""Memory of a run, measured: it does not grow with the capture, and hostile captures get no more."""

import gzip
import json
import os

import lz4.frame
import pytest

from kinspect.capture.compressed import zstd_library
from kinspect.formats import FOLDER, FORMATS, TEXTS

LIMIT = 150  # MiB
BIG = pytest.mark.big


@pytest.mark.parametrize(
    ("profile", "size"),
    [
        ("bulk", "64MiB"),
        pytest.param("chatty", "16MiB", marks=BIG),
        pytest.param("bulk", "256MiB", marks=BIG),
        pytest.param("chatty", "32MiB", marks=BIG),
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


def test_rows_of_records_are_let_go(measured, generate):
    path = generate("generate.py", "bulk", "--size", "8MiB")
    result = measured("records", path, "--payload", "text", "--format", "jsonl", "-o", os.devnull)
    assert (result.status, "49,000 records; 49,000 shown" in result.err) == (0, True), result.err
    assert result.peak <= 80


@pytest.mark.parametrize(
    ("program", "profile", "told"),
    [
        pytest.param(
            *("hostile.py", "bombs", ["caps hit: records_bytes 15", "0 records; 0 shown"]), marks=BIG
        ),
        ("large.py", "headers", ["1 record; 1 shown"]),
    ],
)
def test_hostile_records(measured, generate, program, profile, told):
    """Batches that expand to gigabytes, values of a gigabyte by their sizes, a million records by their number, and
    a record of 50,000 headers."""
    result = measured("records", generate(program, profile), "--payload", "auto", "--format", "jsonl")
    assert (result.status, [text for text in told if text not in result.err]) == (0, []), result.err
    assert result.peak <= LIMIT


@BIG
@pytest.mark.parametrize("options", [[], ["--packets", "exchange", "--comments"]])
def test_exports_copy_packets_as_they_come(measured, generate, options):
    path = generate("generate.py", "chatty", "--size", "8MiB" if not options else "16MiB")
    result = measured("export", path, *options, "-o", os.devnull)
    assert (result.status, "written" in result.err) == (0, True), result.err
    assert result.peak <= LIMIT


@BIG
def test_redacted_exports_keep_little_of_what_is_written(measured, generate, tmp_path):
    path = generate("generate.py", "bulk", "--size", "32MiB", "--connections", "100")
    result = measured("export", path, "--redact", "-o", tmp_path / "out.pcapng")
    assert (result.status, "read back: 772 exchanges equal" in result.err) == (0, True), result.err
    assert result.peak <= 85


@pytest.mark.parametrize(
    ("profile", "hit"),
    [
        pytest.param("half-open", "connections 10,000", marks=BIG),
        pytest.param("greeted", "connections 10,000", marks=BIG),
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
    ("profile", "hit"),
    [pytest.param("lists", "body_bytes 3", marks=BIG), ("bombs", "records_bytes 15")],
    ids=["lists", "bombs"],
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


LARGE = {
    **dict.fromkeys(("topics", "topics-flexible", "partitions", "settings"), ()),
    **dict.fromkeys(("names", "odd-names", "replicas"), ()),
    "headers": ("--records", "--payload", "text"),
}
REQUEST_LOG = "request-log"
REFUSED = {
    name: {"--payload", "text"} if each.bodies == TEXTS else {"--records", "--payload", "text"}
    for name, each in FORMATS.items()
    if each.bodies
}
"""Options that a format has no place for."""
IN_TURN = 3
"""Each of so many formats meets a message; the next ones meet the next message."""


@BIG
@pytest.mark.parametrize(
    ("profile", "format_name"),
    [
        (profile, name)
        for turn, profile in enumerate(LARGE)
        for at, name in enumerate(name for name, each in FORMATS.items() if each.writes != FOLDER)
        if (turn + at) % IN_TURN == 0
    ],
)
def test_large_messages_in_every_format(measured, generate, profile, format_name):
    path = generate("large.py", profile)
    options = [word for word in LARGE[profile] if word not in REFUSED.get(format_name, ())]
    result = measured("read", path, "--format", format_name, *options, "-o", os.devnull)
    assert result.status == 0, result.err
    assert "1 exchange" in result.err
    # Of a request log, bodies are there twice: as they are, and as they may be shown.
    assert result.peak <= LIMIT + 10 * (format_name == REQUEST_LOG)


HEADER = bytes.fromhex("d4c3b2a1 0200 0400 00000000 00000000 00000400 01000000")
EMPTY = bytes(16)
FULL = bytes(8) + (65_520).to_bytes(4, "little") * 2 + bytes(65_520)
CODECS = {"gzip": gzip.compress, "zstd": zstd_library().compress, "lz4": lz4.frame.compress}


@pytest.mark.parametrize(
    ("packet", "codec", "size"),
    [
        (FULL, "gzip", 1 << 27),
        *(pytest.param(FULL, codec, 1 << 27, marks=BIG) for codec in ("zstd", "lz4")),
        pytest.param(EMPTY, "zstd", 1 << 26, marks=BIG),
    ],
    ids=[*CODECS, "without data"],
)
def test_a_compressed_capture_is_never_held_whole(measured, tmp_path, packet, codec, size):
    """Frames may follow one another: the file's header, then packets."""
    path, count = tmp_path / "bomb.pcap", size // len(packet)
    path.write_bytes(CODECS[codec](HEADER) + CODECS[codec](packet * count))
    result = measured("read", path, "--format", "none")
    assert result.status == 0, result.err
    assert result.peak <= LIMIT
    assert f"{count:,} packets" in result.err
