"""Frames of the live view over a capture, in sizes of terminals; run as a program it writes them anew."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import replay

FRAMES = Path(__file__).with_name("frames")
SIZES = ((80, 24), (60, 15), (130, 40), (200, 60))
PAGES = ("", "4")
CAPTURE = "captures/4.4.0/groups_classic.pcap.gz"


def frame(size: tuple[int, int], keys: str = "", capture: str = CAPTURE, first: str = "") -> list[str]:
    """The lines at the capture's end; `keys`: pressed before the last frame; `first`: before the first one."""
    paper = replay.Paper(size)
    replay.replay(capture, paper, keys=keys, first=first)
    return [line.plain for line in paper.lines]


def kept(size: tuple[int, int], page: str = "") -> Path:
    return FRAMES / f"{size[0]}x{size[1]}{page and f'-{page}'}.txt"


if __name__ == "__main__":
    FRAMES.mkdir(exist_ok=True)
    for each, page in product(SIZES, PAGES):
        lines = frame(each, first=page)
        kept(each, page).write_text("".join(f"{line.rstrip()}\n" for line in lines), "utf-8")
