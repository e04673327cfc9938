"""Contract of every capture format: it is read as the pcap it was made of is, also from the middle on, plain and
compressed, and whatever is wrong with the file.

A row of `kinspect.capture.fileformats` is tested here as soon as `support.formats` has a writer of its name, and fails
until then. What else names the formats is held against the table.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import lz4.frame
import pytest
from fuzz.targets import NAMES as TARGETS
from hypothesis import given
from hypothesis import strategies as st
from support.formats import WRITERS
from support.packets import Packet, packets
from support.reading import texts
from support.tui import indexed

import kinspect
from kinspect.capture import open_timeline
from kinspect.capture.compressed import zstd_library
from kinspect.capture.fileformats import FORMATS
from kinspect.cli import CAPTURE_NAME
from kinspect.cli.pasted import message_bytes
from kinspect.cli.readcommand import read
from kinspect.errors import CaptureError, KinspectError, TruncatedCaptureError
from kinspect.kafka.view.view import View
from kinspect.tui.index import export, reread

DOCS = Path(__file__).parents[2] / "docs"
CAPTURE = Path(__file__).parents[2] / "captures" / "4.4.0" / "mtu1500.pcap.gz"
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstd_library().compress,
    "lz4": lz4.frame.compress,
}
VIEW = View(records=True, payload="text")
FILE = frozenset({"file"})

each_format = pytest.mark.parametrize("name", [row.name for row in FORMATS])
each_compression = pytest.mark.parametrize("compression", COMPRESS)


def written(name: str, content: Sequence[Packet]) -> bytes:
    assert name in WRITERS, f"{name} has no writer: a function and a row in tests/support/formats.py"
    return WRITERS[name](content)


@pytest.fixture
def path(name: str, compression: str, tmp_path: Path) -> Path:
    """The capture in a format, compressed or not."""
    path = tmp_path / "capture"
    path.write_bytes(COMPRESS[compression](written(name, packets(CAPTURE))))
    return path


def lines(path: Path) -> list[str]:
    return texts([exchange.to_dict(VIEW) for exchange in kinspect.read(path)], FILE)


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return lines(CAPTURE)


@pytest.fixture
def no_second_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def again(*_: object) -> None:
        raise AssertionError("read the capture once more from its start")

    monkeypatch.setattr(reread, "again", again)


def every_packet(path: Path, block_size: int = 96 * 1024) -> tuple[list[Packet], list[CaptureError]]:
    timeline = open_timeline([path], block_size=block_size)
    found = []
    for block in timeline:
        for index, (start, end) in enumerate(zip(block.starts, block.ends, strict=True)):
            data = block.data[start:end]
            cut = block.wire_lengths[index] - len(data)
            assert cut >= 0
            found.append(
                Packet(block.times[index], data, block.first_frame + index, cut, block.link_types[index])
            )
    assert [packet.origin for packet in found] == [*range(1, len(found) + 1)]
    return found, timeline.errors


def same_packets(found: Sequence[Packet], expected: Sequence[Packet]) -> None:
    """Assert that the packets are the expected ones; a frame check sequence may follow their bytes."""
    for packet, original in zip(found, expected, strict=True):
        assert (packet.time, packet.link_type) == (original.time, original.link_type)
        assert packet.data.startswith(original.data)
        assert len(packet.data) + packet.cut - len(original.data) - original.cut in (0, 4)


@each_format
@each_compression
def test_read(path: Path, expected: list[str]) -> None:
    found, errors = every_packet(path)
    assert errors == []
    same_packets(found, packets(CAPTURE))
    assert lines(path) == expected


@each_format
@each_compression
def test_read_again_in_the_explorer(
    path: Path, compression: str, expected: list[str], no_second_reading: None
) -> None:
    store = indexed(path)
    found = [store.exchange(number).to_dict(VIEW) for number in range(store.count)]
    assert texts(found, FILE) == expected
    assert bool(store.spool.size) == (compression != "plain")


@each_format
def test_read_on_in_the_middle(name: str, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(written(name, packets(CAPTURE)))
    whole, _ = every_packet(path)
    store = indexed(path)
    (begins,) = store.places._frames
    assert len(begins) > 1, "nothing was read on"
    for first in begins:
        found = [
            (block.first_frame + index, block.times[index], block.data[start:end], block.link_types[index])
            for block in store.places.blocks(first)
            for index, (start, end) in enumerate(zip(block.starts, block.ends, strict=True))
        ]
        assert found == [(p.origin, p.time, p.data, p.link_type) for p in whole[first - 1 :]]


def saved(path: Path, folder: Path) -> Path:
    """File that the explorer saves for every second exchange."""
    store = indexed(path)
    target = folder / "saved.pcapng"
    with target.open("wb") as file:
        assert export.save(store, range(0, store.count, 2), file).timeless == 0
    return target


@pytest.fixture(scope="module")
def expected_saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(CAPTURE, tmp_path_factory.mktemp("expected"))


@each_format
@each_compression
def test_exported_from_the_explorer(path: Path, expected_saved: Path, tmp_path: Path) -> None:
    target = saved(path, tmp_path)
    same_packets(every_packet(target)[0], every_packet(expected_saved)[0])
    assert lines(target) == lines(expected_saved)


@each_format
def test_a_capture_is_no_message(name: str) -> None:
    with pytest.raises(KinspectError, match="this is a capture: use `kinspect read`"):
        message_bytes(written(name, packets(CAPTURE)))


@each_format
def test_what_names_the_formats_names_it(name: str) -> None:
    guide = (DOCS / "guide.md").read_text("utf-8").split("## Formats")[1]
    intro = (DOCS.parent / "README.md").read_text("utf-8").split("##")[0]
    named = {
        "the help of `kinspect read`": re.search(rf"\b{name}\b", read.help or ""),
        "a row under Formats in docs/guide.md": f"\n| {name} |" in guide,
        "the first paragraphs of README.md": re.search(rf"\b{name}\b", intro),
        "the endings of CAPTURE_NAME in kinspect/cli/__init__.py": CAPTURE_NAME.fullmatch(
            f"x.{name.lower()}"
        ),
        "a module and NAMES of tests/fuzz/targets": name.lower() in TARGETS,
    }
    assert [place for place, there in named.items() if not there] == [], f"{name} is to be named there too"


# ---------------------------------------------------------------------- what is cut, changed or comes in pieces

FEW = [packet for packet in packets(CAPTURE) if len(packet.data) < 200][:8]
# In an ERF record nothing tells padding from the bytes of a cut packet: with this length there is none.
SNAP_LENGTH = 62
CUT = [packet._replace(data=packet.data[:SNAP_LENGTH], cut=len(packet.data) - SNAP_LENGTH) for packet in FEW]


@each_format
@pytest.mark.parametrize("block_size", [1, 7, 100, 1000])
def test_the_size_of_blocks_does_not_matter(name: str, block_size: int, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(written(name, FEW + CUT))
    assert every_packet(path, block_size) == every_packet(path)


@each_format
def test_packets_cut_by_the_snap_length(name: str, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(written(name, CUT))
    found, _ = every_packet(path)
    assert [packet.data for packet in found] == [packet.data for packet in CUT]
    same_packets(found, CUT)


@each_format
def test_every_cut_gives_the_packets_before_it(name: str, tmp_path: Path) -> None:
    data = written(name, FEW)
    path = tmp_path / "capture"
    path.write_bytes(data)
    whole, _ = every_packet(path)
    before = 0
    for size in range(1, len(data)):
        path.write_bytes(data[:size])
        found, errors = every_packet(path)
        assert found == whole[: len(found)]
        assert before <= len(found) <= before + 1
        assert len(errors) <= 1
        assert not found or not errors or isinstance(errors[0], TruncatedCaptureError)
        before = len(found)
    assert before >= len(FEW) - 1


@each_format
@given(data=st.data())
def test_any_change_gives_packets_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    changed = bytearray(written(name, FEW))
    for at, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(changed) - 1), st.integers(0, 255)), max_size=4)
    ):
        changed[at] = value
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(changed)
    found, errors = every_packet(path)
    assert len(errors) <= 1
    assert every_packet(path, 7)[0] == found
