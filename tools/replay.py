"""The live view of a recorded capture: its packets are shown as if they came now, by the capture's own clock.

The frame at the capture's end is printed, or written as a picture.
"""

from __future__ import annotations

import argparse
import io
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cells import in_cells
from console_blocks import ROOT
from rich.console import Console
from rich.text import Text

from kinspect.answers.counter import AnswerCounter
from kinspect.capture import open_timeline
from kinspect.model import NS_PER_SECOND, Block
from kinspect.pipeline import Inspector
from kinspect.tui.live.liveloop import LiveView
from kinspect.tui.live.livepage import LOOK_NS
from kinspect.tui.live.picture import CaptureState

BLOCK_NS = 250_000_000


class Paper:
    """A screen that keeps the last frame. `keys`: the keys pressed on it."""

    said = ""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self.keys = ""
        self.lines: list[Text] = []
        self.frames = 0

    def __enter__(self) -> Paper:
        return self

    def __exit__(self, *_: object) -> None: ...

    def pressed(self) -> str:
        keys, self.keys = self.keys, ""
        return keys

    def draw(self, lines: Sequence[Text]) -> None:
        self.lines = [*lines]
        self.frames += 1


def replay(capture: str, paper: Paper, keys: str = "", first: str = "") -> None:
    """Show the capture to its end, with the keys `first` pressed before the first frame, and `keys` before the last
    one. `capture`: a path from the repository's root."""
    inspector = Inspector(files=["lo"], emit=frozenset({"exchange", "connection"}))
    blocks = list(_pieces(open_timeline([str(ROOT / capture)])))
    now = blocks[0].times[0] or 0
    view = LiveView(
        paper,  # type: ignore[arg-type]
        "lo",
        lambda: None,
        utc=True,
        clock=lambda: now,
        wall=lambda: now / NS_PER_SECOND,
    )

    def status() -> CaptureState:
        counts = inspector.counts
        return CaptureState(counts.packets, counts.bytes, connections=inspector.open_connections)

    def answered(counted: AnswerCounter) -> dict[str, Any]:
        span = blocks[0].times[0], inspector.end[0]
        return counted.objects(inspector.summary(), inspector.names, span)[0]

    paper.keys = first
    with view.at_work(status, answered):
        for block in blocks:
            now = block.times[-1] or 0
            for line in [*inspector.feed(block), *inspector.idle()]:
                view.take(line)
            view.flush()
        paper.keys = keys
        # Pages look at their rows less often.
        now += LOOK_NS if first else BLOCK_NS
        view.flush()


def _pieces(blocks: Iterator[Block]) -> Iterator[Block]:
    """The packets in blocks of a quarter of a second, as an interface gives them."""
    for block in blocks:
        times = [time or 0 for time in block.times]
        begin = 0
        for end in range(1, len(times) + 1):
            if end == len(times) or times[end] >= times[begin] + BLOCK_NS:
                some = slice(begin, end)
                yield Block(
                    block.data,
                    block.first_frame + begin,
                    block.times[some],
                    block.starts[some],
                    block.ends[some],
                    block.wire_lengths[some],
                    block.link_types[some],
                )
                begin = end


def svg(capture: str, size: tuple[int, int], title: str, keys: str = "", first: str = "") -> str:
    """A picture of the view at the end of the capture."""
    paper = Paper(size)
    replay(capture, paper, keys, first)
    console = Console(
        file=io.StringIO(), width=size[0], record=True, force_terminal=True, color_system="truecolor"
    )
    for line in paper.lines:
        console.print(line, soft_wrap=True)
    return in_cells(console.export_svg(title=title))


def main(arguments: Sequence[str] | None = None) -> None:
    """Show the capture that the arguments name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    width, height = shutil.get_terminal_size()
    parser.add_argument("capture", help="a capture with Kafka in it, as `kinspect read` takes it")
    parser.add_argument("--size", default=f"{width}x{height}", help="of the screen (default: %(default)s)")
    parser.add_argument("--keys", default="", help="pressed before the last frame: w, or a space to hold")
    parser.add_argument(
        "--first", default="", help="pressed before the first frame: 4, for the page of groups"
    )
    parser.add_argument("--svg", metavar="FILE", help="write a picture in place of text")
    given = parser.parse_args(arguments)
    columns, _, lines = given.size.partition("x")
    if not (columns.isdecimal() and lines.isdecimal()):
        parser.error(f"--size {given.size}: give columns and lines, as 130x36")
    size = int(columns), int(lines)
    capture = str(Path(given.capture).resolve())
    if given.svg:
        Path(given.svg).write_text(
            svg(capture, size, f"kinspect live {Path(capture).name}", given.keys, given.first), "utf-8"
        )
        return
    paper = Paper(size)
    replay(capture, paper, given.keys, given.first)
    for line in paper.lines:
        print(line.plain.rstrip())


if __name__ == "__main__":
    main()
