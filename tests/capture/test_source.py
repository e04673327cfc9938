import os
import subprocess
import sys
import threading

import pytest
from capture_files import COMPRESS, Pcapng, packets, pcap, pcapng, read
from hypothesis import given, settings
from hypothesis import strategies as st

from kinspect.capture import open_timeline
from kinspect.capture.fileformats import FORMATS

NAMES = ", ".join(row.name for row in FORMATS)
NOT_A_CAPTURE = f"not a capture ({NAMES}, or one of them compressed with gzip, zstd or lz4)"


def test_what_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "notes.txt").write_text("nothing of interest\n")
    (tmp_path / "short").write_bytes(b"\xd4\xc3")
    (tmp_path / "folder").mkdir()
    for name, message in {
        "missing.pcap": "no such file",
        "empty.pcap": "is empty",
        "notes.txt": NOT_A_CAPTURE,
        "short": NOT_A_CAPTURE,
        "folder": "is a directory, not a capture; name the files in it",
    }.items():
        result = read(tmp_path / name)
        assert result.packets == []
        assert result.messages == [f"{tmp_path / name}: {message}"]
        assert result.timeline.errors[0].unread
        assert result.timeline.errors[0].status == 1


def test_no_permission(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("kinspect.capture.source.io.FileIO", refuse)
    assert read(tmp_path / "x").messages == [f"{tmp_path / 'x'}: no permission to read it"]


def test_nothing_is_opened_before_it_is_asked_for(tmp_path):
    timeline = open_timeline([tmp_path / "missing"])
    assert timeline.errors == []
    assert timeline.bytes_total == 0
    assert list(timeline) == []
    assert len(timeline.errors) == 1


def test_a_timeline_that_is_left_early_closes_its_file(tmp_path):
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(packets(100)))
    before = len(os.listdir("/proc/self/fd"))
    timeline = open_timeline([path], block_size=100)
    next(iter(timeline))
    assert len(os.listdir("/proc/self/fd")) == before + 1
    assert 0 < timeline.status.bytes_read < timeline.bytes_total
    timeline.close()
    assert len(os.listdir("/proc/self/fd")) == before


SCRIPT = """
import sys
from kinspect.capture import open_timeline
timeline = open_timeline(sys.argv[1:])
for block in timeline:
    print(len(block), flush=True)
print(timeline.bytes_total, timeline.status.bytes_read, [str(error) for error in timeline.errors])
"""


def start(*paths: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *paths],
        stdin=options.get("stdin", subprocess.PIPE),
        stdout=subprocess.PIPE,
    )


@pytest.mark.parametrize("wrap", [lambda data: data, *COMPRESS.values()], ids=["plain", *COMPRESS])
def test_standard_input_shows_packets_as_they_arrive(wrap):
    content = packets(4)
    first, second = pcap(content[:3]), pcap(content)
    process = start("-")
    with process:
        if wrap(b"") == b"":
            # Half a packet more than what is to be seen.
            process.stdin.write(first + second[len(first) : len(first) + 20])
            rest = second[len(first) + 20 :]
        else:
            process.stdin.write(wrap(first))
            rest = wrap(second[len(first) :])
        process.stdin.flush()
        assert process.stdout.readline() == b"3\n"  # while the pipe is still open
        process.stdin.write(rest)
        process.stdin.close()
        assert process.stdout.readline() == b"1\n"
        assert process.stdout.readline().startswith(b"None ")
        assert process.wait() == 0


def test_standard_input_beside_a_file_and_twice(tmp_path):
    content = packets(10)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(content[5:]))
    process = start("-", str(path), "-")
    out, _ = process.communicate(pcapng(content[:5]))
    assert out.splitlines()[:2] == [b"5", b"5"]
    assert b"standard input: was named twice, but can be read only once" in out


def test_empty_closed_and_text_standard_input(tmp_path):
    out, _ = start("-").communicate(b"")
    assert b"'standard input: is empty'" in out
    out, _ = start("-").communicate(b"hello world")
    assert f"'standard input: {NOT_A_CAPTURE}'".encode() in out
    script = "import sys; sys.stdin = None\n" + SCRIPT
    out = subprocess.run([sys.executable, "-c", script, "-"], capture_output=True, check=True).stdout
    assert b"'standard input: is closed'" in out


def test_named_pipes_are_read_once_and_merged(tmp_path):
    content = packets(20)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(content[::2]))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(pcapng(content[1::2])))
    writer.start()
    result = read(path, pipe)
    writer.join()
    assert result.packets == content
    assert result.timeline.bytes_total is None


def test_a_file_replaced_while_it_is_read_is_not_mixed_with_its_successor(tmp_path):
    paths = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path in paths:
        path.write_bytes(pcap(packets(100)))
    timeline = open_timeline(paths, block_size=500)
    blocks = iter(timeline)
    next(blocks)
    other = tmp_path / "new"
    other.write_bytes(pcap(packets(100)))
    other.replace(paths[0])
    seen = sum(len(block) for block in blocks)
    assert [str(error) for error in timeline.errors] == [
        f"{paths[0]}: was replaced by another file while it was read"
    ]
    assert 100 <= seen < 199


WHOLE = [
    pcap(packets(5)),
    pcap(packets(5), order=">", magic=0xA1B2CD34),
    pcapng(packets(5)),
    Pcapng(">").section().interface().simple(b"x", 1).statistics(0, ifdrop=1).secrets(b"x").bytes(),
]
HEADS = [data[:size] for data in WHOLE for size in (4, 24, 28)]
COMPRESSED_HEADS = [
    compress(data)[:size] for compress in COMPRESS.values() for data in WHOLE for size in (4, 12)
]


@settings(max_examples=300, deadline=None)
@given(head=st.sampled_from(HEADS + COMPRESSED_HEADS), tail=st.binary(max_size=300))
def test_any_bytes_behind_a_magic_number_give_packets_or_a_capture_error(tmp_path_factory, head, tail):
    path = tmp_path_factory.getbasetemp() / "random"
    path.write_bytes(head + tail)
    assert len(read(path).messages) <= 1


@settings(max_examples=300, deadline=None)
@given(
    data=st.sampled_from(WHOLE + [compress(data) for compress in COMPRESS.values() for data in WHOLE]),
    changes=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
    block_size=st.sampled_from([1, 64, 4096]),
)
def test_any_change_gives_packets_or_a_capture_error(tmp_path_factory, data, changes, block_size):
    changed = bytearray(data)
    for at, value in changes:
        changed[at % len(data)] = value
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(changed)
    result = read(path, block_size=block_size)
    assert len(result.messages) <= 1
    whole = read(path)
    assert result.packets == whole.packets or len(result.messages) == 1
