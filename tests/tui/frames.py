"""Frames of the live view over a capture, in sizes of terminals; run as a program it writes them anew."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import replay

FRAMES = Path(__file__).with_name("frames")
SIZES = ((80, 24), (60, 15), (130, 40), (200, 60))
CAPTURE = "captures/4.4.0/groups_classic.pcap.gz"


def frame(size: tuple[int, int], keys: str = "", capture: str = CAPTURE) -> list[str]:
    """The lines at the capture's end; `keys`: pressed before the last frame."""
    paper = replay.Paper(size)
    replay.replay(capture, paper, keys=keys)
    return [line.plain for line in paper.lines]


def kept(size: tuple[int, int]) -> Path:
    return FRAMES / f"{size[0]}x{size[1]}.txt"


if __name__ == "__main__":
    FRAMES.mkdir(exist_ok=True)
    for each in SIZES:
        kept(each).write_text("".join(f"{line.rstrip()}\n" for line in frame(each)), "utf-8")
