import random
import tracemalloc
from struct import pack

import pytest
from capture_files import COMPRESS, Packet, packets, pcap, pcapng, read

from kinspect import extras
from kinspect.capture import open_timeline
from kinspect.capture.compressed import zstd_library
from kinspect.errors import CaptureError, TruncatedCaptureError

CODECS = list(COMPRESS)
SKIPPABLE = pack("<II", 0x184D2A55, 5) + b"aside"
CONTENT = packets(300)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("write", [pcap, pcapng])
@pytest.mark.parametrize("block_size", [None, 10])
def test_each_codec_under_any_name(tmp_path, codec, write, block_size):
    path = tmp_path / "x.pcap"
    path.write_bytes(COMPRESS[codec](write(CONTENT)))
    result = read(path, block_size=block_size)
    assert result.packets == CONTENT
    assert result.messages == []
    assert result.timeline.status.bytes_read == result.timeline.bytes_total == path.stat().st_size


@pytest.mark.parametrize("codec", CODECS)
def test_concatenated_members(tmp_path, codec):
    data = pcap(CONTENT)
    path = tmp_path / "x.gz"
    members = [data[:10], b"", data[10:11], data[11:3000], data[3000:]]
    path.write_bytes(b"".join(COMPRESS[codec](member) for member in members))
    result = read(path)
    assert result.packets == CONTENT
    assert result.messages == []


def test_a_library_that_is_not_installed_makes_its_captures_unreadable(tmp_path, monkeypatch):
    data = pcap(CONTENT)
    path = tmp_path / "x.pcap"
    path.write_bytes(COMPRESS["gzip"](data[:1000]) + COMPRESS["lz4"](data[1000:]))
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    result = read(path)
    assert result.packets == CONTENT[: len(result.packets)]
    assert result.messages == [
        f"{path}: lz4 data needs lz4, which is not installed: pip install 'kinspect[lz4]'"
    ]


def test_members_of_different_kinds_padding_and_skippable_frames(tmp_path):
    data = pcap(CONTENT)
    path = tmp_path / "x.gz"
    path.write_bytes(
        SKIPPABLE
        + COMPRESS["zstd"](data[:1000])
        + SKIPPABLE
        + COMPRESS["lz4"](data[1000:2000])
        + bytes(200_000)
        + COMPRESS["gzip"](data[2000:])
        + bytes(500)
    )
    result = read(path)
    assert result.packets == CONTENT
    assert result.messages == []


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_gives_what_can_be_unpacked(tmp_path, codec):
    content = packets(8)
    data = pcap(content)
    whole = COMPRESS[codec](data[:150]) + COMPRESS[codec](data[150:])
    first_member = len(COMPRESS[codec](data[:150]))
    path = tmp_path / "x"
    for cut in range(4, len(whole)):
        path.write_bytes(whole[:cut])
        result = read(path)
        assert result.packets == content[: len(result.packets)]
        if cut >= first_member:
            assert len(result.packets) >= 3
        assert [type(error) for error in result.timeline.errors] == [TruncatedCaptureError]


@pytest.mark.parametrize("codec", CODECS)
def test_all_packets_before_a_cut_are_handed_on(tmp_path, codec):
    rng = random.Random(1)
    content = [Packet(i * 1000, rng.randbytes(1000), 1000) for i in range(1000)]
    whole = COMPRESS[codec](pcap(content))
    path = tmp_path / "x"
    path.write_bytes(whole[:-2])
    result = read(path)
    # zstd and lz4 unpack block by block, of which the last one is cut.
    assert len(result.packets) >= {"gzip": 999, "zstd": 870, "lz4": 935}[codec]
    assert result.packets == content[: len(result.packets)]
    assert f"{path}: the {codec} data is cut off (offset {len(whole) - 2})" in result.messages[0]


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_data_is_a_capture_error(tmp_path, codec):
    whole = bytearray(COMPRESS[codec](random.Random(1).randbytes(1000)))
    path = tmp_path / "x"
    for i in range(4, len(whole)):
        damaged = bytearray(whole)
        damaged[i] ^= 0xFF
        path.write_bytes(damaged)
        result = read(path)
        assert result.packets == []
        assert len(result.messages) == 1
    path.write_bytes(whole[:4] + b"\xff" * 100)
    error = read(path).timeline.errors[0]
    assert type(error) is CaptureError
    assert error.unread
    assert str(error).startswith(f"{path}: the {codec} data is damaged near offset ")


def test_what_follows_compressed_data_is_reported(tmp_path):
    member = COMPRESS["gzip"](pcap(CONTENT))
    path = tmp_path / "x.gz"
    path.write_bytes(member + b"something else")
    result = read(path)
    assert result.packets == CONTENT
    assert result.messages == [
        f"{path}: what follows the compressed data at offset {len(member)} is neither gzip, zstd nor lz4; "
        "everything before it was read"
    ]


def test_compressed_text_and_compressed_nothing(tmp_path):
    path = tmp_path / "x.gz"
    path.write_bytes(COMPRESS["zstd"](b"just some text"))
    assert read(path).messages[0].startswith(f"{path}: not a capture (pcap, ")
    path.write_bytes(COMPRESS["gzip"](b""))
    assert read(path).messages == [f"{path}: holds nothing once decompressed"]


@pytest.mark.parametrize("codec", CODECS)
def test_memory_stays_small_whatever_the_data_expand_to(tmp_path, codec):
    head = pcap([])
    record = pack("<IIII", 1, 1, 60_000, 60_000) + bytes(60_000)
    path = tmp_path / "x"
    path.write_bytes(COMPRESS[codec](head + record * 600))
    tracemalloc.start()
    result = 0
    try:
        for block in open_timeline([str(path)]):
            result += len(block)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result == 600
    assert peak < 4 * 1024 * 1024


@pytest.mark.parametrize(("window", "fits"), [(26, True), (27, False)])
def test_a_zstd_window_that_is_too_wide(tmp_path, window, fits):
    options = {zstd_library().CompressionParameter.window_log: window}
    compressor = zstd_library().ZstdCompressor(options=options)
    path = tmp_path / "x.pcap.zst"
    path.write_bytes(compressor.compress(pcap(CONTENT)) + compressor.flush())
    result = read(path)
    if fits:
        assert result.packets == CONTENT
        assert result.messages == []
    else:
        assert result.messages == [
            f"{path}: the zstd data asks for a window of more than 64 MiB; "
            "unpack it first, with zstd -d --long=31"
        ]
