import os
import random
import resource

import pytest
from capture_files import SECOND, START, Packet, Pcapng, packets, pcap, pcapng, read
from hypothesis import given, settings
from hypothesis import strategies as st

from kinspect.capture import open_timeline, slice_block
from kinspect.errors import CaptureError, TruncatedCaptureError
from kinspect.model import FRAME_BITS


def write(folder, *contents):
    paths = []
    for i, content in enumerate(contents):
        paths.append(folder / f"{i}.pcap")
        paths[-1].write_bytes(pcap(content))
    return paths


def write_pcapng(folder, *contents):
    paths = []
    for i, content in enumerate(contents):
        paths.append(folder / f"{i}.pcapng")
        paths[-1].write_bytes(pcapng(content))
    return paths


def test_slices_share_the_buffer(tmp_path):
    (path,) = write(tmp_path, packets(10))
    (block,) = open_timeline([path])
    part = slice_block(block, 3, 5)
    assert part.data is block.data
    assert len(part) == 2
    assert part.first_frame == block.first_frame + 3
    assert [part.times, part.starts, part.ends, part.wire_lengths, part.link_types] == [
        column[3:5]
        for column in (block.times, block.starts, block.ends, block.wire_lengths, block.link_types)
    ]


def test_rotated_files_in_any_order_are_one_timeline_in_whole_blocks(tmp_path):
    content = packets(90)
    paths = write(tmp_path, content[60:], content[:30], content[30:60])
    result = read(*paths)
    assert result.packets == content
    assert result.frames == [(file, i + 1) for file in (1, 2, 0) for i in range(30)]
    assert result.timeline.files == [str(path) for path in paths]
    assert len(list(open_timeline(paths))) == 3
    assert result.timeline.status.bytes_read == result.timeline.bytes_total


def test_overlapping_files_are_merged_packet_by_packet(tmp_path):
    content = packets(90)
    result = read(*write(tmp_path, content[::3], content[1::3], content[2::3]), block_size=100)
    assert result.packets == content
    assert result.frames == [(i % 3, i // 3 + 1) for i in range(90)]


def test_the_same_path_twice_is_two_files(tmp_path):
    (path,) = write(tmp_path, packets(3))
    result = read(path, path)
    assert result.frames == [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3), (1, 3)]


@settings(max_examples=150, deadline=None)
@given(
    files=st.lists(st.lists(st.integers(0, 30), max_size=25).map(sorted), max_size=5),
    block_size=st.sampled_from([20, 100, 100_000]),
)
def test_a_merge_equals_a_stable_sort_by_time(tmp_path_factory, files, block_size):
    contents = [
        [Packet(START + time * 1000, b"%d.%d" % (i, j), 9) for j, time in enumerate(times)]
        for i, times in enumerate(files)
    ]
    paths = write(tmp_path_factory.getbasetemp(), *contents)
    result = read(*paths, block_size=block_size)
    everything = [packet for content in contents for packet in content]
    assert result.packets == sorted(everything, key=lambda packet: packet.time)
    assert result.messages == []


def test_each_file_keeps_its_own_order(tmp_path):
    times = [[5, 3, 4, 9], [1, 6, 2, 8]]
    contents = [[Packet(START + time * 1000, b"x", 1) for time in own] for own in times]
    result = read(*write(tmp_path, *contents))
    merged = [(packet.time - START) // 1000 for packet in result.packets]
    assert merged == [1, 5, 3, 4, 6, 2, 8, 9]


SILENCES = st.sampled_from([0, 1_000, 700_000, 5_000_000, 3_600_000_000])
"""Microseconds between packets."""
WRONG = st.sampled_from([-(1 << 50), -7_200_000_000, 7_200_000_000, 1 << 50])
"""So far off are wrong times."""


@st.composite
def with_wrong_times(draw, name):
    """Packets of a file: runs of few wrong ones, each with twice as many right ones behind it."""
    time, content = 1 << 51, []
    for _ in range(draw(st.integers(1, 12))):
        wrong = draw(st.integers(0, 3))
        for _ in range(wrong):
            content.append(Packet((time + draw(WRONG)) * 1000, b"wrong" + name, 9))
        for _ in range(2 * wrong + draw(st.integers(1, 40))):
            time += draw(st.integers(0, 2000))
            content.append(Packet(time * 1000, b"right" + name, 9))
        time += draw(SILENCES)
    return content


@pytest.mark.big
@settings(max_examples=40, deadline=None)
@given(
    files=st.tuples(with_wrong_times(b"0"), with_wrong_times(b"1"), with_wrong_times(b"2")),
    block_size=st.sampled_from([20, 1000, 100_000]),
)
def test_wrong_times_hold_nothing_back(tmp_path_factory, files, block_size):
    """The other packets come as they do without those that are wrong."""
    folder = tmp_path_factory.getbasetemp()
    paths = write_pcapng(folder, *files)
    result = read(*paths, block_size=block_size)
    right = [[packet for packet in content if packet.data.startswith(b"right")] for content in files]
    expected = read(*write_pcapng(folder, *right)).packets
    assert [packet for packet in result.packets if packet.data.startswith(b"right")] == expected


@pytest.mark.big
def test_a_third_of_the_times_are_wrong(tmp_path):
    rng = random.Random(4)
    right, paths = [], []
    for number in range(2):
        content = []
        for at in range(4000):
            while rng.random() < 1 / 3:
                wrong = rng.choice([rng.randrange(START - 10 * SECOND), rng.randrange(2 * START), 2 * START])
                content.append(Packet(wrong // 1000 * 1000, b"wrong", 5))
            content.append(Packet(START + (2 * at + number) * 1_000_000, b"right", 5))
        # Behind the last packet nobody tells what is wrong.
        content += [Packet(START + at * SECOND, b"end", 3) for at in range(100, 400)]
        paths.append(tmp_path / f"{number}.pcapng")
        paths[-1].write_bytes(pcapng(content))
    for block_size in (500, 100_000):
        result = read(*paths, block_size=block_size)
        right = [packet.time for packet in result.packets if packet.data == b"right"]
        assert right == [START + at * 1_000_000 for at in range(8000)]


def test_a_wrong_time_at_the_begin_of_a_file_is_not_that_of_the_file(tmp_path):
    content = packets(90)
    ahead = Packet(START + 3600 * SECOND, b"ahead", 5)
    paths = write(tmp_path, [ahead, *content[30:60]], content[:30], content[60:])
    assert read(*paths).packets == [*content[:30], ahead, *content[30:]]


def test_packets_without_a_time_stay_behind_the_packet_before_them(tmp_path):
    paths = [tmp_path / name for name in "abcd"]
    ticks = START // 1000
    paths[0].write_bytes(pcap([Packet(START + i * 1000, b"a%d" % (i // 10), 2) for i in (0, 10, 20)]))
    file = Pcapng().section().interface().simple(b"b0", 2).enhanced(ticks + 5, b"b1", 2)
    paths[1].write_bytes(file.simple(b"b2", 2).enhanced(ticks + 15, b"b3", 2).bytes())
    paths[2].write_bytes(Pcapng().section().interface().simple(b"c0", 2).bytes())
    paths[3].write_bytes(Pcapng().section().interface().bytes())
    result = read(*paths)
    assert [packet.data for packet in result.packets] == [
        b"a0",
        b"b0",
        b"c0",
        b"b1",
        b"b2",
        b"a1",
        b"b3",
        b"a2",
    ]
    assert result.messages == []


def test_what_cannot_be_read_does_not_stop_the_others(tmp_path):
    content = packets(40)
    paths = write(tmp_path, content[:20], content[20:])
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(pcap(packets(5, start=START + 500))[:-3])
    bare = tmp_path / "bare.pcap"
    bare.write_bytes(pcap(content)[:30])
    text = tmp_path / "notes.txt"
    text.write_text("hello")
    result = read(text, paths[1], tmp_path / "missing", cut, paths[0], bare)
    assert [
        packet for packet, frame in zip(result.packets, result.frames, strict=True) if frame[0] != 3
    ] == content
    assert sum(file == 3 for file, _ in result.frames) == 4
    assert sorted((type(error).__name__, error.unread) for error in result.timeline.errors) == [
        ("CaptureError", True),
        ("TruncatedCaptureError", False),
        ("TruncatedCaptureError", True),
        ("UnreadableError", True),
    ]
    assert all(isinstance(error, CaptureError) for error in result.timeline.errors)
    assert sum(isinstance(error, TruncatedCaptureError) for error in result.timeline.errors) == 2


def test_a_timeline_without_files_is_empty():
    timeline = open_timeline([])
    assert list(timeline) == []
    assert timeline.bytes_total == 0


def test_secrets_and_drops_of_all_files(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].write_bytes(Pcapng().section().secrets(b"only secrets").bytes())
    paths[1].write_bytes(Pcapng(">").section().interface().statistics(0, osdrop=2).secrets(b"b").bytes())
    timeline = read(*paths).timeline
    assert timeline.secrets == [b"only secrets", b"b"]
    assert timeline.status.kernel_drops == 2


def test_hundreds_of_files_need_few_descriptors(tmp_path):
    count = 300
    content = packets(count * 4)
    rotated = write(tmp_path, *(content[i * 4 : i * 4 + 4] for i in range(count)))
    overlapping = [tmp_path / f"o{i}.pcapng" for i in range(count)]
    for i, path in enumerate(overlapping):
        path.write_bytes(pcapng(content[i::count]))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (min(max(map(int, os.listdir("/proc/self/fd"))) + 8, hard), hard)
    )
    try:
        for paths in (rotated, overlapping):
            result = read(*paths)
            assert result.packets == content
            assert result.messages == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == opened
    assert result.frames[0][0] << FRAME_BITS == 0
